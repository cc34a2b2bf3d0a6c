//! From flags to the settings of the lease loop.

use std::path::Path;

use convoy_runtime::leases::{LeaseOptions, Leases, LeasesError, start_leases};
use convoy_runtime::{Clock, Metrics, ProcessIdentity, Readiness, Shutdown};
use convoy_shard::{
    Assignment, DEFAULT_OBSERVE_INTERVAL, DEFAULT_OBSERVE_INTERVAL_WITH_RELEASE, ProcessKind, Settings,
    SettingsError,
};

use crate::arguments::{self, ShardAssignment};

/// Where leases are when nothing says otherwise.
pub(crate) const DEFAULT_NAMESPACE: &str = "convoy-system";
/// Where a pod finds its own namespace.
const POD_NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The settings of a replica, and what is risky about them.
pub(crate) fn settings(
    process: ProcessKind,
    replica_id: &str,
    shards: arguments::Shards,
    leases: &arguments::Leases,
) -> Result<(Settings, Vec<String>), SettingsError> {
    let mut settings = Settings::new(process, replica_id, boot_id());
    settings.shards = shards.shards;
    settings.asks_api_server = true;
    settings.renew_interval = leases.lease_renew_interval.as_std();
    settings.lease_duration = leases.lease_duration.as_std();
    settings.release_member_on_exit = leases.release_member_on_exit;
    settings.observe_interval = match leases.lease_observe_interval {
        Some(interval) => interval.as_std(),
        None if leases.release_member_on_exit => DEFAULT_OBSERVE_INTERVAL_WITH_RELEASE,
        // Reading less often than renewing would be of no use.
        None => DEFAULT_OBSERVE_INTERVAL.min(settings.renew_interval),
    };
    settings.assignment = match leases.shard_assignment {
        ShardAssignment::Modulo => Assignment::Modulo,
        ShardAssignment::Rendezvous => Assignment::Rendezvous,
    };
    let risks = settings.check()?;
    Ok((settings, risks))
}

/// Settings of a process that has no peers.
pub(crate) fn sole_settings(
    process: ProcessKind,
    replica_id: &str,
    shards: std::num::NonZeroU32,
) -> Settings {
    let mut settings = Settings::new(process, replica_id, boot_id());
    settings.shards = shards;
    settings.is_sole = true;
    settings.release_member_on_exit = true;
    settings.observe_interval = settings.renew_interval;
    settings
}

fn boot_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// `--lease-namespace`, or where this pod is, or `convoy-system`.
pub(crate) fn lease_namespace(leases: &arguments::Leases) -> String {
    namespace_of(leases.lease_namespace.as_deref(), Path::new(POD_NAMESPACE_FILE))
}

fn namespace_of(flag: Option<&str>, file: &Path) -> String {
    let present = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    flag.and_then(present)
        .or_else(|| present(&std::fs::read_to_string(file).ok()?))
        .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

/// What is wrong with a render store when there is more than one controller-manager.
pub(crate) fn store_warning(url: &str) -> Option<String> {
    let scheme = url.split("://").next().unwrap_or_default();
    match scheme {
        "memory" => Some(format!(
            "--render-store-url {url} is in the memory of this process, but there is another replica: what one renders the others do not find. Give all replicas one shared store"
        )),
        "file" => Some(format!(
            "--render-store-url {url} is a folder, but there is another replica: unless the folder is on a volume that all share, what one renders the others do not find"
        )),
        _ => None,
    }
}

/// What a lease loop shares with the rest of its process.
pub(crate) struct Around {
    pub(crate) identity: ProcessIdentity,
    pub(crate) clock: std::sync::Arc<dyn Clock>,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: Shutdown,
}

/// Starts the lease loop.
pub(crate) fn start(
    settings: Settings,
    namespace: String,
    kubeconfig: Option<&Path>,
    warn_of_peers: Option<String>,
    around: Around,
) -> Result<Leases, LeasesError> {
    let Around { identity, clock, readiness, metrics, shutdown } = around;
    start_leases(LeaseOptions {
        settings,
        namespace,
        kubeconfig: kubeconfig.map(Path::to_owned),
        identity,
        clock,
        readiness,
        metrics,
        shutdown,
        warn_of_peers,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Arguments, Command};

    const COMMANDS: [&str; 2] = ["controller-manager --render-store-url memory://", "observer"];

    /// The settings of a command line, or why it is refused.
    fn parse(command: &str, flags: &str) -> Result<(Settings, Vec<String>), String> {
        let line = format!("convoy {command} --replica-id cm-0 {flags}");
        let parsed = Arguments::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())?;
        let (process, shards, leases, identity) = match parsed.command {
            Command::ControllerManager(a) => (ProcessKind::ControllerManager, a.shards, a.leases, a.identity),
            Command::Observer(a) => (ProcessKind::Observer, a.shards, a.leases, a.identity),
            other => panic!("{other:?}"),
        };
        settings(process, &identity.replica_id.unwrap(), shards, &leases).map_err(|error| error.to_string())
    }

    #[test]
    fn sc15_sc23_intervals_are_flags_with_the_defaults_of_the_contract() {
        for command in COMMANDS {
            let (settings, risks) = parse(command, "").unwrap();
            assert_eq!(settings.renew_interval, Duration::from_secs(10));
            assert_eq!(settings.lease_duration, Duration::from_secs(30));
            assert_eq!(settings.observe_interval, Duration::from_secs(2));
            assert_eq!((settings.assignment, settings.release_member_on_exit), (Assignment::Modulo, false));
            assert!(risks.is_empty() && !settings.is_sole);
            let flags = "--lease-renew-interval 500ms --lease-duration 1m30s --lease-observe-interval 250ms --shard-assignment=rendezvous --release-member-on-exit --shards 7";
            let (settings, _) = parse(command, flags).unwrap();
            assert_eq!(settings.renew_interval, Duration::from_millis(500));
            assert_eq!(settings.lease_duration, Duration::from_secs(90));
            assert_eq!(settings.observe_interval, Duration::from_millis(250));
            assert_eq!(
                (settings.assignment, settings.release_member_on_exit),
                (Assignment::Rendezvous, true)
            );
            assert_eq!(settings.shards.get(), 7);
        }
        let (settings, _) = parse("observer", "--release-member-on-exit").unwrap();
        assert_eq!(settings.observe_interval, Duration::from_millis(500));
    }

    #[test]
    fn sc28_what_cannot_work_is_refused_with_the_reason() {
        for (flags, reason) in [
            ("--lease-renew-interval 15s", "less than half"),
            ("--lease-duration 20s", "less than half"),
            ("--lease-renew-interval 10", "needs one of the units"),
            ("--lease-duration -1s", "unexpected argument"),
            ("--lease-duration=-1s", "negative"),
            ("--lease-duration 3.5s --lease-renew-interval 1s", "whole seconds"),
            ("--shards 0", "give a number from 1 to"),
            ("--shards x", "give a number from 1 to"),
            ("--shard-assignment ring", "ring"),
            ("--lease-namespace Foo_", "is not a DNS label"),
            ("--lease-namespace=", "is not a DNS label"),
        ] {
            for command in COMMANDS {
                let refusal = parse(command, flags).unwrap_err();
                assert!(refusal.contains(reason), "{flags}: {refusal}");
            }
        }
        assert_eq!(parse("observer", "--lease-renew-interval 14s").unwrap().1.len(), 1);
    }

    #[test]
    fn sc31_the_lease_namespace_is_the_flag_or_the_pods_or_convoy_system() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("namespace");
        assert_eq!(namespace_of(None, &file), "convoy-system");
        assert_eq!(namespace_of(Some(" "), &file), "convoy-system");
        std::fs::write(&file, "of-the-pod\n").unwrap();
        assert_eq!(namespace_of(None, &file), "of-the-pod");
        assert_eq!(namespace_of(Some("given"), &file), "given");
    }

    #[test]
    fn sc41_a_store_that_cannot_be_shared_is_warned_about() {
        assert!(store_warning("memory://").unwrap().contains("memory"));
        assert!(store_warning("file:///var/lib/convoy").unwrap().contains("folder"));
        assert_eq!(store_warning("s3://bucket/prefix"), None);
    }
}
