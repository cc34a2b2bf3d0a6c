//! The invariants that are about states, checked twice a second: see `check.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use convoy_shard::ProcessKind;

use crate::hub::index_of;
use crate::process::{Process, RESYNC_SECONDS};
use crate::time::{MS, Nanos, SEC};
use crate::world::{Node, World};

impl World {
    /// All of them.
    pub(crate) fn check_states(&mut self, now: Nanos) {
        if self.hub_trouble.is_any() {
            self.last_hub_trouble = now;
        }
        for kind in self.kinds() {
            let index = index_of(kind);
            let of_kind: Vec<&Node> = self.nodes.iter().filter(|node| node.kind == kind).collect();
            let has_other_shards = of_kind.iter().filter_map(|node| node.process.as_ref()).any(|process| {
                process.settings.shards != self.plan.shards
                    || process.settings.assignment != self.plan.assignment
            });
            let has_other_durations = of_kind
                .iter()
                .filter_map(|node| node.process.as_ref())
                .any(|process| process.settings.lease_duration.as_secs() != 30);
            if has_other_shards {
                self.others_until = now + 70 * SEC;
            }
            let is_bad = self.hub_trouble.is_any()
                || self.has_forged_members(kind)
                || self.has_long_leases(kind)
                || now < self.others_until
                || has_other_durations
                || of_kind.iter().any(|node| node.is_wall_clock_wrong)
                || !of_kind.iter().any(|node| node.is_healthy());
            if is_bad {
                self.check.good_since[index] = now;
            }
            if self.target_trouble.is_any()
                || self.target_pace > 200 * MS
                || self.poisoned.is_some()
                || of_kind.iter().any(|node| {
                    node.targets_cut
                        || node.are_writes_late
                        || node.are_workers_blocked
                        || node.drops_watch
                        || node.watch_lag > 0
                })
            {
                self.check.targets_good_since = now;
            }
            let slowest = of_kind.iter().map(|node| node.clock.rate()).min().unwrap_or(1000);
            let mut owners: BTreeMap<u32, &Arc<Process>> = BTreeMap::new();
            let mut failures = Vec::new();
            for node in of_kind.iter().filter(|node| !node.is_stopped()) {
                let Some(process) = &node.process else { continue };
                for shard in process.shards.owned().keys() {
                    if !process.shards.owns(*shard) {
                        continue;
                    }
                    if let Some(other) = owners.insert(*shard, process) {
                        let pair = (self.nodes[other.wire.node].clock.rate(), node.clock.rate());
                        if pair.0.max(pair.1) * 1000 <= pair.0.min(pair.1) * 1200 {
                            let pids = (other.wire.pid, process.wire.pid);
                            failures.push((
                                "I1",
                                format!("shard {shard} is owned by pids {} and {}", pids.0, pids.1),
                            ));
                        }
                    }
                }
            }
            let mut acting: Vec<&Arc<Process>> = owners.values().copied().collect();
            acting.sort_by_key(|process| process.wire.pid);
            acting.dedup_by_key(|process| process.wire.pid);
            for pair in acting.windows(2) {
                let (a, b) = (&pair[0].settings, &pair[1].settings);
                if a.shards != b.shards || a.assignment != b.assignment {
                    let pids = (pair[0].wire.pid, pair[1].wire.pid);
                    failures.push(("I9", format!("pids {} and {} act with other settings", pids.0, pids.1)));
                }
            }
            let mut ids = BTreeSet::new();
            for process in &acting {
                if !ids.insert(&process.settings.replica_id) {
                    failures.push(("I8", format!("two processes act as {}", process.settings.replica_id)));
                }
            }
            let owned: BTreeSet<u32> = owners.keys().copied().collect();
            failures.into_iter().for_each(|(name, message)| self.check.fail(now, name, message));
            self.check_gaps(kind, &owned, slowest, is_bad, now);
            self.check_looks(kind, slowest, now);
        }
    }

    /// I2.
    fn check_gaps(
        &mut self,
        kind: ProcessKind,
        owned: &BTreeSet<u32>,
        slowest: u64,
        is_bad: bool,
        now: Nanos,
    ) {
        let index = index_of(kind);
        let bound = 40 * SEC * 1000 / slowest + SEC;
        let good_since = self.check.good_since[index];
        let (has_trouble, last_trouble) = (self.hub_trouble.is_any(), self.last_hub_trouble);
        let mut failures = Vec::new();
        for shard in 0..self.plan.shards.get() {
            let last = self.check.last_owned[index].entry(shard).or_insert(now);
            if owned.contains(&shard) {
                *last = now;
                continue;
            }
            let last = *last;
            let gap = now - last;
            let counted = now - last.max(good_since);
            self.stats.worst_gap = self.stats.worst_gap.max(gap);
            if !has_trouble && last_trouble < last {
                self.stats.worst_gap_without_trouble = self.stats.worst_gap_without_trouble.max(gap);
            }
            let is_created = self.check.created[index].get(&shard).is_some_and(|created| *created >= last);
            let bound = if is_created { bound + 30 * SEC * 1000 / slowest } else { bound };
            if !is_bad && !is_created {
                self.stats.worst_counted_gap = self.stats.worst_counted_gap.max(counted);
            }
            if counted > bound {
                failures.push(format!(
                    "{} shard {shard} had no owner for {:.1} s, {:.1} s of them undisturbed",
                    kind.prefix(),
                    gap as f64 / SEC as f64,
                    counted as f64 / SEC as f64
                ));
            }
        }
        failures.into_iter().for_each(|message| self.check.fail(now, "I2", message));
    }

    /// I12.
    fn check_looks(&mut self, kind: ProcessKind, slowest: u64, now: Nanos) {
        let index = index_of(kind);
        // A back-off of up to a minute, and the work itself, come on top.
        let bound = (RESYNC_SECONDS + 40 + 90) * SEC * 1000 / slowest;
        let since = self.check.good_since[index].max(self.check.targets_good_since);
        let late = self.hub.releases.keys().find_map(|key| {
            let looked = self.check.looked[index].get(key).copied().unwrap_or(0);
            (now - looked.max(since) > bound).then_some((*key, now - looked))
        });
        if let Some((key, span)) = late {
            let message = format!("the owner of release {key} did not look at it for {} s", span / SEC);
            self.check.fail(now, "I12", message);
        }
    }
}
