//! Failed deliveries, rollbacks and dependencies, from the Git repository to simulated clusters.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::panic,
    reason = "tests"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_e2e::{Convoy, Kubectl, convoy_program, until};
use convoy_testkit::{leave_out, program};
use serde_json::{Value, json};

/// A control plane, one simulated cluster, and a Git repository with a folder for each Release.
struct Stage {
    folder: tempfile::TempDir,
    host: Kubectl,
    target: Kubectl,
    convoy: Option<Convoy>,
    _sandbox: Convoy,
}

impl Stage {
    /// `None` when kubectl is not built.
    fn set() -> Option<Self> {
        let kubectl = program("kubectl").inspect_err(|missing| leave_out(missing)).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let targets = folder.path().join("targets");
        let sandbox =
            Convoy::start(&["sandbox", "--dir", targets.to_str().unwrap(), "--ready-after-ms", "100"])
                .unwrap();
        let convoy = Some(standalone(folder.path()));
        let host = Kubectl::new(&kubectl, &folder.path().join("convoy/admin.kubeconfig"));
        let kubeconfig = targets.join("cluster-1.kubeconfig");
        let target = Kubectl::new(&kubectl, &kubeconfig);
        let stage = Self { folder, host, target, convoy, _sandbox: sandbox };
        std::fs::create_dir_all(stage.repository()).unwrap();
        stage.git(&["init", "--quiet", "--initial-branch", "main"]);
        stage.commit(&[("README", "apps")]);
        stage.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"},
            "stringData": {"kubeconfig": std::fs::read_to_string(&kubeconfig).unwrap()},
        }));
        stage.apply(&json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"kubeconfig": {"secretRef": {"name": "k"}}},
        }));
        stage.source();
        Some(stage)
    }

    fn source(&self) {
        self.apply(&json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "GitRepository", "metadata": {"name": "apps"},
            "spec": {"url": format!("file://{}", self.repository().display()), "interval": "1s"},
        }));
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"];
        let output =
            Command::new("git").arg("-C").arg(self.repository()).args(identity).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "git {arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Writes files; answers with the revision of the source.
    fn commit(&self, files: &[(&str, &str)]) -> String {
        for (path, text) in files {
            let path = self.repository().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "change"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn apply(&self, object: &Value) {
        self.host.ok_with(&["apply", "-f", "-"], &object.to_string());
    }

    fn release(&self, name: &str, more: Value) {
        let mut spec = json!({
            "clusterRef": {"name": "c"},
            "source": {"git": {"repositoryRef": {"name": "apps"}, "path": name}},
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        self.apply(&json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": name}, "spec": spec,
        }));
    }

    fn status(&self, release: &str) -> Value {
        self.host.object(&["release", release]).map_or(Value::Null, |object| object["status"].clone())
    }

    /// Waits until Ready reads `status/reason` for the present spec, with a text in its message, and `is_true`.
    fn says(&self, release: &str, want: &str, text: &str, is_true: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until(&format!("{release} says {want} with {text:?}"), || {
                let object = self.host.object(&["release", release])?;
                let status = &object["status"];
                last = status.clone();
                let ready = condition(status, "Ready");
                let got = format!("{}/{}", text_of(ready, "status"), text_of(ready, "reason"));
                let is_current = status["observedGeneration"] == object["metadata"]["generation"];
                let is_said = text_of(ready, "message").contains(text);
                (is_current && got == want && is_said && is_true(status)).then(|| status.clone())
            })
        }));
        found.unwrap_or_else(|_| panic!("{release}: wanted {want} with {text:?}, is {last:#}"))
    }

    /// Runs the convoy program against the control plane.
    fn convoy(&self, arguments: &[&str]) -> (bool, String) {
        let kubeconfig = self.folder.path().join("convoy/admin.kubeconfig");
        let output =
            Command::new(convoy_program()).args(arguments).env("KUBECONFIG", kubeconfig).output().unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), text)
    }

    fn image(&self, deployment: &str) -> String {
        let object = self.target.object(&["deployment", deployment]);
        object.map_or(String::new(), |object| {
            text_of(&object["spec"]["template"]["spec"]["containers"][0], "image").to_owned()
        })
    }
}

fn standalone(folder: &Path) -> Convoy {
    let data = folder.join("convoy");
    Convoy::standalone(&data, &[]).unwrap()
}

fn text_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

/// The history as `revision outcome [back to]`.
fn history(status: &Value) -> Vec<String> {
    let entries = status["history"].as_array().map_or(&[][..], Vec::as_slice);
    let entry = |entry: &Value| {
        let back = entry["rollbackTo"].as_i64().map_or(String::new(), |to| format!(" back to {to}"));
        format!("{} {}{back}", entry["revision"], text_of(entry, "outcome"))
    };
    entries.iter().map(entry).collect()
}

/// A Deployment that becomes ready, or one that never does.
fn deployment(name: &str, version: &str, fails: bool) -> String {
    let annotations = if fails { "{sandbox.convoy.kumodo.io/fail: no such image}" } else { "{}" };
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, annotations: {annotations}}}\n\
         spec:\n  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: a, image: \"registry.example.com/{name}:{version}\"}}]}}\n"
    )
}

fn config_map(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: \"{data}\"}}\n")
}

fn any(_: &Value) -> bool {
    true
}

const QUICK: &str = "3s";

#[test]
fn a_failed_upgrade_goes_back_and_a_rollback_can_be_rolled_back() {
    let Some(stage) = Stage::set() else { return };
    stage.commit(&[("web/d.yaml", &deployment("web", "1", false))]);
    let policy = json!({"apply": {"timeout": QUICK}, "onFailure": {"action": "Rollback", "retries": 0}});
    stage.release("web", policy);
    stage.says("web", "True/Succeeded", "", any);

    let bad = stage.commit(&[
        ("web/d.yaml", &deployment("web", "2", true)),
        ("web/new.yaml", &config_map("only-in-2", "x")),
    ]);
    let status = stage.says("web", "False/RolledBack", "revision 2", any);
    let message = text_of(condition(&status, "Ready"), "message");
    assert!(message.contains(&bad) && message.contains("went back to revision 1"), "{message}");
    assert_eq!(history(&status), ["3 Succeeded back to 1", "2 Failed", "1 Succeeded"]);
    assert_eq!(text_of(condition(&status, "Stalled"), "reason"), "RolledBack");
    assert!(text_of(&status, "lastAttemptedRevision").contains(&bad), "{status:#}");
    assert_eq!(stage.image("web"), "registry.example.com/web:1");
    assert!(
        stage.target.object(&["configmap", "only-in-2"]).is_none(),
        "what the failed one brought is pruned"
    );

    // With the source gone it stays, and an earlier revision can still be asked for: the one that failed.
    stage.host.ok(&["delete", "gitrepository", "apps"]);
    stage.host.ok(&["annotate", "release", "web", "example.com/look=again"]);
    let (done, said) = stage.convoy(&["rollback", "web", "--to", "2"]);
    assert!(done && said.contains("release.convoy.kumodo.io/web goes back to revision 2"), "{said}");
    stage.says("web", "False/Degraded", "revision 2, which was gone back to", |status| {
        history(status)[0] == "4 Failed back to 2"
    });
    assert_eq!(stage.image("web"), "registry.example.com/web:2");
    let raw = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/releases/web/rollback";
    let body = r#"{"apiVersion":"convoy.kumodo.io/v1alpha1","kind":"ReleaseRollback","revision":3}"#;
    let answer = stage.host.ok_with(&["create", "--raw", raw, "-f", "-"], body);
    assert!(answer.contains("\"revision\":3"), "{answer}");
    let status = stage.says("web", "True/RolledBack", "as was asked for", any);
    assert_eq!(history(&status)[0], "5 Succeeded back to 3");
    assert_eq!(stage.image("web"), "registry.example.com/web:1");

    // A new revision ends it at once.
    stage.source();
    stage.commit(&[("web/d.yaml", &deployment("web", "3", false))]);
    let status = stage.says("web", "True/Succeeded", "", |status| status["history"][0]["revision"] == 6);
    assert_eq!(history(&status)[..2], ["6 Succeeded", "5 Succeeded back to 3"]);
    assert_eq!((&status["rollback"], &status["failure"]), (&Value::Null, &Value::Null));
    assert_eq!(stage.image("web"), "registry.example.com/web:3");
}

#[test]
fn what_cannot_be_rolled_back_to_is_refused_and_changes_nothing() {
    let Some(stage) = Stage::set() else { return };
    stage.commit(&[("web/c.yaml", &config_map("web", "1"))]);
    stage.release("web", json!({}));
    stage.says("web", "True/Succeeded", "", any);
    for (arguments, why) in [
        (&["rollback", "web", "--to", "7"][..], "is not in the history, which has 1"),
        (&["rollback", "web", "--to", "1"], "is the current revision already"),
        (&["rollback", "web"], "there is no healthy revision before the current one"),
        (&["rollback", "nothing"], "not found"),
    ] {
        let (done, said) = stage.convoy(arguments);
        assert!(!done && said.contains(why), "{arguments:?}: {said}");
    }
    assert_eq!(
        stage.host.object(&["release", "web"]).unwrap()["metadata"]["annotations"]["convoy.kumodo.io/rollback"],
        Value::Null
    );
    stage.commit(&[("web/c.yaml", &config_map("web", "2"))]);
    stage.says("web", "True/Succeeded", "", |status| status["history"][0]["revision"] == 2);
    let (done, said) = stage.convoy(&["rollback", "web", "--dry-run"]);
    assert!(done && said.contains("revision 1"), "{said}");
    let (done, said) = stage.convoy(&["rollback", "web", "-o", "json"]);
    assert!(done && serde_json::from_str::<Value>(&said).unwrap()["revision"] == 1, "{said}");
    stage.says("web", "True/RolledBack", "", any);
    // Another spec ends it.
    stage.host.ok(&["patch", "release", "web", "--type=merge", "-p", r#"{"spec":{"interval":"9m"}}"#]);
    stage.says("web", "True/Succeeded", "", |status| status["history"][0]["revision"] == 4);
}

#[test]
fn an_object_that_is_never_taken_is_not_tried_again_and_what_came_before_is_put_back() {
    let Some(stage) = Stage::set() else { return };
    let service = |port: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec: {{ports: [{{port: {port}}}]}}\n"
        )
    };
    for (name, action) in [("stop", "Stop"), ("back", "Rollback"), ("again", "Retry")] {
        let data = |value: &str| config_map(name, value);
        stage.commit(&[(&format!("{name}/c.yaml"), &data("1"))]);
        stage.release(
            name,
            json!({"targetNamespace": name, "createNamespace": true, "onFailure": {"action": action}}),
        );
        stage.says(name, "True/Succeeded", "", any);
        stage.commit(&[
            (&format!("{name}/c.yaml"), &data("2")),
            (&format!("{name}/s.yaml"), &service("99999")),
        ]);
    }
    let data = |name: &str| {
        stage.target.object(&["configmap", name, "-n", name]).map(|object| object["data"]["a"].clone())
    };
    let status = stage.says("stop", "False/ApplyRejected", "spec.ports[0].port", any);
    assert_eq!(condition(&status, "Stalled")["status"], "True");
    assert_eq!((&status["failure"]["count"], &status["failure"]["nextTime"]), (&json!(1), &Value::Null));
    let status = stage.says("again", "False/ApplyRejected", "spec.ports[0].port", any);
    assert_eq!(condition(&status, "Stalled")["status"], "True");
    assert_eq!(data("again"), Some(json!("2")), "what could be applied was");
    let status = stage.says("back", "False/RolledBack", "ApplyRejected", any);
    assert_eq!(history(&status), ["3 Succeeded back to 1", "2 Failed", "1 Succeeded"]);
    assert_eq!(data("back"), Some(json!("1")));
    // A look that is asked for tries the failed one again.
    stage.host.ok(&["annotate", "release", "back", "convoy.kumodo.io/reconcile-at=now"]);
    stage.says("back", "False/RolledBack", "", |status| status["history"][0]["revision"] == 5);
    // The fix is delivered at once, whatever the failures led to.
    for name in ["stop", "back", "again"] {
        stage.commit(&[(&format!("{name}/s.yaml"), &service("80"))]);
        let status = stage.says(name, "True/Succeeded", "", any);
        assert_eq!(status["failure"], Value::Null);
        assert_eq!(data(name), Some(json!("2")));
    }
}

#[test]
fn a_new_process_goes_on_where_the_one_that_was_killed_was() {
    let Some(mut stage) = Stage::set() else { return };
    stage.commit(&[("web/d.yaml", &deployment("web", "1", false))]);
    let policy = json!({"apply": {"timeout": QUICK}, "onFailure": {"action": "Rollback", "retries": 1}});
    stage.release("web", policy);
    stage.says("web", "True/Succeeded", "", any);
    stage.commit(&[("web/d.yaml", &deployment("web", "2", true))]);
    let waiting = stage.says("web", "False/Degraded", "", |status| status["failure"]["count"] == 1);
    assert!(waiting["failure"]["nextTime"].is_string(), "{waiting:#}");
    // The source does not render any more either: the rollback does not need it.
    stage.commit(&[("web/d.yaml", "kind: [")]);
    if let Some(convoy) = stage.convoy.take() {
        convoy.kill();
    }
    stage.convoy = Some(standalone(stage.folder.path()));
    let status = until("it went back", || {
        let status = stage.status("web");
        (text_of(condition(&status, "Ready"), "reason") == "RolledBack").then_some(status)
    });
    assert_eq!(history(&status), ["3 Succeeded back to 1", "2 Failed", "1 Succeeded"]);
    assert_eq!(status["failure"]["count"], 2, "the failure before was counted");
    assert_eq!(condition(&status, "Rendered")["status"], "False");
    assert_eq!(stage.image("web"), "registry.example.com/web:1");
    stage.commit(&[("web/d.yaml", &deployment("web", "3", false))]);
    stage.says("web", "True/Succeeded", "", any);
}

#[test]
fn a_release_waits_for_those_it_depends_on_and_names_cycles() {
    let Some(stage) = Stage::set() else { return };
    let files: Vec<(String, String)> = ["web", "api", "a", "b"]
        .iter()
        .map(|name| (format!("{name}/c.yaml"), config_map(name, "1")))
        .collect();
    let mut files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let broken = deployment("db", "1", true);
    files.push(("db/d.yaml", &broken));
    stage.commit(&files);
    // Long intervals: only events can wake them.
    stage.release("web", json!({"interval": "1h", "dependsOn": [{"name": "db"}]}));
    stage.says("web", "False/DependencyNotFound", "there is no Release default/db", any);
    let when = "object.status.history.exists(h, h.outcome == 'Succeeded')";
    stage.release("api", json!({"interval": "1h", "dependsOn": [{"name": "db", "readyWhen": when}]}));
    stage.release("db", json!({"apply": {"timeout": "1h"}}));
    stage.says("web", "False/DependencyNotReady", "it waits for the Release default/db: Degraded", any);
    stage.says("api", "False/DependencyNotReady", "readyWhen is not true", any);
    assert!(stage.target.object(&["configmap", "web"]).is_none());
    stage.commit(&[("db/d.yaml", &deployment("db", "1", false))]);
    for name in ["db", "web", "api"] {
        stage.says(name, "True/Succeeded", "", any);
    }
    // What is delivered is not taken back when the other one fails.
    stage.commit(&[("db/d.yaml", &deployment("db", "2", true))]);
    stage.says("db", "False/Degraded", "", any);
    stage.says("web", "True/Succeeded", "", any);

    stage.release("a", json!({"interval": "1h", "dependsOn": [{"name": "b"}]}));
    stage.release("b", json!({"interval": "1h", "dependsOn": [{"name": "a"}]}));
    stage.says("a", "False/DependencyCycle", "a waits for b waits for a", any);
    stage.says("b", "False/DependencyCycle", "b waits for a waits for b", any);
    stage.release("b", json!({"interval": "1h", "dependsOn": []}));
    stage.says("b", "True/Succeeded", "", any);
    stage.says("a", "True/Succeeded", "", any);
}
