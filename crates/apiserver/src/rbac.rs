//! RBAC: permissions from the Roles and bindings that the registry holds. What no rule allows is denied.

use std::sync::Arc;

use async_trait::async_trait;
use convoy_meta::{GetOptions, LabelSelector, ListOptions, Object, Reason, Status};
use convoy_registry::{Registry, RequestContext, Resource};
use serde_json::{Value, json};

use crate::authorization::{Attributes, Authorizer, Decision};
use crate::user::{SYSTEM_AUTHENTICATED, SYSTEM_MASTERS, SYSTEM_UNAUTHENTICATED, User};

const GROUP: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "v1";

/// Looks permissions up in a registry.
#[derive(Debug)]
pub struct Rbac {
    registry: Arc<Registry>,
}

/// A rule that a binding gives to a user.
struct Granted {
    rule: Value,
    /// For the audit log.
    by: String,
}

impl Rbac {
    /// Permissions from this registry, which has to serve the kinds of RBAC.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    fn resource(&self, plural: &str) -> Result<Arc<Resource>, Status> {
        self.registry.table().find(GROUP, VERSION, plural).ok_or_else(Status::unknown_resource)
    }

    async fn list(&self, plural: &str, namespace: Option<&str>) -> Result<Vec<Value>, Status> {
        let resource = self.resource(plural)?;
        let options = ListOptions { resource_version: "0".into(), ..ListOptions::default() };
        let listing = self.registry.list(&resource, namespace, &options).await?;
        Ok(listing.entries.iter().map(|entry| entry.to_value()).collect())
    }

    /// The rules of a role; a role that is not there gives none.
    async fn rules_of(&self, kind: &str, namespace: &str, name: &str) -> Result<Vec<Value>, Status> {
        let (plural, namespace) = if kind == "Role" { ("roles", namespace) } else { ("clusterroles", "") };
        let resource = self.resource(plural)?;
        let options = GetOptions { resource_version: "0".into() };
        let role = match self.registry.get(&resource, namespace, name, &options).await {
            Ok(entry) => entry.to_value(),
            Err(status) if status.reason() == Reason::NotFound => return Ok(Vec::new()),
            Err(status) => return Err(status),
        };
        let own = |role: &Value| role.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
        let selectors = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
        let Some(selectors) = selectors else { return Ok(own(&role)) };
        let selectors: Vec<LabelSelector> =
            selectors.iter().filter_map(|selector| LabelSelector::from_json(selector).ok()).collect();
        let all = self.list("clusterroles", None).await?;
        let chosen = all.iter().filter(|role| selectors.iter().any(|selector| selector.matches(role)));
        Ok(chosen.flat_map(own).collect())
    }

    /// Everything that bindings give to a user, in a namespace and everywhere.
    async fn granted(&self, user: &User, namespace: &str) -> Result<Vec<Granted>, Status> {
        let mut bindings = self.list("clusterrolebindings", None).await?;
        if !namespace.is_empty() {
            bindings.extend(self.list("rolebindings", Some(namespace)).await?);
        }
        let mut granted = Vec::new();
        for binding in &bindings {
            let subjects = binding.get("subjects").and_then(Value::as_array).map(Vec::as_slice);
            let Some(subject) = subjects.unwrap_or_default().iter().find(|subject| names(subject, user))
            else {
                continue;
            };
            let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (kind, name) = (text("/roleRef/kind"), text("/roleRef/name"));
            let subject_text =
                |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let by = format!(
                "RBAC: allowed by {} {:?} of {kind} {name:?} to {} {:?}",
                binding.kind(),
                binding.name(),
                subject_text("kind"),
                subject_text("name")
            );
            let rules = self.rules_of(kind, binding.namespace(), name).await?;
            granted.extend(rules.into_iter().map(|rule| Granted { rule, by: by.clone() }));
        }
        Ok(granted)
    }
}

fn names(subject: &Value, user: &User) -> bool {
    let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
    match text("kind") {
        "User" => text("name") == user.name,
        "Group" => user.is_in(text("name")),
        "ServiceAccount" => {
            user.name == format!("system:serviceaccount:{}:{}", text("namespace"), text("name"))
        }
        _ => false,
    }
}

fn has(rule: &Value, field: &str, wanted: &str) -> bool {
    let list = rule.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().any(|one| one == "*" || one == wanted)
}

/// Whether a rule allows a request.
fn allows(rule: &Value, attributes: &Attributes) -> bool {
    if !has(rule, "verbs", &attributes.verb) {
        return false;
    }
    let list = |field: &str| rule.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if let Some(path) = &attributes.path {
        return list("nonResourceURLs")
            .iter()
            .filter_map(Value::as_str)
            .any(|url| url == path || url.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix)));
    }
    let any_resource = format!("*/{}", attributes.subresource);
    let resource = has(rule, "resources", &attributes.combined_resource())
        || !attributes.subresource.is_empty() && has(rule, "resources", &any_resource);
    let named = list("resourceNames");
    has(rule, "apiGroups", &attributes.group)
        && resource
        && (named.is_empty() || named.iter().any(|name| *name == attributes.name.as_str()))
}

#[async_trait]
impl Authorizer for Rbac {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        match self.granted(&attributes.user, &attributes.namespace).await {
            Ok(granted) => match granted.iter().find(|granted| allows(&granted.rule, attributes)) {
                Some(granted) => Decision::Allow(granted.by.clone()),
                None => Decision::NoOpinion(String::new()),
            },
            Err(status) => {
                tracing::warn!(%status, "permissions cannot be read");
                Decision::NoOpinion("the permissions cannot be read".to_owned())
            }
        }
    }

    async fn rules(&self, user: &User, namespace: &str) -> Value {
        let (mut resources, mut paths) = (Vec::new(), Vec::new());
        let granted = self.granted(user, namespace).await;
        let error = granted.as_ref().err().map(ToString::to_string);
        for granted in granted.unwrap_or_default() {
            if granted.rule.get("nonResourceURLs").is_some() {
                paths.push(granted.rule);
            } else {
                resources.push(granted.rule);
            }
        }
        let mut rules = json!({
            "resourceRules": resources, "nonResourceRules": paths, "incomplete": error.is_some()
        });
        if let (Some(error), Some(map)) = (error, rules.as_object_mut()) {
            map.insert("evaluationError".into(), error.into());
        }
        rules
    }
}

/// The roles and bindings that every cluster starts with, as plural name and object.
///
/// Other than in kube-apiserver, `admin` may not write roles and bindings: whoever may, may give away
/// more than they have, which nothing here prevents.
pub fn bootstrap() -> Vec<(&'static str, Value)> {
    let role = |name: &str, rules: Value| {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "rules": rules,
        });
        ("clusterroles", role)
    };
    let binding = |name: &str, groups: &[&str]| {
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"apiGroup": GROUP, "kind": "Group", "name": group})).collect();
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": subjects,
        });
        ("clusterrolebindings", binding)
    };
    let create = |group: &str, resources: &[&str]| json!({"verbs": ["create"], "apiGroups": [group], "resources": resources});
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let read = ["get", "list", "watch"];
    let observed = ["releases/preview", "releases/diff", "releases/history", "releases/health"];
    let get_observed = json!({"verbs": ["get"], "apiGroups": ["convoy.kumodo.io"], "resources": observed});
    let convoy_kinds =
        ["clusters", "gitrepositories", "helmregistries", "ociregistries", "releases", "releaseinventories"];
    vec![
        role(
            "cluster-admin",
            json!([
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]}
            ]),
        ),
        binding("cluster-admin", &[SYSTEM_MASTERS]),
        role(
            "system:basic-user",
            json!([
                create("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
                create("authentication.k8s.io", &["selfsubjectreviews"])
            ]),
        ),
        binding("system:basic-user", &[SYSTEM_AUTHENTICATED]),
        role(
            "system:discovery",
            json!([{"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/"]}]),
        ),
        binding("system:discovery", &[SYSTEM_AUTHENTICATED]),
        role(
            "system:public-info-viewer",
            json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}]),
        ),
        binding("system:public-info-viewer", &[SYSTEM_AUTHENTICATED, SYSTEM_UNAUTHENTICATED]),
        role(
            "convoy:sharding-viewer",
            json!([{"verbs": ["get", "list"], "apiGroups": ["convoy.kumodo.io"], "resources": ["shardings"]}]),
        ),
        binding("convoy:sharding-viewer", &[SYSTEM_AUTHENTICATED]),
        role(
            "admin",
            json!([
                {"verbs": all, "apiGroups": [""], "resources": ["configmaps", "secrets", "serviceaccounts", "events"]},
                {"verbs": read, "apiGroups": [""], "resources": ["namespaces"]},
                {"verbs": all, "apiGroups": ["convoy.kumodo.io"], "resources": convoy_kinds},
                create("convoy.kumodo.io", &["releases/preview", "releases/diff", "releases/rollback"]),
                get_observed
            ]),
        ),
        role(
            "edit",
            json!([
                {"verbs": all, "apiGroups": [""], "resources": ["configmaps", "secrets", "serviceaccounts", "events"]},
                {"verbs": read, "apiGroups": [""], "resources": ["namespaces"]},
                {"verbs": all, "apiGroups": ["convoy.kumodo.io"], "resources": convoy_kinds},
                create("convoy.kumodo.io", &["releases/preview", "releases/diff", "releases/rollback"]),
                get_observed
            ]),
        ),
        role(
            "view",
            json!([
                {"verbs": read, "apiGroups": [""], "resources": ["configmaps", "serviceaccounts", "events", "namespaces"]},
                {"verbs": read, "apiGroups": ["convoy.kumodo.io"], "resources": convoy_kinds},
                get_observed
            ]),
        ),
    ]
}

/// Creates what is missing of [`bootstrap`]; what is there stays as it is.
///
/// # Errors
/// When the registry does not serve the kinds of RBAC, or cannot store.
pub async fn ensure_bootstrap(registry: &Registry, now: jiff::Timestamp) -> Result<(), Status> {
    let context = RequestContext::internal("convoy", now);
    for (plural, object) in bootstrap() {
        let resource = registry.table().find(GROUP, VERSION, plural).ok_or_else(Status::unknown_resource)?;
        match registry.create(&context, &resource, "", object.into()).await {
            Ok(_) => {}
            Err(status) if status.reason() == Reason::AlreadyExists => {}
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(verb: &str, group: &str, resource: &str, subresource: &str, name: &str) -> Attributes {
        Attributes {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..Attributes::default()
        }
    }

    #[test]
    fn rules_allow_what_they_name_and_nothing_else() {
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/log"], "resourceNames": ["a"]});
        let table = [
            (asks("get", "", "pods", "", "a"), true),
            (asks("get", "", "pods", "log", "a"), true),
            (asks("get", "", "pods", "status", "a"), false),
            (asks("get", "", "pods", "", "b"), false),
            (asks("get", "", "pods", "", ""), false),
            (asks("list", "", "pods", "", "a"), false),
            (asks("get", "apps", "pods", "", "a"), false),
        ];
        for (attributes, want) in table {
            assert_eq!(allows(&rule, &attributes), want, "{attributes:?}");
        }
        let any_scale = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]});
        assert!(allows(&any_scale, &asks("update", "apps", "deployments", "scale", "x")));
        assert!(!allows(&any_scale, &asks("update", "apps", "deployments", "", "x")));
    }

    #[test]
    fn paths_match_whole_or_by_prefix() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/api/*", "/version"]});
        let path =
            |path: &str| Attributes { verb: "get".into(), path: Some(path.into()), ..Attributes::default() };
        assert!(allows(&rule, &path("/api/v1")) && allows(&rule, &path("/version")));
        assert!(!allows(&rule, &path("/versions")) && !allows(&rule, &path("/metrics")));
        assert!(!allows(&rule, &asks("get", "", "pods", "", "")));
    }

    #[test]
    fn a_service_account_is_known_by_its_namespace_and_name() {
        let subject = json!({"kind": "ServiceAccount", "namespace": "x", "name": "y"});
        assert!(names(&subject, &User::service_account("x", "y", "u")));
        assert!(!names(&subject, &User::service_account("y", "x", "u")));
    }
}
