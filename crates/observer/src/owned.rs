//! The fields that convoy owns in an object, as they stand there: enough to tell whether and where they changed, without
//! the values.

use std::collections::BTreeSet;
use std::sync::Arc;

use convoy_plan::{field_of, names_item, remove_field};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Deepest nesting of managed fields that is read; no built-in kind comes near.
pub(crate) const MAX_DEPTH: usize = 64;
/// Longest path that is said, in bytes: statuses have to stay small.
const LONGEST_PATH: usize = 192;

/// The fields that convoy owns and their values, but for what is left alone. Clones are cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned(Arc<Leaves>);

#[derive(Debug, PartialEq, Eq)]
struct Leaves {
    digest: [u8; 16],
    paths: Paths,
    /// For each path a hash of the value; it only serves to name fields.
    values: Box<[u32]>,
    /// The fields that those managers set whose fields are left alone, as hashes of their paths.
    left: Box<[u64]>,
}

/// Paths in the order in which a set of fields has them, each without what it has in common with the one before.
#[derive(Debug, Default, PartialEq, Eq)]
struct Paths {
    texts: Box<str>,
    /// For each path the bytes in common with the one before, and the bytes of its own.
    lengths: Box<[(u16, u16)]>,
}

/// Gathers the fields of [`Owned`].
#[derive(Default)]
pub(crate) struct Gather {
    hash: Sha256,
    texts: String,
    lengths: Vec<(u16, u16)>,
    last: String,
    values: Vec<u32>,
    left: BTreeSet<u64>,
}

impl Gather {
    /// Takes in a set of convoy's fields, without what paths leave alone.
    pub(crate) fn own(&mut self, fields: &Map<String, Value>, object: &Value, paths: &[&[String]]) {
        walk(fields, object, paths, "", MAX_DEPTH, &mut |path, value| self.leaf(path, value));
    }

    /// Takes in a set of fields of a manager whose fields are left alone.
    pub(crate) fn left(&mut self, fields: &Map<String, Value>, object: &Value) {
        walk(fields, object, &[], "", MAX_DEPTH, &mut |path, _| {
            self.left.insert(short(path));
        });
    }

    fn leaf(&mut self, path: &str, value: Option<&Value>) {
        let value = value.map(Value::to_string).unwrap_or_default();
        for part in [path, &value] {
            self.hash.update((part.len() as u64).to_be_bytes());
            self.hash.update(part);
        }
        let mut common = path.bytes().zip(self.last.bytes()).take_while(|(a, b)| a == b).count();
        while !path.is_char_boundary(common) {
            common -= 1;
        }
        let (Ok(shared), Ok(own)) = (u16::try_from(common), u16::try_from(path.len() - common)) else {
            // Too long to be named; the digest has it.
            return;
        };
        self.texts.push_str(&path[common..]);
        self.lengths.push((shared, own));
        path.clone_into(&mut self.last);
        self.values.push((short(&value) >> 32) as u32);
    }

    pub(crate) fn done(self) -> Owned {
        let mut digest = [0; 16];
        digest.iter_mut().zip(self.hash.finalize()).for_each(|(to, from)| *to = from);
        let paths = Paths { texts: self.texts.into(), lengths: self.lengths.into() };
        let (values, left) = (self.values.into(), self.left.into_iter().collect());
        Owned(Arc::new(Leaves { digest, paths, values, left }))
    }
}

impl Paths {
    fn all(&self) -> Vec<String> {
        let mut at = 0;
        let mut all: Vec<String> = Vec::with_capacity(self.lengths.len());
        for (shared, own) in &self.lengths {
            let (shared, end) = (usize::from(*shared), at + usize::from(*own));
            let before = all.last().and_then(|last| last.get(..shared)).unwrap_or_default();
            let path = format!("{before}{}", self.texts.get(at..end).unwrap_or_default());
            all.push(path);
            at = end;
        }
        all
    }
}

impl Owned {
    /// Whether something changed since `self` that is not left alone now.
    pub(crate) fn is_changed(&self, now: &Self) -> bool {
        if self.0.digest == now.0.digest {
            return false;
        }
        now.0.left.is_empty() || !self.changed_paths(now).is_empty()
    }

    /// The fields that changed, as JSON pointers; the first few.
    pub(crate) fn changes(&self, now: &Self, most: usize) -> Vec<String> {
        let mut named: Vec<String> = Vec::new();
        for path in self.changed_paths(now) {
            let pointer = pointer(&path);
            if !named.contains(&pointer) {
                named.push(pointer);
            }
        }
        named.truncate(most);
        named
    }

    fn changed_paths(&self, now: &Self) -> Vec<String> {
        let of = |owned: &Self| {
            owned.0.paths.all().into_iter().zip(owned.0.values.iter().copied()).collect::<BTreeSet<_>>()
        };
        let (before, after) = (of(self), of(now));
        let is_left = |path: &str| now.0.left.binary_search(&short(path)).is_ok();
        let changed: BTreeSet<&String> = before.symmetric_difference(&after).map(|(path, _)| path).collect();
        changed.into_iter().filter(|path| !is_left(path)).cloned().collect()
    }

    /// The same, sharing what an earlier look kept when nothing changed.
    pub(crate) fn shared_with(self, earlier: &Self) -> Self {
        if self == *earlier { earlier.clone() } else { self }
    }

    /// Bytes on the heap, for those who count.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        let leaves = &self.0;
        let paths = leaves.paths.texts.len() + size_of_val(&*leaves.paths.lengths);
        16 + size_of::<Leaves>() + paths + size_of_val(&*leaves.values) + size_of_val(&*leaves.left)
    }
}

/// A path of a set as a JSON pointer, as `spec.drift.ignore` takes it.
fn pointer(path: &str) -> String {
    let mut pointer = String::new();
    for element in path.split('\0').skip(1).filter(|element| *element != ".") {
        let (sort, rest) = element.split_once(':').unwrap_or(("", element));
        let part = match sort {
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
                let pairs: Vec<String> =
                    keys.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
                pairs.join(",")
            }
            "v" => plain(&serde_json::from_str(rest).unwrap_or_default()),
            _ => rest.to_owned(),
        };
        pointer.push('/');
        pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
    }
    if pointer.len() > LONGEST_PATH {
        pointer.truncate(pointer.floor_char_boundary(LONGEST_PATH));
        pointer.push('…');
    }
    pointer
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Visits the fields of a set that no path names, with their values now. A field that a path names a part of is visited
/// without that part.
pub(crate) fn walk(
    fields: &Map<String, Value>,
    value: &Value,
    paths: &[&[String]],
    at: &str,
    depth: usize,
    visit: &mut impl FnMut(&str, Option<&Value>),
) {
    for (name, inner) in fields {
        let child = field_of(value, name);
        let below: Vec<&[String]> = paths
            .iter()
            .filter_map(|path| path.split_first())
            .filter(|(part, _)| names(value, name, child, part))
            .map(|(_, rest)| rest)
            .collect();
        if below.iter().any(|rest| rest.is_empty()) {
            continue;
        }
        let at = format!("{at}\0{name}");
        match inner.as_object() {
            Some(inner) if !inner.is_empty() && depth > 0 => {
                walk(inner, child.unwrap_or(&Value::Null), &below, &at, depth - 1, visit);
            }
            _ if name == "." => visit(&at, None),
            _ if below.is_empty() => visit(&at, child),
            _ => {
                let mut rest = child.cloned().unwrap_or_default();
                below.iter().for_each(|path| remove_field(&mut rest, path));
                visit(&at, Some(&rest));
            }
        }
    }
}

/// Whether a part of a path names the field or item that an element of a set does.
fn names(value: &Value, element: &str, child: Option<&Value>, part: &str) -> bool {
    if let Some(field) = element.strip_prefix("f:") {
        return field == part;
    }
    let (Some(items), Some(child)) = (value.as_array(), child) else { return false };
    let index = items.iter().position(|item| std::ptr::eq(item, child));
    index.is_some_and(|index| names_item(part, index, child))
}

pub(crate) fn short(text: &str) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().zip(Sha256::digest(text.as_bytes())).for_each(|(to, from)| *to = from);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned(fields: &Value, object: &Value) -> Owned {
        let mut gather = Gather::default();
        gather.own(fields.as_object().unwrap(), object, &[]);
        gather.done()
    }

    #[test]
    fn changed_fields_are_named_as_pointers_that_can_be_left_alone() {
        let fields = json!({
            "f:data": {"f:a/b": {}, "f:c": {}},
            "f:spec": {"f:ports": {
                r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:name": {}, "f:port": {}},
                r#"k:{"port":81,"protocol":"TCP"}"#: {".": {}, "f:name": {}},
            }},
            "f:metadata": {"f:finalizers": {r#"v:"x.y/z""#: {}}},
        });
        let before = json!({
            "data": {"a/b": "1", "c": "2"},
            "spec": {"ports": [
                {"port": 80, "protocol": "TCP", "name": "web"}, {"port": 81, "protocol": "TCP", "name": "more"},
            ]},
            "metadata": {"finalizers": ["x.y/z"]},
        });
        let of = |object: &Value| owned(&fields, object);
        let changes = |object: &Value| of(&before).changes(&of(object), 8);
        assert_eq!(changes(&before), [""; 0]);
        for (pointer, value, named) in [
            ("/data/a~1b", json!("2"), "/data/a~1b"),
            ("/spec/ports/1/name", json!("other"), "/spec/ports/port=81,protocol=TCP/name"),
            ("/metadata/finalizers/0", json!("else"), "/metadata/finalizers/x.y~1z"),
        ] {
            let mut after = before.clone();
            *after.pointer_mut(pointer).unwrap() = value;
            assert!(of(&before).is_changed(&of(&after)));
            assert_eq!(changes(&after), [named]);
        }
        // Another took a field.
        let fewer =
            json!({"f:data": {"f:a/b": {}}, "f:spec": fields["f:spec"], "f:metadata": fields["f:metadata"]});
        let taken = owned(&fewer, &before);
        assert!(of(&before).is_changed(&taken));
        assert_eq!(of(&before).changes(&taken, 8), ["/data/c"]);
        assert_eq!(of(&before).changes(&owned(&json!({}), &json!({})), 2).len(), 2);
    }

    #[test]
    fn a_long_path_is_cut_between_characters() {
        let name = format!("f:a{}", "ü".repeat(LONGEST_PATH));
        let said = pointer(&format!("\0f:data\0{name}"));
        assert!(said.starts_with("/data/aü") && said.ends_with("ü…"), "{said}");
        assert!(said.len() <= LONGEST_PATH + "…".len(), "{said}");
    }

    #[test]
    fn what_did_not_change_is_kept_once() {
        let (fields, object) = (json!({"f:data": {"f:a": {}}}), json!({"data": {"a": "1"}}));
        let (first, second) = (owned(&fields, &object), owned(&fields, &object));
        assert!(!Arc::ptr_eq(&first.0, &second.0));
        assert!(Arc::ptr_eq(&second.shared_with(&first).0, &first.0));
    }

    #[test]
    fn the_fields_of_a_common_workload_take_less_than_a_kilobyte() {
        let container = json!({
            ".": {}, "f:name": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:args": {},
            "f:env": {r#"k:{"name":"A"}"#: {".": {}, "f:name": {}, "f:value": {}}},
            "f:ports": {r#"k:{"containerPort":8080,"protocol":"TCP"}"#: {".": {}, "f:containerPort": {}, "f:name": {}}},
            "f:livenessProbe": {"f:httpGet": {"f:path": {}, "f:port": {}}},
            "f:readinessProbe": {"f:httpGet": {"f:path": {}, "f:port": {}}},
            "f:resources": {"f:limits": {"f:memory": {}}, "f:requests": {"f:cpu": {}, "f:memory": {}}},
        });
        let labels = json!({"f:app.kubernetes.io/name": {}, "f:app.kubernetes.io/instance": {}});
        let fields = json!({
            "f:metadata": {"f:labels": labels},
            "f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {
                "f:metadata": {"f:labels": labels},
                "f:spec": {"f:serviceAccountName": {}, "f:containers": {r#"k:{"name":"web"}"#: container}},
            }},
        });
        let size = owned(&fields, &json!({})).size();
        assert!(size <= 1024, "{size}");
    }
}
