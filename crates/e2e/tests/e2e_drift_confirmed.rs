//! What seems to have drifted is tried out before it is said, on a real kube-apiserver.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests, with the machine's clock"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use convoy_e2e::fleet::wait;
use convoy_e2e::repository::Repository;
use convoy_e2e::{Convoy, until};
use convoy_testkit::{ControlPlane, HttpsClient, Options};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
/// Changes by hand whose drift is timed, one after the other.
const CHANGES: usize = 30;
/// How soon the worst of them has to be said. On a machine that does nothing else it is less than 1 s.
const SOON: Duration = Duration::from_secs(3);
const CONVOY: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn create(client: &HttpsClient, path: &str, object: &Value) {
    let answer = client.send("POST", path, "application/json", object).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
}

fn start(data: &Path) -> (Convoy, HttpsClient) {
    let convoy = Convoy::standalone(data, &[]).unwrap();
    (convoy, HttpsClient::from_kubeconfig(&data.join("admin.kubeconfig")).unwrap())
}

/// Waits until the condition Drifted of the Release is so, with these words; its status.
fn drifted(host: &HttpsClient, status: &str, words: &[&str]) -> Value {
    let mut last = Value::Null;
    let said = wait(PATIENCE, || {
        last = host.get(&format!("{CONVOY}/releases/web")).ok()?.json()["status"].take();
        let found = last["conditions"].as_array()?.iter().find(|it| it["type"] == "Drifted")?;
        let message = found["message"].as_str()?;
        (found["status"] == status && words.iter().all(|word| message.contains(word))).then_some(())
    });
    assert!(said.is_some(), "Drifted is not {status}, {words:?}: {last:#}");
    last
}

fn by_hand(target: &HttpsClient, name: &str, patch: &Value) {
    let path = format!("{MAPS}/{name}?fieldManager=hand");
    let answer = target.send("PATCH", &path, "application/merge-patch+json", patch).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn apply_anew(host: &HttpsClient, when: &str) {
    let ask = json!({"metadata": {"annotations": {"convoy.kumodo.io/force-at": when}}});
    let path = format!("{CONVOY}/releases/web");
    let answer = host.send("PATCH", &path, "application/merge-patch+json", &ask).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_suspected_drift_is_said_only_when_an_apply_would_change_it_or_cannot_be_tried() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("convoy");
    let (convoy, host) = start(&data);
    let target = plane.client();
    let map = |name: &str| {
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: \"1\"}}\n")
    };
    let repository = Repository::at(&folder.path().join("apps"));
    repository.init();
    repository.commit(&[("all.yaml", ["one", "two", "three"].map(map).concat().as_str())]);
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}, "stringData": {"kubeconfig": kubeconfig}});
    create(&host, "/api/v1/namespaces/default/secrets", &secret);
    for (kind, plural, name, spec) in [
        ("Cluster", "clusters", "there", json!({"kubeconfig": {"secretRef": {"name": "there"}}})),
        ("GitRepository", "gitrepositories", "apps", json!({"url": repository.url(), "interval": "1h"})),
        (
            "Release",
            "releases",
            "web",
            json!({
                "clusterRef": {"name": "there"}, "targetNamespace": "default", "interval": "1h", "drift": {"mode": "Report"},
                "source": {"git": {"repositoryRef": {"name": "apps"}}},
            }),
        ),
    ] {
        let object = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        create(&host, &format!("{CONVOY}/{plural}"), &object);
    }
    drifted(&host, "False", &["3 objects are as they were applied"]);

    // What an apply would change is said, and where.
    by_hand(target, "one", &json!({"data": {"a": "2"}}));
    let status = drifted(&host, "True", &["ConfigMap default/one was changed at /data/a"]);
    assert!(!status.to_string().contains("no dry run"), "{status:#}");
    apply_anew(&host, "1");
    drifted(&host, "False", &[]);

    // And soon, the dry run included.
    let mut times: Vec<Duration> = (0..CHANGES)
        .map(|number| {
            let name = ["one", "two", "three"][number % 3];
            let value = format!("by hand {number}");
            let began = Instant::now();
            by_hand(target, name, &json!({"data": {"a": value}}));
            drifted(&host, "True", &[&format!("ConfigMap default/{name} was changed at /data/a")]);
            let took = began.elapsed();
            apply_anew(&host, &format!("time {number}"));
            drifted(&host, "False", &["3 objects are as they were applied"]);
            took
        })
        .collect();
    times.sort_unstable();
    let (median, worst) = (times[CHANGES / 2], times[CHANGES - 1]);
    eprintln!(
        "a change by hand is said, confirmed, after {median:?} (median), {worst:?} (worst of {CHANGES})"
    );
    assert!(worst <= SOON, "{times:?}");

    // Others write while nobody watches: what was there before is not known, and an apply would change nothing.
    assert_eq!(convoy.terminate(), Some(0));
    by_hand(target, "two", &json!({"metadata": {"annotations": {"note": "theirs"}}}));
    let (_convoy, host) = start(&data);
    let until_ready = || (host.get("/readyz").ok()?.status == 200).then_some(());
    until("it serves again", until_ready);
    by_hand(target, "one", &json!({"data": {"a": "3"}}));
    let status = drifted(&host, "True", &["ConfigMap default/one was changed at /data/a"]);
    let names: Vec<&Value> =
        status["driftedObjects"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, [&json!("one")], "{status:#}");
    apply_anew(&host, "2");
    drifted(&host, "False", &["3 objects are as they were applied"]);

    // A target that lets nothing be tried: it is said all the same, and why it is not certain.
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-tries"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
            ]},
            "validations": [{"expression": "!has(request.dryRun) || !request.dryRun", "message": "nothing is tried here"}],
        },
    });
    create(target, &format!("{group}/validatingadmissionpolicies"), &policy);
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-tries"}, "spec": {"policyName": "no-tries", "validationActions": ["Deny"]},
    });
    create(target, &format!("{group}/validatingadmissionpolicybindings"), &binding);
    let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}});
    until("the policy is in force", || {
        let path = format!("{MAPS}?dryRun=All");
        (target.send("POST", &path, "application/json", &probe).ok()?.status == 422).then_some(())
    });
    by_hand(target, "three", &json!({"data": {"a": "9"}}));
    let words = [
        "ConfigMap default/three was changed at /data/a",
        "no dry run has confirmed it",
        "nothing is tried here",
    ];
    drifted(&host, "True", &words);
}
