//! Versions and constraints: lines are versions, but for the first, which is a constraint.

#![no_main]

use std::cmp::Ordering;

use convoy_helm::semver::{Constraints, Version, is_compatible};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut lines = text.split('\n').take(6);
    let constraint = lines.next().unwrap_or_default();
    let texts: Vec<&str> = lines.collect();
    let constraints = Constraints::parse(constraint);
    let versions: Vec<Version> = texts.iter().filter_map(|text| Version::parse(text).ok()).collect();
    for text in &texts {
        let is_met = match (&constraints, Version::parse(text)) {
            (Ok(constraints), Ok(version)) => constraints.check(&version),
            _ => false,
        };
        assert_eq!(is_compatible(constraint, text), is_met);
    }
    for one in &versions {
        // What is printed has all three numbers, and may be longer than is read.
        if one.to_string().len() < 200 {
            let again = Version::parse(&one.to_string()).expect("what is printed is a version");
            assert_eq!(one.compare(&again), Ordering::Equal, "{one}");
            assert!(is_compatible(&format!("={one}"), &one.to_string()), "{one} is not itself");
        }
        for other in &versions {
            assert_eq!(one.compare(other), other.compare(one).reverse(), "{one} and {other}");
            for third in &versions {
                if one.compare(other) == Ordering::Less && other.compare(third) == Ordering::Less {
                    assert_eq!(one.compare(third), Ordering::Less, "{one}, {other}, {third}");
                }
            }
        }
    }
});
