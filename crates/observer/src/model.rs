//! All that is known of one target cluster. Pure: time comes as an argument, in the clock's monotonic time.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{DeliveryProgress, HookState, InventoryEntry, ReleaseInventory, apply_name};
use convoy_plan::runs_to_an_end;
use convoy_runtime::StoreKey;

use crate::fault::Fault;
use crate::owned::Owned;
use crate::seen::{Rules, Seen};

/// Versions of an object that are remembered: what convoy applied is often followed at once by writes of
/// its controller, and an inventory tells of it only afterwards.
const REMEMBERED: usize = 8;
/// How long the watch may lag behind the inventory before what it says is taken for the truth.
pub(crate) const LAG: Duration = Duration::from_secs(10);
/// How long the words of a fault stay while its reason does: each other error text would be news to write.
const SAME_WORDS_FOR: Duration = Duration::from_secs(300);

/// A kind in one version; one watch each. Clones are cheap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WatchedKind(Arc<KindName>);

/// Group (empty for the core group), version and kind.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KindName {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl WatchedKind {
    pub(crate) fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self(Arc::new(KindName { group: group.into(), version: version.into(), kind: kind.into() }))
    }
}

impl std::ops::Deref for WatchedKind {
    type Target = KindName;

    fn deref(&self) -> &KindName {
        &self.0
    }
}

impl std::fmt::Display for WatchedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slash = if self.group.is_empty() { "" } else { "/" };
        write!(f, "{} ({}{slash}{})", self.kind, self.group, self.version)
    }
}

/// Namespace and name of an object of a kind.
pub(crate) type ObjectName = (String, String);

/// The model of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Model {
    kinds: BTreeMap<WatchedKind, KindState>,
    releases: BTreeMap<StoreKey, Delivered>,
    /// Which Releases name an object: one, or several that dispute it.
    owners: HashMap<(WatchedKind, ObjectName), Vec<StoreKey>>,
    /// How many entries of inventories name a kind.
    wanted: BTreeMap<WatchedKind, usize>,
    /// What Releases leave alone; those that leave nothing alone are missing.
    rules: BTreeMap<StoreKey, Arc<Rules>>,
    /// Kinds that are to be listed anew: their objects were looked at with other rules.
    relists: BTreeSet<WatchedKind>,
    /// Told when a CustomResourceDefinition came to be served: watches of kinds that were not there try again.
    pub(crate) kinds_came: tokio::sync::watch::Sender<u64>,
    /// Told when inventories name an object that none named before: it may be in another namespace.
    pub(crate) objects_came: tokio::sync::watch::Sender<u64>,
    /// Why the cluster cannot be reached at all.
    pub(crate) unreachable: Option<String>,
}

/// What the inventories of one Release say.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// Empty when the parts do not agree, and while its delivery is under way.
    pub(crate) bundle_digest: String,
    /// The last write of objects; none when the parts do not agree.
    pub(crate) apply: Option<String>,
    pub(crate) objects: BTreeMap<(WatchedKind, ObjectName), Tracked>,
}

/// One entry of an inventory, and what the watch must show for it to be as it was applied.
#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    /// Empty until an apply was confirmed.
    pub(crate) uid: String,
    /// Empty while an apply is under way.
    pub(crate) digest: String,
    pub(crate) resource_version: String,
    /// A running hook made it: it has no health and no drift, but it is told when it ends.
    pub(crate) is_hook: bool,
    /// When the entry came to be as it is.
    pub(crate) since: Duration,
    pub(crate) baseline: Baseline,
    /// What a dry run said when it was suspected to have changed.
    pub(crate) tested: Option<Box<Tested>>,
}

/// What a dry run said of a suspected drift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tested {
    /// The version of the object that it speaks of.
    pub(crate) version: String,
    pub(crate) outcome: Outcome,
}

/// What became of a suspicion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An apply would change nothing of what convoy owns.
    Refuted,
    /// It would change these fields.
    Confirmed(Vec<String>),
    /// It could not be tried, for this reason.
    Untried {
        why: String,
        /// From then on, by the clock that only goes forward, it may be tried again.
        until: Duration,
    },
}

/// What convoy's fields were when convoy had applied the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Baseline {
    /// The object was not seen yet.
    None,
    /// This.
    Fields(Owned),
    /// It cannot be told, and somebody else wrote after convoy: the object is taken for changed until it
    /// is applied again, which changes nothing if it was not.
    Doubtful,
}

#[derive(Debug, Default)]
struct KindState {
    objects: BTreeMap<ObjectName, Live>,
    /// The first list has ended.
    is_synced: bool,
    broken: Option<Broken>,
    /// The namespaces that are watched one by one; none while one watch is of all.
    namespaces: Option<BTreeMap<String, NamespaceState>>,
}

/// Why a watch failed, and since when it is told in these words. What has failed is listed anew, and broken until that list
/// ended.
type Broken = (Duration, Fault);

/// A watch of one namespace.
#[derive(Debug, Default)]
struct NamespaceState {
    is_synced: bool,
    broken: Option<Broken>,
}

/// A live object, as the watch last said, with its latest versions.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) seen: Seen,
    /// Older versions and the digests of convoy's fields in them; the newest last.
    earlier: VecDeque<(String, Owned)>,
}

/// What a watch shows of one object.
#[derive(Debug)]
pub(crate) enum View<'a> {
    /// The watch is broken, for the reason given.
    Broken(&'a Fault),
    /// The watch has not listed yet.
    NotYet,
    /// It is not there.
    Absent,
    /// It is there.
    Present(&'a Seen),
}

impl Model {
    /// The kinds that inventories name.
    pub(crate) fn wanted_kinds(&self) -> impl Iterator<Item = &WatchedKind> {
        self.wanted.keys()
    }

    /// The Releases that have delivered to the cluster.
    pub(crate) fn releases(&self) -> impl Iterator<Item = &StoreKey> {
        self.releases.keys()
    }

    pub(crate) fn delivered(&self, release: &StoreKey) -> Option<&Delivered> {
        self.releases.get(release)
    }

    /// Takes in all inventories of one Release for this cluster; none removes it. Says whether other kinds
    /// are to be watched than before.
    pub(crate) fn set_inventories(
        &mut self,
        release: &StoreKey,
        parts: &[&ReleaseInventory],
        now: Duration,
    ) -> bool {
        let mut old = self.releases.remove(release).unwrap_or_default();
        let kinds_before = self.wanted.len();
        let (mut has_new_kind, mut has_new_object) = (false, false);
        let mut delivered = Delivered::default();
        let mut stale = BTreeSet::new();
        let runs_hook = parts.iter().filter_map(|part| part.spec.delivery.as_ref()).any(has_running_hook);
        // What is gone is not wanted; its entry only stays in case that a late request makes it again. What a hook
        // made is looked at while one runs, to tell who waits that it has ended; after that it has had its time.
        let is_watched = |entry: &&InventoryEntry| {
            let is_awaited = || runs_hook && runs_to_an_end(&entry.group, &entry.kind);
            !entry.gone && (!entry.hook || is_awaited())
        };
        for entry in parts.iter().flat_map(|part| &part.spec.entries).filter(is_watched) {
            let kind = self.kind_of(entry);
            let id = (kind, (entry.namespace.clone(), entry.name.clone()));
            let new = tracked(entry, now);
            let kept = old.objects.remove(&id);
            let live = self.kinds.get(&id.0).and_then(|kind| kind.objects.get(&id.1));
            if kept.is_none() && live.is_some_and(|live| live.seen.rules.is_none()) {
                stale.insert(id.0.clone());
            }
            if kept.is_none() {
                has_new_kind |= !self.wanted.contains_key(&id.0);
                has_new_object |= !self.owners.contains_key(&id);
                *self.wanted.entry(id.0.clone()).or_default() += 1;
                self.owners.entry(id.clone()).or_default().push(release.clone());
            }
            let tracked = match kept.filter(|old| old.is_same_apply(&new)) {
                Some(old) => old,
                None => self.with_baseline(&id, new),
            };
            // An entry that stands twice counts once.
            if delivered.objects.insert(id.clone(), tracked).is_some() {
                self.forget(release, &id);
            }
        }
        for id in old.objects.keys() {
            self.forget(release, id);
        }
        if has_new_object {
            self.objects_came.send_modify(|count| *count = count.wrapping_add(1));
        }
        let digests: BTreeSet<&str> = parts.iter().map(|part| part.spec.bundle_digest.as_str()).collect();
        // What is delivered in part is not that bundle yet.
        let is_under_way = parts.iter().any(|part| part.spec.delivery.is_some());
        // Parts of two writes are neither.
        let applies: BTreeSet<i64> = parts.iter().map(|part| part.spec.applies).collect();
        let is_one = applies.len() <= 1;
        if let (Some(only), 1, false, true) = (digests.first(), digests.len(), is_under_way, is_one) {
            (*only).clone_into(&mut delivered.bundle_digest);
        }
        let name = parts.iter().filter_map(|part| part.metadata.name.as_deref()).min();
        if let (Some(name), Some(count), true) = (name, applies.first().filter(|count| **count > 0), is_one) {
            delivered.apply = Some(apply_name(name, *count));
        }
        if parts.is_empty() {
            self.rules.remove(release);
        } else {
            self.releases.insert(release.clone(), delivered);
        }
        // They came before it was known whose they are, and what that leaves alone.
        if self.rules.contains_key(release) {
            self.relists.extend(stale);
        }
        has_new_kind || self.wanted.len() != kinds_before || !self.relists.is_empty()
    }

    fn forget(&mut self, release: &StoreKey, id: &(WatchedKind, ObjectName)) {
        if let Some(count) = self.wanted.get_mut(&id.0) {
            *count -= 1;
            if *count == 0 {
                self.wanted.remove(&id.0);
            }
        }
        if let Some(owners) = self.owners.get_mut(id) {
            if let Some(at) = owners.iter().position(|owner| owner == release) {
                owners.swap_remove(at);
            }
            if owners.is_empty() {
                self.owners.remove(id);
            }
        }
    }

    fn kind_of(&self, entry: &InventoryEntry) -> WatchedKind {
        let (group, version, kind) = (entry.group.clone(), entry.version.clone(), entry.kind.clone());
        let kind = WatchedKind::new(group, version, kind);
        self.wanted.get_key_value(&kind).map_or(kind, |(known, _)| known.clone())
    }

    fn with_baseline(&self, id: &(WatchedKind, ObjectName), mut tracked: Tracked) -> Tracked {
        if let Some(live) = self.kinds.get(&id.0).and_then(|kind| kind.objects.get(&id.1)) {
            tracked.baseline = live.baseline_of(&tracked);
        }
        tracked
    }

    /// A watch begins; what it knew before stays until it has listed.
    pub(crate) fn watch_started(&mut self, kind: &WatchedKind) {
        self.kinds.entry(kind.clone()).or_default();
    }

    /// A watch ended, because no inventory names its kind any more.
    pub(crate) fn watch_stopped(&mut self, kind: &WatchedKind) {
        self.kinds.remove(kind);
    }

    /// An object came or changed.
    pub(crate) fn put(&mut self, kind: &WatchedKind, name: &ObjectName, seen: Seen) {
        let state = self.kinds.entry(kind.clone()).or_default();
        state.works(&name.0);
        let mut is_looked_at_anew = false;
        let live = match state.objects.remove(name) {
            // What other rules left alone compares with nothing.
            Some(live) if live.seen.uid == seen.uid && live.seen.rules != seen.rules => {
                is_looked_at_anew = true;
                Live { seen, earlier: VecDeque::new() }
            }
            Some(mut live) if live.seen.uid == seen.uid => {
                // Most writes leave convoy's fields alone.
                let seen = Seen { owned: seen.owned.shared_with(&live.seen.owned), ..seen };
                let previous = std::mem::replace(&mut live.seen, seen);
                live.earlier.push_back((previous.resource_version, previous.owned));
                if live.earlier.len() > REMEMBERED {
                    live.earlier.pop_front();
                }
                live
            }
            _ => Live { seen, earlier: VecDeque::new() },
        };
        let id = (kind.clone(), name.clone());
        for release in self.owners.get(&id).into_iter().flatten() {
            let tracked = self.releases.get_mut(release).and_then(|delivered| delivered.objects.get_mut(&id));
            let is_open = |tracked: &&mut Tracked| is_looked_at_anew || tracked.baseline == Baseline::None;
            if let Some(tracked) = tracked.filter(is_open) {
                tracked.baseline = live.baseline_of(tracked);
            }
        }
        state.objects.insert(name.clone(), live);
    }

    /// Takes in what a dry run said of a suspected drift.
    pub(crate) fn tested(&mut self, release: &StoreKey, id: &(WatchedKind, ObjectName), tested: Tested) {
        let live = self.kinds.get(&id.0).and_then(|kind| kind.objects.get(&id.1));
        let tracked = self.releases.get_mut(release).and_then(|delivered| delivered.objects.get_mut(id));
        let (Some(live), Some(tracked)) = (live, tracked) else { return };
        match tested.outcome {
            // Of another version it says nothing, and that one is looked at by itself.
            Outcome::Refuted if live.seen.resource_version == tested.version => {
                tracked.baseline = Baseline::Fields(live.seen.owned.clone());
                tracked.tested = None;
            }
            Outcome::Refuted => {}
            Outcome::Confirmed(_) | Outcome::Untried { .. } => tracked.tested = Some(Box::new(tested)),
        }
    }

    /// An object went.
    pub(crate) fn remove(&mut self, kind: &WatchedKind, name: &ObjectName) {
        if let Some(state) = self.kinds.get_mut(kind) {
            state.works(&name.0);
            state.objects.remove(name);
        }
    }

    /// A list of one namespace, or of all, ended: objects that it did not name are gone.
    pub(crate) fn listed(&mut self, kind: &WatchedKind, of: Option<&str>, names: &BTreeSet<ObjectName>) {
        let Some(state) = self.kinds.get_mut(kind) else { return };
        state.objects.retain(|name, _| of.is_some_and(|of| of != name.0) || names.contains(name));
        match of {
            Some(namespace) => {
                if let Some(watched) = state.namespaces.as_mut().and_then(|all| all.get_mut(namespace)) {
                    *watched = NamespaceState { is_synced: true, broken: None };
                }
            }
            None => {
                state.namespaces = None;
                state.is_synced = true;
                state.broken = None;
            }
        }
    }

    /// The namespaces in which inventories name objects of a kind.
    pub(crate) fn namespaces_of(&self, kind: &WatchedKind) -> BTreeSet<String> {
        self.owners.keys().filter(|(of, _)| of == kind).map(|(_, name)| name.0.clone()).collect()
    }

    /// A kind is watched in these namespaces, each by itself.
    pub(crate) fn watched_in(&mut self, kind: &WatchedKind, namespaces: &BTreeSet<String>) {
        let state = self.kinds.entry(kind.clone()).or_default();
        state.broken = None;
        state.objects.retain(|name, _| namespaces.contains(&name.0));
        let mut known = state.namespaces.take().unwrap_or_default();
        let keep = |namespace: &String| (namespace.clone(), known.remove(namespace).unwrap_or_default());
        state.namespaces = Some(namespaces.iter().map(keep).collect());
    }

    /// The watch of one namespace failed.
    pub(crate) fn failed_in(&mut self, kind: &WatchedKind, namespace: &str, fault: Fault, now: Duration) {
        let state = self.kinds.get_mut(kind).and_then(|kind| kind.namespaces.as_mut());
        if let Some(watched) = state.and_then(|all| all.get_mut(namespace)) {
            break_down(&mut watched.broken, fault, now);
        }
    }

    /// A watch failed.
    pub(crate) fn failed(&mut self, kind: &WatchedKind, fault: Fault, now: Duration) {
        break_down(&mut self.kinds.entry(kind.clone()).or_default().broken, fault, now);
    }

    /// Whether any watch is broken.
    pub(crate) fn has_broken_watch(&self) -> bool {
        self.kinds.values().any(|kind| kind.faults().next().is_some())
    }

    /// What cannot be watched, and why: kinds, and kinds in a namespace.
    pub(crate) fn faults(&self) -> Vec<(String, &Fault)> {
        let wanted = self.kinds.iter().filter(|(kind, _)| self.wanted.contains_key(*kind));
        let in_words = |kind: &WatchedKind, namespace: Option<&str>| match namespace {
            Some(namespace) => format!("{kind} in the namespace {namespace}"),
            None => kind.to_string(),
        };
        let faults = wanted.flat_map(|(kind, state)| {
            state.faults().map(move |(namespace, fault)| (in_words(kind, namespace), fault))
        });
        faults.collect()
    }

    /// Whether each watch has listed, or failed.
    pub(crate) fn is_settled(&self) -> bool {
        self.wanted.keys().all(|kind| self.kinds.get(kind).is_some_and(KindState::is_settled))
    }

    /// Whether an object is there and healthy.
    pub(crate) fn is_healthy(&self, kind: &WatchedKind, name: &ObjectName) -> bool {
        let live = self.kinds.get(kind).and_then(|kind| kind.objects.get(name));
        live.is_some_and(|live| live.seen.health.state == convoy_health::State::Healthy)
    }

    /// The Releases that name an object.
    pub(crate) fn releases_with(&self, kind: &WatchedKind, name: &ObjectName) -> Vec<StoreKey> {
        self.owners.get(&(kind.clone(), name.clone())).cloned().unwrap_or_default()
    }

    /// The Releases that name any object of a kind.
    pub(crate) fn releases_of_kind(&self, kind: &WatchedKind) -> Vec<StoreKey> {
        let has = |delivered: &Delivered| delivered.objects.keys().any(|(other, _)| other == kind);
        self.releases.iter().filter(|(_, delivered)| has(delivered)).map(|(key, _)| key.clone()).collect()
    }

    /// Says what a Release leaves alone; true when kinds are to be listed anew for it.
    pub(crate) fn set_rules(&mut self, release: &StoreKey, rules: Option<&Arc<Rules>>) -> bool {
        if self.rules.get(release) == rules {
            return false;
        }
        match rules.filter(|_| self.releases.contains_key(release)) {
            Some(rules) => drop(self.rules.insert(release.clone(), Arc::clone(rules))),
            None => drop(self.rules.remove(release)),
        }
        let objects = self.releases.get(release).into_iter().flat_map(|delivered| delivered.objects.keys());
        let is_stale = |id: &&(WatchedKind, ObjectName)| {
            let live = self.kinds.get(&id.0).and_then(|kind| kind.objects.get(&id.1));
            live.is_some_and(|live| !self.is_seen_with_rules(&id.0, &id.1, &live.seen))
        };
        let stale: BTreeSet<WatchedKind> = objects.filter(is_stale).map(|(kind, _)| kind.clone()).collect();
        let is_any = !stale.is_empty();
        self.relists.extend(stale);
        is_any
    }

    /// What is left alone of an object.
    pub(crate) fn rules_of(&self, kind: &WatchedKind, name: &ObjectName) -> Option<Arc<Rules>> {
        if self.rules.is_empty() {
            return None;
        }
        let owners = self.owners.get(&(kind.clone(), name.clone()))?;
        self.rules.get(owners.first()?).cloned()
    }

    /// Whether an object was looked at with the rules that its Release has now.
    pub(crate) fn is_seen_with_rules(&self, kind: &WatchedKind, name: &ObjectName, seen: &Seen) -> bool {
        self.rules_of(kind, name).map(|rules| rules.mark()) == seen.rules
    }

    /// Has kinds listed anew; says whether any is.
    pub(crate) fn relist(&mut self, is_meant: impl Fn(&WatchedKind) -> bool) -> bool {
        let meant: Vec<WatchedKind> = self.wanted.keys().filter(|kind| is_meant(kind)).cloned().collect();
        let is_any = !meant.is_empty();
        self.relists.extend(meant);
        is_any
    }

    /// The kinds that are to be listed anew; asked for once.
    pub(crate) fn take_relists(&mut self) -> BTreeSet<WatchedKind> {
        std::mem::take(&mut self.relists)
    }

    /// What the watch shows of a tracked object.
    pub(crate) fn view(&self, kind: &WatchedKind, name: &ObjectName) -> View<'_> {
        let Some(kind) = self.kinds.get(kind) else { return View::NotYet };
        let watched = kind.namespaces.as_ref().map(|all| all.get(&name.0));
        let (is_synced, broken) = match watched {
            None => (kind.is_synced, None),
            Some(None) => (false, None),
            Some(Some(watched)) => (watched.is_synced, fault_of(&watched.broken)),
        };
        if let Some(fault) = fault_of(&kind.broken).or(broken) {
            return View::Broken(fault);
        }
        match kind.objects.get(name) {
            Some(live) => View::Present(&live.seen),
            None if is_synced => View::Absent,
            None => View::NotYet,
        }
    }
}

impl KindState {
    /// What is broken of it: all, or namespaces.
    fn faults(&self) -> impl Iterator<Item = (Option<&str>, &Fault)> {
        let of_all = fault_of(&self.broken).map(|fault| (None, fault));
        let of_namespaces = self.namespaces.iter().flatten();
        of_all.into_iter().chain(
            of_namespaces.filter_map(|(namespace, watched)| {
                Some((Some(namespace.as_str()), fault_of(&watched.broken)?))
            }),
        )
    }

    fn is_settled(&self) -> bool {
        let is_settled = |watched: &NamespaceState| watched.is_synced || watched.broken.is_some();
        self.broken.is_some()
            || self.namespaces.as_ref().map_or(self.is_synced, |all| all.values().all(is_settled))
    }

    /// The watch that an object of a namespace came by works.
    fn works(&mut self, namespace: &str) {
        self.broken = None;
        if let Some(watched) = self.namespaces.as_mut().and_then(|all| all.get_mut(namespace)) {
            watched.broken = None;
        }
    }
}

fn fault_of(broken: &Option<Broken>) -> Option<&Fault> {
    broken.as_ref().map(|(_, fault)| fault)
}

fn break_down(broken: &mut Option<Broken>, fault: Fault, now: Duration) {
    let is_told =
        |(since, told): &Broken| told.reason == fault.reason && now.saturating_sub(*since) < SAME_WORDS_FOR;
    if !broken.as_ref().is_some_and(is_told) {
        *broken = Some((now, fault));
    }
}

impl Tracked {
    fn is_same_apply(&self, other: &Self) -> bool {
        (&self.uid, &self.digest, &self.resource_version, self.is_hook)
            == (&other.uid, &other.digest, &other.resource_version, other.is_hook)
    }

    /// Whether the target has confirmed the object.
    pub(crate) fn is_applied(&self) -> bool {
        !self.uid.is_empty() && !self.digest.is_empty()
    }

    /// Whether a version of the object is older than what was applied.
    pub(crate) fn is_before_apply(&self, resource_version: &str) -> bool {
        // API servers hand out growing numbers; what is no number is taken as it comes.
        match (resource_version.parse::<u64>(), self.resource_version.parse::<u64>()) {
            (Ok(seen), Ok(applied)) => seen < applied,
            _ => false,
        }
    }
}

impl Live {
    fn baseline_of(&self, tracked: &Tracked) -> Baseline {
        if !tracked.is_applied()
            || self.seen.uid != tracked.uid
            || tracked.is_before_apply(&self.seen.resource_version)
        {
            return Baseline::None;
        }
        if self.seen.resource_version == tracked.resource_version {
            return Baseline::Fields(self.seen.owned.clone());
        }
        let earlier =
            self.earlier.iter().filter(|(version, _)| !tracked.is_before_apply(version)).collect::<Vec<_>>();
        match earlier.first() {
            // The version that was applied, or the one right after it.
            Some((_, owned)) => Baseline::Fields(owned.clone()),
            None if self.seen.is_written_by_others => Baseline::Doubtful,
            None => Baseline::Fields(self.seen.owned.clone()),
        }
    }
}

fn has_running_hook(delivery: &DeliveryProgress) -> bool {
    delivery.hooks.iter().any(|run| run.state == HookState::Running)
}

fn tracked(entry: &InventoryEntry, now: Duration) -> Tracked {
    Tracked {
        uid: entry.uid.clone(),
        digest: entry.digest.clone(),
        resource_version: entry.resource_version.clone(),
        is_hook: entry.hook,
        since: now,
        baseline: Baseline::None,
        tested: None,
    }
}
