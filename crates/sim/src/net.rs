//! Requests on their way: delays, losses, cuts, and what servers answer.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use convoy_runtime::Clock as _;
use convoy_shard::{Lease, ProcessKind, WriteError, WriteOp, Written};
use futures::future::{Either, select};
use http::Method;
use parking_lot::Mutex;

use crate::check::Write;
use crate::hub::{LeaseList, Refused, Release, Report, Writer};
use crate::target::{self, Asker, HttpAnswer};
use crate::time::{MS, NodeClock, SEC};
use crate::world::{Event, Sim, World};

/// How long a process waits for an answer, as `convoy-apply` and `convoy-runtime` do.
const DEADLINE: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    ListLeases { is_consistent: bool },
    WriteLease { op: WriteOp, lease: Lease },
    ListShard { shard: u32 },
    Report { key: u32, writer: Writer, report: Report },
    Target { cluster: usize, method: Method, path: String, body: Bytes, epoch: u64 },
}

/// What was answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Leases(u64, LeaseList),
    Lease(Result<Written, WriteError>),
    Releases(Vec<Arc<Release>>),
    Reported(Result<Arc<Release>, Refused>),
    Http(HttpAnswer),
    /// The API server's refusal, whatever was asked.
    Trouble,
    /// The connection was reset, or there was no answer in time.
    Nothing,
}

/// A request that was sent.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) wire: Wire,
    pub(crate) op: Op,
    pub(crate) write: Option<u64>,
    pub(crate) slot: Arc<Slot>,
}

/// Where the answer of a request is put.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    inner: Mutex<(Option<Answer>, Option<Waker>)>,
}

impl Slot {
    pub(crate) fn fill(&self, answer: Answer) {
        let waker = {
            let mut inner = self.inner.lock();
            inner.0 = Some(answer);
            inner.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Answer> {
        let mut inner = self.inner.lock();
        match inner.0.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                inner.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// One process's end of the network.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) sim: Arc<Sim>,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) pid: u64,
    pub(crate) node: usize,
    pub(crate) kind: ProcessKind,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("pid", &self.pid).field("node", &self.node).finish_non_exhaustive()
    }
}

/// Ends a write for the checks, when it was answered or given up.
struct UnderWay {
    sim: Arc<Sim>,
    id: u64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.sim.world.lock().check.ended(self.id);
    }
}

impl Wire {
    /// Sends a request and waits for its answer. `write` is what the checks have to know of a write that
    /// needs ownership.
    pub(crate) async fn call(&self, op: Op, write: Option<Write>) -> Answer {
        // A process may be stopped between its check and the system call that sends.
        let hangs = write.is_some() && self.sim.world.lock().hangs_at_the_wire(&self.sim, self.node);
        if hangs {
            yield_once().await;
        }
        let slot = Arc::new(Slot::default());
        let bounded = !matches!(op, Op::ListLeases { .. } | Op::WriteLease { .. });
        let write = self.sim.world.lock().send(self, op, write, &slot);
        let _under_way = write.map(|id| UnderWay { sim: Arc::clone(&self.sim), id });
        let answered = std::future::poll_fn(|cx| slot.poll(cx));
        if !bounded {
            // The lease driver bounds these itself.
            return answered.await;
        }
        match select(answered, self.clock.sleep(DEADLINE)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Answer::Nothing,
        }
    }
}

async fn yield_once() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl World {
    fn send(&mut self, wire: &Wire, op: Op, write: Option<Write>, slot: &Arc<Slot>) -> Option<u64> {
        let sim = &wire.sim;
        let now = sim.now.get();
        let write = write.map(|write| self.sent(write, wire, now));
        let node = &self.nodes[wire.node];
        let may_be_late = node.are_writes_late;
        let (is_cut, delay) = match &op {
            Op::Target { .. } => (node.targets_cut, self.target_delay()),
            _ => (node.hub_cut_out, self.hub_delay()),
        };
        let is_late = write.is_some() && may_be_late && self.rng.chance(300);
        let delay = if is_late { self.rng.between(3, 60) * SEC } else { delay };
        if is_cut {
            if self.rng.chance(500) {
                let event = Event::Answer { slot: Arc::clone(slot), write, answer: Answer::Nothing };
                sim.schedule.event_at(now + 10 * MS, event);
            }
            return write;
        }
        let flight = Flight { wire: wire.clone(), op, write, slot: Arc::clone(slot) };
        sim.schedule.event_at(now + delay, Event::Arrive(Box::new(flight)));
        write
    }

    fn hub_delay(&mut self) -> u64 {
        let usual = self.rng.between(MS / 2, 25 * MS);
        if self.hub_trouble.slow_permille > 0 && self.rng.chance(self.hub_trouble.slow_permille) {
            return self.rng.span(100 * MS, 60 * SEC);
        }
        usual
    }

    fn target_delay(&mut self) -> u64 {
        if self.target_trouble.slow_permille > 0 && self.rng.chance(self.target_trouble.slow_permille) {
            return self.rng.span(100 * MS, 60 * SEC);
        }
        self.rng.between(MS, 2 * self.target_pace)
    }

    /// A request reached its server.
    pub(crate) fn arrive(&mut self, sim: &Arc<Sim>, flight: Box<Flight>) {
        let now = sim.now.get();
        let Flight { wire, op, write, slot } = *flight;
        let is_target = matches!(op, Op::Target { .. });
        // Else whoever sent it gave it up, or is dead.
        let is_waited_for = Arc::strong_count(&slot) > 1;
        if !is_target && now < self.restored_at {
            self.disrupt_all(now);
            let event = Event::Answer { slot, write, answer: Answer::Trouble };
            sim.schedule.event_at(now + MS, event);
            return;
        }
        let answer = if is_target {
            self.target_answer(&wire, op, now)
        } else {
            self.hub_answer(sim, &wire, op, is_waited_for, now)
        };
        let node = &self.nodes[wire.node];
        let is_cut = if is_target { node.targets_cut } else { node.hub_cut_in };
        let trouble = if is_target { self.target_trouble } else { self.hub_trouble };
        if is_cut || (trouble.lost_permille > 0 && self.rng.chance(trouble.lost_permille)) {
            return;
        }
        let delay = if is_target { self.rng.between(MS, 5 * MS) } else { self.hub_delay() };
        sim.schedule.event_at(now + delay, Event::Answer { slot, write, answer });
    }

    fn target_answer(&mut self, wire: &Wire, op: Op, now: u64) -> Answer {
        let Op::Target { cluster, method, path, body, epoch } = op else { return Answer::Trouble };
        if self.target_trouble.errors_permille > 0 && self.rng.chance(self.target_trouble.errors_permille) {
            let code = self.rng.pick(&[429_u16, 500, 503, 401]).unwrap_or(500);
            return Answer::Http(target::error(code));
        }
        let asker = Asker { pid: wire.pid, epoch, now };
        let before = self.clusters[cluster].changes;
        let answer = self.clusters[cluster].answer(&method, &path, &body, asker);
        if self.clusters[cluster].changes != before {
            self.trace(now, Some(wire.node), || {
                format!("cluster {cluster} took {method} {path} of pid {} epoch {epoch}", wire.pid)
            });
        }
        Answer::Http(answer)
    }

    fn hub_answer(&mut self, sim: &Arc<Sim>, wire: &Wire, op: Op, is_waited_for: bool, now: u64) -> Answer {
        let trouble = self.hub_trouble;
        let is_write = matches!(op, Op::WriteLease { .. } | Op::Report { .. });
        if self.nodes[wire.node].is_token_expired
            || (trouble.errors_permille > 0 && self.rng.chance(trouble.errors_permille))
            || (is_write && trouble.refuses_writes)
        {
            if is_write {
                self.trace(now, Some(wire.node), || {
                    format!("the API server refuses a write of pid {}", wire.pid)
                });
            }
            return Answer::Trouble;
        }
        match op {
            Op::ListLeases { is_consistent } => {
                let most = self.nodes[wire.node].list_lag;
                let lag = if is_consistent { 0 } else { self.rng.below(most) };
                let (version, leases) = self.hub.list(wire.kind, lag, now);
                Answer::Leases(version, leases)
            }
            Op::WriteLease { op, lease } => {
                Answer::Lease(self.write_lease(wire, op, &lease, is_waited_for, now))
            }
            Op::ListShard { shard } => {
                self.watch(wire.pid, shard);
                Answer::Releases(self.hub.list_shard(shard))
            }
            Op::Report { key, writer, report } => {
                let is_inventory = matches!(report, Report::Inventory { .. });
                let answer = self.hub.report(wire.kind, key, writer, report);
                self.trace(now, Some(wire.node), || {
                    let outcome = match &answer {
                        Ok(_) => "taken".to_owned(),
                        Err(refused) => format!("{refused:?}"),
                    };
                    format!(
                        "report of pid {} on release {key} in epoch {}: {outcome}",
                        wire.pid, writer.epoch
                    )
                });
                if let Ok(release) = &answer {
                    self.check.report_taken(wire.kind, key, is_inventory, writer, now);
                    self.tell_watchers(sim, &Arc::clone(release), None);
                }
                Answer::Reported(answer)
            }
            Op::Target { .. } => Answer::Trouble,
        }
    }
}
