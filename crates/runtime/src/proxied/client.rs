use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{ProxiedAnswer, ProxiedRequest, ProxiedTls, ProxiedTlsError, provider, unusable};

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// How long a whole answer may take.
const DEADLINE: Duration = Duration::from_secs(55);
/// The longest answer.
const LONGEST: usize = 16 << 20;

/// Where a process listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyAddress {
    /// A name or an IP address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What the certificate there has to be for, when it is not the host: one of many behind a Service has that
    /// Service's certificate.
    pub server_name: Option<String>,
}

impl fmt::Display for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl std::str::FromStr for ProxyAddress {
    type Err = &'static str;

    /// `https://host:port`, with `https://` and the port 443 left out at will.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "it is not https://HOST:PORT";
        let text = text.strip_prefix("https://").unwrap_or(text);
        let text = text.strip_suffix('/').unwrap_or(text);
        let authority: http::uri::Authority = text.parse().map_err(|_| WRONG)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || text.contains('@') || ServerName::try_from(host.clone()).is_err() {
            return Err(WRONG);
        }
        Ok(Self { host, port: authority.port_u16().unwrap_or(443), server_name: None })
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Nobody answers there.
    #[error("{address} cannot be reached")]
    Connect {
        /// Where.
        address: ProxyAddress,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The answer broke off.
    #[error("the answer of {address} broke off")]
    Broken {
        /// Where.
        address: ProxyAddress,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer is too long.
    #[error("the answer of {address} is longer than 16 MiB")]
    TooLong {
        /// Where.
        address: ProxyAddress,
    },
    /// It took too long.
    #[error("{address} did not answer in time")]
    Late {
        /// Where.
        address: ProxyAddress,
    },
}

/// Asks other processes, and shows them a certificate.
#[derive(Clone)]
pub struct ProxyClient {
    connector: TlsConnector,
}

impl fmt::Debug for ProxyClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyClient").finish_non_exhaustive()
    }
}

impl ProxyClient {
    /// With these certificates.
    ///
    /// # Errors
    /// When they cannot be used.
    pub fn new(tls: &ProxiedTls) -> Result<Self, ProxiedTlsError> {
        let (chain, key) = tls.own()?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_root_certificates(tls.roots()?)
            .with_client_auth_cert(chain, key)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { connector: TlsConnector::from(Arc::new(config)) })
    }

    /// Asks, on a connection of its own.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub async fn ask(
        &self,
        address: &ProxyAddress,
        request: ProxiedRequest,
    ) -> Result<ProxiedAnswer, ProxyError> {
        let late = || ProxyError::Late { address: address.clone() };
        tokio::time::timeout(DEADLINE, self.asked(address, request)).await.map_err(|_| late())?
    }

    async fn asked(
        &self,
        address: &ProxyAddress,
        request: ProxiedRequest,
    ) -> Result<ProxiedAnswer, ProxyError> {
        let unreachable = |source| ProxyError::Connect { address: address.clone(), source };
        let connect = async {
            let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
            let name = address.server_name.as_ref().unwrap_or(&address.host);
            let name = ServerName::try_from(name.clone()).map_err(std::io::Error::other)?;
            self.connector.connect(name, stream).await
        };
        let stream = tokio::time::timeout(CONNECT_DEADLINE, connect)
            .await
            .map_err(|_| unreachable(std::io::ErrorKind::TimedOut.into()))?
            .map_err(unreachable)?;
        let broken = |source: Box<dyn std::error::Error + Send + Sync>| {
            if source.is::<LengthLimitError>() {
                ProxyError::TooLong { address: address.clone() }
            } else {
                ProxyError::Broken { address: address.clone(), source }
            }
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(error.into()))?;
        let mark = if request.query.is_empty() { "" } else { "?" };
        let request = Request::builder()
            .method(request.method)
            .uri(format!("{}{mark}{}", request.path, request.query))
            .header(header::HOST, address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::<Bytes>::new(request.body))
            .map_err(|error| broken(error.into()))?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|error| broken(error.into()))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LONGEST).collect().await.map_err(broken)?.to_bytes();
            Ok(ProxiedAnswer { code: parts.status, body })
        };
        tokio::pin!(exchange, connection);
        tokio::select! {
            answer = &mut exchange => answer,
            // Its end is what the exchange fails with.
            _ = &mut connection => exchange.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url_or_a_host_and_port() {
        let read = |text: &str| text.parse::<ProxyAddress>().map(|address| address.to_string());
        for (text, want) in [
            ("https://convoy-observer.convoy-system.svc:8443/", "convoy-observer.convoy-system.svc:8443"),
            ("https://obs", "obs:443"),
            ("127.0.0.1:8443", "127.0.0.1:8443"),
            ("https://[::1]:8443", "[::1]:8443"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(want), "{text}");
        }
        for text in ["", "http://obs:80", "https://a/b", "https://u:p@obs", "https://o bs"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
