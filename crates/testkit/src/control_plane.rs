//! etcd and kube-apiserver, and kube-controller-manager when asked for.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tempfile::TempDir;

use crate::certificates::{Authority, Identity};
use crate::https::HttpsClient;
use crate::left_out::leave_out;
use crate::process::Process;
use crate::programs::{ProgramMissing, program};

/// Cold, with all cores busy, kube-apiserver takes 20 s.
const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// A free port may be taken before the program that it is for binds it.
const ATTEMPTS: usize = 3;

/// What runs beside etcd and kube-apiserver.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Also kube-controller-manager: garbage collection, namespaces, ReplicaSets…
    pub controller_manager: bool,
    /// More flags for kube-apiserver.
    pub apiserver_flags: Vec<String>,
}

/// Why there is no control plane.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A program was not built; the test can be left out.
    #[error("the real control plane is not built")]
    NotBuilt(#[from] ProgramMissing),
    /// A file, port or process could not be had.
    #[error("could not prepare the control plane")]
    Io(#[from] io::Error),
    /// A certificate could not be made.
    #[error("could not make certificates")]
    Certificates(#[from] rcgen::Error),
    /// A program ended, or did not become ready in time.
    #[error("{program} did not become ready: {reason}; the end of its log:\n{log}")]
    NotReady {
        /// The program.
        program: &'static str,
        /// What happened instead.
        reason: String,
        /// The last lines it printed.
        log: String,
    },
}

/// A program of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// kube-apiserver.
    Apiserver,
    /// etcd, with what it has on its disk.
    Etcd,
}

/// A running control plane. Dropping it stops the programs and removes the folder.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order: clients before servers, the folder last.
    _controller_manager: Option<Process>,
    apiserver: Process,
    etcd: Process,
    address: SocketAddr,
    etcd_url: String,
    authority: String,
    admin: Identity,
    client: HttpsClient,
    folder: TempDir,
}

impl ControlPlane {
    /// etcd and kube-apiserver, ready.
    ///
    /// # Errors
    /// When they are not built ([`StartError::NotBuilt`]) or do not start.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(&Options::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(options: &Options) -> Result<Self, StartError> {
        let programs = Programs::find(options)?;
        let mut attempt = 1;
        loop {
            match Self::launch(&programs, options) {
                Err(StartError::NotReady { log, .. })
                    if attempt < ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// For the first line of a test: the control plane, or `None` when it is not built, after noting
    /// that the test is left out.
    ///
    /// # Panics
    /// When the control plane is built but does not start, or when nothing may be left out.
    #[expect(clippy::panic, reason = "it fails the test that called it")]
    pub fn start_or_leave_out(options: &Options) -> Option<Self> {
        match Self::start_with(options) {
            Ok(control_plane) => Some(control_plane),
            Err(StartError::NotBuilt(missing)) => {
                leave_out(&missing);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn launch(programs: &Programs, options: &Options) -> Result<Self, StartError> {
        let folder = tempfile::Builder::new().prefix("convoy-control-plane-").tempdir()?;
        let authority = Authority::new("cluster-ca")?;
        let front_proxy = Authority::new("front-proxy-ca")?;
        let admin = authority.client("kubernetes-admin", Some("system:masters"))?;
        let files = Files { folder: folder.path() };
        files.write("ca.crt", authority.certificate())?;
        files.write("front-proxy-ca.crt", front_proxy.certificate())?;
        files.identity(
            "apiserver",
            &authority.server(&["127.0.0.1", "localhost", "kubernetes.default.svc"])?,
        )?;
        files.identity("front-proxy", &front_proxy.client("front-proxy-client", None)?)?;
        files.identity("service-account", &authority.client("service-account", None)?)?;
        files.write("audit-policy.json", AUDIT_POLICY)?;

        let etcd_url = format!("http://{}", free_address()?);
        let etcd = Process::start(&programs.etcd, &etcd_flags(&files, &etcd_url)?, &files.path("etcd.log"))?;

        let address = free_address()?;
        files.write("admin.kubeconfig", &kubeconfig(address, authority.certificate(), &admin))?;
        let flags = apiserver_flags(&files, &etcd_url, address, options);
        let apiserver = Process::start(&programs.apiserver, &flags, &files.path("kube-apiserver.log"))?;
        let client = HttpsClient::new(address, authority.certificate(), Some(&admin))?;
        wait("etcd and kube-apiserver", &[&apiserver, &etcd], || {
            client.get("/readyz").is_ok_and(|answer| answer.status == 200)
        })?;

        let controller_manager = match &programs.controller_manager {
            None => None,
            Some(program) => {
                let flags = controller_manager_flags(&files, free_address()?.port());
                let process = Process::start(program, &flags, &files.path("kube-controller-manager.log"))?;
                // The first namespace has its ServiceAccount once the controllers run.
                wait("kube-controller-manager", &[&process], || {
                    let account = client.get("/api/v1/namespaces/default/serviceaccounts/default");
                    account.is_ok_and(|answer| answer.status == 200)
                })?;
                Some(process)
            }
        };
        Ok(Self {
            _controller_manager: controller_manager,
            apiserver,
            etcd,
            address,
            etcd_url,
            authority: authority.certificate().to_owned(),
            admin,
            client,
            folder,
        })
    }

    /// Ends a program as `kill -9` does and starts it again; answers when the control plane is ready.
    ///
    /// # Errors
    /// When it does not become so.
    pub fn restart(&mut self, part: Part) -> Result<(), StartError> {
        match part {
            Part::Apiserver => self.apiserver.restart()?,
            Part::Etcd => self.etcd.restart()?,
        }
        wait("etcd and kube-apiserver", &[&self.apiserver, &self.etcd], || {
            self.client.get("/readyz").is_ok_and(|answer| answer.status == 200)
        })
    }

    /// A client with all rights.
    pub fn client(&self) -> &HttpsClient {
        &self.client
    }

    /// The path of a kubeconfig with all rights. It holds its certificates.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    /// Where kube-apiserver listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://` and the address.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Where etcd listens, for `--etcd-servers`.
    pub fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    /// The certificate of the authority that signed kube-apiserver's, PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The admin's certificate and key.
    pub fn admin(&self) -> &Identity {
        &self.admin
    }

    /// The folder with logs, certificates and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// kube-apiserver's audit log: one `audit.k8s.io/v1` event a line, metadata only.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }
}

const AUDIT_POLICY: &str = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata"}]}"#;

struct Programs {
    etcd: PathBuf,
    apiserver: PathBuf,
    controller_manager: Option<PathBuf>,
}

impl Programs {
    fn find(options: &Options) -> Result<Self, ProgramMissing> {
        let controller_manager =
            options.controller_manager.then(|| program("kube-controller-manager")).transpose()?;
        Ok(Self { etcd: program("etcd")?, apiserver: program("kube-apiserver")?, controller_manager })
    }
}

struct Files<'a> {
    folder: &'a Path,
}

impl Files<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn show(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, content: &str) -> io::Result<()> {
        fs::write(self.path(name), content)
    }

    fn identity(&self, name: &str, identity: &Identity) -> io::Result<()> {
        self.write(&format!("{name}.crt"), &identity.certificate)?;
        self.write(&format!("{name}.key"), &identity.key)
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn etcd_flags(files: &Files<'_>, client_url: &str) -> io::Result<Vec<String>> {
    let peer_url = format!("http://{}", free_address()?);
    Ok(vec![
        format!("--data-dir={}", files.show("etcd")),
        format!("--listen-client-urls={client_url}"),
        format!("--advertise-client-urls={client_url}"),
        format!("--listen-peer-urls={peer_url}"),
        format!("--initial-advertise-peer-urls={peer_url}"),
        format!("--initial-cluster=default={peer_url}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ])
}

fn apiserver_flags(files: &Files<'_>, etcd_url: &str, address: SocketAddr, options: &Options) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers={etcd_url}"),
        format!("--secure-port={}", address.port()),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // Its own service of that address would need a route that tests do not have.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--tls-cert-file={}", files.show("apiserver.crt")),
        format!("--tls-private-key-file={}", files.show("apiserver.key")),
        format!("--client-ca-file={}", files.show("ca.crt")),
        format!("--service-account-key-file={}", files.show("service-account.crt")),
        format!("--service-account-signing-key-file={}", files.show("service-account.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        format!("--requestheader-client-ca-file={}", files.show("front-proxy-ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={}", files.show("front-proxy.crt")),
        format!("--proxy-client-key-file={}", files.show("front-proxy.key")),
        format!("--audit-policy-file={}", files.show("audit-policy.json")),
        format!("--audit-log-path={}", files.show("audit.log")),
        "--audit-log-mode=blocking".to_owned(),
    ];
    if !options.controller_manager {
        // Nobody makes the ServiceAccounts that this plugin wants pods to have.
        flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    flags.extend(options.apiserver_flags.iter().cloned());
    flags
}

fn controller_manager_flags(files: &Files<'_>, port: u16) -> Vec<String> {
    let kubeconfig = files.show("admin.kubeconfig");
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--service-account-private-key-file={}", files.show("service-account.key")),
        format!("--root-ca-file={}", files.show("ca.crt")),
        "--use-service-account-credentials=true".to_owned(),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", files.show("kube-controller-manager")),
        // The defaults are for large clusters, not for tests that wait.
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=500".to_owned(),
    ]
}

fn kubeconfig(address: SocketAddr, authority: &str, identity: &Identity) -> String {
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority-data": BASE64.encode(authority),
        }}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": BASE64.encode(&identity.certificate),
            "client-key-data": BASE64.encode(&identity.key),
        }}],
    });
    config.to_string()
}

fn wait(
    program: &'static str,
    processes: &[&Process],
    mut ready: impl FnMut() -> bool,
) -> Result<(), StartError> {
    let start = Instant::now();
    while !ready() {
        let ended = processes.iter().find(|process| process.has_ended());
        let reason = match ended {
            Some(_) => "it ended".to_owned(),
            None if start.elapsed() > READY_WITHIN => format!("not within {READY_WITHIN:?}"),
            None => {
                std::thread::sleep(POLL);
                continue;
            }
        };
        let log = ended.or(processes.first()).map(|process| process.last_lines()).unwrap_or_default();
        return Err(StartError::NotReady { program, reason, log });
    }
    Ok(())
}
