//! Error texts of API servers without the content of Secrets.

use std::collections::BTreeSet;
use std::sync::Arc;

use convoy_api::annotation;
use convoy_plan::ObjectKey;
use serde_json::Value;

use crate::RequestError;

/// The longest error text that is passed on, in bytes: some servers put whole objects into it.
const LONGEST: usize = 1024;

/// The server's text about an object, cut to a bearable length. For a Secret only what cannot hold
/// its content is left: servers quote values of wrong type, of unknown fields and in webhooks' words.
pub(crate) fn scrub(key: Option<&ObjectKey>, text: &str) -> String {
    let is_secret = key.is_some_and(|key| key.group.is_empty() && key.kind == "Secret");
    if is_secret && !is_harmless(text) {
        let fields = fields_of_typed_patch(text);
        let at = if fields.is_empty() { String::new() } else { format!(" at {}", fields.join(", ")) };
        return format!(
            "the server refused the content{at} (its words are left out, for they may quote the Secret)"
        );
    }
    shorten(text)
}

/// Objects in which values stand that came from Secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecretsIn {
    /// None.
    #[default]
    None,
    /// Those of these names, each `Kind/name`.
    Named(Arc<BTreeSet<String>>),
    /// It is not known which: all.
    All,
}

impl SecretsIn {
    fn holds(&self, object: &Value) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Named(names) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                names.contains(&format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"])))
            }
        }
    }
}

/// An error about what was sent, without the server's words when the object holds what nobody is shown.
pub(crate) fn about(error: RequestError, sent: &Value, secrets: &SecretsIn) -> RequestError {
    let says_so = sent["metadata"]["annotations"][annotation::SENSITIVE_PATHS].is_string();
    if error.code == 0 || !(says_so || secrets.holds(sent)) || is_harmless(&error.message) {
        return error;
    }
    let message = "the server refused the content (its words are left out, for they may quote fields that the object calls \
                   sensitive, or values that came from a Secret)";
    RequestError { message: message.to_owned(), ..error }
}

/// Texts that the server makes of names alone.
fn is_harmless(text: &str) -> bool {
    text.contains("is forbidden: User \"")
        || text.contains("because it is being terminated")
        || text.contains("exceeded quota")
        || text.ends_with(" not found")
        || text.contains("in the precondition")
}

/// The field paths in a text of structured merge diff, such as
/// `.stringData.password: expected string, got …`. Only paths of plain names count, because a key in
/// brackets or a strange name may itself be content.
fn fields_of_typed_patch(text: &str) -> Vec<String> {
    let mut fields = Vec::new();
    for line in text.lines() {
        for part in line.split(' ') {
            let Some(path) = part.strip_suffix(':').filter(|path| path.starts_with('.')) else { continue };
            let is_plain = path.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
            if is_plain && path.len() < 128 && !fields.iter().any(|known| known == path) {
                fields.push(path.to_owned());
            }
        }
    }
    fields.truncate(8);
    fields
}

pub(crate) fn shorten(text: &str) -> String {
    let text = text.trim();
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &str) -> ObjectKey {
        ObjectKey { group: String::new(), kind: kind.into(), namespace: "web".into(), name: "s".into() }
    }

    /// The texts are those of kube-apiserver 1.36.
    #[test]
    fn case_201_no_content_of_a_secret_is_in_a_text_and_fields_are() {
        let table = [
            (
                "failed to create typed patch object (/s; /v1, Kind=Secret): .stringData.password: expected string, got &value.valueUnstructured{Value:20262026}",
                "the server refused the content at .stringData.password (its words",
            ),
            (
                "failed to create typed patch object (/s; /v1, Kind=Secret): .stringData.password: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"deep\":\"20262026\"}}",
                "the server refused the content at .stringData.password (its words",
            ),
            (
                "Secret \"s\" is invalid: data[20262026]: Invalid value: \"20262026\": a valid config key must consist of",
                "the server refused the content (its words",
            ),
            (
                "failed to convert new object (/s; /v1, Kind=Secret) to proper version: unable to convert unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 6",
                "the server refused the content (its words",
            ),
            (
                "admission webhook \"w\" denied the request: password 20262026 is weak",
                "the server refused the content (its words",
            ),
        ];
        for (text, want) in table {
            let scrubbed = scrub(Some(&key("Secret")), text);
            assert!(scrubbed.starts_with(want), "{scrubbed}");
            assert!(!scrubbed.contains("20262026"), "{scrubbed}");
            assert_eq!(scrub(Some(&key("ConfigMap")), text), text);
        }
        let forbidden = "secrets \"s\" is forbidden: User \"system:serviceaccount:team:deployer\" cannot patch resource \"secrets\" in API group \"\" in the namespace \"web\"";
        assert_eq!(scrub(Some(&key("Secret")), forbidden), forbidden);
    }

    #[test]
    fn what_an_object_calls_sensitive_is_not_quoted() {
        let error = |code, message: &str| RequestError {
            class: crate::Class::Denied,
            code,
            message: message.to_owned(),
            fields: Vec::new(),
        };
        let plain = serde_json::json!({"metadata": {"name": "a"}});
        let sensitive =
            serde_json::json!({"metadata": {"annotations": {annotation::SENSITIVE_PATHS: "/spec/a"}}});
        let quoting = error(422, "spec.a: Invalid value: \"CANARY\"");
        let about = |error: RequestError, object: &Value| super::about(error, object, &SecretsIn::None);
        assert_eq!(about(quoting.clone(), &plain), quoting);
        let scrubbed = about(quoting.clone(), &sensitive);
        assert!(!scrubbed.message.contains("CANARY") && scrubbed.code == 422, "{scrubbed:?}");
        for kept in [error(0, "the target did not answer"), error(404, "namespaces \"a\" not found")] {
            assert_eq!(about(kept.clone(), &sensitive), kept);
        }
        // What a chart made of a Secret's value says nothing of it.
        let of_chart = serde_json::json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
        let named = |name: &str| SecretsIn::Named(Arc::new([name.to_owned()].into()));
        for (secrets, is_quoted) in [
            (named("ConfigMap/a"), false),
            (SecretsIn::All, false),
            (named("ConfigMap/b"), true),
            (named("Secret/a"), true),
            (SecretsIn::None, true),
        ] {
            let told = super::about(quoting.clone(), &of_chart, &secrets);
            assert_eq!(told.message.contains("CANARY"), is_quoted, "{secrets:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        assert!(scrub(None, &"é".repeat(5000)).len() < 1100);
    }
}
