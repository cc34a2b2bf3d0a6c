//! Releases from registries to a real kube-apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, and run helm"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_testkit::{ControlPlane, OciRegistry, Options, WebAnswer, WebServer, leave_out, program};
use serde_json::{Value, json};

use support::{World, condition, until};

/// A chart with one ConfigMap, packed by the real helm.
struct Charts {
    helm: PathBuf,
    folder: tempfile::TempDir,
}

impl Charts {
    fn new() -> Option<Self> {
        let helm = program("helm").inspect_err(|missing| leave_out(missing)).ok()?;
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("web/templates")).unwrap();
        let manifest = "apiVersion: v2\nname: web\nversion: 0.1.0\n";
        std::fs::write(folder.path().join("web/Chart.yaml"), manifest).unwrap();
        std::fs::write(folder.path().join("web/values.yaml"), "color: green\n").unwrap();
        let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n\
                        data: {version: {{ .Chart.Version | quote }}, color: {{ .Values.color }}}\n";
        std::fs::write(folder.path().join("web/templates/web.yaml"), template).unwrap();
        Some(Self { helm, folder })
    }

    fn run(&self, arguments: &[&str]) {
        let home = self.folder.path().join("home");
        let output = Command::new(&self.helm)
            .args(arguments)
            .current_dir(self.folder.path())
            .envs([("HOME", &home), ("HELM_CACHE_HOME", &home), ("HELM_CONFIG_HOME", &home)])
            .output()
            .unwrap();
        assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// Puts a version into the repository.
    fn publish(&self, version: &str) {
        self.run(&["package", "web", "--version", version, "--destination", "repo"]);
        self.run(&["repo", "index", "repo"]);
    }
}

async fn world(plane: ControlPlane) -> World {
    World::start(plane, &[("README.md", "no manifests here")]).await
}

fn release(source: &Value) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "clusterRef": {"name": "here"}, "source": source,
            "render": {"helm": {"values": {"color": "blue"}}},
            "targetNamespace": "web", "createNamespace": true, "apply": {"wait": false},
        },
    })
}

/// A server of the repository's files that wants a password, and can be out of order.
fn guarded(root: &Path) -> WebServer {
    let root = root.to_owned();
    WebServer::start(move |request| match request.header("authorization") {
        _ if root.join("broken").exists() => WebAnswer::status(503),
        Some("Basic dTpDQU5BUlk=") => WebAnswer::file(&root, request),
        _ => WebAnswer::status(401),
    })
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_of_a_helm_repository_is_delivered_and_followed() {
    let Some(charts) = Charts::new() else { return };
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    charts.publish("1.0.0");
    charts.publish("2.0.0");
    let server = guarded(&charts.repository());
    let mut world = world(plane).await;
    // The Release comes first: it says what it waits for.
    let source = json!({"helm": {"registryRef": {"name": "charts"}, "chart": "web", "version": "1.x"}});
    world.convoy("Release", release(&source)).await;
    world.says("web", "False/DependencyNotFound", "there is no HelmRegistry team/charts").await;
    let spec = json!({"url": server.url(""), "interval": "1s", "secretRef": {"name": "login"}});
    world.convoy("HelmRegistry", json!({"metadata": {"name": "charts"}, "spec": spec})).await;
    world.says("web", "False/DependencyNotReady", "there is no Secret team/login").await;
    let login = json!({"metadata": {"name": "login"}, "stringData": {"username": "u", "password": "CANARY"}});
    world.create("v1", "Secret", "secrets", login).await;
    let status = world.says("web", "True/Succeeded", "1.0.0").await;
    assert_eq!(status["sourceRevision"], "1.0.0");
    assert_eq!(world.config_map("web", "web").await, json!({"version": "1.0.0", "color": "blue"}));

    let registries = world.api(convoy_api::API_VERSION, "HelmRegistry", "helmregistries", Some("team"));
    let registry = || async { serde_json::to_value(registries.get("charts").await.unwrap()).unwrap() };
    let found = registry().await;
    assert_eq!(condition(&found["status"], "Ready")["message"], "1 chart");
    assert_eq!((&found["status"]["charts"], &found["status"]["observedGeneration"]), (&json!(1), &json!(1)));

    charts.publish("1.1.0");
    until("the newest version of the range is delivered", || async {
        world.config_map("web", "web").await["version"] == "1.1.0"
    })
    .await;

    // Out of order: what is delivered stays, also for a manager that has just begun.
    std::fs::write(charts.repository().join("broken"), "").unwrap();
    until("the registry says so", || async {
        condition(&registry().await["status"], "Ready")["reason"] == "RegistryUnreachable"
    })
    .await;
    world.stop().await;
    world.start_manager();
    world
        .patch(&world.releases(), "web", json!({"spec": {"render": {"helm": {"values": {"color": "red"}}}}}))
        .await;
    until("the chart that is kept is rendered anew", || async {
        world.config_map("web", "web").await == json!({"version": "1.1.0", "color": "red"})
    })
    .await;
    until("the Release says that nothing new can be fetched, and stays Ready", || async {
        let status = &registry_of(&world).await["status"];
        condition(status, "Fetched")["status"] == "False" && condition(status, "Ready")["status"] == "True"
    })
    .await;
    std::fs::remove_file(charts.repository().join("broken")).unwrap();
    until("the Release takes that back", || async {
        condition(&registry_of(&world).await["status"], "Fetched").is_null()
    })
    .await;

    // What there is not is said, and nothing is removed.
    let patch = json!({"spec": {"source": {"helm": {"version": ">=9"}}}});
    world.patch(&world.releases(), "web", patch).await;
    let status = world.says("web", "False/VersionNotFound", "it has 2.0.0, 1.1.0, 1.0.0").await;
    assert_eq!(condition(&status, "Stalled")["status"], "True");
    assert_eq!(world.config_map("web", "web").await["version"], "1.1.0");
    let patch = json!({"spec": {"source": {"helm": {"version": "2.0.0"}}}});
    world.patch(&world.releases(), "web", patch).await;
    world.says("web", "True/Succeeded", "2.0.0").await;
    world.delete(&registries, "charts").await;
    world.says("web", "False/DependencyNotFound", "there is no HelmRegistry").await;
    assert_eq!(world.config_map("web", "web").await["version"], "2.0.0");

    // No password in anything that can be read.
    let events = world.api("v1", "Event", "events", Some("team"));
    let events = events.list(&kube::api::ListParams::default()).await.unwrap();
    let told = serde_json::to_string(&(events, registry_of(&world).await)).unwrap();
    assert!(!told.contains("CANARY") && !told.contains("dTpDQU5BUlk="), "{told}");
    world.stop().await;
}

async fn registry_of(world: &World) -> Value {
    serde_json::to_value(world.releases().get("web").await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_of_an_oci_registry_is_delivered_and_its_tag_followed() {
    let Some(charts) = Charts::new() else { return };
    let Some(registry) = OciRegistry::start_or_leave_out().unwrap() else { return };
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let push = |version: &str| {
        charts.run(&["package", "web", "--version", version]);
        let login = ["--plain-http", "--username", OciRegistry::USER, "--password", OciRegistry::PASSWORD];
        let (archive, place) = (format!("web-{version}.tgz"), registry.url("team/charts"));
        charts.run(&[&["push", &archive, &place], &login[..]].concat());
    };
    push("1.0.0");
    let mut world = world(plane).await;
    let docker = json!({"auths": {format!("127.0.0.1:{}", registry.port()): {
        "username": OciRegistry::USER, "password": OciRegistry::PASSWORD,
    }}});
    let login = json!({
        "metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": docker.to_string()},
    });
    world.create("v1", "Secret", "secrets", login).await;
    let spec = json!({
        "url": registry.url("team"), "insecure": true, "interval": "1s", "secretRef": {"name": "login"},
    });
    world.convoy("OCIRegistry", json!({"metadata": {"name": "registry"}, "spec": spec})).await;
    let source =
        json!({"oci": {"registryRef": {"name": "registry"}, "repository": "charts/web", "semver": "1.x"}});
    world.convoy("Release", release(&source)).await;
    let status = world.says("web", "True/Succeeded", "1.0.0@sha256:").await;
    assert!(status["sourceRevision"].as_str().unwrap().starts_with("1.0.0@sha256:"), "{status:#}");
    assert_eq!(world.config_map("web", "web").await, json!({"version": "1.0.0", "color": "blue"}));

    let registries = world.api(convoy_api::API_VERSION, "OCIRegistry", "ociregistries", Some("team"));
    until("the registry is Ready", || async {
        let found = serde_json::to_value(registries.get("registry").await.unwrap()).unwrap();
        condition(&found["status"], "Ready")["message"] == "the registry answers, and takes the login"
    })
    .await;

    push("1.1.0");
    until("the newest version of the range is delivered", || async {
        world.config_map("web", "web").await["version"] == "1.1.0"
    })
    .await;
    let patch = json!({"spec": {"source": {"oci": {"semver": null, "tag": "9.9.9"}}}});
    world.patch(&world.releases(), "web", patch).await;
    world.says("web", "False/VersionNotFound", "HTTP 404").await;
    assert_eq!(world.config_map("web", "web").await["version"], "1.1.0");

    // It is gone: what was fetched last stays in use.
    let patch = json!({"spec": {"source": {"oci": {"semver": "1.x", "tag": null}}}});
    world.patch(&world.releases(), "web", patch).await;
    world.says("web", "True/Succeeded", "1.1.0@sha256:").await;
    assert!(condition(&registry_of(&world).await["status"], "Fetched").is_null());
    drop(registry);
    until("the Release says that nothing new can be fetched, and stays Ready", || async {
        let status = &registry_of(&world).await["status"];
        condition(status, "Fetched")["status"] == "False" && condition(status, "Ready")["status"] == "True"
    })
    .await;
    assert_eq!(world.config_map("web", "web").await["version"], "1.1.0");
    let told = registry_of(&world).await.to_string();
    assert!(!told.contains("CANARY"), "{told}");
    world.stop().await;
}

/// Two registries of the same place, of which one is suspended: what the other one brings shows how far the first would be.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_registry_brings_nothing_new_and_keeps_what_it_brought() {
    let Some(charts) = Charts::new() else { return };
    let Some(registry) = OciRegistry::start_or_leave_out().unwrap() else { return };
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let publish = |version: &str| {
        charts.publish(version);
        let login = ["--plain-http", "--username", OciRegistry::USER, "--password", OciRegistry::PASSWORD];
        let (archive, place) = (format!("repo/web-{version}.tgz"), registry.url("team/charts"));
        charts.run(&[&["push", &archive, &place], &login[..]].concat());
    };
    publish("1.0.0");
    let root = charts.repository();
    let server = WebServer::start(move |request| WebAnswer::file(&root, request)).unwrap();
    let mut world = world(plane).await;
    let login = json!({"metadata": {"name": "login"}, "stringData": {
        "username": OciRegistry::USER, "password": OciRegistry::PASSWORD,
    }});
    world.create("v1", "Secret", "secrets", login).await;
    let (helm, oci) = ("HelmRegistry", "OCIRegistry");
    let spec = |kind: &str| match kind {
        "HelmRegistry" => json!({"url": server.url(""), "interval": "1s"}),
        _ => json!({
            "url": registry.url("team"), "insecure": true, "interval": "1s", "secretRef": {"name": "login"},
        }),
    };
    let source = |kind: &str, name: &str| match kind {
        "HelmRegistry" => json!({"helm": {"registryRef": {"name": name}, "chart": "web", "version": "*"}}),
        _ => json!({"oci": {"registryRef": {"name": name}, "repository": "charts/web", "semver": "*"}}),
    };
    for (kind, short) in [(helm, "helm"), (oci, "oci")] {
        for name in ["paused", "eager"] {
            world.convoy(kind, json!({"metadata": {"name": name}, "spec": spec(kind)})).await;
            let mut release = release(&source(kind, name));
            let own = format!("{name}-{short}");
            release["metadata"]["name"] = own.clone().into();
            release["spec"]["targetNamespace"] = own.into();
            world.convoy("Release", release).await;
        }
    }
    let is_at = async |namespace: &str, version: &str| {
        until(&format!("{namespace} is at {version}"), || async {
            world.config_map(namespace, "web").await["version"] == version
        })
        .await;
    };
    for namespace in ["paused-helm", "eager-helm", "paused-oci", "eager-oci"] {
        is_at(namespace, "1.0.0").await;
    }
    let suspend = async |kind: &str, plural: &str, suspend: bool| {
        let registries = world.api(convoy_api::API_VERSION, kind, plural, Some("team"));
        world.patch(&registries, "paused", json!({"spec": {"suspend": suspend}})).await;
        until("the registry says so", || async {
            let found = serde_json::to_value(registries.get("paused").await.unwrap()).unwrap();
            (condition(&found["status"], "Ready")["reason"] == "Suspended") == suspend
        })
        .await;
    };
    suspend(helm, "helmregistries", true).await;
    suspend(oci, "ociregistries", true).await;
    for version in ["1.1.0", "1.2.0"] {
        publish(version);
        is_at("eager-helm", version).await;
        is_at("eager-oci", version).await;
    }
    for namespace in ["paused-helm", "paused-oci"] {
        assert_eq!(world.config_map(namespace, "web").await["version"], "1.0.0", "{namespace}");
    }
    suspend(helm, "helmregistries", false).await;
    suspend(oci, "ociregistries", false).await;
    is_at("paused-helm", "1.2.0").await;
    is_at("paused-oci", "1.2.0").await;
    world.stop().await;
}
