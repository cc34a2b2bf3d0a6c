//! A small HTTP server that answers as a test says, and remembers who asked for what.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificates::Identity;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A request that the server saw. Its body is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// `GET` and the like.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
}

impl WebRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// What is answered.
#[derive(Debug, Clone, Default)]
pub struct WebAnswer {
    /// The status.
    pub status: u16,
    /// More headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How much of the body is sent before the connection is closed; all when absent.
    pub cut_at: Option<usize>,
    /// Nothing is sent, and the connection stays open.
    pub is_silent: bool,
}

impl WebAnswer {
    /// 200 with a body.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, body: body.into(), ..Self::default() }
    }

    /// A status without a body.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// A redirect to this place.
    pub fn redirect(to: &str) -> Self {
        Self::status(302).with("Location", to)
    }

    /// With one more header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file of a folder, with an ETag; 304 when the client has it, 404 when there is none.
    pub fn file(root: &Path, request: &WebRequest) -> Self {
        let path = request.path.split('?').next().unwrap_or_default().trim_start_matches('/');
        if path.split('/').any(|part| part == "..") {
            return Self::status(400);
        }
        let Ok(body) = std::fs::read(root.join(path)) else { return Self::status(404) };
        // Enough to tell the files of a test apart.
        let sum = body.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        let etag = format!("\"{sum:x}\"");
        if request.header("if-none-match") == Some(&etag) {
            return Self::status(304).with("ETag", &etag);
        }
        Self::ok(body).with("ETag", &etag)
    }
}

type Answering = dyn Fn(&WebRequest) -> WebAnswer + Send + Sync;

/// A server on a loopback port, until the process ends.
#[derive(Debug, Clone)]
pub struct WebServer {
    port: u16,
    seen: Arc<Mutex<Vec<WebRequest>>>,
}

impl WebServer {
    /// Starts a server.
    ///
    /// # Errors
    /// When there is no port.
    pub fn start(answer: impl Fn(&WebRequest) -> WebAnswer + Send + Sync + 'static) -> io::Result<Self> {
        Self::listen(answer, serve)
    }

    /// Starts a server of HTTPS. With the certificate of an authority (PEM), clients have to show a certificate
    /// of it, or may, when the flag is false; requests with one have the header `x-client-certificate`.
    ///
    /// # Errors
    /// When there is no port, or a certificate or key cannot be read.
    pub fn start_tls(
        identity: &Identity,
        clients: Option<(&str, bool)>,
        answer: impl Fn(&WebRequest) -> WebAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let config = Arc::new(tls_config(identity, clients)?);
        Self::listen(answer, move |stream, log, answer| {
            let connection = ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
            serve_on(StreamOwned::new(connection, stream), log, answer, |stream| {
                stream.conn.peer_certificates().is_some()
            })
            .map(|mut stream| {
                stream.conn.send_close_notify();
                // The client may be gone by now.
                let _ = stream.flush();
            })
        })
    }

    fn listen(
        answer: impl Fn(&WebRequest) -> WebAnswer + Send + Sync + 'static,
        serve: impl Fn(TcpStream, &Mutex<Vec<WebRequest>>, &Answering) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let seen: Arc<Mutex<Vec<WebRequest>>> = Arc::default();
        let (log, answer): (_, Arc<Answering>) = (Arc::clone(&seen), Arc::new(answer));
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer, serve) = (Arc::clone(&log), Arc::clone(&answer), Arc::clone(&serve));
                // A request that fails ends its connection.
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(TIMEOUT))?;
                    stream.set_write_timeout(Some(TIMEOUT))?;
                    serve(stream, &log, &*answer)
                });
            }
        });
        Ok(Self { port, seen })
    }

    /// Starts a server of a folder's files.
    ///
    /// # Errors
    /// When there is no port.
    pub fn of_folder(root: &Path) -> io::Result<Self> {
        let root = root.to_owned();
        Self::start(move |request| WebAnswer::file(&root, request))
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A URL of the server.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A URL of a server of HTTPS.
    pub fn https_url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// The requests since the last call.
    pub fn take_seen(&self) -> Vec<WebRequest> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn tls_config(identity: &Identity, clients: Option<(&str, bool)>) -> io::Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(io::Error::other)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some((authority, is_needed)) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
                roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if is_needed { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(io::Error::other)?)
        }
    };
    builder.with_single_cert(chain, key).map_err(io::Error::other)
}

fn serve(stream: TcpStream, log: &Mutex<Vec<WebRequest>>, answer: &Answering) -> io::Result<()> {
    serve_on(stream, log, answer, |_| false).map(drop)
}

fn serve_on<S: Read + Write>(
    mut stream: S,
    log: &Mutex<Vec<WebRequest>>,
    answer: &Answering,
    has_certificate: impl Fn(&S) -> bool,
) -> io::Result<S> {
    let mut head = String::new();
    let mut reader = BufReader::new(&mut stream);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(stream);
        }
    }
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let mut headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    if has_certificate(&stream) {
        headers.push(("x-client-certificate".to_owned(), "shown".to_owned()));
    }
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let request = WebRequest { method, path, headers };
    log.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    let answer = answer(&request);
    if answer.is_silent {
        // Until the client goes.
        let _ = stream.read(&mut [0]);
        return Ok(stream);
    }
    let mut reply = format!("HTTP/1.1 {} x\r\nConnection: close\r\n", answer.status);
    if answer.status != 304 {
        reply.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
    }
    for (name, value) in &answer.headers {
        reply.push_str(&format!("{name}: {value}\r\n"));
    }
    reply.push_str("\r\n");
    stream.write_all(reply.as_bytes())?;
    if request.method != "HEAD" {
        let end = answer.cut_at.unwrap_or(answer.body.len()).min(answer.body.len());
        stream.write_all(answer.body.get(..end).unwrap_or_default())?;
    }
    stream.flush()?;
    Ok(stream)
}
