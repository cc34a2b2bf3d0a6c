//! Two hundred generated manifests with canaries in every place that is secret, delivered to a real kube-apiserver that quotes
//! what it refuses, changed there by hand, and looked at: no process says a canary anywhere, also at the log level trace.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests, with the machine's clock"
)]

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use convoy_e2e::fleet::wait;
use convoy_e2e::repository::Repository;
use convoy_e2e::{Cli, convoy_program, until};
use convoy_testkit::{ControlPlane, HttpsClient, Options, Process};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(240);
const CANARY: &str = "CANARY-4711-of-a-secret";
/// What is changed by hand.
const OTHER: &str = "CANARY-0815-of-a-hand";
const MANIFESTS: u32 = 200;
const CONVOY: &str = "/apis/convoy.kumodo.io/v1alpha1";

/// The canaries as they can stand anywhere: plainly, and in base64, whatever stands before them.
fn secrets() -> Vec<String> {
    let mut all = Vec::new();
    for canary in [CANARY, OTHER] {
        all.push("CANARY".to_owned());
        for before in ["", "x", "xx"] {
            let encoded = BASE64_STANDARD.encode(format!("{before}{canary}"));
            // Without the characters that what stands before and after it has a part in.
            all.push(encoded[4..encoded.len() - 4].to_owned());
        }
    }
    all
}

fn no_secret(of: &str, text: &str) {
    for secret in secrets() {
        if let Some(at) = text.find(&secret) {
            let from = text[..at].char_indices().rev().nth(600).map_or(0, |(at, _)| at);
            let to = text[at..].char_indices().nth(200).map_or(text.len(), |(more, _)| at + more);
            panic!("{of} tells a secret: …{}…", &text[from..to]);
        }
    }
}

/// Numbers that look random and are the same in each run.
struct Dice(u32);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % end
    }

    /// A text with the canary in it; `value` is how a template has it.
    fn text(&mut self, value: &str) -> String {
        match self.below(5) {
            0 => value.to_owned(),
            1 => format!("postgres://u:{value}@db/x"),
            2 => format!("line\\nkey={value}\\nend"),
            3 => format!("{{\\\"token\\\":\\\"{value}\\\"}}"),
            _ => format!("x{value}"),
        }
    }
}

/// Manifests whose secrets are their own.
fn plain(dice: &mut Dice, count: u32) -> String {
    let mut all = String::new();
    for number in 0..count {
        let (a, b) = (dice.text(CANARY), dice.text(CANARY));
        let extra = ["k: open", "other: \"1\"", "z: \"\""][dice.below(3) as usize];
        let encoded = BASE64_STANDARD.encode(CANARY);
        let object = match dice.below(4) {
            0 => format!(
                "kind: Secret\nmetadata: {{name: p-{number}}}\nstringData: {{password: \"{a}\", token: \"{b}\"}}"
            ),
            1 => format!(
                "kind: Secret\nmetadata: {{name: p-{number}}}\ndata: {{password: {encoded}}}\nstringData: {{t: \"{a}\"}}"
            ),
            2 => format!(
                "kind: ConfigMap\nmetadata: {{name: p-{number}, annotations: {{convoy.kumodo.io/sensitive-paths: \"/data/a /data/b\"}}}}\ndata: {{a: \"{a}\", b: \"{b}\", {extra}}}"
            ),
            _ => format!(
                "kind: ServiceAccount\nmetadata: {{name: p-{number}, annotations: {{convoy.kumodo.io/sensitive-paths: /metadata/annotations/note, note: \"{a}\"}}}}"
            ),
        };
        let _ = write!(all, "---\napiVersion: v1\n{object}\n");
    }
    all
}

/// Templates that put a Secret's value in many places.
fn templates(dice: &mut Dice, count: u32) -> String {
    let value = "{{ .Values.password }}";
    let mut all = String::new();
    for number in 0..count {
        let a = dice.text(value);
        let object = match dice.below(5) {
            0 => format!("kind: Secret\nmetadata: {{name: c-{number}}}\nstringData: {{password: \"{a}\"}}"),
            1 => format!("kind: ConfigMap\nmetadata: {{name: c-{number}}}\ndata: {{url: \"{a}\", k: \"1\"}}"),
            2 => format!(
                "kind: ConfigMap\nmetadata: {{name: c-{number}}}\ndata: {{e: {{{{ .Values.password | b64enc | quote }}}}}}"
            ),
            3 => format!("kind: ConfigMap\nmetadata: {{name: c-{number}, annotations: {{note: \"{a}\"}}}}"),
            _ => format!(
                "kind: Service\nmetadata: {{name: c-{number}, annotations: {{note: \"{a}\"}}}}\nspec: {{ports: [{{port: 80}}]}}"
            ),
        };
        let _ = write!(all, "---\napiVersion: v1\n{object}\n");
    }
    all
}

/// What the target refuses, with the value in its words.
const REFUSED: [(&str, &str); 4] = [
    (
        "refused-secret",
        "kind: Secret\nmetadata: {name: refused-a}\nstringData: {token: CANARY-4711-of-a-secret}",
    ),
    (
        "refused-map",
        "kind: ConfigMap\nmetadata: {name: refused-b, annotations: {convoy.kumodo.io/sensitive-paths: /data/token}}\ndata: {token: CANARY-4711-of-a-secret}",
    ),
    (
        "typed-secret",
        "kind: Secret\nmetadata: {name: typed-a}\nstringData: {password: {nested: CANARY-4711-of-a-secret}}",
    ),
    (
        "typed-map",
        "kind: ConfigMap\nmetadata: {name: typed-b, annotations: {convoy.kumodo.io/sensitive-paths: /data/token}}\ndata: {token: {nested: CANARY-4711-of-a-secret}}",
    ),
];
/// The same of values that a Secret has for a chart.
const REFUSED_VALUES: [(&str, &str); 2] = [
    (
        "refused-value",
        "kind: ConfigMap\nmetadata: {name: refused-c}\ndata: {token: \"{{ .Values.password }}\"}",
    ),
    (
        "typed-value",
        "kind: ConfigMap\nmetadata: {name: typed-c}\ndata: {token: {nested: \"{{ .Values.password }}\"}}",
    ),
];

struct Stage {
    folder: tempfile::TempDir,
    host: HttpsClient,
    target: HttpsClient,
    _convoy: Process,
}

fn create(client: &HttpsClient, path: &str, object: &Value) {
    let answer = client.send("POST", path, "application/json", object).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
}

impl Stage {
    fn set(plane: &ControlPlane, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("convoy");
        let arguments = ["standalone", "--data-dir", data.to_str().unwrap(), "--port", "0", "--log", "trace"];
        let arguments: Vec<String> = arguments.map(str::to_owned).into();
        let convoy = Process::start(&convoy_program(), &arguments, &folder.path().join("log")).unwrap();
        let kubeconfig = data.join("admin.kubeconfig");
        let host = until("standalone serves", || {
            let client = HttpsClient::from_kubeconfig(&kubeconfig).ok()?;
            (client.get("/readyz").ok()?.status == 200).then_some(client)
        });
        let stage = Self { folder, host, target: plane.client().clone(), _convoy: convoy };
        stage.repository().init();
        stage.repository().commit(files);
        let secret = |name: &str, key: &str, value: &str| {
            let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: value}});
            create(&stage.host, "/api/v1/namespaces/default/secrets", &object);
        };
        secret("there", "kubeconfig", &std::fs::read_to_string(plane.kubeconfig()).unwrap());
        secret("values", "values.yaml", &format!("password: {CANARY}\n"));
        let cluster = json!({"kubeconfig": {"secretRef": {"name": "there"}}});
        stage.convoy("Cluster", "clusters", "there", &cluster);
        let source = json!({"url": stage.repository().url(), "interval": "1h"});
        stage.convoy("GitRepository", "gitrepositories", "apps", &source);
        stage
    }

    fn repository(&self) -> Repository {
        Repository::at(&self.folder.path().join("apps"))
    }

    fn cli(&self) -> Cli {
        Cli::new(&self.folder.path().join("convoy/admin.kubeconfig"))
    }

    fn convoy(&self, kind: &str, plural: &str, name: &str, spec: &Value) {
        let object = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        create(&self.host, &format!("{CONVOY}/namespaces/default/{plural}"), &object);
    }

    fn release(&self, name: &str, has_values: bool) {
        let mut spec = json!({
            "clusterRef": {"name": "there"}, "targetNamespace": "default", "interval": "1h", "drift": {"mode": "Report"},
            "source": {"git": {"repositoryRef": {"name": "apps"}, "path": name}},
        });
        if has_values {
            spec["render"] = json!({"helm": {"valuesFrom": [{"kind": "Secret", "name": "values"}]}});
        }
        self.convoy("Release", "releases", name, &spec);
    }

    /// Waits until a condition of a Release is so.
    fn says(&self, name: &str, condition: &str, want: &str) {
        let mut last = Value::Null;
        let said = wait(PATIENCE, || {
            let path = format!("{CONVOY}/namespaces/default/releases/{name}");
            last = self.host.get(&path).ok()?.json()["status"].take();
            let found = last["conditions"].as_array()?.iter().find(|it| it["type"] == condition)?;
            (format!("{}/{}", found["status"].as_str()?, found["reason"].as_str()?) == want).then_some(())
        });
        assert!(said.is_some(), "{name} does not say {condition} {want}: {last:#}");
    }

    fn by_hand(&self, plural: &str, name: &str, patch: &Value) {
        let path = format!("/api/v1/namespaces/default/{plural}/{name}?fieldManager=hand");
        let answer = self.target.send("PATCH", &path, "application/merge-patch+json", patch).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Has the target refuse what is called refused-…, in words that quote it.
fn refuse(target: &HttpsClient) {
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rule = |kinds: &[&str]| json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": kinds}]);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "quotes"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rule(&["configmaps", "secrets"])},
            "validations": [{
                "expression": "!object.metadata.name.startsWith('refused')",
                "messageExpression": "'no such token: ' + string(object.data.token)",
            }],
        },
    });
    create(target, &format!("{group}/validatingadmissionpolicies"), &policy);
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "quotes"}, "spec": {"policyName": "quotes", "validationActions": ["Deny"]},
    });
    create(target, &format!("{group}/validatingadmissionpolicybindings"), &binding);
    let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused-probe"}, "data": {"token": "it-is-quoted"}});
    until("the policy refuses", || {
        let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
        let answer = target.send("POST", path, "application/json", &probe).ok()?;
        (answer.status == 422 && answer.text().contains("it-is-quoted")).then_some(())
    });
}

#[test]
fn no_canary_is_in_what_any_process_says_anywhere() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    refuse(plane.client());
    let mut dice = Dice(7);
    let chart = "apiVersion: v2\nname: c\nversion: 1.0.0\n";
    let mut files = vec![
        ("many/all.yaml".to_owned(), plain(&mut dice, MANIFESTS / 2)),
        ("chart/Chart.yaml".to_owned(), chart.to_owned()),
        ("chart/templates/all.yaml".to_owned(), templates(&mut dice, MANIFESTS / 2)),
    ];
    for (name, object) in REFUSED {
        files.push((format!("{name}/all.yaml"), format!("apiVersion: v1\n{object}\n")));
    }
    for (name, object) in REFUSED_VALUES {
        files.push((format!("{name}/Chart.yaml"), chart.to_owned()));
        files.push((format!("{name}/templates/all.yaml"), format!("apiVersion: v1\n{object}\n")));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let stage = Stage::set(&plane, &files);
    stage.release("many", false);
    stage.release("chart", true);
    REFUSED.iter().for_each(|(name, _)| stage.release(name, false));
    REFUSED_VALUES.iter().for_each(|(name, _)| stage.release(name, true));
    for name in ["many", "chart"] {
        stage.says(name, "Ready", "True/Succeeded");
        stage.says(name, "Drifted", "False/InSync");
    }
    for (name, _) in REFUSED.iter().chain(&REFUSED_VALUES) {
        stage.says(name, "Ready", "False/ApplyRejected");
    }

    // By hand, on each kind of object.
    for (plural, patch) in [
        (
            "secrets",
            json!({"stringData": {"password": OTHER, "new": OTHER}, "metadata": {"annotations": {"note": OTHER}}}),
        ),
        ("configmaps", json!({"data": {"a": OTHER, "url": OTHER, "e": OTHER}})),
        ("serviceaccounts", json!({"metadata": {"annotations": {"note": OTHER}}})),
    ] {
        let list = stage.target.get(&format!("/api/v1/namespaces/default/{plural}")).unwrap().json();
        let names =
            list["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap());
        let ours: Vec<&str> = names.filter(|name| name.starts_with("p-") || name.starts_with("c-")).collect();
        assert!(ours.len() > 5, "{ours:?}");
        ours.iter().take(10).for_each(|name| stage.by_hand(plural, name, &patch));
    }
    for name in ["many", "chart"] {
        stage.says(name, "Drifted", "True/ChangedOnTarget");
    }

    for what in [
        "diff many",
        "diff chart",
        "preview refused-value",
        "preview typed-value",
        "preview refused-map",
        "history chart --revision 1",
        "health many --all",
    ] {
        for format in ["", "-o json"] {
            let (_, out, err) = stage.cli().run(format!("{what} {format}").trim());
            assert!(!out.is_empty(), "{what}: {err}");
            no_secret(what, &out);
            no_secret(what, &err);
        }
    }
    for plural in ["releases", "releaseinventories", "clusters", "gitrepositories"] {
        let all = stage.host.get(&format!("{CONVOY}/{plural}")).unwrap().text();
        assert!(all.contains("\"items\""), "{all}");
        no_secret(plural, &all);
    }
    let events = stage.host.get("/api/v1/events").unwrap().text();
    assert!(events.contains("ApplyRejected"), "{events}");
    no_secret("events", &events);
    let metrics = stage.host.get("/metrics").unwrap().text();
    assert!(metrics.contains("apiserver_"), "{metrics}");
    no_secret("metrics", &metrics);
    let log = std::fs::read_to_string(stage.folder.path().join("log")).unwrap();
    assert!(log.contains("TRACE"), "{}", &log[..log.len().min(500)]);
    for line in log.lines() {
        no_secret("the log", line);
    }
}
