//! A program that ends with the test, even when the test is killed.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The shell between the test and the program waits for its input to end, which happens when this
/// process closes it or dies in any way, and then kills the program.
const GUARD: &str = r#""$@" </dev/null & echo $!; exec >/dev/null; read _; kill -9 $!; wait"#;

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    shell: Child,
    pid: u32,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; what it prints goes to `log`.
    ///
    /// # Errors
    /// When the log cannot be written or no process started.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg("sh")
            .args(["-c", r#"log=$1; shift; exec "$@" >"$log" 2>&1"#, "redirect"])
            .arg(log)
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log.with_extension("guard"))?)
            .spawn()?;
        let stdout = shell.stdout.take().ok_or_else(|| io::Error::other("the shell has no output"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let pid = line.trim().parse().map_err(io::Error::other)?;
        Ok(Self { shell, pid, log: log.to_owned() })
    }

    /// Whether the program has ended. Known on Linux; elsewhere a program counts as running.
    pub fn has_ended(&self) -> bool {
        if !Path::new("/proc/self/stat").exists() {
            return false;
        }
        // After the name in parentheses comes the state; Z is a program that ended.
        fs::read_to_string(format!("/proc/{}/stat", self.pid)).map_or(true, |stat| {
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
        })
    }

    /// The memory that it has in use now (`VmRSS`), on Linux.
    ///
    /// # Errors
    /// When the program has ended, or elsewhere.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        self.memory("VmRSS")
    }

    /// The part of its resident memory that is in no file, in bytes: without the program's text, which processes of
    /// one program share.
    ///
    /// # Errors
    /// As [`Self::resident_bytes`].
    pub fn anonymous_bytes(&self) -> io::Result<u64> {
        self.memory("RssAnon")
    }

    /// A field of `/proc/<pid>/status`, see proc_pid_status(5).
    fn memory(&self, field: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        kibibytes.map(|kibibytes| kibibytes * 1024).ok_or_else(|| io::Error::other(format!("no {field}")))
    }

    /// Sends a signal: `KILL`, `TERM`, `STOP`, `CONT`.
    ///
    /// # Errors
    /// When the program has ended.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let output = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.pid)).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }

    /// The first line of its log that holds this text.
    pub fn line_with(&self, text: &str) -> Option<String> {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        // The last line may not be whole yet.
        let whole = log.rsplit_once('\n')?.0;
        whole.lines().find(|line| line.contains(text)).map(str::to_owned)
    }

    /// The last lines of its log.
    pub fn last_lines(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().rev().take(12).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
