//! Releases from a Git repository over SSH to a real kube-apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, and run programs"
)]

mod support;

use convoy_testkit::{ControlPlane, Options, SshServer, leave_out};
use serde_json::{Value, json};

use support::{World, condition, until};

fn config_map(name: &str, color: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{color: {color}}}\n")
}

/// Case 303, and what a host key that changed does.
#[tokio::test(flavor = "multi_thread")]
async fn case303_whatever_happens_to_a_branch_nothing_is_pruned_for_it() {
    let Ok(server) = SshServer::start("ed25519", "").inspect_err(|error| leave_out(error)) else { return };
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let (a, b) = (config_map("a", "green"), config_map("b", "green"));
    let mut world = World::start(plane, &[("app/a.yaml", &a), ("app/b.yaml", &b)]).await;
    // What is checked out cannot be deleted.
    world.git(&["checkout", "-q", "-b", "elsewhere"]);
    let key = server.authorize("key", &["-t", "ed25519", "-N", ""]).unwrap();
    let hosts = server.known_hosts().unwrap();
    let secret = json!({"metadata": {"name": "key"}, "stringData": {"identity": key, "known_hosts": hosts}});
    world.create("v1", "Secret", "secrets", secret).await;
    let spec = json!({
        "url": server.url(&world.repository()), "ref": {"branch": "main"}, "interval": "1s",
        "secretRef": {"name": "key"},
    });
    world.convoy("GitRepository", json!({"metadata": {"name": "remote"}, "spec": spec})).await;
    let more = json!({
        "source": {"git": {"repositoryRef": {"name": "remote"}, "path": "app"}},
        "targetNamespace": "web", "createNamespace": true, "apply": {"wait": false},
    });
    world.release("web", "app", more).await;
    world.says("web", "True/Succeeded", "main@sha1:").await;
    assert_eq!(world.config_map("web", "a").await, json!({"color": "green"}));

    let sources = world.api(convoy_api::API_VERSION, "GitRepository", "gitrepositories", Some("team"));
    let source_says = async |reason: &str| {
        until(&format!("the source says {reason}"), || async {
            let found = serde_json::to_value(sources.get("remote").await.unwrap()).unwrap();
            condition(&found["status"], "Ready")["reason"] == reason
        })
        .await;
    };
    let release = async || serde_json::to_value(world.releases().get("web").await.unwrap()).unwrap();
    let both_stay = async || {
        for name in ["a", "b"] {
            assert_ne!(world.config_map("web", name).await, Value::Null, "{name}");
        }
    };

    // A new history, whatever its parents.
    let blue = config_map("a", "blue");
    world.git(&["checkout", "-q", "--orphan", "other"]);
    world.commit(&[("app/a.yaml", &blue), ("app/b.yaml", &b)]);
    world.git(&["branch", "-qf", "main", "other"]);
    until("the rewritten branch is delivered", || async {
        world.config_map("web", "a").await == json!({"color": "blue"})
    })
    .await;

    // Gone, and back.
    world.git(&["branch", "-qD", "main"]);
    source_says("GitReferenceNotFound").await;
    until("the Release says that it cannot be fetched", || async {
        condition(&release().await["status"], "Fetched")["status"] == "False"
    })
    .await;
    let status = release().await["status"].clone();
    assert_eq!(condition(&status, "Ready")["status"], "True", "{status:#}");
    both_stay().await;
    world.git(&["branch", "main", "other"]);
    source_says("Succeeded").await;
    until("the Release takes that back", || async {
        condition(&release().await["status"], "Fetched").is_null()
    })
    .await;

    // Emptied, and moved away.
    world.commit(&[("README.md", "nothing here"), ("app/README.md", "nor here")]);
    world.git(&["branch", "-f", "main", "other"]);
    world.says("web", "False/EmptyBundle", "").await;
    both_stay().await;
    world.commit(&[("README.md", "nothing here")]);
    world.git(&["branch", "-f", "main", "other"]);
    world.says("web", "False/PathNotFound", "").await;
    both_stay().await;
    world.commit(&[("app/a.yaml", &blue), ("app/b.yaml", &b)]);
    world.git(&["branch", "-f", "main", "other"]);
    world.says("web", "True/Succeeded", "main@sha1:").await;

    // Another machine answers in the server's place.
    let stranger = SshServer::start("ed25519", "").unwrap();
    let place = hosts.split(' ').next().unwrap();
    let changed = format!("{place} {}", stranger.known_hosts().unwrap().split_once(' ').unwrap().1);
    let secrets = world.api("v1", "Secret", "secrets", Some("team"));
    world.patch(&secrets, "key", json!({"stringData": {"known_hosts": changed}})).await;
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "news"]);
    world.git(&["branch", "-f", "main", "other"]);
    source_says("HostKeyRefused").await;
    both_stay().await;

    let events = world.api("v1", "Event", "events", Some("team"));
    let told = serde_json::to_string(&events.list(&kube::api::ListParams::default()).await.unwrap()).unwrap();
    for part in ["GitReferenceNotFound", "HostKeyRefused", "SHA256:"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("PRIVATE KEY"));
    world.stop().await;
}

/// What the repository names of it counts, and not what is newest there.
#[tokio::test(flavor = "multi_thread")]
async fn a_chart_in_a_submodule_is_delivered_over_ssh_and_followed_by_the_commit_that_names_it() {
    let Ok(server) = SshServer::start("ed25519", "").inspect_err(|error| leave_out(error)) else { return };
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let mut world = World::start(plane, &[("README.md", "its chart is elsewhere")]).await;
    let chart = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
            .args(arguments)
            .current_dir(chart.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    let commit = |color: &str| {
        let templates = chart.path().join("web/templates");
        std::fs::create_dir_all(&templates).unwrap();
        std::fs::write(chart.path().join("web/Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n")
            .unwrap();
        std::fs::write(templates.join("a.yaml"), config_map("a", color)).unwrap();
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "-m", color]);
        git(&["rev-parse", "HEAD"])
    };
    let names = |at: &str| {
        let server = server.url(chart.path());
        let modules = format!("[submodule \"charts\"]\n\tpath = charts\n\turl = {server}\n");
        std::fs::write(world.repository().join(".gitmodules"), modules).unwrap();
        world.git(&["add", ".gitmodules"]);
        world.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{at},charts")]);
        world.git(&["commit", "--quiet", "-m", "charts"]);
    };
    names(&commit("green"));
    let key = server.authorize("key", &["-t", "ed25519", "-N", ""]).unwrap();
    let hosts = server.known_hosts().unwrap();
    let secret = json!({"metadata": {"name": "key"}, "stringData": {"identity": key, "known_hosts": hosts}});
    world.create("v1", "Secret", "secrets", secret).await;
    let spec = json!({
        "url": server.url(&world.repository()), "interval": "1s", "secretRef": {"name": "key"},
    });
    world.convoy("GitRepository", json!({"metadata": {"name": "remote"}, "spec": spec})).await;
    let more = json!({
        "source": {"git": {"repositoryRef": {"name": "remote"}, "path": "charts/web"}},
        "targetNamespace": "web", "createNamespace": true, "apply": {"wait": false},
    });
    world.release("web", "app", more).await;
    world.says("web", "False/PathNotFound", "").await;
    let sources = world.api(convoy_api::API_VERSION, "GitRepository", "gitrepositories", Some("team"));
    world.patch(&sources, "remote", json!({"spec": {"recurseSubmodules": true}})).await;
    world.says("web", "True/Succeeded", "main@sha1:").await;
    assert_eq!(world.config_map("web", "a").await, json!({"color": "green"}));

    names(&commit("blue"));
    until("what the repository names now is delivered", || async {
        world.config_map("web", "a").await == json!({"color": "blue"})
    })
    .await;
    world.stop().await;
}
