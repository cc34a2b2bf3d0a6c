//! One story, told to a simulated cluster and to a real one (kube-apiserver, kube-controller-manager and kwok): what
//! comes of it has to be the same.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_e2e::fleet::wait;
use convoy_e2e::repository::Repository;
use convoy_e2e::{Convoy, Kubectl};
use convoy_testkit::{ControlPlane, HttpsClient, Kwok, NODE, Options, leave_out, program};
use serde_json::{Value, json};

/// Also on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(240);
const RELEASES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/releases";
/// Objects of the large Release.
const MANY: usize = 1000;

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
/// A Deployment that becomes ready, and with `broken` never does: on either sort of cluster.
const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: front
  annotations: {note: plain{{ if .Values.broken }}, sandbox.convoy.kumodo.io/fail: it is broken{{ end }}}
spec:
  replicas: 2
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}, annotations: {text: {{ .Values.text }}}}
    spec:
      nodeName: {{ if .Values.broken }}nowhere{{ else }}NODE{{ end }}
      containers: [{name: front, image: registry.example.com/front}]
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: front}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: front}
data: {text: {{ .Values.text }}}
{{- if .Values.extra }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: extra}
{{- end }}
"#;
/// A hook that ends, and says for which text it ran.
const HOOK: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", text: {{ .Values.text }}}
spec:
  template:
    spec: {restartPolicy: Never, nodeName: NODE, containers: [{name: c, image: registry.example.com/c}]}
"#;
const KIND_AND_OBJECT: &str = r#"
apiVersion: example.com/v1
kind: Boat
metadata: {name: first}
spec: {sails: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Boat, listKind: BoatList, plural: boats, singular: boat}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {sails: {type: integer}}}
"#;
const APPLIED: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {keep: a, drop: b}\n";
const APPLIED_LESS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {keep: a}\n";
const HELMED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: helmed}\ndata: {keep: a, drop: b}\n";

/// A control plane with a target.
struct Stage {
    folder: tempfile::TempDir,
    host: HttpsClient,
    target: HttpsClient,
    kubeconfig: PathBuf,
    _convoy: Convoy,
}

impl Stage {
    fn set(kubeconfig: &Path, target: HttpsClient) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("convoy");
        let convoy = Convoy::standalone(&data, &[]).unwrap();
        let host = HttpsClient::from_kubeconfig(&data.join("admin.kubeconfig")).unwrap();
        let stage = Self { folder, host, target, kubeconfig: kubeconfig.to_owned(), _convoy: convoy };
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}, "stringData": {"kubeconfig": text}});
        stage.create("/api/v1/namespaces/default/secrets", &secret);
        stage.convoy(
            "Cluster",
            "clusters",
            "there",
            &json!({"kubeconfig": {"secretRef": {"name": "there"}}}),
        );
        stage.repository().init();
        stage.repository().commit(&[
            ("web/Chart.yaml", CHART.to_owned()),
            ("web/templates/all.yaml", DEPLOYMENT.replace("NODE", NODE)),
            ("web/templates/hook.yaml", HOOK.replace("NODE", NODE)),
            ("kinds/all.yaml", KIND_AND_OBJECT.to_owned()),
            ("applied/all.yaml", APPLIED.to_owned()),
            ("helmed/Chart.yaml", CHART.replace("web", "helmed")),
            ("helmed/templates/all.yaml", HELMED.to_owned()),
            ("many/all.yaml", many("one")),
        ]);
        let url = stage.repository().url();
        stage.convoy("GitRepository", "gitrepositories", "apps", &json!({"url": url, "interval": "1s"}));
        stage
    }

    fn repository(&self) -> Repository {
        Repository::at(&self.folder.path().join("apps"))
    }

    fn create(&self, path: &str, object: &Value) {
        let answer = self.host.send("POST", path, "application/json", object).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    fn convoy(&self, kind: &str, plural: &str, name: &str, spec: &Value) {
        let object = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        self.create(&format!("/apis/convoy.kumodo.io/v1alpha1/namespaces/default/{plural}"), &object);
    }

    fn release(&self, name: &str, namespace: &str, more: &Value) {
        let mut spec = json!({
            "clusterRef": {"name": "there"},
            "source": {"git": {"repositoryRef": {"name": "apps"}, "path": name}},
            "targetNamespace": namespace, "createNamespace": true,
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        self.convoy("Release", "releases", name, &spec);
    }

    fn change(&self, name: &str, spec: &Value) {
        let patch = json!({"spec": spec});
        let path = format!("{RELEASES}/{name}");
        let answer = self.host.send("PATCH", &path, "application/merge-patch+json", &patch).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Waits until Ready of a Release reads so for its present spec, and `is_it` is true of its status.
    fn says(&self, name: &str, status: &str, reason: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let said = wait(PATIENCE, || {
            let release = self.host.get(&format!("{RELEASES}/{name}")).ok()?.json();
            last = release["status"].clone();
            let ready = last["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?.clone();
            let is_current = last["observedGeneration"] == release["metadata"]["generation"];
            (is_current && ready["status"] == status && ready["reason"] == reason && is_it(&last))
                .then(|| last.clone())
        });
        said.unwrap_or_else(|| panic!("{name} does not say {status}/{reason}: {last:#}"))
    }

    fn delivered(&self, name: &str) -> Value {
        self.says(name, "True", "Succeeded", |_| true)
    }

    /// An object of the target; null when it is not there.
    fn found(&self, path: &str) -> Value {
        let answer = self.target.get(path).unwrap();
        if answer.status == 200 { answer.json() } else { Value::Null }
    }

    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        assert!(wait(PATIENCE, || is_so().then_some(())).is_some(), "never: {what}");
    }

    fn remove(&self, name: &str) {
        let answer = self.host.request("DELETE", &format!("{RELEASES}/{name}"), &[], b"").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.until(&format!("{name} is gone"), || {
            self.host.get(&format!("{RELEASES}/{name}")).unwrap().status == 404
        });
    }
}

fn many(text: &str) -> String {
    (0..MANY)
        .map(|number| {
            // One of them changes.
            let text = if number == 7 { text } else { "same" };
            format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: many-{number:04}}}\ndata: {{text: {text}}}\n")
        })
        .collect()
}

fn map(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

fn with_text(text: &str) -> Value {
    json!({"render": {"helm": {"values": {"text": text, "broken": false, "extra": text == "one"}}}})
}

fn story(stage: &Stage) {
    installs_upgrades_and_goes_back(stage);
    brings_a_kind_with_its_objects(stage);
    takes_over(stage);
    delivers_a_thousand(stage);
}

/// Install with a hook, upgrade, an upgrade that fails and is rolled back, and the removal with the namespace.
fn installs_upgrades_and_goes_back(stage: &Stage) {
    const JOB: &str = "/apis/batch/v1/namespaces/web/jobs/migrate";
    const FRONT: &str = "/apis/apps/v1/namespaces/web/deployments/front";
    let mut spec = with_text("one");
    spec["onFailure"] = json!({"action": "Rollback", "retries": 0});
    spec["apply"] = json!({"timeout": "20s"});
    stage.release("web", "web", &spec);
    let status = stage.delivered("web");
    assert_eq!((&status["objects"], &status["healthyObjects"]), (&json!(5), &json!(5)), "{status:#}");
    assert_eq!(stage.found(FRONT)["status"]["readyReplicas"], 2);
    assert_eq!(stage.found(&map("web", "front"))["data"], json!({"text": "one"}));
    let first = stage.found(JOB);
    assert_eq!(first["metadata"]["annotations"]["text"], "one", "{first:#}");
    assert_eq!(first["status"]["succeeded"], 1);

    stage.change("web", &with_text("two"));
    stage.delivered("web");
    assert_eq!(stage.found(&map("web", "front"))["data"], json!({"text": "two"}));
    assert_eq!(stage.found(&map("web", "extra")), Value::Null, "what left the chart is still there");
    let second = stage.found(JOB);
    assert_eq!(second["metadata"]["annotations"]["text"], "two");
    assert_ne!(second["metadata"]["uid"], first["metadata"]["uid"], "the hook did not run again");

    let mut broken = with_text("three");
    broken["render"]["helm"]["values"]["broken"] = json!(true);
    stage.change("web", &broken);
    let status = stage.says("web", "False", "RolledBack", |_| true);
    let outcomes: Vec<&Value> =
        status["history"].as_array().unwrap().iter().map(|entry| &entry["outcome"]).collect();
    assert_eq!(outcomes, ["Succeeded", "Failed", "Succeeded", "Succeeded"], "{status:#}");
    assert_eq!(stage.found(&map("web", "front"))["data"], json!({"text": "two"}));
    stage.until("the Deployment is well again", || {
        let front = stage.found(FRONT);
        front["spec"]["template"]["spec"]["nodeName"] == NODE && front["status"]["readyReplicas"] == 2
    });

    stage.remove("web");
    stage.until("the namespace is gone", || stage.found("/api/v1/namespaces/web").is_null());
}

/// A CustomResourceDefinition and an object of its kind, which stands before it.
fn brings_a_kind_with_its_objects(stage: &Stage) {
    const BOAT: &str = "/apis/example.com/v1/namespaces/sea/boats/first";
    stage.release("kinds", "sea", &json!({}));
    stage.delivered("kinds");
    assert_eq!(stage.found(BOAT)["spec"], json!({"sails": 3}));
    stage.repository().commit(&[("kinds/all.yaml", KIND_AND_OBJECT.replace("sails: 3", "sails: 4"))]);
    stage.until("the change is there", || stage.found(BOAT)["spec"] == json!({"sails": 4}));
    stage.delivered("kinds");
    stage.remove("kinds");
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.example.com";
    stage.until("the kind is gone", || stage.found(definition).is_null());
}

/// What kubectl applied, and what Helm installed.
fn takes_over(stage: &Stage) {
    let kubectl = Kubectl::new(&program("kubectl").unwrap(), &stage.kubeconfig);
    kubectl.ok(&["create", "namespace", "before"]);
    kubectl.ok_with(&["apply", "--namespace=before", "--filename=-"], APPLIED);
    let helm = Command::new(program("helm").unwrap())
        .args(["install", "helmed", "helmed", "--namespace=before"])
        .current_dir(stage.repository().folder())
        .env("KUBECONFIG", &stage.kubeconfig)
        .env("HOME", stage.folder.path())
        .output()
        .unwrap();
    assert!(helm.status.success(), "{}", String::from_utf8_lossy(&helm.stderr));
    let uid = |name: &str| stage.found(&map("before", name))["metadata"]["uid"].clone();
    let before = (uid("settings"), uid("helmed"));
    for name in ["applied", "helmed"] {
        stage.release(name, "before", &json!({"apply": {"conflicts": "Fail"}}));
        stage.delivered(name);
    }
    stage.repository().commit(&[
        ("applied/all.yaml", APPLIED_LESS.to_owned()),
        ("helmed/templates/all.yaml", HELMED.replace(", drop: b", "")),
    ]);
    for name in ["settings", "helmed"] {
        stage.until(&format!("the dropped field of {name} goes"), || {
            stage.found(&map("before", name))["data"] == json!({"keep": "a"})
        });
    }
    assert_eq!((uid("settings"), uid("helmed")), before, "they were made anew");
    for name in ["applied", "helmed"] {
        stage.remove(name);
    }
    for name in ["settings", "helmed"] {
        stage.until(&format!("{name} is gone"), || stage.found(&map("before", name)).is_null());
    }
    assert!(!stage.found("/api/v1/namespaces/before").is_null(), "convoy did not make the namespace");
}

fn delivers_a_thousand(stage: &Stage) {
    let count = || {
        let list = stage.found("/api/v1/namespaces/many/configmaps");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or_default().starts_with("many-");
        items.into_iter().filter(name).count()
    };
    stage.release("many", "many", &json!({}));
    let status = stage.delivered("many");
    assert_eq!(status["objects"], MANY + 1, "with the namespace");
    assert_eq!(count(), MANY);
    let other = stage.found(&map("many", "many-0008"))["metadata"]["resourceVersion"].clone();
    stage.repository().commit(&[("many/all.yaml", many("two"))]);
    let seventh = map("many", "many-0007");
    stage.until("the change is there", || stage.found(&seventh)["data"] == json!({"text": "two"}));
    stage.delivered("many");
    let after = stage.found(&map("many", "many-0008"))["metadata"]["resourceVersion"].clone();
    assert_eq!(after, other, "what did not change was written");
    stage.remove("many");
    stage.until("the namespace is gone", || stage.found("/api/v1/namespaces/many").is_null());
}

/// Whether kubectl and helm are there.
fn has_tools() -> bool {
    let missing = ["kubectl", "helm"].iter().find_map(|name| program(name).err());
    missing.inspect(|missing| leave_out(missing)).is_none()
}

#[test]
fn a_sandbox_tells_the_whole_story() {
    if !has_tools() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let targets = folder.path().join("targets");
    let _sandbox =
        Convoy::start(&["sandbox", "--clusters", "1", "--dir", targets.to_str().unwrap()]).unwrap();
    let kubeconfig = targets.join("cluster-1.kubeconfig");
    let target = HttpsClient::from_kubeconfig(&kubeconfig).unwrap();
    story(&Stage::set(&kubeconfig, target));
}

#[test]
fn a_real_cluster_tells_the_same_story() {
    if !has_tools() {
        return;
    }
    let options = Options { controller_manager: true, ..Options::default() };
    let Some(plane) = ControlPlane::start_or_leave_out(&options) else { return };
    let folder = tempfile::tempdir().unwrap();
    let _kwok = match Kwok::start(&plane, folder.path()) {
        Err(convoy_testkit::StartError::NotBuilt(missing)) => return leave_out(&missing),
        started => started.unwrap(),
    };
    story(&Stage::set(&plane.kubeconfig(), plane.client().clone()));
}
