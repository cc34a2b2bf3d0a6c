//! Real Git for the tests: repositories made by `git`, and `git http-backend` behind a small HTTP server.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    reason = "each test binary uses a part; tests run git"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use convoy_source::{
    Credentials, FetchError, FetchRequest, Fetched, Fetcher, FetcherOptions, GitRef, GitUrl, Limits,
};

/// A repository in a temporary folder, written with fixed names and dates.
pub struct Repo {
    pub dir: tempfile::TempDir,
    tick: u64,
}

impl Repo {
    /// An empty repository whose default branch is `main`.
    pub fn empty() -> Self {
        let repo = Self { dir: tempfile::tempdir().unwrap(), tick: 0 };
        std::fs::create_dir(repo.path()).unwrap();
        repo.git(&["init", "-q", "-b", "main", "."]);
        repo
    }

    /// A repository with one commit on `main`.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let mut repo = Self::empty();
        repo.commit(files);
        repo
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    /// Runs git and returns what it prints, without the last newline.
    pub fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, b"")
    }

    pub fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        let date = format!("{} +0000", 1_700_000_000 + self.tick);
        let mut child = Command::new("git")
            .args(arguments)
            .current_dir(self.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.dir.path())
            .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@t.example"), ("GIT_AUTHOR_DATE", &date)])
            .envs([
                ("GIT_COMMITTER_NAME", "t"),
                ("GIT_COMMITTER_EMAIL", "t@t.example"),
                ("GIT_COMMITTER_DATE", &date),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        assert!(output.status.success(), "git {arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Writes files and commits all; returns the commit.
    pub fn commit(&mut self, files: &[(&str, &str)]) -> String {
        for (path, content) in files {
            let path = self.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        self.tick += 1;
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Writes an object as it is, however bad, and returns its id.
    pub fn object(&self, kind: &str, content: &[u8]) -> String {
        self.git_with(&["hash-object", "-t", kind, "-w", "--stdin", "--literally"], content)
    }

    /// Commits a tree made of raw entries `(mode, name, object)` on `main`.
    pub fn commit_raw_tree(&self, entries: &[(&str, &[u8], &str)]) -> String {
        let tree = self.object("tree", &raw_tree(entries));
        let commit = self.git(&["commit-tree", "-m", "raw", &tree]);
        self.git(&["update-ref", "refs/heads/main", &commit]);
        commit
    }
}

/// The bytes of a tree object.
pub fn raw_tree(entries: &[(&str, &[u8], &str)]) -> Vec<u8> {
    let mut raw = Vec::new();
    for (mode, name, id) in entries {
        raw.extend_from_slice(mode.as_bytes());
        raw.push(b' ');
        raw.extend_from_slice(name);
        raw.push(0);
        for pair in id.as_bytes().chunks(2) {
            raw.push(u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
        }
    }
    raw
}

pub fn options() -> FetcherOptions {
    FetcherOptions { allow_file_urls: true, ..FetcherOptions::default() }
}

pub fn request(url: &str, reference: GitRef) -> FetchRequest {
    FetchRequest {
        url: GitUrl::parse(url).unwrap(),
        reference,
        credentials: Credentials::default(),
        timeout: Duration::from_secs(30),
        known_revision: None,
        choice: Default::default(),
    }
}

pub async fn fetch(url: &str, reference: GitRef) -> Result<Fetched, FetchError> {
    Fetcher::new(options()).fetch(request(url, reference)).await
}

pub async fn fetch_limited(url: &str, limits: Limits) -> Result<Fetched, FetchError> {
    Fetcher::new(FetcherOptions { limits, ..options() }).fetch(request(url, GitRef::DefaultBranch)).await
}

/// `revision` and `path=content` of each file, and the notes.
pub fn shown(fetched: &Fetched) -> (String, Vec<String>, Vec<String>) {
    match fetched {
        Fetched::Unchanged { revision } => (revision.clone(), Vec::new(), vec!["unchanged".to_owned()]),
        Fetched::New { artifact, notes } => {
            let file = |(path, content): (&String, &bytes::Bytes)| {
                format!("{path}={}", String::from_utf8_lossy(content).trim_end())
            };
            (artifact.revision().to_owned(), artifact.files().iter().map(file).collect(), notes.clone())
        }
    }
}

/// The whole chain of an error, as a status would show it.
pub fn chain(error: &FetchError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// One request that the server saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    pub body: String,
}

/// What the server does instead of calling Git.
pub type Answer = Arc<dyn Fn(&Seen) -> Option<String> + Send + Sync>;

/// `git http-backend` on a port of this machine.
pub struct Server {
    pub port: u16,
    pub ca_pem: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub fn http(root: &Path) -> Self {
        Self::start(root, None, Arc::new(|_| None))
    }

    /// `answer` may return a whole HTTP answer; otherwise Git gives it.
    pub fn http_with(root: &Path, answer: Answer) -> Self {
        Self::start(root, None, answer)
    }

    pub fn https_with(root: &Path, answer: Answer) -> Self {
        Self::https_for(root, None, answer)
    }

    /// Clients have to show a certificate of this authority (PEM), when one is given.
    pub fn https_for(root: &Path, clients: Option<&str>, answer: Answer) -> Self {
        Self::start(root, Some(clients), answer)
    }

    fn start(root: &Path, tls: Option<Option<&str>>, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let key =
            rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let ca_pem = key.cert.pem();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match tls.flatten() {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
                let verifier =
                    rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let config = builder
            .with_single_cert(
                vec![key.cert.der().clone()],
                rustls::pki_types::PrivateKeyDer::Pkcs8(key.signing_key.serialize_der().into()),
            )
            .unwrap();
        let tls = tls.is_some();
        let (config, root, log) = (Arc::new(config), root.to_owned(), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, root, log, answer) = (config.clone(), root.clone(), log.clone(), answer.clone());
                std::thread::spawn(move || {
                    if tls {
                        let connection = rustls::ServerConnection::new(config).unwrap();
                        serve(rustls::StreamOwned::new(connection, stream), &root, &log, &answer);
                    } else {
                        serve(stream, &root, &log, &answer);
                    }
                });
            }
        });
        Self { port, ca_pem, seen }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn https_url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }
}

fn serve(stream: impl Read + Write, root: &Path, log: &Mutex<Vec<Seen>>, answer: &Answer) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let header = |name: &str| {
        let prefix = format!("{name}: ");
        head.lines()
            .find(|line| line.to_lowercase().starts_with(&prefix))
            .map(|line| line[prefix.len()..].to_owned())
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    let mut first = head.split(' ');
    let seen = Seen {
        method: first.next().unwrap_or_default().to_owned(),
        path: first.next().unwrap_or_default().to_owned(),
        authorization: header("authorization"),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    log.lock().unwrap().push(seen.clone());
    let reply = match answer(&seen) {
        Some(reply) => reply.into_bytes(),
        None => backend(root, &seen, &header, &body),
    };
    let stream = stream.get_mut();
    let _ = stream.write_all(&reply).and_then(|()| stream.flush());
}

fn backend(root: &Path, seen: &Seen, header: &dyn Fn(&str) -> Option<String>, body: &[u8]) -> Vec<u8> {
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    // Below /old, the server knows only the first version of the protocol.
    let is_old = path.starts_with("/old/");
    let path = path.strip_prefix("/old").unwrap_or(path);
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", root)
        .env("REQUEST_METHOD", &seen.method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("GIT_PROTOCOL", header("git-protocol").filter(|_| !is_old).unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(body).unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    let split = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let (head, body) = (String::from_utf8_lossy(&output[..split]).into_owned(), &output[split + 4..]);
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    let length = body.len();
    let mut reply =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n").into_bytes();
    for line in head.lines().filter(|line| !line.starts_with("Status: ")) {
        reply.extend_from_slice(format!("{line}\r\n").as_bytes());
    }
    reply.extend_from_slice(b"\r\n");
    reply.extend_from_slice(body);
    reply
}

/// A redirect to this place.
pub fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

pub fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

/// A server that takes connections and says nothing.
pub fn silent_server() -> (u16, std::thread::JoinHandle<Vec<TcpStream>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, std::thread::spawn(move || listener.incoming().flatten().take(8).collect()))
}
