//! TLS: the serving certificate, replaceable at run time, and client certificates that are asked
//! for but not judged here.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

/// A serving certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The PEM text has no certificate, or what looks like one is malformed.
    #[error("the certificate is not PEM: give a chain of CERTIFICATE blocks, leaf first")]
    Certificate(#[source] rustls_pki_types::pem::Error),
    /// The PEM text has no private key, or what looks like one is malformed.
    #[error("the private key is not PEM: give one PRIVATE KEY block")]
    Key(#[source] rustls_pki_types::pem::Error),
    /// The PEM text has no certificate.
    #[error("the certificate file holds no certificate")]
    NoCertificate,
    /// TLS refuses the pair.
    #[error("the certificate and private key cannot be used")]
    Pair(#[source] rustls::Error),
}

/// Reads all certificates of a PEM text.
///
/// # Errors
/// When there is none or one is malformed.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(TlsError::Certificate)?;
    if found.is_empty() { Err(TlsError::NoCertificate) } else { Ok(found) }
}

/// The certificate a server shows. It can be replaced while the server runs; connections that stand
/// keep theirs.
#[derive(Debug)]
pub struct ServingCertificate {
    current: ArcSwap<CertifiedKey>,
}

impl ServingCertificate {
    /// Of a certificate chain and a key in PEM.
    ///
    /// # Errors
    /// When either cannot be read or they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self { current: ArcSwap::from_pointee(certified_key(chain, key)?) }))
    }

    /// Shows this pair from now on.
    ///
    /// # Errors
    /// When either cannot be read or they do not belong together; the pair before stays.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), TlsError> {
        self.current.store(Arc::new(certified_key(chain, key)?));
        Ok(())
    }
}

fn certified_key(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
    CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider()).map_err(TlsError::Pair)
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// Asks every client for a certificate and takes any: the handshake only proves that the client
/// holds the key. Which CA may name users is for the authenticators, which are told apart there
/// (client CA, front proxy) and whose CAs change at run time.
#[derive(Debug)]
struct AskForCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AskForCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The TLS side of a server: HTTP/2 and HTTP/1.1, TLS 1.2 and later.
///
/// # Errors
/// When the cryptography provider does not speak TLS 1.2 and 1.3.
pub fn server_config(certificate: Arc<ServingCertificate>) -> Result<Arc<ServerConfig>, TlsError> {
    let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = AskForCertificate { algorithms: provider.signature_verification_algorithms };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
