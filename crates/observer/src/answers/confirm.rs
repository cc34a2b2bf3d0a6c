//! Dry runs of what seems to have drifted: only they say what an apply would change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{MAX_DRIFTED_FIELDS, Release, reason};
use convoy_apply::{Ownership, Target, look, would_become};
use convoy_plan::{Apply, Input, ObjectKey, Reapply, keys_to_look_at, plan};
use convoy_prepare::{acts_as, namespace_of, scope, secrets_in};
use convoy_runtime::{Sharded as _, StoreKey};
use futures::StreamExt as _;

use super::Answering;
use crate::model::{ObjectName, Outcome, Tested, WatchedKind};
use crate::seen::{self, Rules};
use crate::watches::describe;

/// How long the target is waited for: what drifted is to be told soon, confirmed or not.
const WITHIN: Duration = Duration::from_secs(2);
/// Until what could not be tried is tried again: what hindered it, a webhook or a right, changes no object.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// Objects that are asked about at a time.
const AT_A_TIME: usize = 8;

/// What is suspected: an object, and its version.
pub(crate) type Suspect = ((WatchedKind, ObjectName), String);

impl Answering {
    /// What dry runs say of each suspect.
    pub(crate) async fn confirm(
        &self,
        (key, release): (&StoreKey, &Release),
        ownership: &Arc<dyn Ownership>,
        suspects: &[Suspect],
        rules: Option<&Rules>,
    ) -> Vec<((WatchedKind, ObjectName), Tested)> {
        let asked = tokio::select! {
            asked = self.ask(key, release, ownership, suspects, rules) => asked,
            () = self.clock.sleep(WITHIN) => {
                Err(format!("the target has not answered within {} s", WITHIN.as_secs()))
            }
        };
        let of_each = |(id, version): &Suspect| {
            let untried = |why: &str| Tested { version: version.clone(), outcome: self.untried(why) };
            let tested = match &asked {
                Ok(said) => said.get(&key_of(id)).cloned(),
                Err(why) => Some(untried(why)),
            };
            (id.clone(), tested.unwrap_or_else(|| untried("it is not in the bundle that was delivered")))
        };
        suspects.iter().map(of_each).collect()
    }

    async fn ask(
        &self,
        key: &StoreKey,
        release: &Release,
        ownership: &Arc<dyn Ownership>,
        suspects: &[Suspect],
        rules: Option<&Rules>,
    ) -> Result<BTreeMap<ObjectKey, Tested>, String> {
        let cluster_key = release.shard_key();
        let cluster = self.clusters.get(&cluster_key).ok_or("there is no such Cluster")?;
        let delivered = self.delivered(key, release);
        let kept = self.preparer.kept_bundle(&delivered.bundle_digest, &**ownership).await;
        let bundle = kept.map_err(|error| describe(&error))?;
        let bundle = bundle.ok_or("the bundle that was delivered is not in the render store")?;
        let seen = self.targets.look(&cluster_key, &cluster, ownership).await;
        let seen = seen.map_err(|error| describe(&error))?;
        let target = seen.target.acting_as(acts_as(release, &cluster.spec));
        let target = target.with_secrets_in(secrets_in(release, Some(&bundle)));
        let wanted: BTreeSet<ObjectKey> = suspects.iter().map(|(id, _)| key_of(id)).collect();
        let rollback = release.status.as_ref().and_then(|status| status.rollback.as_ref());
        let namespace = rollback.and_then(|rollback| rollback.target_namespace.clone());
        let namespace = namespace.unwrap_or_else(|| namespace_of(release));
        let (id, policy) = scope(release, &namespace, Reapply::Drifted(wanted.clone()));
        let nothing = BTreeMap::new();
        let input = |live| Input {
            release: &id,
            rendered: &bundle.objects,
            hooks: &bundle.hooks,
            inventory: &delivered.entries,
            kinds: &seen.capabilities.kinds,
            policy: &policy,
            live,
            is_begun: true,
        };
        let no_plan = |_| format!("the bundle cannot be planned anew ({})", reason::PLAN_FAILED);
        let live = look(&target, keys_to_look_at(&input(&nothing)).map_err(no_plan)?).await;
        let live = live.map_err(|(at, error)| format!("{at}: {error}"))?;
        let planned = plan(&input(&live)).map_err(no_plan)?;
        let applies: Vec<&Apply> = planned
            .applies()
            .map(|(_, apply)| apply)
            .filter(|apply| wanted.contains(&apply.target.key))
            .collect();
        let (target, turns) = (&target, &seen.turns);
        let work: Vec<_> = applies
            .into_iter()
            .map(|apply| async move {
                // It is never closed.
                let _turn = turns.acquire().await;
                Some((apply.target.key.clone(), self.dry_run(target, apply, rules).await?))
            })
            .collect();
        let said: Vec<_> = futures::stream::iter(work).buffer_unordered(AT_A_TIME).collect().await;
        Ok(said.into_iter().flatten().collect())
    }

    fn untried(&self, why: &str) -> Outcome {
        Outcome::Untried { why: why.to_owned(), until: self.clock.monotonic() + TRY_AGAIN }
    }

    /// What one dry run says; none when the object went meanwhile.
    async fn dry_run(&self, target: &Target, apply: &Apply, rules: Option<&Rules>) -> Option<Tested> {
        let (mut found, now) = (None, self.clock.now());
        let after = would_become(target, apply, true, &mut found).await;
        let before = found?;
        let health = self.clusters_seen.health.rules();
        let before = seen::look_with(&before, now, rules, &health);
        let outcome = match after {
            Ok(after) => {
                let after = seen::look_with(&after, now, rules, &health).owned;
                match after.is_changed(&before.owned) {
                    true => Outcome::Confirmed(after.changes(&before.owned, MAX_DRIFTED_FIELDS)),
                    false => Outcome::Refuted,
                }
            }
            Err(error) => self.untried(&error.to_string()),
        };
        Some(Tested { version: before.resource_version, outcome })
    }
}

fn key_of((kind, (namespace, name)): &(WatchedKind, ObjectName)) -> ObjectKey {
    ObjectKey {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
    }
}
