//! Requests to the collector, on convoy's own TLS and HTTP client: neither redirects nor proxies, and bounded.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry_http::{HttpClient, HttpError};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::{SEND_WITHIN, TracesError};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const IDLE_FOR: Duration = Duration::from_secs(20);
/// The longest answer that is read.
const MOST_BYTES: usize = 64 << 10;

/// A client of the collector.
#[derive(Debug)]
pub(super) struct Collector {
    client: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Collector {
    /// Trusts these CAs, else the public ones.
    pub(super) fn new(ca: Option<&[u8]>) -> Result<Self, TracesError> {
        let mut roots = RootCertStore::empty();
        match ca {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(pem) => {
                let bad = |error: String| TracesError::Ca(error);
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                    roots.add(certificate).map_err(|error| bad(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(bad("there is no certificate".to_owned()));
                }
            }
        }
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TracesError::Exporter(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_connect_timeout(Some(CONNECT_WITHIN));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(plain);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(1)
            .build(connector);
        Ok(Self { client })
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let asked = async {
            let (parts, body) = self.client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, MOST_BYTES).collect().await?.to_bytes();
            Ok(Response::from_parts(parts, body))
        };
        match tokio::time::timeout(SEND_WITHIN, asked).await {
            Ok(answer) => answer,
            Err(_) => Err("it did not answer in time".into()),
        }
    }
}
