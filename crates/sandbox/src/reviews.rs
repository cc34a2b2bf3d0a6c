//! Who am I, and what may I do: in the sandbox who has a certificate is its administrator, and who is impersonated may what
//! roles allow.

use async_trait::async_trait;
use convoy_apiserver::authorization::{Attributes, Authorizer, Decision};
use convoy_apiserver::negotiation::accept;
use convoy_apiserver::response::{self, Response};
use convoy_apiserver::user::SYSTEM_AUTHENTICATED;
use convoy_apiserver::{Call, Connect, User, decode};
use convoy_registry::Resource;
use http::StatusCode;
use serde_json::{Value, json};

/// Paths that everybody who proved who they are may read, as with `system:discovery` in a real cluster.
const DISCOVERY: [&str; 5] = ["/api", "/apis", "/openapi", "/version", "/healthz"];

/// Lets every authenticated user see what the cluster serves.
#[derive(Debug, Default)]
pub(crate) struct Discovery;

#[async_trait]
impl Authorizer for Discovery {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        let Some(path) = &attributes.path else { return Decision::NoOpinion(String::new()) };
        let is_below = |root: &&str| {
            path.strip_prefix(*root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_known = attributes.user.is_in(SYSTEM_AUTHENTICATED);
        if is_known && attributes.verb == "get" && DISCOVERY.iter().any(is_below) {
            Decision::Allow(String::new())
        } else {
            Decision::NoOpinion(String::new())
        }
    }
}

/// Answers reviews.
#[derive(Debug)]
pub(crate) struct Reviews;

#[async_trait]
impl Connect for Reviews {
    async fn connect(&self, call: &Call, resource: &Resource) -> Response {
        let accepted = accept(&call.headers, &call.query, &[]).unwrap_or_default();
        let body = match decode::object(&call.headers, &call.body) {
            Ok(body) => body,
            Err(status) => return response::status(&status, &accepted),
        };
        let mut review = body.object;
        if !review.is_object() {
            review = json!({});
        }
        review["apiVersion"] = Value::from(resource.api_version());
        review["kind"] = Value::from(resource.kind.as_str());
        review["status"] = status(&resource.kind, &call.user);
        response::value(StatusCode::CREATED, &review, &accepted)
    }
}

fn status(kind: &str, user: &User) -> Value {
    let user = json!({"username": user.name, "groups": user.groups});
    match kind {
        "SelfSubjectReview" => json!({"userInfo": user}),
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        "TokenReview" => json!({"authenticated": false, "error": "the sandbox issues no tokens"}),
        _ => json!({"allowed": true}),
    }
}
