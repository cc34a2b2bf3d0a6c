//! Requests to one registry: what it asks for to log in, it gets, if that is where our credentials may go.

use std::cell::RefCell;

use serde::Deserialize;
use ureq::http::{HeaderMap, header};
use url::Url;

use super::repository::OciRepository;
use super::{MAX_MANIFEST_BYTES, MAX_TAGS_BYTES, following, manifest};
use crate::error::Failure;
use crate::fetcher::FetcherOptions;
use crate::helm::digest_of;
use crate::job::Job;
use crate::web::{self, Answer, Method, Most, Web};

const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// Bytes of a token server's answer, and of a token.
const MAX_TOKEN_BYTES: u64 = 256 << 10;
const MAX_HEADER_BYTES: usize = 32 << 10;

/// Tags that a page should have.
const PAGE: &str = "1000";

/// One fetch's way to a registry.
pub(super) struct Session<'a> {
    repository: &'a OciRepository,
    options: &'a FetcherOptions,
    job: &'a Job,
    web: Web,
    /// The `Authorization` header that the registry asked for.
    authorization: RefCell<Option<String>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Challenge {
    realm: String,
    service: String,
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

#[derive(Deserialize)]
struct Tags {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

impl<'a> Session<'a> {
    pub(super) fn new(repository: &'a OciRepository, options: &'a FetcherOptions, job: &'a Job) -> Self {
        let web = Web::new(&repository.credentials, options.addresses, &options.user_agent, job);
        // A token of the user's own is sent at once; user and password when they are asked for.
        let given = repository.credentials.authorization().filter(|given| given.starts_with("Bearer "));
        let authorization = RefCell::new(given.map(str::to_owned));
        Self { repository, options, job, web, authorization }
    }

    fn url(&self, tail: &str) -> Url {
        let mut url = self.repository.base.clone();
        let name = &self.repository.name;
        url.set_path(&if name.is_empty() { "/v2/".to_owned() } else { format!("/v2/{name}/{tail}") });
        url
    }

    pub(super) fn tags_url(&self) -> Url {
        let mut url = self.url("tags/list");
        url.query_pairs_mut().append_pair("n", PAGE);
        url
    }

    /// Asks for the registry itself.
    pub(super) fn ping(&self) -> Result<&'static str, Failure> {
        let url = self.url("");
        let most = Most { what: "an answer", bytes: MAX_TOKEN_BYTES };
        let answer = match self.send(Method::Get, &url, &[], most) {
            // Many registries want a token even for what everyone may read, and one for each repository.
            Err(Failure::CredentialsMissing { .. }) => {
                return Ok("the registry answers, and wants a login for this");
            }
            answer => answer?,
        };
        match answer.status.as_u16() {
            200 => Ok(if self.authorization.borrow().is_some() {
                "the registry answers, and takes the login"
            } else {
                "the registry answers"
            }),
            404 => Err(Failure::NotRegistry),
            status => Err(Failure::Status { status }),
        }
    }

    /// The digest that a reference stands for now; none when the server does not say.
    pub(super) fn digest_of(&self, reference: &str) -> Result<Option<String>, Failure> {
        let url = self.url(&format!("manifests/{reference}"));
        let most = Most { what: "the manifest", bytes: 0 };
        let answer = self.send(Method::Head, &url, &[("Accept", ACCEPT)], most)?;
        check(&answer)?;
        Ok(said_digest(&answer.headers).map(str::to_owned))
    }

    /// A manifest or an index, as it is; its digest is `want`, if that is given.
    pub(super) fn manifest(&self, reference: &str, want: Option<&str>) -> Result<Vec<u8>, Failure> {
        let url = self.url(&format!("manifests/{reference}"));
        let most = Most { what: "the manifest", bytes: MAX_MANIFEST_BYTES };
        let answer = self.send(Method::Get, &url, &[("Accept", ACCEPT)], most)?;
        check(&answer)?;
        let got = digest_of(&answer.body);
        match want.or_else(|| said_digest(&answer.headers)) {
            Some(want) if want != got => Err(Failure::Digest { want: want.to_owned(), got }),
            _ => Ok(answer.body),
        }
    }

    pub(super) fn blob(&self, digest: &str, most: Most) -> Result<Vec<u8>, Failure> {
        let answer = self.send(Method::Get, &self.url(&format!("blobs/{digest}")), &[], most)?;
        check(&answer)?;
        Ok(answer.body)
    }

    /// One page of tags, and where the next one is.
    pub(super) fn tags(&self, url: &Url) -> Result<(Vec<String>, Option<Url>), Failure> {
        let most = Most { what: "tags", bytes: MAX_TAGS_BYTES };
        let answer = self.send(Method::Get, url, &[], most)?;
        check(&answer)?;
        let tags: Tags = serde_json::from_slice(&answer.body)
            .map_err(|error| Failure::Protocol { detail: format!("its list of tags: {error}") })?;
        let link = answer.headers.get(header::LINK).and_then(|value| value.to_str().ok());
        Ok((tags.tags.unwrap_or_default(), link.and_then(|link| following(url, link))))
    }

    /// Sends a request, and once more with what the registry wants to log in.
    fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &[(&str, &str)],
        most: Most,
    ) -> Result<Answer, Failure> {
        let authorization = self.authorization.borrow().clone();
        let mut answer = self.web.send(method, url, authorization.as_deref(), headers, most)?;
        if answer.status == 401 && authorization.is_none() {
            let authorization = self.log_in(&answer.headers)?;
            *self.authorization.borrow_mut() = Some(authorization.clone());
            answer = self.web.send(method, url, Some(&authorization), headers, most)?;
        }
        match answer.status.as_u16() {
            status @ (401 | 403) => Err(self.refused(status)),
            _ => Ok(answer),
        }
    }

    fn refused(&self, status: u16) -> Failure {
        match self.repository.credentials.authorization() {
            Some(_) => Failure::CredentialsRefused { status },
            None => Failure::CredentialsMissing { status },
        }
    }

    fn log_in(&self, headers: &HeaderMap) -> Result<String, Failure> {
        let challenges = headers.get_all(header::WWW_AUTHENTICATE);
        let mut wants_basic = false;
        for challenge in challenges.iter().filter_map(|value| value.to_str().ok()) {
            if let Some(challenge) = bearer(challenge) {
                return self.token(&challenge);
            }
            wants_basic |= challenge.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("basic"));
        }
        let given = self.repository.credentials.authorization();
        match given.filter(|_| wants_basic) {
            Some(basic) => Ok(basic.to_owned()),
            None => Err(self.refused(401)),
        }
    }

    /// A token to read the repository, from the server that the registry names. User and password are sent
    /// there only when it is of the registry's own domain.
    fn token(&self, challenge: &Challenge) -> Result<String, Failure> {
        let bad =
            |detail: &str| Failure::Protocol { detail: format!("where it sends for a token, {detail}") };
        let base = &self.repository.base;
        let mut url = Url::parse(&challenge.realm)
            .ok()
            .and_then(web::checked)
            .ok_or_else(|| bad("is not a URL of http or https"))?;
        let is_home = url.host() == base.host();
        if url.scheme() != "https" && !(base.scheme() == "http" && is_home) {
            return Err(bad("is not https"));
        }
        let given = self.repository.credentials.authorization();
        if given.is_some() && !is_of_domain(&url, base) {
            return Err(Failure::TokenRealm { host: web::host_of(&url) });
        }
        {
            let mut query = url.query_pairs_mut();
            if !challenge.service.is_empty() {
                query.append_pair("service", &challenge.service);
            }
            if !self.repository.name.is_empty() {
                // To read, whatever the registry would have us ask for.
                query.append_pair("scope", &format!("repository:{}:pull", self.repository.name));
            }
        }
        let most = Most { what: "a token", bytes: MAX_TOKEN_BYTES };
        let foreign;
        let web = if is_home {
            &self.web
        } else {
            let credentials = self.repository.credentials.without_identity();
            foreign = Web::new(&credentials, self.options.addresses, &self.options.user_agent, self.job);
            &foreign
        };
        let answer = web.send(Method::Get, &url, given, &[], most)?;
        match answer.status.as_u16() {
            200 => {}
            status @ (400 | 401 | 403 | 404) => return Err(self.refused(status)),
            status => return Err(Failure::Status { status }),
        }
        let answer: Option<TokenAnswer> = serde_json::from_slice(&answer.body).ok();
        let token = answer.and_then(|answer| answer.token.or(answer.access_token)).unwrap_or_default();
        let is_good = !token.is_empty()
            && token.len() <= MAX_HEADER_BYTES
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if is_good { Ok(format!("Bearer {token}")) } else { Err(bad("there is none")) }
    }
}

/// The digest that a server says it sends.
fn said_digest(headers: &HeaderMap) -> Option<&str> {
    let digest = headers.get("docker-content-digest")?.to_str().ok()?;
    manifest::is_digest(digest).then_some(digest)
}

fn check(answer: &Answer) -> Result<(), Failure> {
    match answer.status.as_u16() {
        200 => Ok(()),
        status @ (404 | 410) => Err(Failure::NotFound { status }),
        status => Err(Failure::Status { status }),
    }
}

/// Whether a host is the registry's own, below it, or beside it: `auth.example.com` and `example.com` are
/// of the domain of `registry.example.com`, and `example.org` is not.
fn is_of_domain(url: &Url, registry: &Url) -> bool {
    if url.host() == registry.host() {
        return true;
    }
    let (Some(url::Host::Domain(host)), Some(url::Host::Domain(home))) = (url.host(), registry.host()) else {
        return false;
    };
    let is_below = |parent: &str| host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    let parent = home.split_once('.').map(|(_, parent)| parent).filter(|parent| parent.contains('.'));
    is_below(home) || parent.is_some_and(|parent| host == parent || is_below(parent))
}

/// `Bearer realm="…",service="…"`.
fn bearer(header: &str) -> Option<Challenge> {
    let (scheme, mut rest) = header.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut challenge = Challenge::default();
    while let Some((name, value)) = rest.split_once('=') {
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_once(',').unwrap_or((value, "")),
        };
        match name.trim().trim_start_matches(',').trim().to_ascii_lowercase().as_str() {
            "realm" => value.clone_into(&mut challenge.realm),
            "service" => value.clone_into(&mut challenge.service),
            _ => {}
        }
        rest = after;
    }
    (!challenge.realm.is_empty()).then_some(challenge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let challenge = |realm: &str, service: &str| {
            Some(Challenge { realm: realm.to_owned(), service: service.to_owned() })
        };
        assert_eq!(
            bearer(
                r#"Bearer realm="https://auth.example.com/token",service="r.example.com",scope="repository:a,b:pull""#
            ),
            challenge("https://auth.example.com/token", "r.example.com")
        );
        assert_eq!(bearer("bearer scope=x, realm=https://a.example"), challenge("https://a.example", ""));
        for bad in ["", "Bearer", "Basic realm=\"x\"", "Bearer service=\"x\"", "Bearer realm=\"x"] {
            assert_eq!(bearer(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_token_server_is_of_the_registrys_domain() {
        let is = |realm: &str, registry: &str| {
            is_of_domain(&Url::parse(realm).unwrap(), &Url::parse(registry).unwrap())
        };
        for (realm, registry) in [
            ("https://ghcr.io/token", "https://ghcr.io/"),
            ("https://auth.docker.io/token", "https://registry-1.docker.io/"),
            ("https://gitlab.com/jwt/auth", "https://registry.gitlab.com/"),
            ("https://127.0.0.1:5001/token", "https://127.0.0.1:5000/"),
            ("https://auth.r.example.com/", "https://r.example.com/"),
        ] {
            assert!(is(realm, registry), "{realm}");
        }
        for (realm, registry) in [
            ("https://evil.example/token", "https://registry-1.docker.io/"),
            ("https://evildocker.io/token", "https://registry-1.docker.io/"),
            ("https://evil.io/token", "https://ghcr.io/"),
            ("https://169.254.169.254/token", "https://127.0.0.1:5000/"),
            ("https://localhost/token", "https://127.0.0.1/"),
        ] {
            assert!(!is(realm, registry), "{realm}");
        }
    }
}
