//! The driver on leases in memory and on clocks set by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use convoy_shard::{
    ApiServerShards, Lease, LeaseKey, Moment, Note, ProcessKind, Protocol, Settings, WriteError, WriteOp,
    Written,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::{Ended, LeaseApi, LeaseReport, ListFailed, Listed, drive};
use crate::{Clock, ManualClock, Shards, Shutdown};

/// Leases as an API server keeps them.
#[derive(Clone, Default)]
struct Leases {
    inner: Arc<Mutex<Stored>>,
}

#[derive(Default)]
struct Stored {
    version: u64,
    leases: BTreeMap<LeaseKey, Arc<Lease>>,
    /// Requests of these replicas get no answer.
    hanging: BTreeSet<String>,
    writes: usize,
    under_way: usize,
    most_under_way: usize,
    /// What the API server says of the number of shards.
    counted: Option<u32>,
}

impl Leases {
    fn holder(&self, shard: u32) -> Option<String> {
        self.inner.lock().leases.get(&LeaseKey::Shard(shard)).and_then(|lease| lease.holder.clone())
    }

    fn api(&self, replica: &str) -> Api {
        Api { leases: self.clone(), replica: replica.to_owned() }
    }
}

struct Api {
    leases: Leases,
    replica: String,
}

impl Api {
    async fn answer(&self) {
        // A request takes a turn at least, and as long as the script wants.
        tokio::task::yield_now().await;
        let hangs = self.leases.inner.lock().hanging.contains(&self.replica);
        if hangs {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl LeaseApi for Api {
    async fn list(&self, _is_consistent: bool) -> Result<Listed, ListFailed> {
        self.answer().await;
        let stored = self.leases.inner.lock();
        Ok(Listed { version: stored.version, leases: stored.leases.values().cloned().collect() })
    }

    async fn api_server_shards(&self) -> ApiServerShards {
        self.answer().await;
        let counted = self.leases.inner.lock().counted.and_then(NonZeroU32::new);
        counted.map_or(ApiServerShards::Unsaid, ApiServerShards::Count)
    }

    async fn write(&self, op: WriteOp, lease: &Lease) -> Result<Written, WriteError> {
        {
            let mut stored = self.leases.inner.lock();
            stored.under_way += 1;
            stored.most_under_way = stored.most_under_way.max(stored.under_way);
        }
        self.answer().await;
        let mut stored = self.leases.inner.lock();
        stored.under_way -= 1;
        let known = stored.leases.get(&lease.key).map(|known| known.resource_version.clone());
        let fits = match op {
            WriteOp::Create => known.is_none(),
            WriteOp::Update | WriteOp::Delete => known.as_ref() == Some(&lease.resource_version),
        };
        if !fits {
            return Err(WriteError::Conflict);
        }
        stored.version += 1;
        stored.writes += 1;
        if op == WriteOp::Delete {
            stored.leases.remove(&lease.key);
            return Ok(Written::Deleted);
        }
        let mut lease = lease.clone();
        lease.resource_version = stored.version.to_string();
        if lease.uid.is_empty() {
            lease.uid = format!("uid-{}", stored.version);
        }
        let lease = Arc::new(lease);
        stored.leases.insert(lease.key.clone(), Arc::clone(&lease));
        Ok(Written::Stored(lease))
    }
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Note>>>);

impl LeaseReport for Notes {
    fn note(&mut self, note: &Note, _now: Moment) {
        self.0.lock().push(note.clone());
    }
}

struct Replica {
    shards: Shards,
    shutdown: Shutdown,
    notes: Notes,
    task: JoinHandle<Ended>,
}

const SHARDS: NonZeroU32 = NonZeroU32::new(4).unwrap();

fn settings(replica: &str) -> Settings {
    let mut settings = Settings::new(ProcessKind::ControllerManager, replica, format!("boot-of-{replica}"));
    settings.shards = SHARDS;
    settings
}

fn start(leases: &Leases, clock: &ManualClock, settings: Settings) -> Replica {
    let shards = Shards::new(settings.shards, Arc::new(clock.clone()));
    let (shutdown, notes) = (Shutdown::new(), Notes::default());
    let api = leases.api(&settings.replica_id);
    let task = tokio::spawn({
        let (shards, shutdown, clock, mut report) =
            (shards.clone(), shutdown.clone(), clock.clone(), notes.clone());
        async move { drive(&api, settings, &shards, &clock, &mut report, &shutdown).await }
    });
    Replica { shards, shutdown, notes, task }
}

impl Replica {
    fn owned(&self) -> Vec<u32> {
        self.shards.owned().keys().copied().collect()
    }

    async fn ended(self) -> Ended {
        for _ in 0..1000 {
            if self.task.is_finished() {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert!(self.task.is_finished(), "the driver has not ended");
        self.task.await.unwrap()
    }
}

/// Lets tasks run, then moves the clock, in steps of a tenth of a second.
async fn pass(clock: &ManualClock, span: Duration) {
    let end = clock.monotonic() + span;
    loop {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        if clock.monotonic() >= end {
            return;
        }
        clock.advance(Duration::from_millis(100));
    }
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::UNIX_EPOCH)
}

/// One replica on leases that were there before, so that nothing waits for a first lease duration.
async fn settled(leases: &Leases, clock: &ManualClock, replica: &str) -> Replica {
    let first = start(leases, clock, settings(replica));
    pass(clock, seconds(31)).await;
    assert_eq!(first.owned(), [0, 1, 2, 3]);
    first
}

#[tokio::test]
async fn leases_that_were_not_there_are_acted_on_after_one_duration() {
    let (leases, clock) = (Leases::default(), clock());
    let one = start(&leases, &clock, settings("cm-0"));
    pass(&clock, seconds(29)).await;
    assert_eq!(leases.holder(3).as_deref(), Some("cm-0"));
    assert!(one.owned().is_empty() && one.shards.guard(0).is_err());
    pass(&clock, seconds(2)).await;
    assert_eq!(one.owned(), [0, 1, 2, 3]);
    let mut sole = settings("other");
    sole.is_sole = true;
    let sole = start(&Leases::default(), &clock, sole);
    pass(&clock, seconds(0)).await;
    assert_eq!(sole.owned(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn i7_a_hand_over_waits_for_the_writes_under_way() {
    let (leases, clock) = (Leases::default(), clock());
    let one = settled(&leases, &clock, "cm-0").await;
    let guard = one.shards.guard(1).unwrap();
    let permit = guard.begin().unwrap();
    let two = start(&leases, &clock, settings("cm-1"));
    pass(&clock, seconds(20)).await;
    assert_eq!((one.owned(), two.owned()), (vec![0, 2], vec![3]));
    assert!(guard.begin().is_err(), "no new write starts");
    assert_eq!(leases.holder(1).as_deref(), Some("cm-0"));
    drop(permit);
    pass(&clock, seconds(3)).await;
    assert_eq!(two.owned(), [1, 3]);
}

/// The permit stands for work that stands still: all else ends within the grace.
#[tokio::test]
async fn i2_a_hand_over_does_not_wait_for_ever_for_a_write_that_does_not_end() {
    let (leases, clock) = (Leases::default(), clock());
    let one = settled(&leases, &clock, "cm-0").await;
    let guard = one.shards.guard(1).unwrap();
    let permit = guard.begin().unwrap();
    let two = start(&leases, &clock, settings("cm-1"));
    pass(&clock, seconds(50)).await;
    assert_eq!((one.owned(), two.owned()), (vec![0, 2], vec![1, 3]));
    drop(permit);
    pass(&clock, seconds(20)).await;
    assert_eq!((one.owned(), two.owned()), (vec![0, 2], vec![1, 3]));
}

#[tokio::test]
async fn i2_the_shards_of_a_replica_that_dies_are_taken_within_duration_and_interval() {
    let (leases, clock) = (Leases::default(), clock());
    let one = settled(&leases, &clock, "cm-0").await;
    let two = start(&leases, &clock, settings("cm-1"));
    pass(&clock, seconds(13)).await;
    assert_eq!(two.owned(), [1, 3]);
    let epoch = one.shards.owned()[&0];
    one.task.abort();
    pass(&clock, Duration::ZERO).await;
    assert!(one.owned().is_empty(), "a driver that is cut off leaves nothing owned");
    pass(&clock, seconds(40)).await;
    assert_eq!(two.owned(), [0, 1, 2, 3]);
    assert!(two.shards.owned()[&0] > epoch);
    let notes = two.notes.0.lock();
    let taken = |note: &&Note| matches!(note, Note::Gained { how: convoy_shard::Acquired::TakenOver { from, .. }, .. } if from == "cm-0");
    assert_eq!(notes.iter().filter(taken).count(), 2, "{notes:?}");
}

#[tokio::test]
async fn sc26_stop_releases_the_shards_and_leaves_the_member_lease() {
    let (leases, clock) = (Leases::default(), clock());
    let one = settled(&leases, &clock, "cm-0").await;
    one.shutdown.trigger();
    assert_eq!(one.ended().await, Ended::Stopped);
    assert_eq!((0..4).filter_map(|shard| leases.holder(shard)).count(), 0);
    let member = LeaseKey::Member("cm-0".to_owned());
    assert!(leases.inner.lock().leases[&member].holder.is_some());

    let mut leaving = settings("cm-1");
    leaving.release_member_on_exit = true;
    let two = start(&leases, &clock, leaving);
    pass(&clock, seconds(40)).await;
    assert_eq!(two.owned(), [0, 1, 2, 3]);
    two.shutdown.trigger();
    assert_eq!(two.ended().await, Ended::Stopped);
    assert!(!leases.inner.lock().leases.contains_key(&LeaseKey::Member("cm-1".to_owned())));
}

#[tokio::test]
async fn i6_requests_that_hang_end_the_ownership_and_no_more_than_sixteen_are_under_way() {
    let (leases, clock) = (Leases::default(), clock());
    let mut many = settings("cm-0");
    many.shards = NonZeroU32::new(64).unwrap();
    many.is_sole = true;
    let one = start(&leases, &clock, many);
    pass(&clock, seconds(3)).await;
    assert_eq!(one.owned().len(), 64);
    assert!(leases.inner.lock().most_under_way <= 16);
    leases.inner.lock().hanging.insert("cm-0".to_owned());
    pass(&clock, seconds(31)).await;
    assert!(one.owned().is_empty());
    leases.inner.lock().hanging.clear();
    pass(&clock, seconds(8)).await;
    assert_eq!(one.owned().len(), 64, "it goes on as soon as the API server answers");
    leases.inner.lock().hanging.insert("cm-0".to_owned());
    one.shutdown.trigger();
    pass(&clock, seconds(31)).await;
    assert!(matches!(one.ended().await, Ended::Stopped | Ended::Overdue));
}

#[tokio::test]
async fn i8_a_process_with_the_same_id_ends_and_says_why() {
    let (leases, clock) = (Leases::default(), clock());
    let one = settled(&leases, &clock, "cm-0").await;
    let mut twin = settings("cm-0");
    twin.boot_id = "another-boot".to_owned();
    let twin = start(&leases, &clock, twin);
    pass(&clock, seconds(31)).await;
    let Ended::Twin { message } = twin.ended().await else { panic!("no twin was found") };
    assert!(message.contains("--replica-id cm-0"), "{message}");
    assert_eq!(one.owned(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn i5_an_epoch_seen_elsewhere_is_passed_on_and_the_shard_gets_a_later_one() {
    let (leases, clock) = (Leases::default(), clock());
    let one = settled(&leases, &clock, "cm-0").await;
    let guard = one.shards.guard(2).unwrap();
    one.shards.saw_epoch(2, 41);
    pass(&clock, seconds(3)).await;
    assert!(guard.check().is_err());
    assert_eq!(one.shards.owned()[&2], 42);
    assert_eq!(one.shards.guard(2).unwrap().epoch(), 42);
}

struct Panics;

impl LeaseReport for Panics {
    fn stepped(&mut self, protocol: &Protocol, _now: Moment) {
        assert!(protocol.held().len() < 3, "a defect");
    }
}

#[tokio::test]
async fn a_panic_leaves_nothing_owned() {
    let (leases, clock) = (Leases::default(), clock());
    let mut sole = settings("cm-0");
    sole.is_sole = true;
    let shards = Shards::new(sole.shards, Arc::new(clock.clone()));
    let task = tokio::spawn({
        let shards = shards.clone();
        async move {
            let (api, clock) = (leases.api("cm-0"), clock);
            drive(&api, sole, &shards, &clock, &mut Panics, &Shutdown::new()).await
        }
    });
    assert!(task.await.unwrap_err().is_panic());
    assert!(shards.owned().is_empty() && shards.guard(0).is_err());
}

#[tokio::test]
async fn sc14_i7_an_api_server_that_counts_other_shards_is_asked_in_each_interval_and_writes_end_first() {
    let (leases, clock) = (Leases::default(), clock());
    leases.inner.lock().counted = Some(4);
    let mut asking = settings("cm-0");
    asking.asks_api_server = true;
    let one = start(&leases, &clock, asking);
    pass(&clock, seconds(31)).await;
    assert_eq!(one.owned(), [0, 1, 2, 3]);
    let guard = one.shards.guard(1).unwrap();
    let permit = guard.begin().unwrap();
    leases.inner.lock().counted = Some(16);
    pass(&clock, seconds(11)).await;
    assert!(one.owned().is_empty() && guard.begin().is_err(), "no new write starts");
    assert_eq!(leases.holder(1).as_deref(), Some("cm-0"), "one goes on");
    drop(permit);
    pass(&clock, seconds(1)).await;
    assert_eq!((0..4).filter_map(|shard| leases.holder(shard)).count(), 0);
    let notes = one.notes.0.lock().clone();
    let told = |note: &&Note| matches!(note, Note::ApiServerCounts { disagreement: Some(message), .. } if message.contains("start it with --shards 16"));
    assert_eq!(notes.iter().filter(told).count(), 1, "{notes:?}");
    // One that hangs says nothing new.
    leases.inner.lock().hanging.insert("cm-0".to_owned());
    pass(&clock, seconds(20)).await;
    leases.inner.lock().hanging.clear();
    leases.inner.lock().counted = Some(4);
    pass(&clock, seconds(13)).await;
    assert!(
        one.owned().is_empty(),
        "what is free may have been acquired, and a restore have taken that back"
    );
    pass(&clock, seconds(30)).await;
    assert_eq!(one.owned(), [0, 1, 2, 3]);
}
