//! Releases from a Git repository to a real kube-apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, and run git"
)]

mod support;

use convoy_testkit::{ControlPlane, Options};
use serde_json::{Value, json};

use support::{World, condition, until};

const NO_WAIT: fn() -> Value =
    || json!({"targetNamespace": "web", "createNamespace": true, "apply": {"wait": false}});

const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
"#;
const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 3}\n";

fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{value: {value:?}}}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_goes_from_git_to_objects_and_the_second_look_makes_no_request() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let (one, two) = (config_map("one", "1"), config_map("two", "1"));
    let files = [
        ("web/one.yaml", one.as_str()),
        ("web/two.yaml", two.as_str()),
        ("web/a.yaml", WIDGET),
        ("web/crd.yaml", CRD),
    ];
    let mut world = World::start(plane, &files).await;
    world.release("web", "web", NO_WAIT()).await;
    let status = world.says("web", "True/Succeeded", "5 objects").await;
    assert_eq!(world.config_map("web", "one").await, json!({"value": "1"}));
    assert_eq!(condition(&status, "Applied")["message"], "5 to create");
    assert_eq!(status["history"][0]["outcome"], "Succeeded");
    let widgets = world.api("example.com/v1", "Widget", "widgets", Some("web"));
    let widget = widgets.get("w").await.unwrap();
    assert_eq!(widget.metadata.labels.unwrap()["app.kubernetes.io/managed-by"], "convoy");
    let unknown = world
        .target_requests()
        .into_iter()
        .find(|request| request.contains("/widgets/w?") && request.starts_with("get"));
    assert_eq!(unknown, None, "an object whose kind the bundle brings is not looked for");

    // A look that is asked for, with nothing changed.
    let before = world.target_requests();
    let ask = |at: &str| json!({"metadata": {"annotations": {"convoy.kumodo.io/reconcile-at": at}}});
    world.patch(&world.releases(), "web", ask("now")).await;
    until("the request is echoed", || async {
        world.releases().get("web").await.unwrap().data["status"]["lastHandledReconcileAt"] == "now"
    })
    .await;
    assert_eq!(world.target_requests(), before);

    // A new process knows as much as the old one after it looked.
    world.stop().await;
    world.start_manager();
    world.patch(&world.releases(), "web", ask("again")).await;
    until("the request is echoed", || async {
        world.releases().get("web").await.unwrap().data["status"]["lastHandledReconcileAt"] == "again"
    })
    .await;
    let discovery: Vec<String> = world.target_requests().into_iter().skip(before.len()).collect();
    assert!(
        discovery.iter().all(|r| matches!(r.as_str(), "get /version" | "get /api" | "get /apis")),
        "{discovery:?}"
    );

    // A commit that changes one object, drops one and adds one.
    let (changed, three) = (config_map("one", "2"), config_map("three", "1"));
    let before = world.target_requests();
    world.commit(&[
        ("web/one.yaml", &changed),
        ("web/three.yaml", &three),
        ("web/a.yaml", WIDGET),
        ("web/crd.yaml", CRD),
    ]);
    until("the change arrives", || async { world.config_map("web", "one").await == json!({"value": "2"}) })
        .await;
    until("the dropped object goes", || async { world.config_map("web", "two").await.is_null() }).await;
    let status = world.says("web", "True/Succeeded", "5 objects").await;
    assert_eq!(condition(&status, "Applied")["message"], "1 to create, 1 to change, 3 unchanged, 1 to prune");
    let requests: Vec<String> = world.target_requests().into_iter().skip(before.len()).collect();
    let verbs = |verb: &str| requests.iter().filter(|request| request.starts_with(verb)).count();
    assert_eq!((verbs("patch"), verbs("delete"), verbs("get")), (2, 1, 2), "{requests:#?}");

    // Deleting the Release takes all along, the inventory and the finalizer last.
    world.delete(&world.releases(), "web").await;
    until("the Release is gone", || async { world.releases().get_opt("web").await.unwrap().is_none() }).await;
    assert!(world.config_map("web", "one").await.is_null());
    assert!(world.inventories().list(&Default::default()).await.unwrap().items.is_empty());
    world.stop().await;
}
