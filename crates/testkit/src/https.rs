//! A blocking HTTPS client for the few requests that starting and comparing need. It has no
//! dependency on an HTTP or Kubernetes library, so that what is tested is not tested by itself.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use serde_json::Value;

use crate::certificates::Identity;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Requests to one server, one connection each.
#[derive(Debug, Clone)]
pub struct HttpsClient {
    address: SocketAddr,
    config: Arc<ClientConfig>,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The header lines, as received.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl HttpsClient {
    /// A client that trusts `authority` (PEM) and shows `identity`.
    ///
    /// # Errors
    /// When a certificate or key cannot be read.
    pub fn new(address: SocketAddr, authority: &str, identity: Option<&Identity>) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain: Result<Vec<_>, _> =
                    CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect();
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(io::Error::other)?;
                let chain = chain.map_err(io::Error::other)?;
                builder.with_client_auth_cert(chain, key).map_err(io::Error::other)?
            }
        };
        Ok(Self { address, config: Arc::new(config) })
    }

    /// A client that takes any certificate, as a kubelet does that probes a container.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn unchecked(address: SocketAddr) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth();
        Ok(Self { address, config: Arc::new(config) })
    }

    /// A client to the server of a kubeconfig, with the certificate in it. Reads kubeconfigs as convoy
    /// and the control planes here write them: one cluster, one user, everything inline.
    ///
    /// # Errors
    /// When the file cannot be read or lacks something.
    pub fn from_kubeconfig(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.trim_start_matches(['-', ' ']).strip_prefix(name));
            let value =
                line.and_then(|rest| rest.strip_prefix(':')).map(|rest| rest.trim().trim_matches('"'));
            value.ok_or_else(|| io::Error::other(format!("{} has no {name}", path.display())))
        };
        let data = |name: &str| {
            let bytes = BASE64.decode(field(name)?).map_err(io::Error::other)?;
            String::from_utf8(bytes).map_err(io::Error::other)
        };
        let address = field("server")?.trim_start_matches("https://").parse().map_err(io::Error::other)?;
        let identity =
            Identity { certificate: data("client-certificate-data")?, key: data("client-key-data")? };
        Self::new(address, &data("certificate-authority-data")?, Some(&identity))
    }

    /// Whom it trusts and what it shows, for a client that speaks another protocol.
    pub fn tls(&self) -> ClientConfig {
        ClientConfig::clone(&self.config)
    }

    /// `GET path`.
    ///
    /// # Errors
    /// When there is no answer; an HTTP error is an answer.
    pub fn get(&self, path: &str) -> io::Result<Response> {
        self.request("GET", path, &[("Accept", "application/json")], b"")
    }

    /// A request with a JSON body.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> io::Result<Response> {
        let headers = [("Accept", "application/json"), ("Content-Type", content_type)];
        self.request(method, path, &headers, body.to_string().as_bytes())
    }

    /// Any request. `Host` and `Content-Length` are added.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let connection = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(connection, stream);

        // HTTP/1.0: the answer ends with the connection, and is never chunked.
        let mut head = format!("{method} {path} HTTP/1.0\r\nHost: {}\r\n", self.address);
        for (header, value) in headers {
            head.push_str(&format!("{header}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        tls.write_all(head.as_bytes())?;
        tls.write_all(body)?;
        tls.flush()?;

        let mut answer = Vec::new();
        match tls.read_to_end(&mut answer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        parse(&answer).ok_or_else(|| io::Error::other("the answer is not HTTP"))
    }
}

/// Looks at no certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn parse(answer: &[u8]) -> Option<Response> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    });
    Some(Response { status, headers: headers.collect(), body: answer.get(end + 4..)?.to_vec() })
}
