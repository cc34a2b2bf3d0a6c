//! The merge schema: what every field of a kind is for the purpose of merging.
//!
//! A schema is compiled once from OpenAPI v3 (or a CRD's structural schema) into an arena of types that
//! refer to each other by number, so recursive types cost nothing and a [`Schema`] is two words to
//! clone. The rules of the conversion are those of `k8s.io/kube-openapi/pkg/schemaconv`.

mod build;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

pub use build::SchemaError;

/// The type of one kind of object, ready for merging. Cheap to clone, shared between threads.
#[derive(Clone, Debug)]
pub struct Schema {
    arena: Arc<Arena>,
    root: TypeId,
}

/// All types of one OpenAPI document. Kinds are taken out of it with [`SchemaSet::get`].
#[derive(Clone, Debug)]
pub struct SchemaSet {
    arena: Arc<Arena>,
}

impl SchemaSet {
    /// Compiles a map of OpenAPI v3 schemas by name: what stands at `components.schemas` of a v3
    /// document or at `definitions` of a v2 document.
    ///
    /// # Errors
    /// An `x-kubernetes-*` extension has a value that Kubernetes does not know, a list has no `items`,
    /// or a schema is nested too deep.
    pub fn from_openapi(components: &Value) -> Result<Self, SchemaError> {
        Ok(Self { arena: Arc::new(build::components(components)?) })
    }

    /// The schema of the named component, such as `io.k8s.api.apps.v1.Deployment`.
    pub fn get(&self, name: &str) -> Option<Schema> {
        let root = *self.arena.names.get(name)?;
        Some(Schema { arena: Arc::clone(&self.arena), root })
    }
}

impl Schema {
    /// Compiles the named component of a map of OpenAPI v3 schemas with everything it refers to.
    /// To take several kinds out of one document use [`SchemaSet`], which shares their types.
    ///
    /// # Errors
    /// As [`SchemaSet::from_openapi`]; also when there is no such component.
    pub fn from_openapi(components: &Value, name: &str) -> Result<Self, SchemaError> {
        SchemaSet::from_openapi(components)?
            .get(name)
            .ok_or_else(|| SchemaError::NoComponent { name: name.to_owned() })
    }

    /// Compiles the structural schema of one version of a CustomResourceDefinition
    /// (`spec.versions[].schema.openAPIV3Schema`). `metadata` becomes ObjectMeta and embedded
    /// resources get `apiVersion`, `kind` and `metadata`, as kube-apiserver publishes them.
    /// `preserve_unknown` is the CRD's `spec.preserveUnknownFields`.
    ///
    /// # Errors
    /// As [`SchemaSet::from_openapi`].
    pub fn from_structural(schema: &Value, preserve_unknown: bool) -> Result<Self, SchemaError> {
        let (arena, root) = build::structural(schema, preserve_unknown)?;
        Ok(Self { arena: Arc::new(arena), root })
    }

    /// The schema for kinds of which nothing is known: maps merge by key, lists are replaced whole.
    pub fn deduced() -> Self {
        static DEDUCED: LazyLock<Schema> = LazyLock::new(|| {
            let (arena, root) = build::deduced();
            Schema { arena: Arc::new(arena), root }
        });
        DEDUCED.clone()
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(crate) fn root(&self) -> TypeId {
        self.root
    }
}

/// A reference to a type of the same [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeId(pub(crate) u32);

impl TypeId {
    /// The empty reference: a map with it allows no fields but its own.
    pub(crate) const NONE: TypeId = TypeId(u32::MAX);

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }
}

#[derive(Debug, Default)]
pub(crate) struct Arena {
    pub(crate) types: Vec<Type>,
    pub(crate) names: BTreeMap<Box<str>, TypeId>,
}

impl Arena {
    /// The atom behind a reference; an empty one for the empty reference.
    pub(crate) fn resolve(&self, id: TypeId) -> Resolved<'_> {
        match self.types.get(id.0 as usize) {
            Some(Type::Atom(atom)) => Resolved::Atom(atom),
            Some(Type::Missing(name)) => Resolved::Missing(name),
            None => Resolved::Atom(&Atom::EMPTY),
        }
    }

    /// Like [`Arena::resolve`] where a missing type counts as one without map, list and scalar.
    pub(crate) fn atom(&self, id: TypeId) -> &Atom {
        match self.resolve(id) {
            Resolved::Atom(atom) => atom,
            Resolved::Missing(_) => &Atom::EMPTY,
        }
    }
}

pub(crate) enum Resolved<'s> {
    Atom(&'s Atom),
    Missing(&'s str),
}

#[derive(Debug)]
pub(crate) enum Type {
    Atom(Atom),
    /// A reference to a component that the document does not have.
    Missing(Box<str>),
}

/// What a value may be: any of a scalar, a list and a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<Arc<List>>,
    pub(crate) map: Option<Arc<Map>>,
    /// The component's name for messages; empty for an inlined type.
    pub(crate) name: Option<Box<str>>,
}

impl Atom {
    pub(crate) const EMPTY: Atom = Atom { scalar: None, list: None, map: None, name: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) element: TypeId,
    /// Replaced whole; otherwise items are told apart by their keys, or by their value without keys.
    pub(crate) atomic: bool,
    pub(crate) keys: Box<[Box<str>]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Map {
    fields: Box<[(Box<str>, Field)]>,
    /// The fields by a hash of their name: one more than their number, or zero where there is none.
    index: Box<[u16]>,
    /// The type of fields that are not listed.
    pub(crate) element: TypeId,
    pub(crate) atomic: bool,
    /// Without listed fields and with elements of unknown type: field sets are not reconciled below.
    pub(crate) deduced: bool,
}

impl Map {
    fn new(fields: Vec<(Box<str>, Field)>, element: TypeId, atomic: bool, deduced: bool) -> Self {
        let size = if fields.is_empty() { 0 } else { (fields.len() * 2).next_power_of_two() };
        let mut index = vec![0; size].into_boxed_slice();
        for (number, (name, _)) in (1..).zip(&fields) {
            let free = probe(name, size).find(|at| index.get(*at) == Some(&0));
            if let Some(slot) = free.and_then(|at| index.get_mut(at)) {
                *slot = number;
            }
        }
        Self { fields: fields.into_boxed_slice(), index, element, atomic, deduced }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        for at in probe(name, self.index.len()) {
            let number = usize::from(*self.index.get(at)?).checked_sub(1)?;
            let (candidate, field) = self.fields.get(number)?;
            if **candidate == *name {
                return Some(field);
            }
        }
        None
    }

    pub(crate) fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    pub(crate) fn field_ignoring_case(&self, name: &str) -> Option<&Field> {
        let mut fields = self.fields.iter();
        fields.find(|(candidate, _)| candidate.eq_ignore_ascii_case(name)).map(|(_, field)| field)
    }

    /// The type of the named field, listed or not.
    pub(crate) fn type_of(&self, name: &str) -> TypeId {
        self.field(name).map_or(self.element, |field| field.id)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) id: TypeId,
    pub(crate) default: Option<Box<Value>>,
    pub(crate) patch: Option<Arc<PatchMeta>>,
}

/// The slots of an index of this size, a power of two or zero, in which a name may stand.
fn probe(name: &str, size: usize) -> impl Iterator<Item = usize> {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let start = usize::try_from(hash ^ (hash >> 15)).unwrap_or_default();
    (0..size).map(move |step| start.wrapping_add(step) & (size - 1))
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatchMeta {
    pub(crate) merge: bool,
    pub(crate) replace: bool,
    pub(crate) merge_key: Option<Box<str>>,
}

impl PatchMeta {
    /// The field is replaced as a whole.
    pub(crate) fn replaces(&self) -> bool {
        self.replace
    }
}
