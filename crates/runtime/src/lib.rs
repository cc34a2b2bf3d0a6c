//! The shell that convoy's processes run in.
//!
//! - [`Clock`]: time as an argument, real or set by hand.
//! - [`Queue`] and [`WorkQueue`]: which object is worked on next; the first is the pure state
//!   machine, the second its thin driver.
//! - [`Breaker`]: whether a server is asked at all; [`Pacer`]: how often.
//! - [`HostWriter`]: the one way to write convoy's own objects; it asks for ownership before each request.
//! - [`Store`]: what the API server holds, in memory, fed by a watch; [`ShardCaches`]: stores that follow
//!   [`Shards`], and [`LookedShards`]: which gained shards may be worked on.
//! - [`connect`] and [`kubeconfig`]: clients of the host and of target clusters, with deadlines,
//!   a User-Agent that names the replica, and kubeconfigs that may neither run a program nor read a
//!   file.
//! - [`serve_proxied`] and [`ProxyClient`]: what the apiserver has another process answer.
//! - [`Shards`] and [`leases`]: which part of the work is this replica's.
//! - [`Shutdown`] and [`Supervisor`]: tasks that end together.
//! - [`serve_health`], [`Readiness`], [`init_telemetry`] and [`traces`]: how a process shows what it does.

mod breaker;
mod clock;
mod connect;
mod health;
mod host_writer;
mod http_stack;
pub mod kubeconfig;
pub mod leases;
mod looked;
mod outside;
mod proxied;
mod queue;
mod rate;
mod shard_caches;
mod sharded;
mod shards;
mod shutdown;
mod store;
mod supervisor;
mod telemetry;
mod tls;
pub mod traces;
mod watch_events;
mod work;

pub use breaker::{Breaker, Heard, Turn};
pub use clock::{Clock, ManualClock, RealClock};
pub use connect::{
    ConnectError, MakeClient, ProcessIdentity, REQUEST_DEADLINE, Reach, context_client, host_client,
    host_client_from, in_cluster_client,
};
pub use health::{HealthServer, Metrics, Readiness, ServeHealthError, VersionInfo, serve_health};
pub use host_writer::{EventKind, HostWriteError, HostWriter};
pub use looked::{LookedShards, ShardNews, ShardNewsReader};
pub use proxied::{
    Answers, ProxiedAnswer, ProxiedRequest, ProxiedTls, ProxiedTlsError, ProxyAddress, ProxyClient,
    ProxyError, serve_proxied,
};
pub use queue::{Backoff, ClassLimit, Queue, SlowLane};
pub use rate::{Pacer, TokenBucket};
pub use shard_caches::{CacheScope, ShardCaches};
pub use sharded::Sharded;
pub use shards::{OwnedShards, Shards};
pub use shutdown::Shutdown;
pub use store::{Cause, Change, Store, StoreKey, StoreOptions, resource_of, store_key, watch_into};
pub use supervisor::{Supervisor, TaskError};
pub use telemetry::{LogFilter, LogFormat, TelemetryError, check_log_filter, init_telemetry};
pub use tls::install_tls_provider;
pub use watch_events::{is_answer, watch_events};
pub use work::{Next, WorkQueue};
