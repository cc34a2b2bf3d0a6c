//! Running the convoy program as a user does.
//!
//! Tests start the program that `cargo build` made, wait for the line that says it is ready, and talk to
//! it through kubectl. Every wait has a deadline, and nothing outlives its test. [`fleet`] runs many replicas
//! as processes, and [`rounds`] does them harm. [`crash`] spoils one
//! write of a delivery, and looks at what comes of it.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests"
)]

pub mod clock;
pub mod crash;
pub mod dead;
pub mod deployment;
pub mod fleet;
pub mod isolation;
pub mod load;
pub mod memory_group;
pub mod repository;
pub mod rounds;

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use convoy_testkit::PipedProcess;
use serde_json::Value;

/// How long anything may take before its test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The convoy program: beside the tests in cargo's target folder.
///
/// # Panics
/// When it was not built; `cargo xtask test` builds it first.
pub fn convoy_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().find(|folder| folder.join("convoy").is_file());
    profile
        .map(|folder| folder.join("convoy"))
        .expect("convoy is not built: run `cargo build -p convoy` first")
}

/// A run of the convoy program that stays. It ends with the test, also when that is killed.
#[derive(Debug)]
pub struct Convoy {
    process: PipedProcess,
    ready_line: String,
    /// Ends with its output.
    reading: JoinHandle<()>,
}

impl Convoy {
    /// Starts the program and waits for its first line of output.
    ///
    /// # Errors
    /// What it wrote to standard error, when it ended before.
    pub fn start(arguments: &[&str]) -> Result<Self, String> {
        let (process, stdout, mut stderr) = PipedProcess::start(&convoy_program(), arguments).unwrap();
        let (sender, lines) = mpsc::channel();
        let reading = std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // When nobody listens any more it is still read, so that the program never blocks on output.
                let _ = sender.send(line);
            }
        });
        // Read as it comes, for the same reason.
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        match lines.recv_timeout(PATIENCE) {
            Ok(ready_line) => Ok(Self { process, ready_line, reading }),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                process.end();
                Err(errors.join().unwrap_or_default())
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                process.end();
                Err(format!("no word after {} s: {}", PATIENCE.as_secs(), errors.join().unwrap_or_default()))
            }
        }
    }

    /// Starts a whole control plane that keeps all in a folder, with more flags.
    ///
    /// # Errors
    /// As [`Self::start`].
    ///
    /// # Panics
    /// When the folder's path is not UTF-8.
    pub fn standalone(data: &Path, more: &[&str]) -> Result<Self, String> {
        let arguments = ["standalone", "--data-dir", data.to_str().unwrap(), "--port", "0"];
        Self::start(&[&arguments, more].concat())
    }

    /// The line that said it was ready.
    pub fn ready_line(&self) -> &str {
        &self.ready_line
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to end, as a pod is asked, and answers with its exit code.
    ///
    /// # Panics
    /// When it cannot be asked, or does not end in time.
    pub fn terminate(self) -> Option<i32> {
        self.ask_to_end();
        self.ended()
    }

    /// Asks it to end, and leaves it to that.
    ///
    /// # Panics
    /// When it cannot be asked.
    pub fn ask_to_end(&self) {
        let asked = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().unwrap();
        assert!(asked.success(), "kill -TERM failed");
    }

    /// Its exit code, when it has ended by itself.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn ended(self) -> Option<i32> {
        until("it ends", || self.reading.is_finished().then_some(()));
        self.process.end()
    }

    /// Ends it as `kill -9` does.
    pub fn kill(self) {
        self.process.end();
    }
}

/// Runs the convoy program to its end.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(convoy_program()).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// The convoy program as a person uses it, with a kubeconfig.
#[derive(Debug)]
pub struct Cli {
    kubeconfig: PathBuf,
}

impl Cli {
    /// Against the control plane of a kubeconfig.
    pub fn new(kubeconfig: &Path) -> Self {
        Self { kubeconfig: kubeconfig.to_owned() }
    }

    /// Runs a command line, in words without spaces: exit code, standard output, standard error.
    ///
    /// # Panics
    /// When it does not start, or prints what is no text.
    pub fn run(&self, line: &str) -> (Option<i32>, String, String) {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.extend(["--kubeconfig", self.kubeconfig.to_str().unwrap()]);
        let output = run(&arguments);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Waits until a command line prints something.
    ///
    /// # Panics
    /// When it does not within [`PATIENCE`].
    pub fn until(&self, line: &str, wanted: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, out, err) = self.run(line);
            if out.contains(wanted) {
                return out;
            }
            assert!(Instant::now() < deadline, "{line}: {wanted}:\n{out}{err}");
        }
    }
}

/// kubectl with a kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// kubectl against the cluster of a kubeconfig.
    pub fn new(program: &Path, kubeconfig: &Path) -> Self {
        Self { program: program.to_owned(), kubeconfig: kubeconfig.to_owned() }
    }

    /// Runs a command; standard input is given as text.
    pub fn command(&self, arguments: &[&str], input: &str) -> Output {
        self.command_with_editor(arguments, input, "false")
    }

    /// `kubectl edit` by a script of sed.
    ///
    /// # Panics
    /// When it fails.
    pub fn edit(&self, arguments: &[&str], script: &str) -> String {
        let arguments = [&["edit"], arguments].concat();
        let output = self.command_with_editor(&arguments, "", &format!("sed -i '{script}'"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn command_with_editor(&self, arguments: &[&str], input: &str, editor: &str) -> Output {
        use std::io::Write as _;
        let mut child = Command::new(&self.program)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBE_EDITOR", editor)
            // No cache of discovery from another test.
            .env("HOME", self.kubeconfig.parent().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs a command that has to succeed, and answers with its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn ok(&self, arguments: &[&str]) -> String {
        self.ok_with(arguments, "")
    }

    /// The same, with standard input.
    ///
    /// # Panics
    /// When it fails.
    pub fn ok_with(&self, arguments: &[&str], input: &str) -> String {
        let output = self.command(arguments, input);
        assert!(
            output.status.success(),
            "kubectl {}: {}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// An object as JSON; `None` when it is not there.
    pub fn object(&self, arguments: &[&str]) -> Option<Value> {
        let all: Vec<&str> = ["get", "-o", "json", "--show-managed-fields"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let output = self.command(&all, "");
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }
}

/// Waits until `look` answers, looking again ever more slowly.
///
/// # Panics
/// When that takes longer than [`PATIENCE`]; `what` says what was waited for.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    let mut pause = Duration::from_millis(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "not after {} s: {what}", PATIENCE.as_secs());
        // The pause of a poll with a deadline: what is waited for is a state, not a time.
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}
