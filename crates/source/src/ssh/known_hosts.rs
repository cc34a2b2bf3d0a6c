//! The host keys that a Secret trusts, in the format of OpenSSH's known_hosts.

use hmac::{Hmac, KeyInit as _, Mac as _};
use russh::keys::ssh_key::known_hosts::{Entry, HostPatterns, Marker};
use russh::keys::{Algorithm, HashAlg, PublicKey};
use sha1::Sha1;

use crate::error::Failure;

/// The port that known_hosts does not name.
const SSH_PORT: u16 = 22;

/// Lines of a known_hosts file.
#[derive(Debug, Clone)]
pub(crate) struct KnownHosts(Vec<Entry>);

impl KnownHosts {
    /// Reads the lines; nothing when there is none that can be read. A line that cannot be read harms itself
    /// alone: files have lines of keys that nobody knows any more.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let entries: Vec<Entry> = lines.filter_map(|line| one_space(line).parse().ok()).collect();
        (!entries.is_empty()).then_some(Self(entries))
    }

    /// What stands there of a host. Certificates of hosts are not asked for, so their authorities say nothing.
    fn of<'a>(&'a self, host: &str, port: u16) -> impl Iterator<Item = (&'a PublicKey, bool)> + use<'a> {
        let name = name(host, port);
        self.0.iter().filter_map(move |entry| {
            let is_revoked = match entry.marker() {
                None => false,
                Some(Marker::Revoked) => true,
                Some(Marker::CertAuthority) => return None,
            };
            matches(entry.host_patterns(), &name).then(|| (entry.public_key(), is_revoked))
        })
    }

    /// The sorts of keys that are known of a host.
    pub(crate) fn algorithms(&self, host: &str, port: u16) -> Vec<Algorithm> {
        let keys = self.of(host, port).filter(|(_, is_revoked)| !is_revoked);
        keys.map(|(key, _)| key.algorithm()).collect()
    }

    /// Whether a host's key is the one that is known. There is no trust on first use.
    pub(crate) fn check(&self, host: &str, port: u16, key: &PublicKey) -> Result<(), Failure> {
        let host_name: Box<str> = name(host, port).into();
        let shown: Box<str> = format!("{} ({})", fingerprint(key), key.algorithm()).into();
        let mut others = Vec::new();
        let mut is_known = false;
        for (known, is_revoked) in self.of(host, port) {
            match known.key_data() == key.key_data() {
                true if is_revoked => return Err(Failure::HostKeyRevoked { host: host_name, key: shown }),
                true => is_known = true,
                false if !is_revoked => others.push(fingerprint(known)),
                false => {}
            }
        }
        match (is_known, others.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => Err(Failure::HostKeyUnknown { host: host_name, key: shown }),
            (false, false) => {
                others.truncate(4);
                let known = others.join(", ").into();
                Err(Failure::HostKeyChanged { host: host_name, key: shown, known })
            }
        }
    }
}

/// SHA-256 of a public key, as `ssh-keygen -l` prints it.
pub(crate) fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// A host as known_hosts names it.
fn name(host: &str, port: u16) -> String {
    match port {
        SSH_PORT => host.to_owned(),
        port => format!("[{host}]:{port}"),
    }
}

/// Between the fields stand any number of blanks and tabs, but the reader takes only one blank.
fn one_space(line: &str) -> String {
    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn matches(patterns: &HostPatterns, name: &str) -> bool {
    match patterns {
        HostPatterns::HashedName { salt, hash } => Hmac::<Sha1>::new_from_slice(salt)
            .is_ok_and(|mac| mac.chain_update(name).verify_slice(hash).is_ok()),
        HostPatterns::Patterns(patterns) => {
            let mut is_in = false;
            for pattern in patterns {
                let pattern = pattern.to_ascii_lowercase();
                match pattern.strip_prefix('!') {
                    Some(not) if glob(not.as_bytes(), name.as_bytes()) => return false,
                    Some(_) => {}
                    None => is_in |= glob(pattern.as_bytes(), name.as_bytes()),
                }
            }
            is_in
        }
    }
}

/// `*` stands for any number of characters and `?` for one.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    // Where to go on when what follows the last star does not fit.
    let mut star: Option<(usize, usize)> = None;
    while in_text < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_text));
                at += 1;
            }
            Some(&byte) if byte == b'?' || Some(&byte) == text.get(in_text) => {
                at += 1;
                in_text += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, in_text) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    const TWO: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA";

    fn key(line: &str) -> PublicKey {
        line.parse().unwrap()
    }

    /// What the lines say of key ONE of a host.
    fn says(lines: &str, host: &str, port: u16) -> &'static str {
        match KnownHosts::parse(lines).unwrap().check(host, port, &key(ONE)) {
            Ok(()) => "known",
            Err(Failure::HostKeyUnknown { .. }) => "unknown",
            Err(Failure::HostKeyChanged { .. }) => "changed",
            Err(Failure::HostKeyRevoked { .. }) => "revoked",
            Err(_) => "other",
        }
    }

    #[test]
    fn a_host_key_is_known_only_by_its_host_and_port() {
        for (lines, host, port, want) in [
            (format!("git.example {ONE}"), "git.example", 22, "known"),
            (format!("  # a comment\n\nGit.Example,10.0.0.1\t {ONE} a comment"), "10.0.0.1", 22, "known"),
            (format!("Git.Example {ONE}"), "git.example", 22, "known"),
            (format!("git.example {ONE}"), "git.example", 2222, "unknown"),
            (format!("[git.example]:2222 {ONE}"), "git.example", 2222, "known"),
            (format!("[git.example]:2222 {ONE}"), "git.example", 22, "unknown"),
            (format!("*.example {ONE}"), "git.example", 22, "known"),
            (format!("[*.example]:* {ONE}"), "git.example", 2222, "known"),
            (format!("g?t.example {ONE}"), "git.example", 22, "known"),
            (format!("*.example,!git.example {ONE}"), "git.example", 22, "unknown"),
            (format!("other.example {ONE}"), "git.example", 22, "unknown"),
            (format!("git.example {TWO}"), "git.example", 22, "changed"),
            (format!("git.example {TWO}\ngit.example {ONE}"), "git.example", 22, "known"),
            (format!("git.example {ONE}\n@revoked * {ONE}"), "git.example", 22, "revoked"),
            (format!("@revoked git.example {TWO}"), "git.example", 22, "unknown"),
            (format!("@cert-authority git.example {ONE}"), "git.example", 22, "unknown"),
            (format!("git.example junk\ngit.example {ONE}"), "git.example", 22, "known"),
        ] {
            assert_eq!(says(&lines, host, port), want, "{lines} of {host}:{port}");
        }
        assert!(KnownHosts::parse("# nothing\njunk\n").is_none());
    }

    /// Made with `ssh-keygen -H`.
    #[test]
    fn hashed_names_are_read() {
        let hash = {
            let mac = Hmac::<Sha1>::new_from_slice(b"0123456789abcdefghij").unwrap();
            mac.chain_update("git.example").finalize().into_bytes()
        };
        let hashed = HostPatterns::HashedName {
            salt: b"0123456789abcdefghij".to_vec(),
            hash: hash.as_slice().try_into().unwrap(),
        };
        let line = format!("{} {ONE}", hashed.to_string());
        assert_eq!(says(&line, "git.example", 22), "known");
        assert_eq!(says(&line, "git2.example", 22), "unknown");
    }

    #[test]
    fn a_changed_key_is_told_with_both_fingerprints() {
        let known = KnownHosts::parse(&format!("[git.example]:2222 {TWO}")).unwrap();
        let error = known.check("git.example", 2222, &key(ONE)).unwrap_err().to_string();
        for part in ["[git.example]:2222", "ssh-ed25519", &fingerprint(&key(ONE)), &fingerprint(&key(TWO))] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn globs_end() {
        assert!(glob(b"a*b*c", b"a--b--b-c"));
        assert!(!glob(b"a*b*c", b"a--b--b-"));
        assert!(!glob(&b"*a".repeat(200), &b"a".repeat(199)));
        assert!(glob(b"***", b""));
    }
}
