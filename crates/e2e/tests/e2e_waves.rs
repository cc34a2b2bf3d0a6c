//! Waves and hooks on a simulated cluster, with a control plane that is killed in the middle of each.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_e2e::{Convoy, Kubectl, until};
use convoy_testkit::{leave_out, program};
use serde_json::{Value, json};

/// A control plane that can be killed, a simulated cluster, and a Git repository.
struct Stage {
    folder: tempfile::TempDir,
    kubectl_program: PathBuf,
    convoy: Option<Convoy>,
    _sandbox: Convoy,
}

impl Stage {
    /// `None` when kubectl is not built.
    fn set(files: &[(&str, &str)]) -> Option<Self> {
        let kubectl_program = program("kubectl").inspect_err(|missing| leave_out(missing)).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let targets = folder.path().join("targets");
        let audit_log = folder.path().join("audit.log");
        let sandbox = Convoy::start(&[
            "sandbox",
            "--clusters",
            "1",
            "--dir",
            targets.to_str().unwrap(),
            "--audit-log-path",
            audit_log.to_str().unwrap(),
        ])
        .unwrap();
        let mut stage = Self { folder, kubectl_program, convoy: None, _sandbox: sandbox };
        stage.start();
        stage.git(&["init", "--quiet", "--initial-branch", "main", "."]);
        stage.commit(files);
        let kubeconfig = std::fs::read_to_string(targets.join("cluster-1.kubeconfig")).unwrap();
        let url = format!("file://{}", stage.repository().display());
        for object in [
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"}, "stringData": {"kubeconfig": kubeconfig}}),
            json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"},
                   "spec": {"kubeconfig": {"secretRef": {"name": "k"}}}}),
            json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "GitRepository", "metadata": {"name": "r"},
                   "spec": {"url": url, "interval": "1s"}}),
        ] {
            stage.host().ok_with(&["apply", "-f", "-"], &object.to_string());
        }
        Some(stage)
    }

    fn start(&mut self) {
        let data = self.folder.path().join("convoy");
        self.convoy = Some(Convoy::standalone(&data, &[]).unwrap());
    }

    /// Kills the control plane and starts it again.
    fn crash(&mut self) {
        self.convoy.take().unwrap().kill();
        self.start();
    }

    fn host(&self) -> Kubectl {
        Kubectl::new(&self.kubectl_program, &self.folder.path().join("convoy/admin.kubeconfig"))
    }

    fn target(&self) -> Kubectl {
        Kubectl::new(&self.kubectl_program, &self.folder.path().join("targets/cluster-1.kubeconfig"))
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    fn git(&self, arguments: &[&str]) {
        std::fs::create_dir_all(self.repository()).unwrap();
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"];
        let status =
            Command::new("git").arg("-C").arg(self.repository()).args(identity).args(arguments).status();
        assert!(status.unwrap().success(), "git {arguments:?}");
    }

    fn commit(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.repository().join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "change"]);
    }

    fn release(&self, name: &str, path: &str) {
        let release = json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": name},
            "spec": {"clusterRef": {"name": "c"}, "targetNamespace": "web", "createNamespace": true,
                     "source": {"git": {"repositoryRef": {"name": "r"}, "path": path}}},
        });
        self.host().ok_with(&["apply", "-f", "-"], &release.to_string());
    }

    fn ready(&self, release: &str) -> Option<(String, String, String)> {
        let object = self.host().object(&["release", release])?;
        let conditions = object["status"]["conditions"].as_array()?.clone();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready")?;
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// Waits for a Ready condition with the reason, and says something of the text.
    fn wait(&self, release: &str, reason: &str, text: &str) {
        until(&format!("{release} says {reason} with {text:?}"), || {
            let ready = self.ready(release)?;
            (ready.1 == reason && ready.2.contains(text)).then_some(())
        });
    }

    /// What convoy's controller-manager wrote to objects of the namespace web, in order.
    fn writes(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events
            .filter(|event| {
                event["userAgent"]
                    .as_str()
                    .is_some_and(|agent| agent.starts_with("convoy-controller-manager"))
                    && event["responseStatus"]["code"].as_i64().is_some_and(|code| code < 300)
                    && event["requestURI"].as_str().is_some_and(|uri| uri.contains("/namespaces/web/"))
                    && matches!(event["verb"].as_str(), Some("create" | "patch" | "delete"))
            })
            .map(|event| {
                let of = &event["objectRef"];
                let text = |field: &str| of[field].as_str().unwrap_or_default();
                format!("{} {} {}", event["verb"].as_str().unwrap(), text("resource"), text("name"))
            })
            .collect()
    }
}

fn job(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations: {{{annotations}}}\nspec:\n  backoffLimit: 0\n  \
         template:\n    spec: {{restartPolicy: Never, containers: [{{name: c, image: registry.example.com/c}}]}}\n"
    )
}

fn deployment(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  annotations: {{{annotations}}}\nspec:\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: c, image: registry.example.com/c}}]}}\n"
    )
}

fn config_map(name: &str, annotations: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{{annotations}}}\ndata: {{value: {value:?}}}\n"
    )
}

const CHART: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\n";
const SLOW: &str = "sandbox.convoy.kumodo.io/ready-after-seconds: '4'";

#[test]
fn a_control_plane_that_is_killed_in_a_hook_and_between_waves_goes_on_where_it_was() {
    let migrate = job("migrate", &format!("helm.sh/hook: 'pre-install,pre-upgrade', {SLOW}"));
    let check = job("check", &format!("helm.sh/hook: post-install, {SLOW}"));
    let first = config_map("first", "convoy.kumodo.io/wave: '-1'", "1");
    let back = deployment("back", SLOW);
    let front = config_map("front", "convoy.kumodo.io/wave: '2'", "1");
    let files = [
        ("c/Chart.yaml", CHART),
        ("c/templates/migrate.yaml", migrate.as_str()),
        ("c/templates/check.yaml", &check),
        ("c/templates/first.yaml", &first),
        ("c/templates/back.yaml", &back),
        ("c/templates/front.yaml", &front),
    ];
    let Some(mut stage) = Stage::set(&files) else { return };
    let target = stage.target();
    stage.release("web", "c");
    until("the hook is made", || target.object(&["job", "migrate", "-n", "web"]));
    stage.crash();
    assert!(target.object(&["configmap", "first", "-n", "web"]).is_none());
    stage.wait(
        "web",
        "WaitingForHealth",
        "wave 2 waits for the objects of wave 0 to become healthy: Deployment.apps web/back",
    );
    stage.crash();
    assert!(target.object(&["configmap", "front", "-n", "web"]).is_none());
    stage.wait("web", "WaitingForHook", "post-install hook Job.batch web/check");
    stage.crash();
    stage.wait("web", "Succeeded", "4 objects");
    let want = [
        "create jobs migrate",
        "patch configmaps first",
        "patch deployments back",
        "patch configmaps front",
        "create jobs check",
    ];
    // A POST has no name in its path.
    let named = |write: &String| write.replace("create jobs ", "create jobs");
    let writes: Vec<String> = stage.writes().iter().map(named).collect();
    let bare: Vec<String> = want
        .iter()
        .map(|w| if w.starts_with("create") { "create jobs".to_owned() } else { (*w).to_owned() })
        .collect();
    let writes: Vec<String> = writes
        .into_iter()
        .map(|w| if w.starts_with("create jobs") { "create jobs".to_owned() } else { w })
        .collect();
    assert_eq!(writes, bare, "each hook was made once, and the waves in their order");

    // The next revision: only its own hook runs, and what left goes.
    stage.commit(&[("c/templates/front.yaml", &config_map("front", "convoy.kumodo.io/wave: '2'", "2"))]);
    stage.wait("web", "WaitingForHook", "pre-upgrade hook Job.batch web/migrate");
    stage.wait("web", "Succeeded", "4 objects");
    let front = target.object(&["configmap", "front", "-n", "web"]).unwrap();
    assert_eq!(front["data"]["value"], "2");
    stage.host().ok(&["delete", "release", "web", "--timeout=60s"]);
    until("the namespace is gone", || target.object(&["namespace", "web"]).is_none().then_some(()));
}

#[test]
fn a_hook_that_fails_is_named_is_not_run_again_and_another_revision_mends_it() {
    let fails = job("migrate", "helm.sh/hook: pre-install, sandbox.convoy.kumodo.io/fail: 'no such table'");
    let one = config_map("one", "", "1");
    let files = [
        ("c/Chart.yaml", CHART),
        ("c/templates/migrate.yaml", fails.as_str()),
        ("c/templates/one.yaml", &one),
    ];
    let Some(mut stage) = Stage::set(&files) else { return };
    let target = stage.target();
    stage.release("web", "c");
    let text = "the pre-install hook Job.batch web/migrate (from c/templates/migrate.yaml) failed: \
                BackoffLimitExceeded: no such table";
    stage.wait("web", "HookFailed", text);
    let made = target.object(&["job", "migrate", "-n", "web"]).unwrap()["metadata"]["uid"].clone();
    let written = stage.writes().len();
    stage.crash();
    // Whoever takes over does not run it again.
    until("the new process has looked", || {
        let release = stage.host().object(&["release", "web"])?;
        (release["status"]["controller"]["epoch"].as_i64()? > 0).then_some(())
    });
    stage.wait("web", "HookFailed", text);
    assert_eq!(stage.writes().len(), written);
    assert_eq!(target.object(&["job", "migrate", "-n", "web"]).unwrap()["metadata"]["uid"], made);
    assert!(target.object(&["configmap", "one", "-n", "web"]).is_none());

    stage.commit(&[("c/templates/migrate.yaml", &job("migrate", "helm.sh/hook: pre-install"))]);
    stage.wait("web", "Succeeded", "2 objects");
    assert_ne!(target.object(&["job", "migrate", "-n", "web"]).unwrap()["metadata"]["uid"], made);
}

#[test]
fn a_wave_that_fails_stops_there_and_goes_on_when_it_is_mended() {
    let broken = deployment("back", "sandbox.convoy.kumodo.io/fail: 'no such image'");
    let front = config_map("front", "convoy.kumodo.io/wave: '1'", "1");
    let Some(stage) = Stage::set(&[("m/back.yaml", broken.as_str()), ("m/front.yaml", &front)]) else {
        return;
    };
    let target = stage.target();
    stage.release("web", "m");
    until("it says what is wrong", || {
        let (status, _, message) = stage.ready("web")?;
        (status == "False"
            && message.contains("wave 1 waits")
            && message.contains("Deployment.apps web/back"))
        .then_some(())
    });
    assert!(target.object(&["configmap", "front", "-n", "web"]).is_none());
    stage.commit(&[("m/back.yaml", &deployment("back", ""))]);
    stage.wait("web", "Succeeded", "3 objects");
    assert!(target.object(&["configmap", "front", "-n", "web"]).is_some());

    stage.commit(&[("m/front.yaml", &config_map("front", "convoy.kumodo.io/wave: first", "1"))]);
    stage.wait(
        "web",
        "PlanFailed",
        "ConfigMap web/front has the annotation convoy.kumodo.io/wave: \"first\"",
    );
    assert!(target.object(&["configmap", "front", "-n", "web"]).is_some());
}
