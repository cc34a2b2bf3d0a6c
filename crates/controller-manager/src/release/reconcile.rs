//! One look at one Release.

use std::sync::Arc;
use std::time::Duration;

use convoy_api::{
    ConditionStatus, Release, ReleaseStatus, condition_status, condition_type, finalizer, find_condition,
    reason,
};
use convoy_runtime::{EventKind, Next, Sharded as _, StoreKey};

use super::decide::Hold;
use super::delete::Deletion;
use super::failure;
use super::left::{Cleared, Left};
use super::status::{self, Reached};
use super::{Look, Releases};
use crate::duties::Duties;
use crate::host::{HostError, in_words};

/// How often a Release that waits for something without an event of its own is looked at.
pub(super) const WAIT: Duration = Duration::from_secs(30);

/// Between two looks at what is waited for.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

impl Releases {
    /// One look at the Release of a name: at what it is to be on the cluster that it names, when that is
    /// this replica's, and at what it has on clusters of this replica that it left.
    ///
    /// All ownership is taken here: what happens later in the look never begins in a later term.
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let release = self.releases.get(&key);
        let mut left = self.left(&key, release.as_deref());
        let begun = match &release {
            Some(release) => self.duties.begin(self.shard_of(release)),
            None => Err(Next::Done),
        };
        let (Some(release), Ok(ownership)) = (release, &begun) else {
            self.forget(&key);
            let cleared = self.clear_left(&key, &mut left).await;
            return match cleared {
                Ok(Cleared::All) => begun.err().unwrap_or(Next::Done),
                cleared => self.answer(&key, cleared.map(|_| Next::Wait(WAIT))),
            };
        };
        let look = Look { key: &key, release: &release, ownership };
        let work = async {
            let next = if release.metadata.deletion_timestamp.is_some() {
                return self.look_at_deleted(look, &left).await;
            } else {
                self.look_at(look, &mut left).await?
            };
            // Whatever became of it on its new cluster.
            Ok(match self.clear_left(&key, &mut left).await? {
                Cleared::All => next,
                Cleared::Waits | Cleared::Blocked(_) => at_the_latest(next, WAIT),
            })
        };
        tokio::select! {
            biased;
            () = ownership.lost() => Duties::given_up(),
            looked = work => self.answer(&key, looked),
        }
    }

    /// The shard of the cluster that a Release names.
    pub(crate) fn shard_of(&self, release: &Release) -> u32 {
        self.duties.shard_of(&release.shard_key())
    }

    fn answer(&self, key: &StoreKey, looked: Result<Next, HostError>) -> Next {
        match looked {
            Ok(next) => next,
            // It is another replica's now: nothing failed.
            Err(error) if error.is_not_owner() => Duties::given_up(),
            Err(error) if error.is_stale() => Duties::look_again(),
            Err(error) => {
                tracing::warn!(release = %key, error = in_words(&error), "cannot write to the API server");
                Next::Retry
            }
        }
    }

    async fn look_at_deleted(&self, look: Look<'_>, left: &[Left]) -> Result<Next, HostError> {
        self.refuse_later_status(look)?;
        let memory = self.recall(look);
        // What is in the way may be a target: that it comes or goes is a reason to try again.
        let named = look.release.shard_key();
        let attempt = format!(
            "delete {} {} {}",
            look.release.metadata.generation.unwrap_or_default(),
            self.clusters.get(&named).is_some(),
            self.target(look.release, &named, look.ownership).is_some(),
        );
        let now = self.clock.monotonic();
        if let Some(wait) = memory.hold.as_ref().and_then(|hold| hold.remaining(&attempt, now)) {
            return Ok(Next::Wait(wait));
        }
        match self.delete(look, left).await? {
            Deletion::Done => {
                self.forget(look.key);
                Ok(Next::Done)
            }
            Deletion::Waits { message, wait } => {
                self.write_status(look, &Reached::Deleting { reason: reason::DELETING, message }).await?;
                Ok(Next::Wait(wait.max(SHORTEST_WAIT)))
            }
            Deletion::OutOfContact { message, wait } => {
                let reason = reason::CLUSTER_UNREACHABLE;
                self.write_status(look, &Reached::Deleting { reason, message }).await?;
                Ok(Next::Wait(wait.max(SHORTEST_WAIT)))
            }
            Deletion::Blocked { reason, message } => {
                self.write_status(look, &Reached::Deleting { reason, message }).await?;
                let hold = Hold::after(memory.hold.as_ref(), &attempt, &[], now);
                let wait = hold.until.saturating_sub(now);
                self.remember(look, |memory| memory.hold = Some(hold));
                Ok(Next::Wait(wait))
            }
        }
    }

    /// Gives up when the status was written in a later term of the shard than the one the look began in.
    fn refuse_later_status(&self, look: Look<'_>) -> Result<(), HostError> {
        let writer = look.release.status.as_ref().and_then(|status| status.controller.as_ref());
        match writer {
            Some(by) if self.duties.is_outdated(&**look.ownership, (by.shard, by.epoch)) => {
                Err(HostError::not_owner(look.ownership.shard()))
            }
            _ => Ok(()),
        }
    }

    async fn look_at(&self, look: Look<'_>, left: &mut Vec<Left>) -> Result<Next, HostError> {
        self.refuse_later_status(look)?;
        let release = look.release;
        if release.spec.is_suspended() {
            left.clear();
            let message = "spec.suspend is true; what is on the target stays".to_owned();
            self.write_status(look, &Reached::Suspended { message }).await?;
            // What arrives late was asked for before, and is no part of what is there.
            return Ok(match self.look_for_late_writes(look).await? {
                Some(wait) => Next::Wait(wait),
                None => Next::Done,
            });
        }
        let finalizers = release.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|name| name == finalizer::RELEASE) {
            let version = release.metadata.resource_version.as_deref().unwrap_or_default();
            let all: Vec<String> = finalizers.into_iter().chain([finalizer::RELEASE.to_owned()]).collect();
            self.host
                .writer
                .set_finalizers::<Release>(&**look.ownership, look.key, version, &all)
                .await
                .map_err(HostError::from)?;
            // The write brings an event, and with it the next look.
            return Ok(Next::Done);
        }
        let next = Box::pin(self.look_at_source(look, left)).await?;
        // Whatever became of it: what late requests made is in nobody's way, but nobody's either.
        Ok(match self.look_for_late_writes(look).await? {
            Some(wait) => at_the_latest(next, wait),
            None => next,
        })
    }

    /// Writes the status when it says something new, and an event when people should know.
    pub(super) async fn write_status(&self, look: Look<'_>, reached: &Reached) -> Result<Told, HostError> {
        let Look { key, release, ownership } = look;
        let old = status::known(release, self.recall(look).status.as_deref());
        let now = self.clock.now();
        let mut new = status::next(release, &old, reached, &self.writer(&**ownership), now);
        let generation = release.metadata.generation.unwrap_or_default();
        status::fetched(&mut new, self.sources.trouble(key, release).as_ref(), generation, now);
        let fields = status::owned(&new);
        if fields == status::owned(&old) {
            return Ok(Told::Nothing);
        }
        let written = self.host.writer.apply_status::<Release>(&**ownership, key, look.uid(), &fields).await;
        let version = written?;
        self.remember(look, |memory| memory.status = Some(Box::new((version, new.clone()))));
        if let (_, Some(refused)) = failure::renewed(release, &old) {
            let event = (EventKind::Warning, reason::ROLLBACK_FAILED, refused.as_str());
            self.host.writer.event(&**ownership, release, event, now).await;
        }
        if let Some((kind, reason, message)) = event(&old, &new) {
            match kind {
                EventKind::Normal => tracing::info!(release = %key, "{reason}: {message}"),
                // The Cluster was told of, once for all its Releases.
                EventKind::Warning if reason == reason::CLUSTER_UNREACHABLE => {
                    tracing::debug!(release = %look.key, "{reason}: {message}");
                }
                EventKind::Warning => tracing::warn!(release = %key, "{reason}: {message}"),
            }
            self.host.writer.event(&**ownership, release, (kind, &reason, &message), now).await;
        }
        Ok(Told::News)
    }
}

/// What a look wrote to the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    News,
}

/// The same, but within a while.
pub(super) fn at_the_latest(next: Next, wait: Duration) -> Next {
    match next {
        Next::Done => Next::Wait(wait),
        Next::After(delay) => Next::After(delay.min(wait)),
        Next::Wait(delay) => Next::Wait(delay.min(wait)),
        Next::Retry => Next::Retry,
    }
}

/// The event that a change of status is worth: when Ready changes its mind or its reason, or another
/// revision is on the target.
fn event(old: &ReleaseStatus, new: &ReleaseStatus) -> Option<(EventKind, String, String)> {
    let ready = find_condition(&new.conditions, condition_type::READY)?;
    let before = find_condition(&old.conditions, condition_type::READY);
    let is_same = before.is_some_and(|before| before.status == ready.status && before.reason == ready.reason);
    if is_same && old.source_revision == new.source_revision {
        return None;
    }
    let waits = [
        reason::WAITING_FOR_HEALTH,
        reason::WAITING_FOR_HOOK,
        reason::SUSPENDED,
        reason::DEPENDENCY_NOT_READY,
    ];
    let is_waiting = waits.contains(&ready.reason.as_str());
    let kind = match condition_status(&new.conditions, condition_type::READY) {
        ConditionStatus::True => EventKind::Normal,
        _ if is_waiting => EventKind::Normal,
        ConditionStatus::False | ConditionStatus::Unknown => EventKind::Warning,
    };
    Some((kind, ready.reason.clone(), ready.message.clone()))
}
