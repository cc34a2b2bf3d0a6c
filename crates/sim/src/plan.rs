//! What a run is like: drawn from its seed.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use convoy_shard::{Assignment, ProcessKind, shard_of};

use crate::faults::Case;
use crate::hub::{NAMESPACE, Release, cluster_name};
use crate::rng::Rng;
use crate::stats::CASES;
use crate::time::{MS, Nanos, SEC};

/// Faults end so long before the end.
const HEALED_FOR: Nanos = 16 * 60 * SEC;
/// From so long before the end on, all has to be as it should.
const SETTLED_FOR: Nanos = 7 * 60 * SEC;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// All randomness comes from it.
    pub seed: u64,
    /// How much simulated time.
    pub minutes: u64,
    /// Whether to keep what happened, to be read.
    pub is_traced: bool,
    /// A fault that is put in on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<convoy_shard::Mutant>,
}

impl Options {
    /// A run of one hour.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            minutes: 60,
            is_traced: false,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) heal_at: Nanos,
    pub(crate) settled_at: Nanos,
    pub(crate) end: Nanos,
    pub(crate) shards: NonZeroU32,
    pub(crate) nodes: Vec<(ProcessKind, u64)>,
    /// The nodes after these have no process at first.
    pub(crate) wanted: Vec<bool>,
    pub(crate) has_stable_ids: bool,
    pub(crate) assignment: Assignment,
    pub(crate) leaves_on_exit: bool,
    /// `--lease-observe-interval`, when not the default.
    pub(crate) observe_interval: Option<u64>,
    pub(crate) cases: Vec<Case>,
    pub(crate) fault_interval: Nanos,
    pub(crate) revise_interval: Nanos,
    pub(crate) target_pace: Nanos,
    pub(crate) clusters: usize,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<convoy_shard::Mutant>,
}

impl Plan {
    pub(crate) fn draw(options: &Options, rng: &mut Rng) -> Self {
        let end = options.minutes * 60 * SEC;
        let counts = [(16, 1), (22, 2), (28, 3), (18, 5), (8, 8), (2, 12), (1, 33), (1, 40)];
        let replicas: usize = rng.weighted(&counts, 3);
        let shards = [(8, 1), (14, 2), (20, 4), (24, 8), (16, 16), (16, 32), (1, 64)];
        let shards: u32 = rng.weighted(&shards, 8);
        let (cm, obs) = (ProcessKind::ControllerManager, ProcessKind::Observer);
        let kinds = rng.weighted(
            &[(60, [Some(cm), None]), (15, [None, Some(obs)]), (25, [Some(cm), Some(obs)])],
            [None; 2],
        );
        // Rates are within 1.2 of each other, but for some runs.
        let rates = rng.weighted(&[(50, (1000, 1000)), (40, (913, 1095)), (10, (800, 1250))], (1000, 1000));
        let mut nodes = Vec::new();
        let mut wanted = Vec::new();
        for kind in kinds.into_iter().flatten() {
            for index in 0..replicas + 2 {
                nodes.push((kind, rng.between(rates.0, rates.1)));
                wanted.push(index < replicas);
            }
        }
        let is_calm = rng.chance(60);
        let share = rng.between(60, 300);
        let mut cases: Vec<Case> =
            (1..=CASES).filter(|_| !is_calm && rng.chance(share)).filter_map(Case::new).collect();
        if cases.is_empty() && !is_calm {
            cases.extend(Case::new(1));
        }
        let fault_interval = rng.span(15 * SEC, 300 * SEC);
        Self {
            heal_at: end - HEALED_FOR,
            settled_at: end - SETTLED_FOR,
            end,
            shards: NonZeroU32::new(shards).unwrap_or(NonZeroU32::MIN),
            nodes,
            wanted,
            has_stable_ids: rng.chance(500),
            assignment: if rng.chance(250) { Assignment::Rendezvous } else { Assignment::Modulo },
            leaves_on_exit: rng.chance(250),
            // As seldom as renewals: then only the timer at the end of a lease keeps the bound.
            observe_interval: rng.weighted(&[(60, None), (15, Some(5)), (25, Some(10))], None),
            cases,
            fault_interval,
            revise_interval: rng.span(10 * SEC, 120 * SEC),
            target_pace: rng.weighted(&[(70, 20 * MS), (20, 100 * MS), (10, 500 * MS)], 20 * MS),
            clusters: usize::try_from(rng.between(1, 6)).unwrap_or(1),
            #[cfg(feature = "mutants")]
            mutant: options.mutant,
        }
    }

    pub(crate) fn releases(&self, rng: &mut Rng) -> BTreeMap<u32, Arc<Release>> {
        let count = u32::try_from(rng.between(1, 10)).unwrap_or(1);
        (0..count)
            .map(|key| {
                let cluster = usize::try_from(rng.below(self.clusters as u64)).unwrap_or(0);
                let most: u64 = rng.weighted(&[(60, 3), (30, 8), (10, 60)], 3);
                let release = Release {
                    key,
                    cluster,
                    label: Some(shard_of(NAMESPACE, &cluster_name(cluster), self.shards)),
                    version: (0, u64::from(key) + 1),
                    revision: 1,
                    most_objects: u32::try_from(rng.between(1, most)).unwrap_or(1),
                    delivered: 0,
                    controller: None,
                    observed: 0,
                    observer: None,
                    inventory: BTreeMap::new(),
                    inventory_version: 0,
                    inventory_writer: None,
                };
                (key, Arc::new(release))
            })
            .collect()
    }
}
