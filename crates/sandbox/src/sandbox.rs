//! Starting and stopping many clusters.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoy_apiserver::audit::AuditLog;
use convoy_apiserver::filters::Now;

use crate::cluster::{Cluster, StartError};

/// What to start.
#[derive(Clone)]
pub struct Options {
    /// The names of the clusters, one each.
    pub names: Vec<String>,
    /// Where `<name>.kubeconfig` is written for each. It must exist.
    pub folder: PathBuf,
    /// After which time workloads are Ready.
    pub ready_after: Duration,
    /// The port of the first cluster, the next ones follow; 0 takes any free ports.
    pub first_port: u16,
    /// Takes one `audit.k8s.io/v1` event a line for each request to any of the clusters; the
    /// annotation [`crate::CLUSTER_ANNOTATION`] names it. `None` logs nothing.
    pub audit_log: Option<PathBuf>,
    /// Tells the time.
    pub now: Now,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Options").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Running clusters.
#[derive(Debug)]
pub struct Sandbox {
    clusters: Vec<Cluster>,
}

impl Sandbox {
    /// Starts all clusters; they are ready when it returns.
    ///
    /// # Errors
    /// When a port is taken, a certificate cannot be made or a file cannot be written.
    pub async fn start(options: &Options) -> Result<Self, StartError> {
        let audit = match &options.audit_log {
            Some(path) => Some(AuditLog::open(path).map_err(StartError::Audit)?),
            None => None,
        };
        let mut clusters = Vec::with_capacity(options.names.len());
        for (index, name) in options.names.iter().enumerate() {
            let port = match options.first_port {
                0 => 0,
                first => u16::try_from(usize::from(first) + index).map_err(|_| StartError::Port { first })?,
            };
            let cluster = Cluster::start(name, port, options, audit.as_ref().map(Arc::clone)).await?;
            clusters.push(cluster);
        }
        Ok(Self { clusters })
    }

    /// The clusters, in the order of their names in the options.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// Ends all of them.
    pub async fn stop(self) {
        for cluster in self.clusters {
            cluster.stop().await;
        }
    }
}
