//! A real S3 server: the Versity gateway, on a folder.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{Process, leave_out, program};

const PATIENCE: Duration = Duration::from_secs(30);

/// An S3 server on a loopback port, stopped when dropped. Its buckets are folders.
#[derive(Debug)]
pub struct S3Server {
    port: u16,
    is_tls: bool,
    folder: TempDir,
    process: Process,
}

impl S3Server {
    /// Who may read and write.
    pub const KEY: &'static str = "convoy";
    /// Their secret.
    pub const SECRET: &'static str = "CANARY-S3";

    /// Starts a server with one empty bucket, or says that the running test is left out.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_or_leave_out(bucket: &str) -> io::Result<Option<Self>> {
        Self::start(bucket, None)
    }

    /// The same with TLS, by a certificate and a key in PEM.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_with_tls_or_leave_out(
        bucket: &str,
        certificate: &str,
        key: &str,
    ) -> io::Result<Option<Self>> {
        Self::start(bucket, Some((certificate, key)))
    }

    fn start(bucket: &str, tls: Option<(&str, &str)>) -> io::Result<Option<Self>> {
        let Some(program) = program("versitygw").inspect_err(|missing| leave_out(missing)).ok() else {
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir_all(folder.path().join("buckets").join(bucket))?;
        std::fs::create_dir_all(folder.path().join("attributes"))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut arguments: Vec<String> =
            ["--access", Self::KEY, "--secret", Self::SECRET, "--port"].map(str::to_owned).into();
        arguments.push(format!("127.0.0.1:{port}"));
        if let Some((certificate, key)) = tls {
            std::fs::write(at("tls.crt"), certificate)?;
            std::fs::write(at("tls.key"), key)?;
            arguments.extend(["--cert".to_owned(), at("tls.crt"), "--key".to_owned(), at("tls.key")]);
        }
        // Attributes beside the files: not every file system of a machine that tests can hold them.
        arguments.extend(["posix".to_owned(), "--sidecar".to_owned(), at("attributes"), at("buckets")]);
        let process = Process::start(&program, &arguments, &folder.path().join("server.log"))?;
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if process.has_ended() || Instant::now() > deadline {
                return Err(io::Error::other(process.last_lines()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(Self { port, is_tls: tls.is_some(), folder, process }))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The endpoint for clients.
    pub fn endpoint(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    /// The file that an object of a bucket is in.
    pub fn file(&self, bucket: &str, key: &str) -> PathBuf {
        self.folder.path().join("buckets").join(bucket).join(key)
    }

    /// A folder of its own, gone with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it logged last.
    pub fn last_lines(&self) -> String {
        self.process.last_lines()
    }
}
