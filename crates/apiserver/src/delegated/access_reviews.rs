//! What the host lets users do.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use sha2::{Digest as _, Sha256};

use super::expiring::Expiring;
use super::{ANSWER, NoAnswer, asked};
use crate::authorization::{Attributes, Authorizer, Decision};

/// Questions longer than this are asked anew each time, as in Kubernetes.
const MAX_QUESTION: usize = 10_000;

/// Asks the host with a SubjectAccessReview. Answers are remembered for a while; without one, nobody may do anything.
#[derive(Debug)]
pub struct AccessReviews {
    reviews: Api<SubjectAccessReview>,
    known: Expiring<Decision>,
    allowed_lasts: Duration,
    denied_lasts: Duration,
}

impl AccessReviews {
    /// Remembers leave and refusal for so long: `--authorization-webhook-cache-authorized-ttl` and `…-unauthorized-ttl`.
    pub fn new(host: kube::Client, allowed_lasts: Duration, denied_lasts: Duration) -> Self {
        Self { reviews: Api::all(host), known: Expiring::default(), allowed_lasts, denied_lasts }
    }

    async fn ask(&self, spec: SubjectAccessReviewSpec) -> Result<Decision, String> {
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        match asked(&self.reviews, &review).await {
            Ok(answer) => {
                let status = answer.status.unwrap_or_default();
                let reason = status.reason.unwrap_or_default();
                Ok(match (status.allowed, status.denied) {
                    (_, Some(true)) => Decision::Deny(reason),
                    (true, _) => Decision::Allow(reason),
                    (false, _) => Decision::NoOpinion(reason),
                })
            }
            Err(NoAnswer::InTime) => Err(format!("no answer in {} s", ANSWER.as_secs())),
            Err(NoAnswer::Failed(failure)) => Err(failure),
        }
    }
}

fn spec_of(attributes: &Attributes) -> SubjectAccessReviewSpec {
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let user = &attributes.user;
    let (resource_attributes, non_resource_attributes) = match &attributes.path {
        Some(path) => {
            (None, Some(NonResourceAttributes { path: Some(path.clone()), verb: text(&attributes.verb) }))
        }
        None => (
            Some(ResourceAttributes {
                group: text(&attributes.group),
                name: text(&attributes.name),
                namespace: text(&attributes.namespace),
                resource: text(&attributes.resource),
                subresource: text(&attributes.subresource),
                verb: text(&attributes.verb),
                version: text(&attributes.version),
                ..ResourceAttributes::default()
            }),
            None,
        ),
    };
    SubjectAccessReviewSpec {
        user: text(&user.name),
        uid: text(&user.uid),
        groups: (!user.groups.is_empty()).then(|| user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
        resource_attributes,
        non_resource_attributes,
    }
}

#[async_trait]
impl Authorizer for AccessReviews {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        let spec = spec_of(attributes);
        let written = serde_json::to_vec(&spec).unwrap_or_default();
        let question: [u8; 32] = Sha256::digest(&written).into();
        if let Some(known) = self.known.get(&question) {
            return known;
        }
        match self.ask(spec).await {
            Ok(decision) => {
                let lasts = match decision {
                    Decision::Allow(_) => self.allowed_lasts,
                    Decision::Deny(_) | Decision::NoOpinion(_) => self.denied_lasts,
                };
                if (1..=MAX_QUESTION).contains(&written.len()) {
                    self.known.put(question, decision.clone(), lasts);
                }
                decision
            }
            Err(failure) => {
                tracing::warn!(failure, "the host cannot be asked what a user may do");
                Decision::NoOpinion("the host cannot be asked whether it is allowed".to_owned())
            }
        }
    }
}

/// `--authorization-always-allow-paths`: read without asking the host. A `*` at the end stands for any rest.
#[derive(Debug)]
pub struct AlwaysAllowedPaths(pub Vec<String>);

#[async_trait]
impl Authorizer for AlwaysAllowedPaths {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        let Some(path) = &attributes.path else { return Decision::NoOpinion(String::new()) };
        let path = path.trim_start_matches('/');
        let is_allowed = self.0.iter().map(|pattern| pattern.trim_start_matches('/')).any(|pattern| {
            match pattern.strip_suffix('*') {
                Some(beginning) => path.starts_with(beginning),
                None => path == pattern,
            }
        });
        match is_allowed {
            true => Decision::Allow(String::new()),
            false => Decision::NoOpinion(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::User;

    #[test]
    fn a_question_holds_all_that_the_host_may_decide_by() {
        let mut user = User::new("jane", ["devs"]);
        user.extra.insert("acme.org/project".into(), vec!["a".into()]);
        let attributes = Attributes {
            user: user.clone(),
            verb: "get".into(),
            group: "convoy.kumodo.io".into(),
            version: "v1alpha1".into(),
            resource: "releases".into(),
            subresource: "preview".into(),
            namespace: "web".into(),
            name: "shop".into(),
            path: None,
        };
        let expected = serde_json::json!({
            "user": "jane", "groups": ["devs"], "extra": {"acme.org/project": ["a"]},
            "resourceAttributes": {
                "verb": "get", "group": "convoy.kumodo.io", "version": "v1alpha1", "resource": "releases",
                "subresource": "preview", "namespace": "web", "name": "shop",
            },
        });
        assert_eq!(serde_json::to_value(spec_of(&attributes)).unwrap(), expected);
        let path =
            Attributes { user, verb: "get".into(), path: Some("/metrics".into()), ..Attributes::default() };
        let asked = serde_json::to_value(spec_of(&path)).unwrap();
        assert_eq!(asked["nonResourceAttributes"], serde_json::json!({"path": "/metrics", "verb": "get"}));
    }

    #[tokio::test]
    async fn only_listed_paths_are_always_allowed() {
        let paths = AlwaysAllowedPaths(vec!["/healthz".into(), "/openapi/*".into()]);
        for (path, expected) in
            [("/healthz", true), ("/healthz/etcd", false), ("/openapi/v3/apis", true), ("/apis", false)]
        {
            let attributes = Attributes { path: Some(path.into()), ..Attributes::default() };
            let is_allowed = matches!(paths.authorize(&attributes).await, Decision::Allow(_));
            assert_eq!(is_allowed, expected, "{path}");
        }
        let resource = Attributes { resource: "releases".into(), ..Attributes::default() };
        assert!(matches!(paths.authorize(&resource).await, Decision::NoOpinion(_)));
    }
}
