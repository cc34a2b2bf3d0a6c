//! Which work is this replica's, and in which term it began.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use convoy_apply::Ownership;
use convoy_runtime::{Next, OwnedShards, Shards, StoreKey};
use parking_lot::RwLock;

/// When to look again at what a shard that seems to be ours did not let us do: its lease may be renewed
/// late, and then nothing else tells that work may go on.
const LATER: Next = Next::Wait(Duration::from_secs(2));

/// Which shards' objects are worked on. Clones share it.
///
/// A shard that was gained is opened only when nothing of an earlier term is left and when its objects were
/// listed, so that its work acts on what the predecessor left.
#[derive(Clone)]
pub(crate) struct Duties {
    shards: Shards,
    open: Arc<RwLock<OwnedShards>>,
}

impl Duties {
    pub(crate) fn new(shards: Shards) -> Self {
        Self { shards, open: Arc::default() }
    }

    /// The shard of an object by the key that decides.
    pub(crate) fn shard_of(&self, key: &StoreKey) -> u32 {
        self.shards.shard_of(&key.namespace, &key.name)
    }

    /// Begins a piece of work for a shard: the ownership holds for this piece alone, and no other is taken
    /// before it ends.
    ///
    /// # Errors
    /// What is to happen with the key instead: nothing, when the shard is not ours.
    pub(crate) fn begin(&self, shard: u32) -> Result<Arc<dyn Ownership>, Next> {
        let Some(epoch) = self.open.read().get(&shard).copied() else { return Err(Next::Done) };
        match self.shards.guard(shard) {
            Ok(guard) if guard.epoch() == epoch => Ok(guard),
            // The new term is opened in a moment, and then all is queued.
            Ok(_) => Err(Next::Done),
            Err(_) => Err(LATER),
        }
    }

    /// What is to happen with the key of a piece of work that was given up because its shard was lost. The
    /// next [`Duties::begin`] knows more.
    pub(crate) fn given_up() -> Next {
        LATER
    }

    /// What is to happen when the object was not what it was when it was read. The event of who wrote it brings the next
    /// look; that there is none, or that it came before, must not end the looks for good.
    pub(crate) fn look_again() -> Next {
        Next::Wait(Duration::from_secs(1))
    }

    /// Whether the shard's work is this replica's.
    pub(crate) fn is_open(&self, shard: u32) -> bool {
        self.open.read().contains_key(&shard)
    }

    /// No more work begins for these terms.
    pub(crate) fn close(&self, lost: &OwnedShards) {
        self.open.write().retain(|shard, epoch| lost.get(shard) != Some(epoch));
    }

    /// Work may begin for these terms.
    pub(crate) fn open(&self, gained: &OwnedShards) {
        self.open.write().extend(gained.iter().map(|(shard, epoch)| (*shard, *epoch)));
    }

    /// Those of the terms that were gained after which nobody wrote an object of the shard: `writers` have written, as shards
    /// and epochs. The others are acquired anew in a later epoch, and no work begins for them before.
    pub(crate) fn latest(
        &self,
        gained: &OwnedShards,
        writers: impl Iterator<Item = (i64, i64)>,
    ) -> OwnedShards {
        let mut latest = gained.clone();
        for (shard, epoch) in writers {
            let (Ok(shard), Ok(epoch)) = (u32::try_from(shard), u64::try_from(epoch)) else { continue };
            if gained.get(&shard).is_some_and(|own| *own < epoch) {
                latest.remove(&shard);
                self.shards.saw_epoch(shard, epoch);
            }
        }
        latest
    }

    /// Takes note of who wrote an object last. Says whether that was in a later term than ours: then we
    /// should not work, and the lease is acquired anew.
    pub(crate) fn is_outdated(&self, ownership: &dyn Ownership, (shard, epoch): (i64, i64)) -> bool {
        let Ok(epoch) = u64::try_from(epoch) else { return false };
        let is_later = shard == i64::from(ownership.shard()) && epoch > ownership.epoch();
        if is_later {
            self.shards.saw_epoch(ownership.shard(), epoch);
        }
        is_later
    }
}

impl fmt::Debug for Duties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duties").field("open", &*self.open.read()).finish_non_exhaustive()
    }
}

/// The ownership of what is kept between pieces of work: it lets nothing be written. Each piece puts its own
/// in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unowned {
    pub(crate) shard: u32,
}

impl Ownership for Unowned {
    fn shard(&self) -> u32 {
        self.shard
    }

    fn epoch(&self) -> u64 {
        0
    }

    fn check(&self) -> Result<(), convoy_apply::NotOwner> {
        Err(convoy_apply::NotOwner { shard: self.shard })
    }

    fn begin(&self) -> Result<convoy_apply::WritePermit, convoy_apply::NotOwner> {
        Err(convoy_apply::NotOwner { shard: self.shard })
    }

    fn lost<'a>(&'a self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use convoy_runtime::ManualClock;
    use jiff::Timestamp;

    use super::*;

    fn duties() -> Duties {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        Duties::new(Shards::all(NonZeroU32::new(4).unwrap(), clock))
    }

    #[test]
    fn sc22_work_begins_only_for_a_shard_that_is_open_in_its_present_term() {
        let duties = duties();
        let owned = |epoch| OwnedShards::from([(1, epoch)]);
        assert_eq!(duties.begin(1).unwrap_err(), Next::Done, "its objects were not listed yet");
        duties.open(&owned(7));
        assert_eq!(duties.begin(1).unwrap_err(), Next::Done, "that was another term");
        duties.close(&owned(3));
        assert!(duties.is_open(1), "an old loss closes no later term");
        duties.close(&owned(7));
        duties.open(&owned(0));
        assert_eq!(duties.begin(1).unwrap().epoch(), 0);
        assert_eq!(duties.begin(2).unwrap_err(), Next::Done);
    }

    #[test]
    fn i5_a_later_epoch_of_the_same_shard_stops_the_work() {
        let duties = duties();
        duties.open(&OwnedShards::from([(1, 0)]));
        let guard = duties.begin(1).unwrap();
        for (written, is_outdated) in
            [((1, 0), false), ((1, 1), true), ((2, 5), false), ((1, -1), false), ((-1, 5), false)]
        {
            assert_eq!(duties.is_outdated(&*guard, written), is_outdated, "{written:?}");
        }
    }

    #[tokio::test]
    async fn i1_what_is_kept_between_pieces_of_work_lets_nothing_be_written() {
        let unowned = Unowned { shard: 3 };
        assert!(unowned.check().is_err() && unowned.begin().is_err());
        unowned.lost().await;
    }
}
