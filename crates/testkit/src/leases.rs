//! Who holds which shard, by looking at the leases again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// On leases: a random text for each start of the process that wrote last.
const BOOT: &str = "convoy.kumodo.io/boot-id";

/// A lease as it was from one look on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The look.
    pub at: Timestamp,
    /// Who holds it; none when it is released or not there.
    pub holder: Option<String>,
    /// `metadata.resourceVersion`: another one for each write.
    pub version: String,
    /// `spec.leaseTransitions`.
    pub transitions: u64,
    /// Which start of the holder's process wrote last.
    pub boot: String,
}

impl Sighting {
    /// Who holds it since which acquisition.
    fn held(&self) -> (Option<&str>, &str, u64) {
        (self.holder.as_deref(), &self.boot, self.transitions)
    }
}

/// What all looks at the shard leases of one process kind have seen.
#[derive(Debug, Clone)]
pub struct LeaseHistory {
    prefix: String,
    shards: BTreeMap<u32, Vec<Sighting>>,
    last_look: Option<Timestamp>,
}

impl LeaseHistory {
    /// An empty history of so many shards; `prefix` is what the leases' names begin with, `convoy-cm` for
    /// example.
    pub fn new(prefix: &str, shards: u32) -> Self {
        let shards = (0..shards).map(|shard| (shard, Vec::new())).collect();
        Self { prefix: prefix.to_owned(), shards, last_look: None }
    }

    /// Takes a LeaseList that was asked for at that time. Only what changed is kept.
    pub fn see(&mut self, at: Timestamp, list: &Value) {
        self.last_look = Some(at);
        let mut missing: BTreeSet<u32> = self.shards.keys().copied().collect();
        for lease in list["items"].as_array().into_iter().flatten() {
            let shard = lease["metadata"]["name"]
                .as_str()
                .and_then(|name| name.strip_prefix(&self.prefix)?.strip_prefix("-shard-")?.parse().ok());
            let Some(shard) = shard else { continue };
            missing.remove(&shard);
            let holder = lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
            let sighting = Sighting {
                at,
                holder: holder.map(str::to_owned),
                version: lease["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned(),
                transitions: lease["spec"]["leaseTransitions"].as_u64().unwrap_or_default(),
                boot: lease["metadata"]["annotations"][BOOT].as_str().unwrap_or_default().to_owned(),
            };
            self.note(shard, sighting);
        }
        for shard in missing {
            self.note(
                shard,
                Sighting { at, holder: None, version: String::new(), transitions: 0, boot: String::new() },
            );
        }
    }

    fn note(&mut self, shard: u32, sighting: Sighting) {
        let Some(sightings) = self.shards.get_mut(&shard) else { return };
        if sightings.last().is_none_or(|last| last.version != sighting.version) {
            sightings.push(sighting);
        }
    }

    /// The hand-overs of a shard: from when it was seen without a holder, or with another one or one that had acquired it
    /// anew, until it was seen with a holder, or until the last look.
    pub fn hand_overs(&self, shard: u32) -> Vec<(Timestamp, Timestamp)> {
        let sightings = self.shards.get(&shard).map_or(&[][..], Vec::as_slice);
        let pairs = sightings.iter().zip(sightings.iter().skip(1)).enumerate();
        let changes = pairs.filter(|(_, (before, after))| before.held() != after.held());
        let until_held = |(index, (_, after)): (usize, (&Sighting, &Sighting))| {
            let held = sightings.iter().skip(index + 1).find(|sighting| sighting.holder.is_some());
            (after.at, held.map(|sighting| sighting.at).or(self.last_look).unwrap_or(after.at))
        };
        changes.map(until_held).collect()
    }

    /// Who held a shard at the last look.
    pub fn holder(&self, shard: u32) -> Option<&str> {
        self.shards.get(&shard)?.last()?.holder.as_deref()
    }

    /// Which start of which process wrote a shard's lease before the last look.
    pub fn boot(&self, shard: u32) -> Option<&str> {
        Some(self.shards.get(&shard)?.last()?.boot.as_str())
    }

    /// The shards that a replica held at the last look.
    pub fn held_by(&self, replica: &str) -> Vec<u32> {
        self.shards.keys().copied().filter(|shard| self.holder(*shard) == Some(replica)).collect()
    }

    /// When somebody that `counts` was first seen to write the shard's lease as its holder after `after`.
    pub fn covered_after(
        &self,
        shard: u32,
        after: Timestamp,
        counts: impl Fn(&Sighting) -> bool,
    ) -> Option<Timestamp> {
        let sightings = self.shards.get(&shard)?;
        let mut covers = sightings
            .iter()
            .filter(|sighting| sighting.at > after && sighting.holder.is_some() && counts(sighting));
        covers.next().map(|sighting| sighting.at)
    }

    /// The shards that have no holder, or whose holder has not been seen to renew for longer than `duration`.
    pub fn unowned(&self, duration: Duration) -> Vec<u32> {
        let is_unowned = |sightings: &Vec<Sighting>| {
            let (Some(last), Some(look)) = (sightings.last(), self.last_look) else { return true };
            last.holder.is_none() || look.duration_since(last.at).unsigned_abs() > duration
        };
        self.shards.iter().filter(|(_, sightings)| is_unowned(sightings)).map(|(shard, _)| *shard).collect()
    }

    /// The longest time since `from` in which nobody renewed or took a shard, and the shard: from the last
    /// renewal, or from its release, to the next write by a holder, or to the last look.
    pub fn longest_gap(&self, from: Timestamp) -> Option<(Duration, u32)> {
        let look = self.last_look?;
        let mut longest: Option<(Duration, u32)> = None;
        for (shard, sightings) in &self.shards {
            let mut since = None;
            let mut note = |since: Timestamp, until: Timestamp| {
                let gap = until.duration_since(since).unsigned_abs();
                if until > from && longest.is_none_or(|(longest, _)| gap > longest) {
                    longest = Some((gap, *shard));
                }
            };
            let mut is_held = false;
            for sighting in sightings {
                if let Some(since) = since
                    && sighting.holder.is_some()
                {
                    note(since, sighting.at);
                }
                // Until it is released a shard has its owner, however long before it was renewed.
                if sighting.holder.is_some() || is_held {
                    since = Some(sighting.at);
                }
                is_held = sighting.holder.is_some();
            }
            if let Some(since) = since {
                note(since, look);
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn list(leases: &[(&str, &str, &str)]) -> Value {
        let item = |(name, holder, version): &(&str, &str, &str)| {
            json!({"metadata": {"name": name, "resourceVersion": version},
                   "spec": {"holderIdentity": holder, "leaseTransitions": 1}})
        };
        json!({"items": leases.iter().map(item).collect::<Vec<_>>()})
    }

    #[test]
    fn i2_a_takeover_is_the_first_write_of_a_holder_after_the_fault() {
        let mut history = LeaseHistory::new("convoy-cm", 2);
        let other = ("convoy-obs-shard-0", "o", "9");
        history.see(at(1), &list(&[("convoy-cm-shard-0", "a", "1"), ("convoy-cm-shard-1", "b", "2"), other]));
        history.see(at(2), &list(&[("convoy-cm-shard-0", "a", "1"), ("convoy-cm-shard-1", "b", "3")]));
        assert_eq!(history.held_by("a"), [0]);
        assert_eq!(history.covered_after(0, at(1), |_| true), None);
        // Released: nobody's, though written.
        history.see(at(3), &list(&[("convoy-cm-shard-0", "", "4"), ("convoy-cm-shard-1", "b", "3")]));
        assert_eq!(history.covered_after(0, at(1), |_| true), None);
        assert_eq!(history.unowned(Duration::from_secs(30)), [0]);
        history.see(at(35), &list(&[("convoy-cm-shard-0", "b", "5"), ("convoy-cm-shard-1", "b", "3")]));
        assert_eq!(history.covered_after(0, at(1), |_| true), Some(at(35)));
        assert_eq!(history.unowned(Duration::from_secs(30)), [1], "not renewed for 33 s");
        assert_eq!(history.longest_gap(at(3)), Some((Duration::from_secs(33), 1)), "renewed at 2");
        history.see(at(36), &list(&[("convoy-cm-shard-0", "b", "6"), ("convoy-cm-shard-1", "b", "7")]));
        assert_eq!(history.longest_gap(at(3)), Some((Duration::from_secs(34), 1)));
        assert_eq!(history.hand_overs(0), [(at(3), at(35)), (at(35), at(35))]);
        assert_eq!(history.hand_overs(1), []);
    }

    #[test]
    fn i3_a_lease_that_is_not_there_is_unowned() {
        let mut history = LeaseHistory::new("convoy-cm", 2);
        assert_eq!(history.unowned(Duration::from_secs(9)).len(), 2);
        history.see(at(1), &list(&[("convoy-cm-shard-0", "a", "1"), ("convoy-cm-shard-1", "a", "2")]));
        history.see(at(2), &list(&[("convoy-cm-shard-0", "a", "1")]));
        assert_eq!(history.unowned(Duration::from_secs(9)), [1]);
    }
}
