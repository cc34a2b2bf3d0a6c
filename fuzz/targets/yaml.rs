//! Reading YAML: what was read and is written reads as what it was.

#![no_main]

use convoy_fuzz::{has_merge_key, same};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let documents = convoy_yaml::documents(text);
    assert!(documents.count() <= text.len() + 1);
    let value = convoy_yaml::to_json(text);
    if let Ok(strict) = convoy_yaml::to_json_strict(text) {
        assert_eq!(Some(strict), value.as_ref().ok().cloned(), "the strict reader is more than strict");
    }
    let Ok(value) = value else { return };
    let Ok(written) = convoy_yaml::to_yaml(&value) else { return };
    if has_merge_key(&value) {
        return;
    }
    match convoy_yaml::to_json(written.as_bytes()) {
        Ok(again) => assert!(same(&value, &again), "{value} is written as {written:?} and read as {again}"),
        Err(error) => panic!("{value} is written as {written:?}: {error}"),
    }
});
