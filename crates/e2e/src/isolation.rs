//! Releases in trouble beside Releases that are well: how long a change of one that is well takes to be live.
//!
//! In trouble are Releases whose objects never become healthy, Releases that do not render, one target that never answers,
//! and one that comes and goes. All of them are changed all the time, too.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use convoy_testkit::{FaultyLink, GitServer, LinkMode};
use serde_json::{Value, json};

use crate::dead::{Times, message, timed};
use crate::fleet::{Fleet, FleetOptions, NAMESPACE, Part, Timing, wait};
use crate::load::write_chart;

/// How often something that is in trouble is changed.
const TROUBLE: Duration = Duration::from_millis(100);
/// How often the target that comes and goes does so.
const FLAP: Duration = Duration::from_secs(3);

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The convoy program.
    pub convoy: PathBuf,
    /// An empty folder for everything.
    pub folder: PathBuf,
    /// Targets that are well.
    pub clusters: u16,
    /// All Releases: those in trouble, too.
    pub releases: usize,
    /// How many of them wait for health that never comes, on targets that are well.
    pub unhealthy: usize,
    /// How many of them do not render, in turn in each way.
    pub poisoned: usize,
    /// Whether there is one target more, which never answers. It has its share of the Releases.
    pub has_silent: bool,
    /// The same for one that comes and goes.
    pub has_flapping: bool,
    /// Changes of Releases that are well.
    pub changes: usize,
    /// How long anything may take before it counts as never.
    pub patience: Duration,
}

/// What a Release is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Well,
    Unhealthy,
    Poisoned,
    /// Well in itself, on a target that is not.
    Stranded,
}

#[derive(Debug, Clone)]
struct Subject {
    name: String,
    cluster: String,
    sort: Sort,
}

/// What a run found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// From changes of Releases that are well until their targets had them.
    pub times: Times,
    /// The controller-manager's memory before the changes and after them, in bytes.
    pub memory: [u64; 2],
    /// Changes of what is in trouble meanwhile.
    pub troubles: usize,
}

/// Runs it; `tell` is told how far it is.
///
/// # Errors
/// When something does not start, does not settle, or a change never arrives.
pub fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    let world = World::start(options)?;
    tell("all Releases are applied, wait in vain or do not render");
    let before = world.fleet.managers_memory();
    let done = AtomicBool::new(false);
    let (times, troubles) = std::thread::scope(|scope| {
        let troubles = scope.spawn(|| world.trouble(&done));
        let times = world.measure(options.changes);
        done.store(true, Ordering::SeqCst);
        let troubles = troubles.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the trouble broke down")));
        (times, troubles)
    });
    world.check_trouble()?;
    world.check_overtaking()?;
    Ok(Report { times: times?, memory: [before, world.fleet.managers_memory()], troubles: troubles? })
}

struct World {
    fleet: Fleet,
    flapping: Option<FaultyLink>,
    subjects: Vec<Subject>,
    patience: Duration,
}

impl World {
    fn start(options: &Options) -> anyhow::Result<Self> {
        let extra = u16::from(options.has_silent) + u16::from(options.has_flapping);
        let mut fleet = Fleet::start(FleetOptions {
            convoy: options.convoy.clone(),
            beside: None,
            folder: options.folder.clone(),
            clusters: options.clusters + extra,
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
        let names: Vec<String> = fleet.targets.iter().map(|target| target.name.clone()).collect();
        let (well, other) = names.split_at(usize::from(options.clusters));
        for name in well {
            fleet.create_cluster(name, name)?;
        }
        let mut links = Vec::new();
        for name in other {
            let link = fleet.create_linked_cluster(name)?;
            links.push(link);
        }
        if options.has_silent {
            // From the beginning: nothing was ever heard of it.
            links.first().context("there is no link")?.set(LinkMode::Hang);
        }
        let flapping = if options.has_flapping { links.pop() } else { None };
        let root = fleet.folder().join("git");
        write_charts(&root.join("apps"))?;
        let server = GitServer::start(&root).context("serving Git")?;
        let spec = json!({"url": server.url("apps"), "interval": "1h"});
        fleet.create_convoy("gitrepositories", "GitRepository", "apps", &spec)?;
        let mut subjects = Vec::new();
        let (mut unhealthy, mut poisoned) = (options.unhealthy, options.poisoned);
        for (number, target) in (0..options.releases).zip((0..names.len()).cycle()) {
            let (name, cluster) =
                (format!("app-{number:03}"), names.get(target).cloned().unwrap_or_default());
            let (sort, path) = if target >= well.len() {
                (Sort::Stranded, "chart")
            } else if unhealthy > 0 {
                // The first ones, so that they are everywhere.
                unhealthy -= 1;
                (Sort::Unhealthy, "unhealthy")
            } else if poisoned > 0 {
                poisoned -= 1;
                (Sort::Poisoned, POISONS.get(poisoned % POISONS.len()).map_or("chart", |(path, _)| path))
            } else {
                (Sort::Well, "chart")
            };
            let spec = json!({
                "clusterRef": {"name": cluster},
                "source": {"git": {"repositoryRef": {"name": "apps"}, "path": path}},
                "render": {"helm": {"values": {"number": "0"}}},
                "apply": {"timeout": "2h"},
            });
            fleet.create_convoy("releases", "Release", &name, &spec)?;
            subjects.push(Subject { name, cluster, sort });
        }
        let world = Self { fleet, flapping, subjects, patience: options.patience };
        let mut wrong = Vec::new();
        let settled = wait(options.patience * 5, || {
            wrong = world.unsettled().ok()?;
            wrong.is_empty().then_some(())
        });
        ensure!(settled.is_some(), "{} Releases are not as they should be: {:?}", wrong.len(), wrong.first());
        Ok(world)
    }

    /// Releases that do not say what they should.
    fn unsettled(&self) -> anyhow::Result<Vec<String>> {
        let all = self.fleet.list_convoy("releases")?;
        let mut wrong = Vec::new();
        for subject in &self.subjects {
            let release = all.iter().find(|release| release["metadata"]["name"] == subject.name.as_str());
            let (status, reason, text) = message(release.unwrap_or(&Value::Null), "Ready");
            let is_right = match subject.sort {
                Sort::Well => status == "True",
                Sort::Unhealthy => reason == "WaitingForHealth",
                Sort::Poisoned => status == "False" && text.len() > 1 && reason != "DependencyNotReady",
                Sort::Stranded => true,
            };
            if !is_right {
                wrong.push(format!("{} ({:?}) says {status}, {reason}: {text}", subject.name, subject.sort));
            }
        }
        Ok(wrong)
    }

    /// Changes what is in trouble, one after the other, until the measurement is done.
    fn trouble(&self, done: &AtomicBool) -> anyhow::Result<usize> {
        let others: Vec<&Subject> =
            self.subjects.iter().filter(|subject| subject.sort != Sort::Well).collect();
        let (mut count, mut flapped, mut is_good) = (0, Instant::now(), true);
        while !done.load(Ordering::SeqCst) {
            if let Some(link) = self.flapping.as_ref().filter(|_| flapped.elapsed() >= FLAP) {
                is_good = !is_good;
                link.set(if is_good { LinkMode::Good } else { LinkMode::Refuse });
                flapped = Instant::now();
            }
            if let Some(subject) = others.get(count % others.len().max(1)) {
                self.patch(&subject.name, &format!("trouble-{count}"))?;
            }
            count += 1;
            std::thread::park_timeout(TROUBLE);
        }
        Ok(count)
    }

    fn measure(&self, changes: usize) -> anyhow::Result<Times> {
        let well: Vec<&Subject> = self.subjects.iter().filter(|subject| subject.sort == Sort::Well).collect();
        timed((1..=changes).zip(well.iter().cycle()), |(number, subject)| {
            let (began, wanted) = (Instant::now(), number.to_string());
            self.patch(&subject.name, &wanted)?;
            self.fleet.await_number(&subject.cluster, &subject.name, &wanted, self.patience)?;
            Ok(began.elapsed())
        })
    }

    fn patch(&self, release: &str, number: &str) -> anyhow::Result<()> {
        self.fleet.patch_release(release, &json!({"render": {"helm": {"values": {"number": number}}}}))
    }

    /// A newer revision does not wait for the health of the one before.
    fn check_overtaking(&self) -> anyhow::Result<()> {
        for subject in self.subjects.iter().filter(|subject| subject.sort == Sort::Unhealthy) {
            self.patch(&subject.name, "last")?;
            let target = self.fleet.targets.iter().find(|target| target.name == subject.cluster);
            let target = target.context("no such target")?;
            let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{}", subject.name);
            let there = wait(self.patience, || {
                let deployment = target.client.get(&path).ok()?.json();
                (deployment.pointer(NUMBER)?.as_str()? == "last").then_some(())
            });
            there.with_context(|| format!("the last change of {} waits for the one before", subject.name))?;
        }
        Ok(())
    }

    /// What was in trouble still is: else nothing was measured.
    fn check_trouble(&self) -> anyhow::Result<()> {
        let all = self.fleet.list_convoy("releases")?;
        for subject in self.subjects.iter().filter(|it| [Sort::Unhealthy, Sort::Poisoned].contains(&it.sort))
        {
            let release = all.iter().find(|release| release["metadata"]["name"] == subject.name.as_str());
            let (status, _, text) = message(release.unwrap_or(&Value::Null), "Ready");
            ensure!(status != "True", "{} was to be in trouble, but is Ready: {text}", subject.name);
        }
        Ok(())
    }
}

/// Where a Deployment of the unhealthy has the number.
const NUMBER: &str = "/spec/template/metadata/annotations/number";

/// Charts that do not render: each at the end of another limit, or not at all.
const POISONS: &[(&str, &str)] = &[
    // Steps.
    ("endless", "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}"),
    // Output.
    ("huge", "{{ range until 100000 }}{{ repeat 100000 \"x\" }}{{ end }}"),
    // Depth.
    ("deep", "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}"),
    // A mistake.
    ("broken", "{{ fail \"no\" }}"),
];

fn write_charts(repository: &Path) -> anyhow::Result<()> {
    for (name, template) in POISONS {
        write(repository, name, &format!("{template}\n# {{{{ .Values.number }}}}\n"))?;
    }
    let unhealthy = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\n  annotations: \
                     {sandbox.convoy.kumodo.io/ready-after-seconds: \"1000000\"}\nspec:\n  selector: {matchLabels: \
                     {app: {{ .Release.Name }}}}\n  template:\n    metadata: {labels: {app: {{ .Release.Name }}}, \
                     annotations: {number: {{ .Values.number | quote }}}}\n    spec: {containers: [{name: c, image: \
                     registry.example.com/c}]}\n";
    write(repository, "unhealthy", unhealthy)?;
    // It also makes the repository and its first commit.
    write_chart(repository)
}

fn write(repository: &Path, name: &str, template: &str) -> anyhow::Result<()> {
    let chart = repository.join(name);
    std::fs::create_dir_all(chart.join("templates"))?;
    std::fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n"))?;
    Ok(std::fs::write(chart.join("templates/all.yaml"), template)?)
}
