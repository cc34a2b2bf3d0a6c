//! Reading values, laying them over others and coalescing them with those of a subchart. A line `=====` ends the chart's and begins
//! the user's.

#![no_main]

use convoy_fuzz::render_twice;
use convoy_helm::{Chart, Data, HelmVersion, RenderError, Values, lay_over, read_values};
use libfuzzer_sys::fuzz_target;

/// What is written and read again is written as before, unless it cannot be written or holds a merge. The line feed at the end, which
/// Helm takes away, belongs to a text that ends there.
const TEMPLATE: &[u8] = br#"
{{- $text := toYaml .Values -}}
{{- $again := fromYaml (print $text "\n") -}}
{{- if and $text (not (hasKey $again "Error")) (not (contains "<<" $text)) -}}
{{- if ne $text (toYaml $again) }}{{ fail (printf "%q is read and written as %q" $text (toYaml $again)) }}{{ end -}}
{{- end -}}
"#;

fuzz_target!(|text: &[u8]| {
    let (own, given) = match text.windows(7).position(|window| window == b"\n=====\n") {
        Some(at) => (&text[..at], &text[at + 7..]),
        None => (text, &b""[..]),
    };
    if let Ok(values) = read_values(own, HelmVersion::V3) {
        let json = convoy_yaml::to_json(own).expect("the other reader takes it, too");
        let same = match Data::from(&json) {
            Data::Map(same) => same,
            _ => Values::new(),
        };
        assert!(values == same, "two readers differ on {json}");
    }
    let Ok(given) = read_values(given, HelmVersion::V4) else { return };
    let mut laid = given.clone();
    lay_over(&mut laid, given.clone());
    assert!(laid == given, "values laid over themselves change");

    let chart = &b"apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, condition: on, tags: [t], import-values: [a, {child: c, parent: p}]}]\n"[..];
    let sub = &b"apiVersion: v2\nname: sub\nversion: 1.0.0\n"[..];
    let files = [
        ("Chart.yaml", chart),
        ("values.yaml", own),
        ("templates/x.yaml", TEMPLATE),
        ("charts/sub/Chart.yaml", sub),
        ("charts/sub/values.yaml", own),
        ("charts/sub/templates/x.yaml", TEMPLATE),
    ];
    let Ok(chart) = Chart::load(files.map(|(name, text)| (name.to_owned(), text))) else { return };
    if let Err(error @ RenderError::Execute { limit: None, .. }) = render_twice(&chart, &given) {
        panic!("{error}");
    }
});
