//! What a resource is.

use std::sync::Arc;

use convoy_meta::object_validation::NameCheck;
use convoy_meta::{GroupKind, GroupResource, GroupVersionKind, GroupVersionResource, validation};
use convoy_schema::Structural;
use convoy_smd::Schema;
use convoy_storage::watch_cache::{EntryFormat, WatchCache};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{DefaultStrategy, PrinterColumn, Strategy};

/// Whether objects live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// What can be done with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

impl Verb {
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    /// As discovery and authorisation name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }
}

/// A part of a resource with a path of its own. The registry serves `status`; others are the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// The last part of the path, such as `status`.
    pub name: String,
    /// The kind it answers with; the resource's own if absent.
    pub kind: Option<GroupVersionKind>,
    pub verbs: Vec<Verb>,
}

impl Subresource {
    /// The status of the resource.
    pub fn status() -> Self {
        Self { name: "status".to_owned(), kind: None, verbs: vec![Verb::Get, Verb::Patch, Verb::Update] }
    }
}

/// Everything that is to know about a resource. Made with [`ResourceDef::new`], then changed field by
/// field.
#[derive(Debug, Clone)]
pub struct ResourceDef {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub scope: Scope,
    /// Sorted.
    pub verbs: Vec<Verb>,
    pub subresources: Vec<Subresource>,
    /// Defaults, unknown fields and validation; absent for kinds that are free of form.
    pub schema: Option<Structural>,
    /// How fields merge; [`Schema::deduced`] where nothing is known.
    pub merge_schema: Schema,
    /// Whether it is a built-in kind: strategic merge patches are taken, and null means absent, as Go's types
    /// have it.
    pub strategic_patch: bool,
    /// Columns of the Table after NAME. Empty means AGE alone.
    pub columns: Vec<PrinterColumn>,
    /// Dotted paths that field selectors can name besides `metadata.name` and `metadata.namespace`.
    pub selectable_fields: Vec<String>,
    pub strategy: Arc<dyn Strategy>,
    /// How names are judged.
    pub name_check: NameCheck,
    /// Whether an update without resourceVersion is taken.
    pub unconditional_update: bool,
    /// Whether an update of what does not exist creates it.
    pub create_on_update: bool,
    /// Whether a finished deletion answers with the object rather than with a Status.
    pub return_deleted_object: bool,
    /// Fields that only the server writes, as paths of field names: no client owns them or is in conflict
    /// over them, and the strategy sets them on every write.
    pub server_fields: Vec<Vec<String>>,
    /// Whether `metadata.generation` counts changes of what is not status or metadata.
    pub generation: bool,
    /// What a new object has before anybody sets a field: the parts that a Go type always prints, such as
    /// an empty `spec`. Whoever creates an object does not own them. Absent for kinds without such parts.
    pub empty: Option<Value>,
    /// Folder of the objects in the storage: `<group>/<plural>`, or `<plural>` for the core group. The
    /// versions of a kind share it.
    pub storage_path: String,
}

impl ResourceDef {
    /// A resource with all verbs, no subresource, no schema and the default strategy.
    pub fn new(group: &str, version: &str, kind: &str, plural: &str, scope: Scope) -> Self {
        let storage_path = if group.is_empty() { plural.to_owned() } else { format!("{group}/{plural}") };
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_ascii_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope,
            verbs: Verb::ALL.to_vec(),
            subresources: Vec::new(),
            schema: None,
            merge_schema: Schema::deduced(),
            strategic_patch: false,
            columns: Vec::new(),
            selectable_fields: Vec::new(),
            strategy: Arc::new(DefaultStrategy),
            name_check: validation::dns1123_subdomain,
            unconditional_update: false,
            create_on_update: false,
            return_deleted_object: false,
            server_fields: Vec::new(),
            generation: true,
            empty: None,
            storage_path,
        }
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(self.group.as_str(), self.version.as_str(), self.kind.as_str())
    }

    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(self.group.as_str(), self.version.as_str(), self.plural.as_str())
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.as_str(), self.plural.as_str())
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.as_str(), self.kind.as_str())
    }

    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether there is a status subresource, so that the main resource leaves the status alone.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }
}

/// A resource that is being served: its definition, and its cache once somebody reads it.
#[derive(Debug)]
pub struct Resource {
    def: Arc<ResourceDef>,
    format: EntryFormat,
    pub(crate) cache: OnceCell<WatchCache>,
}

impl Resource {
    pub(crate) fn new(def: Arc<ResourceDef>) -> Self {
        let format = EntryFormat {
            prefix: format!("/registry/{}/", def.storage_path),
            namespaced: def.namespaced(),
            api_version: def.api_version(),
            kind: def.kind.clone(),
            fields: def.selectable_fields.clone(),
        };
        Self { def, format, cache: OnceCell::new() }
    }

    pub fn def(&self) -> &ResourceDef {
        &self.def
    }

    /// The key of an object in the storage.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.def.namespaced() {
            format!("{}{namespace}/{name}", self.format.prefix)
        } else {
            format!("{}{name}", self.format.prefix)
        }
    }

    /// Ends the watches of a resource that is not served any more, whoever still holds it.
    pub(crate) fn close(&self) {
        if let Some(cache) = self.cache.get() {
            cache.close();
        }
    }

    /// How the stored objects are read.
    pub(crate) fn format(&self) -> &EntryFormat {
        &self.format
    }
}

impl std::ops::Deref for Resource {
    type Target = ResourceDef;

    fn deref(&self) -> &ResourceDef {
        &self.def
    }
}
