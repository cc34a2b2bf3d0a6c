//! Leases as the protocol reads and writes them (`coordination.k8s.io/v1`, Lease).

use std::num::NonZeroU32;
use std::time::Duration;

use crate::{Settings, settings::is_dns_label};

/// Annotations on leases.
pub mod annotation {
    /// The boot id of the process that wrote last.
    pub const BOOT_ID: &str = "convoy.kumodo.io/boot-id";
    /// On member leases: `--shards`.
    pub const SHARDS: &str = "convoy.kumodo.io/shards";
    /// On member leases: `--shard-assignment`.
    pub const ASSIGNMENT: &str = "convoy.kumodo.io/shard-assignment";
    /// On member leases: `--lease-renew-interval`, in milliseconds.
    pub const RENEW_INTERVAL: &str = "convoy.kumodo.io/lease-renew-interval-ms";
    /// On member leases: whether the replica acts, or waits for peers that run with other settings.
    pub const STATE: &str = "convoy.kumodo.io/state";
    /// On member leases: where the replica is asked by the apiserver, `host:port`.
    pub const ADDRESS: &str = "convoy.kumodo.io/address";
}

/// Which lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseKey {
    /// The member lease of a replica.
    Member(String),
    /// The lease of a shard.
    Shard(u32),
}

impl LeaseKey {
    /// `convoy-cm-member-<replica-id>`, `convoy-cm-shard-<i>`, and the same with `convoy-obs`.
    pub fn name(&self, settings: &Settings) -> String {
        let prefix = settings.process.prefix();
        match self {
            LeaseKey::Member(id) => format!("{prefix}-member-{id}"),
            LeaseKey::Shard(shard) => format!("{prefix}-shard-{shard}"),
        }
    }

    /// The lease of that name, when it is one of the given process kind. Names that no replica writes
    /// (an id that is no DNS label, a shard with a leading zero) are none.
    pub fn parse(process: crate::ProcessKind, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(process.prefix())?;
        if let Some(id) = rest.strip_prefix("-member-") {
            return is_dns_label(id).then(|| LeaseKey::Member(id.to_owned()));
        }
        let digits = rest.strip_prefix("-shard-")?;
        let shard: u32 = digits.parse().ok()?;
        (shard.to_string() == digits).then_some(LeaseKey::Shard(shard))
    }
}

/// Whether a member acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// It takes its part of the shards.
    Acting,
    /// It waits, because a peer that acts runs with other settings.
    Waiting,
}

impl MemberState {
    /// The word on the lease.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberState::Acting => "acting",
            MemberState::Waiting => "waiting",
        }
    }
}

/// What a member says of its settings on its lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberInfo {
    /// `--shards`; none when the annotation is missing or no number.
    pub shards: Option<NonZeroU32>,
    /// `--shard-assignment`.
    pub assignment: Option<String>,
    /// `--lease-renew-interval`.
    pub renew_interval: Option<Duration>,
    /// Whether it acts.
    pub state: MemberState,
}

/// One lease, as it was read or is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Which one.
    pub key: LeaseKey,
    /// `metadata.uid`; empty on a lease that is to be created.
    pub uid: String,
    /// `metadata.resourceVersion`; empty on a lease that is to be created.
    pub resource_version: String,
    /// `spec.holderIdentity`; none when nobody holds it. An empty text is none.
    pub holder: Option<String>,
    /// The boot id of who wrote last.
    pub boot_id: Option<String>,
    /// `spec.leaseDurationSeconds`, as it stands there.
    pub duration_seconds: Option<i64>,
    /// `spec.leaseTransitions`; what is not there or negative is 0.
    pub transitions: u64,
    /// `spec.acquireTime` by the wall clock of who acquired it; for people only.
    pub acquired: Option<Duration>,
    /// `spec.renewTime` by the wall clock of who wrote it; for people only, never judged by.
    pub renewed: Option<Duration>,
    /// On member leases.
    pub member: Option<MemberInfo>,
}

impl Lease {
    /// `metadata.resourceVersion` as the number that API servers make it; 0 when it is none.
    pub fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProcessKind;

    #[test]
    fn sc32_sc33_names_of_leases() {
        let cm = Settings::new(ProcessKind::ControllerManager, "a", "b");
        let obs = Settings::new(ProcessKind::Observer, "a", "b");
        assert_eq!(LeaseKey::Member("cm-0".into()).name(&cm), "convoy-cm-member-cm-0");
        assert_eq!(LeaseKey::Shard(7).name(&cm), "convoy-cm-shard-7");
        assert_eq!(LeaseKey::Member("o".into()).name(&obs), "convoy-obs-member-o");
        assert_eq!(LeaseKey::Shard(31).name(&obs), "convoy-obs-shard-31");
    }

    #[test]
    fn names_that_no_replica_writes_are_none_of_ours() {
        let parse = |name| LeaseKey::parse(ProcessKind::ControllerManager, name);
        assert_eq!(parse("convoy-cm-member-cm-0"), Some(LeaseKey::Member("cm-0".into())));
        assert_eq!(parse("convoy-cm-shard-7"), Some(LeaseKey::Shard(7)));
        for name in [
            "convoy-cm-member-",
            "convoy-cm-member-Ä",
            "convoy-cm-shard-07",
            "convoy-cm-shard--1",
            "convoy-cm-shard-",
            "convoy-cm-shard-4294967296",
            "convoy-obs-shard-1",
            "other",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
