//! OpenAPI v3 and structural schemas into the arena of merge types.

use std::sync::Arc;

use serde_json::{Map as JsonMap, Value, json};

use super::{Arena, Atom, Field, List, Map, PatchMeta, Scalar, Type, TypeId};
use crate::MAX_DEPTH;

const UNTYPED: &str = "__untyped_atomic_";
const DEDUCED: &str = "__untyped_deduced_";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Why a schema cannot be compiled for merging.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The document has no component of this name.
    #[error("there is no schema named {name:?}")]
    NoComponent {
        /// The name that was asked for.
        name: String,
    },
    /// The schema says something that Kubernetes has no meaning for.
    #[error("{at}: {problem}")]
    Invalid {
        /// The component, and `inlined in` it for nested schemas.
        at: String,
        /// What is wrong, as `kube-openapi/pkg/schemaconv` words it.
        problem: String,
    },
    /// The schemas have too many types or fields, or one is nested too deep.
    #[error("{at}: the schema is nested deeper than {MAX_DEPTH} levels, or has too many types or fields")]
    TooLarge {
        /// The component.
        at: String,
    },
}

pub(super) fn components(components: &Value) -> Result<Arena, SchemaError> {
    let mut builder = Builder::new(false);
    builder.add_components(components)?;
    builder.finish()
}

pub(super) fn structural(schema: &Value, preserve_unknown: bool) -> Result<(Arena, TypeId), SchemaError> {
    let mut builder = Builder::new(preserve_unknown);
    builder.add_components(&meta_components())?;
    builder.embedded = true;
    let mut root = schema.clone();
    if let Some(schema) = root.as_object_mut() {
        add_type_meta(schema);
    }
    let atom = builder.schema(&root, "custom resource", preserve_unknown, 0)?;
    let id = builder.push(Type::Atom(atom), "custom resource")?;
    Ok((builder.finish()?, id))
}

pub(super) fn deduced() -> (Arena, TypeId) {
    let builder = Builder::new(false);
    let id = builder.deduced;
    (builder.arena, id)
}

/// ObjectMeta and what it refers to: the part that every custom resource shares.
fn meta_components() -> Value {
    let text = || json!({"type": "string"});
    let required = || json!({"type": "string", "default": ""});
    let time = || json!({"type": "string", "format": "date-time"});
    let int = || json!({"type": "integer", "format": "int64"});
    let strings = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut meta = json!({
        "annotations": strings(), "labels": strings(),
        "creationTimestamp": time(), "deletionTimestamp": time(),
        "deletionGracePeriodSeconds": int(), "generation": int(),
        "finalizers": {"type": "array", "items": text(), "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge"},
        "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object",
            "properties": {"apiVersion": text(), "fieldsType": text(), "fieldsV1": {"type": "object"},
                "manager": text(), "operation": text(), "subresource": text(), "time": time()}}},
        "ownerReferences": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"], "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "uid",
            "items": {"type": "object", "x-kubernetes-map-type": "atomic",
                "properties": {"apiVersion": required(), "kind": required(), "name": required(),
                    "uid": required(), "blockOwnerDeletion": {"type": "boolean"},
                    "controller": {"type": "boolean"}}}},
    });
    for name in ["generateName", "name", "namespace", "resourceVersion", "selfLink", "uid"] {
        meta[name] = text();
    }
    json!({ OBJECT_META: {"type": "object", "properties": meta} })
}

fn add_type_meta(schema: &mut JsonMap<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("apiVersion".into(), json!({"type": "string"}));
        properties.insert("kind".into(), json!({"type": "string"}));
        properties.insert("metadata".into(), json!({"$ref": OBJECT_META}));
    }
}

struct Builder {
    arena: Arena,
    untyped: TypeId,
    deduced: TypeId,
    /// Embedded resources get type and object metadata.
    embedded: bool,
    preserve_unknown: bool,
    /// Copies of named types with another `x-kubernetes-map-type`, made when all types are known.
    overrides: Vec<Override>,
}

struct Override {
    target: TypeId,
    of: TypeId,
    atomic: bool,
}

impl Builder {
    fn new(preserve_unknown: bool) -> Self {
        let mut arena = Arena::default();
        let (untyped, deduced) = (TypeId(0), TypeId(1));
        for (name, element, atomic) in [(UNTYPED, untyped, true), (DEDUCED, deduced, false)] {
            arena.names.insert(name.into(), element);
            arena.types.push(Type::Atom(Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(Arc::new(List { element: untyped, atomic: true, keys: Box::default() })),
                map: Some(Arc::new(Map::new(Vec::new(), element, atomic, element == deduced))),
                name: Some(name.into()),
            }));
        }
        Self { arena, untyped, deduced, embedded: false, preserve_unknown, overrides: Vec::new() }
    }

    fn add_components(&mut self, components: &Value) -> Result<(), SchemaError> {
        let Some(components) = components.as_object() else {
            return Err(SchemaError::Invalid {
                at: "schemas".into(),
                problem: "not a map of schemas by name".into(),
            });
        };
        for (name, schema) in components {
            // A component that is nothing but a reference is not a type of its own.
            if schema.get("$ref").is_some() {
                continue;
            }
            let mut atom = match name.as_str() {
                QUANTITY => Atom { scalar: Some(Scalar::Untyped), ..Atom::EMPTY },
                RAW_EXTENSION => self.untyped_atom(),
                _ => self.schema(schema, name, self.preserve_unknown, 0)?,
            };
            atom.name = Some(name.as_str().into());
            let id = self.named(name)?;
            if let Some(slot) = self.arena.types.get_mut(id.0 as usize) {
                *slot = Type::Atom(atom);
            }
        }
        Ok(())
    }

    fn untyped_atom(&self) -> Atom {
        self.arena.atom(self.untyped).clone()
    }

    fn finish(mut self) -> Result<Arena, SchemaError> {
        for Override { target, of, atomic } in std::mem::take(&mut self.overrides) {
            let mut atom = self.arena.atom(of).clone();
            let name = atom.name.take().unwrap_or_default();
            let overridden = if let Some(map) = atom.map.as_mut() {
                *map = Arc::new(Map { atomic, ..(**map).clone() });
                Type::Atom(atom)
            } else if let Some(list) = atom.list.as_mut() {
                *list = Arc::new(List { atomic, ..(**list).clone() });
                Type::Atom(atom)
            } else {
                Type::Missing(name)
            };
            if let Some(slot) = self.arena.types.get_mut(target.0 as usize) {
                *slot = overridden;
            }
        }
        Ok(self.arena)
    }

    fn push(&mut self, kind: Type, at: &str) -> Result<TypeId, SchemaError> {
        let id = u32::try_from(self.arena.types.len())
            .ok()
            .filter(|id| *id < 1 << 24)
            .ok_or_else(|| SchemaError::TooLarge { at: at.to_owned() })?;
        self.arena.types.push(kind);
        Ok(TypeId(id))
    }

    /// The id of a component, known already or not.
    fn named(&mut self, name: &str) -> Result<TypeId, SchemaError> {
        if let Some(id) = self.arena.names.get(name) {
            return Ok(*id);
        }
        let id = self.push(Type::Missing(name.into()), name)?;
        self.arena.names.insert(name.into(), id);
        Ok(id)
    }

    fn schema(
        &mut self,
        schema: &Value,
        at: &str,
        preserve: bool,
        depth: usize,
    ) -> Result<Atom, SchemaError> {
        if depth > MAX_DEPTH {
            return Err(SchemaError::TooLarge { at: at.to_owned() });
        }
        let embedded;
        let mut schema = schema;
        if self.embedded && truthy(schema, "x-kubernetes-embedded-resource") {
            let mut with_meta = schema.clone();
            if let Some(schema) = with_meta.as_object_mut() {
                add_type_meta(schema);
            }
            embedded = with_meta;
            schema = &embedded;
        }
        let preserve = preserve || truthy(schema, "x-kubernetes-preserve-unknown-fields");
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
            kind => kind.and_then(Value::as_str),
        };
        Ok(match kind.unwrap_or_default() {
            "" => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(Arc::new(self.list(schema, at, preserve, depth)?)),
                map: Some(Arc::new(self.map(schema, at, preserve, depth)?)),
                name: None,
            },
            "object" => Atom { map: Some(Arc::new(self.map(schema, at, preserve, depth)?)), ..Atom::EMPTY },
            "array" => Atom { list: Some(Arc::new(self.list(schema, at, preserve, depth)?)), ..Atom::EMPTY },
            "integer" | "number" => Atom { scalar: Some(Scalar::Numeric), ..Atom::EMPTY },
            "boolean" => Atom { scalar: Some(Scalar::Boolean), ..Atom::EMPTY },
            "string" => {
                // Formats other than bytes may be written as something else than a string.
                let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
                let scalar = if matches!(format, "" | "byte") { Scalar::String } else { Scalar::Untyped };
                Atom { scalar: Some(scalar), ..Atom::EMPTY }
            }
            other => return Err(invalid(at, format!("unrecognized type: '{other}'"))),
        })
    }

    fn reference(
        &mut self,
        schema: &Value,
        at: &str,
        preserve: bool,
        depth: usize,
    ) -> Result<TypeId, SchemaError> {
        let direct = schema.get("$ref").and_then(Value::as_str);
        let single = || match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => only.get("$ref").and_then(Value::as_str),
            _ => None,
        };
        let name = direct.or_else(single).map(|path| path.rsplit('/').next().unwrap_or(path));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let of = self.named(name)?;
            return match map_relationship(schema, at)? {
                None => Ok(of),
                Some(atomic) => {
                    let target = self.push(Type::Missing(name.into()), at)?;
                    self.overrides.push(Override { target, of, atomic });
                    Ok(target)
                }
            };
        }
        let nested = if at.starts_with("inlined in ") { at.to_owned() } else { format!("inlined in {at}") };
        let atom = self.schema(schema, &nested, preserve, depth + 1)?;
        self.push(Type::Atom(atom), at)
    }

    fn map(&mut self, schema: &Value, at: &str, preserve: bool, depth: usize) -> Result<Map, SchemaError> {
        let mut fields = Vec::new();
        for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let id = self.reference(member, at, preserve, depth)?;
            let default = member.get("default").filter(|default| !default.is_null());
            fields.push((
                name.as_str().into(),
                Field { id, default: default.cloned().map(Box::new), patch: patch_meta(member) },
            ));
        }
        if u16::try_from(fields.len() + 1).is_err() {
            return Err(SchemaError::TooLarge { at: at.to_owned() });
        }
        let element = match schema.get("additionalProperties") {
            None | Some(Value::Null) if preserve || fields.is_empty() => self.deduced,
            None | Some(Value::Null | Value::Bool(false)) => TypeId::NONE,
            Some(Value::Bool(true)) => self.deduced,
            Some(additional) => self.reference(additional, at, preserve, depth)?,
        };
        let untyped_element = match self.arena.types.get(element.0 as usize) {
            Some(Type::Atom(atom)) => {
                element == self.deduced || (atom.name.is_none() && atom.scalar == Some(Scalar::Untyped))
            }
            _ => false,
        };
        let atomic = map_relationship(schema, at)?.unwrap_or(false);
        let deduced = fields.is_empty() && untyped_element;
        Ok(Map::new(fields, element, atomic, deduced))
    }

    fn list(&mut self, schema: &Value, at: &str, preserve: bool, depth: usize) -> Result<List, SchemaError> {
        let (atomic, keys) = list_relationship(schema, at)?;
        let element = match schema.get("items") {
            Some(items) if items.is_object() => self.reference(items, at, preserve, depth)?,
            None if schema.get("type").is_none() => self.untyped,
            None => return Err(invalid(at, "`items` must be specified on arrays")),
            Some(_) => {
                return Err(invalid(at, "structural schema arrays must have exactly one member subtype"));
            }
        };
        Ok(List { element, atomic, keys })
    }
}

fn invalid(at: &str, problem: impl Into<String>) -> SchemaError {
    SchemaError::Invalid { at: at.to_owned(), problem: problem.into() }
}

fn truthy(schema: &Value, extension: &str) -> bool {
    schema.get(extension).and_then(Value::as_bool).unwrap_or(false)
}

type Keys = Box<[Box<str>]>;

/// `Some(atomic)` when `x-kubernetes-map-type` is set.
fn map_relationship(schema: &Value, at: &str) -> Result<Option<bool>, SchemaError> {
    match schema.get("x-kubernetes-map-type") {
        None => Ok(None),
        Some(Value::String(kind)) if kind == "atomic" => Ok(Some(true)),
        Some(Value::String(kind)) if kind == "granular" => Ok(Some(false)),
        Some(other) => Err(invalid(at, format!("unknown map type {}", plain(other)))),
    }
}

/// Whether the list is atomic, and its keys.
fn list_relationship(schema: &Value, at: &str) -> Result<(bool, Keys), SchemaError> {
    if let Some(kind) = schema.get("x-kubernetes-list-type") {
        return match kind.as_str() {
            Some("atomic") => Ok((true, Box::default())),
            Some("set") => Ok((false, Box::default())),
            Some("map") => {
                let keys = schema
                    .get("x-kubernetes-list-map-keys")
                    .ok_or_else(|| invalid(at, "missing map keys"))?
                    .as_array()
                    .ok_or_else(|| invalid(at, "uninterpreted map keys"))?;
                Ok((false, keys.iter().filter_map(Value::as_str).map(Into::into).collect()))
            }
            _ => Err(invalid(at, format!("unknown list type {}", plain(kind)))),
        };
    }
    let Some(strategy) = schema.get("x-kubernetes-patch-strategy") else {
        return Ok((true, Box::default()));
    };
    match strategy.as_str() {
        // Without a merge key the list is a set.
        Some("merge" | "merge,retainKeys") => {
            let key = schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str);
            Ok((false, key.into_iter().map(Into::into).collect()))
        }
        Some("retainKeys") => Ok((true, Box::default())),
        _ => Err(invalid(at, format!("unknown patch strategy {}", plain(strategy)))),
    }
}

fn patch_meta(schema: &Value) -> Option<Arc<PatchMeta>> {
    let strategy = schema.get("x-kubernetes-patch-strategy").and_then(Value::as_str).unwrap_or_default();
    let key = schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str);
    if strategy.is_empty() && key.is_none() {
        return None;
    }
    let mut meta = PatchMeta { merge_key: key.map(Into::into), ..PatchMeta::default() };
    for part in strategy.split(',') {
        match part {
            "merge" => meta.merge = true,
            "replace" => meta.replace = true,
            _ => {}
        }
    }
    Some(Arc::new(meta))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
