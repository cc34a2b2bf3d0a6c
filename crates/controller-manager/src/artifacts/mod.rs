//! What Releases take from registries: one chart of many, in one version of many.
//!
//! A registry's own controller cannot know what is wanted of it: the Releases that do may be another
//! replica's. So the replica that delivers a Release fetches what it wants, once for all its Releases, on a
//! queue of its own, so that a registry that is slow holds no Release of another. What it fetched is in the
//! render store, and so is what the request came to: a replica that begins downloads nothing again.

mod artifact;
mod chart;
mod look;

pub(crate) use self::look::source_key;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use convoy_api::{HelmRegistry, OCIRegistry, OciSource, ReleaseSource};
use convoy_render::{Kept, RenderStore};
use convoy_runtime::{Store, StoreKey, WorkQueue};
use convoy_source::{ChartIndex, Fetcher};
use parking_lot::Mutex;

use crate::host::Host;
use crate::sources::Unresolved;

/// What is wanted of a registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    /// A chart of a HelmRegistry.
    Chart { registry: StoreKey, chart: String, version: Option<String> },
    /// An artifact of an OCIRegistry.
    Artifact { registry: StoreKey, source: OciSource },
    /// Anything of the OCIRegistry: names all that is wanted of it, and is never fetched.
    AnyArtifact { registry: StoreKey },
    /// Anything of the HelmRegistry: names all that is wanted of it, and is never fetched.
    AnyChart { registry: StoreKey },
}

impl Wanted {
    /// What a Release wants of a registry; none when its source is another one.
    pub(crate) fn of(release: &StoreKey, source: &ReleaseSource) -> Option<Self> {
        let beside = |name: &str| StoreKey::new(release.namespace.as_str(), name);
        if let Some(oci) = &source.oci {
            let registry = beside(&oci.registry_ref.name);
            return Some(Wanted::Artifact { registry, source: (**oci).clone() });
        }
        let helm = source.helm.as_ref()?;
        Some(Wanted::Chart {
            registry: beside(&helm.registry_ref.name),
            chart: helm.chart.clone(),
            version: helm.version.clone(),
        })
    }

    /// The registry, as the class that the queue limits.
    pub(crate) fn class(&self) -> Self {
        match self {
            Wanted::Chart { registry, .. } | Wanted::AnyChart { registry } => {
                Wanted::AnyChart { registry: registry.clone() }
            }
            Wanted::Artifact { registry, .. } | Wanted::AnyArtifact { registry } => {
                Wanted::AnyArtifact { registry: registry.clone() }
            }
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Chart { registry, chart, version } => {
                let version = version.as_deref().unwrap_or("*");
                write!(f, "chart {chart:?} {version:?} of HelmRegistry {registry}")
            }
            Wanted::AnyChart { registry } => write!(f, "charts of HelmRegistry {registry}"),
            Wanted::Artifact { registry, source } => {
                let named = [&source.tag, &source.semver, &source.digest].into_iter().flatten().next();
                let named = named.map_or("", String::as_str);
                write!(f, "artifact {:?} {named:?} of OCIRegistry {registry}", source.repository)
            }
            Wanted::AnyArtifact { registry } => write!(f, "artifacts of OCIRegistry {registry}"),
        }
    }
}

/// What is known of something wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// What it came to last. It stays when a later look fails.
    pub(crate) kept: Option<Kept>,
    /// Why the last look failed.
    pub(crate) trouble: Option<Unresolved>,
}

#[derive(Default)]
struct Entry {
    /// The Releases that want it, each with its shard.
    releases: HashMap<StoreKey, u32>,
    state: State,
}

#[derive(Default)]
struct Table {
    entries: HashMap<Wanted, Entry>,
    by_release: HashMap<StoreKey, Wanted>,
}

/// The controller of what is wanted.
pub(crate) struct Artifacts {
    pub(crate) host: Host,
    pub(crate) registries: Store<HelmRegistry>,
    pub(crate) oci_registries: Store<OCIRegistry>,
    pub(crate) fetcher: Fetcher,
    pub(crate) store: RenderStore,
    pub(crate) queue: Arc<WorkQueue<Wanted>>,
    /// Woken when something that a Release wants is there, or is not any more.
    pub(crate) releases: Arc<WorkQueue<StoreKey>>,
    table: Mutex<Table>,
    /// Indexes in memory, by the digests of their artifacts.
    indexes: Mutex<BTreeMap<String, Arc<ChartIndex>>>,
}

impl Artifacts {
    pub(crate) fn new(
        host: Host,
        (registries, oci_registries): (Store<HelmRegistry>, Store<OCIRegistry>),
        fetcher: Fetcher,
        store: RenderStore,
        (queue, releases): (Arc<WorkQueue<Wanted>>, Arc<WorkQueue<StoreKey>>),
    ) -> Self {
        let (table, indexes) = Default::default();
        Self { host, registries, oci_registries, fetcher, store, queue, releases, table, indexes }
    }

    /// Takes note of what a Release wants, and says what is known of it.
    pub(crate) fn want(&self, release: &StoreKey, shard: u32, wanted: Wanted) -> State {
        let mut table = self.table.lock();
        if table.by_release.get(release) != Some(&wanted) {
            self.drop_release(&mut table, release);
            table.by_release.insert(release.clone(), wanted.clone());
        }
        let entry = table.entries.entry(wanted).or_insert_with_key(|wanted| {
            self.queue.add(wanted.clone());
            Entry::default()
        });
        entry.releases.insert(release.clone(), shard);
        entry.state.clone()
    }

    /// What is known of what a Release wants.
    pub(crate) fn known(&self, release: &StoreKey) -> Option<State> {
        let table = self.table.lock();
        let wanted = table.by_release.get(release)?;
        table.entries.get(wanted).map(|entry| entry.state.clone())
    }

    /// The Release wants nothing any more.
    pub(crate) fn release(&self, release: &StoreKey) {
        self.drop_release(&mut self.table.lock(), release);
    }

    fn drop_release(&self, table: &mut Table, release: &StoreKey) {
        let Some(wanted) = table.by_release.remove(release) else { return };
        let Some(entry) = table.entries.get_mut(&wanted) else { return };
        entry.releases.remove(release);
        if entry.releases.is_empty() {
            table.entries.remove(&wanted);
            self.queue.remove(&wanted);
        }
    }

    /// Lets go of what only Releases of shards want that are not worked on any more.
    pub(crate) fn retain_shards(&self, keep: impl Fn(u32) -> bool) {
        let mut table = self.table.lock();
        let Table { entries, by_release } = &mut *table;
        entries.retain(|wanted, entry| {
            entry.releases.retain(|release, shard| {
                let stays = keep(*shard);
                if !stays {
                    by_release.remove(release);
                }
                stays
            });
            if entry.releases.is_empty() {
                self.queue.remove(wanted);
            }
            !entry.releases.is_empty()
        });
    }

    /// Looks at all anew that is wanted of a registry.
    pub(crate) fn registry_changed(&self, class: &Wanted) {
        let table = self.table.lock();
        for wanted in table.entries.keys().filter(|wanted| wanted.class() == *class) {
            self.queue.add(wanted.clone());
        }
    }

    fn state(&self, wanted: &Wanted) -> Option<State> {
        self.table.lock().entries.get(wanted).map(|entry| entry.state.clone())
    }

    /// Says what a look came to, and wakes the Releases that want it when that is news.
    fn told(&self, wanted: &Wanted, state: State) {
        let mut table = self.table.lock();
        let Some(entry) = table.entries.get_mut(wanted) else { return };
        if entry.state == state {
            return;
        }
        entry.state = state;
        for release in entry.releases.keys() {
            self.releases.add(release.clone());
        }
    }
}
