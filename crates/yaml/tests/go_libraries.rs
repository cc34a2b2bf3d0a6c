//! What Go's libraries made of the inputs in `data/`: sigs.k8s.io/yaml v1.6.0 on go.yaml.in/yaml v2.4.3.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use serde_json::Value;

fn cases(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text<'a>(case: &'a Value, field: &str) -> Option<&'a str> {
    case.get(field).and_then(Value::as_str)
}

#[test]
fn reads_what_go_reads_and_refuses_with_its_words() {
    let cases = cases(include_str!("data/read.jsonl"));
    assert!(cases.len() > 500);
    for case in &cases {
        let bytes = match text(case, "yaml") {
            Some(yaml) => yaml.as_bytes().to_vec(),
            None => decode_base64(text(case, "base64").unwrap()),
        };
        let strict = case.get("strict").is_some();
        let read = if strict { convoy_yaml::to_json_strict(&bytes) } else { convoy_yaml::to_json(&bytes) };
        match (text(case, "json"), text(case, "error")) {
            (Some(json), None) => {
                let wanted: Value = serde_json::from_str(json).unwrap();
                assert_eq!(read.as_ref(), Ok(&wanted), "{case}");
            }
            (None, Some(error)) => {
                let found = read.unwrap_err();
                assert_eq!(found.to_string(), error, "{case}");
                let (line, column) = found.position().unwrap();
                assert!(line > 0 && column > 0, "{case}");
            }
            _ => panic!("neither value nor error: {case}"),
        }
    }
}

#[test]
fn writes_byte_for_byte_what_go_writes() {
    let cases = cases(include_str!("data/write.jsonl"));
    assert!(cases.len() > 500);
    for case in &cases {
        let value: Value = serde_json::from_str(text(case, "json").unwrap()).unwrap();
        assert_eq!(convoy_yaml::to_yaml(&value).unwrap(), text(case, "yaml").unwrap(), "{case}");
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    let symbol = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    let mut bits = 0_u32;
    let mut count = 0;
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        bits = (bits << 6) | u32::from(symbol(byte));
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
