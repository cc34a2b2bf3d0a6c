//! Replicas that share nothing but a bucket of a real S3 server: what one rendered another goes on with, also when the
//! source is gone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::time::Duration;

use convoy_e2e::convoy_program;
use convoy_e2e::fleet::{Fleet, FleetOptions, Part, Timing, condition, convoy_path, wait};
use convoy_e2e::load::write_chart;
use convoy_testkit::{FaultyLink, GitServer, LinkMode, S3Server, leave_out};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

fn release(fleet: &Fleet) -> Value {
    fleet.host.get(&format!("{}/web", convoy_path("releases"))).unwrap().json()
}

fn await_revision(fleet: &Fleet, revision: u64) {
    let there = wait(PATIENCE, || {
        let release = release(fleet);
        let latest = &release["status"]["history"][0];
        (latest["revision"] == revision && latest["outcome"] == "Succeeded").then_some(())
    });
    assert!(there.is_some(), "{:#}", release(fleet)["status"]);
}

fn set_number(fleet: &Fleet, number: &str) {
    fleet.patch_release("web", &json!({"render": {"helm": {"values": {"number": number}}}})).unwrap();
}

#[test]
fn what_one_replica_rendered_another_rolls_back_to_and_renders_on_when_the_source_is_gone() {
    let Some(server) = S3Server::start_or_leave_out("bucket").unwrap() else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("git");
    write_chart(&root.join("apps")).unwrap();
    // convoy fetches from no loopback address.
    let git = match GitServer::start(&root) {
        Ok(git) => git,
        Err(error) => return leave_out(&error),
    };
    let credentials = folder.path().join("credentials");
    let (id, secret) = (S3Server::KEY, S3Server::SECRET);
    let text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    std::fs::write(&credentials, text).unwrap();
    let link = FaultyLink::to(server.address()).unwrap();
    let mut fleet = Fleet::start(FleetOptions {
        convoy: convoy_program(),
        beside: None,
        folder: folder.path().join("fleet"),
        clusters: 1,
        timing: Timing::SHORT,
        flags: vec![
            "--render-store-url=s3://bucket/convoy".to_owned(),
            format!("--render-store-s3-endpoint=http://{}", link.address()),
            "--render-store-s3-allow-http".to_owned(),
            format!("--render-store-s3-credentials-file={}", credentials.display()),
        ],
    })
    .unwrap();
    fleet.create_clusters().unwrap();
    fleet.add(Part::ControllerManager, "cm-0").unwrap();
    fleet.add(Part::Observer, "obs-0").unwrap();
    let source = json!({"url": git.url("apps"), "interval": "1h"});
    fleet.create_convoy("gitrepositories", "GitRepository", "apps", &source).unwrap();
    let spec = json!({
        "clusterRef": {"name": "cluster-1"},
        "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "chart"}},
        "render": {"helm": {"values": {"number": "1"}}},
    });
    fleet.create_convoy("releases", "Release", "web", &spec).unwrap();
    await_revision(&fleet, 1);
    set_number(&fleet, "2");
    await_revision(&fleet, 2);

    std::fs::remove_dir_all(&root).unwrap();
    drop(fleet.remove("cm-0"));
    fleet.add(Part::ControllerManager, "cm-1").unwrap();
    let rollback =
        json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "ReleaseRollback", "revision": 1});
    let path = format!("{}/web/rollback", convoy_path("releases"));
    let answer = fleet.host.send("POST", &path, "application/json", &rollback).unwrap();
    assert!((200..300).contains(&answer.status), "{}", answer.text());
    fleet.await_number("cluster-1", "web", "1", PATIENCE).unwrap();

    // While the bucket is away, a change waits and says why; then it is rendered of what cm-0 had fetched.
    link.set(LinkMode::Refuse);
    set_number(&fleet, "3");
    let said = wait(PATIENCE, || {
        let release = release(&fleet);
        let ready =
            release["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == "Ready")?.clone();
        ready["message"].as_str()?.contains("cannot reach 127.0.0.1").then_some(ready)
    });
    let said = said.unwrap_or_else(|| panic!("{:#}", release(&fleet)["status"]));
    assert_eq!(said["reason"], "StoreFailed", "{said}");
    link.set(LinkMode::Good);
    fleet.await_number("cluster-1", "web", "3", PATIENCE).unwrap();
    let ready = wait(PATIENCE, || (condition(&release(&fleet), "Ready").0 == "True").then_some(()));
    assert!(ready.is_some(), "{:#}", release(&fleet)["status"]);

    for file in std::fs::read_dir(fleet.folder()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let log = std::fs::read_to_string(&path).unwrap();
            assert!(!log.contains(secret), "{} has the secret", path.display());
        }
    }
}
