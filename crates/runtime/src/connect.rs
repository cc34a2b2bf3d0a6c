//! Clients of API servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tower::timeout::TimeoutLayer;

use crate::Pacer;
use crate::http_stack::http_stack;
use crate::kubeconfig::{KubeconfigRefused, parse_trusted, parse_untrusted};
use crate::rate::PaceLayer;

/// How long an API server may take until its answer begins. Watches begin at once and are not
/// limited by it.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Who a process is, for API servers' audit logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// `controller-manager`, `observer`, `apiserver`, …
    pub process: &'static str,
    /// The replica's `--replica-id`.
    pub replica_id: String,
}

impl ProcessIdentity {
    /// `convoy-<process>/<version> (<replica-id>)`.
    pub fn user_agent(&self) -> String {
        format!("convoy-{}/{} ({})", self.process, env!("CARGO_PKG_VERSION"), self.replica_id)
    }
}

/// Why a client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig file cannot be read.
    #[error("reading the kubeconfig {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The kubeconfig is not used.
    #[error(transparent)]
    Refused(#[from] KubeconfigRefused),
    /// The kubeconfig does not give a client.
    #[error("the kubeconfig does not work")]
    Config(#[source] kube::config::KubeconfigError),
    /// There is neither a kubeconfig nor a service account.
    #[error("no --kubeconfig was given, and this is no pod with a service account")]
    NotInCluster(#[source] kube::config::InClusterError),
    /// TLS could not be set up: a certificate or key is not valid.
    #[error("the certificates or keys cannot be used")]
    Tls(#[source] Box<kube::Error>),
}

/// The client of convoy's own API: of the kubeconfig file, or of the pod's service account when no
/// file is given.
///
/// # Errors
/// See [`ConnectError`].
pub async fn host_client(
    kubeconfig: Option<&Path>,
    identity: &ProcessIdentity,
) -> Result<Client, ConnectError> {
    context_client(kubeconfig, None, identity).await
}

/// Like [`host_client`], with another context than the kubeconfig's current one.
///
/// # Errors
/// See [`ConnectError`].
pub async fn context_client(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    identity: &ProcessIdentity,
) -> Result<Client, ConnectError> {
    let Some(path) = kubeconfig else { return in_cluster_client(identity) };
    let read = |source| ConnectError::Read { path: path.to_owned(), source };
    let path_owned = path.to_owned();
    let bytes = tokio::task::spawn_blocking(move || std::fs::read(path_owned))
        .await
        .map_err(|error| read(std::io::Error::other(error)))?
        .map_err(read)?;
    let mut parsed = parse_trusted(&bytes, context)?;
    resolve_paths(&mut parsed, path.parent().unwrap_or(Path::new(".")));
    client_of(parsed, identity).await
}

/// The client of a kubeconfig that the process itself made.
///
/// # Errors
/// See [`ConnectError`].
pub async fn host_client_from(kubeconfig: &[u8], identity: &ProcessIdentity) -> Result<Client, ConnectError> {
    client_of(parse_trusted(kubeconfig, None)?, identity).await
}

/// The client of the pod's service account.
///
/// # Errors
/// When this is no pod.
pub fn in_cluster_client(identity: &ProcessIdentity) -> Result<Client, ConnectError> {
    finish(Config::incluster().map_err(ConnectError::NotInCluster)?, identity, None)
}

/// Makes the client that a kubeconfig names.
pub type MakeClient = Arc<dyn Fn(&[u8]) -> Client + Send + Sync>;

/// How target clusters are reached.
#[derive(Clone)]
pub struct Reach {
    identity: ProcessIdentity,
    instead: Option<MakeClient>,
}

impl Reach {
    /// As who, over the network; or as `instead` says, of targets that are in this process.
    pub fn new(identity: ProcessIdentity, instead: Option<MakeClient>) -> Self {
        Self { identity, instead }
    }

    /// The client of a target: of a kubeconfig that a tenant wrote, or of the pod's service account when there is none. See
    /// [`parse_untrusted`](crate::kubeconfig::parse_untrusted) for what is refused. Each of its requests waits for
    /// `pacer`.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn client(
        &self,
        kubeconfig: Option<&[u8]>,
        pacer: Option<Pacer>,
    ) -> Result<Client, ConnectError> {
        let config = match (kubeconfig, &self.instead) {
            (Some(kubeconfig), Some(instead)) => return Ok(instead(kubeconfig)),
            (Some(kubeconfig), None) => config_of(parse_untrusted(kubeconfig)?).await?,
            (None, _) => Config::incluster().map_err(ConnectError::NotInCluster)?,
        };
        finish(config, &self.identity, pacer)
    }
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reach").field("identity", &self.identity).finish_non_exhaustive()
    }
}

async fn client_of(kubeconfig: Kubeconfig, identity: &ProcessIdentity) -> Result<Client, ConnectError> {
    finish(config_of(kubeconfig).await?, identity, None)
}

async fn config_of(kubeconfig: Kubeconfig) -> Result<Config, ConnectError> {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(ConnectError::Config)?;
    // The loader also looks into the environment for a proxy.
    config.proxy_url = None;
    Ok(config)
}

fn finish(
    mut config: Config,
    identity: &ProcessIdentity,
    pacer: Option<Pacer>,
) -> Result<Client, ConnectError> {
    crate::install_tls_provider();
    config.connect_timeout = Some(CONNECT_DEADLINE);
    if let Ok(value) = HeaderValue::from_str(&identity.user_agent()) {
        config.headers.push((USER_AGENT, value));
    }
    let builder = http_stack(&config).map_err(|error| ConnectError::Tls(Box::new(error)))?;
    let builder = builder.with_layer(&TimeoutLayer::new(REQUEST_DEADLINE));
    Ok(match pacer {
        Some(pacer) => builder.with_layer(&PaceLayer(pacer)).build(),
        None => builder.build(),
    })
}

/// Paths in a kubeconfig count from the folder of its file.
fn resolve_paths(kubeconfig: &mut Kubeconfig, folder: &Path) {
    let resolve = |path: &mut Option<String>| {
        if let Some(relative) = path.as_mut().filter(|path| Path::new(path.as_str()).is_relative()) {
            *relative = folder.join(&relative).to_string_lossy().into_owned();
        }
    };
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        resolve(&mut cluster.certificate_authority);
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        resolve(&mut user.client_certificate);
        resolve(&mut user.client_key);
        resolve(&mut user.token_file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_names_process_version_and_replica() {
        let identity = ProcessIdentity { process: "controller-manager", replica_id: "cm-0".to_owned() };
        assert_eq!(
            identity.user_agent(),
            format!("convoy-controller-manager/{} (cm-0)", env!("CARGO_PKG_VERSION"))
        );
    }
}
