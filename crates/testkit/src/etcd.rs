//! An etcd of one or more members, which can be stopped and started one by one.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::certificates::{Authority, Identity};
use crate::https::HttpsClient;
use crate::left_out::leave_out;
use crate::process::Process;
use crate::programs::program;

const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const ANSWER: Duration = Duration::from_secs(5);

/// A running etcd. Dropping it stops all members and removes their data.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    members: Vec<Member>,
    tls: Option<Tls>,
    folder: TempDir,
}

#[derive(Debug)]
struct Member {
    address: SocketAddr,
    flags: Vec<String>,
    log: PathBuf,
    process: Option<Process>,
}

#[derive(Debug)]
struct Tls {
    authority: Authority,
    client: Identity,
}

impl Etcd {
    /// For the first line of a test: one member, ready, or `None` when etcd is not built, after noting that the test is
    /// left out.
    ///
    /// # Panics
    /// When it does not start, or when nothing may be left out.
    pub fn start_or_leave_out() -> Option<Self> {
        Self::launch(1, false)
    }

    /// The same with this many members.
    ///
    /// # Panics
    /// As [`Self::start_or_leave_out`].
    pub fn cluster_or_leave_out(members: usize) -> Option<Self> {
        Self::launch(members, false)
    }

    /// One member that speaks TLS only, with clients that it knows only.
    ///
    /// # Panics
    /// As [`Self::start_or_leave_out`].
    pub fn with_tls_or_leave_out() -> Option<Self> {
        Self::launch(1, true)
    }

    #[expect(clippy::panic, reason = "it fails the test that called it")]
    fn launch(members: usize, with_tls: bool) -> Option<Self> {
        let program = match program("etcd") {
            Ok(program) => program,
            Err(missing) => {
                leave_out(&missing);
                return None;
            }
        };
        match Self::prepare(program, members, with_tls) {
            Ok(etcd) => Some(etcd),
            Err(error) => panic!("etcd does not start: {error}"),
        }
    }

    fn prepare(program: PathBuf, count: usize, with_tls: bool) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("convoy-etcd-").tempdir()?;
        let tls = match with_tls {
            true => Some(Tls::make(folder.path()).map_err(io::Error::other)?),
            false => None,
        };
        let scheme = if with_tls { "https" } else { "http" };
        // All are bound before one is freed, so that no two are the same.
        let listeners: Vec<_> =
            (0..2 * count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
        let addresses: Vec<_> = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        drop(listeners);
        let (clients, peers) = addresses.split_at(count);
        let cluster: Vec<_> =
            peers.iter().enumerate().map(|(i, peer)| format!("m{i}=http://{peer}")).collect();
        let cluster = cluster.join(",");
        let mut members = Vec::new();
        for (i, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let path = |name: &str| folder.path().join(name).display().to_string();
            let mut flags = vec![
                format!("--name=m{i}"),
                format!("--data-dir={}", path(&format!("m{i}"))),
                format!("--listen-client-urls={scheme}://{client}"),
                format!("--advertise-client-urls={scheme}://{client}"),
                format!("--listen-peer-urls=http://{peer}"),
                format!("--initial-advertise-peer-urls=http://{peer}"),
                format!("--initial-cluster={cluster}"),
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
                // Twice the largest value of the storage trait.
                "--max-request-bytes=8388608".to_owned(),
            ];
            if with_tls {
                flags.extend([
                    format!("--cert-file={}", path("server.crt")),
                    format!("--key-file={}", path("server.key")),
                    format!("--trusted-ca-file={}", path("ca.crt")),
                    "--client-cert-auth".to_owned(),
                ]);
            }
            let log = folder.path().join(format!("m{i}.log"));
            members.push(Member { address: *client, flags, log, process: None });
        }
        let mut etcd = Self { program, members, tls, folder };
        for i in 0..count {
            etcd.spawn(i)?;
        }
        for i in 0..count {
            etcd.wait_ready(i)?;
        }
        Ok(etcd)
    }

    /// The URLs of the members, for `--etcd-servers`.
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.members.iter().map(|member| format!("{scheme}://{}", member.address)).collect()
    }

    /// Where `ca.crt`, `client.crt` and `client.key` are, with TLS.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends a member at once, as a crash does.
    pub fn kill(&mut self, member: usize) {
        if let Some(member) = self.members.get_mut(member) {
            member.process = None;
        }
    }

    /// Lets a member stand still, or go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self, member: usize, is_paused: bool) -> io::Result<()> {
        let process = self.members.get(member).and_then(|member| member.process.as_ref());
        let process = process.ok_or_else(|| io::Error::other("it does not run"))?;
        process.signal(if is_paused { "STOP" } else { "CONT" })
    }

    /// Starts a member that was ended, with its data, and waits until it is ready.
    ///
    /// # Errors
    /// When it is not in time.
    pub fn restart(&mut self, member: usize) -> io::Result<()> {
        self.spawn(member)?;
        self.wait_ready(member)
    }

    /// Starts a member that was ended with nothing of what it had.
    ///
    /// # Errors
    /// When its data cannot be removed, or it is not ready in time.
    pub fn restart_empty(&mut self, member: usize) -> io::Result<()> {
        fs::remove_dir_all(self.folder.path().join(format!("m{member}")))?;
        self.restart(member)
    }

    /// The member that leads, once all that run agree.
    ///
    /// # Errors
    /// When none does in time.
    pub fn leader(&self) -> io::Result<usize> {
        self.leader_among(|_| true)
    }

    /// The member that leads instead of one that stands still.
    ///
    /// # Errors
    /// When none does in time.
    pub fn leader_besides(&self, paused: usize) -> io::Result<usize> {
        self.leader_among(|member| member != paused)
    }

    fn leader_among(&self, is_asked: impl Fn(usize) -> bool) -> io::Result<usize> {
        let start = Instant::now();
        while start.elapsed() < READY_WITHIN {
            for (i, member) in self.members.iter().enumerate().filter(|(i, _)| is_asked(*i)) {
                let Ok(status) = post(member.address, "/v3/maintenance/status", "{}") else { continue };
                let leader = status.get("leader").and_then(serde_json::Value::as_str);
                let own = status.pointer("/header/member_id").and_then(serde_json::Value::as_str);
                if leader.is_some() && leader == own {
                    return Ok(i);
                }
            }
            std::thread::sleep(POLL);
        }
        Err(io::Error::other("no member leads"))
    }

    fn spawn(&mut self, member: usize) -> io::Result<()> {
        let member = self.members.get_mut(member).ok_or_else(|| io::Error::other("no such member"))?;
        member.process = Some(Process::start(&self.program, &member.flags, &member.log)?);
        Ok(())
    }

    fn wait_ready(&self, member: usize) -> io::Result<()> {
        let member = self.members.get(member).ok_or_else(|| io::Error::other("no such member"))?;
        let start = Instant::now();
        while start.elapsed() < READY_WITHIN {
            let is_ready = match &self.tls {
                Some(tls) => {
                    let client =
                        HttpsClient::new(member.address, tls.authority.certificate(), Some(&tls.client));
                    client.is_ok_and(|client| client.get("/readyz").is_ok_and(|answer| answer.status == 200))
                }
                None => post(member.address, "/v3/kv/range", r#"{"key":"aA=="}"#)
                    .is_ok_and(|answer| answer.get("header").is_some()),
            };
            if is_ready {
                return Ok(());
            }
            let ended = member.process.as_ref().is_some_and(Process::has_ended);
            if ended {
                break;
            }
            std::thread::sleep(POLL);
        }
        let log = member.process.as_ref().map(Process::last_lines).unwrap_or_default();
        Err(io::Error::other(format!("a member is not ready: {log}")))
    }
}

impl Tls {
    fn make(folder: &Path) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let authority = Authority::new("etcd-ca")?;
        let server = authority.server(&["127.0.0.1", "localhost"])?;
        let client = authority.client("convoy", None)?;
        let write = |name: &str, text: &str| fs::write(folder.join(name), text);
        write("ca.crt", authority.certificate())?;
        write("server.crt", &server.certificate)?;
        write("server.key", &server.key)?;
        write("client.crt", &client.certificate)?;
        write("client.key", &client.key)?;
        Ok(Self { authority, client })
    }
}

/// Asks etcd's HTTP gateway.
fn post(address: SocketAddr, path: &str, body: &str) -> io::Result<serde_json::Value> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(body).map_err(io::Error::other)
}
