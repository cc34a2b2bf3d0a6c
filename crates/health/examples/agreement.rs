//! Compares the built-in rules with what others expect: reads JSON lines `{"from", "state", "object"}` from standard
//! input, and says for each kind how many objects get the expected state, and which do not.
//!
//! `cargo run -p convoy-health --example agreement < facts.jsonl`
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::collections::BTreeMap;
use std::io::BufRead as _;

use convoy_health::health_of;
use serde_json::Value;

fn main() {
    // After all that the objects tell of.
    let now = jiff::Timestamp::MAX;
    let mut kinds: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(fact) = serde_json::from_str::<Value>(&line) else { continue };
        let api_version = text(&fact, "/object/apiVersion");
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let kind = format!("{group}/{}", text(&fact, "/object/kind"));
        let (agreed, others) = kinds.entry(kind).or_default();
        let health = health_of(&fact["object"], now);
        let expected = text(&fact, "/state");
        if health.state.as_str() == expected {
            *agreed += 1;
        } else {
            others.push(format!(
                "{}: expected {expected}, got {} ({}: {})",
                text(&fact, "/from"),
                health.state.as_str(),
                health.reason,
                health.message
            ));
        }
    }
    let (mut objects, mut agreed_objects, mut whole) = (0, 0, 0);
    for (kind, (agreed, others)) in &kinds {
        println!("{kind}: {agreed} of {}", agreed + others.len());
        others.iter().for_each(|other| println!("    {other}"));
        objects += agreed + others.len();
        agreed_objects += agreed;
        whole += usize::from(others.is_empty());
    }
    println!("{agreed_objects} of {objects} objects, {whole} of {} kinds without a difference", kinds.len());
}
