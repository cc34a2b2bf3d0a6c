//! The work of a replica: what a controller does with each object that its queue gives out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use convoy_apply::{Class, LiveMeta, NotOwner, Ownership, RequestError, Target, Transport};
use convoy_plan::{ObjectKey, ObjectRef};
use convoy_runtime::{Clock as _, Next};
use convoy_shard::ProcessKind;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::json;

use crate::check::{Term, Write};
use crate::hub::{Entry, NAMESPACE, Refused, Release, Report, Tracked, Writer, cluster_name};
use crate::net::{Answer, Op, Wire};
use crate::process::{Process, RESYNC_SECONDS};
use crate::target::REVISION;

/// How many objects are worked on at a time.
const WORKERS: usize = 4;
/// How many requests of one piece of work are under way at a time.
const REQUESTS: usize = 2;

/// A request that creates an object reaches the cluster within this time, or never. (A TCP stack may try for
/// a quarter of an hour; requests of the simulation are under way for a minute at most.) Counted by each
/// process from when it knew of the doubt: no other clock is trusted.
const UNDER_WAY: Duration = Duration::from_secs(100);

/// When to look again at what a shard that seems to be ours did not let us do.
const LATER: Next = Next::Wait(Duration::from_secs(2));

/// Why a piece of work ended early.
#[derive(Debug)]
enum Stopped {
    NotOwner,
    Failed,
}

impl From<NotOwner> for Stopped {
    fn from(_: NotOwner) -> Self {
        Stopped::NotOwner
    }
}

impl From<RequestError> for Stopped {
    fn from(error: RequestError) -> Self {
        if error.class == Class::NotOwner { Stopped::NotOwner } else { Stopped::Failed }
    }
}

impl Process {
    /// The driver of the queue. It is not `WorkQueue::run`, which puts its work on tokio's threads.
    pub(crate) async fn work(self: Arc<Self>) {
        let mut running: FuturesUnordered<BoxFuture<'static, (u32, Next)>> = FuturesUnordered::new();
        loop {
            while running.len() < WORKERS {
                let Some(key) = self.queue.lock().next(self.clock.monotonic()) else { break };
                let process = Arc::clone(&self);
                running.push(async move { (key, process.reconcile(key).await) }.boxed());
            }
            let due = self.queue.lock().next_due().filter(|_| running.len() < WORKERS);
            let until_due = async {
                match due {
                    Some(due) => self.clock.sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let ended = async {
                match running.next().await {
                    Some(ended) => ended,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                (key, next) = ended => self.give_back(key, next),
                () = self.queue_changed.notified() => {}
                () = until_due => {}
            }
        }
    }

    fn give_back(&self, key: u32, next: Next) {
        let now = self.clock.monotonic();
        let mut queue = self.queue.lock();
        match next {
            Next::Done => queue.forget_failures(&key),
            Next::After(delay) => {
                queue.forget_failures(&key);
                queue.add_after(key, delay, now);
            }
            Next::Retry => _ = queue.add_failed(key, now),
            Next::Wait(delay) => queue.add_after(key, delay, now),
        }
        queue.done(&key);
    }

    async fn reconcile(self: Arc<Self>, key: u32) -> Next {
        let Some(release) = self.view.lock().get(&key).cloned() else { return Next::Done };
        let shard = self.shards.shard_of(NAMESPACE, &cluster_name(release.cluster));
        // As `convoy-controller-manager`'s `Duties` does: when a lease was renewed late, nothing else tells
        // that work may go on.
        let is_open = self.open.lock().contains_key(&shard);
        let Ok(ownership) = self.shards.guard(shard) else {
            return if is_open { LATER } else { Next::Done };
        };
        if let Some(epoch) =
            release.latest_epoch(self.kind(), shard).filter(|epoch| *epoch > ownership.epoch())
        {
            self.shards.saw_epoch(shard, epoch);
            return Next::Wait(Duration::from_secs(1));
        }
        let is_poisoned = {
            let sim = &self.wire.sim;
            sim.world.lock().dies_of(sim, key, self.wire.node, self.wire.pid)
        };
        if is_poisoned {
            std::future::pending::<()>().await;
        }
        let work = Work::new(&self, &release, ownership);
        let ended = match self.kind() {
            ProcessKind::ControllerManager => work.deliver(&release).await,
            ProcessKind::Observer => work.observe(&release).await,
        };
        match ended {
            Ok(()) => {
                let sim = &self.wire.sim;
                sim.world.lock().check.looked(self.kind(), key, sim.now.get());
                Next::After(Duration::from_secs(RESYNC_SECONDS))
            }
            Err(Stopped::NotOwner) => LATER,
            Err(Stopped::Failed) => Next::Retry,
        }
    }
}

/// A piece of work in one term.
struct Work {
    process: Arc<Process>,
    ownership: Arc<dyn Ownership>,
    term: Term,
    key: u32,
    cluster: usize,
    target: Target,
}

impl Work {
    fn new(process: &Arc<Process>, release: &Release, ownership: Arc<dyn Ownership>) -> Self {
        let term = Term { pid: process.wire.pid, shard: ownership.shard(), epoch: ownership.epoch() };
        let ownership = process.wire.sim.world.lock().guard_of_mutant(ownership);
        let transport =
            ToTarget { wire: process.wire.clone(), term, key: release.key, cluster: release.cluster };
        let target = Target::over(Arc::new(transport), Arc::clone(&ownership));
        Self {
            process: Arc::clone(process),
            ownership,
            term,
            key: release.key,
            cluster: release.cluster,
            target,
        }
    }

    /// What the controller-manager does.
    async fn deliver(&self, release: &Release) -> Result<(), Stopped> {
        let wanted = release.objects_of(release.revision);
        let mut entries = release.inventory.clone();
        let all: BTreeSet<u32> = wanted.iter().copied().chain(entries.keys().copied()).collect();
        let live = self.look(&all).await?;
        let is_right = |object: &u32| match (live.get(object), entries.get(object)) {
            (Some(live), Some(Tracked { applied: Some(entry), .. })) => {
                entry.revision == release.revision && entry.resource_version == live.resource_version
            }
            _ => false,
        };
        let to_apply: Vec<u32> = wanted.iter().filter(|object| !is_right(object)).copied().collect();
        let settled = self.settled_doubts(&entries);
        // What is gone and may come back late is looked at again, and kept until then.
        let to_prune: Vec<u32> = entries
            .iter()
            .filter(|(object, _)| !wanted.contains(object))
            .filter(|(object, tracked)| {
                live.contains_key(object) || !tracked.is_doubtful || settled.contains(object)
            })
            .map(|(object, _)| *object)
            .collect();
        let mut version = release.inventory_version;
        if !to_apply.is_empty() || !to_prune.is_empty() {
            // Before the first write, the inventory: with the objects, and with the term.
            let is_other_writer = release.inventory_writer != Some(self.writer());
            let is_news = self.write_ahead(&to_apply, &live, &mut entries);
            if is_news || is_other_writer {
                version = self.put_inventory(version, &entries).await?;
            }
            let before = &release.inventory;
            let outcome = self.write(release, &to_apply, &live, before, &mut entries).await;
            let outcome = match outcome {
                Ok(()) => self.prune(&to_prune, &live, &settled, &mut entries).await,
                failed => failed,
            };
            if matches!(outcome, Err(Stopped::NotOwner)) {
                return outcome;
            }
            self.put_inventory(version, &entries).await?;
            outcome?;
        }
        if release.delivered != release.revision {
            self.report(Report::Delivered(release.revision)).await?;
        }
        Ok(())
    }

    /// Objects whose doubts this process has known for so long that nothing is under way any more.
    fn settled_doubts(&self, entries: &BTreeMap<u32, Tracked>) -> BTreeSet<u32> {
        let now = self.process.clock.monotonic();
        let mut doubts = self.process.doubts.lock();
        doubts.retain(|(key, object), _| {
            *key != self.key || entries.get(object).is_some_and(|tracked| tracked.is_doubtful)
        });
        entries
            .iter()
            .filter(|(_, tracked)| tracked.is_doubtful)
            .filter(|(object, _)| *doubts.entry((self.key, **object)).or_insert(now) + UNDER_WAY <= now)
            .map(|(object, _)| *object)
            .collect()
    }

    /// Enters what is about to be written; answers whether the inventory has to be stored first.
    fn write_ahead(
        &self,
        to_apply: &[u32],
        live: &BTreeMap<u32, LiveMeta>,
        entries: &mut BTreeMap<u32, Tracked>,
    ) -> bool {
        let mut is_news = false;
        for object in to_apply {
            is_news |= !entries.contains_key(object);
            let tracked = entries.entry(*object).or_default();
            if !live.contains_key(object) {
                is_news |= !tracked.is_doubtful;
                tracked.is_doubtful = true;
                let now = self.process.clock.monotonic();
                self.process.doubts.lock().insert((self.key, *object), now);
            }
        }
        is_news
    }

    async fn look(&self, objects: &BTreeSet<u32>) -> Result<BTreeMap<u32, LiveMeta>, Stopped> {
        let looks: Vec<_> = objects
            .iter()
            .map(|object| async move { (*object, self.target.metadata(&self.object_ref(*object)).await) })
            .collect();
        let mut looks = futures::stream::iter(looks).buffered(REQUESTS);
        let mut live = BTreeMap::new();
        while let Some((object, found)) = looks.next().await {
            if let Some(found) = found? {
                live.insert(object, found);
            }
        }
        Ok(live)
    }

    /// Applies; `before` is the inventory as it was before [`Work::write_ahead`].
    async fn write(
        &self,
        release: &Release,
        to_apply: &[u32],
        live: &BTreeMap<u32, LiveMeta>,
        before: &BTreeMap<u32, Tracked>,
        entries: &mut BTreeMap<u32, Tracked>,
    ) -> Result<(), Stopped> {
        let applies: Vec<_> = to_apply
            .iter()
            .map(|object| async move {
                let at = self.object_ref(*object);
                let mut metadata = json!({
                    "name": at.key.name,
                    "annotations": { REVISION: release.revision.to_string() },
                });
                // What is there is changed, and not made anew when it is gone by then.
                if let Some(seen) = live.get(object) {
                    metadata["uid"] = json!(seen.uid);
                }
                let manifest = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
                (*object, self.target.apply(&at, &manifest, true).await)
            })
            .collect();
        let mut applies = futures::stream::iter(applies).buffered(REQUESTS);
        let mut failed = None;
        while let Some((object, outcome)) = applies.next().await {
            match outcome {
                Ok(applied) => {
                    let entry =
                        Entry { resource_version: applied.resource_version, revision: release.revision };
                    // An answer tells nothing of earlier requests that had none.
                    let is_doubtful = before.get(&object).is_some_and(|tracked| tracked.is_doubtful);
                    entries.insert(object, Tracked { applied: Some(entry), is_doubtful });
                }
                Err(error) => {
                    failed = Some(error.into());
                    break;
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn prune(
        &self,
        to_prune: &[u32],
        live: &BTreeMap<u32, LiveMeta>,
        settled: &BTreeSet<u32>,
        entries: &mut BTreeMap<u32, Tracked>,
    ) -> Result<(), Stopped> {
        for object in to_prune {
            if let Some(seen) = live.get(object) {
                match self.target.delete(&self.object_ref(*object), seen).await {
                    Err(error) if error.class != Class::NotFound => return Err(error.into()),
                    _ => {}
                }
            }
            match entries.get_mut(object) {
                Some(tracked) if tracked.is_doubtful && !settled.contains(object) => tracked.applied = None,
                _ => _ = entries.remove(object),
            }
        }
        Ok(())
    }

    /// What the observer does.
    async fn observe(&self, release: &Release) -> Result<(), Stopped> {
        let live = self.look(&release.objects_of(release.delivered)).await?;
        let is_all = live.len() == release.objects_of(release.delivered).len();
        let seen = if is_all { release.delivered } else { 0 };
        if release.observed != seen {
            self.report(Report::Observed(seen)).await?;
        }
        Ok(())
    }

    fn writer(&self) -> Writer {
        Writer { shard: self.term.shard, epoch: self.term.epoch }
    }

    async fn put_inventory(&self, replaces: u64, entries: &BTreeMap<u32, Tracked>) -> Result<u64, Stopped> {
        let report = Report::Inventory { replaces, entries: entries.clone() };
        self.report(report).await.map(|stored| stored.inventory_version)
    }

    /// Writes to the API server as `convoy_runtime::HostWriter` does.
    async fn report(&self, report: Report) -> Result<Arc<Release>, Stopped> {
        let wire = &self.process.wire;
        let _permit = self.ownership.begin()?;
        let op = Op::Report { key: self.key, writer: self.writer(), report };
        let write = Write { term: self.term, cluster: self.cluster, is_to_target: false };
        let answer = tokio::select! {
            biased;
            () = self.ownership.lost() => return Err(Stopped::NotOwner),
            answer = wire.call(op, Some(write)) => answer,
        };
        match answer {
            Answer::Reported(Ok(release)) => Ok(release),
            Answer::Reported(Err(Refused::OlderEpoch(epoch))) => {
                self.process.shards.saw_epoch(self.term.shard, epoch);
                Err(Stopped::NotOwner)
            }
            _ => Err(Stopped::Failed),
        }
    }

    fn object_ref(&self, object: u32) -> ObjectRef {
        ObjectRef {
            key: ObjectKey {
                group: String::new(),
                kind: "ConfigMap".to_owned(),
                namespace: "web".to_owned(),
                name: format!("r{}-{object}", self.key),
            },
            version: "v1".to_owned(),
            plural: "configmaps".to_owned(),
        }
    }
}

/// The way to a simulated target, in one term.
struct ToTarget {
    wire: Wire,
    term: Term,
    key: u32,
    cluster: usize,
}

impl Transport for ToTarget {
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Bytes>, RequestError>> {
        async move {
            let unreachable = || RequestError {
                class: Class::Unreachable,
                code: 0,
                message: format!("no answer about release {}", self.key),
                fields: Vec::new(),
            };
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| unreachable())?.to_bytes();
            let write = (parts.method != http::Method::GET).then_some(Write {
                term: self.term,
                cluster: self.cluster,
                is_to_target: true,
            });
            let op = Op::Target {
                cluster: self.cluster,
                method: parts.method,
                path: parts.uri.path().to_owned(),
                body,
                epoch: self.term.epoch,
            };
            match self.wire.call(op, write).await {
                Answer::Http((code, body)) => {
                    Response::builder().status(code).body(body).map_err(|_| unreachable())
                }
                _ => Err(unreachable()),
            }
        }
        .boxed()
    }
}
