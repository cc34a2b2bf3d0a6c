//! `convoy demo`: the whole way of a release, on three simulated clusters, in a minute.
//!
//! The demo takes no short cut: it starts what `convoy standalone` starts, makes a real Git repository,
//! creates the objects that a user would, and then only watches. It changes the repository and a
//! target, and shows what convoy does about it.

mod examples;
mod fleet;
mod progress;
mod repository;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use convoy_runtime::{Clock, Shutdown};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use self::progress::Progress;
use self::repository::Repository;
use self::watch::{Expected, Seen};
use crate::arguments;
use crate::bad_flag::BadFlag;
use crate::standalone::{self, Standalone};
use crate::terminal::{Cell, Colour, Display, Table};

/// How long any one part of the demo may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the demo until it is over or, without `--exit`, until Ctrl-C.
pub(crate) async fn run(
    demo: &arguments::Demo,
    clock: Arc<dyn Clock>,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    let display = Display::detect();
    let folder = Folder::open(demo.dir.as_deref())?;
    let mut progress = Progress::new(display);
    let mut stage = Stage::set(&folder.path, &clock, &progress).await?;

    let ended = stage.standalone.ended();
    let outcome = tokio::select! {
        outcome = stage.play(&mut progress, display) => outcome,
        () = shutdown.wait() => Ok(()),
        () = ended.wait() => Err(anyhow::anyhow!("the control plane ended by itself; see the log above")),
    };
    if outcome.is_ok() && !shutdown.is_triggered() {
        stage.invite(&progress, demo.exit);
        if !demo.exit {
            shutdown.wait().await;
        }
    }
    let stopped = stage.standalone.stop().await;
    outcome.and(stopped)
}

/// The demo's folder; a temporary one goes when this is dropped.
struct Folder {
    path: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Folder {
    fn open(wanted: Option<&Path>) -> anyhow::Result<Self> {
        match wanted {
            Some(path) => {
                std::fs::create_dir_all(path)
                    .map_err(|source| BadFlag::new("dir", path.display(), source))?;
                let path = path.canonicalize().with_context(|| format!("finding {}", path.display()))?;
                if path.read_dir()?.next().is_some() {
                    bail!("{} is not empty; name a new folder for the demo", path.display());
                }
                Ok(Self { path, _temporary: None })
            }
            None => {
                let temporary =
                    tempfile::Builder::new().prefix("convoy-demo-").tempdir().context("making a folder")?;
                Ok(Self { path: temporary.path().to_path_buf(), _temporary: Some(temporary) })
            }
        }
    }
}

/// All that the demo plays on.
struct Stage {
    standalone: Standalone,
    repository: Repository,
    host: Client,
    targets: BTreeMap<&'static str, Client>,
    clock: Arc<dyn Clock>,
}

impl Stage {
    async fn set(folder: &Path, clock: &Arc<dyn Clock>, progress: &Progress) -> anyhow::Result<Self> {
        progress.chapter("Setting up");
        let options = standalone::Options {
            sandbox: fleet::CLUSTERS.iter().map(|name| (*name).to_owned()).collect(),
            ..standalone::Options::new(folder.join("convoy"))
        };
        let standalone = standalone::start(options, clock.clone()).await?;
        progress.done(&format!("control plane on {}", standalone.url()));

        let mut targets = BTreeMap::new();
        for name in fleet::CLUSTERS {
            targets.insert(name, fleet::client(&standalone.target_kubeconfig(name)).await?);
        }
        progress.done(&format!("three simulated clusters: {}", fleet::CLUSTERS.join(", ")));

        let mut repository = Repository::create(&folder.join("examples.git"))?;
        for file in examples::FILES {
            repository.write(file.path, file.content.as_bytes());
        }
        let commit = repository.commit("The examples", clock.now())?;
        progress.done(&format!("Git repository with the examples at {}", short(&commit)));

        let host = fleet::client(&standalone.admin_kubeconfig()).await?;
        Ok(Self { standalone, repository, host, targets, clock: clock.clone() })
    }

    async fn play(&mut self, progress: &mut Progress, display: Display) -> anyhow::Result<()> {
        self.deliver(progress, display).await?;
        self.roll_out(progress).await?;
        self.correct(progress).await
    }

    /// First act: everything is created, and arrives.
    async fn deliver(&mut self, progress: &mut Progress, display: Display) -> anyhow::Result<()> {
        progress.chapter("Delivering: three Clusters, one GitRepository, seven Releases");
        for name in fleet::CLUSTERS {
            let path = self.standalone.target_kubeconfig(name);
            let kubeconfig =
                std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            for object in fleet::cluster_objects(name, &kubeconfig) {
                fleet::apply(&self.host, &object).await?;
            }
        }
        let objects = fleet::objects(&self.repository.url())?;
        for object in &objects {
            fleet::apply(&self.host, object).await?;
        }
        let expected: Vec<Expected> = objects
            .iter()
            .filter(|object| object["kind"] == "Release")
            .filter_map(|object| object["metadata"]["name"].as_str())
            .map(|name| match name {
                fleet::BROKEN => Expected::render_failure(name),
                _ => Expected::ready(name, None),
            })
            .collect();
        let seen = watch::until(&self.host, &expected, PATIENCE, &*self.clock, progress).await?;
        progress.end_round();
        progress.say("");
        progress.say(table(&seen).render(display).trim_end());
        for release in seen.iter().filter(|release| !release.ready) {
            progress.say(&format!(
                "\n{} is broken on purpose, and says so:\n  {}",
                release.name,
                display.paint(Colour::Bad, &release.message)
            ));
        }
        Ok(())
    }

    /// Second act: a commit arrives on every cluster.
    async fn roll_out(&mut self, progress: &mut Progress) -> anyhow::Result<()> {
        progress.chapter("Rolling out a commit: web 2.1.0 → 2.2.0");
        let chart = self.repository.read("web/Chart.yaml").context("web/Chart.yaml")?;
        let chart = String::from_utf8_lossy(chart).replace("appVersion: \"2.1.0\"", "appVersion: \"2.2.0\"");
        self.repository.write("web/Chart.yaml", chart.as_bytes());
        let commit = self.repository.commit("web 2.2.0", self.clock.now())?;
        progress.done(&format!("committed {}", short(&commit)));

        let expected: Vec<Expected> = fleet::CLUSTERS
            .iter()
            .map(|cluster| Expected::ready(&format!("web-{cluster}"), Some(commit.clone())))
            .collect();
        let seen = watch::until(&self.host, &expected, PATIENCE, &*self.clock, progress).await?;
        progress.end_round();
        let slowest = seen.iter().map(|release| release.after).max().unwrap_or_default();
        for cluster in fleet::CLUSTERS {
            let image = self.web_image(cluster).await?;
            // Staging pins its own tag, so that a new appVersion changes labels there and not the image.
            let wanted = if cluster == "staging" { ":2.2.0-rc1" } else { ":2.2.0" };
            if !image.ends_with(wanted) {
                bail!("web on {cluster} runs {image}, not {wanted}");
            }
            progress.done(&format!("{cluster} runs {image}"));
        }
        progress.done(&format!("live on all clusters {:.1} s after the commit", slowest.as_secs_f64()));
        Ok(())
    }

    async fn web_image(&self, cluster: &str) -> anyhow::Result<String> {
        let target = self.targets.get(cluster).context("an unknown cluster")?;
        let deployments: Api<Deployment> = Api::namespaced(target.clone(), "web");
        let deployment = deployments.get("web").await.with_context(|| format!("reading web on {cluster}"))?;
        let pod = deployment.spec.template.spec;
        let image =
            pod.and_then(|pod| pod.containers.into_iter().next()).and_then(|container| container.image);
        image.with_context(|| format!("web on {cluster} has no image"))
    }

    /// Third act: what a hand changes on a target is put right.
    #[expect(clippy::disallowed_methods, reason = "the demo writes as a user")]
    async fn correct(&mut self, progress: &mut Progress) -> anyhow::Result<()> {
        progress.chapter("Correcting a change by hand on prod-us");
        let target = self.targets.get("prod-us").context("an unknown cluster")?;
        let maps: Api<ConfigMap> = Api::namespaced(target.clone(), "library");
        let hours = |map: &ConfigMap| map.data.as_ref().and_then(|data| data.get("opening-hours").cloned());
        let before = hours(&maps.get("library").await.context("reading ConfigMap library")?)
            .context("ConfigMap library has no opening-hours")?;
        let edit = json!({"data": {"opening-hours": "never"}});
        let edited = maps
            .patch("library", &PatchParams::default(), &Patch::Merge(&edit))
            .await
            .context("changing ConfigMap library")?;
        let began = self.clock.monotonic();
        progress.done(&format!("ConfigMap library: opening-hours {before} → never"));
        watch::until_config_map(&maps, &edited, PATIENCE, |map| {
            hours(map).as_deref() == Some(before.as_str())
        })
        .await
        .context("waiting for the change to be corrected")?;
        let took = self.clock.monotonic().saturating_sub(began);
        progress.done(&format!("opening-hours are {before} again after {:.1} s", took.as_secs_f64()));
        Ok(())
    }

    /// What to try next.
    fn invite(&self, progress: &Progress, over: bool) {
        if over {
            return;
        }
        let admin = self.standalone.admin_kubeconfig();
        let target = self.standalone.target_kubeconfig("prod-eu");
        progress.chapter("Yours to try");
        progress.say(&format!("  control plane  {}", admin.display()));
        for name in fleet::CLUSTERS {
            progress.say(&format!("  {name:<14} {}", self.standalone.target_kubeconfig(name).display()));
        }
        progress.say("");
        progress.say(&format!("  kubectl --kubeconfig {} get releases -o wide", admin.display()));
        progress.say(&format!(
            "  kubectl --kubeconfig {} describe release {}",
            admin.display(),
            fleet::BROKEN
        ));
        progress.say(&format!(
            "  kubectl --kubeconfig {} -n library delete deployment library --wait=false",
            target.display()
        ));
        progress.say("\nCtrl-C ends the demo.");
    }
}

/// The first table that the demo shows.
fn table(seen: &[Seen]) -> Table {
    let mut table = Table::new(&["RELEASE", "CLUSTER", "REVISION", "STATUS", "OBJECTS", "SECONDS"]);
    for release in seen {
        let status = if release.ready {
            Cell::coloured("Ready", Colour::Good)
        } else {
            Cell::coloured(release.reason.clone(), Colour::Bad)
        };
        table.row(vec![
            release.name.clone().into(),
            release.cluster.clone().into(),
            revision(&release.revision).into(),
            status,
            release.objects.to_string().into(),
            format!("{:.1}", release.after.as_secs_f64()).into(),
        ]);
    }
    table
}

/// A commit as people quote it.
fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

/// `main@sha1:0123456789…` as people quote it.
fn revision(full: &str) -> String {
    match full.rsplit_once(':') {
        Some((name, commit)) => {
            let name = name.split('@').next().unwrap_or(name);
            format!("{name}@{}", short(commit))
        }
        None if full.is_empty() => "-".to_owned(),
        None => full.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_shortened_as_people_quote_them() {
        assert_eq!(revision("main@sha1:0123456789abcdef"), "main@0123456");
        assert_eq!(revision(""), "-");
    }

    #[test]
    fn a_folder_with_something_in_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine"), "").unwrap();
        let error = Folder::open(Some(folder.path())).err().unwrap().to_string();
        assert!(error.contains("is not empty"), "{error}");
    }
}
