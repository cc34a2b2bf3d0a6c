//! `convoy diff`, `history` and `health` by a person.

use convoy_e2e::until;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{CANARY, ENCODED, World, core, source};

/// Secrets in the places that manifests have for them; none of them is a value of the Release.
pub(crate) const PLAIN: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: plain, annotations: {convoy.kumodo.io/sensitive-paths: "/data/token"}}
data: {k: wanted, token: "CANARY-4711-of-a-secret"}
---
apiVersion: v1
kind: Secret
metadata: {name: plain, labels: {tier: front}}
stringData: {password: "CANARY-4711-of-a-secret"}
"#;

fn no_secret(text: &str) {
    for secret in ["CANARY", ENCODED] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// Runs a command in all its formats; what each printed.
fn in_all_formats(world: &World, line: &str, formats: &[&str]) -> Vec<String> {
    let printed = formats.iter().map(|format| {
        let (_, out, err) = world.convoy_cli().run(format!("{line} {format}").trim());
        no_secret(&out);
        no_secret(&err);
        assert!(!out.is_empty(), "{line} {format}: {err}");
        out
    });
    printed.collect()
}

const FORMATS: [&str; 6] = ["", "-o summary", "-o markdown", "-o json", "-o yaml", "--side-by-side"];

async fn by_hand(world: &World, kind: &str, name: &str, patch: &Value) {
    let api: Api<DynamicObject> = Api::namespaced_with(world.target.clone(), "default", &core(kind));
    let params = PatchParams { field_manager: Some("hand".to_owned()), ..PatchParams::default() };
    api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
}

/// What was changed by hand is shown, and what is secret is not, wherever it stands.
pub(crate) async fn differences_are_shown_and_no_secret(world: &World) {
    let mut release = source("plain");
    release["suspend"] = json!(false);
    release["drift"] = json!({"mode": "Report"});
    world.convoy("Release", "releases", "plain", &release).await;
    world.convoy_cli().until("get rel plain", "Succeeded");
    let (code, out, err) = world.convoy_cli().run("diff plain");
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");

    let data = json!({"data": {"k": "of-a-hand", "token": "CANARY-other"}});
    by_hand(world, "ConfigMap", "plain", &data).await;
    let last = format!("{{\"data\":{{\"password\":\"{CANARY}\"}}}}");
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": last, "openshift.io/token-secret.value": CANARY});
    let secret = json!({
        "metadata": {"annotations": annotations, "labels": {"tier": "back"}},
        "stringData": {"password": "CANARY-4711-of-another", "more": CANARY},
    });
    by_hand(world, "Secret", "plain", &secret).await;
    world.convoy_cli().until("diff plain", "tier");
    assert_eq!(world.convoy_cli().run("diff plain").0, Some(1));
    let printed = in_all_formats(world, "diff plain", &FORMATS);
    for part in [
        "--- a/v1/ConfigMap/default/plain\n+++ b/v1/ConfigMap/default/plain\n@@ ",
        "\n-  k: of-a-hand\n",
        "\n+  k: wanted\n",
        "\n-  token: (hidden) # before\n+  token: (hidden) # after\n",
        "\n-  password: (hidden) # before\n+  password: (hidden) # after\n",
        "\n-    tier: back\n+    tier: front\n",
    ] {
        assert!(printed[0].contains(part), "{part:?}: {}", printed[0]);
    }
    assert!(printed[1].contains("2 to change"), "{}", printed[1]);
    assert!(printed[2].contains("```diff\n@@ "), "{}", printed[2]);
    // What somebody added beside convoy's fields stays: it is no difference.
    assert!(!printed[0].contains("-  more:"), "{}", printed[0]);
    // Asking changed nothing, and the mask was nowhere written.
    let secrets: Api<DynamicObject> = Api::namespaced_with(world.target.clone(), "default", &core("Secret"));
    assert_ne!(secrets.get("plain").await.unwrap().data["data"]["password"], ENCODED);
    assert_eq!(world.writes(), Vec::<String>::new());
    assert_eq!(world.convoy_cli().run("diff nobody").0, Some(2));
}

/// Files that are nowhere but on this machine are compared with the target, in the way that a job on a pull request does.
pub(crate) async fn files_of_this_machine_are_compared(world: &World) {
    let local = world.folder.path().join("pull-request");
    std::fs::create_dir_all(&local).unwrap();
    let write = |text: &str| std::fs::write(local.join("all.yaml"), text).unwrap();
    let line = format!("diff plain --source {}", local.display());
    let versions = world.versions().await;
    // All that differs is what these files have.
    let new = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: proposed}\ndata: {a: \"```\"}\n";
    let text =
        format!("{}{new}", PLAIN.replace("k: wanted", "k: proposed").replace(CANARY, "CANARY-proposed"));
    write(&text);
    assert_eq!(world.convoy_cli().run(&line).0, Some(1));
    let printed = in_all_formats(world, &line, &FORMATS);
    for part in [
        "\n+  k: proposed\n",
        "\n-  token: (hidden) # before\n+  token: (hidden) # after\n",
        "\n+  password: (hidden) # after\n",
        "--- /dev/null\n+++ b/v1/ConfigMap/default/proposed\n",
    ] {
        assert!(printed[0].contains(part), "{part:?}: {}", printed[0]);
    }
    let comment = &printed[2];
    assert!(comment.starts_with("### plain on here: 1 to create, 2 to change"), "{comment}");
    for part in ["<summary>create <code>ConfigMap default/proposed</code>", "\n````diff\n", "</details>\n"] {
        assert!(comment.contains(part), "{part:?}: {comment}");
    }
    assert!(printed[3].contains("\"sourceRevision\": \"given@sha256:"), "{}", printed[3]);
    // It is the whole bundle: what it lacks would be deleted.
    write(new);
    let (code, out, err) = world.convoy_cli().run(&format!("{line} -o summary"));
    assert!(code == Some(1) && out.contains("delete Secret default/plain"), "{out}{err}");
    // What does not render, and what is not there, is no agreement.
    write("just text\n");
    let (code, _, err) = world.convoy_cli().run(&line);
    assert!(code == Some(2) && !err.is_empty(), "{code:?} {err}");
    assert_eq!(world.convoy_cli().run("diff plain --source /nowhere/at/all").0, Some(2));
    assert_eq!(world.convoy_cli().run(&format!("diff nobody --source {}", local.display())).0, Some(2));
    assert_eq!(world.versions().await, versions, "asking changed nothing");
    assert_eq!(world.writes(), Vec::<String>::new());

    // A chart whose Release takes values from a Secret: what strangers' templates make of them is not told.
    let chart = world.folder.path().join("pull-request-chart");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: c\nversion: 2.0.0\n").unwrap();
    let reversed = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tells}\ndata: {plain: {{ .Values.password | upper | nospace | trunc 9 | quote }}}\n";
    std::fs::write(chart.join("templates/a.yaml"), reversed).unwrap();
    let printed = in_all_formats(world, &format!("diff web --source {}", chart.display()), &FORMATS);
    assert!(printed[0].contains("+  plain: (hidden) # after"), "{}", printed[0]);
}

/// Revisions, their manifests, and how two of them differ.
pub(crate) async fn the_history_is_shown_and_no_secret(world: &World) {
    let changed = PLAIN.replace("k: wanted", "k: second");
    world.repository().commit(&[("plain/all.yaml", changed.as_str())]);
    let (code, _, err) = world.convoy_cli().run("reconcile rel plain --with-source");
    assert_eq!(code, Some(0), "{err}");
    let table = in_all_formats(world, "history plain", &["", "-o json", "-o yaml"]);
    assert!(table[0].starts_with("REVISION   OUTCOME") && table[0].contains("\n2 "), "{}", table[0]);
    let documents = in_all_formats(world, "history plain --revision 1", &["", "-o json", "-o yaml"]);
    for part in ["# Source: plain/all.yaml", "  k: wanted\n", "  token: (hidden)\n", "  password: (hidden)\n"]
    {
        assert!(documents[0].contains(part), "{part:?}: {}", documents[0]);
    }
    let told = in_all_formats(world, "history plain --revision 1 --to 2", &["", "-o json", "-o yaml"]);
    assert!(told[0].contains("\n-  k: wanted\n+  k: second\n"), "{}", told[0]);
    assert!(!told[0].contains("Secret"), "what is the same is not told: {}", told[0]);
    let (code, _, err) = world.convoy_cli().run("history plain --revision 9");
    assert!(code == Some(1) && err.contains("revision 9 is not in the history, which holds 2, 1"), "{err}");
    let (code, _, err) = world.convoy_cli().run("history plain --to 2");
    assert!(code == Some(2) && err.contains("--revision"), "{err}");
    // A Release that takes values from Secrets.
    let web = in_all_formats(world, "history web --revision 1", &["", "-o json"]);
    for part in ["  plain: (hidden)\n", "  encoded: (hidden)\n", "  size: \"1\"\n", "secret: (hidden)"] {
        assert!(web[0].contains(part), "{part:?}: {}", web[0]);
    }
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: slow}
spec:
  selector: {matchLabels: {app: slow}}
  template:
    metadata: {labels: {app: slow}}
    spec: {containers: [{name: main, image: none.example/none}]}
";

/// How each object is, and why.
pub(crate) async fn health_is_a_tree_that_explains(world: &World) {
    let (code, out, err) = world.convoy_cli().run("health plain --all");
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.starts_with("Healthy on Cluster here: 2 of 2 objects are healthy"), "{out}");
    assert!(out.contains("ConfigMap default/plain: Healthy"), "{out}");
    if !world.is_real {
        // Simulated clusters have no Pods.
        return;
    }
    world.repository().commit(&[("slow/all.yaml", DEPLOYMENT)]);
    assert_eq!(world.convoy_cli().run("reconcile gitrepo apps").0, Some(0));
    let mut release = source("slow");
    release["suspend"] = json!(false);
    world.convoy("Release", "releases", "slow", &release).await;
    world.convoy_cli().until("health slow", "Pod slow-");
    let pods: Api<DynamicObject> = Api::namespaced_with(world.target.clone(), "default", &core("Pod"));
    let all = pods.list(&kube::api::ListParams::default().labels("app=slow")).await.unwrap();
    let name = all.items[0].metadata.name.clone().unwrap();
    let waiting =
        json!({"reason": "ImagePullBackOff", "message": format!("no such image, asked as {CANARY}")});
    let container = json!({"name": "main", "image": "none.example/none", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": waiting}});
    let status = json!({"status": {"phase": "Pending", "containerStatuses": [container]}});
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let out = world.convoy_cli().until("health slow", "no such image");
    assert!(
        out.contains(&format!("Pod {name}: Degraded (ImagePullBackOff): container main does not start")),
        "{out}"
    );
    assert!(out.contains("\n   └─ ReplicaSet slow-") || out.contains("\n└─ ReplicaSet slow-"), "{out}");
    assert_eq!(world.convoy_cli().run("health slow").0, Some(1));

    // A quota lets no Pod be made.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    let quotas: Api<DynamicObject> =
        Api::namespaced_with(world.target.clone(), "default", &core("ResourceQuota"));
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    until("the quota to be counted", || {
        let get = quotas.get("none");
        let found = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(get)).unwrap();
        found.data["status"]["hard"]["pods"].is_string().then_some(())
    });
    pods.delete(&name, &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
    let out = world.convoy_cli().until("health slow", "exceeded quota");
    assert!(out.contains("Degraded (FailedCreate)"), "{out}");
}
