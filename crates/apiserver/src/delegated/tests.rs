//! Questions to a host that answers, refuses or is not there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{AccessReviews, TokenReviews};
use crate::authentication::{Authenticator, Credentials};
use crate::authorization::{Attributes, Authorizer, Decision};
use crate::user::User;

const LASTS: Duration = Duration::from_secs(10);

/// Answers reviews with a status, or with an error when there is none.
#[derive(Clone, Default)]
struct Host {
    status: Arc<Mutex<Option<Value>>>,
    asked: Arc<AtomicUsize>,
    last: Arc<Mutex<Value>>,
}

impl Host {
    fn client(&self) -> kube::Client {
        let host = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let host = host.clone();
            async move {
                host.asked.fetch_add(1, Ordering::SeqCst);
                let body = request.into_body().collect().await?.to_bytes();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                *host.last.lock() = review.clone();
                let (code, body) = match &*host.status.lock() {
                    Some(status) => {
                        review["status"] = status.clone();
                        (201, review)
                    }
                    None => {
                        (500, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500}))
                    }
                };
                let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
                answer.map_err(|error| Box::new(error) as Box<dyn std::error::Error + Send + Sync>)
            }
        });
        kube::Client::new(service, "default")
    }

    fn says(&self, status: Option<Value>) {
        *self.status.lock() = status;
    }

    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_user_may_do_is_remembered_for_ten_seconds_and_without_an_answer_he_may_nothing() {
    let host = Host::default();
    let reviews = AccessReviews::new(host.client(), LASTS, LASTS);
    let attributes = Attributes {
        user: User::new("jane", ["devs"]),
        verb: "get".into(),
        resource: "releases".into(),
        ..Attributes::default()
    };
    let may = || reviews.authorize(&attributes);
    assert!(matches!(may().await, Decision::NoOpinion(_)));
    assert_eq!(host.asked(), super::TRIES);

    // No failure is remembered.
    host.says(Some(json!({"allowed": true, "reason": "because"})));
    assert_eq!(may().await, Decision::Allow("because".into()));
    assert_eq!(host.last.lock()["spec"]["groups"], json!(["devs"]));
    host.says(Some(json!({"allowed": false})));
    assert_eq!(may().await, Decision::Allow("because".into()));
    assert_eq!(host.asked(), 1);
    let other = Attributes { verb: "delete".into(), ..attributes.clone() };
    assert!(matches!(reviews.authorize(&other).await, Decision::NoOpinion(_)));
    tokio::time::advance(LASTS).await;
    assert!(matches!(may().await, Decision::NoOpinion(_)));
    host.says(None);
    assert!(matches!(may().await, Decision::NoOpinion(_)));
    assert_eq!(host.asked(), 2, "a refusal is remembered, too");
    host.says(Some(json!({"allowed": true, "denied": true})));
    tokio::time::advance(LASTS).await;
    assert!(matches!(may().await, Decision::Deny(_)));
}

#[tokio::test(start_paused = true)]
async fn tokens_are_those_that_the_host_knows_remembered_for_ten_seconds() {
    let host = Host::default();
    let reviews = TokenReviews::new(host.client(), LASTS);
    let ask = |token: &'static str| {
        let reviews = &reviews;
        async move {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
            let remote = ([127, 0, 0, 1], 1).into();
            let now = jiff::Timestamp::UNIX_EPOCH;
            reviews.authenticate(&Credentials { headers: &headers, certificates: &[], remote, now }).await
        }
    };
    let error = ask("secret").await.unwrap_err();
    assert!(error.0.starts_with("the host cannot review tokens") && !error.0.contains("secret"), "{error}");
    assert_eq!(host.asked(), super::TRIES);

    host.says(Some(
        json!({"authenticated": true, "user": {"username": "jane", "uid": "7", "groups": ["devs"]}}),
    ));
    let jane = User { uid: "7".into(), ..User::new("jane", ["devs"]) };
    assert_eq!(ask("secret").await.unwrap(), Some(jane.clone()));
    host.says(Some(json!({"authenticated": false})));
    assert_eq!(ask("secret").await.unwrap(), Some(jane));
    ask("guess").await.unwrap_err();
    ask("guess").await.unwrap_err();
    assert_eq!(host.asked(), 2);
    tokio::time::advance(LASTS).await;
    ask("secret").await.unwrap_err();
}
