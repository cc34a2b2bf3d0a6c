//! Git's HTTP requests, under convoy's rules: addresses are judged after resolution, redirects never
//! carry credentials to another host, every body is counted, and the deadline holds for the whole fetch.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use gix_transport::client::blocking_io::http::{GetResponse, Http, PostBodyDataKind, PostResponse};
use ureq::config::Config;
use ureq::http::{Response, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;

use crate::address::AddressRules;
use crate::credentials::Credentials;
use crate::error::Failure;
use crate::exchange::{Body, Exchange, Headers, RequestBody, Shared, check_status};
use crate::resolver::CheckedResolver;
use crate::url::{GitUrl, Scheme};

/// Redirects of the first request; forges need one, when a repository was renamed.
pub(crate) const MAX_REDIRECTS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";

/// What sends requests under convoy's rules: it follows no redirect and connects to no refused address.
pub(crate) fn agent(credentials: &Credentials, rules: AddressRules) -> ureq::Agent {
    let roots = match credentials.roots() {
        [] => RootCerts::WebPki,
        given => RootCerts::new_with_certs(
            &given.iter().map(|der| Certificate::from_der(der).to_owned()).collect::<Vec<_>>(),
        ),
    };
    let tls = TlsConfig::builder()
        .root_certs(roots)
        .client_cert(credentials.client().cloned())
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Config::builder()
        .tls_config(tls)
        // A proxy would connect for us, past the rules on addresses.
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .accept("*/*")
        .build();
    let resolver = CheckedResolver { rules, inner: DefaultResolver::default() };
    ureq::Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// One fetch's connection to its server.
pub(crate) struct Client {
    agent: ureq::Agent,
    url: GitUrl,
    authorization: Option<String>,
    /// Whether there is a header or a certificate that no other host may see.
    has_identity: bool,
    user_agent: String,
    redirected: Option<GitUrl>,
    shared: Shared,
}

impl Client {
    pub(crate) fn new(
        url: &GitUrl,
        credentials: &Credentials,
        rules: AddressRules,
        user_agent: &str,
        shared: Shared,
    ) -> Result<Self, Failure> {
        if credentials.authorization().is_some() && url.scheme() != Scheme::Https {
            return Err(Failure::ClearTextCredentials);
        }
        Ok(Self {
            agent: agent(credentials, rules),
            url: url.clone(),
            authorization: credentials.authorization().map(str::to_owned),
            has_identity: credentials.has_identity(),
            user_agent: user_agent.to_owned(),
            redirected: None,
            shared,
        })
    }

    /// Sends the advertisement request and follows its redirects. `tail` is what comes after the
    /// repository's URL.
    fn get_following(
        &mut self,
        base: &str,
        tail: &str,
        headers: &[(String, String)],
    ) -> Result<Response<ureq::Body>, Failure> {
        let mut base = GitUrl::parse(base)?;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.agent.get(format!("{base}{tail}"));
            for (name, value) in self.headers_for(&base, headers) {
                request = request.header(name, value);
            }
            let left = self.shared.job.left()?;
            let response = request
                .config()
                .timeout_global(Some(left))
                .build()
                .call()
                .map_err(|e| self.shared.classify(e))?;
            if !response.status().is_redirection() {
                if base != self.url {
                    self.redirected = Some(base);
                }
                return self.checked(response);
            }
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            base = self.redirect(&base, tail, location.unwrap_or_default())?;
        }
        Err(Failure::Redirect { to: base.authority().to_owned(), why: "after 5 redirects" })
    }

    fn redirect(&self, base: &GitUrl, tail: &str, location: &str) -> Result<GitUrl, Failure> {
        let refused = |to: &str, why| Err(Failure::Redirect { to: to.to_owned(), why });
        let scheme = if base.scheme() == Scheme::Https { "https" } else { "http" };
        let absolute = if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if location.starts_with('/') {
            format!("{scheme}://{}{location}", base.authority())
        } else {
            location.to_owned()
        };
        let Some(target) = absolute.strip_suffix(tail).and_then(|target| GitUrl::parse(target).ok()) else {
            return refused("another place", "because the target is not a Git repository's URL");
        };
        match (base.scheme(), target.scheme()) {
            (_, Scheme::File) => return refused("a file", "ever"),
            (_, Scheme::Ssh) => return refused(target.authority(), "because it is not https"),
            (Scheme::Https, Scheme::Http) => return refused(target.authority(), "because it is not https"),
            _ => {}
        }
        if self.has_identity && target.authority() != self.url.authority() {
            return refused(target.authority(), "because the credentials are for another host");
        }
        Ok(target)
    }

    fn headers_for<'a>(&'a self, base: &GitUrl, given: &'a [(String, String)]) -> Vec<(&'a str, &'a str)> {
        let mut headers: Vec<_> = given
            .iter()
            .filter(|(name, _)| !name.eq_ignore_ascii_case("user-agent"))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        headers.push(("User-Agent", &self.user_agent));
        if let Some(authorization) = &self.authorization
            && base.scheme() == Scheme::Https
            && base.authority() == self.url.authority()
        {
            headers.push(("Authorization", authorization));
        }
        headers
    }

    fn checked(&self, response: Response<ureq::Body>) -> Result<Response<ureq::Body>, Failure> {
        let is_git =
            || response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == ADVERTISEMENT);
        check_status(response.status().as_u16(), self.authorization.is_some())?;
        if is_git() { Ok(response) } else { Err(Failure::NotGit) }
    }
}

impl Http for Client {
    type Headers = Headers;
    type ResponseBody = Body;
    type PostBody = RequestBody;

    fn get(
        &mut self,
        url: &str,
        base_url: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> gix::error::Result<GetResponse<Headers, Body>> {
        let tail = url.strip_prefix(base_url).unwrap_or_default().to_owned();
        let result = self.get_following(base_url, &tail, &split_headers(headers));
        let response = result.map_err(|failure| self.shared.fail(failure))?;
        let exchange = Exchange::answered(response, &self.shared);
        Ok(GetResponse { headers: Headers::of(&exchange), body: Body::of(&exchange) })
    }

    fn post(
        &mut self,
        url: &str,
        base_url: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
        _kind: PostBodyDataKind,
    ) -> gix::error::Result<PostResponse<Headers, Body, RequestBody>> {
        let base = GitUrl::parse(base_url).map_err(|error| self.shared.fail(error.into()))?;
        let mut request = self.agent.post(url);
        for (name, value) in self.headers_for(&base, &split_headers(headers)) {
            request = request.header(name, value);
        }
        let exchange = Exchange::of_post(request, self.authorization.is_some(), &self.shared);
        Ok(PostResponse {
            post_body: RequestBody(Rc::clone(&exchange)),
            headers: Headers::of(&exchange),
            body: Body::of(&exchange),
        })
    }

    fn configure(&mut self, _config: &dyn Any) -> gix::error::Result {
        Ok(())
    }

    fn redirected_base_url(&self) -> Option<String> {
        self.redirected.as_ref().map(GitUrl::to_string)
    }
}

fn split_headers(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<(String, String)> {
    let split = |line: &str| {
        line.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
    };
    lines.into_iter().filter_map(|line| split(line.as_ref())).collect()
}
