//! The etcd of an API server: its flags, checks and counters.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use convoy_apiserver::health::{Check, Checks};
use convoy_apiserver::metrics::Metrics;
use convoy_registry::ResourceTable;
use convoy_runtime::Clock;
use convoy_storage::etcd::{EtcdOptions, EtcdStorage, OpenError, Operation, TlsFiles};

use super::arguments::{Etcd, EtcdConnection};
use crate::bad_flag::BadFlag;

/// What keys begin with in the rest of the program.
const KEYS: &str = "/registry";

/// Opens the etcd that the flags name; none when they name none.
pub(crate) fn open(flags: &Etcd, metrics: &Arc<Metrics>) -> Result<Option<Arc<EtcdStorage>>, BadFlag> {
    connect(&flags.connection, flags.etcd_compaction_interval.as_std(), metrics)
}

/// The same for one that is compacted so often; never when that is zero.
pub(crate) fn connect(
    flags: &EtcdConnection,
    compaction_interval: Duration,
    metrics: &Arc<Metrics>,
) -> Result<Option<Arc<EtcdStorage>>, BadFlag> {
    if flags.etcd_servers.is_empty() {
        return Ok(None);
    }
    let observed = Arc::clone(metrics);
    let measure = move |operation: Operation, took: Duration, is_ok: bool| {
        observed.observe_etcd(operation.name(), took, is_ok);
    };
    let options = EtcdOptions {
        servers: flags.etcd_servers.clone(),
        tls: TlsFiles {
            ca: flags.etcd_cafile.clone(),
            certificate: flags.etcd_certfile.clone(),
            key: flags.etcd_keyfile.clone(),
        },
        prefix: flags.etcd_prefix.clone(),
        replaces: KEYS.to_owned(),
        compaction_interval,
        measure: Some(Arc::new(measure)),
    };
    let storage = EtcdStorage::open(&options).map_err(|error| match &error {
        OpenError::File { path, .. } => {
            let flag = match path {
                path if Some(path) == flags.etcd_cafile.as_ref() => "etcd-cafile",
                path if Some(path) == flags.etcd_certfile.as_ref() => "etcd-certfile",
                _ => "etcd-keyfile",
            };
            BadFlag::new(flag, path.display().to_string(), error)
        }
        _ => BadFlag::new("etcd-servers", flags.etcd_servers.join(","), error),
    })?;
    Ok(Some(Arc::new(storage)))
}

/// An etcd that does not answer makes the server not ready. A new process would not reach it either, so it stays alive.
pub(crate) fn add_checks(checks: &mut Checks, flags: &Etcd, storage: &Arc<EtcdStorage>) {
    for (name, within) in
        [("etcd", flags.etcd_healthcheck_timeout), ("etcd-readiness", flags.etcd_readycheck_timeout)]
    {
        let check = Answers { storage: Arc::clone(storage), within: within.as_std() };
        checks.add_ready(name, Arc::new(check));
    }
}

#[derive(Debug)]
struct Answers {
    storage: Arc<EtcdStorage>,
    within: Duration,
}

#[async_trait]
impl Check for Answers {
    async fn check(&self) -> Result<(), String> {
        self.storage.check(self.within).await.map_err(|error| error.to_string())
    }
}

/// Counts the objects of each resource, for ever.
pub(crate) async fn count(
    storage: Arc<EtcdStorage>,
    table: Arc<ResourceTable>,
    metrics: Arc<Metrics>,
    every: Duration,
    clock: Arc<dyn Clock>,
) {
    if every.is_zero() {
        return;
    }
    loop {
        for resource in table.load().iter() {
            match storage.count(&format!("{KEYS}/{}/", resource.storage_path)).await {
                Ok(count) => {
                    metrics.set_object_count(&resource.group_resource().to_string(), count);
                }
                Err(error) => tracing::debug!(%error, "the objects in etcd cannot be counted"),
            }
        }
        clock.sleep(every).await;
    }
}
