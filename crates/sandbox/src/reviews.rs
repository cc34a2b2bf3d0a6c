//! Who am I, and what may I do: in the sandbox everybody who has a certificate may do everything.

use async_trait::async_trait;
use convoy_apiserver::authorization::{Attributes, Authorizer, Decision};
use convoy_apiserver::negotiation::accept;
use convoy_apiserver::response::{self, Response};
use convoy_apiserver::{Call, Connect, User, decode};
use convoy_registry::Resource;
use http::StatusCode;
use serde_json::{Value, json};

/// Lets every authenticated user do everything.
#[derive(Debug, Default)]
pub(crate) struct AllowAll;

#[async_trait]
impl Authorizer for AllowAll {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        if attributes.user == User::anonymous() {
            Decision::NoOpinion(String::new())
        } else {
            Decision::Allow(String::new())
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
