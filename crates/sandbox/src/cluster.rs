//! One simulated cluster.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use convoy_apiserver::audit::{AuditLog, OpenError};
use convoy_apiserver::authentication::ClientCertificates;
use convoy_apiserver::authorization::{Masters, Union};
use convoy_apiserver::metrics::Metrics;
use convoy_apiserver::openapi::OpenApi;
use convoy_apiserver::pki::{Authority, PkiError, kubeconfig};
use convoy_apiserver::rbac::Rbac;
use convoy_apiserver::tls::{ServingCertificate, TlsError, certificates};
use convoy_apiserver::{Api, Now, Server, ServerBuilder, Version, server};
use convoy_meta::{GroupResource, Status};
use convoy_registry::garbage::GarbageCollector;
use convoy_registry::namespace::{NamespaceController, NamespaceLifecycle, StoredNamespaces};
use convoy_registry::{Registry, RegistryOptions, RequestContext, ResourceTable};
use convoy_storage::HistoryLimits;
use convoy_storage::memory::MemoryStorage;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::admission::Addresses;
use crate::reviews::{Discovery, Reviews};
use crate::sandbox::Options;
use crate::scale::Scale;
use crate::simulator::Simulator;
use crate::{custom_resources, resources};

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// On events in the audit log that all clusters share: the cluster that the request went to.
pub const CLUSTER_ANNOTATION: &str = "sandbox.convoy.kumodo.io/cluster";
const HISTORY: HistoryLimits = HistoryLimits { events: 10_000, bytes: 16 << 20 };

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// More clusters than ports.
    #[error("there are not enough ports from {first} on; choose a lower first port or fewer clusters")]
    Port {
        /// The first port asked for.
        first: u16,
    },
    /// The audit log cannot be written.
    #[error("cannot open the audit log")]
    Audit(#[source] OpenError),
    /// A certificate cannot be made.
    #[error("cannot make the certificates of cluster {cluster}")]
    Certificates {
        /// The cluster.
        cluster: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server does not start.
    #[error("cannot serve cluster {cluster}")]
    Server {
        /// The cluster.
        cluster: String,
        /// Why.
        #[source]
        source: server::StartError,
    },
    /// The kubeconfig cannot be written.
    #[error("cannot write {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The first objects cannot be made.
    #[error("cannot create the first objects of cluster {cluster}: {status}")]
    Bootstrap {
        /// The cluster.
        cluster: String,
        /// The refusal.
        status: Box<Status>,
    },
}

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    kubeconfig: PathBuf,
    registry: Arc<Registry>,
    server: Server,
    tasks: Vec<JoinHandle<()>>,
}

impl Cluster {
    pub(crate) async fn start(
        name: &str,
        port: u16,
        options: &Options,
        audit: Option<Arc<AuditLog>>,
    ) -> Result<Self, StartError> {
        let now = Arc::clone(&options.now);
        let Unserved { api, registry, metrics, tasks } = Unserved::start(&now, options.ready_after)
            .await
            .map_err(|status| StartError::Bootstrap { cluster: name.to_owned(), status: Box::new(status) })?;

        let identity = Identity::new(name, options)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let roles = Rbac::new(Arc::clone(&registry));
        let authorizer = Union::new(vec![Arc::new(Masters), Arc::new(Discovery), Arc::new(roles)]);
        let mut builder = ServerBuilder::new(address, identity.serving, api, Arc::clone(&now))
            .authenticator(identity.clients)
            .authorizer(Arc::new(authorizer))
            .impersonation()
            .metrics(metrics);
        if let Some(audit) = audit {
            builder = builder.audit(audit).audit_annotation(CLUSTER_ANNOTATION, name);
        }
        let server = builder
            .start()
            .await
            .map_err(|source| StartError::Server { cluster: name.to_owned(), source })?;

        let path = options.folder.join(format!("{name}.kubeconfig"));
        let url = format!("https://{}", server.address());
        let text = kubeconfig(name, &url, &identity.authority, "admin", &identity.admin);
        write_private(&path, &text)
            .map_err(|source| StartError::Kubeconfig { path: path.clone(), source })?;
        Ok(Self { name: name.to_owned(), kubeconfig: path, registry, server, tasks })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The file with an administrator's access to it.
    pub fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// What it stores, for tests.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Ends it.
    pub async fn stop(self) {
        for task in &self.tasks {
            task.abort();
        }
        self.server.stop(Duration::ZERO, Duration::from_secs(2)).await;
    }
}

/// A cluster that has no address: its API, and what goes on in it until the runtime ends.
#[derive(Debug)]
pub struct Unserved {
    api: Arc<Api>,
    registry: Arc<Registry>,
    metrics: Arc<Metrics>,
    tasks: Vec<JoinHandle<()>>,
}

impl Unserved {
    /// Starts one, whose workloads become Ready after a time.
    ///
    /// # Errors
    /// When its first objects cannot be made.
    pub async fn start(now: &Now, ready_after: Duration) -> Result<Self, Status> {
        let storage = Arc::new(MemoryStorage::new(HISTORY));
        let table = Arc::new(ResourceTable::default());
        table.install(resources::built_in());
        let lookup = Arc::new(StoredNamespaces::new(storage.clone()));
        let options = RegistryOptions {
            admission: vec![Arc::new(NamespaceLifecycle::new(lookup)), Arc::new(Addresses::default())],
            ..RegistryOptions::default()
        };
        let registry = Arc::new(Registry::new(storage.clone(), table, options));
        bootstrap(&registry, now).await?;
        let version = Version {
            kubernetes: convoy_schema::catalogue().kubernetes_version.clone(),
            commit: String::new(),
        };
        let openapi = Arc::new(OpenApi::new(Arc::clone(registry.table()), &version.kubernetes));
        let metrics = Arc::new(Metrics::default());
        let mut api = Api::new(Arc::clone(&registry), version, Arc::clone(&metrics))
            .documents(Arc::clone(&openapi) as Arc<dyn convoy_apiserver::Documents>);
        for (group, plural) in resources::REVIEWS {
            api = api.connect(GroupResource::new(*group, *plural), "", Arc::new(Reviews));
        }
        for (group, plural) in resources::SCALABLE {
            let scale = Scale { registry: Arc::clone(&registry) };
            api = api.connect(GroupResource::new(*group, *plural), "scale", Arc::new(scale));
        }
        let garbage = GarbageCollector::new(Arc::clone(&registry), Arc::clone(now));
        let namespaces = NamespaceController::new(Arc::clone(&registry), Arc::clone(now));
        let definitions = custom_resources::Controller::new(Arc::clone(&registry), openapi, Arc::clone(now));
        let simulator =
            Simulator::new(Arc::clone(&registry), storage, definitions, Arc::clone(now), ready_after);
        let tasks =
            vec![tokio::spawn(garbage.run()), tokio::spawn(namespaces.run()), tokio::spawn(simulator.run())];
        Ok(Self { api: Arc::new(api), registry, metrics, tasks })
    }

    /// What answers its requests.
    pub fn api(&self) -> Arc<Api> {
        Arc::clone(&self.api)
    }
}

/// A kubeconfig holds a key: nobody else may read it.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

struct Identity {
    authority: String,
    admin: convoy_apiserver::pki::CertificateAndKey,
    serving: Arc<ServingCertificate>,
    clients: Arc<ClientCertificates>,
}

impl Identity {
    fn new(cluster: &str, options: &Options) -> Result<Self, StartError> {
        let fail = |source: Box<dyn std::error::Error + Send + Sync>| StartError::Certificates {
            cluster: cluster.to_owned(),
            source,
        };
        let pki = |source: PkiError| fail(Box::new(source));
        let tls = |source: TlsError| fail(Box::new(source));
        let now = (options.now)();
        let authority = Authority::generate(&format!("sandbox {cluster}"), now).map_err(pki)?;
        let names = ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let serving = authority.serving(&names, now).map_err(pki)?;
        let certificate = authority.files().certificate.clone();
        let trusted = certificates(certificate.as_bytes()).map_err(tls)?;
        let clients = ClientCertificates::new(&trusted).map_err(|source| fail(Box::new(source)))?;
        Ok(Self {
            admin: authority.admin(now).map_err(pki)?,
            serving: ServingCertificate::from_pem(serving.certificate.as_bytes(), serving.key.as_bytes())
                .map_err(tls)?,
            clients: Arc::new(clients),
            authority: certificate,
        })
    }
}

async fn bootstrap(registry: &Registry, now: &convoy_apiserver::Now) -> Result<(), Status> {
    let context = RequestContext::internal("kube-apiserver", now());
    let resources = registry.table().load();
    if let Some(namespaces) = resources.find("", "v1", "namespaces") {
        for name in NAMESPACES {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            registry.create(&context, namespaces, "", object.into()).await?;
        }
    }
    if let Some(services) = resources.find("", "v1", "services") {
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 443}]},
        });
        registry.create(&context, services, "default", object.into()).await?;
    }
    Ok(())
}
