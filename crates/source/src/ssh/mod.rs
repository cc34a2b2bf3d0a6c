//! Git over SSH, in this process: no program is run, and no file of the machine is read.
//!
//! | module | what it is |
//! |---|---|
//! | `identity` | the key of a Secret |
//! | `known_hosts` | the host keys that it trusts |
//! | `bounded` | a connection that ends with its fetch |
//! | `channel` | the server's `git-upload-pack` as a blocking reader and writer |

mod bounded;
mod channel;
mod identity;
mod known_hosts;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use russh::client::{self, AuthResult, Handle, Handler};
use russh::keys::{Algorithm, HashAlg, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{Preferred, SshId};
use tokio::net::{TcpStream, lookup_host};

use crate::address::AddressRules;
use crate::credentials::Credentials;
use crate::error::Failure;
use crate::exchange::Shared;
use crate::url::SshPlace;
use bounded::Bounded;
pub(crate) use channel::{Reader, Writer};
pub(crate) use identity::Identity;
use known_hosts::{KnownHosts, fingerprint};

/// For one connection, as for HTTP; what comes after it has the time of the fetch.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs `git-upload-pack` on the server, and gives what it says and what it listens to.
pub(crate) fn upload_pack(
    place: &SshPlace<'_>,
    credentials: &Credentials,
    rules: AddressRules,
    shared: &Shared,
) -> Result<(Reader, Writer), Failure> {
    let identity = credentials.ssh().ok_or(Failure::SshKeyMissing)?;
    let key = identity.key()?;
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|error| Failure::Unreachable { detail: error.to_string() })?;
    let job = shared.job.clone();
    let opened = runtime.block_on(async {
        tokio::select! {
            biased;
            failure = job.over() => Err(failure),
            opened = async {
                let stream = connect(place, rules).await?;
                let mut session = handshake(place, &identity.known_hosts, Bounded::new(stream, &job)).await?;
                log_in(&mut session, place.user, key).await?;
                let channel = session.channel_open_session().await.map_err(of)?;
                // Servers that do not take it speak the first version of the protocol, which is as good.
                channel.set_env(false, "GIT_PROTOCOL", "version=2").await.map_err(of)?;
                channel.exec(false, command(place.path)).await.map_err(of)?;
                Ok((session, channel))
            } => opened,
        }
    })?;
    let (session, channel) = opened;
    Ok(channel::split(runtime, session, channel, shared))
}

async fn connect(place: &SshPlace<'_>, rules: AddressRules) -> Result<TcpStream, Failure> {
    let connect = async {
        let mut failed = Failure::Unreachable { detail: "no address for this host".to_owned() };
        let addresses = lookup_host((place.host, place.port)).await;
        let Ok(addresses) = addresses else { return Err(failed) };
        for address in addresses {
            if let Some(kind) = rules.refusal(address.ip()) {
                failed = Failure::AddressRefused { address: address.ip(), kind };
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = Failure::Unreachable { detail: error.to_string() },
            }
        }
        Err(failed)
    };
    tokio::time::timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(|_| {
        let seconds = CONNECT_TIMEOUT.as_secs();
        Err(Failure::Unreachable { detail: format!("no connection within {seconds} s") })
    })
}

type Session = Handle<HostKey>;

async fn handshake(
    place: &SshPlace<'_>,
    known_hosts: &Arc<KnownHosts>,
    stream: Bounded<TcpStream>,
) -> Result<Session, Failure> {
    // The sorts of keys that are known come first, so that a server with several shows one that can be
    // checked. Signatures with SHA-1 are not taken.
    let known = known_hosts.algorithms(place.host, place.port);
    let is_known = |algorithm: &Algorithm| known.iter().any(|known| is_same_sort(known, algorithm));
    let mut keys: Vec<Algorithm> = Preferred::DEFAULT.key.to_vec();
    keys.retain(|algorithm| *algorithm != Algorithm::Rsa { hash: None });
    keys.sort_by_key(|algorithm| !is_known(algorithm));
    let config = client::Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!("SSH-2.0-convoy_", env!("CARGO_PKG_VERSION")))),
        preferred: Preferred { key: Cow::Owned(keys), ..Preferred::DEFAULT },
        ..client::Config::default()
    };
    let handler =
        HostKey { host: place.host.to_owned(), port: place.port, known_hosts: Arc::clone(known_hosts) };
    client::connect_stream(Arc::new(config), stream, handler).await.map_err(|Broken(failure)| failure)
}

/// RSA keys are of one sort, however they sign.
fn is_same_sort(known: &Algorithm, offered: &Algorithm) -> bool {
    let is_rsa = |algorithm| matches!(algorithm, &Algorithm::Rsa { .. });
    known == offered || (is_rsa(known) && is_rsa(offered))
}

async fn log_in(session: &mut Session, user: &str, key: Arc<russh::keys::PrivateKey>) -> Result<(), Failure> {
    let shown = fingerprint(key.public_key());
    let hash = match matches!(key.algorithm(), Algorithm::Rsa { .. }) {
        true => session.best_supported_rsa_hash().await.map_err(of)?.flatten().or(Some(HashAlg::Sha512)),
        false => None,
    };
    match session.authenticate_publickey(user, PrivateKeyWithHashAlg::new(key, hash)).await.map_err(of)? {
        AuthResult::Success => Ok(()),
        AuthResult::Failure { .. } => {
            Err(Failure::SshKeyRefused { user: user.to_owned(), fingerprint: shown })
        }
    }
}

/// The command line, quoted for the shell that servers give it to.
fn command(path: &str) -> String {
    format!("git-upload-pack '{}'", path.replace('\'', "'\\''").replace('!', "'\\!'"))
}

/// Judges the key that the server shows.
struct HostKey {
    host: String,
    port: u16,
    known_hosts: Arc<KnownHosts>,
}

/// What ended the session, in our own terms.
#[derive(Debug)]
struct Broken(Failure);

impl From<russh::Error> for Broken {
    fn from(error: russh::Error) -> Self {
        Self(of(error))
    }
}

impl Handler for HostKey {
    type Error = Broken;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Broken> {
        let key = shown.public_key();
        self.known_hosts.check(&self.host, self.port, &key).map(|()| true).map_err(Broken)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn of(error: russh::Error) -> Failure {
    use russh::Error as E;
    match error {
        E::NoCommonAlgo { kind, theirs, .. } => {
            let kind = format!("{kind:?}").to_lowercase();
            Failure::SshAlgorithms { kind, theirs: theirs.join(", ") }
        }
        E::Disconnect | E::HUP | E::SendError | E::RecvError => {
            Failure::Unreachable { detail: "the server closed the connection".to_owned() }
        }
        E::IO(error) => Failure::Unreachable { detail: error.to_string() },
        E::Version => Failure::Unreachable { detail: "what answers there does not speak SSH".to_owned() },
        error => Failure::Protocol { detail: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_leave_its_quotes() {
        assert_eq!(command("/team/apps.git"), "git-upload-pack '/team/apps.git'");
        assert_eq!(command("a'; id; '"), "git-upload-pack 'a'\\''; id; '\\'''");
    }
}
