//! A request to a Git server and its answer, of which every byte is counted.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::rc::Rc;

use ureq::http::Response;

use crate::error::Failure;
use crate::job::Job;
use crate::resolver::RefusedAddress;

type Post = ureq::RequestBuilder<ureq::typestate::WithBody>;

/// What broke, in our own terms; it is looked at before the error that came through gix's layers.
pub(crate) type Failed = Rc<RefCell<Option<Failure>>>;

/// Bytes that the server may still send, and what they are, for the message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) what: &'static str,
    pub(crate) limit: u64,
    pub(crate) left: u64,
}

/// What the client and the bodies that it gave away have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) job: Job,
    pub(crate) failed: Failed,
    pub(crate) budget: Rc<Cell<Budget>>,
}

impl Shared {
    pub(crate) fn fail(&self, failure: Failure) -> gix::Error {
        let message = failure.to_string();
        self.failed.borrow_mut().get_or_insert(failure);
        gix::error::Message::from(message).into()
    }

    pub(crate) fn fail_io(&self, failure: Failure) -> io::Error {
        let message = failure.to_string();
        self.failed.borrow_mut().get_or_insert(failure);
        io::Error::other(message)
    }

    pub(crate) fn classify(&self, error: ureq::Error) -> Failure {
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
        rustls::Error::AlertReceived(alert) if is_of_certificates(*alert) => {
            Failure::ClientCertificate { detail: error.to_string() }
        }
        _ => Failure::Unreachable { detail: error.to_string() },
    }
}

/// Whether a server says that it does not like our certificate, or the lack of one.
fn is_of_certificates(alert: rustls::AlertDescription) -> bool {
    use rustls::AlertDescription as A;
    matches!(
        alert,
        A::CertificateRequired
            | A::NoCertificate
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
    )
}

pub(crate) fn check_status(status: u16, with_credentials: bool) -> Result<(), Failure> {
    match status {
        200 => Ok(()),
        401 | 403 if with_credentials => Err(Failure::CredentialsRefused { status }),
        401 | 403 => Err(Failure::CredentialsMissing { status }),
        404 => Err(Failure::RepositoryNotFound),
        _ => Err(Failure::Status { status }),
    }
}

/// A request and its answer. A POST is sent when its answer is first asked for, so that the body is
/// whole by then: requests are small, answers are not.
pub(crate) struct Exchange {
    shared: Shared,
    with_credentials: bool,
    request: Option<(Post, Vec<u8>)>,
    headers: Vec<u8>,
    body: Option<BufReader<Counted>>,
}

impl Exchange {
    pub(crate) fn answered(response: Response<ureq::Body>, shared: &Shared) -> Rc<RefCell<Self>> {
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

    /// A POST that is not sent yet.
    pub(crate) fn of_post(request: Post, with_credentials: bool, shared: &Shared) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            shared: shared.clone(),
            with_credentials,
            request: Some((request, Vec::new())),
            headers: Vec::new(),
            body: None,
        }))
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
pub(crate) struct RequestBody(pub(crate) Rc<RefCell<Exchange>>);

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
    pub(crate) fn of(exchange: &Rc<RefCell<Exchange>>) -> Self {
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
    pub(crate) fn of(exchange: &Rc<RefCell<Exchange>>) -> Self {
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

/// A body, whole, within the budget.
pub(crate) fn read_whole(body: ureq::Body, shared: &Shared) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut counted = Counted { reader: body.into_reader(), shared: shared.clone() };
    match counted.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => {
            let ours = shared.failed.borrow_mut().take();
            Err(ours.unwrap_or_else(|| Failure::Unreachable { detail: error.to_string() }))
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
