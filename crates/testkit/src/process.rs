//! A program that ends with the test, even when the test is killed.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

/// The shell between the test and the program waits for its input to end, which happens when this
/// process closes it or dies in any way, and then kills the program.
const GUARD: &str = r#""$@" </dev/null & echo $!; exec >/dev/null; read _; kill -9 $!; wait"#;

/// The same for a program whose output its starter reads. It says its own pid before the program runs, so that this is
/// the first line.
const PIPED_GUARD: &str = r#"sh -c 'echo $$; exec "$@"' run "$@" </dev/null & pid=$!
exec >/dev/null 2>/dev/null; read _; kill -9 $pid; wait $pid"#;

/// A running program whose output is read as it comes. Dropping it kills it, and so does the death of this process.
#[derive(Debug)]
pub struct PipedProcess {
    shell: Child,
    pid: u32,
}

impl PipedProcess {
    /// Starts `program`; answers with what it prints from then on to standard output and to standard error. Both end when
    /// it does.
    ///
    /// # Errors
    /// When no process started.
    pub fn start(
        program: &Path,
        arguments: &[&str],
    ) -> io::Result<(Self, BufReader<ChildStdout>, ChildStderr)> {
        let mut shell = Command::new("sh")
            .args(["-c", PIPED_GUARD, "guard"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let none = || io::Error::other("the shell has no output");
        let stdout = shell.stdout.take().ok_or_else(none)?;
        let stderr = shell.stderr.take().ok_or_else(none)?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let pid = line.trim().parse().map_err(io::Error::other)?;
        Ok((Self { shell, pid }, stdout, stderr))
    }

    /// The program's process.
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Kills the program unless it has ended, and answers with its exit code; none when a signal ended it.
    pub fn end(mut self) -> Option<i32> {
        drop(self.shell.stdin.take());
        // A shell gives 128 and the signal's number.
        self.shell.wait().ok().and_then(|status| status.code()).filter(|code| *code < 128)
    }
}

impl Drop for PipedProcess {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    shell: Child,
    pid: u32,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; what it prints goes to `log`.
    ///
    /// # Errors
    /// When the log cannot be written or no process started.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> io::Result<Self> {
        File::create(log)?;
        Self::go_on(program, arguments, log)
    }

    /// Ends it as `kill -9` does, and starts it once more; its log goes on.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart(&mut self) -> io::Result<()> {
        drop(self.shell.stdin.take());
        self.shell.wait()?;
        *self = Self::go_on(&self.program, &self.arguments, &self.log)?;
        Ok(())
    }

    fn go_on(program: &Path, arguments: &[String], log: &Path) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg("sh")
            .args(["-c", r#"log=$1; shift; exec "$@" >>"$log" 2>&1"#, "redirect"])
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
        let (program, arguments) = (program.to_owned(), arguments.to_vec());
        Ok(Self { shell, pid, program, arguments, log: log.to_owned() })
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_program_whose_output_is_read_ends_with_its_guards_input_and_tells_its_exit_code() {
        let sh = Path::new("sh");
        let (process, mut output, _) =
            PipedProcess::start(sh, &["-c", "printf 'one\ntwo\n'; exec sleep 1000"]).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "one\n");
        drop(process);
        // It is closed when the program is gone.
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two\n");

        let (process, mut output, mut errors) =
            PipedProcess::start(sh, &["-c", "echo why >&2; exit 7"]).unwrap();
        output.read_to_string(&mut rest).unwrap();
        let mut said = String::new();
        errors.read_to_string(&mut said).unwrap();
        assert_eq!((said.as_str(), process.end()), ("why\n", Some(7)));
    }
}
