use std::collections::BTreeMap;
use std::fmt;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use ureq::tls::{Certificate, ClientCert, PrivateKey};

use crate::ssh::Identity;

/// What a Secret gives for a server: how to log in and whom to trust. Its `Debug` shows no value.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The whole value of the `Authorization` header.
    authorization: Option<String>,
    /// DER certificates to trust instead of the built-in roots; empty for the built-in roots.
    roots: Vec<Vec<u8>>,
    /// The certificate to show when the server asks for one.
    client: Option<ClientCert>,
    /// The key for SSH and the hosts to trust.
    ssh: Option<Identity>,
}

/// Why a Secret's data cannot be used. Names keys, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// One of the pair `username` and `password` is missing.
    #[error("key {missing:?} is missing: basic authentication needs username and password")]
    HalfBasic {
        /// The key that is not there.
        missing: &'static str,
    },
    /// Both ways of logging in at once.
    #[error("both password and bearerToken are given: keep one")]
    Ambiguous,
    /// A value that cannot stand in a header.
    #[error("key {key:?} is empty, not text, or holds control characters")]
    Value {
        /// The key with the bad value.
        key: &'static str,
    },
    /// `ca.crt` without a certificate.
    #[error("key \"ca.crt\" holds no PEM certificate")]
    Ca,
    /// `tls.crt` and `tls.key` that make no certificate to show.
    #[error("keys \"tls.crt\" and \"tls.key\" are needed together, a PEM certificate and its private key")]
    ClientCertificate,
    /// A `.dockerconfigjson` that is none.
    #[error(
        "key \".dockerconfigjson\" cannot be read: it needs auths with username and password, or auth, for the registry"
    )]
    DockerConfig,
    /// A `.dockerconfigjson` without a login for the registry.
    #[error("key \".dockerconfigjson\" has no login for {host}")]
    NoLogin {
        /// The registry.
        host: String,
    },
    /// A Secret for SSH, but a URL of HTTP.
    #[error(
        "key \"identity\" is for Git over SSH, but the URL is not ssh://: use username and password, or bearerToken"
    )]
    Ssh,
    /// A Secret without a key for SSH.
    #[error("key \"identity\" is missing: Git over SSH needs a private key there")]
    NoIdentity,
    /// A private key that cannot be read.
    #[error("key \"identity\" holds no private key of the sorts ed25519, ecdsa and rsa that can be read")]
    Identity,
    /// An encrypted key in an old format.
    #[error(
        "key \"identity\" is encrypted in an old format: let ssh-keygen -p write it anew in the format of OpenSSH"
    )]
    IdentityFormat,
    /// A key whose passphrase would take too long to try.
    #[error(
        "key \"identity\" was encrypted with more than {limit} rounds: let ssh-keygen -p -a 100 write it anew"
    )]
    IdentityRounds {
        /// The limit.
        limit: u32,
    },
    /// An encrypted key without its passphrase.
    #[error("key \"identity\" is encrypted: put its passphrase into key \"password\"")]
    NoPassphrase,
    /// An encrypted key and another passphrase.
    #[error("key \"password\" is not the passphrase of key \"identity\"")]
    Passphrase,
    /// A Secret that trusts no host.
    #[error(
        "key \"known_hosts\" is missing: without it the server cannot be told from another; put the lines there that ssh-keyscan prints, once they are checked"
    )]
    NoKnownHosts,
    /// A `known_hosts` without a usable line.
    #[error("key \"known_hosts\" has no line that can be read: it needs lines such as ssh-keyscan prints")]
    KnownHosts,
}

impl Credentials {
    /// Reads the keys `username` and `password`, or `bearerToken`, and optionally `ca.crt`, and
    /// `tls.crt` with `tls.key`. Other keys are ignored. A single newline at the end of a value is not part of it: `echo` puts it there.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, CredentialsError> {
        let username = text(data, "username")?;
        let password = text(data, "password")?;
        let token = text(data, "bearerToken")?;
        let authorization = match (username, password, token) {
            (_, Some(_), Some(_)) => return Err(CredentialsError::Ambiguous),
            (Some(username), Some(password), None) if !username.contains(':') => {
                Some(format!("Basic {}", base64(format!("{username}:{password}").as_bytes())))
            }
            (Some(_), Some(_), None) => return Err(CredentialsError::Value { key: "username" }),
            (_, None, Some(token)) => Some(format!("Bearer {token}")),
            (Some(_), None, None) => return Err(CredentialsError::HalfBasic { missing: "password" }),
            (None, Some(_), None) => return Err(CredentialsError::HalfBasic { missing: "username" }),
            (None, None, None) if data.contains_key("identity") => return Err(CredentialsError::Ssh),
            (None, None, None) => None,
        };
        let roots = match data.get("ca.crt") {
            Some(pem) => certificates(pem).ok_or(CredentialsError::Ca)?,
            None => Vec::new(),
        };
        let client = match (data.get("tls.crt"), data.get("tls.key")) {
            (None, None) => None,
            (Some(chain), Some(key)) => Some(client(chain, key).ok_or(CredentialsError::ClientCertificate)?),
            _ => return Err(CredentialsError::ClientCertificate),
        };
        Ok(Self { authorization, roots, client, ssh: None })
    }

    /// Reads what Git over SSH needs: the keys `identity` (a private key), `known_hosts`, and `password` when
    /// the private key has a passphrase. Other keys are ignored.
    pub fn for_ssh(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, CredentialsError> {
        Ok(Self { ssh: Some(Identity::from_secret(data)?), ..Self::default() })
    }

    pub(crate) fn ssh(&self) -> Option<&Identity> {
        self.ssh.as_ref()
    }

    /// Whether there is anything that says who asks.
    pub(crate) fn has_identity(&self) -> bool {
        self.authorization.is_some() || self.client.is_some()
    }

    pub(crate) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// Whom to trust, without how to log in.
    pub(crate) fn without_identity(&self) -> Self {
        Self { authorization: None, client: None, roots: self.roots.clone(), ssh: None }
    }

    pub(crate) fn client(&self) -> Option<&ClientCert> {
        self.client.as_ref()
    }

    pub(crate) fn roots(&self) -> &[Vec<u8>] {
        &self.roots
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("authorization", &self.authorization.as_ref().map(|_| "redacted"))
            .field("roots", &self.roots.len())
            .field("client", &self.client.is_some())
            .field("ssh", &self.ssh.is_some())
            .finish()
    }
}

fn text<'a>(
    data: &'a BTreeMap<String, Vec<u8>>,
    key: &'static str,
) -> Result<Option<&'a str>, CredentialsError> {
    let Some(bytes) = data.get(key) else { return Ok(None) };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && !text.chars().any(char::is_control) => Ok(Some(text)),
        _ => Err(CredentialsError::Value { key }),
    }
}

fn certificates(pem: &[u8]) -> Option<Vec<Vec<u8>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!found.is_empty()).then(|| found.into_iter().map(|certificate| certificate.to_vec()).collect())
}

fn client(chain: &[u8], key: &[u8]) -> Option<ClientCert> {
    let chain = certificates(chain)?;
    let chain: Vec<_> = chain.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    Some(ClientCert::new_with_certs(&chain, PrivateKey::from_pem(key).ok()?))
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn basic_and_bearer_become_a_header() {
        let basic =
            Credentials::from_secret(&secret(&[("username", "git"), ("password", "s3cret\n")])).unwrap();
        assert_eq!(basic.authorization(), Some("Basic Z2l0OnMzY3JldA=="));
        let bearer = Credentials::from_secret(&secret(&[("bearerToken", "abc")])).unwrap();
        assert_eq!(bearer.authorization(), Some("Bearer abc"));
        assert_eq!(Credentials::from_secret(&secret(&[("other", "x")])).unwrap().authorization(), None);
    }

    #[test]
    fn bad_secrets_are_named_by_key() {
        let half = |missing| CredentialsError::HalfBasic { missing };
        for (pairs, want) in [
            (vec![("username", "git")], half("password")),
            (vec![("password", "x")], half("username")),
            (vec![("username", "g"), ("password", "x"), ("bearerToken", "y")], CredentialsError::Ambiguous),
            (vec![("username", "a:b"), ("password", "x")], CredentialsError::Value { key: "username" }),
            (vec![("username", "a"), ("password", "")], CredentialsError::Value { key: "password" }),
            (vec![("bearerToken", "a\r\nX-Evil: 1")], CredentialsError::Value { key: "bearerToken" }),
            (vec![("ca.crt", "not a certificate")], CredentialsError::Ca),
            (vec![("tls.crt", "x")], CredentialsError::ClientCertificate),
            (vec![("tls.crt", "x"), ("tls.key", "y")], CredentialsError::ClientCertificate),
            (vec![("identity", "-----BEGIN")], CredentialsError::Ssh),
        ] {
            assert_eq!(Credentials::from_secret(&secret(&pairs)).unwrap_err(), want, "{pairs:?}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let data = secret(&[("username", "CANARY"), ("password", "CANARY")]);
        let shown = format!("{:?}", Credentials::from_secret(&data).unwrap());
        assert!(
            shown.contains("redacted") && !shown.contains("CANARY") && !shown.contains("Q0FOQVJZ"),
            "{shown}"
        );
    }
}
