//! The real sshd of OpenSSH, for Git over SSH.

use std::fs;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Serves SSH on a port of this machine until the process ends: one sshd for each connection, and this user
/// may log in with the keys that were authorized.
#[derive(Debug)]
pub struct SshServer {
    folder: tempfile::TempDir,
    address: SocketAddr,
    log: Arc<Mutex<String>>,
    open: Arc<AtomicUsize>,
}

impl SshServer {
    /// Starts on 127.0.0.1 with a host key of a sort that `ssh-keygen -t` knows. `configuration` are more lines
    /// of sshd_config, as `AcceptEnv GIT_PROTOCOL`.
    ///
    /// # Errors
    /// When there is no sshd on this machine.
    pub fn start(host_key: &str, configuration: &str) -> io::Result<Self> {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), host_key, configuration)
    }

    /// The same on another address of this machine.
    ///
    /// # Errors
    /// When there is no sshd on this machine.
    pub fn start_on(address: IpAddr, host_key: &str, configuration: &str) -> io::Result<Self> {
        let sshd = ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"].map(Path::new);
        let sshd = sshd.into_iter().find(|path| path.is_file());
        let sshd = sshd.ok_or_else(|| io::Error::other("there is no sshd (install openssh-server)"))?;
        let folder = tempfile::tempdir()?;
        for sort in host_key.split(' ') {
            keygen(folder.path(), &format!("host_{sort}"), &["-t", sort, "-N", ""])?;
        }
        fs::write(folder.path().join("authorized_keys"), "")?;
        // As root, sshd wants an empty folder of this name; packages make it when they start their service.
        let _ = fs::create_dir_all("/run/sshd");
        let mut lines = String::new();
        for sort in host_key.split(' ') {
            lines += &format!("HostKey {}\n", folder.path().join(format!("host_{sort}")).display());
        }
        lines += &format!("AuthorizedKeysFile {}\n", folder.path().join("authorized_keys").display());
        lines += "StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\n\
                  PasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel VERBOSE\n";
        lines += configuration;
        let config = folder.path().join("sshd_config");
        fs::write(&config, lines)?;
        let listener = TcpListener::bind((address, 0))?;
        let address = listener.local_addr()?;
        let (log, open) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicUsize::new(0)));
        let (sshd, log_of, open_of) = (sshd.to_owned(), Arc::clone(&log), Arc::clone(&open));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sshd, config, log, open) =
                    (sshd.clone(), config.clone(), Arc::clone(&log_of), Arc::clone(&open_of));
                std::thread::spawn(move || {
                    open.fetch_add(1, Ordering::SeqCst);
                    // A connection that fails is the client's to tell.
                    let _ = serve(&sshd, &config, stream, &log);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(Self { folder, address, log, open })
    }

    /// A new key in the folder of the server, made by `ssh-keygen` with these arguments: the private key's text.
    /// Its public key may log in.
    ///
    /// # Errors
    /// When `ssh-keygen` does.
    pub fn authorize(&self, name: &str, arguments: &[&str]) -> io::Result<String> {
        let (private, public) = keygen(self.folder.path(), name, arguments)?;
        let path = self.folder.path().join("authorized_keys");
        let known = fs::read_to_string(&path)?;
        fs::write(path, format!("{known}{public}"))?;
        Ok(private)
    }

    /// Takes a key back.
    ///
    /// # Errors
    /// When the file of authorized keys cannot be written.
    pub fn revoke_all(&self) -> io::Result<()> {
        fs::write(self.folder.path().join("authorized_keys"), "")
    }

    /// The lines of known_hosts for this server.
    ///
    /// # Errors
    /// When a host key cannot be read.
    pub fn known_hosts(&self) -> io::Result<String> {
        let mut lines = String::new();
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("host_") && name.ends_with(".pub") {
                let key = fs::read_to_string(&path)?;
                lines += &format!("[{}]:{} {key}", self.address.ip(), self.address.port());
            }
        }
        Ok(lines)
    }

    /// The URL of a folder of this machine.
    pub fn url(&self, path: &Path) -> String {
        format!("ssh://{}@{}{}", user(), self.address, path.display())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder of keys and configuration.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// What sshd wrote to its log.
    pub fn log(&self) -> String {
        self.log.lock().map(|log| log.clone()).unwrap_or_default()
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

fn serve(sshd: &Path, config: &Path, stream: TcpStream, log: &Mutex<String>) -> io::Result<()> {
    let output: OwnedFd = stream.try_clone()?.into();
    let mut child = Command::new(sshd)
        .args(["-i", "-e", "-f"])
        .arg(config)
        .stdin(Stdio::from(OwnedFd::from(stream)))
        .stdout(Stdio::from(output))
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stderr = child.stderr.take();
    let mut buffer = [0; 1024];
    while let Some(read) = stderr.as_mut().and_then(|stderr| stderr.read(&mut buffer).ok()) {
        if read == 0 {
            break;
        }
        if let Ok(mut log) = log.lock() {
            log.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    }
    child.wait().map(|_| ())
}

/// Makes a pair of keys: the texts of the private and the public one.
fn keygen(folder: &Path, name: &str, arguments: &[&str]) -> io::Result<(String, String)> {
    let path = folder.join(name);
    let output =
        Command::new("ssh-keygen").args(["-q", "-C", "test", "-f"]).arg(&path).args(arguments).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok((fs::read_to_string(&path)?, fs::read_to_string(path.with_extension("pub"))?))
}

/// Who runs the tests, and so who can log in.
fn user() -> String {
    let output = Command::new("id").arg("-un").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
