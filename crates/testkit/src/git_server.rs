//! Git repositories over HTTP: `git http-backend` behind a small server.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);
/// No request for a fetch of a small repository is longer.
const LONGEST_BODY: usize = 16 << 20;

/// Serves every repository below a folder until the process ends.
#[derive(Debug, Clone)]
pub struct GitServer {
    address: SocketAddr,
}

impl GitServer {
    /// Serves the folder on an address of this machine that is not loopback: convoy fetches from no
    /// loopback address, except in standalone.
    ///
    /// # Errors
    /// When the machine has only a loopback address.
    pub fn start(root: &Path) -> io::Result<Self> {
        let listener = TcpListener::bind((own_address()?, 0))?;
        let address = listener.local_addr()?;
        let root = root.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let root = root.clone();
                // A request that fails ends its connection; the client asks again.
                std::thread::spawn(move || serve(&stream, &root));
            }
        });
        Ok(Self { address })
    }

    /// The URL of a repository: its path below the folder.
    pub fn url(&self, repository: &str) -> String {
        format!("http://{}/{repository}", self.address)
    }
}

/// The address that this machine would send from. A UDP socket that connects sends nothing; the
/// destination is one that is kept for documentation (RFC 5737).
fn own_address() -> io::Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9))?;
    let address = socket.local_addr()?.ip();
    if address.is_loopback() || address.is_unspecified() {
        return Err(io::Error::other("this machine has no address but loopback"));
    }
    Ok(address)
}

fn serve(stream: &TcpStream, root: &PathBuf) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let length: usize = header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length.min(LONGEST_BODY)];
    reader.read_exact(&mut body)?;
    let mut first = head.split(' ');
    let method = first.next().unwrap_or_default();
    let target = first.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", root)
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&body)?;
    }
    let output = child.wait_with_output()?.stdout;
    let Some(split) = output.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(()) };
    let (head, body) = output.split_at(split + 4);
    let head = String::from_utf8_lossy(head);
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let mut answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for line in head.lines().filter(|line| !line.starts_with("Status: ") && !line.is_empty()) {
        answer.push_str(line);
        answer.push_str("\r\n");
    }
    answer.push_str("\r\n");
    let mut stream = stream;
    stream.write_all(answer.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::left_out::leave_out;

    #[test]
    fn a_repository_is_cloned_over_http() {
        let folder = tempfile::tempdir().unwrap();
        let Ok(server) = GitServer::start(folder.path()).inspect_err(|error| leave_out(error)) else {
            return;
        };
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
            let status =
                Command::new("git").args(identity).args(arguments).current_dir(folder.path()).status();
            assert!(status.unwrap().success(), "git {arguments:?}");
        };
        git(&["init", "--quiet", "--initial-branch=main", "apps"]);
        git(&["-C", "apps", "commit", "--quiet", "--allow-empty", "-m", "first"]);
        git(&["clone", "--quiet", &server.url("apps"), "copy"]);
        assert!(folder.path().join("copy/.git").exists());
    }
}
