use std::fmt;
use std::path::{Path, PathBuf};

/// Longest URL that is looked at, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// Where a Git repository is, checked: `https://host/path`, `http://host/path`, `ssh://user@host/path`,
/// `user@host:path` or `file:///path`.
///
/// It never holds a password, a query or a fragment, so its text may stand in messages and logs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GitUrl {
    scheme: Scheme,
    /// Who logs in, of `ssh` alone; empty when the URL does not say it.
    user: String,
    /// Host and optional port as written; empty for `file`.
    authority: String,
    /// Absolute path, percent-encoded as written, without a trailing slash; without the slash at its front when
    /// it stands as in `user@host:path`.
    path: String,
}

/// Where a repository is that is reached over SSH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SshPlace<'a> {
    pub(crate) user: &'a str,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// As the server's shell should see it.
    pub(crate) path: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    Http,
    Https,
    Ssh,
    File,
}

/// Who logs in over SSH when the URL does not say it; the large forges know no other.
const DEFAULT_USER: &str = "git";
const SSH_PORT: u16 = 22;

/// Why a URL is refused. The URL itself is not part of the message: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Longer than 2,048 bytes, or with blanks or control characters.
    #[error("the URL is longer than 2048 bytes or holds blanks or control characters")]
    Malformed,
    /// Neither http, https, ssh nor file.
    #[error(
        "the URL is not one of https://host/path, http://host/path, ssh://user@host/path, user@host:path and file:///path"
    )]
    Scheme,
    /// A user with other characters than names have.
    #[error("the URL's user is malformed")]
    User,
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
            return Self::scp_like(text);
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "file" => Scheme::File,
            "ssh" => return Self::ssh(rest),
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
        let authority = authority.to_ascii_lowercase();
        Ok(Self { scheme, user: String::new(), authority, path: path.to_owned() })
    }

    /// `user@host:path`, as Git and scp read it: the path starts in the user's home.
    fn scp_like(text: &str) -> Result<Self, UrlError> {
        let (place, path) = text.split_once(':').ok_or(UrlError::Scheme)?;
        let (user, host) = place.split_once('@').ok_or(UrlError::Scheme)?;
        if host.contains('/') || user.contains('/') {
            return Err(UrlError::Scheme);
        }
        Self::over_ssh(user, host, path)
    }

    fn ssh(rest: &str) -> Result<Self, UrlError> {
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.contains(':') {
            return Err(UrlError::Credentials);
        }
        let user = if authority.contains('@') && user.is_empty() { "@" } else { user };
        // As Git has it: the home of the user, not a folder of this name.
        let path = path.strip_prefix('/').filter(|path| path.starts_with('~')).unwrap_or(path);
        Self::over_ssh(user, host, path)
    }

    fn over_ssh(user: &str, host: &str, path: &str) -> Result<Self, UrlError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if user.starts_with('-') || !user.bytes().all(is_name) {
            return Err(UrlError::User);
        }
        if host.contains(['?', '#']) || path.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        if !is_host_and_port(host) {
            return Err(UrlError::Host);
        }
        let path = path.trim_end_matches('/');
        let segments = path.strip_prefix('/').unwrap_or(path);
        if path.starts_with('-') || segments.split('/').any(is_bad_segment) {
            return Err(UrlError::Path);
        }
        Ok(Self {
            scheme: Scheme::Ssh,
            user: user.to_owned(),
            authority: host.to_ascii_lowercase(),
            path: path.to_owned(),
        })
    }

    /// Where to go over SSH; none for another scheme.
    pub(crate) fn ssh_place(&self) -> Option<SshPlace<'_>> {
        if self.scheme != Scheme::Ssh {
            return None;
        }
        let (host, port) = match self.authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => {
                let host = self.authority.split(':').next().unwrap_or_default();
                self.authority.split_at(host.len())
            }
        };
        let port = port.strip_prefix(':').map_or(Some(SSH_PORT), |port| port.parse().ok())?;
        let user = if self.user.is_empty() { DEFAULT_USER } else { self.user.as_str() };
        Some(SshPlace { user, host, port, path: &self.path })
    }

    /// Whether credentials for `other` may be sent here too.
    pub(crate) fn is_of_host(&self, other: &Self) -> bool {
        (self.scheme, &self.authority) == (other.scheme, &other.authority)
    }

    pub(crate) fn is_file(&self) -> bool {
        self.scheme == Scheme::File
    }

    /// What a relative URL (`./x`, `../x`) means from here, as Git has it for submodules: from the repository as if it
    /// were a folder. It cannot leave the host.
    pub(crate) fn joined(&self, relative: &str) -> Result<Self, UrlError> {
        let text = self.to_string();
        let path = self.path.trim_start_matches('/');
        let host = text.strip_suffix(path).ok_or(UrlError::Path)?;
        let mut segments: Vec<&str> = path.split('/').collect();
        for segment in relative.trim_end_matches('/').split('/') {
            match segment {
                "." => {}
                ".." => {
                    segments.pop().ok_or(UrlError::Path)?;
                }
                segment => segments.push(segment),
            }
        }
        Self::parse(&format!("{host}{}", segments.join("/")))
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
            Scheme::Ssh => {
                let at = if self.user.is_empty() { "" } else { "@" };
                return match self.path.as_bytes().first() {
                    Some(b'/') => write!(f, "ssh://{}{at}{}{}", self.user, self.authority, self.path),
                    Some(b'~') => write!(f, "ssh://{}{at}{}/{}", self.user, self.authority, self.path),
                    _ => write!(f, "{}{at}{}:{}", self.user, self.authority, self.path),
                };
            }
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
            ("git@Git.Example:team/apps.git", "git@git.example:team/apps.git"),
            ("ssh://Git.Example/team/apps.git/", "ssh://git.example/team/apps.git"),
            ("ssh://me@git.example:2222/~me/apps", "ssh://me@git.example:2222/~me/apps"),
        ] {
            assert_eq!(GitUrl::parse(text).map(|url| url.to_string()), Ok(want.to_owned()), "{text}");
        }
        let spaced = GitUrl::parse("file:///srv/my%20apps").unwrap();
        assert_eq!(spaced.file_path(), Some(PathBuf::from("/srv/my apps")));
    }

    #[test]
    fn ssh_urls_say_who_goes_where() {
        for (text, user, host, port, path) in [
            ("git@git.example:team/apps.git", "git", "git.example", 22, "team/apps.git"),
            ("git@git.example:/srv/apps.git", "git", "git.example", 22, "/srv/apps.git"),
            ("ssh://git.example/team/apps.git", "git", "git.example", 22, "/team/apps.git"),
            ("ssh://me@git.example:2222/~me/apps", "me", "git.example", 2222, "~me/apps"),
            ("ssh://git@[2001:db8::1]:2222/a", "git", "2001:db8::1", 2222, "/a"),
            ("ssh://git@[2001:db8::1]/a", "git", "2001:db8::1", 22, "/a"),
        ] {
            let url = GitUrl::parse(text).unwrap();
            assert_eq!(url.ssh_place(), Some(SshPlace { user, host, port, path }), "{text}");
        }
        assert_eq!(GitUrl::parse("https://git.example/a").unwrap().ssh_place(), None);
    }

    #[test]
    fn bad_urls_are_refused_by_name() {
        for (text, want) in [
            ("ssh://-oProxyCommand=id/x", UrlError::Host),
            ("ssh://-oProxyCommand=id@host/x", UrlError::User),
            ("-oProxyCommand=id@host:x", UrlError::User),
            ("ssh://git:CANARY@host/x", UrlError::Credentials),
            ("ssh://@host/x", UrlError::User),
            ("ssh://host/../x", UrlError::Path),
            ("ssh://host", UrlError::Path),
            ("ssh://host:0/x", UrlError::Host),
            ("ssh://host/x?y", UrlError::Query),
            ("git@host:--upload-pack=id", UrlError::Path),
            ("git@host:", UrlError::Path),
            ("git@host:a/../../b", UrlError::Path),
            ("host:path", UrlError::Scheme),
            ("git+ssh://host/x", UrlError::Scheme),
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
