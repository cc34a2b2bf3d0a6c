//! `cargo xtask hostile-charts`: charts whose author wants to hurt, each rendered until a limit ends it.
//!
//! It fails when a render ends otherwise than it has to, takes longer than it is given, goes on for more than 50 ms after it
//! was cancelled, or when the process needs more than 200 MB.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]
#![allow(clippy::disallowed_methods, reason = "a chore: it looks at the time")]

mod kinds;

use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use convoy_helm::{Capabilities, Chart, Entropy, Environment, Limit, ReleaseOptions, Values, render};
use kinds::{KINDS, Kind};

/// What a render is given, as in a controller-manager.
const GIVEN: Duration = Duration::from_secs(30);
/// How soon a cancelled render has to end.
const SOON: Duration = Duration::from_millis(50);
/// Kilobytes.
const MOST_MEMORY: u64 = 200_000;

/// Numbers that anyone can foresee.
struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = self.0.to_be_bytes().first().copied().unwrap_or_default();
        }
    }
}

/// How a render ended.
struct End {
    took: Duration,
    /// After it was cancelled.
    lag: Duration,
    limit: Option<Limit>,
    error: Option<String>,
}

fn run(kind: &Kind, size: usize, cancelled_after: Option<Duration>) -> Result<End, String> {
    let template = kind.template.replace("SIZE", &size.to_string());
    let values = match kind.values {
        "LARGE" => (0..40_000).map(|at| format!("k{at}: [{at}, {size}]\n")).collect(),
        values => values.to_owned(),
    };
    let mut files = vec![
        ("Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n".to_owned()),
        ("templates/x.yaml", template),
        ("values.yaml", values),
    ];
    if !kind.schema.is_empty() {
        files.push(("values.schema.json", kind.schema.to_owned()));
    }
    let start = Instant::now();
    let chart = match Chart::load(files.into_iter().map(|(name, text)| (name.to_owned(), text))) {
        Ok(chart) => chart,
        // Values that are a bomb are refused here.
        Err(error) => {
            let (took, lag) = (start.elapsed(), Duration::ZERO);
            return Ok(End { took, lag, limit: None, error: Some(error.to_string()) });
        }
    };
    let given = cancelled_after.unwrap_or(GIVEN);
    let stopped: Rc<Cell<Option<Instant>>> = Rc::default();
    let seen = Rc::clone(&stopped);
    let start = Instant::now();
    let mut environment =
        Environment::new(jiff::Timestamp::UNIX_EPOCH, Counter(size as u64)).with_deadline(move || {
            let is_late = start.elapsed() > given;
            if is_late && seen.get().is_none() {
                seen.set(Some(start + given));
            }
            is_late
        });
    let release = ReleaseOptions::default();
    let result = render(&chart, &Values::new(), &release, &Capabilities::default(), &mut environment);
    drop(environment);
    let took = start.elapsed();
    let lag = stopped.get().map_or(Duration::ZERO, |at| at.elapsed()).max(took.saturating_sub(given));
    let (limit, error) = match result {
        Ok(_) => (None, None),
        Err(error) => (error.reached_limit(), Some(error.to_string())),
    };
    Ok(End { took, lag, limit, error })
}

/// The most memory that this process had, in kilobytes.
fn peak() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let number = line.split_whitespace().next().ok_or("no number")?;
    number.parse().map_err(|_| "no number".to_owned())
}

fn main() -> ExitCode {
    match all() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hostile-charts: {error}");
            ExitCode::from(2)
        }
    }
}

fn all() -> Result<usize, String> {
    let mut arguments = std::env::args().skip(1);
    let renders: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let only = arguments.next();
    let mut faults = 0;
    let (mut done, mut longest, mut lag) = (0, Duration::ZERO, Duration::ZERO);
    let kinds: Vec<&Kind> =
        KINDS.iter().filter(|kind| only.as_ref().is_none_or(|only| kind.name.contains(only))).collect();
    println!("{:<44} {:<11} {:>9} {:>9} {:>9}", "chart", "ended by", "took ms", "lag ms", "peak MB");
    let rounds = renders.div_ceil(kinds.len().max(1));
    for round in 0..rounds {
        for kind in &kinds {
            if done == renders {
                break;
            }
            done += 1;
            // Every other render is cancelled early.
            let cancelled = (round % 2 == 1).then(|| Duration::from_millis(5 + 7 * (round as u64 % 20)));
            let end = run(kind, 9 + round % 90, cancelled)?;
            let is_expected = match end.limit {
                Some(Limit::Deadline) => cancelled.is_some(),
                Some(limit) => kind.ends.contains(&limit),
                None => kind.ends.is_empty(),
            };
            let is_late = end.took > GIVEN || cancelled.is_some() && end.lag > SOON;
            longest = longest.max(end.took);
            if cancelled.is_some() {
                lag = lag.max(end.lag);
            }
            if round == 0 || !is_expected || is_late {
                println!(
                    "{:<44} {:<11} {:>9.1} {:>9.1} {:>9.1}{}",
                    kind.name,
                    end.limit.map_or_else(|| "-".to_owned(), |limit| format!("{limit:?}")),
                    end.took.as_secs_f64() * 1e3,
                    end.lag.as_secs_f64() * 1e3,
                    peak()? as f64 / 1e3,
                    if is_late { "  LATE" } else { "" },
                );
            }
            if !is_expected {
                let text: String =
                    end.error.unwrap_or_else(|| "no error".to_owned()).chars().take(300).collect();
                println!("  NOT AS EXPECTED: {text}");
            }
            faults += usize::from(!is_expected || is_late);
        }
    }
    let peak = peak()?;
    println!(
        "{done} renders, {faults} not as they have to be; the longest took {:.1} s, a cancelled one at most {:.1} ms more; \
         peak {:.1} MB",
        longest.as_secs_f64(),
        lag.as_secs_f64() * 1e3,
        peak as f64 / 1e3
    );
    Ok(faults + usize::from(peak > MOST_MEMORY))
}
