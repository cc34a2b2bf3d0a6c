//! What people are told: logs, metrics, Events, readiness.

use std::sync::Arc;
use std::time::Duration;

use convoy_shard::{
    Acquired, LAST_EPOCH, Lease, LeaseKey, LostBecause, Moment, Note, Protocol, Settings, Standing,
    WriteError,
};
use tokio::sync::mpsc;

use super::events::Told;
use super::metrics::LeaseMetrics;
use super::{KubeLeases, LeaseReport, PeerLeases};
use crate::{Readiness, Shards};

/// The part's name in readiness.
pub(super) const PART: &str = "leases";

pub(super) struct Report {
    pub(super) settings: Settings,
    pub(super) shards: Shards,
    pub(super) metrics: LeaseMetrics,
    pub(super) readiness: Readiness,
    pub(super) leases: Arc<KubeLeases>,
    pub(super) own: PeerLeases,
    pub(super) events: mpsc::Sender<Told>,
    /// Logged once when there is a peer.
    pub(super) warn_of_peers: Option<String>,
    pub(super) share: Share,
    pub(super) refused: usize,
}

/// Whether a replica owns what it should.
#[derive(Debug, Default)]
pub(super) struct Share {
    lacks_since: Option<Moment>,
    has_been_ready: bool,
}

/// What a replica owns of what it should, and what nobody owns.
#[derive(Clone, Copy, Debug)]
struct Owned {
    owned: usize,
    wanted: usize,
    /// Shards whose leases have no live holder.
    unowned: usize,
}

impl Share {
    /// What is wrong.
    ///
    /// One that has started is not ready before it has its part, so that a rolling restart stops no other
    /// before; and before the parts of those that were stopped have gone to others, for at most `patience`:
    /// they still count as members until their leases end, and if the next ones were stopped before that, the
    /// same shards could be divided among replicas that are gone once more. Later a replica may lack shards for
    /// as long as it takes to take them over.
    fn lack(&mut self, now_has: Owned, patience: Duration, now: Moment) -> Option<String> {
        let Owned { owned, wanted, unowned } = now_has;
        let has_part = owned >= wanted;
        if has_part && (self.has_been_ready || unowned == 0) {
            *self = Self { lacks_since: None, has_been_ready: true };
            return None;
        }
        let lacks_for = now.shortest_since(self.lacks_since.get_or_insert(now));
        let is_over = lacks_for > patience;
        if has_part && is_over {
            *self = Self { lacks_since: None, has_been_ready: true };
            return None;
        }
        let seconds = lacks_for.as_secs();
        if has_part {
            return Some(format!(
                "{unowned} shards have no owner yet, and it has started {seconds} s ago: if others were stopped now, they would have none for longer"
            ));
        }
        (!self.has_been_ready || is_over)
            .then(|| format!("it owns {owned} of the {wanted} shards that it should own, for {seconds} s"))
    }
}

impl Report {
    fn tell(&self, told: Told) {
        // When nobody can write them as fast as they come, the rest is in the log.
        let _ = self.events.try_send(told);
    }

    fn warn(&self, key: &LeaseKey, reason: &'static str, message: &str) {
        let lease = key.name(&self.settings);
        self.tell(Told::Warning { lease, reason, message: message.to_owned() });
    }

    fn own_key(&self) -> LeaseKey {
        LeaseKey::Member(self.settings.replica_id.clone())
    }

    fn say_readiness(&mut self, protocol: &Protocol, now: Moment) {
        let problem = |message: String| match self.leases.problem() {
            Some(problem) => format!("{message}; {problem}"),
            None => message,
        };
        let not_ready = match protocol.standing(now) {
            Standing::Joining { message } | Standing::Waiting { message } | Standing::CutOff { message } => {
                Some(problem(message))
            }
            Standing::Stopping | Standing::Ended { .. } => Some("this replica is stopping".to_owned()),
            Standing::Acting { wanted, owned } => {
                let patience = self.settings.lease_duration + self.settings.renew_interval;
                let (unowned, _) = self.own.unowned(self.settings.shards.get());
                self.share.lack(Owned { owned, wanted, unowned }, patience, now).map(problem)
            }
        };
        match not_ready {
            Some(why) => self.readiness.not_ready(PART, why),
            None => self.readiness.ready(PART),
        }
    }

    fn look_for_peers(&mut self, protocol: &Protocol, now: Moment) {
        let Some(warning) = &self.warn_of_peers else { return };
        let peer = protocol.seen(now).find_map(|(lease, silent)| match &lease.key {
            LeaseKey::Member(id)
                if *id != self.settings.replica_id && silent < self.settings.lease_duration =>
            {
                lease.holder.clone()
            }
            _ => None,
        });
        if let Some(peer) = peer {
            tracing::warn!(peer, "{warning}");
            self.warn(&self.own_key(), "StoreNotShared", warning);
            self.warn_of_peers = None;
        }
    }
}

impl LeaseReport for Report {
    fn note(&mut self, note: &Note, _now: Moment) {
        match note {
            Note::Gained { shard, epoch, how } => {
                tracing::info!(shard, epoch, how = %in_words(how), "this replica has the shard's lease");
                if let Acquired::TakenOver { from, silent } = how {
                    self.metrics.takeovers.inc();
                    let lease = LeaseKey::Shard(*shard).name(&self.settings);
                    let (from, silent) = (from.clone(), *silent);
                    self.tell(Told::TakenOver { shard: *shard, lease, from, silent });
                }
            }
            Note::EpochsUsedUp { shard } => {
                let message = format!(
                    "the lease of shard {shard} has leaseTransitions {LAST_EPOCH}, after which there are no more: \
                     an older holder of the shard is no longer told from a newer one. Stop the {}s, delete the lease, \
                     and clear what was written in that epoch: see the documentation, Leases that people changed",
                    self.settings.process.as_str()
                );
                tracing::error!(shard, "{message}");
                self.warn(&LeaseKey::Shard(*shard), "EpochsUsedUp", &message);
            }
            Note::Lost { shard, epoch, because } => {
                self.metrics.losses.inc();
                tracing::warn!(shard, epoch, because = %why(because), "this replica has lost the shard");
            }
            Note::Released { shard, epoch } => {
                self.metrics.hand_offs.inc();
                tracing::info!(shard, epoch, "this replica has released the shard");
            }
            Note::Renewed { .. } => {}
            Note::Conflicted { key } => {
                self.metrics.conflicts.inc();
                tracing::debug!(lease = %key.name(&self.settings), "the lease has changed meanwhile");
            }
            Note::Disagreement { replica, message, is_waiting } => {
                self.metrics.disagreement.set(1);
                tracing::warn!(peer = %replica, is_waiting, "{message}");
                self.warn(&LeaseKey::Member(replica.clone()), "SettingsDisagree", message);
            }
            Note::Agreement => {
                self.metrics.disagreement.set(0);
                tracing::info!("no peer runs with other settings any more");
            }
            Note::ApiServerCounts { shards, disagreement } => {
                self.metrics.apiserver_shards.set(shards.map_or(0, |shards| shards.get().into()));
                self.metrics.apiserver_disagreement.set(disagreement.is_some().into());
                match disagreement {
                    Some(message) => {
                        tracing::error!("{message}; until then this replica owns no shards");
                        self.warn(&self.own_key(), "ShardCountDisagrees", message);
                    }
                    None => tracing::info!(?shards, "what the API server says of the number of shards fits"),
                }
            }
            Note::Collected { replica } => {
                tracing::info!(peer = %replica, "deleted the member lease of a replica that is long gone");
            }
            Note::Twin { message } => {
                tracing::error!("{message}");
                self.warn(&self.own_key(), "TwinReplica", message);
            }
        }
    }

    fn wrote(&mut self, _key: &LeaseKey, outcome: Result<(), WriteError>, took: Duration) {
        match outcome {
            Ok(()) => self.metrics.renew_seconds.observe(took.as_secs_f64()),
            Err(WriteError::Conflict) => {}
            Err(WriteError::Failed) => _ = self.metrics.failures.inc(),
        }
    }

    fn stepped(&mut self, protocol: &Protocol, now: Moment) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.metrics.owned.set(count(self.shards.owned().len()));
        self.metrics.wanted.set(count(protocol.wanted().len()));
        let is_last = |(lease, _): &(&Arc<Lease>, Duration)| {
            matches!(lease.key, LeaseKey::Shard(shard) if protocol.held().contains_key(&shard))
                && lease.transitions >= LAST_EPOCH
        };
        self.metrics.at_last_epoch.set(count(protocol.seen(now).filter(is_last).count()));
        let (unowned, seconds) = self.own.unowned(self.settings.shards.get());
        let seconds = seconds.as_secs_f64();
        self.metrics.unowned.set(count(unowned));
        self.metrics.unowned_seconds.set(seconds);
        if seconds > self.metrics.unowned_worst_seconds.get() {
            self.metrics.unowned_worst_seconds.set(seconds);
        }
        let refused = self.shards.refused();
        self.metrics.guard_refusals.inc_by(refused.saturating_sub(self.refused) as u64);
        self.refused = refused;
        self.say_readiness(protocol, now);
        self.look_for_peers(protocol, now);
    }
}

fn in_words(how: &Acquired) -> String {
    match how {
        Acquired::Created => "the lease was not there".to_owned(),
        Acquired::Free => "nobody held it".to_owned(),
        Acquired::TakenOver { from, silent } => {
            format!("{from} had not renewed it for {} s", silent.as_secs())
        }
        Acquired::Resumed => "it was its own before".to_owned(),
    }
}

fn why(because: &LostBecause) -> String {
    match because {
        LostBecause::Deadline => "the lease could not be renewed in time".to_owned(),
        LostBecause::Taken { by } => format!("the lease is held by {by}"),
        LostBecause::Deleted => "the lease was deleted".to_owned(),
        LostBecause::OlderEpoch => "somebody acted in a later epoch".to_owned(),
        LostBecause::Twin => "another process has the same replica id".to_owned(),
        LostBecause::Disagreement => "a replica with other settings acts".to_owned(),
        LostBecause::Stopped => "this replica stops before it was to act".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(owned: usize, wanted: usize, unowned: usize) -> Owned {
        Owned { owned, wanted, unowned }
    }

    fn at(second: u64) -> Moment {
        Moment::at(Duration::from_secs(second))
    }

    const PATIENCE: Duration = Duration::from_secs(40);

    #[test]
    fn a_replica_is_ready_when_it_has_had_its_part_and_may_then_lack_some_for_a_while() {
        let mut share = Share::default();
        let lack = share.lack(has(0, 11, 11), PATIENCE, at(1));
        assert_eq!(lack.unwrap(), "it owns 0 of the 11 shards that it should own, for 0 s");
        assert!(share.lack(has(10, 11, 1), PATIENCE, at(30)).is_some());
        assert_eq!(share.lack(has(11, 11, 0), PATIENCE, at(31)), None);
        assert_eq!(share.lack(has(11, 16, 5), PATIENCE, at(50)), None, "it takes over");
        assert_eq!(share.lack(has(12, 16, 4), PATIENCE, at(90)), None);
        assert!(share.lack(has(12, 16, 4), PATIENCE, at(91)).is_some());
    }

    #[test]
    fn i2_a_replica_that_has_started_waits_until_the_parts_of_those_that_were_stopped_have_owners() {
        let mut share = Share::default();
        assert!(share.lack(has(8, 8, 8), PATIENCE, at(1)).unwrap().starts_with("8 shards have no owner yet"));
        assert_eq!(share.lack(has(10, 10, 0), PATIENCE, at(31)), None);
        assert_eq!(share.lack(has(10, 10, 3), PATIENCE, at(32)), None, "later that is others' matter");
        // A peer that is a member and acquires nothing must not hold up its own replacement.
        let mut share = Share::default();
        assert!(share.lack(has(8, 8, 8), PATIENCE, at(1)).is_some());
        assert!(share.lack(has(8, 8, 8), PATIENCE, at(41)).is_some());
        assert_eq!(share.lack(has(8, 8, 8), PATIENCE, at(42)), None);
    }

    #[test]
    fn sc09_a_replica_without_shards_is_ready() {
        assert_eq!(Share::default().lack(has(0, 0, 0), Duration::ZERO, Moment::default()), None);
    }
}
