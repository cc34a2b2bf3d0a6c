//! Which fields of an object would change, in words that hide what is secret.
//!
//! The comparison is made on what is really there; the mask is put on the way out. What comes out is [`Masked`]: text
//! for people, which cannot be made into an object again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The longest text of a value, in characters.
const LONGEST: usize = 160;
/// Fields of one object that are told.
const MOST: usize = 30;
/// What stands for a value that is not shown.
const HIDDEN: &str = "(hidden)";
/// Fields that no manifest has.
const OF_THE_SERVER: [&str; 7] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "uid",
    "selfLink",
    "deletionTimestamp",
];
/// What `kubectl apply` keeps the whole object in.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What hides values that came from Secrets, wherever they stand.
#[derive(Clone, Copy)]
pub struct Mask<'a> {
    /// Hides them in a text.
    pub text: &'a (dyn Fn(&str) -> String + Sync),
    /// Whether no value that is there is shown: it may be an earlier one, which nobody knows any more.
    pub hides_before: bool,
    /// Whether no value that would be there is shown.
    pub hides_after: bool,
}

impl std::fmt::Debug for Mask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("hides_before", &self.hides_before).finish_non_exhaustive()
    }
}

/// The text of a value, cut to a bearable length, with all that is secret hidden. It can only be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Masked(String);

impl Masked {
    fn of(value: &Value, mask: &dyn Fn(&str) -> String) -> Self {
        // Masked before it is cut: a part of a secret would not be known as one. Once more when it is written, for
        // what is no text, such as a number.
        let text = mask(&with_texts(value, mask).to_string());
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => Self(format!("{}…", text.get(..end).unwrap_or_default())),
            None => Self(text),
        }
    }

    fn hidden() -> Self {
        Self(HIDDEN.to_owned())
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl std::fmt::Debug for Masked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One field that would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Where.
    pub path: String,
    /// What it is; none when the field is new.
    pub before: Option<Masked>,
    /// What it would be; none when the field would go.
    pub after: Option<Masked>,
}

/// The fields that would change, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The first of them.
    pub fields: Vec<FieldChange>,
    /// How many were left out.
    pub omitted: usize,
}

impl Changes {
    /// What of an object would change.
    pub fn between(before: &Value, after: &Value, mask: Mask<'_>) -> Self {
        let is_secret = before["kind"] == "Secret" || after["kind"] == "Secret";
        let mut walk = Walk { changes: Self::default(), mask, is_secret };
        walk.fields("", before, after);
        walk.changes
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

/// The value with all its texts masked.
fn with_texts(value: &Value, mask: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => mask(text).into(),
        Value::Array(items) => items.iter().map(|item| with_texts(item, mask)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (mask(name), with_texts(value, mask))).collect()
        }
    }
}

struct Walk<'a> {
    changes: Changes,
    mask: Mask<'a>,
    is_secret: bool,
}

impl Walk<'_> {
    fn values(&mut self, path: &str, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (Some(before), Some(after)) if before == after => {}
            (Some(before @ Value::Object(_)), Some(after @ Value::Object(_))) => {
                self.fields(path, before, after);
            }
            (Some(Value::Array(before)), Some(Value::Array(after))) => self.items(path, before, after),
            (before, after) => self.tell(path, before, after),
        }
    }

    fn fields(&mut self, path: &str, before: &Value, after: &Value) {
        let empty = serde_json::Map::new();
        let (before, after) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let is_of_the_server = match path {
                "" => name == "status",
                "metadata" => OF_THE_SERVER.contains(&name.as_str()),
                _ => false,
            };
            if !is_of_the_server {
                self.values(&joined(path, name), before.get(name), after.get(name));
            }
        }
    }

    fn items(&mut self, path: &str, before: &[Value], after: &[Value]) {
        if let (Some(before), Some(after)) = (named(before), named(after)) {
            let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
            for name in names {
                let path = format!("{path}[name={name}]");
                self.values(&path, before.get(name).copied(), after.get(name).copied());
            }
            return;
        }
        if before.len() != after.len() {
            let whole = |items: &[Value]| Value::Array(items.to_vec());
            self.tell(path, Some(&whole(before)), Some(&whole(after)));
            return;
        }
        for (index, (before, after)) in before.iter().zip(after).enumerate() {
            self.values(&format!("{path}[{index}]"), Some(before), Some(after));
        }
    }

    fn tell(&mut self, path: &str, before: Option<&Value>, after: Option<&Value>) {
        if self.changes.fields.len() == MOST {
            self.changes.omitted += 1;
            return;
        }
        // A whole map of annotations, or all metadata, may hold what is hidden as well.
        let holds_last_applied = |value: &Value| value.to_string().contains(LAST_APPLIED);
        let is_hidden = path.contains(LAST_APPLIED)
            || [before, after].into_iter().flatten().any(holds_last_applied)
            || self.is_secret && is_content(path);
        let Mask { text, hides_before, hides_after } = self.mask;
        let shown = |value: &Value, hides: bool| match is_hidden || hides {
            true => Masked::hidden(),
            false => Masked::of(value, text),
        };
        let before = before.map(|value| shown(value, hides_before));
        let after = after.map(|value| shown(value, hides_after));
        self.changes.fields.push(FieldChange { path: text(path), before, after });
    }
}

/// Whether a path of a Secret is, or is in, what it keeps.
fn is_content(path: &str) -> bool {
    !(path.starts_with("metadata.") || matches!(path, "metadata" | "type" | "immutable"))
}

/// The items by their names, when all have one of their own.
fn named(items: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let mut all = BTreeMap::new();
    for item in items {
        all.insert(item.get("name")?.as_str()?, item);
    }
    (all.len() == items.len()).then_some(all)
}

fn joined(path: &str, name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    match (path, is_plain) {
        ("", _) => name.to_owned(),
        (path, true) => format!("{path}.{name}"),
        (path, false) => format!("{path}[{name:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(text: &str) -> String {
        text.replace("CANARY", "***")
    }

    const MASK: Mask<'_> = Mask { text: &plain, hides_before: false, hides_after: false };

    fn lines(before: &Value, after: &Value) -> Vec<String> {
        let text = |masked: Option<Masked>| masked.map_or("-".to_owned(), Masked::into_text);
        let changes = Changes::between(before, after, MASK);
        changes
            .fields
            .into_iter()
            .map(|change| format!("{}: {} → {}", change.path, text(change.before), text(change.after)))
            .collect()
    }

    #[test]
    fn fields_are_named_as_people_name_them() {
        let deployment = |image: &str, replicas: u64, version: &str| {
            json!({
                "kind": "Deployment",
                "metadata": {"name": "web", "resourceVersion": version, "labels": {"app.kubernetes.io/name": image}},
                "spec": {"replicas": replicas, "template": {"spec": {"containers": [
                    {"name": "a", "image": "x"}, {"name": "web", "image": image},
                ]}}},
                "status": {"replicas": replicas},
            })
        };
        assert_eq!(
            lines(&deployment("i:1", 1, "7"), &deployment("i:2", 2, "8")),
            [
                "metadata.labels[\"app.kubernetes.io/name\"]: \"i:1\" → \"i:2\"",
                "spec.replicas: 1 → 2",
                "spec.template.spec.containers[name=web].image: \"i:1\" → \"i:2\"",
            ]
        );
        let moved = |names: &[&str]| json!({"spec": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
        assert!(
            lines(&moved(&["a", "b"]), &moved(&["b", "a"])).is_empty(),
            "items are told apart by their names"
        );
        assert_eq!(
            lines(&json!({"a": [1]}), &json!({"a": [1, 2], "b": {}})),
            ["a: [1] → [1,2]", "b: - → {}"]
        );
    }

    #[test]
    fn what_is_secret_is_hidden_wherever_it_stands() {
        let secret = |value: &str| {
            json!({
                "kind": "Secret", "type": "Opaque", "stringData": {"password": value}, "data": {"d": value},
                "metadata": {"annotations": {LAST_APPLIED: format!("{{\"data\":\"{value}\"}}"), "note": value}},
                "odd": value,
            })
        };
        let told = lines(&secret("CANARY-1"), &secret("CANARY-2")).join("\n");
        assert!(!told.contains("CANARY"), "{told}");
        assert!(told.contains("stringData.password: (hidden) → (hidden)"), "{told}");
        assert!(told.contains("metadata.annotations.note: \"***-1\" → \"***-2\""), "{told}");
        // As a whole, too, and in other kinds.
        let bare = json!({"kind": "Secret"});
        let told = lines(&bare, &secret("CANARY")).join("\n");
        assert!(!told.contains("CANARY") && told.contains("metadata: - → (hidden)"), "{told}");
        let map =
            |value: &str| json!({"kind": "ConfigMap", "data": {"a": format!("{}CANARY", value.repeat(200))}});
        let told = lines(&map("x"), &map("y")).join("\n");
        assert!(!told.contains("CANARY") && told.ends_with('…'), "{told}");
        // An earlier value of a Secret is not known as one.
        let hides = Mask { hides_before: true, ..MASK };
        let changes = Changes::between(&json!({"a": "OLD"}), &json!({"a": "new"}), hides);
        assert_eq!(format!("{:?}", changes.fields[0].before), "Some((hidden))");
        assert_eq!(format!("{:?}", changes.fields[0].after), "Some(\"new\")");
    }

    #[test]
    fn the_number_of_fields_is_bounded() {
        let many: serde_json::Map<String, Value> = (0..100).map(|n| (format!("f{n}"), json!(n))).collect();
        let changes = Changes::between(&json!({}), &many.into(), MASK);
        assert_eq!((changes.fields.len(), changes.omitted), (MOST, 100 - MOST));
    }
}
