//! A webhook that never answers and a conversion that is broken, on a real kube-apiserver: who meets them says so, and
//! the other Releases of the same cluster notice nothing.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use convoy_e2e::Convoy;
use convoy_e2e::fleet::wait;
use convoy_e2e::repository::Repository;
use convoy_testkit::{ControlPlane, HttpsClient, Options};
use serde_json::{Value, json};

/// Also on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long a request waits for the webhook.
const SILENCE: u32 = 10;
/// A change of a Release that is well takes a fraction of this; behind one silent request it would take longer.
const SOON: Duration = Duration::from_secs(SILENCE as u64 - 1);
const RELEASES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/releases";
const CHANGES: u32 = 12;

fn map(name: &str, text: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{text: {text:?}}}\n")
}

fn boat(sails: u32) -> String {
    format!("apiVersion: example.com/v2\nkind: Boat\nmetadata: {{name: first}}\nspec: {{sails: {sails}}}\n")
}

fn definition(conversion: &Value) -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"sails": {"type": "integer"}}}},
        }}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "conversion": conversion,
            "names": {"kind": "Boat", "listKind": "BoatList", "plural": "boats", "singular": "boat"},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

struct Stage {
    folder: tempfile::TempDir,
    host: HttpsClient,
    target: HttpsClient,
    _convoy: Convoy,
}

impl Stage {
    fn set(plane: &ControlPlane) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("convoy");
        let convoy = Convoy::standalone(&data, &[]).unwrap();
        let host = HttpsClient::from_kubeconfig(&data.join("admin.kubeconfig")).unwrap();
        let target = plane.client().clone();
        let stage = Self { folder, host, target, _convoy: convoy };
        let text = std::fs::read_to_string(plane.kubeconfig()).unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}, "stringData": {"kubeconfig": text}});
        create(&stage.host, "/api/v1/namespaces/default/secrets", &secret);
        stage.convoy(
            "Cluster",
            "clusters",
            "there",
            &json!({"kubeconfig": {"secretRef": {"name": "there"}}}),
        );
        stage.repository().init();
        stage
    }

    fn repository(&self) -> Repository {
        Repository::at(&self.folder.path().join("apps"))
    }

    fn convoy(&self, kind: &str, plural: &str, name: &str, spec: &Value) {
        let object = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        create(&self.host, &format!("/apis/convoy.kumodo.io/v1alpha1/namespaces/default/{plural}"), &object);
    }

    fn release(&self, name: &str) {
        let spec = json!({
            "clusterRef": {"name": "there"}, "targetNamespace": name, "createNamespace": true,
            "source": {"git": {"repositoryRef": {"name": "apps"}, "path": name}},
        });
        self.convoy("Release", "releases", name, &spec);
    }

    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        assert!(wait(PATIENCE, || is_so().then_some(())).is_some(), "never: {what}");
    }

    /// Waits until Ready of a Release is so, with these words.
    fn says(&self, name: &str, status: &str, words: &str) {
        let mut last = Value::Null;
        let said = wait(PATIENCE, || {
            last = self.host.get(&format!("{RELEASES}/{name}")).ok()?.json()["status"].take();
            let ready = last["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?.clone();
            (ready["status"] == status && ready["message"].as_str()?.contains(words)).then_some(())
        });
        assert!(said.is_some(), "{name} does not say {status}, {words:?}: {last:#}");
    }

    /// The longest that a change of the Release that is well took.
    fn worst(&self, first: u32) -> Duration {
        let path = "/api/v1/namespaces/well/configmaps/well";
        let times = (first..first + CHANGES).map(|number| {
            let text = number.to_string();
            self.repository().commit(&[("well/all.yaml", map("well", &text))]);
            let token = json!({"metadata": {"annotations": {"convoy.kumodo.io/reconcile-at": text}}});
            let sources = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/gitrepositories/apps";
            let began = Instant::now();
            self.host.send("PATCH", sources, "application/merge-patch+json", &token).unwrap();
            self.until(&format!("change {number} is live"), || {
                self.target.get(path).unwrap().json()["data"]["text"] == text
            });
            began.elapsed()
        });
        times.max().unwrap()
    }
}

fn create(client: &HttpsClient, path: &str, object: &Value) {
    let answer = client.send("POST", path, "application/json", object).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
}

#[test]
fn a_silent_webhook_and_a_broken_conversion_are_told_and_delay_no_other_release_of_the_cluster() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let stage = Stage::set(&plane);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(&stage.target, definitions, &definition(&json!({"strategy": "None"})));
    let hooked = |text: &str| (0..8).map(|number| map(&format!("map-{number}"), text)).collect::<String>();
    // More than are worked on at a time.
    let names: Vec<String> = (0..10).map(|number| format!("hooked-{number}")).collect();
    let mut files = vec![("well/all.yaml", map("well", "0")), ("boats/all.yaml", boat(1))];
    let paths: Vec<String> = names.iter().map(|name| format!("{name}/all.yaml")).collect();
    files.extend(paths.iter().map(|path| (path.as_str(), hooked("0"))));
    stage.repository().commit(&files);
    let url = stage.repository().url();
    stage.convoy("GitRepository", "gitrepositories", "apps", &json!({"url": url, "interval": "1h"}));
    let all: Vec<&str> = ["well", "boats"].into_iter().chain(names.iter().map(String::as_str)).collect();
    all.iter().for_each(|name| stage.release(name));
    all.iter().for_each(|name| stage.says(name, "True", ""));
    let usual = stage.worst(1);

    // Takes connections, and never says a word.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let client = json!({"url": format!("https://{}/", silent.local_addr().unwrap())});
    let namespaces = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": names},
    ]});
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "silent"},
        "webhooks": [{
            "name": "silent.example.com", "clientConfig": client, "timeoutSeconds": SILENCE, "failurePolicy": "Fail",
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "namespaceSelector": namespaces,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        }],
    });
    create(&stage.target, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &webhook);
    let broken = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "conversionReviewVersions": ["v1"],
    }}}});
    let path = format!("{definitions}/boats.example.com");
    let answer = stage.target.send("PATCH", &path, "application/merge-patch+json", &broken).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut files = vec![("boats/all.yaml", boat(2))];
    files.extend(paths.iter().map(|path| (path.as_str(), hooked("1"))));
    stage.repository().commit(&files);

    let worst = stage.worst(100);
    assert!(worst < SOON, "a change took {worst:?} beside them, {usual:?} before");
    // They are in trouble, each with its own.
    for name in &names {
        stage.says(name, "False", "silent.example.com");
    }
    stage.says("boats", "False", "conversion webhook");
    stage.says("well", "True", "");
    drop(silent);
}
