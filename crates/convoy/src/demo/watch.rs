//! Waiting for Releases and objects, by watching them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use convoy_api::{ConditionStatus, Release, condition_status, condition_type, find_condition, reason};
use convoy_runtime::{Clock, watch_events};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};

use super::fleet;
use super::progress::{Ended, Progress, Standing};

/// How a Release is expected to end.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    release: String,
    ending: Ending,
}

#[derive(Debug, Clone)]
enum Ending {
    /// Ready, and at this commit if one is named.
    Ready { commit: Option<String> },
    /// Not rendered, with a message that names the file and the line.
    RenderFailure,
}

impl Expected {
    /// The Release becomes Ready, at a commit if one is named.
    pub(crate) fn ready(release: &str, commit: Option<String>) -> Self {
        Self { release: release.to_owned(), ending: Ending::Ready { commit } }
    }

    /// The Release reports where its source does not render.
    pub(crate) fn render_failure(release: &str) -> Self {
        Self { release: release.to_owned(), ending: Ending::RenderFailure }
    }
}

/// How a Release ended, as its status says.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) revision: String,
    pub(crate) ready: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) objects: i64,
    /// Time from the beginning of the wait.
    pub(crate) after: Duration,
}

/// Watches Releases until each one ended as expected, and shows how they come along.
///
/// # Errors
/// When that takes longer than `patience`, naming those that did not, and their last condition.
pub(crate) async fn until(
    host: &Client,
    expected: &[Expected],
    patience: Duration,
    clock: &dyn Clock,
    progress: &mut Progress,
) -> anyhow::Result<Vec<Seen>> {
    let began = clock.monotonic();
    let mut ended: BTreeMap<String, Seen> = BTreeMap::new();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let releases: Api<Release> = Api::namespaced(host.clone(), fleet::NAMESPACE);
    let watching = async {
        let mut stream =
            pin!(watch_events(releases, watcher::Config::default()).default_backoff().applied_objects());
        while let Some(release) = stream.try_next().await.context("watching Releases")? {
            let name = release.metadata.name.clone().unwrap_or_default();
            let Some(expected_one) = expected.iter().find(|expected| expected.release == name) else {
                continue;
            };
            let standing = standing(&release, &expected_one.ending);
            progress.release(&standing);
            last.insert(name.clone(), message(&release));
            if standing.ended.is_some() && !ended.contains_key(&name) {
                ended.insert(name, seen(&release, clock.monotonic().saturating_sub(began)));
            }
            if ended.len() == expected.len() {
                return Ok(());
            }
        }
        bail!("the watch of Releases ended")
    };
    match tokio::time::timeout(patience, watching).await {
        Ok(outcome) => outcome?,
        Err(_) => {
            let missing: Vec<String> = expected
                .iter()
                .filter(|expected| !ended.contains_key(&expected.release))
                .map(|expected| {
                    let said = last.get(&expected.release).map_or("nothing", String::as_str);
                    format!("{} (its status says: {said})", expected.release)
                })
                .collect();
            bail!("not done after {} s: {}", patience.as_secs(), missing.join("; "));
        }
    }
    Ok(expected.iter().filter_map(|expected| ended.remove(&expected.release)).collect())
}

fn standing(release: &Release, ending: &Ending) -> Standing {
    let status = release.status.clone().unwrap_or_default();
    let ready = condition_status(&status.conditions, condition_type::READY);
    let current = status.observed_generation == release.metadata.generation;
    let condition = find_condition(&status.conditions, condition_type::READY);
    let reason_now = condition.map_or("Waiting", |condition| condition.reason.as_str()).to_owned();
    let ended = match ending {
        Ending::Ready { commit } => {
            let at_commit = commit.as_ref().is_none_or(|commit| {
                status.source_revision.as_deref().is_some_and(|revision| revision.ends_with(commit.as_str()))
            });
            (current && at_commit && ready == ConditionStatus::True).then_some(Ended::Ready)
        }
        Ending::RenderFailure => {
            let names_the_line =
                condition.is_some_and(|condition| condition.message.contains("templates/configmap.yaml:8"));
            (current && reason_now == reason::RENDER_FAILED && names_the_line).then_some(Ended::Failed)
        }
    };
    Standing {
        release: release.metadata.name.clone().unwrap_or_default(),
        healthy: u64::try_from(status.healthy_objects.unwrap_or(0)).unwrap_or(0),
        objects: u64::try_from(status.objects.unwrap_or(0)).unwrap_or(0),
        reason: reason_now,
        ended,
    }
}

fn message(release: &Release) -> String {
    let conditions = release.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    find_condition(conditions, condition_type::READY)
        .map_or_else(|| "nothing yet".to_owned(), |ready| format!("{}: {}", ready.reason, ready.message))
}

fn seen(release: &Release, after: Duration) -> Seen {
    let status = release.status.clone().unwrap_or_default();
    let condition = find_condition(&status.conditions, condition_type::READY);
    Seen {
        name: release.metadata.name.clone().unwrap_or_default(),
        cluster: release.spec.cluster_ref.name.clone(),
        revision: status
            .source_revision
            .clone()
            .or(status.last_attempted_revision.clone())
            .unwrap_or_default(),
        ready: condition_status(&status.conditions, condition_type::READY) == ConditionStatus::True,
        reason: condition.map(|condition| condition.reason.clone()).unwrap_or_default(),
        message: condition.map(|condition| condition.message.clone()).unwrap_or_default(),
        objects: status.objects.unwrap_or(0),
        after,
    }
}

/// Watches one ConfigMap, from a state that it is known to have had, until it is as wanted.
pub(crate) async fn until_config_map(
    maps: &Api<ConfigMap>,
    from: &ConfigMap,
    patience: Duration,
    wanted: impl Fn(&ConfigMap) -> bool,
) -> anyhow::Result<()> {
    let name = from.metadata.name.clone().unwrap_or_default();
    let version = from.metadata.resource_version.clone().unwrap_or_default();
    let watching = async {
        let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut stream = pin!(maps.watch(&parameters, &version).await?);
        while let Some(event) = stream.try_next().await? {
            match event {
                WatchEvent::Added(map) | WatchEvent::Modified(map) if wanted(&map) => return Ok(()),
                WatchEvent::Error(status) => bail!("the watch ended: {}", status.message),
                _ => {}
            }
        }
        bail!("the watch of ConfigMap {name} ended")
    };
    tokio::time::timeout(patience, watching)
        .await
        .unwrap_or_else(|_| bail!("ConfigMap {name} was not as wanted after {} s", patience.as_secs()))
}
