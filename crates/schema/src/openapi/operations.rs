//! What can be done on which path, independent of the version of OpenAPI.

use super::{ApiResource, group_version_path};

/// One operation on one path.
pub(super) struct Operation<'a> {
    pub(super) path: String,
    pub(super) method: &'static str,
    /// The action in `x-kubernetes-action`.
    pub(super) action: &'static str,
    pub(super) operation_id: String,
    /// Group, version, kind.
    pub(super) group_version_kind: [&'a str; 3],
    /// What the body holds, and the answer.
    pub(super) request: Option<Body<'a>>,
    pub(super) response: Body<'a>,
    pub(super) query: &'static [(&'static str, &'static str)],
    pub(super) strategic_patch: bool,
}

#[derive(Clone)]
pub(super) enum Body<'a> {
    Definition(&'a str),
    List(String),
    Meta(&'static str),
    Any,
}

impl Body<'_> {
    /// The name of the definition, if there is one.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Self::Definition(name) => Some((*name).to_owned()),
            Self::List(name) => Some(name.clone()),
            Self::Meta(name) => Some(format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")),
            Self::Any => None,
        }
    }
}

pub(super) const PATH_PARAMETERS: [&str; 2] = ["name", "namespace"];

/// The media types of a patch.
pub(super) fn patch_types(strategic: bool) -> impl Iterator<Item = &'static str> {
    let types =
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    types.into_iter().chain(strategic.then_some("application/strategic-merge-patch+json"))
}

const LIST_QUERY: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("pretty", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const READ_QUERY: &[(&str, &str)] = &[("pretty", "string")];
const WRITE_QUERY: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("pretty", "string")];
const PATCH_QUERY: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
    ("pretty", "string"),
];
const DELETE_QUERY: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("pretty", "string"),
    ("propagationPolicy", "string"),
];

/// All operations of a resource.
pub(super) fn of(resource: &ApiResource) -> Vec<Operation<'_>> {
    let root = group_version_path(&resource.group, &resource.version);
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("/{root}{scope}/{}", resource.plural);
    let item = format!("{collection}/{{name}}");
    let object = || Body::Definition(&resource.definition);
    let list = || Body::List(format!("{}List", resource.definition));
    let own = [resource.group.as_str(), &resource.version, &resource.kind];
    let scoped = if resource.namespaced { "Namespaced" } else { "" };
    let subject = format!("{}{scoped}{}", camel(&resource.group, &resource.version), resource.kind);

    let mut operations = Vec::new();
    for verb in &resource.verbs {
        let (path, method, action, id, request, response, query) = match verb.as_str() {
            "list" => (&collection, "get", "list", "list", None, list(), LIST_QUERY),
            "create" => (&collection, "post", "post", "create", Some(object()), object(), WRITE_QUERY),
            "deletecollection" => {
                let options = Some(Body::Meta("DeleteOptions"));
                let status = Body::Meta("Status");
                (&collection, "delete", "deletecollection", "deleteCollection", options, status, DELETE_QUERY)
            }
            "get" => (&item, "get", "get", "read", None, object(), READ_QUERY),
            "update" => (&item, "put", "put", "replace", Some(object()), object(), WRITE_QUERY),
            "patch" => (&item, "patch", "patch", "patch", Some(Body::Meta("Patch")), object(), PATCH_QUERY),
            "delete" => {
                let options = Some(Body::Meta("DeleteOptions"));
                (&item, "delete", "delete", "delete", options, Body::Meta("Status"), DELETE_QUERY)
            }
            _ => continue,
        };
        operations.push(Operation {
            path: path.clone(),
            method,
            action,
            operation_id: format!("{id}{subject}"),
            group_version_kind: own,
            request,
            response,
            query,
            strategic_patch: resource.strategic_patch,
        });
    }
    if resource.namespaced && resource.verbs.iter().any(|verb| verb == "list") {
        let group_version = camel(&resource.group, &resource.version);
        operations.push(Operation {
            path: format!("/{root}/{}", resource.plural),
            method: "get",
            action: "list",
            operation_id: format!("list{group_version}{}ForAllNamespaces", resource.kind),
            group_version_kind: own,
            request: None,
            response: list(),
            query: LIST_QUERY,
            strategic_patch: false,
        });
    }
    for subresource in &resource.subresources {
        let body = || subresource.definition.as_deref().map_or(Body::Any, Body::Definition);
        for verb in &subresource.verbs {
            let (method, id, request, query) = match verb.as_str() {
                "get" => ("get", "read", None, READ_QUERY),
                "create" => ("post", "create", Some(body()), WRITE_QUERY),
                "update" => ("put", "replace", Some(body()), WRITE_QUERY),
                "patch" => ("patch", "patch", Some(Body::Meta("Patch")), PATCH_QUERY),
                _ => continue,
            };
            let [group, version, kind] = &subresource.group_version_kind;
            operations.push(Operation {
                path: format!("{item}/{}", subresource.name),
                method,
                action: method,
                operation_id: format!("{id}{subject}{}", capital(&subresource.name)),
                group_version_kind: [group, version, kind],
                request,
                response: body(),
                query,
                strategic_patch: resource.strategic_patch,
            });
        }
    }
    operations
}

/// `AppsV1`, `CoreV1`, `RbacAuthorizationV1`.
fn camel(group: &str, version: &str) -> String {
    let group = if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
    group.split(['.', '-']).chain([version]).map(capital).collect()
}

fn capital(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(characters).collect()
}
