//! Properties of every input: nothing panics, and what is written reads as what it was.

use proptest::prelude::*;
use serde_json::{Map, Value};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "[a-c:#\\-?\\[\\]{}&*!|>'\"%@` \n\t,]{0,16}",
        "(yes|no|null|~|0x1f|017|1_0|1e3|\\.5|2020-01-01|1:20|<<|=){1}[ \n:]?",
        "\\PC{0,6}",
    ]
}

/// Go writes the key `<<` without quotes, and then reads it as a merge.
fn key() -> impl Strategy<Value = String> {
    text().prop_filter("reads as a merge", |key| key != "<<")
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f32>()
            .prop_filter("JSON has no other", |f| f.is_finite() && f.fract() != 0.0)
            .prop_map(|f| Value::from(f64::from(f))),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_as_what_it_was(value in value()) {
        let yaml = convoy_yaml::to_yaml(&value).unwrap();
        prop_assert_eq!(convoy_yaml::to_json(yaml.as_bytes()).unwrap(), value, "{}", yaml);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = convoy_yaml::to_json(&bytes);
    }

    #[test]
    fn no_text_of_indicators_makes_the_reader_panic(text in "[-a:?\\[\\]{},&*!|>'\"%#@` \n\t\r.<\u{85}\u{2028}é]{0,60}") {
        let _ = convoy_yaml::to_json(text.as_bytes());
        let _ = convoy_yaml::to_json_strict(text.as_bytes());
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    for text in ["[".repeat(200_000), "- ".repeat(200_000), "{a: ".repeat(200_000)] {
        assert!(convoy_yaml::to_json(text.as_bytes()).is_err());
    }
}

#[test]
fn deep_nesting_by_aliases_is_an_error_and_not_a_crash() {
    let mut text = String::from("a0: &a0 [x]\n");
    for i in 1..5000 {
        text.push_str(&format!("a{i}: &a{i} [*a{}]\n", i - 1));
    }
    assert!(convoy_yaml::to_json(text.as_bytes()).is_err());
}

#[test]
fn a_billion_laughs_are_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let aliases = vec![format!("*a{}", i - 1); 9].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
    }
    let error = convoy_yaml::to_json(text.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");
}
