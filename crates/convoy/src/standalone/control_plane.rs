//! The API server of standalone: convoy's kinds and the core kinds, on an embedded store.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use convoy_apiserver::audit::AuditLog;
use convoy_apiserver::authentication::{Authenticator, ClientCertificates, Union as Users};
use convoy_apiserver::authorization::{Authorizer, Masters, Union as Permissions};
use convoy_apiserver::background::{Looker, OverdueLooks, ShardLabels, keep_running};
use convoy_apiserver::filters::Now;
use convoy_apiserver::kinds::{convoy, core, observed, reviews, rollback, sharding as sharding_count};
use convoy_apiserver::openapi::OpenApi;
use convoy_apiserver::pki::kubeconfig;
use convoy_apiserver::rbac::{Rbac, ensure_bootstrap};
use convoy_apiserver::service_account_tokens::ServiceAccountTokens;
use convoy_apiserver::tls::{ServingCertificate, certificates};
use convoy_apiserver::{Api, Server, ServerBuilder, Version};
use convoy_meta::{GroupResource, Reason, Status};
use convoy_registry::garbage::GarbageCollector;
use convoy_registry::namespace::{NamespaceController, NamespaceLifecycle, StoredNamespaces};
use convoy_registry::{Expiry, Registry, RegistryOptions, RequestContext, ResourceTable};
use convoy_runtime::Clock;
use convoy_storage::Storage;
use convoy_storage::embedded::{EmbeddedOptions, EmbeddedStorage};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use crate::proxied::MakeObservers;
use crate::sharding;

use super::Options;
use super::data_dir::{DataDir, make_private, write_private};

/// Namespaces that are there from the start.
const NAMESPACES: [&str; 5] =
    ["default", "kube-node-lease", "kube-public", "kube-system", sharding::DEFAULT_NAMESPACE];
const USER: &str = "system:apiserver";
/// How long Events are kept, as kube-apiserver's `--event-ttl` has it.
const EVENT_TTL: Duration = Duration::from_secs(3600);
const EVENT_EXPIRY_PERIOD: Duration = Duration::from_secs(60);

/// A running API server.
pub(crate) struct ControlPlane {
    server: Server,
    url: String,
    tasks: Vec<JoinHandle<()>>,
}

impl ControlPlane {
    /// Opens the store, starts to serve, and writes the admin kubeconfig.
    pub(crate) async fn start(
        folder: &DataDir,
        options: &Options,
        observers: &MakeObservers,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let (address, shards, audit_log) = (options.address, options.shards, options.audit_log.as_deref());
        let now: Now = {
            let clock = Arc::clone(clock);
            Arc::new(move || clock.now())
        };
        let storage = match &options.storage {
            Some(storage) => Arc::clone(storage),
            None => open_store(folder).await?,
        };
        let (metrics, checks) = (Arc::clone(&options.metrics), options.checks.clone());
        let table = Arc::new(ResourceTable::default());
        table.install(convoy::definitions(shards)?);
        table.install(core());
        let lookup = Arc::new(StoredNamespaces::new(Arc::clone(&storage)));
        let options = RegistryOptions {
            admission: vec![Arc::new(NamespaceLifecycle::new(lookup))],
            ..RegistryOptions::default()
        };
        let registry = Arc::new(Registry::new(storage, table, options));
        create_namespaces(&registry, &now).await?;
        ensure_bootstrap(&registry, now()).await.context("creating the first roles")?;

        let authority = folder.authority(now())?;
        let serving =
            authority.serving(&names(address.ip()), now()).context("making the serving certificate")?;
        let certificate =
            ServingCertificate::from_pem(serving.certificate.as_bytes(), serving.key.as_bytes())?;
        let ca = certificates(authority.files().certificate.as_bytes())?;
        // The key has to stay the same over restarts and to be known to nobody else, as the CA's has.
        let token_key: [u8; 32] = Sha256::digest(authority.files().key.as_bytes()).into();
        let tokens = Arc::new(ServiceAccountTokens::new(Arc::clone(&registry), token_key));
        let authenticator: Arc<dyn Authenticator> =
            Arc::new(Users::new(vec![Arc::new(ClientCertificates::new(&ca)?), tokens.clone()]));
        let rbac = Arc::new(Rbac::new(Arc::clone(&registry)));
        let authorizer: Arc<dyn Authorizer> = Arc::new(Permissions::new(vec![Arc::new(Masters), rbac]));

        let version = Version {
            kubernetes: convoy_schema::catalogue().kubernetes_version.clone(),
            commit: String::new(),
        };
        let documents = OpenApi::new(Arc::clone(registry.table()), &version.kubernetes);
        documents.add_schemas(convoy::schemas());
        let api = Api::new(Arc::clone(&registry), version, Arc::clone(&metrics))
            .documents(Arc::new(documents))
            .connect(GroupResource::new("", "serviceaccounts"), "token", tokens);
        let api = reviews::serve(api, &authenticator, &authorizer);
        let api = sharding_count::serve(api, shards);
        let api = rollback::serve(api);
        let api = observed::serve(api, &observers.make(&registry, None));
        let mut builder = ServerBuilder::new(address, certificate, Arc::new(api), Arc::clone(&now))
            .authenticator(authenticator)
            .authorizer(authorizer)
            .checks(checks)
            .metrics(Arc::clone(&metrics));
        if let Some(path) = audit_log {
            builder = builder.audit(AuditLog::open(path)?);
        }
        let server = builder.start().await.with_context(|| {
            format!("serving on {address}: if another process has the port, stop it or choose another --port")
        })?;

        let url = format!("https://{}", reachable(server.address()));
        let admin = authority.admin(now()).context("making the admin's certificate")?;
        let config = kubeconfig("convoy", &url, &authority.files().certificate, "admin", &admin);
        write_private(&folder.admin_kubeconfig(), &config)?;

        let garbage = GarbageCollector::new(Arc::clone(&registry), Arc::clone(&now));
        let namespaces = NamespaceController::new(Arc::clone(&registry), Arc::clone(&now));
        let mut tasks = vec![tokio::spawn(garbage.run()), tokio::spawn(namespaces.run())];
        let labels = Arc::new(ShardLabels::new(Arc::clone(&registry), shards, Arc::clone(clock), &metrics));
        let labels = keep_running("shard labels", Arc::clone(clock), move || Arc::clone(&labels).run());
        tasks.push(tokio::spawn(labels));
        for by in [Looker::ControllerManager, Looker::Observer] {
            let overdue = OverdueLooks::new(by, Arc::clone(&registry), Arc::clone(clock), &metrics);
            let overdue = Arc::new(overdue);
            let run = move || Arc::clone(&overdue).run();
            tasks.push(tokio::spawn(keep_running("overdue looks", Arc::clone(clock), run)));
        }
        for group in ["", "events.k8s.io"] {
            let expiry = Expiry {
                registry: Arc::clone(&registry),
                resource: (group.to_owned(), "v1".to_owned(), "events".to_owned()),
                ttl: EVENT_TTL,
                every: EVENT_EXPIRY_PERIOD,
                now: Arc::clone(&now),
            };
            tasks.push(tokio::spawn(expiry.run()));
        }
        Ok(Self { server, url, tasks })
    }

    /// Where it is reached.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Ends in good order.
    pub(crate) async fn stop(self, drain: Duration, grace: Duration) {
        for task in &self.tasks {
            task.abort();
        }
        self.server.stop(drain, grace).await;
    }
}

/// Opens the embedded store, which is made when it is not there.
pub(crate) async fn open_store(folder: &DataDir) -> anyhow::Result<Arc<dyn Storage>> {
    let path = folder.store();
    make_private(&path)?;
    // Opening verifies the whole file.
    let opened =
        tokio::task::spawn_blocking(move || EmbeddedStorage::open(&path, EmbeddedOptions::default())).await;
    Ok(Arc::new(opened.context("opening the store broke down")??))
}

async fn create_namespaces(registry: &Registry, now: &Now) -> anyhow::Result<()> {
    let namespaces = registry.table().find("", "v1", "namespaces").context("namespaces are not served")?;
    let context = RequestContext::internal(USER, now());
    for name in NAMESPACES {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match Box::pin(registry.create(&context, &namespaces, "", object.into())).await {
            Err(status) if !is_there(&status) => {
                return Err(status).with_context(|| format!("creating namespace {name}"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_there(status: &Status) -> bool {
    status.reason() == Reason::AlreadyExists
}

/// The names that the serving certificate is for.
fn names(address: IpAddr) -> Vec<String> {
    let mut names =
        vec!["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string(), Ipv6Addr::LOCALHOST.to_string()];
    let own = address.to_string();
    if !address.is_unspecified() && !names.contains(&own) {
        names.push(own);
    }
    names
}

/// An address that clients on this machine can use: one that is bound everywhere is reached on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
        _ => address,
    }
}
