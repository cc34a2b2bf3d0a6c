use std::fmt;
use std::path::{Path, PathBuf};

/// Longest URL that is looked at, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// Where a Git repository is, checked: `https://host/path`, `http://host/path` or `file:///path`.
///
/// It never holds credentials, a query or a fragment, so its text may stand in messages and logs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GitUrl {
    scheme: Scheme,
    /// Host and optional port as written; empty for `file`.
    authority: String,
    /// Absolute path, percent-encoded as written, without a trailing slash.
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    Http,
    Https,
    File,
}

/// Why a URL is refused. The URL itself is not part of the message: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Longer than 2,048 bytes, or with blanks or control characters.
    #[error("the URL is longer than 2048 bytes or holds blanks or control characters")]
    Malformed,
    /// `git@host:path`, `ssh://…`.
    #[error("Git over SSH is not supported yet: use https://")]
    Ssh,
    /// Neither http, https nor file.
    #[error("the URL is not one of https://host/path, http://host/path and file:///path")]
    Scheme,
    /// Not `oci://`.
    #[error("the URL is not oci://host/prefix")]
    OciScheme,
    /// A repository's name that no registry takes.
    #[error(
        "the name of the repository, with the prefix in the URL, is not one that registries take: lower case letters, digits and . _ - between slashes"
    )]
    OciName,
    /// Neither http nor https.
    #[error("the URL is neither https://host/path nor http://host/path")]
    HttpScheme,
    /// `user:password@` before the host.
    #[error("the URL holds a user or a password: put them into a Secret and name it in spec.secretRef")]
    Credentials,
    /// `?…` or `#…`.
    #[error("the URL holds a query (?) or a fragment (#): a source's URL has neither")]
    Query,
    /// No host, a malformed one, or a port that is no number.
    #[error("the URL's host or port is malformed")]
    Host,
    /// The path is `/`, or has an empty, `.` or `..` segment.
    #[error("the URL's path is empty or has an empty segment, . or ..")]
    Path,
}

impl GitUrl {
    /// Reads and checks a URL as it stands in a GitRepository.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_URL_BYTES
            || text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\')
        {
            return Err(UrlError::Malformed);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            let scp_like =
                text.split('/').next().is_some_and(|host| host.contains('@') && host.contains(':'));
            return Err(if scp_like { UrlError::Ssh } else { UrlError::Scheme });
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "file" => Scheme::File,
            "ssh" | "git+ssh" | "ssh+git" => return Err(UrlError::Ssh),
            _ => return Err(UrlError::Scheme),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        // A password may itself hold ? or #; say the more useful thing first.
        if authority.contains('@')
            || rest.split(['?', '#']).next().is_some_and(|head| head.contains('@') && !head.contains('/'))
        {
            return Err(UrlError::Credentials);
        }
        if rest.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        match scheme {
            Scheme::File if !authority.is_empty() => return Err(UrlError::Host),
            Scheme::Http | Scheme::Https if !is_host_and_port(authority) => return Err(UrlError::Host),
            _ => {}
        }
        let path = path.trim_end_matches('/');
        let mut segments = path.split('/').skip(1).peekable();
        if segments.peek().is_none() || segments.any(is_bad_segment) {
            return Err(UrlError::Path);
        }
        Ok(Self { scheme, authority: authority.to_ascii_lowercase(), path: path.to_owned() })
    }

    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The folder that a `file` URL names, percent-decoded.
    pub(crate) fn file_path(&self) -> Option<PathBuf> {
        (self.scheme == Scheme::File).then(|| Path::new(&percent_decoded(&self.path)).to_owned())
    }
}

impl fmt::Display for GitUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::File => "file",
        };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

fn is_bad_segment(segment: &str) -> bool {
    let decoded = percent_decoded(segment);
    segment.is_empty() || decoded == "." || decoded == ".." || decoded.contains(['/', '\0'])
}

fn is_host_and_port(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            ("v6", port)
        }
        None => {
            authority.split_once(':').map_or((authority, ""), |(host, _)| (host, &authority[host.len()..]))
        }
    };
    let host_ok = !host.is_empty()
        && host.len() <= 253
        && !host.starts_with('-')
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    let port_ok = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0));
    host_ok && port_ok
}

/// `%41` becomes `A`. What is not valid afterwards is left as it was written.
fn percent_decoded(text: &str) -> String {
    let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match rest {
            [b'%', high, low, after @ ..] if hex(*high).is_some() && hex(*low).is_some() => {
                decoded.push(hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0));
                rest = after;
            }
            _ => {
                decoded.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_urls_keep_their_meaning() {
        for (text, want) in [
            ("https://git.example/team/apps.git", "https://git.example/team/apps.git"),
            ("HTTPS://Git.Example:8443/apps/", "https://git.example:8443/apps"),
            ("http://127.0.0.1:3000/a", "http://127.0.0.1:3000/a"),
            ("https://[2001:db8::1]:443/a", "https://[2001:db8::1]:443/a"),
            ("file:///srv/git/apps.git", "file:///srv/git/apps.git"),
        ] {
            assert_eq!(GitUrl::parse(text).map(|url| url.to_string()), Ok(want.to_owned()), "{text}");
        }
        let spaced = GitUrl::parse("file:///srv/my%20apps").unwrap();
        assert_eq!(spaced.file_path(), Some(PathBuf::from("/srv/my apps")));
    }

    #[test]
    fn bad_urls_are_refused_by_name() {
        for (text, want) in [
            ("git@github.example:team/apps.git", UrlError::Ssh),
            ("ssh://-oProxyCommand=id/x", UrlError::Ssh),
            ("ext::sh -c id", UrlError::Malformed),
            ("ext::sh", UrlError::Scheme),
            ("--upload-pack=id", UrlError::Scheme),
            ("gopher://h/x", UrlError::Scheme),
            ("/srv/git", UrlError::Scheme),
            ("", UrlError::Scheme),
            ("https://user:CANARY@host/x.git", UrlError::Credentials),
            ("https://CANARY@host/x.git", UrlError::Credentials),
            ("https://user:CANA?RY@host/x.git", UrlError::Credentials),
            ("https://host/x.git?sig=CANARY", UrlError::Query),
            ("https://host/x.git#main", UrlError::Query),
            ("https:///x.git", UrlError::Host),
            ("https://-host/x", UrlError::Host),
            ("https://host:99999/x", UrlError::Host),
            ("https://host:0/x", UrlError::Host),
            ("https://[::1/x", UrlError::Host),
            ("https://ho\u{0}st/x", UrlError::Malformed),
            ("https://host/a b", UrlError::Malformed),
            ("https://host/a\\..\\b", UrlError::Malformed),
            ("file://host/x", UrlError::Host),
            ("https://host", UrlError::Path),
            ("https://host/", UrlError::Path),
            ("https://host/a//b", UrlError::Path),
            ("file:///srv/../etc", UrlError::Path),
            ("file:///srv/%2e%2e/etc", UrlError::Path),
            ("file:///srv/a%2fb", UrlError::Path),
        ] {
            let error = GitUrl::parse(text).unwrap_err();
            assert_eq!(error, want, "{text}");
            assert!(!error.to_string().contains("CANA"), "{error}");
        }
    }
}
