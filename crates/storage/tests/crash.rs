//! A process that writes is killed at any moment; the next one finds every acknowledged write.
//!
//! `CONVOY_CRASH_ROUNDS` sets the number of rounds (20).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "the test starts itself as the victim")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use convoy_storage::embedded::{EmbeddedOptions, EmbeddedStorage};
use convoy_storage::{HistoryLimits, Storage};

const FOLDER: &str = "CONVOY_CRASH_FOLDER";
const WRITERS: usize = 8;
const KEYS: usize = 6;

fn open(folder: &Path) -> EmbeddedStorage {
    // Little history, so that compaction is under way at every moment, too.
    let history = HistoryLimits { events: 200, bytes: 1 << 20 };
    let options = EmbeddedOptions { history, ..EmbeddedOptions::default() };
    EmbeddedStorage::open(&folder.join("store"), options).unwrap()
}

fn say(line: &str) {
    // One write per line: lines of several threads do not mix.
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Writes until it is killed. Says what it is about to do (`?`), and that it is done (`!`).
#[test]
fn victim() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let storage: Arc<dyn Storage> = Arc::new(open(Path::new(&folder)));
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let storage = Arc::clone(&storage);
            tasks.spawn(async move {
                for round in 0.. {
                    let key = format!("/w{writer}/k{}", round % KEYS);
                    let found = storage.get(&key).await.unwrap().found;
                    let value = format!("{round}-{}", "x".repeat(round * 37 % 3000));
                    let revision = match found {
                        Some(found) if round % 5 == 0 => {
                            say(&format!("? {key} -\n"));
                            let revision = storage.delete(&key, found.revision).await.unwrap().revision;
                            say(&format!("! {key} - {revision}\n"));
                            continue;
                        }
                        Some(found) => {
                            say(&format!("? {key} {value}\n"));
                            storage.update(&key, found.revision, Bytes::from(value.clone())).await.unwrap()
                        }
                        None => {
                            say(&format!("? {key} {value}\n"));
                            storage.create(&key, Bytes::from(value.clone())).await.unwrap()
                        }
                    };
                    say(&format!("! {key} {value} {revision}\n"));
                }
            });
        }
        tasks.join_next().await;
    });
}

/// What may be at a key: what was acknowledged last, and what was being written.
#[derive(Default, Clone)]
struct Expected {
    acknowledged: Option<String>,
    pending: Option<Option<String>>,
}

#[test]
fn every_acknowledged_write_survives_kill_9() {
    let rounds: usize = std::env::var("CONVOY_CRASH_ROUNDS").map_or(20, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut expected: BTreeMap<String, Expected> = BTreeMap::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut last_revision = 0;
    for round in 0..rounds {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        // After a number of lines that differs from round to round, in the middle of whatever happens.
        let wanted = 40 + (round * 7919) % 1500;
        let mut read: Vec<String> = lines.by_ref().take(wanted).map(Result::unwrap).collect();
        victim.kill().unwrap();
        victim.wait().unwrap();
        read.extend(lines.map_while(Result::ok));

        let mut acknowledged = 0;
        for line in &read {
            // The test harness writes its own words around the first line.
            let Some(at) = line.find("? /").or_else(|| line.find("! /")) else { continue };
            let mut words = line[at..].split(' ');
            let (Some(kind), Some(key), Some(value)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let value = (value != "-").then(|| value.to_owned());
            let state = expected.entry(key.to_owned()).or_default();
            if kind == "?" {
                state.pending = Some(value);
            } else if let Some(revision) = words.next().and_then(|word| word.parse::<u64>().ok()) {
                *state = Expected { acknowledged: value, pending: None };
                last_revision = last_revision.max(revision);
                acknowledged += 1;
            }
        }
        assert!(acknowledged > 0, "round {round}: the victim wrote nothing: {read:?}");

        let storage = open(folder.path());
        runtime.block_on(async {
            for (key, state) in &mut expected {
                let found = storage.get(key).await.unwrap().found;
                let found = found.map(|found| String::from_utf8(found.value.to_vec()).unwrap());
                let as_acknowledged = found == state.acknowledged;
                let as_pending = state.pending.as_ref() == Some(&found);
                assert!(as_acknowledged || as_pending, "round {round}: {key} lost its last write");
                *state = Expected { acknowledged: found, pending: None };
            }
            let revision = storage.revision().await.unwrap();
            assert!(revision >= last_revision, "round {round}: revision {revision} before {last_revision}");
            // The history is whole, and leads from its start to what is there now.
            let oldest = storage.oldest().await.unwrap();
            let mut watch = storage.watch("/", oldest).await.unwrap();
            let mut next = oldest + 1;
            while next <= revision {
                for event in watch.next().await.unwrap().events {
                    assert_eq!(event.revision, next, "round {round}");
                    next += 1;
                }
            }
        });
    }
}
