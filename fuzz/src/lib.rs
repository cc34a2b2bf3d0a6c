//! What the targets share: a render within small limits, and JSON values that are the same.

use convoy_helm::{
    Capabilities, Chart, Entropy, Environment, HelmVersion, Limits, ReleaseOptions, RenderError, Rendered,
    Values, render,
};
use serde_json::Value;

/// Bytes that all templates of a render may print.
pub const MAX_OUTPUT: usize = 1 << 20;

struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = self.0.to_be_bytes()[0];
        }
    }
}

/// The version of Helm that a byte chooses.
pub fn helm(byte: u8) -> HelmVersion {
    if byte & 1 == 0 { HelmVersion::V4 } else { HelmVersion::V3 }
}

/// A render within limits that a few milliseconds reach. The same chart and values give the same, and a render that nobody wants
/// any more ends with nothing.
pub fn render_twice(chart: &Chart, values: &Values) -> Result<Rendered, RenderError> {
    let once = |is_cancelled: bool| {
        let limits = Limits {
            max_steps: 300_000,
            max_output: MAX_OUTPUT,
            max_allocated: 8 << 20,
            max_text: 1 << 20,
            ..Limits::default()
        };
        let release = ReleaseOptions { limits, ..ReleaseOptions::default() };
        let mut environment =
            Environment::new(jiff::Timestamp::UNIX_EPOCH, Counter(1)).with_deadline(move || is_cancelled);
        render(chart, values, &release, &Capabilities::default(), &mut environment)
    };
    let (first, second) = (once(false), once(false));
    match (&first, &second) {
        (Ok(first), Ok(second)) => {
            assert!(first == second, "two renders differ");
            let printed: usize = first.manifests.iter().map(|manifest| manifest.content.len()).sum();
            assert!(printed <= MAX_OUTPUT, "{printed} bytes are printed");
        }
        (Err(first), Err(second)) => assert_eq!(first.to_string(), second.to_string()),
        _ => panic!("one of two renders fails: {first:?}, {second:?}"),
    }
    let _ = once(true);
    first
}

/// Whether two values are the same to whoever reads them: numbers by value.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|((name, one), (key, other))| name == key && same(one, other))
        }
        _ => one == other,
    }
}

/// Whether a mapping has the key `<<`, which Go writes without quotes and then reads as a merge.
pub fn has_merge_key(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_merge_key),
        Value::Object(entries) => entries.iter().any(|(key, value)| key == "<<" || has_merge_key(value)),
        _ => false,
    }
}
