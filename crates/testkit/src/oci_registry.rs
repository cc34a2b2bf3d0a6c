//! A real OCI registry, CNCF distribution, with a user and a password.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::{Process, leave_out, program};

const PATIENCE: Duration = Duration::from_secs(30);

/// A registry on a loopback port, without TLS, stopped when dropped.
#[derive(Debug)]
pub struct OciRegistry {
    port: u16,
    folder: TempDir,
    _process: Process,
}

impl OciRegistry {
    /// Who may read and write.
    pub const USER: &'static str = "u";
    /// Their password.
    pub const PASSWORD: &'static str = "CANARY";

    /// Starts a registry that is empty, or says that the running test is left out.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_or_leave_out() -> io::Result<Option<Self>> {
        let Some(program) = program("registry").inspect_err(|missing| leave_out(missing)).ok() else {
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        // Cheap to check, since every request does.
        let hash = bcrypt::hash(Self::PASSWORD, 4).map_err(|error| io::Error::other(error.to_string()))?;
        std::fs::write(at("htpasswd"), format!("{}:{}\n", Self::USER, hash.replacen("$2b$", "$2y$", 1)))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let config = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": at("data")}},
            "http": {"addr": format!("127.0.0.1:{port}")},
            "auth": {"htpasswd": {"realm": "r", "path": at("htpasswd")}},
        });
        std::fs::write(at("config.yml"), config.to_string())?;
        let arguments = ["serve".to_owned(), at("config.yml")];
        let process = Process::start(&program, &arguments, &folder.path().join("registry.log"))?;
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if process.has_ended() || Instant::now() > deadline {
                return Err(io::Error::other(process.last_lines()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(Self { port, folder, _process: process }))
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A folder of its own, gone with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where charts and artifacts are, as Helm and convoy name it.
    pub fn url(&self, prefix: &str) -> String {
        format!("oci://127.0.0.1:{}/{prefix}", self.port)
    }
}
