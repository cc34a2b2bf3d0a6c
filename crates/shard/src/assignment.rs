//! Which member gets which shard.

use std::num::NonZeroU32;

use crate::fnv1a;

/// How shards are divided between the live members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Assignment {
    /// Member k of N, in the order of the ids, gets each shard i with i mod N = k. Owned counts differ by
    /// at most one; one member more or less moves most shards.
    #[default]
    Modulo,
    /// Each shard goes to the member with the highest score for it, within the same bounds of balance: one
    /// member more or less moves little more than its own part.
    Rendezvous,
}

impl Assignment {
    /// The word of the flag and of the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Assignment::Modulo => "modulo",
            Assignment::Rendezvous => "rendezvous",
        }
    }

    /// The member of each shard, as indices into `members`, which are sorted and distinct. Empty when
    /// there is no member.
    pub fn divide(self, members: &[&str], shards: NonZeroU32) -> Vec<usize> {
        if members.is_empty() {
            return Vec::new();
        }
        match self {
            Assignment::Modulo => (0..shards.get() as usize).map(|shard| shard % members.len()).collect(),
            Assignment::Rendezvous => rendezvous(members, shards),
        }
    }
}

/// Highest scores first, each member up to its quota: of N members and S shards, S mod N get one more
/// than the others.
fn rendezvous(members: &[&str], shards: NonZeroU32) -> Vec<usize> {
    let count = shards.get() as usize;
    let (quota, mut extra) = (count / members.len(), count % members.len());
    let mut scores = Vec::with_capacity(count * members.len());
    for shard in 0..count {
        let digits = shard.to_string();
        scores.extend(members.iter().enumerate().map(|(member, id)| (score(id, &digits), shard, member)));
    }
    // As one number each: a comparison is one of numbers then.
    let as_number = |(score, shard, member): &(u32, usize, usize)| {
        u128::from(*score) << 96 | (*shard as u128) << 64 | *member as u128
    };
    scores.sort_unstable_by_key(|entry| std::cmp::Reverse(as_number(entry)));
    let mut owners = vec![usize::MAX; count];
    let mut owned = vec![0_usize; members.len()];
    for (_, shard, member) in scores {
        if owners[shard] != usize::MAX || owned[member] > quota {
            continue;
        }
        if owned[member] == quota {
            if extra == 0 {
                continue;
            }
            extra -= 1;
        }
        owners[shard] = member;
        owned[member] += 1;
    }
    owners
}

/// FNV-1a alone keeps near inputs near; the finaliser of MurmurHash3 spreads them.
fn score(member: &str, shard: &str) -> u32 {
    let mut hash = fnv1a(member.bytes().chain(std::iter::once(b'#')).chain(shard.bytes()));
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(assignment: Assignment, members: usize, shards: u32) -> Vec<usize> {
        let ids: Vec<String> = (0..members).map(|index| format!("convoy-{index:02}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        assignment.divide(&ids, NonZeroU32::new(shards).unwrap())
    }

    #[test]
    fn sc18_member_k_of_n_gets_each_shard_i_with_i_mod_n_equal_to_k() {
        for (members, shards) in [(1, 32), (3, 32), (5, 7), (40, 32)] {
            for (shard, member) in divide(Assignment::Modulo, members, shards).into_iter().enumerate() {
                assert_eq!(member, shard % members);
            }
        }
        assert!(Assignment::Modulo.divide(&[], NonZeroU32::MIN).is_empty());
    }

    #[test]
    fn i4_owned_counts_differ_by_at_most_one_and_every_shard_has_a_member() {
        for assignment in [Assignment::Modulo, Assignment::Rendezvous] {
            for members in [1, 2, 3, 4, 5, 10, 31, 32, 33, 40] {
                for shards in [1, 7, 32, 64] {
                    let mut counts = vec![0; members];
                    for member in divide(assignment, members, shards) {
                        counts[member] += 1;
                    }
                    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                    assert!(most - least <= 1, "{assignment:?} {members} {shards}: {counts:?}");
                    assert_eq!(counts.iter().sum::<u32>(), shards);
                }
            }
        }
    }

    #[test]
    fn rendezvous_moves_few_shards_and_modulo_most() {
        let moved = |assignment| {
            let (three, four) = (divide(assignment, 3, 32), divide(assignment, 4, 32));
            three.iter().zip(&four).filter(|(a, b)| a != b).count()
        };
        assert_eq!(moved(Assignment::Modulo), 23);
        assert!(moved(Assignment::Rendezvous) <= 12, "{}", moved(Assignment::Rendezvous));
    }
}
