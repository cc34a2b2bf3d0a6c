use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use convoy_api::{OCIRegistrySpec, OciSource};
use url::Url;

use super::{docker, manifest};
use crate::credentials::{Credentials, CredentialsError};
use crate::error::{Failure, FetchError, Origin};
use crate::fetcher::DEFAULT_TIMEOUT;
use crate::url::UrlError;
use crate::web;

/// Where the Docker Hub's registry is.
pub(super) const DOCKER_HUB: &str = "registry-1.docker.io";

/// Longest name of a repository, as the distribution specification has it.
const MAX_NAME_BYTES: usize = 255;

/// A repository of an OCI registry, checked: where it is, and how to log in there.
#[derive(Debug, Clone)]
pub struct OciRepository {
    /// Scheme, host and port.
    pub(super) base: Url,
    /// Prefix and repository; empty when only the registry is meant.
    pub(super) name: String,
    pub(super) credentials: Credentials,
    pub(super) timeout: Duration,
}

/// Which artifact of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OciReference {
    /// A tag, followed as it moves.
    Tag(String),
    /// The newest tag in a range of versions.
    Semver(String),
    /// One artifact for ever.
    Digest(String),
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => write!(f, "tag {tag:?}"),
            Self::Semver(range) => write!(f, "the newest tag in {range:?}"),
            Self::Digest(digest) => f.write_str(digest),
        }
    }
}

impl OciReference {
    /// Reads the reference of a Release's source.
    ///
    /// # Errors
    /// When not exactly one is given, or it is none.
    pub(crate) fn of(source: &OciSource) -> Result<Self, Failure> {
        let bad = |detail: &str| Err(Failure::OciReference { detail: detail.to_owned() });
        match (&source.tag, &source.semver, &source.digest) {
            (Some(tag), None, None) if is_tag(tag) => Ok(Self::Tag(tag.clone())),
            (Some(_), None, None) => bad("the tag holds what a tag cannot"),
            (None, Some(range), None) => Ok(Self::Semver(range.clone())),
            (None, None, Some(digest)) if manifest::is_digest(digest) => Ok(Self::Digest(digest.clone())),
            (None, None, Some(_)) => bad("the digest is not sha256: and 64 hexadecimal digits"),
            _ => bad("exactly one of tag, semver and digest is needed"),
        }
    }
}

impl OciRepository {
    /// Reads an OCIRegistry's spec and the data of the Secret that it names. `repository` is below the
    /// registry's prefix; without it only the registry can be asked.
    pub fn from_spec(
        spec: &OCIRegistrySpec,
        repository: Option<&str>,
        secret: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Result<Self, FetchError> {
        let insecure = spec.insecure == Some(true);
        let parsed = parse(&spec.url, repository.unwrap_or_default(), insecure);
        let failed = |failure: Failure| FetchError {
            wanted: repository.unwrap_or("an answer").to_owned(),
            url: parsed.as_ref().map_or_else(|_| "the URL in spec.url".to_owned(), |(url, _)| shown(url)),
            origin: Origin::Oci,
            failure,
        };
        let (base, name) = parsed.clone().map_err(|error| failed(error.into()))?;
        let credentials = secret
            .map(|data| credentials(data, &web::host_of(&base), &name))
            .transpose()
            .map_err(|error| failed(error.into()))?;
        Ok(Self {
            base,
            // A prefix alone is no repository.
            name: repository.map(|_| name).unwrap_or_default(),
            credentials: credentials.unwrap_or_default(),
            timeout: spec.timeout.map_or(DEFAULT_TIMEOUT, convoy_api::Duration::as_std),
        })
    }

    pub(super) fn error(&self, wanted: String) -> impl Fn(Failure) -> FetchError + use<> {
        let url = shown(&self.base);
        move |failure| FetchError { wanted: wanted.clone(), url: url.clone(), origin: Origin::Oci, failure }
    }

    /// The reference of a Release's source.
    ///
    /// # Errors
    /// When not exactly one is given, or it is none.
    pub fn reference(&self, source: &OciSource) -> Result<OciReference, FetchError> {
        OciReference::of(source).map_err(self.error(format!("an artifact of {}", self.name)))
    }

    /// Host, port and name: what is asked, for keys.
    pub fn place(&self) -> String {
        format!("{}{}", self.base, self.name)
    }
}

fn shown(base: &Url) -> String {
    format!("oci://{}", web::host_of(base))
}

/// Scheme, host and port of the registry, and the name of the repository in it.
fn parse(text: &str, repository: &str, insecure: bool) -> Result<(Url, String), UrlError> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(UrlError::Malformed);
    }
    let rest = text.strip_prefix("oci://").ok_or(UrlError::OciScheme)?;
    if rest.contains(['?', '#']) {
        return Err(UrlError::Query);
    }
    let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.contains('@') {
        return Err(UrlError::Credentials);
    }
    let authority = match authority {
        "docker.io" | "index.docker.io" => DOCKER_HUB,
        authority => authority,
    };
    let scheme = if insecure { "http" } else { "https" };
    let base = Url::parse(&format!("{scheme}://{authority}/")).map_err(|_| UrlError::Host)?;
    if !base.has_host() || base.path() != "/" {
        return Err(UrlError::Host);
    }
    let names = [prefix.trim_end_matches('/'), repository];
    let name = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join("/");
    if name.is_empty() || is_name(&name) { Ok((base, name)) } else { Err(UrlError::OciName) }
}

/// Whether a name is one that the distribution specification allows.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let edges = [bytes.first(), bytes.last()];
        edges.iter().all(|edge| edge.is_some_and(|byte| is_plain(*byte)))
            && bytes.iter().all(|byte| is_plain(*byte) || matches!(byte, b'.' | b'_' | b'-'))
            && !part.contains("..")
    };
    name.len() <= MAX_NAME_BYTES && name.split('/').all(part)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = tag.bytes();
    bytes.next().is_some_and(is_word)
        && tag.len() <= 128
        && bytes.all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// A dockerconfigjson, or the keys of other sources.
fn credentials(
    data: &BTreeMap<String, Vec<u8>>,
    host: &str,
    name: &str,
) -> Result<Credentials, CredentialsError> {
    let Some(config) = data.get(docker::KEY) else { return Credentials::from_secret(data) };
    let (username, password) = docker::login(config, host, name)?;
    let mut data = data.clone();
    data.remove(docker::KEY);
    data.insert("username".to_owned(), username.into_bytes());
    data.insert("password".to_owned(), password.into_bytes());
    Credentials::from_secret(&data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_names_are_checked() {
        let place = |url: &str, repository: &str, insecure| {
            let spec =
                OCIRegistrySpec { url: url.to_owned(), insecure: Some(insecure), ..Default::default() };
            OciRepository::from_spec(&spec, Some(repository), None).map(|found| found.place())
        };
        for (url, repository, insecure, want) in [
            ("oci://r.example", "charts/web", false, "https://r.example/charts/web"),
            ("oci://R.example:5000/team/", "web", true, "http://r.example:5000/team/web"),
            ("oci://docker.io/team", "web", false, "https://registry-1.docker.io/team/web"),
            ("oci://[::1]:5000", "a__b.c-d", false, "https://[::1]:5000/a__b.c-d"),
        ] {
            assert_eq!(place(url, repository, insecure).unwrap(), want);
        }
        for (url, repository) in [
            ("https://r.example", "web"),
            ("oci://u:CANARY@r.example", "web"),
            ("oci://r.example?x=CANARY", "web"),
            ("oci://", "web"),
            ("oci://r.example:99999", "web"),
            ("oci://r.example", "../x"),
            ("oci://r.example", "a/../../v2/x"),
            ("oci://r.example", "Web"),
            ("oci://r.example", "a b"),
            ("oci://r.example//x", "web"),
            ("oci://r.example/%2e%2e", "web"),
        ] {
            let error = place(url, repository, false).unwrap_err();
            assert_eq!(error.reason(), "InvalidSpec", "{url} {repository}");
            assert!(!format!("{error:?}").contains("CANARY"));
        }
    }

    #[test]
    fn exactly_one_reference() {
        let of = |tag: Option<&str>, semver: Option<&str>, digest: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            let source =
                OciSource { tag: own(tag), semver: own(semver), digest: own(digest), ..Default::default() };
            OciReference::of(&source).ok()
        };
        assert_eq!(of(Some("1.0"), None, None), Some(OciReference::Tag("1.0".to_owned())));
        assert!(of(None, Some(">=1"), None).is_some());
        assert!(of(None, None, Some(&format!("sha256:{}", "0".repeat(64)))).is_some());
        for bad in [
            of(None, None, None),
            of(Some("a"), Some("b"), None),
            of(Some("../x"), None, None),
            of(None, None, Some("sha256:x")),
        ] {
            assert_eq!(bad, None);
        }
    }
}
