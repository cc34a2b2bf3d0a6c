//! The command line: names, flags and defaults. What a flag does is said here and nowhere else, so that
//! `--help` and `docs/` cannot differ.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use convoy_controller_manager::StoreCollection;

use crate::aggregated::arguments as aggregated;
use crate::objects::arguments as objects;
use crate::render_store::S3;
use crate::traces::Tracing;

/// Release delivery for fleets of Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "convoy", version, propagate_version = true, max_term_width = 110)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) logs: Logs,
    #[command(flatten)]
    pub(crate) tracing: Tracing,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which log lines, and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct Logs {
    /// Which log lines are written to standard error: error, warn, info, debug or trace, also for single
    /// parts, for example `info,convoy_apply=debug`.
    #[arg(long, value_parser = log_filter, global = true, value_name = "FILTER", env = "CONVOY_LOG")]
    pub(crate) log: Option<String>,
    /// Go by the log filter in this file, as it changes while the process runs, and by `--log` while there is no such file or it is
    /// empty. A key of a mounted ConfigMap, for example. For processes that serve.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) log_filter_file: Option<PathBuf>,
    /// How log lines are written.
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Deliver the examples to three simulated clusters, and show how.
    Demo(Demo),
    /// Run the apiserver, the controller-manager and the observer in one process, without Kubernetes.
    Standalone(Standalone),
    /// Run simulated target clusters.
    Sandbox(Sandbox),
    /// Serve the API of convoy.kumodo.io.
    Apiserver(Box<Apiserver>),
    /// Fetch sources, render, plan, apply and prune.
    ControllerManager(ControllerManager),
    /// Watch target clusters: health and drift.
    Observer(Observer),
    /// Print what a Helm chart renders to, as `helm template` does.
    Template(crate::template::Arguments),
    /// Look for faults in Helm charts, as `helm lint` does.
    Lint(crate::lint::Arguments),
    /// Print a part of a Helm chart, as `helm show` does.
    Show(crate::show::Arguments),
    /// Print who owns which shard. Exit code 0: every shard has a live owner; 1: some have none; 2: it could
    /// not be found out.
    Shards(ShardsCommand),
    /// Let a Release go back to an earlier revision of its history. It stays there until its source or its spec
    /// changes.
    Rollback(Rollback),
    /// Print objects: releases, clusters and sources.
    Get(objects::Get),
    /// Tell all about objects, for people: conditions, history, what is on the target, events.
    Describe(objects::Describe),
    /// Print what the next delivery of a Release would do, and why, without doing it. Exit code 1 when something is in
    /// its way.
    Preview(objects::Preview),
    /// Print how what would be applied of a Release differs from what is on its target. Exit code 0: in nothing; 1: in
    /// something; 2: it could not be found out.
    Diff(objects::Diff),
    /// Print how the objects of a Release are, as a tree, and why those are not well that are not. Exit code 1 when it is
    /// not healthy.
    Health(objects::Health),
    /// Print what was delivered of a Release, the manifests of a revision, or how two revisions differ.
    History(objects::History),
    /// Ask for a look now, and wait for what it comes to. Exit code 1 when it is not ready then.
    Reconcile(objects::Reconcile),
    /// Suspend objects: nothing is done about them until they are resumed.
    Suspend(objects::Suspend),
    /// Resume objects.
    Resume(objects::Suspend),
    /// Let go of what a Release or a Cluster has on a target that is gone: the object is deleted, and what it left
    /// on the target is not touched and not known any more.
    Forget(objects::Forget),
    /// Write all of convoy's objects into a file.
    Backup(crate::backup::Backup),
    /// Put the objects of a backup into an empty store.
    Restore(crate::backup::Restore),
    /// Print the Secrets with the certificates of a deployment that has no cert-manager.
    Certificates(Certificates),
    /// Print the completion script of a shell.
    Completion(Completion),
    /// Write the manual pages, one for each command, into a folder.
    Manual(Manual),
}

/// Deliver the examples to three simulated clusters, and show how.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Keep everything in this folder, which is made when it is not there. Default: a temporary folder that
    /// goes when the demo ends.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// End when all was shown, instead of staying until Ctrl-C. The exit code is 0 when all was as expected.
    #[arg(long)]
    pub(crate) exit: bool,
}

/// Run the apiserver, the controller-manager and the observer in one process, without Kubernetes.
#[derive(Debug, Args)]
pub(crate) struct Standalone {
    /// Where everything is kept: the store, the certificates, the artifacts, and admin.kubeconfig.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// The port to serve on; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(crate) port: u16,
    /// The address to serve on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,
    /// Also run this many simulated target clusters; their kubeconfigs are in DIR/sandbox.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) sandbox: u16,
    #[command(flatten)]
    pub(crate) shards: Shards,
    /// Run only this part, with the store and the core kinds that standalone has.
    #[arg(long, value_enum, value_name = "PART")]
    pub(crate) only: Option<Part>,
    #[command(flatten)]
    pub(crate) collection: Collection,
    #[command(flatten)]
    pub(crate) audit: Audit,
}

/// A part of standalone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The apiserver.
    Apiserver,
}

/// Run simulated target clusters.
#[derive(Debug, Args)]
pub(crate) struct Sandbox {
    /// How many clusters.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) clusters: u16,
    /// Where the kubeconfigs are written, one for each cluster.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The port of the first cluster; the others take the ports after it. 0 takes free ones.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// How long a workload takes to become ready, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub(crate) ready_after_ms: u64,
    #[command(flatten)]
    pub(crate) audit: Audit,
}

/// Serve the API of convoy.kumodo.io: behind kube-aggregator, with objects in etcd, or with --data-dir alone.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("objects").args(["data_dir", "etcd_servers"]).required(true).multiple(true)))]
pub(crate) struct Apiserver {
    /// Serve without a Kubernetes API server in front: with a CA of its own, which is kept here, the core kinds that
    /// standalone has, and admin.kubeconfig. Without --etcd-servers, the objects are kept here, too.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The port to serve on; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(crate) secure_port: u16,
    /// The address to serve on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,
    #[command(flatten)]
    pub(crate) etcd: aggregated::Etcd,
    #[command(flatten)]
    pub(crate) host: FrontHost,
    #[command(flatten)]
    pub(crate) serving: aggregated::ServingFiles,
    #[command(flatten)]
    pub(crate) delegation: aggregated::Delegation,
    #[command(flatten)]
    pub(crate) shards: Shards,
    #[command(flatten)]
    pub(crate) observer: ObserverService,
    #[command(flatten)]
    pub(crate) audit: Audit,
}

/// The Kubernetes API server in front.
#[derive(Debug, Clone, Args)]
pub(crate) struct FrontHost {
    /// The kubeconfig of the Kubernetes API server in front, for a server without --data-dir. Default: the service
    /// account of the pod.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// Whom the apiserver asks for what an observer knows.
#[derive(Debug, Clone, Args)]
pub(crate) struct ObserverService {
    /// The URL of the observers, all behind one address: previews of Releases are asked for there. Default: there are
    /// no previews.
    #[arg(long, value_parser = proxy_address, value_name = "URL",
        requires_all = ["observer_ca_file", "proxy_client_cert_file", "proxy_client_key_file"])]
    pub(crate) observer_url: Option<convoy_runtime::ProxyAddress>,
    /// The CA of the observers' serving certificates, in PEM.
    #[arg(long, value_name = "FILE", requires = "observer_url")]
    pub(crate) observer_ca_file: Option<PathBuf>,
    /// The client certificate that the apiserver shows to the observers, in PEM.
    #[arg(long, value_name = "FILE", requires = "observer_url")]
    pub(crate) proxy_client_cert_file: Option<PathBuf>,
    /// The private key of --proxy-client-cert-file, in PEM.
    #[arg(long, value_name = "FILE", requires = "observer_url")]
    pub(crate) proxy_client_key_file: Option<PathBuf>,
    /// Which observer is asked. With owner, --observer-url only says what the observers' certificates are for.
    #[arg(long, value_enum, value_name = "WAY", default_value_t = ObserverRouting::Service)]
    pub(crate) observer_routing: ObserverRouting,
    /// The namespace of the observers' leases, for --observer-routing=owner.
    #[arg(long, value_parser = dns_label, value_name = "NAMESPACE", default_value = "convoy-system")]
    pub(crate) lease_namespace: String,
}

/// Which observer is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObserverRouting {
    /// Whichever --observer-url leads to. One that does not own the Release answers 404 and says which one does.
    Service,
    /// The one that holds the shard of the Release, at the address that its member lease says.
    Owner,
}

/// Fetch sources, render, plan, apply and prune.
#[derive(Debug, Args)]
pub(crate) struct ControllerManager {
    #[command(flatten)]
    pub(crate) host: Host,
    #[command(flatten)]
    pub(crate) shards: Shards,
    #[command(flatten)]
    pub(crate) identity: Identity,
    /// Cache only the Releases, ReleaseInventories and Clusters of this replica's own shards, by the label
    /// that the apiserver writes. Default: all of them.
    #[arg(long)]
    pub(crate) shard_scoped_cache: bool,
    #[command(flatten)]
    pub(crate) leases: Leases,
    /// Where artifacts and bundles are kept: `s3://bucket/prefix`, `file:///path` or `memory://`. Replicas share one store.
    #[arg(long, value_parser = render_store_url, value_name = "URL")]
    pub(crate) render_store_url: String,
    #[command(flatten)]
    pub(crate) s3: S3,
    #[command(flatten)]
    pub(crate) collection: Collection,
    /// The address that /healthz, /livez, /readyz, /metrics and /version are served on, without TLS; port 0
    /// takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8081")]
    pub(crate) health_bind_address: std::net::SocketAddr,
}

/// Watch target clusters: health and drift.
#[derive(Debug, Args)]
pub(crate) struct Observer {
    #[command(flatten)]
    pub(crate) host: Host,
    #[command(flatten)]
    pub(crate) shards: Shards,
    #[command(flatten)]
    pub(crate) identity: Identity,
    /// Cache only the Releases, ReleaseInventories and Clusters of this replica's own shards, by the label
    /// that the apiserver writes. Default: all of them.
    #[arg(long)]
    pub(crate) shard_scoped_cache: bool,
    #[command(flatten)]
    pub(crate) leases: Leases,
    /// The address that /healthz, /livez, /readyz, /metrics and /version are served on, without TLS; port 0
    /// takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8082")]
    pub(crate) health_bind_address: std::net::SocketAddr,
    #[command(flatten)]
    pub(crate) serving: ObserverServing,
}

/// How an observer answers the apiserver.
#[derive(Debug, Clone, Args)]
pub(crate) struct ObserverServing {
    /// The CA of the client certificates of those who may ask, in PEM: of the apiserver's --proxy-client-cert-file,
    /// and of nobody else's. Default: the observer answers nobody, and there are no previews.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert_file", "tls_private_key_file", "render_store_url"])]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// The serving certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "client_ca_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The private key of --tls-cert-file, in PEM.
    #[arg(long, value_name = "FILE", requires = "client_ca_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// The address to serve on.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(crate) bind_address: IpAddr,
    /// The port to serve on; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 8443)]
    pub(crate) secure_port: u16,
    /// The address that an apiserver with --observer-routing=owner reaches this replica at. Default: --bind-address,
    /// when that is one address.
    #[arg(long, value_name = "ADDRESS", env = "POD_IP")]
    pub(crate) advertise_address: Option<IpAddr>,
    /// Where artifacts and bundles are kept: the URL that the controller-manager has.
    #[arg(long, value_parser = render_store_url, value_name = "URL")]
    pub(crate) render_store_url: Option<String>,
    #[command(flatten)]
    pub(crate) s3: S3,
}

/// The API server that holds convoy's objects.
#[derive(Debug, Clone, Args)]
pub(crate) struct Host {
    /// The kubeconfig of the API server that holds convoy's objects. Default: the service account of the
    /// pod.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// How the work is divided.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Shards {
    /// How many shards the work is divided into; the same on all components.
    #[arg(long, value_parser = shard_count, value_name = "N", default_value_t = convoy_shard::DEFAULT_SHARD_COUNT)]
    pub(crate) shards: NonZeroU32,
}

/// Who this replica is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Identity {
    /// The name of this replica, unique among those of its component. Default: the pod's name, else the
    /// host's with a random part.
    #[arg(long, value_parser = dns_label, value_name = "ID", env = "POD_NAME")]
    pub(crate) replica_id: Option<String>,
}

/// How replicas share the work. All replicas of a component need the same values.
#[derive(Debug, Clone, Args)]
pub(crate) struct Leases {
    /// The namespace of the leases, which must exist. Default: the pod's, else convoy-system.
    #[arg(long, value_parser = dns_label, value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    pub(crate) lease_namespace: Option<String>,
    /// How often a replica renews its leases; less than half of --lease-duration.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) lease_renew_interval: convoy_api::Duration,
    /// How long a lease is valid after its last renewal: so long the shards of a replica that died stay
    /// without an owner. Whole seconds.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) lease_duration: convoy_api::Duration,
    /// How often leases are read between renewals. Default: 2s, or 500ms with --release-member-on-exit.
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease_observe_interval: Option<convoy_api::Duration>,
    /// When this replica stops, let the others take its shards at once, instead of after --lease-duration.
    #[arg(long)]
    pub(crate) release_member_on_exit: bool,
    /// How shards are divided between the replicas.
    #[arg(long, value_enum, value_name = "WAY", default_value_t = ShardAssignment::Modulo)]
    pub(crate) shard_assignment: ShardAssignment,
}

/// How shards are divided between the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShardAssignment {
    /// Replica k of N, in the order of their ids, gets each shard i with i mod N = k.
    Modulo,
    /// Each shard goes to the replica with the highest score for it: a replica more or less moves few shards.
    Rendezvous,
}

/// Garbage collection of the render store.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Collection {
    /// How often the render store is searched for what nothing references any more; 0 for never.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub(crate) render_store_gc_interval: convoy_api::Duration,
    /// How long what nothing references any more stays in the render store: for this time where it was, and for this
    /// time set aside. At least 1h, and as old as a backup of the API server may be that you would restore.
    #[arg(long, value_parser = gc_grace, value_name = "DURATION", default_value = "24h")]
    pub(crate) render_store_gc_grace: convoy_api::Duration,
}

impl Collection {
    /// None when nothing is collected.
    pub(crate) fn settings(self) -> Option<StoreCollection> {
        let interval = self.render_store_gc_interval.as_std();
        let grace = self.render_store_gc_grace.as_std();
        (!interval.is_zero()).then_some(StoreCollection { interval, grace })
    }
}

/// The audit log.
#[derive(Debug, Clone, Args)]
pub(crate) struct Audit {
    /// Append each request as a line of audit.k8s.io/v1 JSON to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log_path: Option<PathBuf>,
}

/// Print who owns which shard.
#[derive(Debug, Args)]
pub(crate) struct ShardsCommand {
    /// The kubeconfig of the API server that holds convoy's objects and leases. Default: ~/.kube/config, else
    /// the service account of the pod.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: its current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace of the leases; --namespace says the same.
    #[arg(short = 'n', long, visible_alias = "namespace", value_parser = dns_label, value_name = "NAMESPACE",
        env = "POD_NAMESPACE", default_value = "convoy-system")]
    pub(crate) lease_namespace: String,
    /// Only the shards of this process; they are shared out independently.
    #[arg(long, value_enum, value_name = "PROCESS")]
    pub(crate) process: Option<ShardedProcess>,
    /// How it is printed; wide also counts kinds and lists the replicas.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    pub(crate) output: Output,
}

/// A process whose work is divided into shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShardedProcess {
    /// The controller-manager.
    ControllerManager,
    /// The observer.
    Observer,
}

/// How a command prints what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for people.
    Table,
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Names only, one a line.
    Name,
}

/// Let a Release go back to an earlier revision.
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// Name of the Release.
    #[arg(value_name = "RELEASE")]
    pub(crate) release: String,
    /// The revision, a number from status.history. Default: the last healthy one before the current one.
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) to: Option<i64>,
    /// Only ask the API server whether it would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the API server's answer instead of a sentence.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<ObjectOutput>,
    #[command(flatten)]
    pub(crate) target: Connection,
}

/// Which API server and namespace a command speaks of, as kubectl has it.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    /// The kubeconfig of the API server that holds convoy's objects. Default: ~/.kube/config, else the service
    /// account of the pod.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: its current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace. Default: that of the context, else default.
    #[arg(short, long, value_parser = dns_label, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

/// How a command prints one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectOutput {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Its name only.
    Name,
}

/// Print the Secrets with the certificates of a deployment that has no cert-manager: convoy-apiserver-serving,
/// convoy-observer-serving and convoy-proxy-client, all new and valid for a year.
#[derive(Debug, Args)]
pub(crate) struct Certificates {
    /// The namespace of the Secrets, which their certificates are for, too.
    #[arg(short, long, value_parser = dns_label, value_name = "NAMESPACE", default_value = "convoy-system")]
    pub(crate) namespace: String,
    /// The domain of the host's Services.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub(crate) cluster_domain: String,
}

/// Print the completion script of a shell.
#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Write the manual pages, one for each command, into a folder.
#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// The folder, which is made when it is not there.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// A name that a lease's name or a namespace can hold. An empty one is most often a variable that is not set,
/// and is not taken for one that was not given.
fn dns_label(text: &str) -> Result<String, String> {
    if convoy_shard::is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err("it is not a DNS label: use 1 to 63 lower-case letters, digits and '-', with a letter or digit at both ends".to_owned())
}

fn shard_count(text: &str) -> Result<NonZeroU32, String> {
    let count = text.parse().ok().filter(|count: &NonZeroU32| count.get() <= convoy_shard::MOST_SHARDS);
    count.ok_or_else(|| {
        format!("give a number from 1 to {}, the same to all components", convoy_shard::MOST_SHARDS)
    })
}

fn render_store_url(text: &str) -> Result<String, String> {
    convoy_render::RenderStore::check_url(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

fn proxy_address(text: &str) -> Result<convoy_runtime::ProxyAddress, String> {
    text.parse().map_err(str::to_owned)
}

fn gc_grace(text: &str) -> Result<convoy_api::Duration, String> {
    let grace: convoy_api::Duration = text.parse().map_err(|error| format!("{error}"))?;
    if grace.as_std() < StoreCollection::SHORTEST_GRACE {
        return Err("it is less than 1h: what is about to be referenced could be deleted".to_owned());
    }
    Ok(grace)
}

fn log_filter(text: &str) -> Result<String, String> {
    convoy_runtime::check_log_filter(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sc08_sc14_shards_default_to_32_on_all_components() {
        let shards = |line: &str| match Arguments::try_parse_from(line.split(' ')).unwrap().command {
            Command::Apiserver(apiserver) => apiserver.shards.shards,
            Command::ControllerManager(manager) => manager.shards.shards,
            Command::Observer(observer) => observer.shards.shards,
            other => panic!("{other:?}"),
        };
        for line in [
            "convoy apiserver --data-dir d",
            "convoy controller-manager --render-store-url memory://",
            "convoy observer",
        ] {
            assert_eq!(shards(line).get(), 32, "{line}");
        }
    }

    #[test]
    fn every_flag_is_described() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(
                    argument.get_help().is_some(),
                    "{} {} has no help",
                    command.get_name(),
                    argument.get_id()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
    }
}
