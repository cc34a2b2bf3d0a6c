//! The OpenAPI documents of an API server: what `kubectl explain`, `apply`, `diff` and `create` read.
//!
//! The functions are pure and each makes one document, so that a server can keep what did not change:
//! [`v3_document`] for one group-version, [`v3_index`] over all of them, [`v2_document`] for everything
//! at once. [`custom_resource_schemas`] makes the schemas of a custom resource.

mod names;
mod operations;
mod v2;
mod v3;

pub use names::{custom_resource_schemas, definition_name, group_version_path};
pub use v2::v2_document;
pub use v3::{Document, v3_document, v3_index};

/// A resource as the documents describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// Such as `Deployment`.
    pub kind: String,
    /// The name in paths.
    pub plural: String,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
    /// `create`, `delete`, `deletecollection`, `get`, `list`, `patch`, `update`, `watch`.
    pub verbs: Vec<String>,
    /// Its subresources.
    pub subresources: Vec<ApiSubresource>,
    /// The name of its schema; the list's is the same with `List` behind it.
    pub definition: String,
    /// Whether strategic merge patches are taken. kubectl sends one to whoever lists the type.
    pub strategic_patch: bool,
}

/// A subresource as the documents describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSubresource {
    /// The last part of the path.
    pub name: String,
    /// The kind it answers with: group, version, kind.
    pub group_version_kind: [String; 3],
    /// The name of that kind's schema; `None` answers with any object.
    pub definition: Option<String>,
    /// What can be done with it.
    pub verbs: Vec<String>,
}

impl From<&crate::BuiltIn> for ApiResource {
    fn from(kind: &crate::BuiltIn) -> Self {
        let subresources = kind.subresources.iter().map(|it| {
            let definition = match crate::catalogue().kind(&it.group, &it.version, &it.kind) {
                Some(other) => Some(other.definition.clone()),
                None => crate::catalogue().definition_of(&it.group, &it.version, &it.kind).map(str::to_owned),
            };
            ApiSubresource {
                name: it.name.clone(),
                group_version_kind: [it.group.clone(), it.version.clone(), it.kind.clone()],
                definition,
                verbs: it.verbs.clone(),
            }
        });
        Self {
            group: kind.group.clone(),
            version: kind.version.clone(),
            kind: kind.kind.clone(),
            plural: kind.plural.clone(),
            namespaced: kind.namespaced,
            verbs: kind.verbs.clone(),
            subresources: subresources.collect(),
            definition: kind.definition.clone(),
            strategic_patch: true,
        }
    }
}
