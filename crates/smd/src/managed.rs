//! `metadata.managedFields`: its entries read, written, ordered and capped.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::path::PathElement;
use crate::set::Set;
use crate::value;

/// Update entries that an object may have before the oldest are merged into one.
const MAX_UPDATE_MANAGERS: usize = 10;

/// The manager of Update entries that were merged to stay below the limit.
const ANCIENT_CHANGES: &str = "ancient-changes";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// What tells managers apart. Appliers keep their entry across versions, so theirs has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManagerId {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

impl ManagerId {
    pub(crate) fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// The JSON by which Kubernetes identifies, and so orders, managers.
    pub(crate) fn identifier(&self) -> String {
        let mut out = String::from("{");
        for (name, text) in [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ] {
            if !text.is_empty() {
                if out.len() > 1 {
                    out.push(',');
                }
                value::write_string(&mut out, name, false);
                out.push(':');
                value::write_string(&mut out, text, true);
            }
        }
        out.push('}');
        out
    }

    /// The manager as conflicts name it.
    pub(crate) fn in_conflict(&self) -> String {
        let mut out = value::quote(&self.manager);
        if !self.subresource.is_empty() {
            out.push_str(" with subresource ");
            out.push_str(&value::quote(&self.subresource));
        }
        if self.operation == Operation::Update {
            out.push_str(" using ");
            out.push_str(&self.api_version);
        }
        out
    }
}

/// What one manager owns.
#[derive(Clone, Debug)]
pub(crate) struct Owned<'a> {
    pub(crate) fields: Set<'a>,
    pub(crate) api_version: String,
    pub(crate) applied: bool,
}

/// All managers of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managers<'a> {
    pub(crate) owned: BTreeMap<ManagerId, Owned<'a>>,
    pub(crate) times: BTreeMap<ManagerId, Option<Timestamp>>,
}

/// The value of an object's `metadata.managedFields`.
pub(crate) fn entries(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields").filter(|entries| entries.is_array())
}

/// One entry as it is stored.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    manager: &'a str,
    operation: &'a str,
    api_version: &'a str,
    fields_type: &'a str,
    subresource: &'a str,
    time: Option<Timestamp>,
    fields: Option<&'a Value>,
}

impl<'a> Entry<'a> {
    fn parse(entry: &'a Value) -> Option<Self> {
        let entry = entry.as_object()?;
        let text = |name: &str| match entry.get(name) {
            None | Some(Value::Null) => Some(""),
            Some(text) => text.as_str(),
        };
        let time = match entry.get("time") {
            None | Some(Value::Null) => None,
            Some(time) => Some(time.as_str()?.parse().ok()?),
        };
        Some(Self {
            manager: text("manager")?,
            operation: text("operation")?,
            api_version: text("apiVersion")?,
            fields_type: text("fieldsType")?,
            subresource: text("subresource")?,
            time,
            fields: entry.get("fieldsV1").filter(|fields| !fields.is_null()),
        })
    }

    fn is_empty(&self) -> bool {
        [self.manager, self.operation, self.api_version, self.fields_type, self.subresource]
            .iter()
            .all(|text| text.is_empty())
            && self.time.is_none()
            && self.fields.is_none()
    }
}

/// Reads a value of `managedFields`; `None` when it is missing or has not the form of such a list,
/// which counts as missing.
pub(crate) fn parse(entries: Option<&Value>) -> Option<Vec<Entry<'_>>> {
    entries?.as_array()?.iter().map(Entry::parse).collect()
}

/// Whether a client asks for all ownership to be forgotten.
pub(crate) fn is_reset(entries: Option<&[Entry<'_>]>) -> bool {
    match entries {
        Some([]) => true,
        Some([only]) => only.is_empty(),
        _ => false,
    }
}

impl<'a> Managers<'a> {
    /// Reads who owns what.
    ///
    /// # Errors
    /// An entry says something that Kubernetes has no meaning for.
    pub(crate) fn decode(entries: Option<&[Entry<'a>]>) -> Result<Self, String> {
        let mut managers = Self::default();
        for (at, entry) in entries.unwrap_or_default().iter().enumerate() {
            let operation = match entry.operation {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            if entry.api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match entry.fields_type {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
                other => {
                    let other = value::quote(other);
                    return Err(format!("invalid fieldsType {other} in managed fields entry {at}"));
                }
            }
            let fields = match entry.fields {
                None => Set::default(),
                Some(fields) => {
                    Set::from_fields_v1(fields).map_err(|error| format!("error decoding set: {error}"))?
                }
            };
            let id = ManagerId::new(entry.manager, operation, entry.api_version, entry.subresource);
            managers.times.insert(id.clone(), entry.time);
            let applied = operation == Operation::Apply;
            let owned = Owned { fields, api_version: entry.api_version.to_owned(), applied };
            managers.owned.insert(id, owned);
        }
        Ok(managers)
    }

    /// The entries as they are stored: appliers first, then by age, manager and version. `None` when
    /// nobody owns anything.
    pub(crate) fn encode(&self) -> Option<Value> {
        if self.owned.is_empty() {
            return None;
        }
        let mut entries: Vec<_> = self
            .owned
            .iter()
            .map(|(id, owned)| {
                let operation = if owned.applied { Operation::Apply } else { id.operation };
                let time = self.times.get(id).copied().flatten();
                (operation, time.map_or(0, Timestamp::as_second), id, time, owned)
            })
            .collect();
        entries.sort_by(
            |(a_operation, a_seconds, a, _, a_owned), (b_operation, b_seconds, b, _, b_owned)| {
                (a_operation, a_seconds, &a.manager, &a_owned.api_version, &a.subresource).cmp(&(
                    b_operation,
                    b_seconds,
                    &b.manager,
                    &b_owned.api_version,
                    &b.subresource,
                ))
            },
        );
        let encoded = entries.into_iter().map(|(operation, _, id, time, owned)| {
            let mut entry = Map::new();
            let mut add = |name: &str, text: &str| {
                if !text.is_empty() {
                    entry.insert(name.to_owned(), Value::String(text.to_owned()));
                }
            };
            add("manager", &id.manager);
            add("operation", operation.as_str());
            add("apiVersion", &owned.api_version);
            add("fieldsType", "FieldsV1");
            add("subresource", &id.subresource);
            if let Some(time) = time {
                add("time", &time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            }
            entry.insert("fieldsV1".to_owned(), owned.fields.to_fields_v1());
            Value::Object(entry)
        });
        Some(Value::Array(encoded.collect()))
    }

    /// Merges the oldest Update entries of a version until there are at most
    /// [`MAX_UPDATE_MANAGERS`].
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<_> =
            self.owned.iter().filter(|(_, owned)| !owned.applied).map(|(id, _)| id.clone()).collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        updaters.sort_by_cached_key(|id| {
            let seconds = self.times.get(id).copied().flatten().map_or(0, Timestamp::as_second);
            (seconds, id.identifier())
        });
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for id in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                break;
            }
            let Some(owned) = self.owned.get(&id).cloned() else { continue };
            let Some(first) = first_of_version.get(&owned.api_version) else {
                first_of_version.insert(owned.api_version, id);
                continue;
            };
            let bucket = ManagerId::new(ANCIENT_CHANGES, Operation::Update, &owned.api_version, "");
            if !self.owned.contains_key(&bucket)
                && let Some(start) = self.owned.remove(first)
            {
                self.owned.insert(bucket.clone(), start);
            }
            if let Some(merged) = self.owned.get_mut(&bucket) {
                merged.fields = owned.fields.union(std::mem::take(&mut merged.fields));
            }
            self.owned.remove(&id);
            count -= 1;
            let time = self.times.get(&id).copied().flatten();
            self.times.insert(bucket, time);
        }
    }

    /// Takes the fields that nobody may own from one manager.
    pub(crate) fn strip(&mut self, id: &ManagerId) {
        if let Some(owned) = self.owned.get_mut(id) {
            owned.fields.subtract(&STRIPPED);
            if owned.fields.is_empty() {
                self.owned.remove(id);
            }
        }
    }
}

/// Fields that identify an object or that the server keeps.
pub(crate) static STRIPPED: LazyLock<Set<'static>> = LazyLock::new(|| {
    let mut set = Set::default();
    for name in ["apiVersion", "kind", "metadata"] {
        set.insert(&[PathElement::Field(name.into())]);
    }
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set.insert(&[PathElement::Field("metadata".into()), PathElement::Field(name.into())]);
    }
    set
});

/// The path of the entries themselves.
pub(crate) static ENTRIES: LazyLock<Set<'static>> = LazyLock::new(|| {
    let mut set = Set::default();
    set.insert(&[PathElement::Field("metadata".into()), PathElement::Field("managedFields".into())]);
    set
});

/// A copy of an object without its entries, which can be larger than the rest of it.
pub(crate) fn clone_without_entries(object: &Value) -> Value {
    let Value::Object(members) = object else { return object.clone() };
    let copy = members.iter().map(|(name, member)| {
        let member = match member {
            Value::Object(metadata) if name == "metadata" => {
                let rest = metadata.iter().filter(|(name, _)| *name != "managedFields");
                Value::Object(rest.map(|(name, member)| (name.clone(), member.clone())).collect())
            }
            other => other.clone(),
        };
        (name.clone(), member)
    });
    Value::Object(copy.collect())
}

/// Whether two objects are the same but for their entries.
pub(crate) fn equal_without_entries(a: &Value, b: &Value, equal: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return equal(a, b) };
    a.len() == b.len()
        && a.iter().zip(b).all(|((a_name, a), (b_name, b))| {
            a_name == b_name
                && match (a, b) {
                    (Value::Object(a), Value::Object(b)) if a_name == "metadata" => {
                        let mut a = a.iter().filter(|(name, _)| *name != "managedFields");
                        let mut b = b.iter().filter(|(name, _)| *name != "managedFields");
                        loop {
                            match (a.next(), b.next()) {
                                (None, None) => return true,
                                (Some((a_name, a)), Some((b_name, b))) if a_name == b_name && equal(a, b) => {
                                }
                                _ => return false,
                            }
                        }
                    }
                    (a, b) => equal(a, b),
                }
        })
}

/// Puts entries into an object's metadata, or takes them out.
pub(crate) fn set_entries(object: &mut Value, entries: Option<Value>) {
    let Some(object) = object.as_object_mut() else { return };
    match entries {
        Some(entries) => {
            let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if metadata.is_null() {
                *metadata = Value::Object(Map::new());
            }
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("managedFields".to_owned(), entries);
            }
        }
        None => {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        }
    }
}
