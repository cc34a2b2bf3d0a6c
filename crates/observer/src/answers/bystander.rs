//! Answers of a replica that caches all Releases, about one that another replica owns.
//!
//! Without `--shard-scoped-cache` an observer has in its cache what a preview, a diff and a history are made of. What it
//! asks of the target has no effect, and it keeps nothing of it: nobody would take that away when the shard changes hands.

use std::future::Future;
use std::pin::Pin;

use convoy_api::{Release, ReleaseHealth, condition_type, find_condition};
use convoy_apply::{NotOwner, Ownership, WritePermit};
use convoy_health::State;

use super::Answering;

/// Who looks at a Release that is not its own: it may write nothing.
#[derive(Debug)]
pub(super) struct Bystander {
    pub(super) shard: u32,
}

impl Ownership for Bystander {
    fn shard(&self) -> u32 {
        self.shard
    }

    fn epoch(&self) -> u64 {
        0
    }

    fn check(&self) -> Result<(), NotOwner> {
        Err(NotOwner { shard: self.shard })
    }

    fn begin(&self) -> Result<WritePermit, NotOwner> {
        Err(NotOwner { shard: self.shard })
    }

    /// It was never held, so that nothing that is under way depends on it.
    fn lost<'a>(&'a self) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(std::future::pending())
    }
}

impl Answering {
    /// The health of a Release as its owner, who watches the objects, has last told it in the status.
    pub(super) fn health_as_last_said(&self, release: &Release, shard: u32) -> ReleaseHealth {
        let conditions = release.status.as_ref().map(|status| status.conditions.as_slice());
        let said = find_condition(conditions.unwrap_or_default(), condition_type::HEALTHY);
        let known = said.filter(|said| State::ALL.iter().any(|state| state.as_str() == said.reason));
        let state = known.map_or(State::Unknown.as_str(), |said| said.reason.as_str());
        let summary = said.map_or("no observer has said anything of it yet", |said| said.message.as_str());
        let who = match self.own.as_ref().and_then(|own| own.holder(shard)) {
            Some(holder) => format!("the observer {holder} watches its objects"),
            None => "nobody is seen to watch its objects now".to_owned(),
        };
        ReleaseHealth {
            cluster: release.spec.cluster_ref.name.clone(),
            state: state.to_owned(),
            summary: summary.to_owned(),
            remarks: vec![format!(
                "as last said in the status; {who}, and {} answers without them (--observer-routing=owner asks who does)",
                self.replica
            )],
            ..ReleaseHealth::default()
        }
    }
}
