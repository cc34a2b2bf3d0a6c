//! Questions about all Releases, all the while, to the API server that asks who owns them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use convoy_testkit::HttpsClient;
use jiff::Timestamp;

use super::Round;
use super::fault::Hit;
use crate::fleet::{Fleet, Part, convoy_path, shard_of, wait};

/// What is asked.
const SUBRESOURCES: [&str; 4] = ["preview", "diff", "health", "history"];
/// From a hand-over to the first answer of the new owner, which has to look first; and from the time that a planned
/// hand-over begins to its end.
const HAND_OVER: Duration = Duration::from_secs(5);
/// Hand-overs that are told with a refusal.
const NEAR: Duration = Duration::from_secs(120);
/// Between two questions of one asker.
const PAUSE: Duration = Duration::from_millis(20);

/// An answer that was none.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "asked at {asked} for {subresource} of {release}, refused at {answered} with {status} {} Retry-After: {said}",
    if *.says_when { "and" } else { "without" }
)]
struct Refusal {
    release: String,
    subresource: &'static str,
    asked: Timestamp,
    answered: Timestamp,
    /// 0 when the API server could not be asked.
    status: u16,
    says_when: bool,
    said: String,
}

#[derive(Debug)]
struct Shared {
    host: HttpsClient,
    /// Each Release and the shard of its Cluster.
    releases: Vec<(String, u32)>,
    stop: AtomicBool,
    answers: AtomicUsize,
    refusals: Mutex<Vec<Refusal>>,
}

/// The askers, one for each subresource.
#[derive(Debug)]
pub(super) struct Asking {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Asking {
    /// Begins when each question about each Release has been answered once.
    pub(super) fn start(fleet: &Fleet) -> anyhow::Result<Self> {
        let shard = |release: &serde_json::Value| {
            shard_of(release["spec"]["clusterRef"]["name"].as_str().unwrap_or_default())
        };
        let named = |release: &serde_json::Value| {
            (release["metadata"]["name"].as_str().unwrap_or_default().to_owned(), shard(release))
        };
        let releases = fleet.list_convoy("releases")?.iter().map(named).collect();
        let shared = Arc::new(Shared {
            host: fleet.host.clone(),
            releases,
            stop: AtomicBool::new(false),
            answers: AtomicUsize::new(0),
            refusals: Mutex::default(),
        });
        for subresource in SUBRESOURCES {
            for (release, _) in &shared.releases {
                let mut last = None;
                let answered = wait(Duration::from_secs(120), || {
                    last = shared.ask(release, subresource).err();
                    last.is_none().then_some(())
                });
                answered.with_context(|| {
                    last.map(|refusal| format!("before the rounds: {refusal}")).unwrap_or_default()
                })?;
            }
        }
        let threads = SUBRESOURCES.map(|subresource| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.ask_on(subresource))
        });
        Ok(Self { shared, threads: threads.into() })
    }

    /// Judges what was answered since the last round: who was refused asked while the Release had no owner, or just
    /// got one, and was told when to ask again.
    pub(super) fn judge(&self, fleet: &Fleet, hits: &[Hit], round: &mut Round) {
        let answers = self.shared.answers.swap(0, Ordering::Relaxed);
        round.answers += answers;
        if answers < self.shared.releases.len() * SUBRESOURCES.len() {
            round.violations.push(format!("only {answers} questions about Releases were answered"));
        }
        let refusals = std::mem::take(&mut *lock(&self.shared.refusals));
        let shards: BTreeMap<&str, u32> =
            self.shared.releases.iter().map(|(release, shard)| (release.as_str(), *shard)).collect();
        for refusal in refusals {
            let shard = shards.get(refusal.release.as_str()).copied().unwrap_or_default();
            let hand_overs = fleet.leases(Part::Observer, |leases| leases.hand_overs(shard));
            let hit = hits.iter().find(|hit| hit.part == Part::Observer && hit.shards.contains(&shard));
            let is_in_gap = hand_overs.iter().any(|(from, until)| {
                let begins = match hit {
                    Some(hit) if hit.at <= *from => hit.at.min(*from - HAND_OVER),
                    _ => *from - HAND_OVER,
                };
                refusal.answered >= begins && refusal.asked <= *until + HAND_OVER
            });
            if !(is_in_gap && matches!(refusal.status, 503 | 504) && refusal.says_when) {
                let near = hand_overs
                    .iter()
                    .filter(|(from, _)| from.duration_since(refusal.asked).unsigned_abs() < NEAR);
                let near =
                    near.map(|(from, until)| format!("{from} to {until}")).collect::<Vec<_>>().join(", ");
                round.violations.push(format!("shard {shard}, which was handed over {near}: {refusal}"));
            }
            round.refusals += 1;
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of it has been told by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn ask_on(&self, subresource: &'static str) {
        for (release, _) in self.releases.iter().cycle() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            match self.ask(release, subresource) {
                Ok(()) => {
                    self.answers.fetch_add(1, Ordering::Relaxed);
                }
                Err(refusal) => lock(&self.refusals).push(refusal),
            }
            wait(PAUSE, || self.stop.load(Ordering::Relaxed).then_some(()));
        }
    }

    fn ask(&self, release: &str, subresource: &'static str) -> Result<(), Refusal> {
        let asked = Timestamp::now();
        let answer = self.host.get(&format!("{}/{release}/{subresource}", convoy_path("releases")));
        let (status, says_when, said) = match answer {
            Ok(answer) if answer.status == 200 => return Ok(()),
            Ok(answer) => {
                let says_when =
                    answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
                (answer.status, says_when, answer.json()["message"].as_str().unwrap_or_default().to_owned())
            }
            Err(error) => (0, false, error.to_string()),
        };
        let release = release.to_owned();
        Err(Refusal { release, subresource, asked, answered: Timestamp::now(), status, says_when, said })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
