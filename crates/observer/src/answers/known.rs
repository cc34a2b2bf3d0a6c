//! What targets said of objects before, so that an unchanged Release is not asked about anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use convoy_apply::Said;
use convoy_plan::ObjectKey;
use convoy_runtime::StoreKey;
use parking_lot::Mutex;

/// How long an answer is good for while nothing is seen to change: webhooks and policies may.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// Releases whose answers are kept.
const RELEASES: usize = 64;
/// The longest text that is kept, in bytes.
const LONGEST: usize = 16 << 10;

/// Answers by object, with the digests of what was wanted.
pub(super) type Answered = BTreeMap<ObjectKey, (String, Said)>;

/// What was said about one Release.
struct OfRelease {
    cluster: StoreKey,
    /// All else that the answers depend on.
    made_of: String,
    since: Duration,
    objects: Arc<Answered>,
}

/// What was said about Releases.
#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<StoreKey, OfRelease>>);

impl Known {
    pub(super) fn get(&self, release: &StoreKey, made_of: &str, now: Duration) -> Arc<Answered> {
        let all = self.0.lock();
        let found = all
            .get(release)
            .filter(|known| known.made_of == made_of && now.saturating_sub(known.since) < GOOD_FOR);
        found.map(|known| Arc::clone(&known.objects)).unwrap_or_default()
    }

    /// Takes in what was said now, beside what was said in the same time before.
    pub(super) fn put(
        &self,
        (release, cluster): (&StoreKey, &StoreKey),
        made_of: String,
        now: Duration,
        said: Vec<(ObjectKey, String, Said)>,
    ) {
        if said.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        let before = all
            .get(release)
            .filter(|known| known.made_of == made_of && now.saturating_sub(known.since) < GOOD_FOR);
        let (since, mut objects) =
            before.map_or((now, Answered::new()), |known| (known.since, (*known.objects).clone()));
        let is_short = |said: &Said| said.diff.len() <= LONGEST;
        objects.extend(
            said.into_iter()
                .filter(|(_, _, said)| is_short(said))
                .map(|(key, digest, said)| (key, (digest, said))),
        );
        if all.len() >= RELEASES && !all.contains_key(release) {
            let oldest = all.iter().min_by_key(|(_, known)| known.since).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        let known = OfRelease { cluster: cluster.clone(), made_of, since, objects: Arc::new(objects) };
        all.insert(release.clone(), known);
    }

    pub(super) fn retain(&self, keep: impl Fn(&StoreKey) -> bool) {
        self.0.lock().retain(|_, known| keep(&known.cluster));
    }
}
