//! Values held to a chart's schema. A line `=====` ends the schema and begins the values.

#![no_main]

use convoy_fuzz::render_twice;
use convoy_helm::{Chart, Values};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let (schema, values) = match text.windows(7).position(|window| window == b"\n=====\n") {
        Some(at) => (&text[..at], &text[at + 7..]),
        None => (text, &b""[..]),
    };
    let files = [
        ("Chart.yaml", &b"apiVersion: v2\nname: x\nversion: 1.0.0\n"[..]),
        ("values.yaml", values),
        ("values.schema.json", schema),
    ];
    let Ok(chart) = Chart::load(files.map(|(name, text)| (name.to_owned(), text))) else { return };
    let _ = render_twice(&chart, &Values::new());
});
