//! The driver of the lease protocol.
//!
//! It knows neither Kubernetes nor tokio's timers: a simulation runs it on its own API server, clock and
//! executor.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use convoy_shard::{
    Action, ApiServerShards, Event, Lease, LeaseKey, Moment, Note, Protocol, Settings, WriteError, WriteOp,
    Written,
};
use futures::future::{BoxFuture, Either, select};
use futures::stream::{FuturesUnordered, StreamExt as _};
use futures::{FutureExt as _, pin_mut};

use crate::shards::TermUpdate;
use crate::{Clock, Shards, Shutdown};

/// How many writes of leases are under way at a time. What is beyond waits its turn.
const CONCURRENT_WRITES: usize = 16;
/// How much longer than its own leases a process that stops waits for what it cannot release.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Where the leases are.
#[async_trait]
pub trait LeaseApi: Send + Sync {
    /// Reads all leases of the process kind; as they are now, or as a cache had them.
    ///
    /// # Errors
    /// [`ListFailed`], whatever the reason.
    async fn list(&self, is_consistent: bool) -> Result<Listed, ListFailed>;

    /// Writes one lease.
    ///
    /// # Errors
    /// See [`WriteError`].
    async fn write(&self, op: WriteOp, lease: &Lease) -> Result<Written, WriteError>;

    /// Asks the API server that holds convoy's objects how many shards it counts; only asked with
    /// [`Settings::asks_api_server`].
    async fn api_server_shards(&self) -> ApiServerShards {
        ApiServerShards::Unsaid
    }
}

/// All leases of a process kind.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The list's resourceVersion; 0 when it is no number.
    pub version: u64,
    /// The leases.
    pub leases: Vec<Arc<Lease>>,
}

/// The leases could not be read. The [`LeaseApi`] itself tells people why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the leases could not be read")]
pub struct ListFailed;

/// Told what the loop does: for metrics, logs, Events, readiness and traces. It must not block.
pub trait LeaseReport: Send {
    /// Something that people or metrics are told.
    fn note(&mut self, _note: &Note, _now: Moment) {}

    /// A write has ended, `took` after it was sent.
    fn wrote(&mut self, _key: &LeaseKey, _outcome: Result<(), WriteError>, _took: Duration) {}

    /// A step was made, and the table of owned shards is up to date.
    fn stepped(&mut self, _protocol: &Protocol, _now: Moment) {}
}

impl LeaseReport for () {}

/// How the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As asked: what could be released was.
    Stopped,
    /// As asked, but the API server did not take all releases, or writes did not end, in the time that the
    /// own leases last. They end by themselves.
    Overdue,
    /// Another process has the same replica id; the message says what to do.
    Twin {
        /// For people.
        message: String,
    },
}

/// Runs the lease loop of one replica until `shutdown`, and then until its shards are released; or until
/// a twin is found. However it ends, also when it is dropped or panics, nothing is owned afterwards.
pub async fn drive(
    api: &dyn LeaseApi,
    settings: Settings,
    shards: &Shards,
    clock: &dyn Clock,
    report: &mut dyn LeaseReport,
    shutdown: &Shutdown,
) -> Ended {
    let mut table = Table { shards, clock };
    let mut protocol = Protocol::new(settings.clone(), clock.moment());
    let mut requests =
        Requests { api, clock, settings, queued: VecDeque::new(), under_way: FuturesUnordered::new() };
    let mut writes_under_way = 0;
    let mut drains: FuturesUnordered<BoxFuture<'static, Event>> = FuturesUnordered::new();
    let mut give_up_at: Option<Duration> = None;
    let mut twin = None;
    let mut event = Event::Tick;
    loop {
        let now = clock.moment();
        let actions = protocol.step(event, now);
        table.update(&protocol, now);
        let mut is_over = false;
        for action in actions {
            match action {
                Action::List { is_consistent } => requests.list(is_consistent),
                Action::AskApiServer => requests.ask(),
                Action::Write { op, lease } => requests.queue(op, lease, now.monotonic),
                Action::Drain { shard, epoch } => {
                    let drained = shards.drained(shard, epoch);
                    drains.push(drained.map(move |()| Event::Drained { shard, epoch }).boxed());
                }
                Action::Note(note) => {
                    if let Note::Twin { message } = &note {
                        twin = Some(message.clone());
                    }
                    report.note(&note, now);
                }
                Action::End => is_over = true,
            }
        }
        report.stepped(&protocol, now);
        if is_over {
            return twin.map_or(Ended::Stopped, |message| Ended::Twin { message });
        }
        requests.start(&mut writes_under_way);
        event = match next(&mut requests, &mut drains, &protocol, &table, shutdown, give_up_at).await {
            Happened::Answered(answer) => {
                if let Some(wrote) = &answer.wrote {
                    writes_under_way -= 1;
                    report.wrote(&wrote.key, wrote.outcome, wrote.took);
                }
                answer.event
            }
            Happened::Event(event) => event,
            Happened::Shutdown => {
                give_up_at = Some(clock.monotonic() + protocol.hold_until() + STOP_GRACE);
                Event::Stop
            }
            Happened::Overdue => return Ended::Overdue,
        };
    }
}

/// What woke the loop.
enum Happened {
    Answered(Answer),
    Event(Event),
    Shutdown,
    Overdue,
}

async fn next(
    requests: &mut Requests<'_>,
    drains: &mut FuturesUnordered<BoxFuture<'static, Event>>,
    protocol: &Protocol,
    table: &Table<'_>,
    shutdown: &Shutdown,
    give_up_at: Option<Duration>,
) -> Happened {
    if let Some((shard, epoch)) = table.next_epoch_seen() {
        return Happened::Event(Event::EpochSeen { shard, epoch });
    }
    let answered = async {
        // An empty set ends at once and would be looked at again and again.
        match requests.under_way.next().await {
            Some(answer) => Happened::Answered(answer),
            None => std::future::pending().await,
        }
    };
    let drained = async {
        match drains.next().await {
            Some(event) => Happened::Event(event),
            None => std::future::pending().await,
        }
    };
    let epoch_seen = async {
        table.shards.epoch_seen().await;
        Happened::Event(Event::Tick)
    };
    let told = async {
        match give_up_at {
            None => {
                shutdown.wait().await;
                Happened::Shutdown
            }
            Some(at) => {
                table.clock.sleep_until(at).await;
                Happened::Overdue
            }
        }
    };
    let woken = async {
        table.clock.sleep_until(protocol.next_wakeup()).await;
        Happened::Event(Event::Tick)
    };
    // The order is that of importance, and the same in each run of a simulation.
    tokio::select! {
        biased;
        happened = told => happened,
        happened = epoch_seen => happened,
        happened = answered => happened,
        happened = drained => happened,
        happened = woken => happened,
    }
}

/// The table of owned shards, which is emptied when the loop ends, in whatever way.
struct Table<'a> {
    shards: &'a Shards,
    clock: &'a dyn Clock,
}

impl Table<'_> {
    fn update(&mut self, protocol: &Protocol, now: Moment) {
        let (write_until, hold_until) = (protocol.write_until(), protocol.hold_until());
        self.shards.update(&TermUpdate { held: protocol.held(), write_until, hold_until }, now);
    }

    fn next_epoch_seen(&self) -> Option<(u32, u64)> {
        self.shards.take_epoch_seen()
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        let now = self.clock.moment();
        let none =
            TermUpdate { held: &BTreeMap::new(), write_until: Duration::ZERO, hold_until: Duration::ZERO };
        self.shards.update(&none, now);
    }
}

/// An answer, or that there was none in time.
struct Answer {
    event: Event,
    wrote: Option<Wrote>,
}

struct Wrote {
    key: LeaseKey,
    outcome: Result<(), WriteError>,
    took: Duration,
}

struct Requests<'a> {
    api: &'a dyn LeaseApi,
    clock: &'a dyn Clock,
    settings: Settings,
    /// Writes that wait for their turn, and when their time is up.
    queued: VecDeque<(WriteOp, Lease, Duration)>,
    under_way: FuturesUnordered<BoxFuture<'a, Answer>>,
}

impl Requests<'_> {
    /// Reads need no turn: the protocol has one under way at most.
    fn list(&mut self, is_consistent: bool) {
        let (api, clock) = (self.api, self.clock);
        let sent = clock.moment();
        let deadline = sent.monotonic + self.settings.request_deadline();
        let request = async move {
            let event = match within(clock, deadline, api.list(is_consistent)).await {
                Some(Ok(Listed { version, leases })) => {
                    Event::Listed { sent, is_consistent, version, leases }
                }
                Some(Err(ListFailed)) | None => Event::ListFailed,
            };
            Answer { event, wrote: None }
        };
        self.under_way.push(request.boxed());
    }

    /// One is under way at most, as for reads.
    fn ask(&mut self) {
        let (api, clock) = (self.api, self.clock);
        let deadline = clock.monotonic() + self.settings.request_deadline();
        let request = async move {
            let answer = within(clock, deadline, api.api_server_shards()).await;
            let event = Event::ApiServerCounts(answer.unwrap_or(ApiServerShards::NoAnswer));
            Answer { event, wrote: None }
        };
        self.under_way.push(request.boxed());
    }

    /// The time that a write waits for its turn counts, so that an API server that hangs cannot make the
    /// queue outlast the leases.
    fn queue(&mut self, op: WriteOp, lease: Lease, now: Duration) {
        let entry = (op, lease, now + self.settings.request_deadline());
        match entry.1.key {
            // Without it all else is in vain.
            LeaseKey::Member(_) => self.queued.push_front(entry),
            LeaseKey::Shard(_) => self.queued.push_back(entry),
        }
    }

    fn start(&mut self, under_way: &mut usize) {
        while *under_way < CONCURRENT_WRITES {
            let Some((op, lease, deadline)) = self.queued.pop_front() else { return };
            *under_way += 1;
            let (api, clock) = (self.api, self.clock);
            let request = async move {
                let sent = clock.moment();
                let answer = within(clock, deadline, api.write(op, &lease)).await;
                let outcome = answer.unwrap_or(Err(WriteError::Failed));
                let took = clock.monotonic().saturating_sub(sent.monotonic);
                let wrote = Wrote {
                    key: lease.key.clone(),
                    outcome: outcome.as_ref().map(|_| ()).map_err(|error| *error),
                    took,
                };
                Answer { event: Event::Written { key: lease.key, sent, outcome }, wrote: Some(wrote) }
            };
            self.under_way.push(request.boxed());
        }
    }
}

/// What a request answers, or nothing when the deadline has come.
async fn within<T>(clock: &dyn Clock, deadline: Duration, request: impl Future<Output = T>) -> Option<T> {
    if clock.monotonic() >= deadline {
        return None;
    }
    let late = clock.sleep_until(deadline);
    pin_mut!(request);
    match select(request, late).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}
