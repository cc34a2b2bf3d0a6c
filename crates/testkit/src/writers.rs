//! Who wrote when: what audit logs say about the division of work between replicas.
//!
//! A cluster belongs to a shard, a shard to one replica at a time. From the requests alone one sees whether
//! two replicas wrote to one cluster at the same time ([`overlaps`]); together with the writes of the leases
//! one also sees whether anybody wrote without holding the lease ([`Terms::strays`]).

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use jiff::Timestamp;

use crate::audit::Write;

/// From one replica's first write to a cluster to its last, with no write of another between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// The cluster.
    pub cluster: String,
    /// The replica.
    pub replica: String,
    /// When the first write began.
    pub first: Timestamp,
    /// When the last write ended.
    pub last: Timestamp,
    /// How many writes.
    pub writes: usize,
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, replica, first, last, writes } = self;
        write!(f, "{replica} made {writes} writes to {cluster} from {first} to {last}")
    }
}

/// The intervals of all clusters, in the order of their beginnings.
pub fn intervals(writes: &[Write]) -> Vec<Interval> {
    let mut sorted: Vec<&Write> = writes.iter().collect();
    sorted.sort_by_key(|write| write.began);
    let mut all: Vec<Interval> = Vec::new();
    let mut latest: HashMap<&str, usize> = HashMap::new();
    for write in sorted {
        let last = latest.get(write.cluster.as_str()).and_then(|index| all.get_mut(*index));
        match last {
            Some(interval) if interval.replica == write.sender.replica => {
                interval.last = interval.last.max(write.ended);
                interval.writes += 1;
            }
            _ => {
                latest.insert(&write.cluster, all.len());
                all.push(Interval {
                    cluster: write.cluster.clone(),
                    replica: write.sender.replica.clone(),
                    first: write.began,
                    last: write.ended,
                    writes: 1,
                });
            }
        }
    }
    all
}

/// Pairs of intervals of two replicas in one cluster that share a moment.
pub fn overlaps(writes: &[Write]) -> Vec<(Interval, Interval)> {
    let mut by_cluster: BTreeMap<String, Vec<Interval>> = BTreeMap::new();
    for interval in intervals(writes) {
        by_cluster.entry(interval.cluster.clone()).or_default().push(interval);
    }
    let mut found = Vec::new();
    for intervals in by_cluster.values() {
        // The latest end so far: a long interval may reach over several that follow it.
        let mut reach: Option<&Interval> = None;
        for interval in intervals {
            if let Some(earlier) = reach
                && earlier.replica != interval.replica
                && interval.first < earlier.last
            {
                found.push((earlier.clone(), interval.clone()));
            }
            if reach.is_none_or(|earlier| interval.last >= earlier.last) {
                reach = Some(interval);
            }
        }
    }
    found
}

/// How many writes began in a window.
pub fn count_between(writes: &[Write], from: Timestamp, to: Timestamp) -> usize {
    writes.iter().filter(|write| write.began >= from && write.began < to).count()
}

/// The time in which one replica wrote a shard's lease and no other did.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    holder: String,
    /// When its first write of the lease was answered.
    from: Timestamp,
    /// When the next holder's first write of the lease was received.
    until: Option<Timestamp>,
}

/// A write by a replica that did not hold the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The write.
    pub write: Write,
    /// The shard.
    pub shard: u32,
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write { cluster, sender, verb, resource, name, began, ended, .. } = &self.write;
        write!(
            f,
            "{} {} did {verb} {resource} {name} of {cluster} from {began} to {ended} without the lease of shard {}",
            sender.process, sender.replica, self.shard
        )
    }
}

/// Who held which shard when, by the writes of the leases.
#[derive(Debug, Default)]
pub struct Terms {
    shards: HashMap<u32, Vec<Term>>,
}

impl Terms {
    /// The terms of one process kind: `prefix` is what its leases' names begin with, `convoy-cm` for example.
    pub fn of(host: &[Write], prefix: &str) -> Self {
        let mut writes: Vec<(u32, &Write)> = host
            .iter()
            .filter(|write| write.resource == "leases" && write.verb != "delete" && write.is_done())
            .filter_map(|write| {
                let shard = write.name.strip_prefix(prefix)?.strip_prefix("-shard-")?.parse().ok()?;
                Some((shard, write))
            })
            .collect();
        writes.sort_by_key(|(_, write)| write.began);
        let mut shards: HashMap<u32, Vec<Term>> = HashMap::new();
        for (shard, write) in writes {
            let terms = shards.entry(shard).or_default();
            match terms.last_mut() {
                Some(term) if term.holder == write.sender.replica => continue,
                Some(term) => term.until = Some(write.began),
                None => {}
            }
            terms.push(Term { holder: write.sender.replica.clone(), from: write.ended, until: None });
        }
        Self { shards }
    }

    /// The writes that did not lie wholly within a term of their sender. `shard_of` says which shard a write
    /// needs; none for a write that needs no lease.
    pub fn strays(&self, writes: &[Write], shard_of: impl Fn(&Write) -> Option<u32>) -> Vec<Stray> {
        let mut found = Vec::new();
        for write in writes {
            let Some(shard) = shard_of(write) else { continue };
            let is_within = |term: &Term| {
                term.holder == write.sender.replica
                    && term.from <= write.began
                    && term.until.is_none_or(|until| write.ended <= until)
            };
            if !self.shards.get(&shard).is_some_and(|terms| terms.iter().any(is_within)) {
                found.push(Stray { write: write.clone(), shard });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Sender;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn write(cluster: &str, replica: &str, began: i64, ended: i64) -> Write {
        Write {
            cluster: cluster.to_owned(),
            sender: Sender { process: "controller-manager".to_owned(), replica: replica.to_owned() },
            verb: "patch".to_owned(),
            resource: "configmaps".to_owned(),
            namespace: "x".to_owned(),
            name: "c".to_owned(),
            began: at(began),
            ended: at(ended),
            code: 200,
        }
    }

    fn lease(shard: u32, replica: &str, began: i64, ended: i64) -> Write {
        Write {
            resource: "leases".to_owned(),
            verb: "update".to_owned(),
            name: format!("convoy-cm-shard-{shard}"),
            ..write("", replica, began, ended)
        }
    }

    #[test]
    fn i1_one_replica_after_the_other_is_no_overlap() {
        let log =
            [write("c", "a", 1, 2), write("c", "a", 3, 5), write("c", "b", 6, 7), write("d", "b", 1, 9)];
        let got = intervals(&log);
        assert_eq!(got.len(), 3);
        assert_eq!((got[0].first, got[0].last, got[0].writes), (at(1), at(5), 2));
        assert_eq!(overlaps(&log), []);
    }

    #[test]
    fn i1_two_replicas_at_once_are_an_overlap() {
        let log = [write("c", "a", 1, 4), write("c", "b", 3, 6)];
        let found = overlaps(&log);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.replica.as_str(), found[0].1.replica.as_str()), ("a", "b"));
        // One long request spans all that others do meanwhile.
        let log = [write("c", "a", 1, 20), write("c", "b", 3, 6), write("c", "d", 8, 9)];
        assert_eq!(overlaps(&log).len(), 2);
        // At the same time in two clusters: no matter.
        assert_eq!(overlaps(&[write("c", "a", 1, 4), write("d", "b", 3, 6)]), []);
    }

    #[test]
    fn i1_a_write_without_the_lease_is_a_stray() {
        let host = [
            lease(7, "a", 0, 1),
            lease(7, "a", 10, 11),
            lease(7, "b", 40, 41),
            Write { code: 409, ..lease(7, "a", 50, 51) },
            Write { name: "convoy-obs-shard-7".to_owned(), ..lease(7, "z", 60, 61) },
        ];
        let terms = Terms::of(&host, "convoy-cm");
        let strays = |write: Write| terms.strays(&[write], |_| Some(7)).len();
        assert_eq!(strays(write("c", "a", 1, 2)), 0, "within the first term");
        assert_eq!(strays(write("c", "a", 39, 40)), 0, "up to the next holder's first write");
        assert_eq!(strays(write("c", "a", 39, 42)), 1, "an answer that came after the next holder began");
        assert_eq!(strays(write("c", "a", 52, 53)), 1, "its own late write of the lease was refused");
        assert_eq!(strays(write("c", "b", 40, 42)), 1, "before it knew that it holds the lease");
        assert_eq!(strays(write("c", "b", 42, 99)), 0, "to this day");
        assert_eq!(strays(write("c", "z", 70, 71)), 1, "a lease of the other process kind");
        assert_eq!(terms.strays(&[write("c", "z", 70, 71)], |_| None), [], "needs no lease");
    }

    #[test]
    fn writes_of_a_window_are_counted_by_their_beginning() {
        let log = [write("c", "a", 1, 4), write("c", "a", 5, 6), write("c", "a", 9, 9)];
        assert_eq!(count_between(&log, at(2), at(9)), 1);
    }
}
