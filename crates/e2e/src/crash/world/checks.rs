//! What has to be true after a stage.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{bail, ensure};
use http::{Method, StatusCode};
use kube::api::ListParams;

use super::super::repository::{HOOK, Revision, content};
use super::super::script::{Side, Step};
use super::{Cell, World, config_maps, namespaces, of_convoy};

/// Past the time for which what was not answered is remembered.
const FORGET: Duration = Duration::from_secs(20 * 60);

impl World {
    /// Nothing is missing, nothing is left, nobody else's is touched.
    pub(super) async fn verify(
        &self,
        name: &str,
        size: usize,
        is_deleted: bool,
        foreign: Option<&str>,
    ) -> anyhow::Result<()> {
        let maps = config_maps(&self.target, name).list(&ListParams::default()).await?;
        let mut found = BTreeMap::new();
        for map in &maps.items {
            let map_name = map.metadata.name.clone().unwrap_or_default();
            match map_name.as_str() {
                "foreign" => {
                    ensure!(map.metadata.uid.as_deref() == foreign, "somebody else's object was replaced");
                }
                // One is everywhere; the other is the hook, where that is no Job.
                "kube-root-ca.crt" | HOOK => {}
                _ => drop(
                    found.insert(map_name, map.data["data"]["text"].as_str().unwrap_or_default().to_owned()),
                ),
            }
        }
        let foreign_is_there = maps.items.iter().any(|map| map.metadata.name.as_deref() == Some("foreign"));
        ensure!(foreign_is_there == foreign.is_some(), "somebody else's object is gone");
        let want = if is_deleted { BTreeMap::new() } else { content(size, self.revision) };
        let want: BTreeMap<String, String> =
            want.into_iter().map(|(name, text)| (name, text.to_owned())).collect();
        ensure!(found == want, "on the target are {found:?}, not {want:?}");
        if is_deleted {
            let namespace = namespaces(&self.target).get_opt(name).await?;
            let is_gone = namespace.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some());
            ensure!(
                is_gone == foreign.is_none(),
                "the namespace is gone: {is_gone}, with others' objects: {}",
                foreign.is_some()
            );
            let left = self.entries(name).await?;
            ensure!(left.is_empty(), "the inventory is still there: {left:?}");
        }
        Ok(())
    }

    /// The names of the ConfigMaps in a Release's inventory.
    async fn entries(&self, name: &str) -> anyhow::Result<BTreeSet<String>> {
        let inventories = of_convoy(&self.host, "ReleaseInventory", "releaseinventories");
        let inventories = inventories.list(&ListParams::default()).await?;
        let own =
            inventories.items.iter().filter(|inventory| inventory.data["spec"]["releaseRef"]["name"] == name);
        let entries =
            own.flat_map(|inventory| inventory.data["spec"]["entries"].as_array().into_iter().flatten());
        // What may still be made late is remembered for longer than anybody waits where no clock can be put forward.
        let maps = entries.filter(|entry| {
            entry["kind"] == "ConfigMap"
                && entry["name"] != HOOK
                && !(self.is_real() && entry["gone"] == true)
        });
        Ok(maps.filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect())
    }

    /// A look after everything was forgotten that is remembered for a time changes nothing on the target, and
    /// the next one writes nothing at all.
    pub(super) async fn verify_rest(&self, name: &str, size: usize) -> anyhow::Result<()> {
        self.clock.jump(FORGET);
        let mark = self.script.len();
        self.ask(name, "first").await?;
        let writes = self.script.steps(mark);
        let touched: Vec<&Step> = writes.iter().filter(|write| write.side == Side::Target).collect();
        if !touched.is_empty() {
            let release = of_convoy(&self.host, "Release", "releases").get(name).await?;
            bail!("a look at rest writes to the target: {touched:?}; {}", release.data["status"]);
        }
        let mark = self.script.len();
        self.ask(name, "second").await?;
        // A Cluster and a source are looked at on their own schedules, and tell of it; a status says when a Release was.
        let other = ["releases/status", "clusters/status", "gitrepositories/status"];
        let is_own = |step: &Step| {
            let is_of_other = other.iter().any(|resource| step.kind().ends_with(resource))
                || (step.kind().ends_with(" events") && !step.note.starts_with("Release "));
            step.is_write() && !is_of_other
        };
        let writes: Vec<Step> = self.script.steps(mark).into_iter().filter(is_own).collect();
        ensure!(writes.is_empty(), "a second look at rest writes: {writes:?}");
        let want: BTreeSet<String> = content(size, self.revision).into_keys().collect();
        let found = self.entries(name).await?;
        ensure!(found == want, "in the inventory are {found:?}, not {want:?}");
        Ok(())
    }

    /// No object was made twice, none was deleted that should have stayed, and the hook ran once for each revision.
    pub(super) fn verify_writes(&self, name: &str, cell: &Cell, writes: &[Step]) -> anyhow::Result<()> {
        let own = |write: &&Step| write.side == Side::Target && write.path.contains(&format!("/{name}"));
        let mut there = BTreeSet::new();
        let mut runs = 0;
        for write in writes.iter().filter(own) {
            // Without an answer, as when the process was killed, it may have been carried out.
            let may_be_gone =
                write.method == Method::DELETE && write.status.is_none_or(|status| status.is_success());
            if may_be_gone {
                there.remove(&write.path);
            } else if write.status == Some(StatusCode::CREATED) {
                ensure!(there.insert(&write.path), "{} was made twice", write.path);
                runs += usize::from(write.path.ends_with(&format!("/{HOOK}")));
            }
        }
        // A revision that was overtaken may have come as far as its hook, or not; then what follows may be what is there.
        let least = if cell.is_overtaken { 1 } else { self.wanted };
        ensure!(
            (least..=self.wanted).contains(&runs),
            "the hook ran {runs} times for {} revisions",
            self.wanted
        );
        let gone: BTreeSet<String> = content(cell.size, Revision::One)
            .into_keys()
            .chain(content(cell.size, Revision::Two).into_keys())
            .chain([name.to_owned(), HOOK.to_owned()])
            .collect();
        for write in writes.iter().filter(own).filter(|write| write.method == Method::DELETE) {
            let object = write.path.rsplit('/').next().unwrap_or_default();
            ensure!(gone.contains(object), "{} was deleted", write.path);
        }
        Ok(())
    }
}
