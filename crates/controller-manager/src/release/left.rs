//! What a Release still has on clusters that it left.
//!
//! The owner of such a cluster's shard removes it, whoever owns the cluster that the Release names now.

use std::sync::Arc;

use convoy_api::{Release, reason};
use convoy_apply::Ownership;
use convoy_runtime::{EventKind, Sharded as _, StoreKey};

use super::Releases;
use super::delete::Deletion;
use super::index::{Place, called};
use crate::host::HostError;

/// An inventory on a cluster of this replica that a Release does not name (any more), with the term of the
/// cluster's shard in which the look began.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) place: Place,
    pub(crate) ownership: Arc<dyn Ownership>,
}

/// What became of what a Release has on clusters that it left.
#[derive(Debug)]
pub(crate) enum Cleared {
    /// Nothing of it is left on clusters of this replica.
    All,
    /// It comes soon.
    Waits,
    /// Something is in the way.
    Blocked(String),
}

/// Whether what a Release has on a cluster is to be removed. `now` is the Release as the API server has it,
/// not as a watch said some time ago.
fn is_left(now: Option<&Release>, place: &Place) -> bool {
    // Whoever took the finalizer from a Release wanted to let go of its objects.
    let Some(now) = now else { return false };
    let is_of_it = now.metadata.uid.as_ref() == Some(&place.uid);
    let is_deleted = now.metadata.deletion_timestamp.is_some();
    let has_moved = now.shard_key() != place.cluster;
    // While it is suspended, what is on targets stays.
    is_of_it && has_moved && (is_deleted || !now.spec.is_suspended())
}

impl Releases {
    /// The clusters of this replica where the Release of this name has inventories, but for the one that it
    /// names.
    pub(crate) fn left(&self, key: &StoreKey, release: Option<&Release>) -> Vec<Left> {
        let is_named = |place: &Place| {
            release.is_some_and(|release| {
                release.shard_key() == place.cluster && release.metadata.uid.as_ref() == Some(&place.uid)
            })
        };
        let places = self.index.places(key).into_iter().filter(|place| !is_named(place));
        places
            .filter_map(|place| {
                let ownership = self.duties.begin(self.duties.shard_of(&place.cluster)).ok()?;
                Some(Left { place, ownership })
            })
            .collect()
    }

    /// Removes what the Release has on clusters that it left. Answers with what is in the way.
    pub(crate) async fn clear_left(
        &self,
        key: &StoreKey,
        left: &mut Vec<Left>,
    ) -> Result<Cleared, HostError> {
        let left = std::mem::take(left);
        if left.is_empty() {
            return Ok(Cleared::All);
        }
        let now = self.host.release(key).await?;
        let mut cleared = Cleared::All;
        for Left { place, ownership } in left.iter().filter(|left| is_left(now.as_ref(), &left.place)) {
            let Some(release) = &now else { break };
            let message = match self.clear(release, &place.cluster, ownership).await? {
                Some(Deletion::Blocked { message, .. } | Deletion::OutOfContact { message, .. }) => message,
                Some(Deletion::Waits { .. }) => {
                    if matches!(cleared, Cleared::All) {
                        cleared = Cleared::Waits;
                    }
                    continue;
                }
                Some(Deletion::Done) | None => {
                    tracing::info!(release = %key, cluster = %place.cluster, "removed from a cluster that it left");
                    continue;
                }
            };
            let cluster = called(&place.cluster, &key.namespace);
            let message = format!("on the Cluster {cluster}, which the Release left: {message}");
            if !self.duties.is_open(self.shard_of(release)) {
                // The status is written by who owns the cluster that the Release names now.
                let event = (EventKind::Warning, reason::PRUNE_FAILED, message.as_str());
                self.host.writer.event(&**ownership, release, event, self.clock.now()).await;
            }
            if !matches!(cleared, Cleared::Blocked(_)) {
                cleared = Cleared::Blocked(message);
            }
        }
        Ok(cleared)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn release(cluster: &str, uid: &str) -> Release {
        let mut release = Release::default();
        release.metadata.namespace = Some("team".to_owned());
        release.metadata.uid = Some(uid.to_owned());
        release.spec.cluster_ref.name = cluster.to_owned();
        release
    }

    #[test]
    fn sc05_only_what_the_release_certainly_left_is_removed() {
        let place = Place { cluster: StoreKey::new("team", "a"), uid: "1".to_owned() };
        let moved = release("b", "1");
        assert!(is_left(Some(&moved), &place));
        assert!(!is_left(Some(&release("a", "1")), &place), "it came back");
        let mut elsewhere = release("a", "1");
        elsewhere.spec.cluster_ref.namespace = Some("fleet".to_owned());
        assert!(is_left(Some(&elsewhere), &place), "another namespace has a Cluster of the name");
        assert!(!is_left(Some(&release("b", "2")), &place), "it is another Release of the name");
        assert!(!is_left(None, &place), "its finalizer was taken away by hand");
        let mut suspended = moved;
        suspended.spec.suspend = Some(true);
        assert!(!is_left(Some(&suspended), &place));
        suspended.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(is_left(Some(&suspended), &place));
    }
}
