//! What the apiserver has another process answer: TLS on both sides, and nobody else is answered.
//!
//! Both ends name the CA that they trust. A caller without a certificate of the client CA does not get past the
//! handshake. Everything is bounded: connections, requests, bodies, and the time that each may take.

mod client;
mod server;

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};

pub use client::{ProxyAddress, ProxyClient, ProxyError};
pub use server::{Answers, serve_proxied};

/// A certificate of this end, and the CA that the other end's certificate has to be of; all in PEM.
#[derive(Clone)]
pub struct ProxiedTls {
    /// The chain, leaf first.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
    /// The CA of the other end.
    pub other_ca: Vec<u8>,
}

impl std::fmt::Debug for ProxiedTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxiedTls").finish_non_exhaustive()
    }
}

/// Certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProxiedTlsError {
    /// The certificate is not PEM.
    #[error("the certificate is not PEM: give a chain of CERTIFICATE blocks, leaf first")]
    Certificate(#[source] pem::Error),
    /// The key is not PEM.
    #[error("the private key is not PEM: give one PRIVATE KEY block")]
    Key(#[source] pem::Error),
    /// The CA file has no certificate that can be used.
    #[error("the CA file holds no CERTIFICATE block that can be used")]
    Authority,
    /// The certificate, key and CA do not work together.
    #[error("the certificates and the private key cannot be used")]
    Unusable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ProxiedTls {
    fn own(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ProxiedTlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(ProxiedTlsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(ProxiedTlsError::Key)?;
        Ok((chain, key))
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, ProxiedTlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&self.other_ca) {
            let certificate = certificate.map_err(|_| ProxiedTlsError::Authority)?;
            roots.add(certificate).map_err(|_| ProxiedTlsError::Authority)?;
        }
        if roots.is_empty() { Err(ProxiedTlsError::Authority) } else { Ok(Arc::new(roots)) }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> ProxiedTlsError {
    ProxiedTlsError::Unusable(Box::new(error))
}

/// A request that the apiserver has let through.
#[derive(Clone, Debug)]
pub struct ProxiedRequest {
    /// The method.
    pub method: http::Method,
    /// The path.
    pub path: String,
    /// What stands behind its `?`; empty when there is none.
    pub query: String,
    /// The body; empty for a GET.
    pub body: Bytes,
}

/// An answer: JSON.
#[derive(Clone, Debug)]
pub struct ProxiedAnswer {
    /// The code.
    pub code: StatusCode,
    /// The body.
    pub body: Bytes,
}
