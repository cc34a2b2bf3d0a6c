//! kubectl against a control plane of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::control_plane::{self, ControlPlane};

/// kubectl and the server it talks to; the server runs in a runtime of its own.
pub(crate) struct Fixture {
    program: PathBuf,
    folder: TempDir,
    pub(crate) plane: ControlPlane,
    pub(crate) runtime: tokio::runtime::Runtime,
    namespace: String,
}

/// What a run of kubectl did.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The standard output of a run that has to succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// The error text of a run that has to fail.
    #[track_caller]
    pub(crate) fn failed(self) -> String {
        assert_ne!(self.code, 0, "{}", self.out);
        self.err
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Fixture {
    /// Starts a control plane with the namespace `demo`, or names the tests as left out.
    pub(crate) fn start() -> Option<Self> {
        let given = std::env::var_os("CONVOY_KUBECTL").map(PathBuf::from);
        let program = match given.map_or_else(|| convoy_testkit::program("kubectl"), Ok) {
            Ok(program) => program,
            Err(missing) => {
                convoy_testkit::leave_out(&missing);
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let plane = runtime.block_on(control_plane::start(folder.path(), 0)).unwrap();
        let fixture = Self { program, folder, plane, runtime, namespace: "demo".into() };
        fixture.kubectl(&["create", "namespace", "demo"]).ok();
        Some(fixture)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.plane.kubeconfig)
            .args(["--namespace", &self.namespace, "--request-timeout=20s"])
            .args(arguments)
            .env("HOME", self.folder.path());
        command
    }

    /// Runs kubectl as the administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Run {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs kubectl with a variable in its environment.
    pub(crate) fn kubectl_with(&self, variable: (&str, &str), arguments: &[&str]) -> Run {
        self.command(arguments).env(variable.0, variable.1).output().unwrap().into()
    }

    /// Runs kubectl with a text on its standard input.
    pub(crate) fn kubectl_input(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Starts kubectl and hands out its lines as they come.
    pub(crate) fn lines(&self, arguments: &[&str]) -> Lines {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Lines { child, out }
    }
}

/// A running kubectl, killed when dropped.
pub(crate) struct Lines {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Lines {
    /// The next line; empty at the end.
    pub(crate) fn next(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
