//! A chart's hooks made ready to be run.

use convoy_api::HookEvent;
use serde_json::Value;

use crate::desired::one;
use crate::planner::prune_of;
use crate::{
    Apply, ApplyReason, Entry, Kinds, ObjectKey, Policy, Problem, Prune, PruneReason, ReleaseId, is_guarded,
};

/// How long a Job of a hook is kept at least once it has ended: its end has to be seen.
const SHORTEST_TTL: i64 = 600;

/// One hook as rendering produced it.
#[derive(Clone, PartialEq)]
pub struct RenderedHook {
    /// The chart template it came from, for messages.
    pub source: String,
    /// The parsed document.
    pub object: Value,
    /// When it runs.
    pub events: Vec<HookEvent>,
    /// Lower ones run first.
    pub weight: i64,
    /// When its object is deleted, as the chart says it.
    pub delete_policies: Vec<String>,
}

/// Without the content, which may be secret: what a panic says is written to logs.
impl std::fmt::Debug for RenderedHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenderedHook")
            .field("source", &self.source)
            .field("events", &self.events)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

/// A hook ready to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// Its object.
    pub apply: Apply,
    /// When it runs.
    pub events: Vec<HookEvent>,
    /// When its object is deleted.
    pub policies: DeletePolicies,
    /// Whether it has to be waited for until it ends; others have ended once they are there.
    pub ends: bool,
    /// What deletes the object of a run, when there may be one.
    pub prune: Option<Prune>,
}

/// When a hook's object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletePolicies {
    /// Before the hook runs again.
    pub before_creation: bool,
    /// When all hooks of its event ended well.
    pub succeeded: bool,
    /// When it failed.
    pub failed: bool,
}

impl DeletePolicies {
    /// As Helm reads them.
    fn of(words: &[String]) -> Self {
        let has = |word: &str| words.iter().any(|found| found == word);
        Self {
            before_creation: words.is_empty() || has("before-hook-creation"),
            succeeded: has("hook-succeeded"),
            failed: has("hook-failed"),
        }
    }
}

impl Hook {
    /// Makes the hooks of a bundle ready; answers with them in the order in which those of one event run, and with
    /// every problem found.
    pub fn all_of(
        rendered: &[RenderedHook],
        kinds: &Kinds,
        release: &ReleaseId,
        policy: &Policy,
    ) -> (Vec<Hook>, Vec<Problem>) {
        let (mut hooks, mut problems) = (Vec::new(), Vec::new());
        for hook in rendered {
            match Self::of(hook, kinds, release, policy) {
                Ok(Some(ready)) => hooks.push((hook.weight, ready)),
                // It asks to be left alone.
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        // As Helm does: by weight, then by name; what has both alike stays in the order of installation.
        hooks.sort_by(|(a_weight, a), (b_weight, b)| {
            let name = |hook: &Hook| hook.apply.target.key.name.clone();
            a_weight.cmp(b_weight).then_with(|| name(a).cmp(&name(b)))
        });
        (hooks.into_iter().map(|(_, hook)| hook).collect(), problems)
    }

    fn of(
        hook: &RenderedHook,
        kinds: &Kinds,
        release: &ReleaseId,
        policy: &Policy,
    ) -> Result<Option<Hook>, Problem> {
        let mut object = hook.object.clone();
        keep_until_seen(&mut object);
        let ready = one(&hook.source, &object, kinds, release, policy)?;
        if ready.ignored {
            return Ok(None);
        }
        let ends = ends(&ready.target.key);
        Ok(Some(Hook {
            apply: Apply {
                target: ready.target,
                object: ready.object,
                digest: ready.digest,
                reason: ApplyReason::Create,
                source: ready.source,
                uid: String::new(),
                take_over: false,
                create_only: true,
                replace: false,
                recreate: false,
                wave: 0,
                hook: true,
                left: None,
            },
            events: hook.events.clone(),
            policies: DeletePolicies::of(&hook.delete_policies),
            ends,
            prune: None,
        }))
    }

    /// The hooks with what deletes the objects of their runs that an inventory names.
    pub fn with_entries(mut hooks: Vec<Hook>, inventory: &[Entry], kinds: &Kinds) -> Vec<Hook> {
        for hook in &mut hooks {
            let key = &hook.apply.target.key;
            let entry = inventory.iter().find(|entry| entry.hook && !entry.gone && entry.key == *key);
            hook.prune = entry.and_then(|entry| prune_of(entry, kinds, PruneReason::HookEnded));
        }
        hooks
    }

    /// Whether its object is never deleted to be made anew, nor when the hook has ended: what is in it, or is of it,
    /// would go with it.
    pub fn stays(&self) -> bool {
        is_guarded(&self.apply.target.key.group, &self.apply.target.key.kind)
    }
}

/// Whether an object runs to an end.
pub(crate) fn ends(key: &ObjectKey) -> bool {
    runs_to_an_end(&key.group, &key.kind)
}

/// Whether objects of a kind run to an end, which a hook waits for.
pub fn runs_to_an_end(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("batch", "Job") | ("", "Pod"))
}

/// A Job that goes by itself as soon as it has ended might go unseen.
fn keep_until_seen(object: &mut Value) {
    const FIELD: &str = "ttlSecondsAfterFinished";
    let is_job = object["kind"] == "Job";
    if let Some(ttl) = object.get_mut("spec").and_then(|spec| spec.get_mut(FIELD)).filter(|_| is_job)
        && ttl.as_i64().is_some_and(|seconds| seconds < SHORTEST_TTL)
    {
        *ttl = SHORTEST_TTL.into();
    }
}
