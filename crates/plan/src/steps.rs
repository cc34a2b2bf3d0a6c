//! What of a plan comes next, and what it waits for.
//!
//! A delivery goes on in steps: the early objects, the hooks before, the waves one after another, the prune, the
//! hooks after. Each step is told by the plan and by what is recorded, so that whoever takes a delivery over goes on
//! where it was.

use convoy_api::{DeliveryProgress, HookEvent, HookRun, HookState};

use crate::{Entry, Hook, Member, ObjectKey, Plan, Prune};

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// These waves, as places in the plan, and what leaves the target when they are the last.
    Apply {
        /// The waves.
        waves: std::ops::Range<usize>,
        /// Whether to prune after them.
        prunes: bool,
    },
    /// The objects of the waves before this one have to be healthy first; those of all waves when there is none.
    Await {
        /// The wave that waits.
        wave: Option<i32>,
    },
    /// A hook.
    Hook(HookStep),
    /// Nothing: all is on the target.
    Done,
}

/// What comes next of the hooks of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum HookStep {
    /// This one is to be run, or runs.
    Run {
        /// Why.
        event: HookEvent,
        /// Its place in the plan.
        index: usize,
    },
    /// These objects of hooks that ended are to go.
    Clear(Vec<Prune>),
    /// This one failed, and nothing comes after it.
    Failed {
        /// Why it ran.
        event: HookEvent,
        /// Its place in the plan.
        index: usize,
        /// Why it failed.
        message: String,
    },
}

/// What of a plan comes next. Without `progress` the delivery has come to its end before, and what is to be put right
/// is put right at once. `waits` tells whether waves wait for health; `attempt` is compared with that of hooks that
/// failed.
pub fn next_step(plan: &Plan, progress: Option<&DeliveryProgress>, waits: bool, attempt: &str) -> Step {
    let Some(progress) = progress else {
        return match plan.is_empty() {
            true => Step::Done,
            false => Step::Apply { waves: 0..plan.waves.len(), prunes: true },
        };
    };
    let (before, after) = progress.operation.events();
    let early = plan.waves.iter().take_while(|wave| wave.early).count();
    if plan.hooks.iter().any(|hook| hook.events.contains(&before)) {
        if early > 0 {
            return Step::Apply { waves: 0..early, prunes: false };
        }
        if let Some(step) = next_hook_step(&plan.hooks, before, progress, attempt) {
            return Step::Hook(step);
        }
    }
    if let Some(first) = plan.waves.get(early) {
        if waits && awaited(plan, progress, Some(first.number)).next().is_some() {
            return Step::Await { wave: Some(first.number) };
        }
        let rest = plan.waves.get(early..).unwrap_or_default();
        let end = early + rest.iter().take_while(|wave| wave.number == first.number).count();
        return Step::Apply { waves: 0..end, prunes: end == plan.waves.len() };
    }
    if !plan.is_empty() {
        return Step::Apply { waves: 0..early, prunes: true };
    }
    if plan.hooks.iter().any(|hook| hook.events.contains(&after)) {
        let is_begun = progress.hooks.iter().any(|run| run.event == after);
        if waits && !is_begun && awaited(plan, progress, None).next().is_some() {
            return Step::Await { wave: None };
        }
        if let Some(step) = next_hook_step(&plan.hooks, after, progress, attempt) {
            return Step::Hook(step);
        }
    }
    Step::Done
}

/// The objects that have to be healthy before a wave begins, or before all ends; those that were found so before are
/// left out.
pub(crate) fn awaited<'a>(
    plan: &'a Plan,
    progress: &DeliveryProgress,
    wave: Option<i32>,
) -> impl Iterator<Item = &'a Member> {
    let from = progress.healthy_below.unwrap_or(i32::MIN);
    let is_after_all = progress.healthy_below == Some(i32::MAX);
    plan.members.iter().filter(move |member| {
        !is_after_all && member.wave >= from && wave.is_none_or(|wave| member.wave < wave)
    })
}

impl Plan {
    /// The objects that a step waits for, as far as they were applied.
    pub fn awaited(
        &self,
        progress: &DeliveryProgress,
        wave: Option<i32>,
        inventory: &[Entry],
    ) -> Vec<crate::ObjectRef> {
        let is_there = |key: &ObjectKey| {
            inventory.iter().any(|entry| entry.key == *key && !entry.gone && !entry.uid.is_empty())
        };
        let members = awaited(self, progress, wave).filter(|member| is_there(&member.target.key));
        members.map(|member| member.target.clone()).collect()
    }

    /// Whether nothing comes after a step when it goes well.
    pub fn ends_with(&self, progress: Option<&DeliveryProgress>, step: &Step) -> bool {
        let has_hooks = progress.is_some_and(|progress| {
            let (_, after) = progress.operation.events();
            self.hooks.iter().any(|hook| hook.events.contains(&after))
        });
        matches!(step, Step::Apply { prunes: true, .. }) && !has_hooks
    }

    /// The part of the plan that a step carries out.
    pub fn part(&self, waves: std::ops::Range<usize>, prunes: bool) -> Plan {
        Plan {
            waves: self.waves.get(waves).unwrap_or_default().to_vec(),
            hooks: Vec::new(),
            members: Vec::new(),
            prunes: if prunes { self.prunes.clone() } else { Vec::new() },
            keeps: Vec::new(),
            digest: self.digest.clone(),
        }
    }

    /// The plan that removes objects of hooks that ended.
    pub fn clearing(prunes: Vec<Prune>) -> Plan {
        Plan { prunes, ..Plan::nothing() }
    }

    /// The plan that makes the object of a hook.
    pub fn of_hook(hook: &Hook) -> Plan {
        let key = &hook.apply.target.key;
        let wave = crate::Wave {
            early: false,
            number: 0,
            stage: crate::stage_of(&key.group, &key.kind),
            applies: vec![hook.apply.clone()],
        };
        Plan { waves: vec![wave], ..Plan::nothing() }
    }

    fn nothing() -> Plan {
        Plan {
            waves: Vec::new(),
            hooks: Vec::new(),
            members: Vec::new(),
            prunes: Vec::new(),
            keeps: Vec::new(),
            digest: String::new(),
        }
    }

    /// The numbers of the waves that the bundle has, in order.
    pub fn numbers(&self) -> Vec<i32> {
        let mut numbers: Vec<i32> = self.members.iter().map(|member| member.wave).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// What comes next of the hooks of an event; none when all ended well and nothing is left to do.
pub fn next_hook_step(
    hooks: &[Hook],
    event: HookEvent,
    progress: &DeliveryProgress,
    attempt: &str,
) -> Option<HookStep> {
    let run_of = |index: usize| {
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        progress.hooks.iter().find(|run| run.event == event && run.index == index)
    };
    // What another event's hook of the same name made is not this one's.
    let is_taken = |key: &ObjectKey| {
        let later = progress.hooks.iter().filter(|run| run.event > event);
        later
            .filter_map(|run| hooks.get(usize::try_from(run.index).ok()?))
            .any(|hook| hook.apply.target.key == *key)
    };
    let clear = |of: &mut dyn Iterator<Item = &Hook>| {
        let prunes: Vec<Prune> = of
            .filter(|hook| !hook.stays() && !is_taken(&hook.apply.target.key))
            .filter_map(|hook| hook.prune.clone())
            .collect();
        (!prunes.is_empty()).then_some(HookStep::Clear(prunes))
    };
    let of_event = || hooks.iter().enumerate().filter(|(_, hook)| hook.events.contains(&event));
    for (index, hook) in of_event() {
        match run_of(index) {
            Some(HookRun { state: HookState::Succeeded, .. }) => {}
            Some(HookRun { state: HookState::Failed, attempt: failed_in, message, .. })
                if failed_in == attempt =>
            {
                let before = of_event().take_while(|(other, _)| *other < index).map(|(_, hook)| hook);
                let before = before.filter(|hook| hook.policies.succeeded);
                let own = Some(hook).filter(|hook| hook.policies.failed);
                return clear(&mut own.into_iter().chain(before))
                    .or_else(|| Some(HookStep::Failed { event, index, message: message.clone() }));
            }
            Some(HookRun { state: HookState::Running | HookState::Failed, .. }) | None => {
                return Some(HookStep::Run { event, index });
            }
        }
    }
    let mut ended: Vec<&Hook> =
        of_event().map(|(_, hook)| hook).filter(|hook| hook.policies.succeeded).collect();
    ended.reverse();
    clear(&mut ended.into_iter())
}
