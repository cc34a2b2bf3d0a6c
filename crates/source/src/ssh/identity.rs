//! What a Secret gives for a server of Git over SSH.

use std::collections::BTreeMap;
use std::sync::Arc;

use russh::keys::ssh_key::Kdf;
use russh::keys::{Algorithm, PrivateKey};
use secrecy::{ExposeSecret as _, SecretString};

use super::known_hosts::KnownHosts;
use crate::credentials::CredentialsError;
use crate::error::Failure;

/// Rounds of the function that makes a key of a passphrase. `ssh-keygen` does 16 or 24; whoever writes the
/// Secret says how many, and each costs milliseconds of ours.
const MAX_ROUNDS: u32 = 500;

/// A key to show, and the hosts that are trusted. Its `Debug` shows no value.
#[derive(Clone)]
pub(crate) struct Identity {
    key: Arc<PrivateKey>,
    passphrase: Option<SecretString>,
    pub(crate) known_hosts: Arc<KnownHosts>,
}

impl Identity {
    /// Reads the keys `identity`, `known_hosts` and, when the key has a passphrase, `password`.
    pub(crate) fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, CredentialsError> {
        let text = |key| {
            let bytes = data.get(key).filter(|bytes| !bytes.is_empty());
            bytes
                .map(|bytes| std::str::from_utf8(bytes).map_err(|_| CredentialsError::Value { key }))
                .transpose()
        };
        let key = key(text("identity")?.ok_or(CredentialsError::NoIdentity)?)?;
        let known_hosts = text("known_hosts")?.ok_or(CredentialsError::NoKnownHosts)?;
        let known_hosts = KnownHosts::parse(known_hosts).ok_or(CredentialsError::KnownHosts)?;
        let passphrase = text("password")?.map(|text| {
            let text = text.strip_suffix('\n').unwrap_or(text);
            text.strip_suffix('\r').unwrap_or(text).to_owned().into()
        });
        if key.is_encrypted() && passphrase.is_none() {
            return Err(CredentialsError::NoPassphrase);
        }
        Ok(Self { key: Arc::new(key), passphrase, known_hosts: Arc::new(known_hosts) })
    }

    /// The key, deciphered. That takes time: it is meant to.
    pub(crate) fn key(&self) -> Result<Arc<PrivateKey>, Failure> {
        match &self.passphrase {
            Some(passphrase) if self.key.is_encrypted() => {
                let key = self.key.decrypt(passphrase.expose_secret());
                let key = key.map_err(|_| CredentialsError::Passphrase)?;
                check_algorithm(&key)?;
                Ok(Arc::new(key))
            }
            _ => Ok(Arc::clone(&self.key)),
        }
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// What is wrong is not repeated from the reader: it may quote the key.
fn key(text: &str) -> Result<PrivateKey, CredentialsError> {
    let has = |label: &str| text.contains(&format!("-----BEGIN {label}-----"));
    let key = if has("OPENSSH PRIVATE KEY") {
        PrivateKey::from_openssh(text.trim()).map_err(|_| CredentialsError::Identity)?
    } else if has("ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(CredentialsError::IdentityFormat);
    } else if has("PRIVATE KEY") || has("RSA PRIVATE KEY") || has("EC PRIVATE KEY") {
        russh::keys::decode_secret_key(text, None).map_err(|_| CredentialsError::Identity)?
    } else {
        return Err(CredentialsError::Identity);
    };
    if let Kdf::Bcrypt { rounds, .. } = key.kdf()
        && *rounds > MAX_ROUNDS
    {
        return Err(CredentialsError::IdentityRounds { limit: MAX_ROUNDS });
    }
    check_algorithm(&key)?;
    Ok(key)
}

fn check_algorithm(key: &PrivateKey) -> Result<(), CredentialsError> {
    match key.public_key().algorithm() {
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. } | Algorithm::Rsa { .. } => Ok(()),
        _ => Err(CredentialsError::Identity),
    }
}
