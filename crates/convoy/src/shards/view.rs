//! What the leases say, put in order. Pure.
//!
//! An outside reader has seen no lease change, so that it can only go by the times that the replicas wrote
//! and by its own clock. Replicas never do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use convoy_shard::{
    DEFAULT_LEASE_DURATION, DEFAULT_SHARD_COUNT, LONGEST_LEASE_DURATION, Lease, LeaseKey,
    MemberState as Said, ProcessKind,
};

/// By so much the clocks of machines may differ before what leases say is not believed.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);
/// By so much a renewal may be late.
const LATE: Duration = Duration::from_secs(1);

/// How many objects a shard has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Objects {
    pub(crate) releases: u64,
    pub(crate) clusters: u64,
    pub(crate) sources: u64,
}

impl Objects {
    pub(crate) fn all(self) -> u64 {
        self.releases + self.clusters + self.sources
    }
}

/// Objects by their shard; `None` are those whose label is missing or no number.
pub(crate) type ByShard = BTreeMap<Option<u32>, Objects>;

/// How a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its holder renewed it in time.
    Held { left: Duration },
    /// Its holder did not.
    Ended { ago: Duration },
    /// Its holder gave it back.
    Released { ago: Option<Duration> },
    /// There is none.
    Missing,
}

impl Standing {
    fn of(lease: &Lease, now: Duration) -> Self {
        if lease.holder.is_none() {
            return Self::Released { ago: lease.renewed.map(|renewed| now.saturating_sub(renewed)) };
        }
        let end = lease.renewed.unwrap_or(Duration::ZERO).saturating_add(duration(lease));
        match end.checked_sub(now) {
            Some(left) if !left.is_zero() => Self::Held { left },
            _ => Self::Ended { ago: now.saturating_sub(end) },
        }
    }

    pub(crate) fn is_held(self) -> bool {
        matches!(self, Self::Held { .. })
    }

    /// For how long nobody has owned it, as far as the lease says.
    pub(crate) fn gap(self) -> Option<Duration> {
        match self {
            Self::Held { .. } | Self::Missing => None,
            Self::Ended { ago } => Some(ago),
            Self::Released { ago } => ago,
        }
    }

    /// One word, for programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Held { .. } => "held",
            Self::Ended { .. } => "ended",
            Self::Released { .. } => "released",
            Self::Missing => "missing",
        }
    }
}

/// How long a lease lasts. No replica wrote one that is longer than the longest, and none goes by it.
fn duration(lease: &Lease) -> Duration {
    let seconds = u64::try_from(lease.duration_seconds.unwrap_or(0)).unwrap_or(0);
    let written = Duration::from_secs(seconds);
    if written <= LONGEST_LEASE_DURATION { written } else { DEFAULT_LEASE_DURATION }
}

/// What is known of a replica from its member lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberState {
    /// It takes its part.
    Acting,
    /// It says that it waits.
    Waiting,
    /// Its lease has not ended, but it has missed two renewals: it hangs, is cut off, or has just died.
    Silent,
    /// The lease was not written as replicas write theirs, or its times cannot be told by this machine's clock.
    Unknown,
    /// Its lease has ended.
    Gone,
}

impl MemberState {
    fn of(lease: &Lease, standing: Standing, now: Duration) -> Self {
        if !standing.is_held() {
            return Self::Gone;
        }
        let LeaseKey::Member(id) = &lease.key else { return Self::Unknown };
        let Some((info, interval)) =
            lease.member.as_ref().and_then(|info| Some((info, info.renew_interval?)))
        else {
            return Self::Unknown;
        };
        let renewed = lease.renewed.unwrap_or_default();
        let is_a_replicas =
            lease.boot_id.is_some() && lease.holder.as_ref() == Some(id) && info.shards.is_some();
        if !is_a_replicas || renewed > now.saturating_add(CLOCKS_DIFFER) {
            return Self::Unknown;
        }
        if now.saturating_sub(renewed) > interval.saturating_mul(2).saturating_add(LATE) {
            return Self::Silent;
        }
        match info.state {
            Said::Acting => Self::Acting,
            Said::Waiting => Self::Waiting,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Acting => "acting",
            Self::Waiting => "waiting",
            Self::Silent => "silent",
            Self::Unknown => "unknown",
            Self::Gone => "gone",
        }
    }
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardRow {
    pub(crate) shard: u32,
    pub(crate) lease: String,
    pub(crate) standing: Standing,
    /// Who holds it, or held it last.
    pub(crate) owner: Option<String>,
    pub(crate) epoch: Option<u64>,
    pub(crate) objects: Objects,
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberRow {
    pub(crate) id: String,
    pub(crate) lease: String,
    pub(crate) standing: Standing,
    pub(crate) state: MemberState,
    pub(crate) shards: Option<u32>,
    pub(crate) assignment: Option<String>,
    pub(crate) renewed_ago: Option<Duration>,
    /// Shards that it holds now.
    pub(crate) owned: usize,
}

/// The shards of one process kind.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) process: ProcessKind,
    pub(crate) shards: Vec<ShardRow>,
    pub(crate) members: Vec<MemberRow>,
    /// How many shards the API server counts, if it says so.
    pub(crate) counted: Option<u32>,
    /// What people should know.
    pub(crate) warnings: Vec<String>,
}

impl View {
    /// Puts the leases of one process kind in order; `counted` is what the API server says of the number of
    /// shards, `now` the time since 1970.
    pub(crate) fn new(
        process: ProcessKind,
        leases: &[Lease],
        objects: &ByShard,
        counted: Option<u32>,
        now: Duration,
    ) -> Self {
        let mut members: Vec<MemberRow> =
            leases.iter().filter_map(|lease| member(process, lease, now)).collect();
        members.sort_by(|a, b| a.id.cmp(&b.id));
        let found: BTreeMap<u32, &Lease> = leases
            .iter()
            .filter_map(|lease| match lease.key {
                LeaseKey::Shard(shard) => Some((shard, lease)),
                LeaseKey::Member(_) => None,
            })
            .collect();
        let mut warnings = Vec::new();
        let count = count(process, &members, &found, counted, &mut warnings);
        warn_of_leases(process, leases, &members, now, &mut warnings);
        let row = |shard: u32| {
            let lease = found.get(&shard);
            ShardRow {
                shard,
                lease: format!("{}-shard-{shard}", process.prefix()),
                standing: lease.map_or(Standing::Missing, |lease| Standing::of(lease, now)),
                owner: lease.and_then(|lease| lease.holder.clone()),
                epoch: lease.map(|lease| lease.transitions),
                objects: objects.get(&Some(shard)).copied().unwrap_or_default(),
            }
        };
        let shards: Vec<ShardRow> = (0..count).map(row).collect();
        for member in &mut members {
            let is_its = |row: &&ShardRow| row.standing.is_held() && row.owner.as_ref() == Some(&member.id);
            member.owned = shards.iter().filter(is_its).count();
        }
        let is_outside = |shard: &Option<u32>| shard.is_none_or(|shard| shard >= count);
        let outside: u64 =
            objects.iter().filter(|(shard, _)| is_outside(shard)).map(|(_, objects)| objects.all()).sum();
        if outside > 0 {
            warnings.push(format!(
                "{outside} objects have no shard label, or one of another --shards than the {count} of {}s; the apiserver puts labels right within a minute of its start if its --shards is the same",
                process.as_str()
            ));
        }
        Self { process, shards, members, counted, warnings }
    }

    /// Whether each shard has a live owner.
    pub(crate) fn is_owned(&self) -> bool {
        self.unowned() == 0
    }

    /// How many shards have none.
    pub(crate) fn unowned(&self) -> usize {
        self.shards.iter().filter(|row| !row.standing.is_held()).count()
    }

    /// The longest time that a shard has had none.
    pub(crate) fn longest_gap(&self) -> Option<Duration> {
        self.shards.iter().filter_map(|row| row.standing.gap()).max()
    }
}

fn member(process: ProcessKind, lease: &Lease, now: Duration) -> Option<MemberRow> {
    let LeaseKey::Member(id) = &lease.key else { return None };
    let info = lease.member.as_ref();
    let standing = Standing::of(lease, now);
    Some(MemberRow {
        id: id.clone(),
        lease: format!("{}-member-{id}", process.prefix()),
        standing,
        state: MemberState::of(lease, standing, now),
        shards: info.and_then(|info| info.shards).map(std::num::NonZeroU32::get),
        assignment: info.and_then(|info| info.assignment.clone()),
        renewed_ago: lease.renewed.map(|renewed| now.saturating_sub(renewed)),
        owned: 0,
    })
}

/// How many shards there are: what the replicas that act say, else what the leases show, else the default.
fn count(
    process: ProcessKind,
    members: &[MemberRow],
    found: &BTreeMap<u32, &Lease>,
    counted: Option<u32>,
    warnings: &mut Vec<String>,
) -> u32 {
    let live = || members.iter().filter(|member| member.standing.is_held());
    let said: BTreeSet<u32> = live().filter_map(|member| member.shards).collect();
    if said.len() > 1 {
        let said: Vec<String> = said.iter().map(u32::to_string).collect();
        warnings.push(format!(
            "live {}s run with different --shards ({}): set the same on all",
            process.as_str(),
            said.join(", ")
        ));
    }
    if let Some(counted) = counted {
        let wrong: Vec<String> = live()
            .filter_map(|member| Some((&member.id, member.shards.filter(|shards| *shards != counted)?)))
            .map(|(id, shards)| format!("{id} ({shards})"))
            .collect();
        if !wrong.is_empty() {
            warnings.push(format!(
                "the API server counts {counted} shards, but these {}s run with another --shards and own nothing: {}; start them with --shards {counted}",
                process.as_str(),
                wrong.join(", ")
            ));
        }
    }
    let is_acting = |member: &&MemberRow| matches!(member.state, MemberState::Acting | MemberState::Silent);
    let acting = live().filter(is_acting).filter_map(|member| member.shards).max();
    acting
        .or(counted)
        .or_else(|| said.last().copied())
        .or_else(|| members.iter().filter_map(|member| member.shards).max())
        .or_else(|| found.keys().last().map(|last| last.saturating_add(1)))
        // A lease of any name must not make this print without end.
        .map_or(DEFAULT_SHARD_COUNT.get(), |count| count.min(MOST))
}

/// Says what is odd about the leases themselves.
fn warn_of_leases(
    process: ProcessKind,
    leases: &[Lease],
    members: &[MemberRow],
    now: Duration,
    warnings: &mut Vec<String>,
) {
    if leases.is_empty() {
        warnings.push(format!("there are no leases of {0}s here: no {0} was started yet", process.as_str()));
    }
    let ahead = leases
        .iter()
        .filter_map(|lease| lease.renewed?.checked_sub(now))
        .max()
        .filter(|by| *by > CLOCKS_DIFFER);
    if let Some(ahead) = ahead {
        warnings.push(format!(
            "leases of {}s were renewed up to {} s in the future: the clock of this machine is behind, or somebody wrote them by hand",
            process.as_str(),
            ahead.as_secs()
        ));
    }
    for member in members.iter().filter(|member| member.state == MemberState::Unknown) {
        warnings.push(format!(
            "{} is not as a replica writes its lease, or its times cannot be told: whether {} runs is not known",
            member.lease, member.id
        ));
    }
}

/// More shards than anybody has.
const MOST: u32 = 4096;

#[cfg(test)]
pub(super) mod tests {
    use std::num::NonZeroU32;

    use convoy_shard::{MemberInfo, MemberState};

    use super::*;

    pub(crate) const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn lease(key: LeaseKey, holder: Option<&str>, ago: u64) -> Lease {
        Lease {
            key,
            uid: "u".into(),
            resource_version: "1".into(),
            holder: holder.map(str::to_owned),
            boot_id: None,
            duration_seconds: Some(30),
            transitions: 4,
            acquired: None,
            renewed: Some(NOW - Duration::from_secs(ago)),
            member: None,
        }
    }

    fn member(id: &str, shards: u32, state: MemberState, ago: u64) -> Lease {
        let info = MemberInfo {
            shards: NonZeroU32::new(shards),
            assignment: Some("modulo".into()),
            renew_interval: Some(Duration::from_secs(10)),
            state,
        };
        let key = LeaseKey::Member(id.into());
        Lease { member: Some(info), boot_id: Some("boot".into()), ..lease(key, Some(id), ago) }
    }

    /// Four shards: held, ended, released, missing.
    pub(crate) fn sample() -> View {
        let leases = [
            lease(LeaseKey::Shard(0), Some("cm-a"), 9),
            lease(LeaseKey::Shard(1), Some("cm-b"), 42),
            lease(LeaseKey::Shard(2), None, 5),
            member("cm-b", 4, MemberState::Acting, 42),
            member("cm-a", 4, MemberState::Acting, 9),
        ];
        let objects = ByShard::from([
            (Some(0), Objects { releases: 10, clusters: 2, sources: 1 }),
            (Some(1), Objects { releases: 3, clusters: 1, sources: 0 }),
            (Some(7), Objects { releases: 1, clusters: 0, sources: 0 }),
            (None, Objects { releases: 0, clusters: 1, sources: 0 }),
        ]);
        View::new(ProcessKind::ControllerManager, &leases, &objects, Some(4), NOW)
    }

    #[test]
    fn each_shard_has_its_standing_by_what_was_written_on_its_lease() {
        let view = sample();
        let standings: Vec<Standing> = view.shards.iter().map(|row| row.standing).collect();
        let seconds = Duration::from_secs;
        assert_eq!(
            standings,
            [
                Standing::Held { left: seconds(21) },
                Standing::Ended { ago: seconds(12) },
                Standing::Released { ago: Some(seconds(5)) },
                Standing::Missing,
            ]
        );
        assert_eq!((view.unowned(), view.is_owned(), view.longest_gap()), (3, false, Some(seconds(12))));
        let states: Vec<_> = view.members.iter().map(|m| (m.id.as_str(), m.state.word(), m.owned)).collect();
        assert_eq!(states, [("cm-a", "acting", 1), ("cm-b", "gone", 0)]);
        assert_eq!(view.warnings.len(), 1);
        assert!(view.warnings[0].starts_with("2 objects have no shard label"), "{}", view.warnings[0]);
    }

    #[test]
    fn the_number_of_shards_is_what_acting_replicas_say_and_disagreement_is_told() {
        let count = |leases: &[Lease]| {
            let view = View::new(ProcessKind::Observer, leases, &ByShard::new(), None, NOW);
            (view.shards.len(), view.warnings.len())
        };
        assert_eq!(count(&[]), (32, 1));
        assert_eq!(count(&[lease(LeaseKey::Shard(63), None, 1)]), (64, 0));
        assert_eq!(count(&[lease(LeaseKey::Shard(u32::MAX), None, 1)]), (4096, 0));
        let acting = member("a", 16, MemberState::Acting, 1);
        assert_eq!(count(&[acting.clone(), lease(LeaseKey::Shard(63), None, 1)]), (16, 0));
        assert_eq!(count(&[acting, member("b", 64, MemberState::Waiting, 1)]), (16, 1));
    }

    #[test]
    fn a_lease_at_its_very_end_and_one_of_the_future_are_judged_alike() {
        let standing = |lease: &Lease| Standing::of(lease, NOW);
        assert_eq!(
            standing(&lease(LeaseKey::Shard(0), Some("a"), 30)),
            Standing::Ended { ago: Duration::ZERO }
        );
        let mut ahead = lease(LeaseKey::Shard(0), Some("a"), 0);
        ahead.renewed = Some(NOW + Duration::from_secs(60));
        assert_eq!(standing(&ahead), Standing::Held { left: Duration::from_secs(90) });
        ahead.duration_seconds = Some(i64::MIN);
        ahead.renewed = None;
        assert_eq!(standing(&ahead), Standing::Ended { ago: NOW });
    }

    fn view(leases: &[Lease], counted: Option<u32>) -> View {
        View::new(ProcessKind::ControllerManager, leases, &ByShard::new(), counted, NOW)
    }

    #[test]
    fn sc14_replicas_that_count_other_shards_than_the_api_server_are_named() {
        let leases = [
            member("cm-a", 32, MemberState::Waiting, 1),
            member("cm-b", 16, MemberState::Acting, 1),
            member("cm-c", 8, MemberState::Acting, 400),
        ];
        let view = view(&leases, Some(16));
        assert_eq!(view.shards.len(), 16);
        let told = "the API server counts 16 shards, but these controller-managers run with another --shards and own nothing: cm-a (32); start them with --shards 16";
        assert!(view.warnings.iter().any(|warning| warning == told), "{:#?}", view.warnings);
        assert!(
            super::super::view::View::new(
                ProcessKind::Observer,
                &leases[1..2],
                &ByShard::new(),
                Some(16),
                NOW
            )
            .warnings
            .is_empty()
        );
    }

    #[test]
    fn only_a_replica_that_renews_is_said_to_act() {
        let state = |change: &dyn Fn(&mut Lease)| {
            let mut lease = member("cm-a", 4, MemberState::Acting, 9);
            change(&mut lease);
            let view = view(&[lease], None);
            (view.members[0].state.word(), view.warnings.len())
        };
        let ago =
            |seconds: u64| move |lease: &mut Lease| lease.renewed = Some(NOW - Duration::from_secs(seconds));
        assert_eq!(state(&|_| {}), ("acting", 0));
        assert_eq!(state(&ago(21)), ("acting", 0));
        assert_eq!(state(&ago(22)), ("silent", 0), "two renewals are missing");
        assert_eq!(state(&ago(30)), ("gone", 0));
        // Written by hand: for ever, without a word of a replica, in the future, or of somebody else.
        let for_ever = |lease: &mut Lease| {
            lease.duration_seconds = Some(i64::from(i32::MAX));
            lease.renewed = Some(NOW - Duration::from_secs(31));
        };
        assert_eq!(state(&for_ever), ("gone", 0));
        assert_eq!(state(&|lease| lease.boot_id = None), ("unknown", 1));
        assert_eq!(state(&|lease| lease.holder = Some("x".into())), ("unknown", 1));
        assert_eq!(state(&|lease| lease.member = None), ("unknown", 1));
        let ahead = |lease: &mut Lease| lease.renewed = Some(NOW + Duration::from_secs(90));
        assert_eq!(state(&ahead), ("unknown", 2));
    }
}
