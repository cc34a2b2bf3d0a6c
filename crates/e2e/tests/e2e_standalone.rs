//! `convoy standalone`: what is refused at start, and what a kill -9 costs.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use std::collections::HashSet;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use convoy_e2e::{Convoy, Kubectl, PATIENCE, run};
use convoy_testkit::{leave_out, program};

/// Rounds of kill -9; `CONVOY_CRASH_ROUNDS=200` for the long form.
const ROUNDS: usize = 5;
/// Objects after which a round deletes them all.
const MANY: usize = 600;

fn kubectl_program() -> Option<PathBuf> {
    program("kubectl").inspect_err(|missing| leave_out(missing)).ok()
}

fn start(folder: &Path) -> Convoy {
    Convoy::standalone(folder, &[]).unwrap()
}

/// One line on standard error, and the exit code.
fn refusal(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text
}

#[test]
fn a_second_process_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path());
    let text = refusal(
        &["standalone", "--data-dir", folder.path().to_str().unwrap(), "--port", "0", "--log", "off"],
        1,
    );
    assert!(text.contains("is in use by another process"), "{text}");
    drop(first);
}

#[test]
fn a_port_in_use_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let text = refusal(
        &["standalone", "--data-dir", folder.path().to_str().unwrap(), "--port", &port, "--log", "off"],
        1,
    );
    assert!(text.contains(&port) && text.contains("--port"), "{text}");
}

#[test]
fn a_folder_that_is_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file_name = file.to_str().unwrap();
    let text = refusal(&["standalone", "--data-dir", file_name, "--port", "0", "--log", "off"], 2);
    assert!(text.contains("--data-dir") && text.contains(file_name), "{text}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0, "the file was touched");
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    let Some(kubectl) = kubectl_program() else { return };
    let rounds =
        std::env::var("CONVOY_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("admin.kubeconfig");
    let (mut acknowledged, mut deleted) = (Vec::<String>::new(), Vec::<String>::new());
    let mut written_in_all = 0;
    for round in 0..rounds {
        let convoy = start(folder.path());
        let kubectl = Kubectl::new(&kubectl, &kubeconfig);
        let there = kubectl.ok(&["get", "configmaps", "-n", "default", "-o", "name"]);
        let there: HashSet<&str> = there.lines().collect();
        for name in &acknowledged {
            assert!(there.contains(name.as_str()), "round {round}: {name} was acknowledged and is gone");
        }
        // What was deleted stays deleted; and lists stay short, so that many rounds do not get slower.
        for name in &deleted {
            assert!(!there.contains(name.as_str()), "round {round}: {name} was deleted and is there again");
        }
        deleted.clear();
        if there.len() > MANY {
            kubectl.ok(&["delete", "configmaps", "--all", "-n", "default", "--wait=false"]);
            written_in_all += acknowledged.len();
            deleted.append(&mut acknowledged);
        }
        // Writers go on until the server is gone; each kubectl run writes a list of objects one by one.
        let stop = AtomicBool::new(false);
        let mut written = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let (kubectl, stop) = (&kubectl, &stop);
                    scope.spawn(move || write_until(kubectl, stop, round, writer))
                })
                .collect();
            // The kill falls at another point of the writes in each round.
            let began = std::time::Instant::now();
            let kill_after = std::time::Duration::from_millis(300 + (round as u64 * 97) % 700);
            while began.elapsed() < kill_after {
                std::thread::yield_now();
            }
            convoy.kill();
            stop.store(true, Ordering::Relaxed);
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        acknowledged.append(&mut written);
    }
    written_in_all += acknowledged.len();
    assert!(written_in_all >= rounds, "only {written_in_all} writes in {rounds} rounds");
    println!("{rounds} rounds of kill -9, {written_in_all} acknowledged objects, all there");
}

fn write_until(kubectl: &Kubectl, stop: &AtomicBool, round: usize, writer: usize) -> Vec<String> {
    let mut written = Vec::new();
    let began = std::time::Instant::now();
    for batch in 0.. {
        if stop.load(Ordering::Relaxed) || began.elapsed() > PATIENCE {
            break;
        }
        let objects: String = (0..20)
            .map(|index| {
                format!(
                    "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c-{round}-{writer}-{batch}-{index}, namespace: default}}\n"
                )
            })
            .collect();
        let output = kubectl.command(&["create", "--validate=false", "-o", "name", "-f", "-"], &objects);
        written.extend(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned));
    }
    written
}
