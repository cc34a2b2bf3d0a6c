//! How convoy divides its work between replicas.
//!
//! A shard is a number below the shard count. Every object that a controller works on belongs to
//! exactly one: a Release and its ReleaseInventories to the shard of the target Cluster, each other
//! kind to the shard of its own namespace and name. The apiserver writes the shard on the object as
//! the label `convoy.kumodo.io/shard`, so that a replica can list only what it owns.

//!
//! Everything here is pure. [`Protocol::step`] takes what happened and what time it is, and answers with
//! what to do; a driver does the I/O. [`Ownership`] is what a write asks before it starts.

#![warn(missing_docs)]

mod assignment;
mod lease;
mod moment;
#[cfg(feature = "mutants")]
mod mutant;
mod ownership;
mod protocol;
mod settings;

pub use assignment::Assignment;
pub use lease::{Lease, LeaseKey, MemberInfo, MemberState, annotation};
pub use moment::Moment;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use ownership::{AlwaysOwn, NotOwner, Ownership, WritePermit};
pub use protocol::{
    Acquired, Action, ApiServerShards, Event, Held, LAST_EPOCH, LostBecause, Note, Protocol, Standing,
    WriteError, WriteOp, Written,
};
pub use settings::{
    DEFAULT_LEASE_DURATION, DEFAULT_OBSERVE_INTERVAL, DEFAULT_OBSERVE_INTERVAL_WITH_RELEASE,
    DEFAULT_RENEW_INTERVAL, LONGEST_LEASE_DURATION, MOST_SHARDS, ProcessKind, Settings, SettingsError,
    is_dns_label,
};

use std::num::NonZeroU32;

/// The shard count when `--shards` is not given; equal on every component.
pub const DEFAULT_SHARD_COUNT: NonZeroU32 = NonZeroU32::new(32).unwrap();

const FNV1A_OFFSET_BASIS: u32 = 0x811c_9dc5;
const FNV1A_PRIME: u32 = 0x0100_0193;

/// The shard of the object `namespace/name` among `count` shards: FNV-1a, 32 bit, of the bytes of
/// `<namespace>/<name>`, modulo the count. For a cluster-scoped object the namespace is empty and
/// the slash stays.
pub fn shard_of(namespace: &str, name: &str, count: NonZeroU32) -> u32 {
    fnv1a(namespace.bytes().chain(std::iter::once(b'/')).chain(name.bytes())) % count
}

fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(FNV1A_OFFSET_BASIS, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(FNV1A_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    /// Values computed with Go's `hash/fnv` `New32a`.
    #[test]
    fn sc07_shard_is_fnv1a_of_namespace_slash_name_modulo_count() {
        let table = [
            ("", "", 32, 30),
            ("default", "prod-eu", 32, 15),
            ("fleet", "edge-1", 32, 27),
            ("fleet", "edge-2", 32, 14),
            ("", "cluster-rules", 32, 6),
            ("a-namespace", "a-name", 31, 12),
            ("fleet", "edge-2", 31, 24),
        ];
        for (namespace, name, count, want) in table {
            assert_eq!(shard_of(namespace, name, shards(count)), want, "{namespace}/{name} of {count}");
        }
    }

    #[test]
    fn sc08_default_shard_count_is_32() {
        assert_eq!(DEFAULT_SHARD_COUNT.get(), 32);
    }

    #[test]
    fn every_shard_is_below_the_count() {
        for count in [1, 2, 31, 32, 64] {
            for index in 0..1000 {
                assert!(shard_of("fleet", &format!("cluster-{index}"), shards(count)) < count);
            }
        }
    }
}
