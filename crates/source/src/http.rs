//! Git's HTTP requests, under convoy's rules: addresses are judged after resolution, redirects never
//! carry credentials to another host, every body is counted, and the deadline holds for the whole fetch.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use gix_transport::client::blocking_io::http::{GetResponse, Http, PostBodyDataKind, PostResponse};
use ureq::config::Config;
use ureq::http::{Response, Uri, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use crate::address::AddressRules;
use crate::credentials::Credentials;
use crate::error::Failure;
use crate::job::Job;
use crate::url::{GitUrl, Scheme};

/// Redirects of the first request; forges need one, when a repository was renamed.
const MAX_REDIRECTS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";

/// What broke, in our own terms; it is looked at before the error that came through gix's layers.
pub(crate) type Failed = Rc<RefCell<Option<Failure>>>;

/// Bytes that the server may still send, and what they are, for the message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) what: &'static str,
    pub(crate) limit: u64,
    pub(crate) left: u64,
}

/// One fetch's connection to its server.
pub(crate) struct Client {
    agent: ureq::Agent,
    url: GitUrl,
    authorization: Option<String>,
    user_agent: String,
    redirected: Option<GitUrl>,
    shared: Shared,
}

/// What the client and the bodies that it gave away have in common.
#[derive(Clone)]
struct Shared {
    job: Job,
    failed: Failed,
    budget: Rc<Cell<Budget>>,
}

impl Client {
    pub(crate) fn new(
        url: &GitUrl,
        credentials: &Credentials,
        rules: AddressRules,
        user_agent: &str,
        job: &Job,
        budget: Budget,
    ) -> Result<Self, Failure> {
        if credentials.authorization().is_some() && url.scheme() != Scheme::Https {
            return Err(Failure::ClearTextCredentials);
        }
        let roots = match credentials.roots() {
            [] => RootCerts::WebPki,
            given => RootCerts::new_with_certs(
                &given.iter().map(|der| Certificate::from_der(der).to_owned()).collect::<Vec<_>>(),
            ),
        };
        let tls = TlsConfig::builder()
            .root_certs(roots)
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
        Ok(Self {
            agent: ureq::Agent::with_parts(config, DefaultConnector::default(), resolver),
            url: url.clone(),
            authorization: credentials.authorization().map(str::to_owned),
            user_agent: user_agent.to_owned(),
            redirected: None,
            shared: Shared {
                job: job.clone(),
                failed: Failed::default(),
                budget: Rc::new(Cell::new(budget)),
            },
        })
    }

    /// Where this client says what broke.
    pub(crate) fn failed(&self) -> Failed {
        Rc::clone(&self.shared.failed)
    }

    /// How many bytes the server may still send; set anew for the next stage of the fetch.
    pub(crate) fn budget(&self) -> Rc<Cell<Budget>> {
        Rc::clone(&self.shared.budget)
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
            (Scheme::Https, Scheme::Http) => return refused(target.authority(), "because it is not https"),
            _ => {}
        }
        if self.authorization.is_some() && target.authority() != self.url.authority() {
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

fn check_status(status: u16, with_credentials: bool) -> Result<(), Failure> {
    match status {
        200 => Ok(()),
        401 | 403 if with_credentials => Err(Failure::CredentialsRefused { status }),
        401 | 403 => Err(Failure::CredentialsMissing { status }),
        404 => Err(Failure::RepositoryNotFound),
        _ => Err(Failure::Status { status }),
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
        let exchange = Rc::new(RefCell::new(Exchange {
            shared: self.shared.clone(),
            with_credentials: self.authorization.is_some(),
            request: Some((request, Vec::new())),
            headers: Vec::new(),
            body: None,
        }));
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

/// A request and its answer. A POST is sent when its answer is first asked for, so that the body is
/// whole by then: requests are small, answers are not.
struct Exchange {
    shared: Shared,
    with_credentials: bool,
    request: Option<(ureq::RequestBuilder<ureq::typestate::WithBody>, Vec<u8>)>,
    headers: Vec<u8>,
    body: Option<BufReader<Counted>>,
}

impl Exchange {
    fn answered(response: Response<ureq::Body>, shared: &Shared) -> Rc<RefCell<Self>> {
        let mut exchange = Self {
            shared: shared.clone(),
            with_credentials: false,
            request: None,
            headers: Vec::new(),
            body: None,
        };
        exchange.take(response);
        Rc::new(RefCell::new(exchange))
    }

    fn take(&mut self, response: Response<ureq::Body>) {
        for (name, value) in response.headers() {
            self.headers.extend_from_slice(name.as_str().as_bytes());
            self.headers.extend_from_slice(b": ");
            self.headers.extend_from_slice(value.as_bytes());
            self.headers.push(b'\n');
        }
        let reader = response.into_body().into_reader();
        self.body = Some(BufReader::with_capacity(64 << 10, Counted { reader, shared: self.shared.clone() }));
    }

    fn send(&mut self) -> io::Result<()> {
        let Some((request, body)) = self.request.take() else { return Ok(()) };
        let sent = self.shared.job.left().and_then(|left| {
            let request = request.config().timeout_global(Some(left)).build();
            let response = request.send(&body[..]).map_err(|error| self.shared.classify(error))?;
            match response.status().is_redirection() {
                true => {
                    Err(Failure::Redirect { to: "another place".to_owned(), why: "in the middle of a fetch" })
                }
                false => check_status(response.status().as_u16(), self.with_credentials).map(|()| response),
            }
        });
        match sent {
            Ok(response) => {
                self.take(response);
                Ok(())
            }
            Err(failure) => Err(self.shared.fail_io(failure)),
        }
    }
}

/// The body of a POST, collected.
pub(crate) struct RequestBody(Rc<RefCell<Exchange>>);

impl Write for RequestBody {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some((_, body)) = &mut self.0.borrow_mut().request {
            body.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The header lines of an answer.
pub(crate) struct Headers {
    exchange: Rc<RefCell<Exchange>>,
    lines: Option<Cursor<Vec<u8>>>,
}

impl Headers {
    fn of(exchange: &Rc<RefCell<Exchange>>) -> Self {
        Self { exchange: Rc::clone(exchange), lines: None }
    }

    fn lines(&mut self) -> io::Result<&mut Cursor<Vec<u8>>> {
        let lines = match self.lines.take() {
            Some(lines) => lines,
            None => {
                let mut exchange = self.exchange.borrow_mut();
                exchange.send()?;
                Cursor::new(std::mem::take(&mut exchange.headers))
            }
        };
        Ok(self.lines.insert(lines))
    }
}

impl Read for Headers {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.lines()?.read(buffer)
    }
}

impl BufRead for Headers {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.lines()?.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Some(lines) = &mut self.lines {
            lines.consume(amount);
        }
    }
}

/// The body of an answer.
pub(crate) struct Body {
    exchange: Rc<RefCell<Exchange>>,
    reader: Option<BufReader<Counted>>,
}

impl Body {
    fn of(exchange: &Rc<RefCell<Exchange>>) -> Self {
        Self { exchange: Rc::clone(exchange), reader: None }
    }

    fn reader(&mut self) -> io::Result<&mut BufReader<Counted>> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => {
                let mut exchange = self.exchange.borrow_mut();
                exchange.send()?;
                exchange.body.take().ok_or_else(|| io::Error::other("the answer was read before"))?
            }
        };
        Ok(self.reader.insert(reader))
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader()?.read(buffer)
    }
}

impl BufRead for Body {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader()?.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Some(reader) = &mut self.reader {
            reader.consume(amount);
        }
    }
}

/// Counts what the server sends, and stops on the budget, the deadline and cancellation.
struct Counted {
    reader: ureq::BodyReader<'static>,
    shared: Shared,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.shared.job.left().map_err(|failure| self.shared.fail_io(failure))?;
        let read = self.reader.read(buffer).map_err(|error| {
            let failure = self.shared.classify(ureq::Error::from(error));
            self.shared.fail_io(failure)
        })?;
        let mut budget = self.shared.budget.get();
        let Some(left) = budget.left.checked_sub(read as u64) else {
            return Err(self.shared.fail_io(Failure::TooMuch { what: budget.what, limit: budget.limit }));
        };
        budget.left = left;
        self.shared.budget.set(budget);
        Ok(read)
    }
}

impl Shared {
    fn fail(&self, failure: Failure) -> gix::Error {
        let message = failure.to_string();
        self.failed.borrow_mut().get_or_insert(failure);
        gix::error::Message::from(message).into()
    }

    fn fail_io(&self, failure: Failure) -> io::Error {
        let message = failure.to_string();
        self.failed.borrow_mut().get_or_insert(failure);
        io::Error::other(message)
    }

    fn classify(&self, error: ureq::Error) -> Failure {
        match error {
            ureq::Error::Timeout(_) => match self.job.left() {
                Err(failure) => failure,
                Ok(_) => Failure::Unreachable { detail: "no connection within 10 s".to_owned() },
            },
            ureq::Error::HostNotFound => {
                Failure::Unreachable { detail: "no address for this host".to_owned() }
            }
            ureq::Error::Rustls(error) => tls(&error),
            ureq::Error::Io(error) => match rustls_error(&error) {
                Some(error) => tls(error),
                None => Failure::Unreachable { detail: error.to_string() },
            },
            ureq::Error::Other(error) => match error.downcast::<RefusedAddress>() {
                Ok(refused) => Failure::AddressRefused { address: refused.address, kind: refused.kind },
                Err(error) => Failure::Unreachable { detail: error.to_string() },
            },
            ureq::Error::Protocol(error) => Failure::Protocol { detail: error.to_string() },
            error => Failure::Unreachable { detail: error.to_string() },
        }
    }
}

fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref::<rustls::Error>()
}

fn tls(error: &rustls::Error) -> Failure {
    match error {
        rustls::Error::InvalidCertificate(_) => Failure::Certificate { detail: error.to_string() },
        _ => Failure::Unreachable { detail: error.to_string() },
    }
}

/// Resolves names and drops the addresses that the rules refuse.
#[derive(Debug)]
struct CheckedResolver {
    rules: AddressRules,
    inner: DefaultResolver,
}

#[derive(Debug, thiserror::Error)]
#[error("{address} is {kind}")]
struct RefusedAddress {
    address: std::net::IpAddr,
    kind: &'static str,
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        let mut refused = None;
        for address in found.iter() {
            match self.rules.refusal(address.ip()) {
                None => allowed.push(*address),
                Some(kind) => refused = Some(RefusedAddress { address: address.ip(), kind }),
            }
        }
        match refused {
            Some(refused) if allowed.is_empty() => Err(ureq::Error::Other(Box::new(refused))),
            _ => Ok(allowed),
        }
    }
}
