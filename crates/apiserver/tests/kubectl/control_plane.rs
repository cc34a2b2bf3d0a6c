//! A whole control plane in memory, reachable over TLS.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::sync::Arc;

use convoy_apiserver::audit::AuditLog;
use convoy_apiserver::authentication::{Authenticator, ClientCertificates, Union};
use convoy_apiserver::authorization::{self, Authorizer, Masters};
use convoy_apiserver::metrics::Metrics;
use convoy_apiserver::openapi::OpenApi;
use convoy_apiserver::pki::{Authority, kubeconfig};
use convoy_apiserver::rbac::{Rbac, ensure_bootstrap};
use convoy_apiserver::service_account_tokens::ServiceAccountTokens;
use convoy_apiserver::tls::{ServingCertificate, certificates};
use convoy_apiserver::{Api, Now, Server, ServerBuilder, Version, kinds};
use convoy_meta::GroupResource;
use convoy_registry::namespace::{NamespaceController, NamespaceLifecycle, StoredNamespaces};
use convoy_registry::{Registry, RegistryOptions, RequestContext, ResourceTable};
use convoy_storage::Storage;
use convoy_storage::memory::MemoryStorage;
use serde_json::json;
use sha2::{Digest as _, Sha256};

pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// A running control plane. Its administrator's kubeconfig is `admin.kubeconfig` in the folder.
pub(crate) struct ControlPlane {
    pub(crate) server: Server,
    pub(crate) url: String,
    pub(crate) kubeconfig: std::path::PathBuf,
    pub(crate) authority: Authority,
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Arc<Metrics>,
}

/// What a control plane is started with.
pub(crate) struct Setup {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) shards: std::num::NonZeroU32,
    pub(crate) now: Now,
    pub(crate) observers: Arc<dyn kinds::observed::Observers>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            storage: Arc::new(MemoryStorage::default()),
            shards: convoy_shard::DEFAULT_SHARD_COUNT,
            now: Arc::new(jiff::Timestamp::now),
            observers: Arc::new(kinds::observed::NoObserver),
        }
    }
}

pub(crate) async fn start(folder: &Path, port: u16) -> Result<ControlPlane, AnyError> {
    start_with(folder, port, Setup::default()).await
}

pub(crate) async fn start_with(folder: &Path, port: u16, setup: Setup) -> Result<ControlPlane, AnyError> {
    let Setup { storage, shards, now, observers } = setup;
    let table = Arc::new(ResourceTable::default());
    table.install(kinds::core());
    table.install(kinds::convoy::definitions(shards)?);
    let lookup = Arc::new(StoredNamespaces::new(storage.clone()));
    let options = RegistryOptions {
        admission: vec![Arc::new(NamespaceLifecycle::new(lookup))],
        ..RegistryOptions::default()
    };
    let registry = Arc::new(Registry::new(storage, table, options));
    let context = RequestContext::internal("convoy", now());
    if let Some(namespaces) = registry.table().find("", "v1", "namespaces") {
        for name in ["default", "kube-system"] {
            let created =
                registry.create(&context, &namespaces, "", json!({"metadata": {"name": name}}).into()).await;
            match created {
                Err(status) if status.reason() != convoy_meta::Reason::AlreadyExists => {
                    return Err(status.into());
                }
                _ => {}
            }
        }
    }
    tokio::spawn(NamespaceController::new(registry.clone(), now.clone()).run());

    let authority = Authority::generate("convoy", now())?;
    let serving = authority.serving(&["localhost".into(), "127.0.0.1".into()], now())?;
    let certificate = ServingCertificate::from_pem(serving.certificate.as_bytes(), serving.key.as_bytes())?;
    let trusted = certificates(authority.files().certificate.as_bytes())?;
    let key: [u8; 32] = Sha256::digest(authority.files().key.as_bytes()).into();
    let tokens = Arc::new(ServiceAccountTokens::new(registry.clone(), key));
    let authenticator: Arc<dyn Authenticator> =
        Arc::new(Union::new(vec![Arc::new(ClientCertificates::new(&trusted)?), tokens.clone()]));
    ensure_bootstrap(&registry, now()).await?;
    let rbac = Arc::new(Rbac::new(registry.clone()));
    let authorizer: Arc<dyn Authorizer> = Arc::new(authorization::Union::new(vec![Arc::new(Masters), rbac]));
    let metrics = Arc::new(Metrics::default());
    let version = Version { kubernetes: "v1.36.3".into(), commit: String::new() };
    let documents = OpenApi::new(registry.table().clone(), &version.kubernetes);
    documents.add_schemas(kinds::convoy::schemas());
    let api = Api::new(registry.clone(), version, metrics.clone()).documents(Arc::new(documents));
    let api = api.connect(GroupResource::new("", "serviceaccounts"), "token", tokens);
    let api = kinds::reviews::serve(api, &authenticator, &authorizer);
    let api = kinds::sharding::serve(api, shards);
    let api = kinds::rollback::serve(api);
    let api = kinds::observed::serve(api, &observers);
    let server = ServerBuilder::new(([127, 0, 0, 1], port).into(), certificate, Arc::new(api), now.clone())
        .authenticator(authenticator)
        .authorizer(authorizer)
        .metrics(metrics.clone())
        .audit(AuditLog::open(&folder.join("audit.log"))?)
        .start()
        .await?;
    let url = format!("https://{}", server.address());
    let admin = authority.admin(now())?;
    let config = kubeconfig("convoy", &url, &authority.files().certificate, "admin", &admin);
    let path = folder.join("admin.kubeconfig");
    std::fs::write(&path, config)?;
    Ok(ControlPlane { server, url, kubeconfig: path, authority, registry, metrics })
}
