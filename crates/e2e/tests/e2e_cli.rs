//! The commands of people against a standalone with a simulated cluster.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests, with the machine's clock")]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

use convoy_e2e::repository::Repository;
use convoy_e2e::{Cli, Convoy, PATIENCE, convoy_program};
use convoy_runtime::{ProcessIdentity, host_client};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

struct World {
    folder: tempfile::TempDir,
    client: Client,
    _standalone: Convoy,
}

fn kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "convoy.kumodo.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "convoy.kumodo.io/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

impl World {
    /// A standalone with one simulated cluster, a repository with one ConfigMap, and a Release of it.
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let standalone = Convoy::standalone(&data, &["--sandbox", "1"]).unwrap();
        let identity = ProcessIdentity { process: "test", replica_id: "t".to_owned() };
        let client = host_client(Some(&data.join("admin.kubeconfig")), &identity).await.unwrap();
        let world = Self { folder, client, _standalone: standalone };
        world.repository().init();
        world.commit("green");
        let kubeconfig = std::fs::read_dir(data.join("sandbox"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|extension| extension == "kubeconfig"))
            .unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "here"},
            "stringData": {"value": std::fs::read_to_string(kubeconfig).unwrap()}});
        let secrets = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "Secret"));
        world.create(&secrets, &secret).await;
        let cluster = json!({"kubeconfig": {"secretRef": {"name": "here", "key": "value"}}});
        world.convoy("Cluster", "clusters", "here", &cluster).await;
        let source = json!({"url": world.repository().url(), "interval": "1h"});
        world.convoy("GitRepository", "gitrepositories", "apps", &source).await;
        let release = json!({
            "clusterRef": {"name": "here"}, "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "app"}},
            "targetNamespace": "default", "interval": "1h",
        });
        world.convoy("Release", "releases", "web", &release).await;
        world
    }

    fn repository(&self) -> Repository {
        Repository::at(&self.folder.path().join("repository"))
    }

    fn commit(&self, color: &str) {
        let manifest =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\ndata: {{color: {color}}}\n");
        self.repository().commit(&[("app/web.yaml", manifest)]);
    }

    async fn create(&self, resource: &ApiResource, object: &Value) {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", resource);
        api.create(&PostParams::default(), &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
    }

    async fn convoy(&self, name: &str, plural: &str, object: &str, spec: &Value) {
        let object = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": name,
            "metadata": {"name": object}, "spec": spec});
        self.create(&kind(name, plural), &object).await;
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/admin.kubeconfig")
    }

    fn convoy_cli(&self) -> Cli {
        Cli::new(&self.kubeconfig())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_gets_describes_reconciles_suspends_resumes_and_forgets() {
    let world = World::start().await;
    let table = world.convoy_cli().until("get", "Succeeded");
    assert!(table.starts_with("NAME   CLUSTER   READY   STATUS"), "{table}");
    let (code, out, _) = world.convoy_cli().run("get all -A");
    assert_eq!(code, Some(0));
    assert!(
        out.contains("release.convoy.kumodo.io/web") && out.contains("cluster.convoy.kumodo.io/here"),
        "{out}"
    );
    let (_, out, _) = world.convoy_cli().run("get rel web -o json");
    let release: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&release["kind"], &release["metadata"]["name"]), (&json!("Release"), &json!("web")));
    let (_, out, _) = world.convoy_cli().run("get release,gitrepo -o name");
    assert_eq!(out, "release.convoy.kumodo.io/web\ngitrepository.convoy.kumodo.io/apps\n");
    let (_, out, err) = world.convoy_cli().run("get releases -l app=none -o wide");
    assert_eq!((out.as_str(), err.trim()), ("", "No releases found in default namespace."));
    let (code, _, err) = world.convoy_cli().run("get release nope");
    assert_eq!((code, err.trim()), (Some(1), "convoy: there is no release.convoy.kumodo.io/nope"));
    for (line, want) in [
        ("get pods", "there is no kind \"pods\""),
        ("get releases web -l a=b", "not both"),
        ("get releases web -A", "give --namespace"),
        ("reconcile releases", "give the names"),
        ("reconcile gitrepo/apps --force", "are for Releases"),
        ("suspend releaseinventory x", "cannot be suspended"),
        ("forget gitrepo apps", "nothing on a target"),
        ("forget release web", "give --yes"),
    ] {
        let (code, _, err) = world.convoy_cli().run(line);
        assert!(code == Some(2) && err.contains(want), "{line}: {code:?} {err}");
    }

    let (code, out, _) = world.convoy_cli().run("describe release web");
    assert_eq!(code, Some(0));
    for part in [
        "Source:           GitRepository apps, path app",
        "On the Cluster here, 1 object",
        "ConfigMap",
        "History:",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (_, out, _) = world.convoy_cli().run("describe cluster/here gitrepo/apps");
    assert!(out.contains("Spec:") && out.contains("url: file://") && out.contains("Succeeded"), "{out}");

    // A new revision is only found because somebody asks.
    world.commit("blue");
    let (code, out, err) = world.convoy_cli().run("reconcile release web --with-source --force");
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.contains("gitrepository.convoy.kumodo.io/apps is ready") && out.contains("web is ready"),
        "{out}"
    );
    let (_, out, _) = world.convoy_cli().run("get rel web -o yaml");
    assert!(out.contains("revision: 2"), "{out}");

    let (code, out, _) = world.convoy_cli().run("suspend release web");
    assert_eq!((code, out.trim()), (Some(0), "release.convoy.kumodo.io/web suspended"));
    assert_eq!(world.convoy_cli().run("suspend rel/web").1.trim(), "release.convoy.kumodo.io/web unchanged");
    let (code, _, err) = world.convoy_cli().run("reconcile release web");
    assert!(code == Some(1) && err.contains("is suspended; resume it first"), "{err}");
    world.convoy_cli().until("get rel web", "Suspended");
    assert_eq!(world.convoy_cli().run("resume release web").1.trim(), "release.convoy.kumodo.io/web resumed");
    world.convoy_cli().until("get rel web", "Succeeded");

    // What does not become ready is told with its reason, and in time.
    let patch = json!({"spec": {"source": {"git": {"path": "none"}}}});
    let releases: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), "default", &kind("Release", "releases"));
    releases.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let (code, _, err) = world.convoy_cli().run("reconcile release web");
    assert!(code == Some(1) && err.contains("is not ready (PathNotFound)"), "{err}");

    // The cluster is gone: deleting waits, forgetting does not.
    let nowhere = "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n\
                   clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: x, user: {token: t}}]\n";
    let secrets: Api<DynamicObject> = Api::namespaced_with(
        world.client.clone(),
        "default",
        &ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "Secret")),
    );
    let patch = json!({"stringData": {"value": nowhere}});
    secrets.patch("here", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let (code, _, err) = world.convoy_cli().run("reconcile cluster here");
    assert!(code == Some(1) && err.contains("is not ready (ClusterUnreachable)"), "{err}");
    releases.delete("web", &kube::api::DeleteParams::default()).await.unwrap();
    world.convoy_cli().until("get rel web -o wide", "not in contact");
    let (code, out, err) = world.convoy_cli().run("forget release web --yes");
    assert_eq!((code, out.trim()), (Some(0), "release.convoy.kumodo.io/web forgotten"), "{err}");
    assert!(
        err.contains("On the Cluster here, 1 object stays") && err.contains("ConfigMap default/web"),
        "{err}"
    );
    assert_eq!(world.convoy_cli().run("get releaseinventories").1, "");
    let (code, out, _) = world.convoy_cli().run("forget cluster/here -y");
    assert_eq!((code, out.trim()), (Some(0), "cluster.convoy.kumodo.io/here forgotten"));
}

/// A command that stays, and the lines that it prints.
fn watching(world: &World, arguments: &[&str]) -> (Child, Receiver<String>) {
    let mut child = Command::new(convoy_program())
        .args(arguments)
        .arg("--kubeconfig")
        .arg(world.kubeconfig())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = std::sync::mpsc::channel();
    let out = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    (child, lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_history_is_printed_anew_when_a_revision_comes() {
    let world = World::start().await;
    world.convoy_cli().until("get", "Succeeded");
    let (mut child, lines) = watching(&world, &["history", "web", "--watch"]);
    let until = |wanted: &str| while !lines.recv_timeout(PATIENCE).unwrap().starts_with(wanted) {};
    until("1 ");
    world.commit("blue");
    assert_eq!(world.convoy_cli().run("reconcile release web --with-source").0, Some(0));
    until("2 ");
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, _, err) = world.convoy_cli().run("history web --watch --revision 1");
    assert!(code == Some(2) && err.contains("--revision"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_prints_a_line_for_each_change() {
    let world = World::start().await;
    world.convoy_cli().until("get", "Succeeded");
    let (mut child, lines) = watching(&world, &["get", "releases", "--watch"]);
    let next = || lines.recv_timeout(PATIENCE).unwrap();
    assert!(next().starts_with("NAME "));
    assert!(next().contains("Succeeded"));
    world.convoy_cli().run("suspend release web");
    assert!(next().contains("Suspended"));
    world.convoy_cli().run("resume release web");
    loop {
        if next().contains("Succeeded") {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
