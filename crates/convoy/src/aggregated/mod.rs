//! `convoy apiserver` behind kube-aggregator: convoy's kinds on an etcd; users, permissions and namespaces are the host's.

pub(crate) mod arguments;
pub(crate) mod etcd;
mod files;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use convoy_apiserver::audit::AuditLog;
use convoy_apiserver::authentication::Authenticator;
use convoy_apiserver::authorization::{Authorizer, Masters, Union as Permissions};
use convoy_apiserver::background::{Looker, OverdueLooks, ShardLabels, keep_running};
use convoy_apiserver::delegated::{AccessReviews, AlwaysAllowedPaths, HostNamespaces, TokenReviews, Trust};
use convoy_apiserver::filters::Now;
use convoy_apiserver::health::Checks;
use convoy_apiserver::kinds::{convoy, observed, rollback, sharding as sharding_count};
use convoy_apiserver::metrics::Metrics;
use convoy_apiserver::openapi::OpenApi;
use convoy_apiserver::{Api, ServerBuilder, Version};
use convoy_registry::namespace::NamespaceLifecycle;
use convoy_registry::{Registry, RegistryOptions, ResourceTable};
use convoy_runtime::{Clock, ProcessIdentity, Shutdown, host_client};
use convoy_storage::Storage;
use convoy_storage::etcd::EtcdStorage;

use crate::arguments::Apiserver;
use crate::bad_flag::{BadFlag, check_appendable};
use crate::proxied;

/// How long requests that are under way when the server ends may take.
const GRACE: Duration = Duration::from_secs(30);

/// The API servers that are asked.
struct Hosts {
    /// About namespaces and leases.
    core: kube::Client,
    /// About who users are.
    authentication: kube::Client,
    /// About what they may do.
    authorization: kube::Client,
}

impl Hosts {
    async fn of(flags: &Apiserver) -> Result<Self, BadFlag> {
        let replica_id = std::env::var("POD_NAME").unwrap_or_else(|_| crate::processes::own_name());
        let identity = ProcessIdentity { process: "apiserver", replica_id };
        let core = flags.host.kubeconfig.as_deref();
        let client = |flag: &'static str, own: Option<&Path>| {
            let (path, flag) = if own.is_some() { (own, flag) } else { (core, "kubeconfig") };
            let (path, identity) = (path.map(Path::to_path_buf), identity.clone());
            async move {
                let shown = path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
                let made = host_client(path.as_deref(), &identity).await;
                made.map_err(|source| BadFlag::new(flag, shown, source))
            }
        };
        let delegation = &flags.delegation;
        Ok(Self {
            core: client("kubeconfig", None).await?,
            authentication: client(
                "authentication-kubeconfig",
                delegation.authentication_kubeconfig.as_deref(),
            )
            .await?,
            authorization: client("authorization-kubeconfig", delegation.authorization_kubeconfig.as_deref())
                .await?,
        })
    }
}

/// Runs the server until a signal.
pub(crate) async fn run(
    flags: &Apiserver,
    storage: Arc<EtcdStorage>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    let audit_log = flags.audit.audit_log_path.as_deref();
    check_appendable("audit-log-path", audit_log)?;
    let make_observers = proxied::observers(&flags.observer, flags.shards.shards)?;
    let hosts = Hosts::of(flags).await?;
    let now: Now = {
        let clock = Arc::clone(&clock);
        Arc::new(move || clock.now())
    };
    let (delegation, shards) = (&flags.delegation, flags.shards.shards);

    let namespaces = Arc::new(HostNamespaces::new(hosts.core.clone()));
    let table = Arc::new(ResourceTable::default());
    table.install(convoy::definitions(shards)?);
    let options = RegistryOptions {
        admission: vec![Arc::new(NamespaceLifecycle::new(namespaces.clone()))],
        ..RegistryOptions::default()
    };
    let objects: Arc<dyn Storage> = storage.clone();
    let registry = Arc::new(Registry::new(objects, Arc::clone(&table), options));

    let lasts = delegation.authentication_token_webhook_cache_ttl.as_std();
    let tokens: Arc<dyn Authenticator> = Arc::new(TokenReviews::new(hosts.authentication.clone(), lasts));
    let host_follows = !delegation.authentication_skip_lookup;
    let trust = Trust::new(files::given(delegation)?, host_follows, Some(tokens));
    let trust = Arc::new(trust.context("reading the CAs that flags name")?);
    let reviews = AccessReviews::new(
        hosts.authorization.clone(),
        delegation.authorization_webhook_cache_authorized_ttl.as_std(),
        delegation.authorization_webhook_cache_unauthorized_ttl.as_std(),
    );
    let open_paths = AlwaysAllowedPaths(delegation.authorization_always_allow_paths.clone());
    let authorizer: Arc<dyn Authorizer> =
        Arc::new(Permissions::new(vec![Arc::new(Masters), Arc::new(open_paths), Arc::new(reviews)]));

    let mut checks = Checks::new();
    etcd::add_checks(&mut checks, &flags.etcd, &storage);
    checks.add_ready("extension-apiserver-authentication", trust.clone());
    checks.add_ready("namespaces", namespaces.clone());

    let version =
        Version { kubernetes: convoy_schema::catalogue().kubernetes_version.clone(), commit: String::new() };
    let documents = OpenApi::new(Arc::clone(&table), &version.kubernetes);
    documents.add_schemas(convoy::schemas());
    let api = Api::new(Arc::clone(&registry), version, Arc::clone(&metrics)).documents(Arc::new(documents));
    let api = sharding_count::serve(api, shards);
    let api = rollback::serve(api);
    let api = observed::serve(api, &make_observers.make(&registry, Some(&hosts.core)));
    let serving =
        files::serving(&flags.serving, &files::own_names(std::env::var("POD_NAMESPACE").ok()), now())?;
    let address = SocketAddr::new(flags.bind_address, flags.secure_port);
    let mut builder = ServerBuilder::new(address, Arc::clone(&serving), Arc::new(api), now)
        .authenticator(trust.clone())
        .authorizer(authorizer)
        .checks(checks)
        .metrics(Arc::clone(&metrics));
    if let Some(path) = audit_log {
        builder = builder.audit(AuditLog::open(path)?);
    }

    let mut tasks = tokio::task::JoinSet::new();
    if host_follows {
        let (trust, host) = (Arc::clone(&trust), hosts.authentication.clone());
        tasks.spawn(async move { trust.follow(host).await });
    }
    tasks.spawn(async move { namespaces.follow().await });
    tasks.spawn(files::follow(delegation.clone(), flags.serving.clone(), trust, serving, Arc::clone(&clock)));
    let every = flags.etcd.etcd_count_metric_poll_period.as_std();
    tasks.spawn(etcd::count(storage, table, Arc::clone(&metrics), every, Arc::clone(&clock)));
    let labels = Arc::new(ShardLabels::new(Arc::clone(&registry), shards, Arc::clone(&clock), &metrics));
    tasks.spawn(keep_running("shard labels", Arc::clone(&clock), move || Arc::clone(&labels).run()));
    for by in [Looker::ControllerManager, Looker::Observer] {
        let overdue = Arc::new(OverdueLooks::new(by, Arc::clone(&registry), Arc::clone(&clock), &metrics));
        tasks.spawn(keep_running("overdue looks", Arc::clone(&clock), move || Arc::clone(&overdue).run()));
    }

    let server = builder.start().await.with_context(|| format!("serving on {address}"))?;
    announce(server.address());
    shutdown.wait().await;
    tracing::info!("ends: no new requests are to come, those under way are finished");
    server.stop(flags.serving.shutdown_delay_duration.as_std(), GRACE).await;
    tasks.abort_all();
    Ok(())
}

/// The line that scripts wait for.
fn announce(address: SocketAddr) {
    println!("convoy apiserver serves at https://{address}");
}
