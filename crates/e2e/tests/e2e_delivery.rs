//! Delivery to simulated clusters and to a real kube-apiserver.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_e2e::{Convoy, Kubectl, until};
use convoy_testkit::{ControlPlane, Options, leave_out, program};
use serde_json::{Value, json};

/// A control plane with a Git repository of the examples.
struct Stage {
    folder: tempfile::TempDir,
    kubectl_program: PathBuf,
    host: Kubectl,
    _convoy: Convoy,
}

impl Stage {
    /// `None` when kubectl is not built.
    fn set() -> Option<Self> {
        let kubectl_program = program("kubectl").inspect_err(|missing| leave_out(missing)).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("convoy");
        let convoy = Convoy::standalone(&data, &[]).unwrap();
        let host = Kubectl::new(&kubectl_program, &data.join("admin.kubeconfig"));
        let stage = Self { folder, kubectl_program, host, _convoy: convoy };
        let repository = stage.repository();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        copy(&examples, &repository);
        stage.git(&["init", "--quiet", "--initial-branch", "main"]);
        stage.commit("The examples");
        stage.apply(&json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "GitRepository", "metadata": {"name": "examples"},
            "spec": {"url": format!("file://{}", repository.display()), "ref": {"branch": "main"}, "interval": "1s"},
        }));
        Some(stage)
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    fn git(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"];
        let status =
            Command::new("git").arg("-C").arg(self.repository()).args(identity).args(arguments).status();
        assert!(status.unwrap().success(), "git {arguments:?}");
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    fn apply(&self, object: &Value) {
        self.host.ok_with(&["apply", "-f", "-"], &object.to_string());
    }

    /// A Cluster of the kubeconfig, and a kubectl for it.
    fn cluster(&self, name: &str, kubeconfig: &Path) -> Kubectl {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}-kubeconfig")},
            "stringData": {"kubeconfig": text},
        }));
        self.apply(&json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"kubeconfig": {"secretRef": {"name": format!("{name}-kubeconfig")}}},
        }));
        Kubectl::new(&self.kubectl_program, kubeconfig)
    }

    fn release(&self, name: &str, cluster: &str, path: &str, namespace: &str, wait: bool) {
        let mut spec = json!({
            "clusterRef": {"name": cluster},
            "source": {"git": {"repositoryRef": {"name": "examples"}, "path": path}},
            "targetNamespace": namespace,
            "createNamespace": true,
            "apply": {"wait": wait},
        });
        if path == "web" {
            spec["render"] = json!({"helm": {"releaseName": "web", "values": {
                "region": "eu", "greeting": "Guten Tag",
                "autoscaling": {"enabled": true}, "ingress": {"enabled": true, "host": "web.example.com"},
            }}});
        }
        self.apply(&json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": name}, "spec": spec,
        }));
    }

    /// Waits for a Ready condition with the status and the reason.
    fn wait(&self, release: &str, status: &str, reason: &str) -> Value {
        until(&format!("{release} is {status} because of {reason}"), || {
            let object = self.host.object(&["release", release])?;
            let ready = condition(&object, "Ready")?;
            let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            (current && ready["status"] == status && ready["reason"] == reason).then(|| object.clone())
        })
    }
}

fn condition(object: &Value, type_: &str) -> Option<Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_).cloned()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn sandbox(folder: &Path, clusters: u16, audit_log: &Path) -> Convoy {
    let clusters = clusters.to_string();
    let (folder, audit_log) = (folder.to_str().unwrap(), audit_log.to_str().unwrap());
    Convoy::start(&["sandbox", "--clusters", &clusters, "--dir", folder, "--audit-log-path", audit_log])
        .unwrap()
}

/// Requests to the target that convoy's processes made, by verb and path.
fn requests(audit_log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(audit_log).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| {
            event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("convoy-controller-manager"))
        })
        .map(|event| format!("{} {}", event["verb"], event["requestURI"]))
        .collect()
}

/// What the examples deliver.
const OBJECTS: [&[&str]; 11] = [
    &["namespace", "library"],
    &["crd", "books.library.example.com"],
    &["configmap", "library", "-n", "library"],
    &["service", "library", "-n", "library"],
    &["deployment", "library", "-n", "library"],
    &["book", "the-sea-wolf", "-n", "library"],
    &["configmap", "web", "-n", "web"],
    &["service", "web", "-n", "web"],
    &["deployment", "web", "-n", "web"],
    &["ingress", "web", "-n", "web"],
    &["hpa", "web", "-n", "web"],
];

/// An object without what each server allots by itself.
fn comparable(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("status");
    let labels = object["metadata"]["labels"].clone();
    let convoy_owns = object["metadata"]["managedFields"]
        .as_array()
        .and_then(|entries| entries.iter().find(|entry| entry["manager"] == "convoy"))
        .map(|entry| entry["fieldsV1"].clone());
    let mut labels = labels.as_object().cloned().unwrap_or_default();
    labels.remove("convoy.kumodo.io/release-uid");
    object["metadata"] =
        json!({"labels": labels, "name": object["metadata"]["name"], "convoyOwns": convoy_owns});
    if object["kind"] == "Service" {
        for field in ["clusterIP", "clusterIPs"] {
            object["spec"].as_object_mut().unwrap().remove(field);
        }
    }
    object
}

#[test]
fn a_sandbox_and_a_real_kube_apiserver_get_the_same_objects() {
    let Some(real) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let Some(stage) = Stage::set() else { return };
    let folder = stage.folder.path().join("targets");
    let _sandbox = sandbox(&folder, 1, &stage.folder.path().join("audit.log"));
    let sandbox = stage.cluster("sandbox", &folder.join("cluster-1.kubeconfig"));
    let real_target = stage.cluster("real", &real.kubeconfig());
    for cluster in ["sandbox", "real"] {
        // Without a controller-manager of its own nothing becomes ready on the real one.
        stage.release(&format!("library-{cluster}"), cluster, "library", "library", false);
        stage.release(&format!("web-{cluster}"), cluster, "web", "web", false);
    }
    for cluster in ["sandbox", "real"] {
        stage.wait(&format!("library-{cluster}"), "True", "Succeeded");
        stage.wait(&format!("web-{cluster}"), "True", "Succeeded");
    }
    let mut differences = Vec::new();
    for names in OBJECTS {
        let ours =
            comparable(sandbox.object(names).unwrap_or_else(|| panic!("{names:?} is not on the sandbox")));
        let theirs = comparable(
            real_target.object(names).unwrap_or_else(|| panic!("{names:?} is not on the real one")),
        );
        if ours != theirs {
            differences.push(format!("{names:?}\n  sandbox: {ours}\n  real:    {theirs}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_second_reconcile_of_50_releases_makes_no_request_to_the_target() {
    let Some(stage) = Stage::set() else { return };
    let folder = stage.folder.path().join("targets");
    let audit_log = stage.folder.path().join("audit.log");
    let _sandbox = sandbox(&folder, 1, &audit_log);
    stage.cluster("sandbox", &folder.join("cluster-1.kubeconfig"));
    let names: Vec<String> = (0..50).map(|index| format!("web-{index}")).collect();
    for name in &names {
        stage.release(name, "sandbox", "web", name, true);
    }
    for name in &names {
        stage.wait(name, "True", "Succeeded");
    }
    let settled = requests(&audit_log).len();
    assert!(settled >= 50 * 5, "the audit log saw only {settled} requests");
    stage.host.ok(&[
        &["annotate", "--overwrite", "releases"],
        names.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
        &["convoy.kumodo.io/reconcile-at=again"],
    ]
    .concat());
    for name in &names {
        until(&format!("{name} was reconciled again"), || {
            let object = stage.host.object(&["release", name])?;
            (object["status"]["lastHandledReconcileAt"] == "again").then_some(())
        });
    }
    let again = requests(&audit_log);
    let new: BTreeSet<&String> = again[settled..].iter().collect();
    assert!(new.is_empty(), "{} requests for a second reconcile: {new:?}", again.len() - settled);
}

#[test]
fn a_chart_that_breaks_leaves_the_target_as_it_was_and_names_file_and_line() {
    let Some(stage) = Stage::set() else { return };
    let folder = stage.folder.path().join("targets");
    let audit_log = stage.folder.path().join("audit.log");
    let _sandbox = sandbox(&folder, 1, &audit_log);
    let target = stage.cluster("sandbox", &folder.join("cluster-1.kubeconfig"));
    stage.release("web", "sandbox", "web", "web", true);
    stage.release("library", "sandbox", "library", "library", true);
    stage.wait("web", "True", "Succeeded");
    stage.wait("library", "True", "Succeeded");
    let before = target.ok(&["get", "all,configmaps,ingresses", "-n", "web", "-o", "name"]);
    let settled = requests(&audit_log).len();

    let service = stage.repository().join("web/templates/service.yaml");
    let text = std::fs::read_to_string(&service).unwrap();
    std::fs::write(&service, text.replace("port: 80", "port: {{ .Values.no.such.port }}")).unwrap();
    stage.commit("A mistake");
    let broken = stage.wait("web", "False", "RenderFailed");
    let message = condition(&broken, "Ready").unwrap()["message"].to_string();
    assert!(message.contains("web/templates/service.yaml:12"), "{message}");
    assert_eq!(target.ok(&["get", "all,configmaps,ingresses", "-n", "web", "-o", "name"]), before);
    // Others go on, and nothing was written for the broken one.
    stage.wait("library", "True", "Succeeded");
    let touched: Vec<String> = requests(&audit_log)[settled..]
        .iter()
        .filter(|request| request.contains("namespaces/web/"))
        .cloned()
        .collect();
    assert!(touched.is_empty(), "{touched:?}");

    std::fs::write(&service, text).unwrap();
    stage.commit("Mended");
    stage.wait("web", "True", "Succeeded");
}

#[test]
fn what_leaves_the_source_is_pruned_and_a_deleted_release_takes_its_objects_with_it() {
    let Some(stage) = Stage::set() else { return };
    let folder = stage.folder.path().join("targets");
    let _sandbox = sandbox(&folder, 1, &stage.folder.path().join("audit.log"));
    let target = stage.cluster("sandbox", &folder.join("cluster-1.kubeconfig"));
    stage.release("library", "sandbox", "library", "library", true);
    stage.wait("library", "True", "Succeeded");
    target.ok(&["create", "configmap", "foreign", "-n", "library"]);

    std::fs::remove_file(stage.repository().join("library/books.yaml")).unwrap();
    stage.commit("No more books");
    until("the books are gone", || {
        target.object(&["book", "the-sea-wolf", "-n", "library"]).is_none().then_some(())
    });
    assert!(target.object(&["deployment", "library", "-n", "library"]).is_some());

    stage.host.ok(&["delete", "release", "library", "--timeout=60s"]);
    assert!(target.object(&["deployment", "library", "-n", "library"]).is_none());
    // The namespace holds what convoy did not put there.
    assert!(target.object(&["configmap", "foreign", "-n", "library"]).is_some());
    assert_eq!(stage.host.ok(&["get", "releaseinventories", "-o", "name"]), "");
}

#[test]
fn a_deleted_release_takes_the_namespace_that_it_made_with_it() {
    let Some(stage) = Stage::set() else { return };
    let folder = stage.folder.path().join("targets");
    let _sandbox = sandbox(&folder, 1, &stage.folder.path().join("audit.log"));
    let target = stage.cluster("sandbox", &folder.join("cluster-1.kubeconfig"));
    stage.release("web", "sandbox", "web", "web", true);
    stage.wait("web", "True", "Succeeded");
    stage.host.ok(&["delete", "release", "web", "--timeout=60s"]);
    until("the namespace is gone", || target.object(&["namespace", "web"]).is_none().then_some(()));
}

#[test]
fn nothing_is_orphaned_in_silence_when_the_control_planes_namespace_is_deleted() {
    let Some(stage) = Stage::set() else { return };
    let folder = stage.folder.path().join("targets");
    let _sandbox = sandbox(&folder, 1, &stage.folder.path().join("audit.log"));
    let kubeconfig = folder.join("cluster-1.kubeconfig");
    let target = Kubectl::new(&stage.kubectl_program, &kubeconfig);
    stage.host.ok(&["create", "namespace", "team"]);
    let repository = format!("file://{}", stage.repository().display());
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"},
               "stringData": {"kubeconfig": std::fs::read_to_string(&kubeconfig).unwrap()}}),
        json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"},
               "spec": {"kubeconfig": {"secretRef": {"name": "k"}}}}),
        json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "GitRepository", "metadata": {"name": "r"},
               "spec": {"url": repository}}),
        json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": "web"},
               "spec": {"clusterRef": {"name": "c"}, "targetNamespace": "web", "createNamespace": true,
                        "source": {"git": {"repositoryRef": {"name": "r"}, "path": "web"}}}}),
    ] {
        stage.host.ok_with(&["apply", "-n", "team", "-f", "-"], &object.to_string());
    }
    let deployment = ["deployment", "web", "-n", "web"];
    until("web is delivered", || target.object(&deployment));
    stage.host.ok(&["wait", "-n", "team", "--for=condition=Ready", "release/web", "--timeout=60s"]);
    stage.host.ok(&["delete", "namespace", "team", "--wait=false"]);
    // With its Cluster gone, the Release may not be able to remove its objects; then it stays and says so.
    until("the objects are gone, or the Release says what is left", || {
        let is_gone = target.object(&deployment).is_none();
        let release = stage.host.object(&["release", "web", "-n", "team"]);
        match release {
            None => {
                assert!(is_gone, "the Release is gone and its objects are not");
                Some(())
            }
            Some(release) => {
                let message = condition(&release, "Ready")?["message"].to_string();
                (message.contains("objects are still on the Cluster c")).then_some(())
            }
        }
    });
}

#[test]
fn what_kubectl_sends_as_protobuf_is_read_with_its_embedded_structs() {
    let Some(stage) = Stage::set() else { return };
    let folder = stage.folder.path().join("targets");
    let _sandbox = sandbox(&folder, 1, &stage.folder.path().join("audit.log"));
    let target = Kubectl::new(&stage.kubectl_program, &folder.join("cluster-1.kubeconfig"));
    target.ok(&["create", "ingress", "i", "--rule=a.example.com/b=c:80"]);
    let ingress = target.object(&["ingress", "i"]).unwrap();
    assert_eq!(ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"], "c");
    target.ok(&["create", "deployment", "d", "--image=registry.example.com/d:1", "--port=80"]);
    target.ok(&["create", "cronjob", "j", "--image=registry.example.com/j:1", "--schedule=0 1 * * *"]);
    target.ok(&["create", "secret", "generic", "s", "--from-literal=a=b"]);
}
