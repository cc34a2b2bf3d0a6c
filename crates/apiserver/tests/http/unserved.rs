//! Fields that do nothing yet, on the wire: they are refused whatever the client wants of unknown fields.

use serde_json::json;

use super::Fixture;

#[test]
fn a_field_that_does_nothing_yet_is_refused_in_each_way_to_write_it() {
    let it = Fixture::start();
    let base = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/gitrepositories";
    let repository = |more: &str, value: bool| {
        json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "GitRepository", "metadata": {"name": "apps"},
            "spec": {"url": "https://git.example/apps", more: value},
        })
    };
    let is_refused = |method: &str, path: &str, content_type: &str, body: &serde_json::Value| {
        let answer = it.client.send(method, path, content_type, body).unwrap();
        assert_eq!(answer.status, 422, "{method} {path}: {}", answer.text());
        let cause = &answer.json()["details"]["causes"][0];
        assert_eq!(cause["field"], "spec.verify", "{cause}");
        assert!(cause["message"].as_str().unwrap().contains("not verified yet"), "{cause}");
    };
    for validation in ["Ignore", "Warn", "Strict"] {
        let path = format!("{base}?fieldValidation={validation}");
        is_refused("POST", &path, "application/json", &repository("verify", true));
    }
    let unknown = repository("nobodyKnows", true);
    let answer =
        it.client.send("POST", &format!("{base}?fieldValidation=Warn"), "application/json", &unknown);
    assert_eq!(
        answer.unwrap().status,
        201,
        "what nobody expects is dropped with a warning, as in Kubernetes"
    );
    let at = format!("{base}/apps");
    is_refused("PUT", &at, "application/json", &repository("verify", true));
    let patch = json!({"spec": {"verify": {"mode": "HEAD"}}});
    is_refused("PATCH", &at, "application/merge-patch+json", &patch);
    // Server-side apply refuses every field that is not known, as in Kubernetes.
    let apply = format!("{at}?fieldManager=t&force=true");
    let answer =
        it.client.send("PATCH", &apply, "application/apply-patch+yaml", &repository("verify", true)).unwrap();
    assert!(answer.status >= 400 && answer.text().contains(".spec.verify"), "{}", answer.text());
}
