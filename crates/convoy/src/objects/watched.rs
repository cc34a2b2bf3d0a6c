//! `--watch` of the commands that ask an observer: an answer is printed when it is another than before.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use convoy_runtime::Clock;

use crate::terminal::Display;
use crate::told::told;

/// The longest wait after answers that failed.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// An answer as it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) text: String,
    /// What the command's exit code says.
    pub(super) is_good: bool,
    /// Whether nothing more is waited for.
    pub(super) is_last: bool,
}

/// Asks again `every` so often, until an answer is the last or somebody presses Ctrl-C. What `ask` says first has to
/// succeed; what fails later is told and tried again, ever less often.
pub(super) async fn watch(
    every: Duration,
    clock: &dyn Clock,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Shown>,
) -> anyhow::Result<bool> {
    let display = Display::detect();
    let mut screen = Screen::default();
    let mut last = ask().await?;
    print(&screen.show(&last.text, display, clock))?;
    let mut wait = every;
    while !last.is_last {
        tokio::select! {
            () = clock.sleep(wait) => {}
            _ = tokio::signal::ctrl_c() => break,
        }
        let answered = tokio::select! {
            answered = ask() => answered,
            _ = tokio::signal::ctrl_c() => break,
        };
        match answered {
            Ok(shown) => {
                wait = every;
                last = shown;
                print(&screen.show(&last.text, display, clock))?;
            }
            Err(error) => {
                wait = (wait * 2).min(LONGEST_WAIT);
                eprintln!("convoy: {}; it is tried again", told(&error));
                screen.lines = 0;
            }
        }
    }
    Ok(last.is_good)
}

/// Prints the only answer.
pub(super) fn shown_once(shown: &Shown) -> anyhow::Result<bool> {
    print(&shown.text)?;
    Ok(shown.is_good)
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("printing")
}

/// What was printed so far.
#[derive(Debug, Default)]
struct Screen {
    said: Option<String>,
    /// Lines of the last block that stand on the terminal.
    lines: usize,
}

impl Screen {
    /// What to print for an answer: nothing when it is the last one again. On a terminal it takes the place of the one
    /// before; else it is a block of its own, after a line that says when it came.
    fn show(&mut self, text: &str, display: Display, clock: &dyn Clock) -> String {
        if self.said.as_deref() == Some(text) {
            return String::new();
        }
        let is_first = self.said.replace(text.to_owned()).is_none();
        let lines = std::mem::replace(&mut self.lines, text.lines().count());
        match display {
            Display::Terminal if lines > 0 => format!("\x1b[{lines}A\x1b[J{text}"),
            Display::Plain if !is_first => {
                let now = jiff::Timestamp::from_second(clock.now().as_second()).unwrap_or_default();
                format!("# {now}\n{text}")
            }
            _ => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use convoy_runtime::{ManualClock, RealClock};

    use super::*;

    #[test]
    fn a_terminal_is_drawn_anew_and_a_pipe_gets_blocks() {
        let clock = RealClock::new();
        let mut screen = Screen::default();
        let show = |screen: &mut Screen, text: &str| screen.show(text, Display::Terminal, &clock);
        assert_eq!(show(&mut screen, "a\nb\n"), "a\nb\n");
        assert_eq!(show(&mut screen, "a\nb\n"), "");
        assert_eq!(show(&mut screen, "c\n"), "\x1b[2A\x1b[Jc\n");
        let mut piped = Screen::default();
        assert_eq!(piped.show("a\n", Display::Plain, &clock), "a\n");
        assert_eq!(piped.show("a\n", Display::Plain, &clock), "");
        let later = piped.show("", Display::Plain, &clock);
        assert!(
            later.starts_with("# 20") && later.ends_with("Z\n"),
            "nothing is something to tell, too: {later}"
        );
    }

    #[tokio::test]
    async fn it_ends_with_the_last_answer_and_goes_on_after_a_failure() {
        let clock = ManualClock::at(jiff::Timestamp::UNIX_EPOCH);
        let mut answers = vec![Ok(true), Err("gone"), Ok(false)];
        let asking = watch(Duration::ZERO, &clock, async || match answers.pop().unwrap() {
            Ok(is_last) => Ok(Shown { text: String::new(), is_good: is_last, is_last }),
            Err(error) => anyhow::bail!(error),
        });
        assert!(asking.await.unwrap());
        let failing = watch(Duration::ZERO, &clock, async || anyhow::bail!("no such Release"));
        assert!(failing.await.is_err(), "what is wrong from the beginning is not waited for");
    }
}
