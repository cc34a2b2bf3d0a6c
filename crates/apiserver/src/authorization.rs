//! Authorisation: whether a user may do something.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::user::{SYSTEM_MASTERS, User};

/// What a user wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The user.
    pub user: User,
    /// The verb.
    pub verb: String,
    /// For a path that is no resource: the path.
    pub path: Option<String>,
    /// The group of the resource.
    pub group: String,
    /// The version of the resource.
    pub version: String,
    /// The resource.
    pub resource: String,
    /// The subresource, may be empty.
    pub subresource: String,
    /// The namespace, may be empty.
    pub namespace: String,
    /// The object's name, may be empty.
    pub name: String,
}

impl Attributes {
    /// `resource` or `resource/subresource`.
    pub fn combined_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The sentence of a refusal, as Kubernetes words it.
    pub fn refusal(&self) -> String {
        let (user, verb) = (&self.user.name, &self.verb);
        match &self.path {
            Some(path) => format!("User {user:?} cannot {verb} path {path:?}"),
            None => {
                let scope = if self.namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {:?}", self.namespace)
                };
                let (resource, group) = (self.combined_resource(), &self.group);
                format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}")
            }
        }
    }
}

/// What an authorizer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes; the text says why, for the audit log.
    Allow(String),
    /// No, whatever others say.
    Deny(String),
    /// Not known here; the text says why, when something is wrong.
    NoOpinion(String),
}

/// Decides who may do what.
#[async_trait]
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// The decision. What cannot be found out is no opinion, never leave.
    async fn authorize(&self, attributes: &Attributes) -> Decision;

    /// The rules that apply to a user in a namespace, as `status` of a SelfSubjectRulesReview.
    async fn rules(&self, _user: &User, _namespace: &str) -> serde_json::Value {
        serde_json::json!({
            "resourceRules": [], "nonResourceRules": [], "incomplete": true,
            "evaluationError": "the authorizer does not support user rule resolution"
        })
    }
}

/// Several authorizers, asked in turn; the first that has an opinion decides.
#[derive(Debug, Default)]
pub struct Union(Vec<Arc<dyn Authorizer>>);

impl Union {
    /// Of authorizers in the order in which they are asked.
    pub fn new(authorizers: Vec<Arc<dyn Authorizer>>) -> Self {
        Self(authorizers)
    }
}

#[async_trait]
impl Authorizer for Union {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        let mut reasons = Vec::new();
        for authorizer in &self.0 {
            match authorizer.authorize(attributes).await {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                decided => return decided,
            }
        }
        Decision::NoOpinion(reasons.join("\n"))
    }

    async fn rules(&self, user: &User, namespace: &str) -> serde_json::Value {
        let mut out = serde_json::json!({"resourceRules": [], "nonResourceRules": [], "incomplete": false});
        for authorizer in &self.0 {
            let rules = authorizer.rules(user, namespace).await;
            for list in ["resourceRules", "nonResourceRules"] {
                let found =
                    rules.get(list).and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
                if let Some(serde_json::Value::Array(all)) = out.get_mut(list) {
                    for rule in found {
                        if !all.contains(&rule) {
                            all.push(rule);
                        }
                    }
                }
            }
            for field in ["incomplete", "evaluationError"] {
                if let (Some(value), Some(map)) = (rules.get(field), out.as_object_mut())
                    && *value != serde_json::Value::Bool(false)
                {
                    map.insert(field.into(), value.clone());
                }
            }
        }
        out
    }
}

/// Lets `system:masters` do everything.
#[derive(Debug, Default)]
pub struct Masters;

#[async_trait]
impl Authorizer for Masters {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        if attributes.user.is_in(SYSTEM_MASTERS) {
            Decision::Allow(String::new())
        } else {
            Decision::NoOpinion(String::new())
        }
    }

    async fn rules(&self, user: &User, _namespace: &str) -> serde_json::Value {
        let all = user.is_in(SYSTEM_MASTERS);
        let resource = serde_json::json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        let path = serde_json::json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        serde_json::json!({
            "resourceRules": if all { resource } else { serde_json::json!([]) },
            "nonResourceRules": if all { path } else { serde_json::json!([]) },
            "incomplete": false
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(groups: &[&str]) -> Attributes {
        Attributes {
            user: User::new("jane", groups.iter().copied()),
            verb: "get".into(),
            resource: "pods".into(),
            subresource: "log".into(),
            namespace: "x".into(),
            ..Attributes::default()
        }
    }

    #[tokio::test]
    async fn masters_may_everything_and_others_nothing() {
        let union = Union::new(vec![Arc::new(Masters)]);
        assert_eq!(union.authorize(&attributes(&[SYSTEM_MASTERS])).await, Decision::Allow(String::new()));
        assert_eq!(union.authorize(&attributes(&["devs"])).await, Decision::NoOpinion(String::new()));
    }

    #[test]
    fn a_refusal_reads_as_kubernetes_writes_it() {
        assert_eq!(
            attributes(&[]).refusal(),
            "User \"jane\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"x\""
        );
        let path = Attributes { path: Some("/metrics".into()), verb: "get".into(), ..Attributes::default() };
        assert_eq!(path.refusal(), "User \"\" cannot get path \"/metrics\"");
    }
}
