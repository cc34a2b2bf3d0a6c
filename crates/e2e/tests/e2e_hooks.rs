//! A chart with hooks and waves on a real kube-apiserver, with kube-controller-manager.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, and run git"
)]

mod support;

use convoy_testkit::{ControlPlane, Options};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use support::{World, condition, until};

const CHART: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\n";
const PLAIN: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {value: {{ .Values.value | quote }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, annotations: {convoy.kumodo.io/wave: "1"}}
data: {value: {{ .Values.value | quote }}}
"#;
const SEED: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: seed, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: "-5"}}
stringData: {value: x}
"#;

/// A Job; with an event it is a hook.
fn job(name: &str, hook: &str, policies: &str) -> String {
    let annotations = match (hook, policies) {
        ("", _) => "{}".to_owned(),
        (_, "") => format!("{{helm.sh/hook: {hook:?}}}"),
        _ => format!("{{helm.sh/hook: {hook:?}, helm.sh/hook-delete-policy: {policies:?}}}"),
    };
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, annotations: {annotations}}}\nspec:\n  backoffLimit: 0\n  \
         template:\n    spec: {{restartPolicy: Never, containers: [{{name: c, image: registry.example.com/c}}]}}\n"
    )
}

impl World {
    /// The uid of a Job in the namespace web; null when there is none.
    async fn job(&self, name: &str) -> Value {
        let api = self.api("batch/v1", "Job", "jobs", Some("web"));
        api.get_opt(name).await.unwrap().map_or(Value::Null, |job| json!(job.metadata.uid))
    }

    /// Ends the Pod of a Job, as a kubelet would.
    async fn end(&self, job: &str, phase: &str) {
        let pods = self.api("v1", "Pod", "pods", Some("web"));
        let uid = self.job(job).await;
        let selector = ListParams::default()
            .labels(&format!("batch.kubernetes.io/controller-uid={}", uid.as_str().unwrap_or("none")));
        until(&format!("{job} has a Pod"), || async {
            !pods.list(&selector).await.unwrap().items.is_empty()
        })
        .await;
        for pod in pods.list(&selector).await.unwrap().items {
            let status = Patch::Merge(json!({"status": {"phase": phase}}));
            let name = pod.metadata.name.unwrap();
            pods.patch_status(&name, &PatchParams::default(), &status).await.unwrap();
        }
    }

    async fn entries(&self) -> Vec<Value> {
        let parts = self.inventories().list(&ListParams::default()).await.unwrap().items;
        let entries = parts.iter().flat_map(|part| part.data["spec"]["entries"].as_array().cloned());
        entries.flatten().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_with_hooks_and_waves_is_installed_upgraded_and_removed_step_by_step() {
    let options = Options { controller_manager: true, ..Options::default() };
    let Some(plane) = ControlPlane::start_or_leave_out(&options) else { return };
    let migrate = job("migrate", "pre-install,pre-upgrade", "before-hook-creation,hook-succeeded");
    let check = job("check", "post-install", "");
    let (bye, gone) = (job("bye", "pre-delete", ""), job("gone", "post-delete", "hook-succeeded"));
    let gate = job("gate", "", "");
    let files = |value: &'static str| {
        vec![
            ("c/Chart.yaml", CHART),
            ("c/values.yaml", value),
            ("c/templates/plain.yaml", PLAIN),
            ("c/templates/seed.yaml", SEED),
        ]
    };
    let jobs = [
        ("c/templates/migrate.yaml", migrate.as_str()),
        ("c/templates/check.yaml", &check),
        ("c/templates/bye.yaml", &bye),
        ("c/templates/gone.yaml", &gone),
        ("c/templates/gate.yaml", &gate),
    ];
    let first = [files("value: '1'"), jobs.to_vec()].concat();
    let mut world = World::start(plane, &first).await;
    world.release("c", "c", json!({"targetNamespace": "web", "createNamespace": true})).await;

    let hook = "waiting for the pre-install hook Job.batch web/migrate to end";
    let status = world.says("c", "False/WaitingForHook", hook).await;
    assert_eq!(status["plan"]["next"], "the pre-install hook Job.batch web/migrate");
    assert!(world.config_map("web", "one").await.is_null());
    let run = world.job("migrate").await;
    assert!(run.is_string());
    // Another process goes on with the very run.
    world.stop().await;
    world.start_manager();
    world.start_observer();
    world.end("migrate", "Succeeded").await;
    let wave = "wave 1 waits for the objects of wave 0 to become healthy: Job.batch web/gate is Progressing";
    let status = world.says("c", "False/WaitingForHealth", wave).await;
    assert_eq!(status["plan"]["next"], "wave 1");
    assert_eq!(status["plan"]["remaining"], "1 to create");
    assert_eq!(status["objects"], 3, "{status:#}");
    assert_eq!(world.config_map("web", "one").await, json!({"value": "1"}));
    assert!(world.config_map("web", "two").await.is_null());
    until("the hook that ended well is deleted", || async { world.job("migrate").await.is_null() }).await;
    world.end("gate", "Succeeded").await;
    world.says("c", "False/WaitingForHook", "post-install hook Job.batch web/check").await;
    assert_eq!(world.config_map("web", "two").await, json!({"value": "1"}));
    world.end("check", "Succeeded").await;
    let status = world.says("c", "True/Succeeded", "4 objects").await;
    assert_eq!((&status["plan"], status["history"].as_array().unwrap().len()), (&Value::Null, 1));
    let of_hooks: Vec<Value> = world
        .entries()
        .await
        .into_iter()
        .filter(|entry| entry["hook"] == true)
        .map(|entry| entry["name"].clone())
        .collect();
    assert_eq!(of_hooks, [json!("seed"), json!("check")]);

    // A look that is asked for runs no hook, and what a hook made is no drift.
    let secrets = world.api("v1", "Secret", "secrets", Some("web"));
    world.patch(&secrets, "seed", json!({"stringData": {"value": "y"}})).await;
    let before = world.target_requests().len();
    let ask = |at: &str| json!({"metadata": {"annotations": {"convoy.kumodo.io/reconcile-at": at}}});
    world.patch(&world.releases(), "c", ask("now")).await;
    until("the request is echoed", || async {
        world.releases().get("c").await.unwrap().data["status"]["lastHandledReconcileAt"] == "now"
    })
    .await;
    let is_discovery =
        |request: &String| matches!(request.as_str(), "get /version" | "get /api" | "get /apis");
    let requests: Vec<String> =
        world.target_requests().into_iter().skip(before).filter(|request| !is_discovery(request)).collect();
    assert_eq!(requests, Vec::<String>::new());

    // An upgrade whose hook fails changes nothing, and the hook runs again when it is asked for.
    world.commit(&[files("value: '2'"), jobs.to_vec()].concat());
    world.says("c", "False/WaitingForHook", "pre-upgrade hook Job.batch web/migrate").await;
    let failed = world.job("migrate").await;
    world.end("migrate", "Failed").await;
    let text = "the pre-upgrade hook Job.batch web/migrate (from c/templates/migrate.yaml) failed: BackoffLimitExceeded";
    let status = world.says("c", "False/HookFailed", text).await;
    assert_eq!(condition(&status, "Stalled")["status"], "True");
    assert_eq!(status["history"][0]["outcome"], "Failed");
    assert_eq!(world.config_map("web", "one").await, json!({"value": "1"}));
    world.stop().await;
    world.start_manager();
    world.start_observer();
    world.patch(&world.releases(), "c", ask("again")).await;
    world.says("c", "False/WaitingForHook", "pre-upgrade hook Job.batch web/migrate").await;
    assert_ne!(world.job("migrate").await, failed);
    world.end("migrate", "Succeeded").await;
    world.says("c", "True/Succeeded", "4 objects").await;
    assert_eq!(world.config_map("web", "two").await, json!({"value": "2"}));

    // All goes, with hooks around it, the namespace last.
    world.delete(&world.releases(), "c").await;
    until("the hook before the removal runs", || async { world.job("bye").await.is_string() }).await;
    assert_eq!(world.config_map("web", "one").await, json!({"value": "2"}));
    world.end("bye", "Succeeded").await;
    until("the objects are gone", || async { world.config_map("web", "one").await.is_null() }).await;
    until("the hook after the removal runs", || async { world.job("gone").await.is_string() }).await;
    world.end("gone", "Succeeded").await;
    until("the Release is gone", || async { world.releases().get_opt("c").await.unwrap().is_none() }).await;
    let namespaces = world.api("v1", "Namespace", "namespaces", None);
    until("the namespace is gone", || async { namespaces.get_opt("web").await.unwrap().is_none() }).await;
    assert!(world.inventories().list(&ListParams::default()).await.unwrap().items.is_empty());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_runs_the_hooks_of_the_revision_that_it_goes_back_to_around_its_objects() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let hook = |name: &str, event: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{helm.sh/hook: {event}}}}}\ndata: {{value: {{{{ .Values.value | quote }}}}}}\n"
        )
    };
    let hooks =
        [hook("before", "pre-rollback"), hook("after", "post-rollback"), hook("upgraded", "post-upgrade")];
    let files = |value: &'static str| {
        vec![
            ("c/Chart.yaml", CHART),
            ("c/values.yaml", value),
            ("c/templates/plain.yaml", PLAIN),
            ("c/templates/before.yaml", hooks[0].as_str()),
            ("c/templates/after.yaml", hooks[1].as_str()),
            ("c/templates/upgraded.yaml", hooks[2].as_str()),
        ]
    };
    let mut world = World::start(plane, &files("value: '1'")).await;
    let spec = json!({"targetNamespace": "web", "createNamespace": true, "apply": {"wait": false}});
    world.release("c", "c", spec).await;
    world.says("c", "True/Succeeded", "3 objects").await;
    world.commit(&files("value: '2'"));
    world.delivered("c", 2).await;
    world.says("c", "True/Succeeded", "3 objects").await;
    assert_eq!(world.config_map("web", "upgraded").await, json!({"value": "2"}));
    for name in ["before", "after"] {
        assert!(world.config_map("web", name).await.is_null(), "{name} is for rollbacks");
    }

    let release = world.releases().get("c").await.unwrap();
    let request = json!({
        "revision": 1, "generation": release.metadata.generation, "requestedAt": "2026-01-01T00:00:00Z",
        "insteadOf": release.data["status"]["bundleDigest"],
    });
    let ask = json!({"metadata": {"annotations": {"convoy.kumodo.io/rollback": request.to_string()}}});
    world.patch(&world.releases(), "c", ask).await;
    let status = world.says("c", "True/RolledBack", "revision 1").await;
    assert_eq!(status["history"][0]["rollbackTo"], 1);
    assert_eq!(world.config_map("web", "one").await, json!({"value": "1"}));
    // They ran once, with the values of that revision, one before and one after the objects; no hook of an upgrade did.
    let maps = world.api("v1", "ConfigMap", "configmaps", Some("web"));
    let mut versions = Vec::new();
    for name in ["before", "one", "two", "after"] {
        let map = maps.get(name).await.unwrap();
        assert_eq!(map.data["data"], json!({"value": "1"}), "{name}");
        versions.push(map.metadata.resource_version.unwrap().parse::<u64>().unwrap());
    }
    assert!(versions.is_sorted(), "{versions:?}");
    assert_eq!(world.config_map("web", "upgraded").await, json!({"value": "2"}));
    world.stop().await;
}
