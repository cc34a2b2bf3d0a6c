//! `convoy backup` and `convoy restore`: after the loss of everything that an apiserver keeps, nothing is written to a target.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "tests")]

use std::path::Path;

use convoy_e2e::repository::Repository;
use convoy_e2e::{Cli, Convoy, Kubectl, run, until};
use convoy_testkit::audit::AuditReader;
use convoy_testkit::{Etcd, leave_out, program};
use serde_json::{Value, json};

struct World {
    folder: tempfile::TempDir,
    kubectl: std::path::PathBuf,
    repository: Repository,
    target: Kubectl,
    audit: AuditReader,
    _sandbox: Convoy,
}

impl World {
    fn start() -> Option<Self> {
        let kubectl = program("kubectl").inspect_err(|missing| leave_out(missing)).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let (targets, audit) = (folder.path().join("targets"), folder.path().join("audit.log"));
        let arguments = ["--dir", targets.to_str().unwrap(), "--audit-log-path", audit.to_str().unwrap()];
        let sandbox = Convoy::start(&[&["sandbox"], arguments.as_slice()].concat()).unwrap();
        let repository = Repository::at(&folder.path().join("apps"));
        repository.init();
        let target = Kubectl::new(&kubectl, &targets.join("cluster-1.kubeconfig"));
        let world =
            Self { kubectl, repository, target, audit: AuditReader::new(&audit), _sandbox: sandbox, folder };
        world.commit(1);
        Some(world)
    }

    fn commit(&self, number: usize) {
        let map =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{number: '{number}'}}\n");
        self.repository.commit(&[("map/all.yaml", map)]);
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// A control plane with what it keeps in a folder of this name.
    fn standalone(&self, name: &str, more: &[&str]) -> (Convoy, Kubectl, Cli) {
        let path = self.path(name);
        let convoy = Convoy::standalone(Path::new(&path), more).unwrap();
        let kubeconfig = Path::new(&path).join("admin.kubeconfig");
        (convoy, Kubectl::new(&self.kubectl, &kubeconfig), Cli::new(&kubeconfig))
    }

    /// What the host of convoy's apiserver holds, and no backup of convoy does.
    fn create_secret(&self, host: &Kubectl) {
        let kubeconfig = std::fs::read_to_string(self.path("targets/cluster-1.kubeconfig")).unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"},
            "stringData": {"kubeconfig": kubeconfig}});
        host.ok_with(&["apply", "-f", "-"], &secret.to_string());
    }

    fn deliver(&self, host: &Kubectl) {
        let kind = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        let release = |name: &str| {
            kind(
                "Release",
                name,
                json!({"clusterRef": {"name": "c"}, "targetNamespace": name, "createNamespace": true,
                "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "map"}}}),
            )
        };
        for object in [
            kind("Cluster", "c", json!({"kubeconfig": {"secretRef": {"name": "k"}}})),
            kind("GitRepository", "apps", json!({"url": self.repository.url(), "interval": "1m"})),
            release("web"),
            release("api"),
        ] {
            host.ok_with(&["apply", "-f", "-"], &object.to_string());
        }
    }

    fn writes(&mut self) -> usize {
        self.audit.read().unwrap().iter().filter(|write| !write.sender.replica.is_empty()).count()
    }
}

fn wait_ready(host: &Kubectl) {
    host.ok(&["wait", "--for=condition=Ready", "release/web", "release/api", "--timeout=60s"]);
}

/// Code, standard output, standard error.
fn convoy(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn after_a_restore_into_an_empty_store_nothing_is_written_to_a_target_and_deliveries_go_on() {
    let Some(mut world) = World::start() else { return };
    let (first, host, _) = world.standalone("first", &[]);
    world.create_secret(&host);
    world.deliver(&host);
    wait_ready(&host);
    let uid = host.object(&["release", "web"]).unwrap()["metadata"]["uid"].clone();
    assert!(world.writes() > 0);

    let (file, data) = (world.path("backup"), world.path("first"));
    let back_up = ["backup", "--data-dir", &data, &file];
    let (code, _, said) = convoy(&back_up);
    assert_eq!(code, Some(1), "it runs");
    assert!(said.contains("in use by another process") && !Path::new(&file).exists(), "{said}");
    assert_eq!(first.terminate(), Some(0));
    let (code, said, why) = convoy(&back_up);
    assert_eq!(code, Some(0), "{why}");
    assert!(said.contains("1 clusters, 1 gitrepositories, 2 releaseinventories, 2 releases"), "{said}");
    let again = world.path("again");
    convoy(&["backup", "--data-dir", &data, &again]);
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(&again).unwrap());

    // Another machine: nothing is left of the first but the file. The Secret is the host's.
    std::fs::remove_dir_all(&data).unwrap();
    let (second, host, _) = world.standalone("second", &["--only", "apiserver"]);
    world.create_secret(&host);
    assert_eq!(second.terminate(), Some(0));
    let data = world.path("second");
    let (code, said, why) = convoy(&["restore", "--data-dir", &data, "--dry-run", &file]);
    assert!(code == Some(0) && said.contains("2 releases would be restored"), "{said}{why}");
    let (code, said, why) = convoy(&["restore", "--data-dir", &data, &file]);
    assert!(code == Some(0) && said.contains("2 releases restored, 0 were there"), "{said}{why}");
    let (code, _, why) = convoy(&["restore", "--data-dir", &data, &file]);
    assert!(
        code == Some(1) && why.contains("6 objects of convoy") && why.contains("--keep-existing"),
        "{why}"
    );
    let (code, said, _) = convoy(&["restore", "--data-dir", &data, "--keep-existing", &file]);
    assert!(
        code == Some(0) && said.contains("no objects restored, 6 were there already, 0 others"),
        "{said}"
    );

    let (_second, host, cli) = world.standalone("second", &[]);
    for release in ["web", "api"] {
        cli.until(&format!("reconcile release {release}"), "is ready");
    }
    wait_ready(&host);
    assert_eq!(host.object(&["release", "web"]).unwrap()["metadata"]["uid"], uid);
    assert_eq!(world.writes(), 0, "a target was written to");
    world.commit(2);
    cli.until("reconcile gitrepository apps", "is ready");
    let number = ["get", "configmap", "m", "-n", "web", "-o", "jsonpath={.data.number}"];
    until("the change is delivered", || (world.target.ok(&number) == "2").then_some(()));
    wait_ready(&host);
}

#[test]
fn what_is_in_one_kind_of_store_is_restored_into_the_other() {
    let Some(world) = World::start() else { return };
    let Some(etcd) = Etcd::start_or_leave_out() else { return };
    let (first, host, _) = world.standalone("first", &[]);
    world.create_secret(&host);
    world.deliver(&host);
    wait_ready(&host);
    assert_eq!(first.terminate(), Some(0));
    let (file, back, data) = (world.path("backup"), world.path("back"), world.path("first"));
    assert_eq!(convoy(&["backup", "--data-dir", &data, &file]).0, Some(0));
    let etcd = format!("--etcd-servers={}", etcd.urls().join(","));
    let store = [etcd.as_str(), "--etcd-prefix=/convoy"];
    let (code, said, why) = convoy(&[&["restore"], store.as_slice(), &[&file]].concat());
    assert!(code == Some(0) && said.contains("2 releases restored"), "{said}{why}");
    let (code, _, why) = convoy(&[&["backup"], store.as_slice(), &[&back]].concat());
    assert_eq!(code, Some(0), "{why}");
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(&back).unwrap());

    // Nothing is written from a file that is not whole.
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 20]).unwrap();
    let (code, _, why) = convoy(&["restore", etcd.as_str(), "--etcd-prefix=/other", &file]);
    assert!(code == Some(1) && why.contains("cannot be restored from"), "{why}");
    let empty = world.path("empty");
    let (_, said, _) = convoy(&["backup", etcd.as_str(), "--etcd-prefix=/other", &empty]);
    assert!(said.contains("no objects"), "{said}");
}
