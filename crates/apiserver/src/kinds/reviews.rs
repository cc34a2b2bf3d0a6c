//! Reviews: questions about users and permissions, of which nothing is stored.

use std::sync::Arc;

use async_trait::async_trait;
use convoy_meta::{FieldError, GroupKind, GroupResource, Object, Status};
use convoy_registry::Resource;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::authentication::{Authenticator, Credentials};
use crate::authorization::{Attributes, Authorizer, Decision};
use crate::call::Call;
use crate::decode;
use crate::handlers::{Api, Connect};
use crate::negotiation::accept;
use crate::response::{self, Response};
use crate::user::User;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Serves all reviews with what the server itself authenticates and authorises by.
pub fn serve(api: Api, authenticator: &Arc<dyn Authenticator>, authorizer: &Arc<dyn Authorizer>) -> Api {
    let kinds = [
        (AUTHENTICATION, "tokenreviews", Question::Token),
        (AUTHENTICATION, "selfsubjectreviews", Question::WhoAmI),
        (AUTHORIZATION, "subjectaccessreviews", Question::Access),
        (AUTHORIZATION, "localsubjectaccessreviews", Question::Access),
        (AUTHORIZATION, "selfsubjectaccessreviews", Question::SelfAccess),
        (AUTHORIZATION, "selfsubjectrulesreviews", Question::SelfRules),
    ];
    kinds.into_iter().fold(api, |api, (group, plural, question)| {
        let review =
            Review { question, authenticator: authenticator.clone(), authorizer: authorizer.clone() };
        api.connect(GroupResource::new(group, plural), "", Arc::new(review))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Token,
    WhoAmI,
    Access,
    SelfAccess,
    SelfRules,
}

#[derive(Debug)]
struct Review {
    question: Question,
    authenticator: Arc<dyn Authenticator>,
    authorizer: Arc<dyn Authorizer>,
}

#[async_trait]
impl Connect for Review {
    async fn connect(&self, call: &Call, resource: &Resource) -> Response {
        let accepted = accept(&call.headers, &call.query, &[]).unwrap_or_default();
        match self.answer(call, resource).await {
            Ok(review) => response::value(StatusCode::CREATED, &review, &accepted),
            Err(status) => response::status(&status, &accepted),
        }
    }
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What the spec of an access review asks for.
fn attributes(user: User, spec: &Value) -> Attributes {
    if let Some(resource) = spec.get("resourceAttributes").filter(|value| !value.is_null()) {
        return Attributes {
            user,
            verb: text(resource, "verb"),
            path: None,
            group: text(resource, "group"),
            version: text(resource, "version"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
        };
    }
    let path = spec.get("nonResourceAttributes").cloned().unwrap_or_default();
    Attributes { user, verb: text(&path, "verb"), path: Some(text(&path, "path")), ..Attributes::default() }
}

fn user_of(spec: &Value) -> User {
    let groups = spec.get("groups").and_then(Value::as_array).into_iter().flatten();
    User { uid: text(spec, "uid"), ..User::new(text(spec, "user"), groups.filter_map(Value::as_str)) }
}

impl Review {
    async fn answer(&self, call: &Call, resource: &Resource) -> Result<Value, Status> {
        if call.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        let mut review = decode::object_of(&call.headers, &call.body, &resource.kind)?.object;
        let gvk = resource.gvk();
        let foreign = |found: &str, own: &str| !found.is_empty() && found != own;
        if foreign(review.kind(), &gvk.kind) || foreign(review.api_version(), &gvk.api_version()) {
            return Err(Status::bad_request(format!("the body of the request must be a {}", gvk.kind)));
        }
        let spec = review.get("spec").cloned().unwrap_or_else(|| json!({}));
        let status = match self.question {
            Question::WhoAmI => {
                review.set_creation_timestamp(call.now);
                json!({ "userInfo": call.user })
            }
            Question::Token => self.token(call, &spec).await,
            Question::SelfRules => self.authorizer.rules(&call.user, &text(&spec, "namespace")).await,
            Question::Access | Question::SelfAccess => {
                self.check(&review, &spec, &gvk.group_kind())?;
                let user = if self.question == Question::Access { user_of(&spec) } else { call.user.clone() };
                match self.authorizer.authorize(&attributes(user, &spec)).await {
                    Decision::Allow(reason) => with_reason(json!({ "allowed": true }), &reason),
                    Decision::Deny(reason) => {
                        with_reason(json!({ "allowed": false, "denied": true }), &reason)
                    }
                    Decision::NoOpinion(reason) => with_reason(json!({ "allowed": false }), &reason),
                }
            }
        };
        review.set_gvk(&gvk);
        if review.metadata().is_none() {
            review.metadata_mut();
        }
        if let Some(map) = review.as_object_mut() {
            map.insert("status".into(), status);
        }
        Ok(review)
    }

    fn check(&self, review: &Value, spec: &Value, kind: &GroupKind) -> Result<(), Status> {
        let has = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
        let mut errors = Vec::new();
        if has("resourceAttributes") == has("nonResourceAttributes") {
            let both = has("resourceAttributes");
            let detail = if both {
                "cannot be specified in combination with resourceAttributes"
            } else {
                "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            };
            let path = if both { "spec.nonResourceAttributes" } else { "spec.resourceAttributes" };
            let value = spec.get("nonResourceAttributes").cloned().unwrap_or_default();
            errors.push(FieldError::invalid(path, value, detail));
        }
        if self.question == Question::Access && text(spec, "user").is_empty() && !has("groups") {
            errors.push(FieldError::invalid(
                "spec.user",
                "",
                "at least one of user or group must be specified",
            ));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::invalid(&GroupKind::new(kind.group.as_str(), ""), review.name(), &errors))
        }
    }

    async fn token(&self, call: &Call, spec: &Value) -> Value {
        let mut headers = http::HeaderMap::new();
        let token = text(spec, "token");
        match http::HeaderValue::from_str(&format!("Bearer {token}")) {
            Ok(value) if !token.is_empty() => headers.insert(http::header::AUTHORIZATION, value),
            _ => return json!({"user": {}, "error": "no token specified"}),
        };
        let credentials = Credentials {
            headers: &headers,
            certificates: &[],
            remote: ([0, 0, 0, 0], 0).into(),
            now: call.now,
        };
        match self.authenticator.authenticate(&credentials).await {
            Ok(Some(user)) => json!({"authenticated": true, "user": user.authenticated()}),
            Ok(None) | Err(_) => json!({"user": {}, "error": "invalid bearer token"}),
        }
    }
}

fn with_reason(mut status: Value, reason: &str) -> Value {
    if let (Some(map), false) = (status.as_object_mut(), reason.is_empty()) {
        let map: &mut Map<String, Value> = map;
        map.insert("reason".into(), reason.into());
    }
    status
}
