//! A load of changing Releases whose every change can be told on the targets: each has a number of its
//! own in `spec`, and a number of the commit in Git, and both land in a ConfigMap.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use convoy_testkit::{GitServer, HttpsClient};
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE, condition, convoy_path, wait};

const REPOSITORY: &str = "apps";

/// What a Release should have brought to its target by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The Release, and its ConfigMap.
    pub release: String,
    /// The cluster.
    pub cluster: String,
    /// The number in its `spec`.
    pub number: u64,
    /// The number in Git.
    pub commit: u64,
}

#[derive(Debug)]
struct Shared {
    expected: Mutex<Vec<Expected>>,
    stop: AtomicBool,
    pause: AtomicBool,
    is_idle: AtomicBool,
    changes: AtomicU64,
    errors: Mutex<Vec<String>>,
}

/// How fast things change.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Between two changes of a spec.
    pub pause: Duration,
    /// How many such changes there are for each commit, which changes all Releases.
    pub changes_for_a_commit: u64,
    /// `spec.interval` of the GitRepository, in seconds.
    pub git_interval: u64,
}

/// The running load.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Creates the repository, a GitRepository and the Releases, and starts to change them.
    ///
    /// # Errors
    /// When Git or the API server refuses, or this machine has only a loopback address.
    pub fn start(fleet: &Fleet, releases: usize, pace: Pace) -> anyhow::Result<Self> {
        let root = fleet.folder().join("git");
        let repository = root.join(REPOSITORY);
        write_chart(&repository)?;
        let server = GitServer::start(&root).context("serving Git")?;
        let spec = json!({"url": server.url(REPOSITORY), "interval": format!("{}s", pace.git_interval)});
        fleet.create_convoy("gitrepositories", "GitRepository", "apps", &spec)?;
        let mut expected = Vec::new();
        for (number, target) in (0..releases).zip(fleet.targets.iter().cycle()) {
            let release = format!("app-{number:02}");
            let spec = json!({
                "clusterRef": {"name": target.name},
                "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "chart"}},
                "render": {"helm": {"values": {"number": "0"}}},
            });
            fleet.create_convoy("releases", "Release", &release, &spec)?;
            expected.push(Expected { release, cluster: target.name.clone(), number: 0, commit: 0 });
        }
        let shared = Arc::new(Shared {
            expected: Mutex::new(expected),
            stop: AtomicBool::new(false),
            pause: AtomicBool::new(false),
            is_idle: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            errors: Mutex::new(Vec::new()),
        });
        let (running, host) = (Arc::clone(&shared), fleet.host.clone());
        let thread = std::thread::spawn(move || running.change(&host, &repository, pace));
        Ok(Self { shared, thread: Some(thread) })
    }

    /// How many changes were made.
    pub fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::SeqCst)
    }

    /// Stops changing, and answers once the last change is made.
    ///
    /// # Errors
    /// When a change was refused, or does not end.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.shared.pause.store(true, Ordering::SeqCst);
        let idle = wait(Duration::from_secs(60), || self.shared.is_idle.load(Ordering::SeqCst).then_some(()));
        idle.context("the load does not pause")?;
        let errors = std::mem::take(&mut *lock(&self.shared.errors));
        ensure!(errors.is_empty(), "changes were refused: {}", errors.join("; "));
        Ok(())
    }

    /// Goes on.
    pub fn resume(&self) {
        self.shared.pause.store(false, Ordering::SeqCst);
    }

    /// The Releases that are not Ready at their last revision on their target, with what is wrong.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn late(&self, fleet: &Fleet) -> anyhow::Result<Vec<String>> {
        let expected = lock(&self.shared.expected).clone();
        let releases = fleet.list_convoy("releases")?;
        let mut maps = Vec::new();
        for target in &fleet.targets {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
            maps.push((target.name.clone(), target.client.get(&path)?.json()["items"].take()));
        }
        Ok(late(&expected, &releases, &maps))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Compares what should be with the Releases and with the ConfigMaps of each cluster.
fn late(expected: &[Expected], releases: &[Value], maps: &[(String, Value)]) -> Vec<String> {
    let mut found = Vec::new();
    for Expected { release: name, cluster, number, commit } in expected {
        let mut wrong = Vec::new();
        let object = releases.iter().find(|release| release["metadata"]["name"] == name.as_str());
        match object {
            None => wrong.push("is gone".to_owned()),
            Some(release) => {
                let (status, reason) = condition(release, "Ready");
                if status != "True" {
                    wrong.push(format!("is Ready={status} ({reason})"));
                }
                let (observed, generation) =
                    (&release["status"]["observedGeneration"], &release["metadata"]["generation"]);
                if observed != generation {
                    wrong.push(format!("was observed at generation {observed}, is at {generation}"));
                }
            }
        }
        let items = maps.iter().find(|(name, _)| name == cluster).and_then(|(_, items)| items.as_array());
        let map = items.into_iter().flatten().find(|map| map["metadata"]["name"] == name.as_str());
        match map {
            None => wrong.push(format!("has no ConfigMap on {cluster}")),
            Some(map) => {
                let want = json!({"number": number.to_string(), "commit": commit.to_string()});
                if map["data"] != want {
                    wrong.push(format!("has {} on {cluster} instead of {want}", map["data"]));
                }
            }
        }
        if !wrong.is_empty() {
            found.push(format!("{name} {}", wrong.join(", ")));
        }
    }
    found
}

impl Shared {
    fn change(&self, host: &HttpsClient, repository: &Path, pace: Pace) {
        let (mut turn, mut commit) = (0_usize, 0_u64);
        while !self.stop.load(Ordering::SeqCst) {
            if self.pause.load(Ordering::SeqCst) {
                self.is_idle.store(true, Ordering::SeqCst);
                std::thread::park_timeout(Duration::from_millis(20));
                continue;
            }
            self.is_idle.store(false, Ordering::SeqCst);
            let changes = self.changes.fetch_add(1, Ordering::SeqCst) + 1;
            let outcome = if changes.is_multiple_of(pace.changes_for_a_commit) {
                commit += 1;
                self.commit(repository, commit)
            } else {
                // A stride that has no factor in common with most counts: neighbours are of other clusters.
                turn = turn.wrapping_add(7);
                self.patch(host, turn)
            };
            if let Err(error) = outcome {
                lock(&self.errors).push(format!("{error:#}"));
            }
            std::thread::park_timeout(pace.pause);
        }
        self.is_idle.store(true, Ordering::SeqCst);
    }

    fn patch(&self, host: &HttpsClient, turn: usize) -> anyhow::Result<()> {
        let (name, number) = {
            let expected = lock(&self.expected);
            let next = expected.get(turn % expected.len().max(1)).context("there are no Releases")?;
            (next.release.clone(), next.number + 1)
        };
        let patch = json!({"spec": {"render": {"helm": {"values": {"number": number.to_string()}}}}});
        let path = format!("{}/{name}", convoy_path("releases"));
        let answer = host.send("PATCH", &path, "application/merge-patch+json", &patch)?;
        ensure!(answer.status == 200, "changing {name}: {} {}", answer.status, answer.text());
        let mut expected = lock(&self.expected);
        if let Some(next) = expected.iter_mut().find(|next| next.release == name) {
            next.number = number;
        }
        Ok(())
    }

    fn commit(&self, repository: &Path, commit: u64) -> anyhow::Result<()> {
        write_values(repository, commit)?;
        git(repository, &["commit", "--quiet", "--all", "-m", &format!("change {commit}")])?;
        lock(&self.expected).iter_mut().for_each(|next| next.commit = commit);
        Ok(())
    }
}

/// Makes a Git repository with the chart of the load, whose one ConfigMap has the Release's name.
///
/// # Errors
/// When Git fails.
pub fn write_chart(repository: &Path) -> anyhow::Result<()> {
    let chart = repository.join("chart");
    std::fs::create_dir_all(chart.join("templates"))?;
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: app\nversion: 0.1.0\n")?;
    std::fs::write(
        chart.join("templates/map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  \
         number: {{ .Values.number | quote }}\n  commit: {{ .Values.commit | quote }}\n",
    )?;
    write_values(repository, 0)?;
    git(repository, &["init", "--quiet", "--initial-branch=main", "."])?;
    git(repository, &["add", "--all"])?;
    git(repository, &["commit", "--quiet", "-m", "first"])
}

fn write_values(repository: &Path, commit: u64) -> anyhow::Result<()> {
    Ok(std::fs::write(
        repository.join("chart/values.yaml"),
        format!("commit: \"{commit}\"\nnumber: \"0\"\n"),
    )?)
}

fn git(repository: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "gc.auto=0"])
        .args(arguments)
        .current_dir(repository)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .context("running git")?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> (Vec<Expected>, Value, Value) {
        let expected = vec![Expected { release: "a".into(), cluster: "c".into(), number: 7, commit: 2 }];
        let release = json!({"metadata": {"name": "a", "generation": 3},
            "status": {"observedGeneration": 3, "conditions": [{"type": "Ready", "status": "True"}]}});
        let map = json!({"metadata": {"name": "a"}, "data": {"number": "7", "commit": "2"}});
        (expected, release, map)
    }

    #[test]
    fn i11_what_is_as_it_should_be_is_not_late() {
        let (expected, release, map) = world();
        assert_eq!(late(&expected, &[release], &[("c".to_owned(), json!([map]))]), Vec::<String>::new());
    }

    #[test]
    fn i11_each_way_to_be_late_is_found() {
        let (expected, release, map) = world();
        let said = |change: &dyn Fn(&mut Value, &mut Value)| {
            let (mut release, mut map) = (release.clone(), map.clone());
            change(&mut release, &mut map);
            late(&expected, &[release], &[("c".to_owned(), json!([map]))]).join("\n")
        };
        assert!(said(&|release, _| release["metadata"]["name"] = json!("b")).contains("is gone"));
        assert!(said(&|_, map| map["metadata"]["name"] = json!("b")).contains("no ConfigMap on c"));
        assert!(said(&|_, map| map["data"]["number"] = json!("6")).contains("instead of"));
        assert!(said(&|_, map| map["data"]["commit"] = json!("1")).contains("instead of"));
        assert!(
            said(&|release, _| release["metadata"]["generation"] = json!(4))
                .contains("generation 3, is at 4")
        );
        let failed = json!([{"type": "Ready", "status": "False", "reason": "Failed"}]);
        assert!(
            said(&|release, _| release["status"]["conditions"] = failed.clone())
                .contains("Ready=False (Failed)")
        );
        assert_eq!(late(&expected, &[], &[]).len(), 1);
    }
}
