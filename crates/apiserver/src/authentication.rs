//! Authentication: who a request comes from.
//!
//! Sources are asked in turn and the first that knows the user decides. Credentials that some source
//! refuses and no source accepts make the request fail; a request without any is `system:anonymous`,
//! whom authorisation lets see nothing but open paths.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::user::User;

/// What authentication may look at.
#[derive(Debug)]
pub struct Credentials<'a> {
    /// The request's headers.
    pub headers: &'a HeaderMap,
    /// The certificates of the TLS client, leaf first. The handshake proved that the client has the
    /// key, and nothing else: whom to trust is up to each authenticator.
    pub certificates: &'a [CertificateDer<'static>],
    /// Where the request came from.
    pub remote: SocketAddr,
    /// Now.
    pub now: jiff::Timestamp,
}

impl Credentials<'_> {
    /// The bearer token, when there is one.
    pub fn bearer_token(&self) -> Option<&str> {
        let value = self.headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    }
}

/// Credentials that were recognised and refused. The text is for the log, never for the client.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// A source of identities.
#[async_trait]
pub trait Authenticator: Send + Sync + fmt::Debug {
    /// The user, or `None` when these credentials are not of this source's kind.
    ///
    /// # Errors
    /// When they are, and are not valid.
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused>;
}

/// Several sources, asked in turn.
#[derive(Debug, Default)]
pub struct Union(Vec<Arc<dyn Authenticator>>);

impl Union {
    /// Of sources, in the order in which they are asked.
    pub fn new(sources: Vec<Arc<dyn Authenticator>>) -> Self {
        Self(sources)
    }
}

#[async_trait]
impl Authenticator for Union {
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused> {
        let mut refused = None;
        for source in &self.0 {
            match source.authenticate(credentials).await {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or(Ok(None), Err)
    }
}

/// Under which credential a user came, for audit logs.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// A client CA that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the client CA cannot be used")]
pub struct ClientCaError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// Users by client certificate: the subject's common name is the user, its organisations are the
/// groups. The CA can be replaced while the server runs.
#[derive(Debug)]
pub struct ClientCertificates {
    verifier: ArcSwap<VerifierBox>,
}

#[derive(Debug)]
struct VerifierBox(TrustedClients);

/// Whose certificates are believed.
#[derive(Debug)]
pub(crate) struct TrustedClients(Arc<dyn ClientCertVerifier>);

impl TrustedClients {
    pub(crate) fn new(cas: &[CertificateDer<'static>]) -> Result<Self, ClientCaError> {
        client_verifier(cas).map(Self)
    }

    /// The certificate of a client who is believed.
    pub(crate) fn verify<'a>(&self, credentials: &Credentials<'a>) -> Result<&'a [u8], Refused> {
        let Some((leaf, intermediates)) = credentials.certificates.split_first() else {
            return Err(Refused("no client certificate".into()));
        };
        let seconds = u64::try_from(credentials.now.as_second()).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        self.0
            .verify_client_cert(leaf, intermediates, now)
            .map_err(|error| Refused(format!("client certificate: {error}")))?;
        Ok(leaf)
    }
}

fn parse(leaf: &[u8]) -> Result<X509Certificate<'_>, Refused> {
    let parsed = X509Certificate::from_der(leaf);
    parsed.map(|(_, parsed)| parsed).map_err(|error| Refused(format!("client certificate: {error}")))
}

/// The common name of a certificate, which may be empty.
pub(crate) fn client_common_name(leaf: &[u8]) -> Result<String, Refused> {
    let certificate = parse(leaf)?;
    let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    Ok(name.unwrap_or_default().to_owned())
}

impl ClientCertificates {
    /// Trusts certificates issued by these CAs (DER).
    ///
    /// # Errors
    /// When there is none, or one is malformed.
    pub fn new(cas: &[CertificateDer<'static>]) -> Result<Self, ClientCaError> {
        Ok(Self { verifier: ArcSwap::from_pointee(VerifierBox(TrustedClients::new(cas)?)) })
    }

    /// Trusts these CAs from now on.
    ///
    /// # Errors
    /// When there is none, or one is malformed; the ones before stay.
    pub fn replace(&self, cas: &[CertificateDer<'static>]) -> Result<(), ClientCaError> {
        self.verifier.store(Arc::new(VerifierBox(TrustedClients::new(cas)?)));
        Ok(())
    }
}

fn client_verifier(cas: &[CertificateDer<'static>]) -> Result<Arc<dyn ClientCertVerifier>, ClientCaError> {
    let mut roots = rustls::RootCertStore::empty();
    for ca in cas {
        roots.add(ca.clone()).map_err(|error| ClientCaError(Box::new(error)))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| ClientCaError(Box::new(error)))
}

#[async_trait]
impl Authenticator for ClientCertificates {
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused> {
        if credentials.certificates.is_empty() {
            return Ok(None);
        }
        let leaf = self.verifier.load().0.verify(credentials)?;
        let certificate = parse(leaf)?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next().and_then(|name| name.as_str().ok()).unwrap_or_default();
        if name.is_empty() {
            return Err(Refused("client certificate without a common name".into()));
        }
        let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
        let mut user = User::new(name, groups);
        let fingerprint: String = Sha256::digest(leaf).iter().map(|byte| format!("{byte:02x}")).collect();
        user.extra.insert(CREDENTIAL_ID.into(), vec![format!("X509SHA256={fingerprint}")]);
        Ok(Some(user))
    }
}

/// Users by bearer token, from a fixed table. Tokens are kept as digests, so that neither memory
/// dumps nor timing give them away.
#[derive(Debug, Default)]
pub struct TokenTable(HashMap<[u8; 32], User>);

impl TokenTable {
    /// Of tokens and their users.
    pub fn new<'a>(tokens: impl IntoIterator<Item = (&'a str, User)>) -> Self {
        Self(tokens.into_iter().map(|(token, user)| (digest(token), user)).collect())
    }

    /// The user of a token.
    pub fn user(&self, token: &str) -> Option<&User> {
        self.0.get(&digest(token))
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[async_trait]
impl Authenticator for TokenTable {
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused> {
        match credentials.bearer_token() {
            None => Ok(None),
            Some(token) => match self.user(token) {
                Some(user) => Ok(Some(user.clone())),
                None => Err(Refused("unknown bearer token".into())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(headers: &HeaderMap) -> Credentials<'_> {
        Credentials {
            headers,
            certificates: &[],
            remote: ([127, 0, 0, 1], 1).into(),
            now: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[tokio::test]
    async fn a_known_token_is_a_user_and_an_unknown_one_is_refused() {
        let tokens = TokenTable::new([("secret", User::new("jane", ["devs"]))]);
        let union = Union::new(vec![Arc::new(TokenTable::default()), Arc::new(tokens)]);
        let mut headers = HeaderMap::new();
        assert!(union.authenticate(&credentials(&headers)).await.unwrap().is_none());
        headers.insert(AUTHORIZATION, "bearer secret".parse().unwrap());
        assert_eq!(union.authenticate(&credentials(&headers)).await.unwrap().unwrap().name, "jane");
        headers.insert(AUTHORIZATION, "Bearer guess".parse().unwrap());
        assert!(union.authenticate(&credentials(&headers)).await.is_err());
        headers.insert(AUTHORIZATION, "Basic c2VjcmV0".parse().unwrap());
        assert!(union.authenticate(&credentials(&headers)).await.unwrap().is_none());
    }
}
