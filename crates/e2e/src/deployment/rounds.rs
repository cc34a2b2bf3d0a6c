//! Each pod of an overlay killed in turn, and the host's own parts, while Releases change: every shard is owned again in time, and
//! every Release gets to its last revision.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use convoy_testkit::{HttpsClient, LeaseHistory, Part, Sighting};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::installed::{HOME, Installed, Workload};
use crate::fleet::{SHARDS, wait};

const LOOK: Duration = Duration::from_millis(150);
/// Until all shards are owned after a round.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the leases' names of a component begin with.
const COMPONENTS: [(&str, &str); 2] =
    [("convoy-controller-manager", "convoy-cm"), ("convoy-observer", "convoy-obs")];

/// What one round showed.
#[derive(Debug, Clone)]
pub struct PodRound {
    /// What was done, and to whom.
    pub what: String,
    /// How many shards the pod held.
    pub shards: usize,
    /// From the kill until the last of them was owned again; none when it held none.
    pub takeover: Option<Duration>,
    /// From the change, made right after, until it was on all targets and all Releases were ready.
    pub delivered: Duration,
}

/// Looks at the leases all the time, in a thread of its own.
struct Watch {
    histories: Arc<Mutex<Vec<LeaseHistory>>>,
    is_over: Arc<AtomicBool>,
    looking: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(client: HttpsClient) -> Self {
        let all: Vec<_> = COMPONENTS.iter().map(|(_, prefix)| LeaseHistory::new(prefix, SHARDS)).collect();
        let histories = Arc::new(Mutex::new(all));
        let is_over = Arc::new(AtomicBool::new(false));
        let looking = std::thread::spawn({
            let (histories, is_over) = (Arc::clone(&histories), Arc::clone(&is_over));
            move || {
                let path = format!("/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases");
                while !is_over.load(Ordering::Relaxed) {
                    let at = Timestamp::now();
                    // While the host is restarted there is no answer.
                    if let Ok(answer) = client.get(&path)
                        && answer.status == 200
                    {
                        let list = answer.json();
                        histories.lock().iter_mut().for_each(|history| history.see(at, &list));
                    }
                    std::thread::park_timeout(LOOK);
                }
            }
        });
        Self { histories, is_over, looking: Some(looking) }
    }

    /// What the leases of a component say; nothing for one that has none.
    fn of<T>(&self, component: &str, look: impl FnOnce(&LeaseHistory) -> T) -> Option<T> {
        let index = COMPONENTS.iter().position(|(name, _)| *name == component)?;
        self.histories.lock().get(index).map(look)
    }

    /// Whether all shards of both components have an owner that renews, each replica some of them.
    fn is_balanced(&self, pods: &[Vec<String>; 2]) -> bool {
        let histories = self.histories.lock();
        histories.iter().zip(pods).all(|(history, pods)| {
            history.unowned(Duration::from_secs(30)).is_empty()
                && pods.iter().all(|pod| !history.held_by(pod).is_empty())
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(looking) = self.looking.take() {
            let _ = looking.join();
        }
    }
}

/// Kills everything in turn; `tell` gets each round as it ends.
///
/// # Panics
/// When a change is not delivered, or shards get no owner.
pub fn run(installed: &mut Installed, workload: &Workload, tell: &mut dyn FnMut(&PodRound)) {
    installed.await_long("all Releases are delivered", || workload.delivered(installed, 0));
    let watch = Watch::start(installed.plane.client().clone());
    let mut number = 0;
    for component in ["convoy-controller-manager", "convoy-observer", "convoy-apiserver", "convoy-etcd"] {
        for pod in installed.runner.pods(component) {
            await_balance(installed, &watch);
            let held = watch.of(component, |history| {
                let shards = history.held_by(&pod);
                let boots = shards.iter().filter_map(|shard| history.boot(*shard).map(str::to_owned));
                let boots: BTreeSet<String> = boots.collect();
                (shards, boots)
            });
            let (shards, boots) = held.unwrap_or_default();
            installed.runner.kill(&pod);
            let killed = Timestamp::now();
            number += 1;
            let delivered = deliver(installed, workload, number);
            let owned_again = |shard: &u32| {
                let is_another = |seen: &Sighting| !boots.contains(&seen.boot);
                watch.of(component, |history| history.covered_after(*shard, killed, is_another))?
            };
            let last = shards.iter().map(|shard| {
                wait(PATIENCE, || owned_again(shard))
                    .unwrap_or_else(|| panic!("{pod}: nobody has shard {shard}"))
            });
            let takeover = last.max().map(|at| at.duration_since(killed).unsigned_abs());
            tell(&PodRound { what: format!("kill -9 of {pod}"), shards: shards.len(), takeover, delivered });
        }
    }
    for part in [Part::Apiserver, Part::Etcd] {
        await_balance(installed, &watch);
        installed.plane.restart(part).unwrap();
        number += 1;
        let delivered = deliver(installed, workload, number);
        let what = format!("kill -9 and restart of the host's {part:?}");
        tell(&PodRound { what, shards: 0, takeover: None, delivered });
    }
}

fn await_balance(installed: &Installed, watch: &Watch) {
    let balanced = wait(PATIENCE, || {
        let pods = COMPONENTS.map(|(component, _)| installed.runner.pods(component));
        watch.is_balanced(&pods).then_some(())
    });
    assert!(balanced.is_some(), "not every shard has an owner");
}

fn deliver(installed: &Installed, workload: &Workload, number: usize) -> Duration {
    let began = Instant::now();
    workload.commit(number);
    installed.await_long(&format!("change {number}"), || workload.delivered(installed, number));
    began.elapsed()
}
