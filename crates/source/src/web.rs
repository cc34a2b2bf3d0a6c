//! Plain downloads over HTTP, under convoy's rules: credentials go to the origin that they are for and never
//! along with a redirect to another, addresses are judged after resolution, and every byte is counted.

use std::cell::Cell;
use std::rc::Rc;

use ureq::http::{HeaderMap, StatusCode, header};
use url::Url;

use crate::address::AddressRules;
use crate::credentials::Credentials;
use crate::error::Failure;
use crate::exchange::{Budget, Failed, Shared, read_whole};
use crate::http::{MAX_REDIRECTS, agent};
use crate::job::Job;

/// Longest URL that is looked at, in bytes. Those of signed downloads are long.
const MAX_URL_BYTES: usize = 8192;

/// Bytes of an answer's body that is not what was asked for.
const MAX_OTHER_BYTES: u64 = 64 << 10;

/// What may be downloaded: the name of it, for messages, and how much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) what: &'static str,
    pub(crate) bytes: u64,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// The methods that are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
}

/// One fetch's way to send requests.
pub(crate) struct Web {
    agent: ureq::Agent,
    /// For where a redirect leads to another origin: it shows no certificate of ours.
    foreign: ureq::Agent,
    user_agent: String,
    shared: Shared,
}

impl Web {
    pub(crate) fn new(credentials: &Credentials, rules: AddressRules, user_agent: &str, job: &Job) -> Self {
        Self {
            agent: agent(credentials, rules),
            foreign: agent(&credentials.without_identity(), rules),
            user_agent: user_agent.to_owned(),
            shared: Shared {
                job: job.clone(),
                failed: Failed::default(),
                budget: Rc::new(Cell::new(Budget { what: "answers", limit: 0, left: 0 })),
            },
        }
    }

    /// Sends a request and follows redirects. `authorization` is sent to the origin of `url` alone.
    pub(crate) fn send(
        &self,
        method: Method,
        url: &Url,
        authorization: Option<&str>,
        headers: &[(&str, &str)],
        most: Most,
    ) -> Result<Answer, Failure> {
        let mut at = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let is_home = at.origin() == url.origin();
            let agent = if is_home { &self.agent } else { &self.foreign };
            let request = match method {
                Method::Get => agent.get(at.as_str()),
                Method::Head => agent.head(at.as_str()),
            };
            let mut request = request.header(header::USER_AGENT, &self.user_agent);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            if let Some(authorization) = authorization.filter(|_| is_home) {
                request = request.header(header::AUTHORIZATION, authorization);
            }
            let left = self.shared.job.left()?;
            let response = request
                .config()
                .timeout_global(Some(left))
                .build()
                .call()
                .map_err(|error| self.shared.classify(error))?;
            let status = response.status();
            let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_redirect {
                let most = if status.is_success() { most } else { Most { bytes: MAX_OTHER_BYTES, ..most } };
                let (parts, body) = response.into_parts();
                self.shared.budget.set(Budget { what: most.what, limit: most.bytes, left: most.bytes });
                let body = read_whole(body, &self.shared);
                // What a refusal says is of no use to us, and may be anything.
                let body = if status.is_success() { body? } else { body.unwrap_or_default() };
                return Ok(Answer { status, headers: parts.headers, body });
            }
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            at = redirect(&at, location.unwrap_or_default())?;
        }
        Err(Failure::Redirect { to: host_of(&at), why: "after 5 redirects" })
    }
}

fn redirect(from: &Url, location: &str) -> Result<Url, Failure> {
    let to = from.join(location).map_err(|_| Failure::Redirect {
        to: "another place".to_owned(),
        why: "because the target is no URL",
    })?;
    match (from.scheme(), to.scheme()) {
        ("https", "http") => Err(Failure::Redirect { to: host_of(&to), why: "because it is not https" }),
        (_, "http" | "https") => checked(to).ok_or(Failure::Redirect {
            to: "another place".to_owned(),
            why: "because the target is no URL that can be used",
        }),
        _ => Err(Failure::Redirect { to: "another place".to_owned(), why: "because it is not HTTP" }),
    }
}

/// A URL of the web without user, password and fragment; none when it is something else.
pub(crate) fn checked(mut url: Url) -> Option<Url> {
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if !is_web || url.as_str().len() > MAX_URL_BYTES {
        return None;
    }
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    url.set_fragment(None);
    Some(url)
}

/// Host and port, for messages.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// A URL for messages: without user, password, query and fragment, any of which may be secret.
pub(crate) fn shown(url: &Url) -> String {
    format!("{}://{}{}", url.scheme(), host_of(url), url.path())
}

/// Whether a URL names this machine by its address, or as localhost: what is sent there crosses no network.
pub(crate) fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn what_is_shown_of_a_url_holds_no_secret() {
        let secret = checked(url("https://CANARY:CANARY@Host.example:8443/a?sig=CANARY#CANARY")).unwrap();
        assert_eq!(shown(&secret), "https://host.example:8443/a");
        assert_eq!(
            secret.as_str(),
            "https://host.example:8443/a?sig=CANARY",
            "the query is part of the request"
        );
    }

    #[test]
    fn redirects_stay_on_the_web_and_never_lose_tls() {
        let from = url("https://a.example/x/y.tgz");
        assert_eq!(redirect(&from, "z.tgz").unwrap().as_str(), "https://a.example/x/z.tgz");
        assert_eq!(redirect(&from, "//b.example/q").unwrap().as_str(), "https://b.example/q");
        for bad in ["http://a.example/x", "file:///etc/passwd", "ftp://a.example/x", "http://["] {
            let error = redirect(&from, bad).unwrap_err();
            assert!(matches!(error, Failure::Redirect { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let home = url("https://a.example/charts/").origin();
        assert_eq!(url("https://A.example:443/x").origin(), home);
        for other in [
            "http://a.example/",
            "https://a.example:8443/",
            "https://b.a.example/",
            "https://a.example.evil/",
        ] {
            assert_ne!(url(other).origin(), home, "{other}");
        }
    }
}
