//! What objects do that cannot be changed, that servers fill, or that go by other hands, on a real kube-apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, and run git"
)]

mod support;

use convoy_testkit::{ControlPlane, Options};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use support::{World, condition, until};

fn no_wait() -> Value {
    json!({"targetNamespace": "web", "createNamespace": true, "apply": {"wait": false}})
}

fn fixed(value: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: fixed, annotations: {{{annotations}}}}}\nimmutable: true\ndata: {{value: {value:?}}}\n"
    )
}

fn plain(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{value: {value:?}}}\n")
}

impl World {
    async fn uid(&self, name: &str) -> Option<String> {
        let api = self.api("v1", "ConfigMap", "configmaps", Some("web"));
        api.get_opt(name).await.unwrap().and_then(|object| object.metadata.uid)
    }

    /// Writes to objects of the namespace web.
    fn writes(&self) -> Vec<String> {
        let is_write = |request: &String| {
            request.contains("/namespaces/web/")
                && !request.starts_with("get")
                && !request.starts_with("list")
        };
        self.target_requests().into_iter().filter(is_write).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_cannot_change_is_named_holds_nothing_else_and_is_made_anew_when_that_is_allowed() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let (one, other) = (fixed("1", ""), plain("other", "1"));
    let mut world = World::start(plane, &[("m/fixed.yaml", &one), ("m/other.yaml", &other)]).await;
    world.release("m", "m", no_wait()).await;
    world.says("m", "True/Succeeded", "3 objects").await;
    let first = world.uid("fixed").await;

    let (two, changed) = (fixed("2", ""), plain("other", "2"));
    world.commit(&[("m/fixed.yaml", &two), ("m/other.yaml", &changed)]);
    let text = "ConfigMap web/fixed: data: Forbidden: field is immutable";
    let status = world.says("m", "False/ApplyRejected", "field is immutable when `immutable` is set").await;
    let message = condition(&status, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("ConfigMap web/fixed") && message.contains("convoy.kumodo.io/replace"),
        "{text}: {message}"
    );
    assert_eq!(condition(&status, "Stalled")["status"], "True");
    assert_eq!(world.config_map("web", "other").await, json!({"value": "2"}));
    // It is not tried hot.
    let tried = world.writes().len();
    world.asked("m", "now").await;
    assert!(world.writes().len() <= tried + 2, "{:?}", world.writes());

    let allowed = fixed("2", "convoy.kumodo.io/replace: Allowed");
    world.commit(&[("m/fixed.yaml", &allowed), ("m/other.yaml", &changed)]);
    world.says("m", "True/Succeeded", "3 objects").await;
    assert_eq!(world.config_map("web", "fixed").await, json!({"value": "2"}));
    let second = world.uid("fixed").await;
    assert_ne!(first, second);

    // What is only wanted to be there, and what is replaced as a whole.
    let api = world.api("v1", "ConfigMap", "configmaps", Some("web"));
    world.patch(&api, "other", json!({"data": {"theirs": "x"}})).await;
    let whole = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, annotations: {convoy.kumodo.io/apply: Replace}}\ndata: {value: '3'}\n";
    let once = |value: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: once, annotations: {{convoy.kumodo.io/apply: IfNotPresent}}}}\ndata: {{value: {value:?}}}\n"
        )
    };
    world.commit(&[("m/fixed.yaml", &allowed), ("m/other.yaml", whole), ("m/once.yaml", &once("1"))]);
    until("it is replaced", || async { world.config_map("web", "other").await == json!({"value": "3"}) })
        .await;
    world.says("m", "True/Succeeded", "4 objects").await;
    world.commit(&[
        ("m/fixed.yaml", &allowed),
        ("m/other.yaml", whole),
        ("m/once.yaml", &once("2")),
        ("m/more.yaml", &plain("more", "1")),
    ]);
    world.says("m", "True/Succeeded", "5 objects").await;
    assert_eq!(world.config_map("web", "once").await, json!({"value": "1"}));
    assert_eq!(world.uid("fixed").await, second);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_116_117_what_the_server_fills_is_neither_sent_nor_drift() {
    let Some(plane) =
        ControlPlane::start_or_leave_out(&Options { controller_manager: true, ..Options::default() })
    else {
        return;
    };
    let service = |more: &str, port: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec:\n{more}  selector: {{app: web}}\n  ports:\n  - {{{port}, targetPort: 8080}}\n"
        )
    };
    let crd = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.example.com, creationTimestamp: null, resourceVersion: ""}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Box, plural: boxes}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
status: {acceptedNames: {kind: "", plural: ""}, conditions: [], storedVersions: []}
"#;
    let roles = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: convoy-test-all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {convoy-test: "true"}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: convoy-test-one, labels: {convoy-test: "true"}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
"#;
    let first = service("", "name: http, port: 80");
    let rest = [("m/crd.yaml", crd), ("m/roles.yaml", roles)];
    let mut world = World::start(plane, &[&rest[..], &[("m/s.yaml", first.as_str())]].concat()).await;
    world.start_observer();
    world.release("m", "m", no_wait()).await;
    world.says("m", "True/Succeeded", "5 objects").await;
    let services = world.api("v1", "Service", "services", Some("web"));
    let address = services.get("s").await.unwrap().data["spec"]["clusterIP"].clone();
    let steps = [
        ("NodePort", service("  type: NodePort\n", "name: http, port: 80")),
        ("ClusterIP", service("", "name: http, port: 80")),
        ("ClusterIP", service("", "name: http, port: 81")),
        ("ClusterIP", service("", "name: web, port: 81")),
        ("ClusterIP", service("  clusterIP: \"\"\n  clusterIPs: []\n", "name: http, port: 80")),
    ];
    for (number, (kind, text)) in steps.iter().enumerate() {
        world
            .commit(&[&rest[..], &[("m/s.yaml", text.as_str()), ("m/number", &number.to_string())]].concat());
        let port = if text.contains("port: 81") { 81 } else { 80 };
        let name = if text.contains("name: web") { "web" } else { "http" };
        until(&format!("step {number} arrives"), || async {
            let spec = services.get("s").await.unwrap().data["spec"].clone();
            let ports = spec["ports"].as_array().unwrap();
            spec["type"] == *kind && ports.len() == 1 && ports[0]["port"] == port && ports[0]["name"] == name
        })
        .await;
        world.says("m", "True/Succeeded", "").await;
        assert_eq!(services.get("s").await.unwrap().data["spec"]["clusterIP"], address);
    }
    // An address that is given once cannot be taken away.
    let headless = service("  clusterIP: None\n", "name: http, port: 80");
    world.commit(&[&rest[..], &[("m/s.yaml", headless.as_str())]].concat());
    world.says("m", "False/ApplyRejected", "may not change once set").await;
    world.commit(&[&rest[..], &[("m/s.yaml", first.as_str())]].concat());
    world.says("m", "True/Succeeded", "").await;

    // What the control plane wrote into the definition and the role is no drift.
    let roles = world.api("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", None);
    until("the role is filled", || async {
        roles.get("convoy-test-all").await.unwrap().data["rules"]
            .as_array()
            .is_some_and(|rules| rules.len() == 1)
    })
    .await;
    until("nothing is drift", || async {
        let status = world.releases().get("m").await.unwrap().data["status"].clone();
        condition(&status, "Drifted")["status"] == "False"
            && status["observedBundleDigest"] == status["bundleDigest"]
    })
    .await;
    let before = world.writes().len();
    world.asked("m", "now").await;
    assert_eq!(world.writes().len(), before);
    assert_eq!(roles.get("convoy-test-all").await.unwrap().data["rules"].as_array().unwrap().len(), 1);
    world.stop().await;
}

const BOX_CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Box, plural: boxes}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_went_or_came_by_other_hands_are_left_alone_and_hold_nothing() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let instance = |name: &str| {
        format!("apiVersion: example.com/v1\nkind: Box\nmetadata: {{name: {name}}}\nspec: {{size: 3}}\n")
    };
    let (of_crd, of_boxes) = (instance("a"), instance("b"));
    let (keep, mine) = (plain("keep", "1"), plain("mine", "1"));
    let files = [
        // The instance stands before its definition.
        ("crd/a.yaml", of_crd.as_str()),
        ("crd/z.yaml", BOX_CRD),
        ("boxes/b.yaml", &of_boxes),
        ("anew/keep.yaml", &keep),
        ("anew/mine.yaml", &mine),
        ("ending/keep.yaml", &keep),
    ];
    let mut world = World::start(plane, &files).await;
    world.release("crd", "crd", no_wait()).await;
    world.says("crd", "True/Succeeded", "3 objects").await;
    let not_found = |request: &String| request.starts_with("patch") && request.contains("/boxes/");
    assert_eq!(
        world.target_requests().iter().filter(|r| not_found(r)).count(),
        1,
        "it is applied once, when it can be"
    );
    world.release("boxes", "boxes", json!({"targetNamespace": "web", "apply": {"wait": false}})).await;
    world.says("boxes", "True/Succeeded", "1 object").await;
    let broken = instance("a").replace("size: 3", "size: big");
    world.commit(&[&files[1..], &[("crd/a.yaml", broken.as_str())]].concat());
    world.says("crd", "False/ApplyRejected", "Box.example.com web/a").await;
    world.commit(&files);
    world.says("crd", "True/Succeeded", "3 objects").await;

    // An object that somebody deleted and made anew without our mark is not ours to prune.
    let spec = json!({"targetNamespace": "web", "apply": {"wait": false}});
    world.release("anew", "anew", spec).await;
    world.says("anew", "True/Succeeded", "2 objects").await;
    world.patch(&world.releases(), "anew", json!({"spec": {"suspend": true}})).await;
    world.says("anew", "False/Suspended", "").await;
    let maps = world.api("v1", "ConfigMap", "configmaps", Some("web"));
    maps.delete("mine", &DeleteParams::default()).await.unwrap();
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"value": "theirs"}});
    maps.create(&Default::default(), &serde_json::from_value(theirs).unwrap()).await.unwrap();
    let left: Vec<_> = files.iter().filter(|(path, _)| *path != "anew/mine.yaml").copied().collect();
    world.commit(&left);
    world.patch(&world.releases(), "anew", json!({"spec": {"suspend": false}})).await;
    let status = world.says("anew", "True/Succeeded", "1 object").await;
    let applied = condition(&status, "Applied")["message"].as_str().unwrap().to_owned();
    assert!(applied.contains("ConfigMap web/mine stays, for it"), "{applied}");
    assert_eq!(world.config_map("web", "mine").await, json!({"value": "theirs"}));

    // A definition that somebody deletes takes its objects along, and stops nobody.
    let definitions =
        world.api("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", None);
    for name in ["crd", "boxes"] {
        world.patch(&world.releases(), name, json!({"spec": {"suspend": true}})).await;
        world.says(name, "False/Suspended", "").await;
    }
    definitions.delete("boxes.example.com", &DeleteParams::default()).await.unwrap();
    until("the definition is gone", || async {
        definitions.get_opt("boxes.example.com").await.unwrap().is_none()
    })
    .await;
    for name in ["crd", "boxes"] {
        world.delete(&world.releases(), name).await;
        until("the Release is gone", || async { world.releases().get_opt(name).await.unwrap().is_none() })
            .await;
    }

    // A namespace that is being deleted is said, is not asked hot, and holds no deletion.
    let spec = json!({"targetNamespace": "ending", "createNamespace": true, "apply": {"wait": false}});
    world.release("ending", "ending", spec).await;
    world.says("ending", "True/Succeeded", "2 objects").await;
    let namespaces = world.api("v1", "Namespace", "namespaces", None);
    // Without a controller manager nothing ends the deletion.
    namespaces.delete("ending", &DeleteParams::default()).await.unwrap();
    let more: Vec<_> = left.iter().copied().chain([("ending/more.yaml", mine.as_str())]).collect();
    world.commit(&more);
    world.says("ending", "False/ApplyFailed", "namespace ending").await;
    let tried =
        world.target_requests().iter().filter(|request| request.contains("/namespaces/ending/")).count();
    world.asked("anew", "now").await;
    let again =
        world.target_requests().iter().filter(|request| request.contains("/namespaces/ending/")).count();
    assert!(again <= tried + 1, "{again} requests after {tried}");
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    world
        .api("v1", "ConfigMap", "configmaps", Some("ending"))
        .patch("keep", &PatchParams::default(), &held)
        .await
        .unwrap();
    world.delete(&world.releases(), "ending").await;
    until("the Release is gone", || async { world.releases().get_opt("ending").await.unwrap().is_none() })
        .await;
    world.stop().await;
}
