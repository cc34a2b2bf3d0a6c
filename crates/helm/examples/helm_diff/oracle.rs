//! The real helm, kept running (see tools/helm/resident) or started for each command.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// One process answers fewer commands than it would take.
const COMMANDS: usize = 200;
/// A chart that keeps helm busy for longer counts as failing.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a command printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) ok: bool,
    pub(crate) out: Vec<u8>,
    /// From `Error: ` on.
    pub(crate) error: String,
}

struct Running {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
    commands: usize,
}

/// Starts helm anew when it has answered enough or died.
pub(crate) struct Helm {
    program: PathBuf,
    /// Whether it answers one command after the other; otherwise it is started for each.
    is_resident: bool,
    home: tempfile::TempDir,
    running: Option<Running>,
    /// Time in which it was waited for.
    pub(crate) took: Duration,
}

impl Helm {
    pub(crate) fn new(program: &Path, is_resident: bool) -> Result<Self, String> {
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        Ok(Self { program: program.to_path_buf(), is_resident, home, running: None, took: Duration::ZERO })
    }

    /// Runs `helm` with arguments.
    pub(crate) fn run(&mut self, arguments: &[String]) -> Result<Printed, String> {
        if !self.is_resident {
            return self.run_once(arguments);
        }
        if self.running.as_ref().is_some_and(|running| running.commands >= COMMANDS) {
            self.stop();
        }
        if self.running.is_none() {
            self.running = Some(self.start()?);
        }
        let Some(running) = &mut self.running else { return Err("helm does not run".to_owned()) };
        running.commands += 1;
        let mut line = serde_json::Value::from(arguments.to_vec()).to_string();
        line.push('\n');
        let since = Instant::now();
        let sent = running.input.write_all(line.as_bytes()).and_then(|()| running.input.flush());
        let answer = match sent {
            Ok(()) => running.answers.recv_timeout(PATIENCE),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        self.took += since.elapsed();
        match answer {
            Ok(answer) => read(&answer),
            Err(reason) => {
                self.stop();
                let error = match reason {
                    RecvTimeoutError::Timeout => "helm did not end in time",
                    RecvTimeoutError::Disconnected => "helm died",
                };
                Ok(Printed { ok: false, out: Vec::new(), error: error.to_owned() })
            }
        }
    }

    /// A process for one command. `timeout` ends it.
    fn run_once(&mut self, arguments: &[String]) -> Result<Printed, String> {
        let since = Instant::now();
        let mut command = self.command(Path::new("timeout"));
        command.arg(PATIENCE.as_secs().to_string()).arg(&self.program).args(arguments);
        let output = command.output().map_err(|error| format!("{}: {error}", self.program.display()))?;
        self.took += since.elapsed();
        let error = String::from_utf8_lossy(&output.stderr);
        let error = error.find("Error: ").map_or("", |at| error.get(at..).unwrap_or_default()).to_owned();
        Ok(Printed { ok: output.status.success(), out: output.stdout, error })
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("HOME", self.home.path())
            .env("KUBECONFIG", "/dev/null")
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            .env_remove("HELM_NAMESPACE")
            .env_remove("HELM_DEBUG");
        command
    }

    fn start(&self) -> Result<Running, String> {
        let mut child = self
            .command(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("helm has no pipes".to_owned());
        };
        let (send, answers) = sync_channel(1);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Running { child, input, answers, commands: 0 })
    }

    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

impl Drop for Helm {
    fn drop(&mut self) {
        self.stop();
    }
}

fn read(answer: &str) -> Result<Printed, String> {
    let answer: serde_json::Value = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    let bytes = |name: &str| {
        let text = answer.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        decode(text).ok_or_else(|| format!("{name} of helm's answer is no base64"))
    };
    let error = String::from_utf8_lossy(&bytes("err")?).into_owned();
    let error = error.find("Error: ").map_or("", |at| error.get(at..).unwrap_or_default()).to_owned();
    let ok = answer.get("code").and_then(serde_json::Value::as_i64) == Some(0);
    Ok(Printed { ok, out: bytes("out")?, error })
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}
