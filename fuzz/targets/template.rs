//! Parsing and running a template, with all of Helm's functions. The first byte chooses the version of Helm.

#![no_main]

use convoy_fuzz::{helm, render_twice};
use convoy_helm::{Chart, Values};
use libfuzzer_sys::fuzz_target;

const VALUES: &[u8] = br#"
text: "a-b.c/d"
number: 7
float: 1.5
yes: true
none:
list: [c, a, b, 3, {x: 1}]
map: {z: 1, a: {b: [1, 2]}}
template: "{{ .Values.number }}"
"#;

fuzz_target!(|input: &[u8]| {
    let Some((version, template)) = input.split_first() else { return };
    let files = [
        ("Chart.yaml", &b"apiVersion: v2\nname: x\nversion: 1.0.0\n"[..]),
        ("values.yaml", VALUES),
        ("templates/_own.tpl", br#"{{ define "own" }}{{ . | toJson }}{{ end }}"#),
        ("templates/x.yaml", template),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text));
    let chart = Chart::load_for(files, helm(*version)).expect("the chart's other files are whole");
    let _ = render_twice(&chart, &Values::new());
});
