//! Looks at a Release at rest: when all that the last look went by, which found nothing to do, is as it was, nothing is to
//! be done now either, and neither its bundle nor its plan is made for that.
//!
//! What a look goes by is its [`Basis`]; what time changes without a change of that is [`Moment`]. The first look
//! of a term knows no basis, so that it is a whole one.

use std::sync::{Arc, Weak};

use convoy_api::{Release, ReleaseStatus};
use convoy_apply::Capabilities;
use convoy_prepare::Resolved;
use convoy_render::ValuesText;
use convoy_runtime::{Next, Sharded as _, StoreKey};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::inventory::InventoryId;
use super::pursue::Inputs;
use super::{Look, Memory, Releases, status};
use crate::targets::Connected;

/// What a look at a Release goes by, in few bytes: one is kept for each Release at rest.
#[derive(Clone, Debug)]
pub(crate) struct Basis {
    /// The Release's resourceVersion: its spec, its annotations and all that its status says.
    version: String,
    /// Of what the other parts are.
    digest: [u8; 32],
    /// What the target serves: the very thing, which is replaced when it changes.
    serves: Weak<Capabilities>,
}

impl PartialEq for Basis {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
            && self.digest == other.digest
            && Weak::ptr_eq(&self.serves, &other.serves)
    }
}

impl Basis {
    /// Of a Release, its source, the values that it takes from elsewhere, what its target serves, and its inventory as the
    /// uids and resourceVersions of its parts.
    fn new(
        release: &Release,
        source: &Resolved,
        values: &[ValuesText],
        serves: &Arc<Capabilities>,
        parts: impl Iterator<Item = (String, String)>,
    ) -> Self {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        add(release.metadata.uid.as_deref().unwrap_or_default().as_bytes());
        for text in [&source.artifact.digest, &source.artifact.revision, &source.path] {
            add(text.as_bytes());
        }
        add(&(values.len() as u64).to_be_bytes());
        for value in values {
            add(value.from.as_bytes());
            add(&value.text);
        }
        for (uid, version) in parts {
            add(uid.as_bytes());
            add(version.as_bytes());
        }
        let version = release.metadata.resource_version.clone().unwrap_or_default();
        Self { version, digest: hash.finalize().into(), serves: Arc::downgrade(serves) }
    }
}

/// What a look sees beside its basis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) release: &'a Release,
    pub(crate) status: &'a ReleaseStatus,
    /// Whether the API server has all that this process wrote to the status, as the cache shows it.
    pub(crate) is_shown: bool,
    /// Whether something failed, and is not to be tried before a while.
    pub(crate) is_held: bool,
    /// Whether something changes again and again what is put right.
    pub(crate) is_fought: bool,
    /// Whether the source cannot be looked at anew.
    pub(crate) is_source_troubled: bool,
    /// Whether somebody says how the objects are, where that matters.
    pub(crate) is_observed: bool,
    /// Whether the Release has something on clusters that it left.
    pub(crate) has_left: bool,
    /// Whether the status says since a while that the Release was looked at, and has to say so anew.
    pub(crate) is_look_due: bool,
    pub(crate) now: Timestamp,
}

impl Moment<'_> {
    /// Whether there is nothing that may be done, or said, at another time although nothing changes.
    fn is_quiet(&self) -> bool {
        self.is_shown
            && !self.is_held
            && !self.is_fought
            && !self.is_source_troubled
            && self.is_observed
            && !self.has_left
            && self.status.failure.is_none()
            && self.status.rollback.is_none()
    }
}

/// When to look again at what is at rest; none when a whole look has to tell. `known` is the basis of a look that found
/// nothing to do.
pub(crate) fn at_rest(known: Option<&Basis>, seen: &Basis, moment: &Moment<'_>) -> Option<Next> {
    if known != Some(seen) || !moment.is_quiet() || moment.is_look_due {
        return None;
    }
    let writer = moment.status.controller.as_ref();
    let due = status::look_is_due(moment.release, writer, moment.now);
    Some(Next::After(moment.release.spec.interval().as_std().min(due)))
}

/// What a whole look goes by that may find nothing to do, and whether it could be left out the next time.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    basis: Basis,
    is_quiet: bool,
}

impl Releases {
    /// What a look goes by.
    fn basis(&self, look: Look<'_>, cluster: &StoreKey, connected: &Connected, inputs: &Inputs) -> Basis {
        let id = InventoryId::of(look.release, cluster);
        let parts = self.parts(&id).map(|part| {
            let metadata = &part.metadata;
            (metadata.uid.clone().unwrap_or_default(), metadata.resource_version.clone().unwrap_or_default())
        });
        Basis::new(look.release, &inputs.source, &inputs.values, &connected.capabilities, parts)
    }

    /// When to look again, when a Release is at rest; else what the whole look goes by, for [`Releases::came_to_rest`].
    pub(super) fn rests(
        &self,
        look: Look<'_>,
        (cluster, connected): (&StoreKey, &Connected),
        inputs: &Inputs,
        memory: &Memory,
        has_left: bool,
    ) -> Result<Next, Noted> {
        let (release, now) = (look.release, self.clock.now());
        let nothing = ReleaseStatus::default();
        let status = release.status.as_ref().unwrap_or(&nothing);
        let needs_observer = release.spec.waits_for_health() && status.objects != Some(0);
        let observers = self.observers.as_ref().filter(|_| needs_observer);
        let moment = Moment {
            release,
            status,
            is_shown: memory.status.is_none(),
            is_held: memory.hold.is_some(),
            is_fought: memory.drift.fight(self.clock.monotonic()).is_some(),
            is_source_troubled: self.sources.trouble(look.key, release).is_some(),
            is_observed: observers.is_none_or(|it| !it.is_missing(self.shard_of(release))),
            has_left,
            is_look_due: status::is_look_due(release, status, &self.writer(&**look.ownership), now),
            now,
        };
        let basis = self.basis(look, cluster, connected, inputs);
        match at_rest(memory.rest.as_ref(), &basis, &moment) {
            Some(next) => Ok(next),
            None => {
                self.remember(look, |memory| memory.rest = None);
                Err(Noted { basis, is_quiet: moment.is_quiet() })
            }
        }
    }

    /// Takes note that a whole look found nothing to do, and nothing to say. After one that said something the Release is another,
    /// which may ask for more: whatever was written to it meanwhile is in the resourceVersion that the write got.
    pub(super) fn came_to_rest(&self, look: Look<'_>, noted: Noted) {
        let Noted { basis, is_quiet } = noted;
        if !is_quiet || self.has_unanswered(&InventoryId::of(look.release, &look.release.shard_key())) {
            return;
        }
        self.remember(look, |memory| memory.rest = Some(basis));
    }

    /// Whether what an inventory lists is to be looked for again because of requests that were not answered.
    fn has_unanswered(&self, id: &InventoryId) -> bool {
        self.parts(id).any(|part| part.spec.entries.iter().any(|entry| entry.unanswered || entry.gone))
    }
}

#[cfg(test)]
mod tests;
