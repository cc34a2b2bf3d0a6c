//! Targets that stop to answer, beside targets that go on: what the Releases of the others notice, what
//! those of the dead say, and how their deletion ends.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use convoy_testkit::{FaultyLink, GitServer, LinkMode};
use serde_json::{Value, json};

use crate::fleet::{Fleet, FleetOptions, Part, Timing, convoy_path, wait};
use crate::load::write_chart;

/// How many changes are under way at a time.
const AT_A_TIME: usize = 4;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The convoy program.
    pub convoy: PathBuf,
    /// An empty folder for everything.
    pub folder: PathBuf,
    /// Targets that live.
    pub clusters: u16,
    /// Targets that die, in turns in each way.
    pub dead: u16,
    /// Releases, spread over all.
    pub releases: usize,
    /// Changes of Releases of living targets that each measurement takes.
    pub changes: usize,
    /// How long the dead are there at least.
    pub hold: Duration,
    /// How long anything may take before it counts as never.
    pub patience: Duration,
}

/// From changes of Releases until their targets had them.
#[derive(Debug, Clone, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Of these times.
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The time that this share (0 to 100) of the changes took at most.
    pub fn percentile(&self, percent: usize) -> Duration {
        let index = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(index).copied().unwrap_or_default()
    }

    /// How many changes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a run found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// While all targets answered.
    pub before: Times,
    /// While some were dead.
    pub with_dead: Times,
    /// After the dead were deleted.
    pub after: Times,
    /// The controller-manager's memory at the ends of these, in bytes.
    pub memory: [u64; 3],
    /// What did not hold, beside the times.
    pub violations: Vec<String>,
}

struct World {
    fleet: Fleet,
    links: Vec<FaultyLink>,
    /// Of each Release its name, target and whether that dies.
    releases: Vec<(String, String, bool)>,
    patience: Duration,
}

/// Runs it; `tell` is told how far it is.
///
/// # Errors
/// When something does not start or does not settle; what has to hold with the dead is in the report.
pub fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    let world = World::start(options)?;
    tell("all Releases are applied");
    let mut report = Report::default();
    let mut number = 0;
    report.before = world.measure(options.changes, &mut number)?;
    report.memory[0] = world.fleet.managers_memory();
    tell(&format!("before: {}", show(&report.before)));

    world.die();
    let began = Instant::now();
    let mut times = Vec::new();
    loop {
        times.extend(world.measure(options.changes, &mut number)?.0);
        if began.elapsed() >= options.hold {
            break;
        }
    }
    report.with_dead = Times::of(times);
    report.memory[1] = world.fleet.managers_memory();
    tell(&format!("with {} dead: {}", options.dead, show(&report.with_dead)));
    world.check_the_dead(&mut report.violations)?;
    tell("the dead are looked at");
    world.check_return(&mut report.violations)?;
    tell("one is back");
    world.check_deletion(&mut report.violations)?;
    tell("the dead are deleted");
    report.after = world.measure(options.changes, &mut number)?;
    report.memory[2] = world.fleet.managers_memory();
    Ok(report)
}

/// Times in words.
pub fn show(times: &Times) -> String {
    let at = |percent| times.percentile(percent).as_secs_f64();
    format!("{} changes, p50 {:.2} s, p99 {:.2} s, worst {:.2} s", times.len(), at(50), at(99), at(100))
}

/// Makes changes, a few at a time, each of which answers with how long it took.
pub(crate) fn timed<T: Send>(
    todo: impl Iterator<Item = T> + Send,
    change: impl Fn(T) -> anyhow::Result<Duration> + Sync,
) -> anyhow::Result<Times> {
    let (todo, times) = (Mutex::new(todo), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let measuring: Vec<_> = (0..AT_A_TIME)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let next = lock(&todo).next();
                        let Some(next) = next else { return Ok(()) };
                        let time = change(next)?;
                        lock(&times).push(time);
                    }
                })
            })
            .collect();
        measuring
            .into_iter()
            .try_for_each(|part| part.join().unwrap_or_else(|_| Err(anyhow::anyhow!("measuring broke down"))))
    })?;
    Ok(Times::of(std::mem::take(&mut *lock(&times))))
}

impl World {
    fn start(options: &Options) -> anyhow::Result<Self> {
        let mut fleet = Fleet::start(FleetOptions {
            convoy: options.convoy.clone(),
            beside: None,
            folder: options.folder.clone(),
            clusters: options.clusters + options.dead,
            // Long enough that a loaded machine loses no lease, which is not what is measured here.
            timing: Timing {
                duration: Duration::from_secs(45),
                interval: Duration::from_secs(3),
                observe: None,
            },
            flags: Vec::new(),
        })?;
        fleet.add(Part::ControllerManager, "cm-0")?;
        fleet.add(Part::Observer, "obs-0")?;
        let mut links = Vec::new();
        let names: Vec<String> = fleet.targets.iter().map(|target| target.name.clone()).collect();
        for (index, name) in names.iter().enumerate() {
            if index < usize::from(options.clusters) {
                fleet.create_cluster(name, name)?;
                continue;
            }
            // Through a link that goes bad later.
            let link = fleet.create_linked_cluster(name)?;
            links.push(link);
        }
        let root = fleet.folder().join("git");
        write_chart(&root.join("apps"))?;
        let server = GitServer::start(&root).context("serving Git")?;
        let spec = json!({"url": server.url("apps"), "interval": "1h"});
        fleet.create_convoy("gitrepositories", "GitRepository", "apps", &spec)?;
        let mut releases = Vec::new();
        for (number, target) in (0..options.releases).zip((0..names.len()).cycle()) {
            let name = format!("app-{number:03}");
            let cluster = names.get(target).context("there are no targets")?.clone();
            let spec = json!({
                "clusterRef": {"name": cluster},
                "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "chart"}},
                "render": {"helm": {"values": {"number": "0"}}},
            });
            fleet.create_convoy("releases", "Release", &name, &spec)?;
            releases.push((name, cluster, target >= usize::from(options.clusters)));
        }
        let world = Self { fleet, links, releases, patience: options.patience };
        let mut waiting = 0;
        let applied = wait(options.patience * 5, || {
            let all = world.fleet.list_convoy("releases").ok()?;
            waiting = all.iter().filter(|release| message(release, "Ready").0 != "True").count();
            (waiting == 0).then_some(())
        });
        ensure!(applied.is_some(), "{waiting} Releases are not Ready");
        Ok(world)
    }

    /// Changes Releases of living targets, a few at a time, and waits for each change on the target.
    fn measure(&self, changes: usize, number: &mut u64) -> anyhow::Result<Times> {
        let living: Vec<&(String, String, bool)> =
            self.releases.iter().filter(|release| !release.2).collect();
        let first = *number + 1;
        *number += u64::try_from(changes)?;
        let todo = (first..=*number).zip(living.iter().cycle());
        timed(todo, |(number, (release, cluster, _))| self.change(release, cluster, number))
    }

    fn change(&self, release: &str, cluster: &str, number: u64) -> anyhow::Result<Duration> {
        let wanted = number.to_string();
        self.fleet.patch_release(release, &json!({"render": {"helm": {"values": {"number": wanted}}}}))?;
        let began = Instant::now();
        self.fleet.await_number(cluster, release, &wanted, self.patience)?;
        Ok(began.elapsed())
    }

    fn delete(&self, plural: &str, name: &str) -> anyhow::Result<()> {
        let path = format!("{}/{name}", convoy_path(plural));
        let answer = self.fleet.host.request("DELETE", &path, &[("Accept", "application/json")], b"")?;
        ensure!(answer.status < 300, "deleting {name}: {} {}", answer.status, answer.text());
        Ok(())
    }

    fn get(&self, plural: &str, name: &str) -> Option<Value> {
        let answer = self.fleet.host.get(&format!("{}/{name}", convoy_path(plural))).ok()?;
        (answer.status == 200).then(|| answer.json())
    }

    /// All links go bad, and all Releases behind them have something to do.
    fn die(&self) {
        for (link, mode) in self.links.iter().zip(LinkMode::BAD.iter().cycle()) {
            link.set(*mode);
        }
        for (release, _, _) in self.releases.iter().filter(|release| release.2) {
            // One that is refused has nothing to do, which harms no measurement.
            let _ = self
                .fleet
                .patch_release(release, &json!({"render": {"helm": {"values": {"number": "dead"}}}}));
        }
    }

    fn dead_clusters(&self) -> Vec<&str> {
        let names = self.fleet.targets.iter().map(|target| target.name.as_str());
        names.skip(self.fleet.targets.len() - self.links.len()).collect()
    }

    /// Waits for something, and takes note when it does not come.
    fn expect<T>(
        &self,
        violations: &mut Vec<String>,
        mut what: impl FnMut() -> Result<T, String>,
    ) -> Option<T> {
        let mut last = String::new();
        let found = wait(self.patience, || what().map_err(|why| last = why).ok());
        if found.is_none() {
            violations.push(last);
        }
        found
    }

    fn check_the_dead(&self, violations: &mut Vec<String>) -> anyhow::Result<()> {
        for cluster in self.dead_clusters() {
            self.expect(violations, || self.says("clusters", cluster, "", ""));
        }
        for (release, _, _) in self.releases.iter().filter(|release| release.2) {
            self.expect(violations, || self.says("releases", release, "no contact since 2", ""));
        }
        let managers = self.fleet.of(Part::ControllerManager);
        let manager = managers.first().context("there is no controller-manager")?;
        let open = manager.metric("convoy_clusters_not_asked");
        let dead = self.links.len();
        if open != u32::try_from(dead).ok().map(f64::from) {
            violations.push(format!("convoy_clusters_not_asked is {open:?} with {dead} dead targets"));
        }
        Ok(())
    }

    /// Whether an object says `ClusterUnreachable`, with these words.
    fn says(&self, plural: &str, name: &str, words: &str, more: &str) -> Result<(), String> {
        let object =
            self.get(plural, name).ok_or_else(|| format!("there is no {name} among the {plural}"))?;
        let (status, reason, text) = message(&object, "Ready");
        let is_said = status == "False" && reason == "ClusterUnreachable";
        if is_said && text.contains(words) && text.contains(more) {
            return Ok(());
        }
        Err(format!("{name} says Ready={status} ({reason}): {text}"))
    }

    /// The first of the dead answers again, and its Releases get there by themselves.
    fn check_return(&self, violations: &mut Vec<String>) -> anyhow::Result<()> {
        let link = self.links.first().context("there are no dead")?;
        link.set(LinkMode::Good);
        let back = self.dead_clusters().first().map(|name| (*name).to_owned()).unwrap_or_default();
        for (release, _, _) in self.releases.iter().filter(|release| release.1 == back) {
            self.expect(violations, || {
                let object = self.get("releases", release).unwrap_or_default();
                let (status, reason, text) = message(&object, "Ready");
                let is_current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
                let is_ready = status == "True" && is_current;
                is_ready.then_some(()).ok_or(format!("{release} is not back: {status} ({reason}) {text}"))
            });
        }
        Ok(())
    }

    /// The deletion of Releases of dead targets ends by Orphan, or by deleting the Cluster.
    fn check_deletion(&self, violations: &mut Vec<String>) -> anyhow::Result<()> {
        let dead: Vec<String> = self.dead_clusters().into_iter().skip(1).map(str::to_owned).collect();
        let of = |cluster: &str| -> Vec<String> {
            let all = self.releases.iter().filter(|release| release.1 == cluster);
            all.map(|release| release.0.clone()).collect()
        };
        for (index, cluster) in dead.iter().enumerate() {
            let is_orphaned = index % 2 == 0;
            for release in of(cluster) {
                if is_orphaned {
                    self.fleet.patch_release(&release, &json!({"apply": {"deletionPolicy": "Orphan"}}))?;
                }
                self.delete("releases", &release)?;
            }
            if !is_orphaned {
                for release in of(cluster) {
                    let words =
                        "let go of them: set spec.apply.deletionPolicy to Orphan, or delete the Cluster";
                    self.expect(violations, || self.says("releases", &release, words, cluster));
                }
                self.delete("clusters", cluster)?;
            }
            for release in of(cluster) {
                self.expect(violations, || match self.get("releases", &release) {
                    None => Ok(()),
                    Some(object) => Err(format!("{release} does not go: {:?}", message(&object, "Ready"))),
                });
            }
        }
        let left = self.fleet.list_convoy("releaseinventories")?;
        let of_dead = |inventory: &&Value| {
            dead.iter().any(|name| inventory["spec"]["clusterRef"]["name"] == name.as_str())
        };
        let left = left.iter().filter(of_dead).count();
        if left > 0 {
            violations.push(format!("{left} inventories of dead targets are left"));
        }
        Ok(())
    }
}

/// The status, reason and message of a condition.
pub(crate) fn message(object: &Value, type_: &str) -> (String, String, String) {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let condition = conditions.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null);
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
