//! Names, labels and annotations: what Kubernetes allows, in its own words.
//!
//! Each check returns what is wrong, as `k8s.io/apimachinery/pkg/util/validation` words it, and
//! nothing when all is well.

use serde_json::Value;

use crate::field_error::FieldError;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
/// All annotations of an object together, in bytes.
pub const TOTAL_ANNOTATION_SIZE_LIMIT: usize = 256 * 1024;

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether `text` is not empty, has only `edge` bytes at both ends and `edge` or `inner` between.
fn shaped(text: &str, edge: fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            edge(*first) && edge(*last) && bytes.iter().all(|byte| edge(*byte) || inner.contains(byte))
        }
        _ => false,
    }
}

fn max_length(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn pattern(message: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// A lowercase RFC 1123 label: what a Namespace is called.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_MAX {
        faults.push(max_length(LABEL_MAX));
    }
    if !shaped(text, lower_alphanumeric, b"-") {
        faults.push(pattern(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "123-abc"],
        ));
    }
    faults
}

/// A lowercase RFC 1123 subdomain: what most objects are called.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        faults.push(max_length(SUBDOMAIN_MAX));
    }
    if !text.split('.').all(|part| shaped(part, lower_alphanumeric, b"-")) {
        faults.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    faults
}

/// An RFC 1035 label: what a Service is called.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_MAX {
        faults.push(max_length(LABEL_MAX));
    }
    let starts_with_letter = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if !starts_with_letter || !shaped(text, lower_alphanumeric, b"-") {
        faults.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    faults
}

/// A name that only has to fit in a URL path: what a Role is called.
pub fn path_segment_name(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| text.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// `[prefix/]name`: keys of labels and annotations, finalizers.
pub fn qualified_name(text: &str) -> Vec<String> {
    const SHAPE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
    const EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
    let mut faults = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            let shape = pattern(SHAPE, PATTERN, EXAMPLES);
            return vec![format!(
                "a qualified name {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(
                    dns1123_subdomain(prefix).into_iter().map(|fault| format!("prefix part {fault}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        faults.push(format!("name part {}", max_length(LABEL_MAX)));
    }
    if !shaped(name, alphanumeric, b"-_.") {
        faults.push(format!("name part {}", pattern(SHAPE, PATTERN, EXAMPLES)));
    }
    faults
}

/// The value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_MAX {
        faults.push(max_length(LABEL_MAX));
    }
    if !text.is_empty() && !shaped(text, alphanumeric, b"-_.") {
        faults.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

/// All of `metadata.labels`; `path` is where they are.
pub fn labels(labels: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.extend(
            qualified_name(key).into_iter().map(|fault| FieldError::invalid(path, key.as_str(), fault)),
        );
        let text = value.as_str().unwrap_or_default();
        errors.extend(label_value(text).into_iter().map(|fault| FieldError::invalid(path, text, fault)));
    }
    errors
}

/// All of `metadata.annotations`; `path` is where they are.
pub fn annotations(annotations: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0_usize;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let faults = qualified_name(&key.to_lowercase());
        errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, key.as_str(), fault)));
        size = size.saturating_add(key.len()).saturating_add(value.as_str().map_or(0, str::len));
    }
    if size > TOTAL_ANNOTATION_SIZE_LIMIT {
        errors.push(FieldError::too_long(path, TOTAL_ANNOTATION_SIZE_LIMIT));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_kubernetes_judges_them() {
        type Check = fn(&str) -> Vec<String>;
        let long = "a".repeat(64);
        let table: &[(Check, &str, bool)] = &[
            (dns1123_label, "a", true),
            (dns1123_label, "a-1", true),
            (dns1123_label, "-a", false),
            (dns1123_label, "a.b", false),
            (dns1123_label, "A", false),
            (dns1123_label, "", false),
            (dns1123_label, &long, false),
            (dns1123_subdomain, "a.b", true),
            (dns1123_subdomain, &long, true),
            (dns1123_subdomain, "a..b", false),
            (dns1123_subdomain, "a.-b", false),
            (dns1035_label, "1a", false),
            (dns1035_label, "a1", true),
            (path_segment_name, "system:x", true),
            (path_segment_name, "a/b", false),
            (path_segment_name, "..", false),
            (qualified_name, "example.com/Name_1", true),
            (qualified_name, "a/b/c", false),
            (qualified_name, "/a", false),
            (qualified_name, "a/", false),
            (qualified_name, "A.com/x", false),
            (label_value, "", true),
            (label_value, "a_b.c-D", true),
            (label_value, "-a", false),
            (label_value, "a b", false),
            (label_value, "ü", false),
        ];
        for (check, text, valid) in table {
            assert_eq!(check(text).is_empty(), *valid, "{text}");
        }
    }

    #[test]
    fn a_bad_namespace_name_is_explained_in_kubernetes_words() {
        assert_eq!(
            dns1123_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
    }

    #[test]
    fn annotations_are_bounded_together() {
        let big = serde_json::json!({"a": "x".repeat(TOTAL_ANNOTATION_SIZE_LIMIT)});
        let errors = annotations(&big, "metadata.annotations");
        assert_eq!(
            errors[0].to_string(),
            "metadata.annotations: Too long: may not be more than 262144 bytes"
        );
    }
}
