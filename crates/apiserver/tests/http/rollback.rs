//! `releases/rollback` on the wire: who may, what it answers, and what it leaves behind.

use convoy_testkit::{HttpsClient, Identity};
use serde_json::{Value, json};

use super::Fixture;

const RELEASES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/releases";
const ROLLBACK: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/releases/web/rollback";
const JSON: &str = "application/json";

/// A server with a Release of three revisions, the newest of which failed.
fn started() -> Fixture {
    let it = Fixture::start();
    let release = json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": "web"},
        "spec": {"clusterRef": {"name": "c"}, "source": {"git": {"repositoryRef": {"name": "g"}}}},
    });
    assert_eq!(it.client.send("POST", RELEASES, JSON, &release).unwrap().status, 201);
    let entry = |revision: i64, outcome: &str| {
        json!({"revision": revision, "outcome": outcome, "bundleDigest": format!("sha256:{revision}"),
            "sourceRevision": format!("main@sha1:{revision}")})
    };
    let status = json!({"status": {
        "lastAttemptedRevision": "main@sha1:3",
        "history": [entry(3, "Failed"), entry(2, "Succeeded"), entry(1, "Succeeded")],
    }});
    let path = format!("{RELEASES}/web/status");
    assert_eq!(it.client.send("PATCH", &path, "application/merge-patch+json", &status).unwrap().status, 200);
    it
}

fn body(revision: Option<i64>) -> Value {
    let mut body = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "ReleaseRollback"});
    if let Some(revision) = revision {
        body["revision"] = json!(revision);
    }
    body
}

impl Fixture {
    fn kept_request(&self) -> Option<Value> {
        let release = self.get(&format!("{RELEASES}/web")).json();
        let text = release["metadata"]["annotations"]["convoy.kumodo.io/rollback"].as_str()?.to_owned();
        Some(serde_json::from_str(&text).unwrap())
    }

    /// A client of a user with the rules of a role in `default`.
    pub(super) fn user(&self, name: &str, rules: &Value) -> HttpsClient {
        let base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]});
        for (plural, object) in [("roles", role), ("rolebindings", binding)] {
            let answer = self.client.send("POST", &format!("{base}/{plural}"), JSON, &object).unwrap();
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        let made = self.plane.authority.client(name, &[], jiff::Timestamp::now()).unwrap();
        let identity = Identity { certificate: made.certificate, key: made.key };
        let ca = &self.plane.authority.files().certificate;
        HttpsClient::new(self.plane.server.address(), ca, Some(&identity)).unwrap()
    }
}

#[test]
fn a_rollback_is_bound_to_the_spec_and_the_source_that_it_was_asked_for() {
    let it = started();
    let generation = it.get(&format!("{RELEASES}/web")).json()["metadata"]["generation"].clone();
    for (asked, chosen) in [(Some(1), 1), (None, 2)] {
        let answer = it.client.send("POST", ROLLBACK, JSON, &body(asked)).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        let said = answer.json();
        assert_eq!(said["kind"], "ReleaseRollback");
        assert_eq!((&said["revision"], &said["metadata"]["name"]), (&json!(chosen), &json!("web")));
        assert_eq!(said["sourceRevision"], format!("main@sha1:{chosen}"));
        let kept = it.kept_request().unwrap();
        assert_eq!((&kept["revision"], &kept["generation"]), (&json!(chosen), &generation));
        assert_eq!(kept["insteadOf"], "sha256:3");
    }
    let release = it.get(&format!("{RELEASES}/web")).json();
    assert_eq!(release["metadata"]["generation"], generation, "the spec is as it was");
}

#[test]
fn what_cannot_be_gone_back_to_is_refused_with_the_field_and_nothing_is_kept() {
    let it = started();
    let post = |path: &str, body: &Value| {
        let answer = it.client.send("POST", path, JSON, body).unwrap();
        (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    let mut unknown_field = body(Some(1));
    unknown_field["revison"] = json!(2);
    let other_kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    for (sent, code, said) in [
        (body(Some(9)), 422, "revision: Invalid value: 9: is not in the history, which has 3, 2, 1"),
        (body(Some(3)), 422, "is the current revision already"),
        (body(Some(0)), 422, "must be a number from status.history"),
        (json!({"revision": "two"}), 422, "must be a number from status.history"),
        (unknown_field, 400, "unknown field \"revison\""),
        (other_kind, 400, "must be a ReleaseRollback"),
    ] {
        let (status, message) = post(ROLLBACK, &sent);
        assert!(status == code && message.contains(said), "{sent}: {status} {message}");
    }
    assert_eq!(post(&format!("{RELEASES}/none/rollback"), &body(None)).0, 404);
    assert_eq!(it.get(ROLLBACK).status, 405);
    let dry = it.client.send("POST", &format!("{ROLLBACK}?dryRun=All"), JSON, &body(None)).unwrap();
    assert_eq!(dry.status, 201);
    assert_eq!(it.kept_request(), None);
    let suspend = json!({"spec": {"suspend": true}});
    let path = format!("{RELEASES}/web");
    assert_eq!(it.client.send("PATCH", &path, "application/merge-patch+json", &suspend).unwrap().status, 200);
    let (status, message) = post(ROLLBACK, &body(None));
    assert!(status == 409 && message.contains("suspended"), "{status} {message}");
}

#[test]
fn who_may_roll_back_needs_no_right_to_write_releases_and_the_other_way_round() {
    let it = started();
    let may = it.user(
        "may",
        &json!([{"verbs": ["create"], "apiGroups": ["convoy.kumodo.io"], "resources": ["releases/rollback"]}]),
    );
    let may_not = it.user(
        "may-not",
        &json!([{"verbs": ["get", "update"], "apiGroups": ["convoy.kumodo.io"], "resources": ["releases"]}]),
    );
    assert_eq!(may_not.send("POST", ROLLBACK, JSON, &body(None)).unwrap().status, 403);
    assert_eq!(may.send("POST", ROLLBACK, JSON, &body(None)).unwrap().status, 201);
    assert_eq!(may.get(&format!("{RELEASES}/web")).unwrap().status, 403);
    assert_eq!(it.kept_request().unwrap()["revision"], 2);
}

#[test]
fn discovery_and_openapi_name_the_subresource_with_its_kind() {
    let it = started();
    let list = it.get("/apis/convoy.kumodo.io/v1alpha1").json();
    let found =
        list["resources"].as_array().unwrap().iter().find(|one| one["name"] == "releases/rollback").unwrap();
    assert_eq!((&found["kind"], &found["verbs"]), (&json!("ReleaseRollback"), &json!(["create"])));
    let document = it.get("/openapi/v3/apis/convoy.kumodo.io/v1alpha1").json();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (_, schema) = schemas.iter().find(|(name, _)| name.ends_with(".ReleaseRollback")).unwrap();
    assert_eq!(schema["properties"]["revision"]["type"], "integer");
    let path = "/apis/convoy.kumodo.io/v1alpha1/namespaces/{namespace}/releases/{name}/rollback";
    assert!(document["paths"][path]["post"].is_object(), "{}", document["paths"][path]);
}
