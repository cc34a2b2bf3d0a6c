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
    // The controller of Clusters asks what the target serves on its own schedule.
    let is_discovery =
        |request: &String| matches!(request.as_str(), "get /version" | "get /api" | "get /apis");
    let discovery: Vec<String> = world.target_requests().into_iter().skip(before.len()).collect();
    assert!(discovery.iter().all(is_discovery), "{discovery:?}");

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
    until("the status says what was done", || async {
        let status = world.says("web", "True/Succeeded", "5 objects").await;
        condition(&status, "Applied")["message"] == "1 to create, 1 to change, 3 unchanged, 1 to prune"
    })
    .await;
    let requests: Vec<String> = world
        .target_requests()
        .into_iter()
        .skip(before.len())
        .filter(|request| !is_discovery(request))
        .collect();
    let verbs = |verb: &str| requests.iter().filter(|request| request.starts_with(verb)).count();
    assert_eq!((verbs("patch"), verbs("delete"), verbs("get")), (2, 1, 2), "{requests:#?}");

    // Deleting the Release takes all along, the inventory and the finalizer last.
    world.delete(&world.releases(), "web").await;
    until("the Release is gone", || async { world.releases().get_opt("web").await.unwrap().is_none() }).await;
    assert!(world.config_map("web", "one").await.is_null());
    assert!(world.inventories().list(&Default::default()).await.unwrap().items.is_empty());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_said_where_it_is_and_nothing_else_suffers() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let good = config_map("good", "1");
    // Which of the Releases makes the shared namespace is a matter of chance.
    let files = [
        ("good/a.yaml", good.as_str()),
        ("syntax/a.yaml", "a: [1\n"),
        ("kind/a.yaml", "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n"),
        ("invalid/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n"),
        (
            "secret/a.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: {nested: CANARY-1}}\n",
        ),
        ("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("chart/templates/a.yaml", "a: {{ .Values.missing.deeper }}\n"),
    ];
    let mut world = World::start(plane, &files).await;
    world.release("good", "good", NO_WAIT()).await;
    for name in ["syntax", "kind", "invalid", "secret", "chart"] {
        world.release(name, name, NO_WAIT()).await;
    }
    world.release("nowhere", "no/such/folder", NO_WAIT()).await;
    world
        .convoy(
            "Cluster",
            json!({"metadata": {"name": "exec"}, "spec": {"kubeconfig": {"secretRef": {"name": "exec"}}}}),
        )
        .await;
    let kubeconfig = "{clusters: [{name: c, cluster: {server: 'https://10.0.0.1'}}], users: [{name: u, user: {exec: {command: sh}}}], \
                      contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}";
    world
        .create(
            "v1",
            "Secret",
            "secrets",
            json!({"metadata": {"name": "exec"}, "stringData": {"kubeconfig": kubeconfig}}),
        )
        .await;
    let mut elsewhere = NO_WAIT();
    elsewhere["clusterRef"] = json!({"name": "exec"});
    world.release("elsewhere", "good", elsewhere).await;

    world.says("good", "True/Succeeded", "").await;
    world.says("syntax", "False/RenderFailed", "syntax/a.yaml:2").await;
    world.says("kind", "False/PlanFailed", "the target serves no Gadget in example.com/v1").await;
    let invalid = world.says("invalid", "False/ApplyRejected", "ConfigMap web/Not_A_Name: ").await;
    assert_eq!(condition(&invalid, "Stalled")["status"], "True");
    let secret = world
        .says(
            "secret",
            "False/ApplyRejected",
            "Secret web/s: the server refused the content at .stringData.password",
        )
        .await;
    assert!(!secret.to_string().contains("CANARY"), "{secret:#}");
    world.says("chart", "False/RenderFailed", "c/templates/a.yaml:1").await;
    world.says("nowhere", "False/PathNotFound", "no/such/folder").await;
    world.says("elsewhere", "False/DependencyNotReady", "users[u].exec is refused").await;

    // An object that another Release has is not taken, and what breaks later leaves all as it was.
    world.release("thief", "good", NO_WAIT()).await;
    world.says("thief", "False/ApplyConflict", "ConfigMap web/good belongs to the Release team/good").await;
    world.delete(&world.releases(), "thief").await;
    until("the Release is gone", || async { world.releases().get_opt("thief").await.unwrap().is_none() })
        .await;
    world.commit(&[("good/a.yaml", "a: [1\n"), ("empty", "")]);
    let broken = world.says("good", "False/RenderFailed", "good/a.yaml:2").await;
    assert_ne!(broken["objects"], 0);
    assert_eq!(world.config_map("web", "good").await, json!({"value": "1"}));
    world.commit(&[("good/README", "no manifests")]);
    world.says("good", "False/EmptyBundle", "nothing is pruned").await;
    assert_eq!(world.config_map("web", "good").await, json!({"value": "1"}));
    world.commit(&[("good/a.yaml", &config_map("good", "2"))]);
    world.says("good", "True/Succeeded", "").await;
    assert_eq!(world.config_map("web", "good").await, json!({"value": "2"}));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_observer_opens_the_gate_and_drift_is_corrected() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let files = [
        ("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("chart/values.yaml", "size: small\n"),
        (
            "chart/templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: {{ .Values.size | quote }}}\n",
        ),
        ("chart/templates/NOTES.txt", "size {{ .Values.size }}\n"),
    ];
    let mut world = World::start(plane, &files).await;
    let spec = json!({"targetNamespace": "web", "createNamespace": true, "render": {"helm": {"values": {"size": "large"}}}});
    world.release("shop", "chart", spec).await;
    world.says("shop", "False/WaitingForHealth", "waiting for the objects").await;
    world.start_observer();
    let status = world.says("shop", "True/Succeeded", "2 objects").await;
    assert_eq!(status["notes"], "size large");
    assert_eq!(status["history"].as_array().unwrap().len(), 1);
    assert_eq!(world.config_map("web", "shop").await, json!({"size": "large"}));

    let maps = world.api("v1", "ConfigMap", "configmaps", Some("web"));
    world.patch(&maps, "shop", json!({"data": {"size": "tiny"}})).await;
    until("a change is undone", || async {
        world.config_map("web", "shop").await == json!({"size": "large"})
    })
    .await;
    world.delete(&maps, "shop").await;
    until("a deleted object is back", || async {
        world.config_map("web", "shop").await == json!({"size": "large"})
    })
    .await;
    world.says("shop", "True/Succeeded", "2 objects").await;

    // Nothing is done to a suspended Release, and all is made good when it resumes.
    world.patch(&world.releases(), "shop", json!({"spec": {"suspend": true}})).await;
    world.says("shop", "False/Suspended", "what is on the target stays").await;
    let before = world.target_requests();
    world
        .patch(&world.releases(), "shop", json!({"spec": {"render": {"helm": {"values": {"size": "huge"}}}}}))
        .await;
    world.says("shop", "False/Suspended", "").await;
    assert_eq!(world.target_requests(), before);
    world.patch(&world.releases(), "shop", json!({"spec": {"suspend": false}})).await;
    until("the change arrives", || async {
        world.config_map("web", "shop").await == json!({"size": "huge"})
    })
    .await;
    let status = world.says("shop", "True/Succeeded", "2 objects").await;
    assert_eq!(status["history"].as_array().unwrap().len(), 2);

    // deletionPolicy Orphan leaves all there.
    world.patch(&world.releases(), "shop", json!({"spec": {"apply": {"deletionPolicy": "Orphan"}}})).await;
    world.delete(&world.releases(), "shop").await;
    until("the Release is gone", || async { world.releases().get_opt("shop").await.unwrap().is_none() })
        .await;
    assert_eq!(world.config_map("web", "shop").await, json!({"size": "huge"}));
    assert!(world.inventories().list(&Default::default()).await.unwrap().items.is_empty());
    world.stop().await;
}
