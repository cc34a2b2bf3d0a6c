//! The faults.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;

use super::{LOOK_ALLOWANCE, PLANNED, Round, Run, short};
use crate::fleet::{Part, Replica, START, wait};

/// What is done to processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`. In every second round a process with the same id starts at once; else one with a new id,
    /// after the takeover.
    Kill,
    /// SIGSTOP, and SIGCONT later.
    Stop,
    /// SIGTERM; a process with a new id starts after the takeover.
    Term,
    /// SIGTERM for each process in turn, the next one as soon as its successor is ready. In every second round
    /// the successors have the same ids.
    Rolling,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Kill, Self::Stop, Self::Term, Self::Rolling];

    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Term => "term",
            Self::Rolling => "rolling",
        }
    }
}

/// A replica that was hit.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) part: Part,
    id: String,
    pub(super) shards: Vec<u32>,
    pub(super) at: Timestamp,
    /// The start of the process that was hit: a request of it may still be carried out after the fault.
    boot: String,
    /// Whether a process with the same id may own the shards again.
    may_return: bool,
    /// From when on the very process that was hit may own them again.
    resumed: Option<Timestamp>,
}

impl Run {
    pub(super) fn carry_out(&mut self, fault: Fault, round: &mut Round) -> anyhow::Result<()> {
        // One of each part: their leases are apart, so both are judged in one round.
        let victims = Part::ALL.map(|part| {
            let replicas = self.fleet.of(part);
            let index = self.random.below(u32::try_from(replicas.len()).unwrap_or(1)) as usize;
            replicas.get(index).map(|replica| replica.id.clone()).unwrap_or_default()
        });
        round.what = victims.join(" and ");
        let is_even = round.number.is_multiple_of(2);
        match fault {
            Fault::Kill => {
                let mut hits = Vec::new();
                for id in &victims {
                    hits.push(self.hit(id, "KILL", is_even)?);
                    self.fleet.remove(id);
                }
                if is_even {
                    round.what.push_str(", same ids at once");
                    self.replace(&victims, true)?;
                }
                self.await_takeover(&hits, round);
                if !is_even {
                    self.replace(&victims, false)?;
                }
            }
            Fault::Stop => {
                let (shortest, longest) = self.options.stops;
                let share = self.random.below(1000);
                let pause = shortest + (longest - shortest) * share / 1000;
                round.what.push_str(&format!(" for {:.1} s", pause.as_secs_f64()));
                let mut hits = Vec::new();
                for id in &victims {
                    hits.push(self.hit(id, "STOP", true)?);
                }
                wait(pause, || None::<()>);
                for (id, hit) in victims.iter().zip(&mut hits) {
                    self.replica(id)?.process.signal("CONT")?;
                    hit.resumed = Some(Timestamp::now());
                }
                self.await_takeover(&hits, round);
            }
            Fault::Term => {
                let hits = self.terminate(&victims, round)?;
                self.await_takeover(&hits, round);
                self.replace(&victims, false)?;
            }
            Fault::Rolling => {
                round.what = if is_even { "all, same ids" } else { "all, new ids" }.to_owned();
                self.roll(is_even, round)?;
            }
        }
        Ok(())
    }

    fn roll(&mut self, same_ids: bool, round: &mut Round) -> anyhow::Result<()> {
        let ids = |part| self.fleet.of(part).iter().map(|replica| replica.id.clone()).collect::<Vec<_>>();
        let (managers, observers) = (ids(Part::ControllerManager), ids(Part::Observer));
        let mut hits = Vec::new();
        let patience = self.fleet.timing().bound() + Duration::from_secs(15);
        for pair in managers.into_iter().zip(observers) {
            let pair = [pair.0, pair.1];
            hits.extend(self.terminate(&pair, round)?);
            self.replace(&pair, same_ids)?;
            let is_ready = wait(patience, || self.fleet.replicas.iter().all(Replica::is_ready).then_some(()));
            if is_ready.is_none() {
                let unready = self.fleet.replicas.iter().filter(|replica| !replica.is_ready());
                let unready: Vec<&str> = unready.map(|replica| replica.id.as_str()).collect();
                round.violations.push(format!("{unready:?} not ready after {} s", patience.as_secs()));
            }
        }
        self.await_takeover(&hits, round);
        Ok(())
    }

    fn replica(&self, id: &str) -> anyhow::Result<&Replica> {
        self.fleet.replicas.iter().find(|replica| replica.id == id).with_context(|| format!("no {id}"))
    }

    fn hit(&mut self, id: &str, signal: &str, may_return: bool) -> anyhow::Result<Hit> {
        let replica = self.replica(id)?;
        let part = replica.part;
        let shards = self.fleet.leases(part, |leases| leases.held_by(id));
        let boot = self.fleet.leases(part, |leases| {
            shards.first().and_then(|shard| leases.boot(*shard)).unwrap_or_default().to_owned()
        });
        let at = Timestamp::now();
        replica.process.signal(signal).with_context(|| format!("signal {signal} to {id}"))?;
        let hit = Hit { part, id: id.to_owned(), shards, at, boot, may_return, resumed: None };
        self.hits.push(hit.clone());
        Ok(hit)
    }

    /// SIGTERM, and waits until they ended.
    fn terminate(&mut self, ids: &[String], round: &mut Round) -> anyhow::Result<Vec<Hit>> {
        let mut hits = Vec::new();
        for id in ids {
            hits.push(self.hit(id, "TERM", false)?);
        }
        for id in ids {
            if let Some(replica) = self.fleet.remove(id)
                && wait(START, || replica.process.has_ended().then_some(())).is_none()
            {
                round.violations.push(format!("{id} did not end within {} s of SIGTERM", START.as_secs()));
            }
        }
        Ok(hits)
    }

    /// Starts a successor for each.
    fn replace(&mut self, ids: &[String; 2], same_ids: bool) -> anyhow::Result<()> {
        self.names += 1;
        for (part, old) in Part::ALL.into_iter().zip(ids) {
            let id = if same_ids { old.clone() } else { format!("{}-{}", short(part), self.names) };
            self.fleet.add(part, &id)?;
        }
        Ok(())
    }

    /// Waits until every shard of those that were hit is owned again, and notes how long that took.
    fn await_takeover(&self, hits: &[Hit], round: &mut Round) {
        let timing = self.fleet.timing();
        let is_planned = self.options.release_member_on_exit;
        for hit in hits {
            let is_planned = is_planned && matches!(round.fault, Fault::Term | Fault::Rolling);
            let bound = if is_planned { PLANNED } else { timing.bound() };
            let covered = |shard: u32| {
                self.fleet.leases(hit.part, |leases| {
                    leases.covered_after(shard, hit.at, |sighting| {
                        let is_same = sighting.boot == hit.boot;
                        !is_same || hit.resumed.is_some_and(|resumed| sighting.at > resumed)
                    })
                })
            };
            let patience = timing.bound() * 2 + Duration::from_secs(10);
            let times = wait(patience, || {
                hit.shards.iter().map(|shard| covered(*shard)).collect::<Option<Vec<Timestamp>>>()
            });
            let Some(times) = times else {
                let still: Vec<u32> =
                    hit.shards.iter().copied().filter(|shard| covered(*shard).is_none()).collect();
                let (id, seconds) = (&hit.id, patience.as_secs());
                round.violations.push(format!("shards {still:?} of {id} unowned for {seconds} s"));
                round.takeovers.push(patience);
                continue;
            };
            let worst =
                times.iter().map(|at| at.duration_since(hit.at).unsigned_abs()).max().unwrap_or_default();
            round.takeovers.push(worst);
            // While members that stopped still count, a shard may go from one to the next: the bound counts from
            // the last stop.
            let last = hits.iter().filter(|other| other.part == hit.part).map(|other| other.at).max();
            let before_last = last.map_or(Duration::ZERO, |last| last.duration_since(hit.at).unsigned_abs());
            if worst.saturating_sub(before_last) > bound + LOOK_ALLOWANCE {
                round.violations.push(format!(
                    "the shards of {} were owned again only after {:.1} s, not within {:.1} s",
                    hit.id,
                    worst.as_secs_f64(),
                    bound.as_secs_f64()
                ));
            }
            if hit.part == Part::ControllerManager && round.fault != Fault::Rolling {
                round.first_write = self.first_write(hit);
            }
        }
    }

    /// From the hit until the last of its clusters was written to by who owns it then.
    fn first_write(&self, hit: &Hit) -> Option<Duration> {
        let clusters: Vec<&str> = self
            .fleet
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .filter(|name| hit.shards.contains(&crate::fleet::shard_of(name)))
            .collect();
        let mut worst = None;
        let mut evidence = self.evidence.continued();
        for cluster in clusters {
            // The load changes each cluster all the time, so that a first write comes soon.
            let at = wait(Duration::from_secs(60), || {
                evidence.read().ok()?;
                evidence.first_write_after(cluster, hit.at, &hit.id, hit.may_return)
            })?;
            worst = worst.max(Some(at.duration_since(hit.at).unsigned_abs()));
        }
        worst
    }
}
