//! The render store is collected while standalone runs.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use convoy_e2e::{Convoy, Kubectl, convoy_program, until};
use convoy_testkit::{leave_out, program};
use serde_json::{Value, json};

fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"];
    let status = Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).status();
    assert!(status.unwrap().success(), "git {arguments:?}");
}

/// The digests of the files of a folder of the store.
fn digests(folder: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().file_name());
    files.map(|name| format!("sha256:{}", name.to_str().unwrap())).collect()
}

/// Makes all files of a folder two hours old, which is more than the grace.
fn age(folder: &Path) {
    let then = SystemTime::now() - Duration::from_secs(2 * 3600);
    for file in std::fs::read_dir(folder).into_iter().flatten() {
        // A collection may have moved it.
        if let Ok(file) = File::options().write(true).open(file.unwrap().path()) {
            file.set_modified(then).unwrap();
        }
    }
}

#[test]
fn bundles_that_no_release_names_go_and_every_revision_of_the_history_can_be_gone_back_to() {
    let Some(kubectl) = program("kubectl").inspect_err(|missing| leave_out(missing)).ok() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let _convoy = Convoy::standalone(
        &at("convoy"),
        &["--sandbox", "1", "--render-store-gc-interval", "1s", "--render-store-gc-grace", "1h"],
    )
    .unwrap();
    let kubeconfig = at("convoy/admin.kubeconfig");
    let host = Kubectl::new(&kubectl, &kubeconfig);
    let target_kubeconfig = std::fs::read_dir(at("convoy/sandbox"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "kubeconfig"))
        .unwrap();
    let target = Kubectl::new(&kubectl, &target_kubeconfig);
    let repository = at("apps");
    std::fs::create_dir_all(&repository).unwrap();
    git(&repository, &["init", "--quiet", "--initial-branch", "main"]);
    let commit = |text: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"text": text},
        });
        std::fs::write(repository.join("map.yaml"), map.to_string()).unwrap();
        git(&repository, &["add", "--all"]);
        git(&repository, &["commit", "--quiet", "--message", text]);
    };
    commit("1");
    let apply = |kind: &str, name: &str, spec: Value| {
        host.ok_with(
            &["apply", "-f", "-"],
            &json!({
                "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
            })
            .to_string(),
        );
    };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"},
        "stringData": {"kubeconfig": std::fs::read_to_string(&target_kubeconfig).unwrap()},
    });
    host.ok_with(&["apply", "-f", "-"], &secret.to_string());
    apply("Cluster", "c", json!({"kubeconfig": {"secretRef": {"name": "k"}}}));
    let url = format!("file://{}", repository.display());
    apply("GitRepository", "apps", json!({"url": url, "interval": "1s"}));
    let source = json!({"git": {"repositoryRef": {"name": "apps"}}});
    let spec = json!({
        "clusterRef": {"name": "c"}, "source": source, "historyLimit": 3, "apply": {"wait": false},
    });
    apply("Release", "web", spec);
    let status = || host.object(&["release", "web"]).map_or(Value::Null, |object| object["status"].clone());
    let live = || {
        let map = target.object(&["configmap", "settings"])?;
        Some(map["data"]["text"].as_str().unwrap_or_default().to_owned())
    };
    let is_ready = |status: &Value| {
        let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    for revision in 1..=6 {
        if revision > 1 {
            commit(&revision.to_string());
        }
        until(&format!("revision {revision} is delivered"), || {
            let status = status();
            (is_ready(&status)
                && status["history"][0]["revision"] == revision
                && live() == Some(revision.to_string()))
            .then_some(())
        });
    }
    let store = at("convoy/render-store");
    let (bundles, artifacts) = (store.join("bundles"), store.join("artifacts"));
    let (bundles_aside, artifacts_aside) = (store.join("aside/bundles"), store.join("aside/artifacts"));
    assert_eq!(digests(&bundles).len(), 6, "nothing that is young is collected");
    let history = status()["history"].as_array().unwrap().clone();
    let named: BTreeSet<String> =
        history.iter().map(|entry| entry["bundleDigest"].as_str().unwrap().to_owned()).collect();
    assert_eq!(named.len(), 3, "{history:#?}");

    age(&bundles);
    age(&artifacts);
    until("what nothing names is set aside", || {
        (digests(&bundles) == named && digests(&artifacts).len() == 1).then_some(())
    });
    assert_eq!(digests(&bundles_aside).len(), 3, "it is not deleted at once");
    age(&bundles_aside);
    age(&artifacts_aside);
    until("it is deleted", || {
        (digests(&bundles_aside).is_empty() && digests(&artifacts_aside).is_empty()).then_some(())
    });
    assert_eq!(digests(&bundles), named);

    // Old bundles that are named stay, whatever their age, and can be gone back to.
    for entry in history.iter().rev() {
        let revision = entry["revision"].as_i64().unwrap();
        let output = Command::new(convoy_program())
            .args(["rollback", "web", "--to", &revision.to_string()])
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .unwrap();
        // The newest is what the source says, so that going back there ends at it.
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        until(&format!("revision {revision} is gone back to"), || {
            (live() == Some(revision.to_string()) && is_ready(&status())).then_some(())
        });
        age(&bundles);
    }
}
