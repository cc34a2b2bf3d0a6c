//! The HTTP client under a [`kube::Client`]: what `kube::client::ClientBuilder` makes of a configuration (see
//! `kube::client::ConfigExt`, which is there for it), but for what its connections take of memory, and that nothing is
//! repeated here: who repeats a request must look first whether it still may, as the queues do. A process has
//! connections to hundreds of clusters, and one for each of its watches.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::Config;
use rustls::client::Resumption;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder};

/// Connections to one API server that stay open while nothing is asked.
const IDLE_CONNECTIONS: usize = 4;
/// How long they stay open. kube's own client gives its pool no timer: they stay until the server ends them.
const IDLE_FOR: Duration = Duration::from_secs(20);
/// What a connection reads ahead. Any long answer makes its buffer grow to this, and it stays so; hyper's own limit
/// is 400 KiB.
const READ_AHEAD: usize = 64 << 10;
/// TLS sessions that are kept to be resumed: as many as rustls keeps of one server. By default there is room for 32
/// servers.
const TLS_SESSIONS: usize = 8;

type Requested = http::Request<Body>;
type Answered = http::Response<hyper::body::Incoming>;

/// A client's lowest layers: TLS, connections, who asks.
pub(crate) type HttpStack = BoxCloneService<Requested, Answered, BoxError>;

/// The stack of a configuration, which names no proxy and runs no program.
///
/// # Errors
/// When a certificate, a key, a name or a header of it is not valid.
pub(crate) fn http_stack(config: &Config) -> Result<ClientBuilder<HttpStack>, kube::Error> {
    let connections = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_FOR)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .http1_max_buf_size(READ_AHEAD)
        .build(connector(config)?);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(connections);
    Ok(ClientBuilder::new(BoxCloneService::new(service), config.default_namespace.clone()))
}

fn connector(config: &Config) -> Result<TimeoutConnector<HttpsConnector<HttpConnector>>, kube::Error> {
    let mut tls = config.rustls_client_config()?;
    tls.resumption = Resumption::in_memory_sessions(TLS_SESSIONS);
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into();
        let name = name.map_err(|error| {
            kube::Error::RustlsTls(kube::client::RustlsTlsError::InvalidServerName(error))
        })?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    let mut connector = TimeoutConnector::new(builder.enable_http1().wrap_connector(plain));
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    Ok(connector)
}
