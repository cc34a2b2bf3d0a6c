//! `convoy sandbox`: simulated target clusters.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use convoy_runtime::{Clock, Shutdown};
use convoy_sandbox::{Options, Sandbox};

use crate::arguments;
use crate::bad_flag::{BadFlag, check_appendable};

/// Names for a number of clusters: `cluster-1`, `cluster-2`, …
pub(crate) fn names(count: u16) -> Vec<String> {
    (1..=count).map(|number| format!("cluster-{number}")).collect()
}

/// Starts simulated clusters that write their kubeconfigs into `folder`.
pub(crate) async fn start(
    names: &[String],
    folder: &Path,
    ready_after: Duration,
    audit_log: Option<PathBuf>,
    first_port: u16,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Sandbox> {
    let clock = Arc::clone(clock);
    let options = Options {
        names: names.to_vec(),
        folder: folder.to_path_buf(),
        ready_after,
        first_port,
        audit_log,
        now: Arc::new(move || clock.now()),
    };
    Sandbox::start(&options)
        .await
        .context("starting the simulated clusters: if a port is taken, choose others with --port")
}

/// Runs `convoy sandbox` until a signal.
pub(crate) async fn run(
    arguments: &arguments::Sandbox,
    clock: Arc<dyn Clock>,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(&arguments.dir)
        .map_err(|source| BadFlag::new("dir", arguments.dir.display(), source))?;
    check_appendable("audit-log-path", arguments.audit.audit_log_path.as_deref())?;
    if arguments.port > 0 && arguments.port.checked_add(arguments.clusters.saturating_sub(1)).is_none() {
        let why = format!("{} clusters need as many ports from there on", arguments.clusters);
        return Err(BadFlag::new("port", arguments.port, why).into());
    }
    let names = names(arguments.clusters);
    let ready_after = Duration::from_millis(arguments.ready_after_ms);
    let audit_log = arguments.audit.audit_log_path.clone();
    let sandbox = start(&names, &arguments.dir, ready_after, audit_log, arguments.port, &clock).await?;
    println!(
        "convoy sandbox is ready: {} clusters, kubeconfigs in {}",
        sandbox.clusters().len(),
        arguments.dir.display()
    );
    shutdown.wait().await;
    sandbox.stop().await;
    Ok(())
}
