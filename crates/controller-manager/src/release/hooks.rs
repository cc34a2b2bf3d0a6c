//! Running a chart's hooks: each once per revision, whoever goes on with it.
//!
//! A run is recorded in the inventory before the hook's object is made, and the object bears the name of the run. So
//! whoever comes later sees whether the object was made, by which run, and how it ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{DeliveryProgress, HookEvent, HookRun, HookState, Release, reason};
use convoy_apply::{Applied, Failure, HookOptions, HookSeen, Made, Ownership, RequestError, Target};
use convoy_plan::{Entry, Fate, Hook, Plan};
use convoy_prepare::{ADOPT, has_annotation};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Releases;
use super::deliver::{DeliveryFailure, ESTABLISH_PATIENCE};
use super::inventory::{Inventory, InventoryId};
use crate::host::HostError;

/// How long a look waits for the object of an earlier run to go; the next look goes on with that.
const GOING_PATIENCE: Duration = Duration::from_secs(2);

/// What hooks are run for.
#[derive(Clone, Copy)]
pub(crate) struct HookWork<'a> {
    pub(crate) release: &'a Release,
    pub(crate) id: &'a InventoryId,
    pub(crate) ownership: &'a Arc<dyn Ownership>,
    pub(crate) target: &'a Target,
    /// Digest of the bundle that the inventory is of.
    pub(crate) bundle: &'a str,
    /// A hook that failed in another attempt is run again.
    pub(crate) attempt: &'a str,
}

/// What became of a look at a hook.
pub(crate) enum HookEnd {
    /// It is recorded how it ended.
    Recorded,
    /// It has not ended.
    Waits { message: String, since: Timestamp },
    /// A request failed.
    Failed(DeliveryFailure),
}

impl Releases {
    /// Runs a hook, or goes on with its run.
    pub(crate) async fn run_hook(
        &self,
        work: &HookWork<'_>,
        (hook, event, index): (&Hook, HookEvent, usize),
        inventory: &mut Inventory,
    ) -> Result<HookEnd, HostError> {
        let ownership = &**work.ownership;
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        let before = inventory.entries();
        let late = self.late_writes(work.id, work.ownership, &before);
        let plan = Plan::of_hook(hook);
        let progress = inventory.progress().cloned().unwrap_or_default();
        let known = progress.hooks.iter().find(|run| run.event == event && run.index == index);
        let run = match known.filter(|run| run.state == HookState::Running) {
            Some(run) => run.clone(),
            None => {
                let run = HookRun {
                    event,
                    index,
                    run: format!("{:016x}", rand::random::<u64>()),
                    attempt: work.attempt.to_owned(),
                    state: HookState::Running,
                    started: Some(Time(self.clock.now())),
                    message: String::new(),
                };
                inventory.set_progress(Some(with_run(progress, run.clone())));
                let ahead = plan.write_ahead(&before, late);
                self.write_ahead(ownership, inventory, &ahead, work.bundle).await?;
                tracing::info!(release = %self.key_of(work.release), hook = %hook.apply.target, event = event.as_str(), "runs a hook");
                run
            }
        };
        let failed = |error: RequestError| {
            HookEnd::Failed(DeliveryFailure::of_requests(vec![Failure {
                key: hook.apply.target.key.clone(),
                source: hook.apply.source.clone(),
                error,
            }]))
        };
        let now = self.clock.now();
        let since = run.started.as_ref().map_or(now, |started| started.0);
        let timeout = work.release.spec.apply_timeout();
        let is_over = now.duration_since(since).unsigned_abs() >= timeout.as_std();
        let seen = match work.target.look_at_hook(hook, &run.run).await {
            Ok(seen) => seen,
            Err(error) => return Ok(failed(error)),
        };
        let there = |applied: Applied| Fate::Applied {
            uid: applied.uid,
            digest: hook.apply.digest.clone(),
            resource_version: applied.resource_version,
            created: applied.created,
        };
        let waits = |message: String| Ok(HookEnd::Waits { message, since });
        let (fate, outcome) = match seen {
            HookSeen::Ended { applied, outcome } => (Some(there(applied)), outcome),
            HookSeen::Running { applied, message } if is_over => {
                (Some(there(applied)), Err(format!("it did not end within {timeout}: {message}")))
            }
            HookSeen::Running { applied, message } => {
                self.record(work, &plan, inventory, &before, Some(there(applied))).await?;
                return waits(message);
            }
            HookSeen::Absent if hook.ends && was_made(inventory, hook) => {
                (None, Err("it was deleted before it was seen to end".to_owned()))
            }
            HookSeen::Absent => {
                let options = HookOptions {
                    run: &run.run,
                    release_uid: work.release.metadata.uid.as_deref().unwrap_or_default(),
                    adopt: has_annotation(work.release, ADOPT),
                    patience: GOING_PATIENCE,
                    establish_patience: ESTABLISH_PATIENCE,
                };
                self.late_begin(work.id, work.ownership, &inventory.entries());
                let made = work.target.make_hook(hook, &options).await;
                let is_answered = !made.as_ref().is_err_and(|error| error.class.is_unanswered());
                self.late_end(work.id, work.ownership, is_answered);
                match made {
                    Ok(Made::There(applied)) if hook.ends => {
                        self.record(work, &plan, inventory, &before, Some(there(applied))).await?;
                        return waits("it was made a moment ago".to_owned());
                    }
                    Ok(Made::There(applied)) => (Some(there(applied)), Ok(())),
                    Ok(Made::Waits(message)) if is_over => (Some(Fate::Refused), Err(message)),
                    Ok(Made::InTheWay(message)) => (Some(Fate::Refused), Err(message)),
                    Ok(Made::Waits(message)) => {
                        self.record(work, &plan, inventory, &before, Some(Fate::Refused)).await?;
                        return waits(message);
                    }
                    Err(error) => {
                        let fate = if is_answered { Fate::Refused } else { Fate::Failed };
                        self.record(work, &plan, inventory, &before, Some(fate)).await?;
                        return Ok(failed(error));
                    }
                }
            }
        };
        if let Err(why) = &outcome {
            tracing::warn!(release = %self.key_of(work.release), hook = %hook.apply.target, event = event.as_str(), why, "a hook failed");
        }
        let (state, message) = match outcome {
            Ok(()) => (HookState::Succeeded, String::new()),
            Err(why) => (HookState::Failed, why),
        };
        let progress = inventory.progress().cloned().unwrap_or_default();
        inventory.set_progress(Some(with_run(progress, HookRun { state, message, ..run })));
        self.record(work, &plan, inventory, &before, fate).await?;
        Ok(HookEnd::Recorded)
    }

    /// Records what became of a hook's object, and how far the delivery has come; nothing when that is recorded.
    /// `before` is the inventory as it was when the look at the hook began.
    async fn record(
        &self,
        work: &HookWork<'_>,
        plan: &Plan,
        inventory: &mut Inventory,
        before: &[Entry],
        fate: Option<Fate>,
    ) -> Result<(), HostError> {
        let now = inventory.entries();
        let key = plan.applies().next().map(|(_, apply)| &apply.target.key);
        let mut after = now.clone();
        if let (Some(key), Some(fate)) = (key, fate) {
            let is_known = |entry: &Entry| match &fate {
                Fate::Applied { uid, .. } => entry.key == *key && entry.uid == *uid,
                _ => false,
            };
            if !now.iter().any(is_known) {
                let late = self.late_writes(work.id, work.ownership, before);
                after = plan.settle(before, &BTreeMap::from([(key.clone(), fate)]), late);
            }
        }
        if after != now || !inventory.is_progress_stored() {
            self.settle(&**work.ownership, inventory, &after, work.bundle).await?;
        }
        self.late_forget(work.id, &after);
        Ok(())
    }

    fn key_of(&self, release: &Release) -> convoy_runtime::StoreKey {
        convoy_runtime::store_key(release)
    }
}

/// Whether the object of this run was made: the record before that cleared what was known of an earlier one.
fn was_made(inventory: &Inventory, hook: &Hook) -> bool {
    inventory.entries().iter().any(|entry| entry.key == hook.apply.target.key && !entry.uid.is_empty())
}

fn with_run(mut progress: DeliveryProgress, run: HookRun) -> DeliveryProgress {
    progress.hooks.retain(|known| (known.event, known.index) != (run.event, run.index));
    progress.hooks.push(run);
    progress
}

/// A hook that failed, as what stopped a delivery.
pub(crate) fn failure_of_hook(hook: &Hook, event: HookEvent, message: &str) -> DeliveryFailure {
    DeliveryFailure {
        reason: reason::HOOK_FAILED,
        message: format!(
            "the {} hook {} (from {}) failed: {message}",
            event.as_str(),
            hook.apply.target,
            hook.apply.source
        ),
        is_terminal: true,
        failures: Vec::new(),
    }
}

impl Releases {
    /// How long after the begin of a wait for objects on the target to look next when nothing brings a look earlier.
    /// What the observer sees of them does: it changes the Release's status.
    pub(crate) fn until_next_look(&self, release: &Release, since: Timestamp) -> Duration {
        let shard = self.shard_of(release);
        let is_observed = self.observers.as_ref().is_none_or(|observers| !observers.is_missing(shard));
        between_looks(self.clock.now().duration_since(since).unsigned_abs(), is_observed)
    }
}

/// With an observer only what it misses waits for the next look: it cannot watch the kind, say.
fn between_looks(waited: Duration, is_observed: bool) -> Duration {
    let (part, shortest, longest) = if is_observed { (2, 5, 60) } else { (4, 1, 15) };
    (waited / part).clamp(Duration::from_secs(shortest), Duration::from_secs(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_looks_seldom_and_who_is_not_looks_more_often() {
        let looks = |is_observed| {
            [0, 12, 30, 600]
                .map(|waited| between_looks(Duration::from_secs(waited), is_observed).as_secs_f64())
        };
        assert_eq!(looks(true), [5.0, 6.0, 15.0, 60.0]);
        assert_eq!(looks(false), [1.0, 3.0, 7.5, 15.0]);
    }
}
