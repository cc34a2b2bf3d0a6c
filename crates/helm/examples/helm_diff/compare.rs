//! Whether two outputs, or two errors, are the same.

use std::time::Duration;

use crate::oracle::{Helm, Printed};
use crate::ours::Loaded;
use crate::variants::Case;

/// How often helm is asked again for an error that differs: some name one of several causes at random.
const RETRIES: usize = 4;

/// What a comparison found.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) helm: Duration,
    pub(crate) ours: Duration,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    Equal,
    /// So many lines differ between two runs of helm; the others are equal.
    EqualBut(usize),
    /// Line, helm's, ours.
    Different(usize, String, String),
    ErrorEqual,
    /// helm's, ours.
    ErrorDifferent(String, String),
    /// helm renders, we fail.
    OnlyWeFail(String),
    /// We render, helm fails.
    OnlyHelmFails(String),
}

pub(crate) fn compare(helm: &mut Helm, ours: &Loaded, case: &Case) -> Result<Outcome, String> {
    let before = helm.took;
    let first = helm.run(&case.arguments)?;
    let helm_took = helm.took.saturating_sub(before);
    let (our, ours_took) = ours.run(&case.flags);
    let verdict = match (first.ok, our.ok) {
        (true, true) if first.out == our.out => Verdict::Equal,
        (true, true) => outputs(helm, case, &first, &our)?,
        (true, false) => Verdict::OnlyWeFail(our.error),
        (false, true) => Verdict::OnlyHelmFails(first.error),
        (false, false) => errors(helm, case, &first, &our)?,
    };
    Ok(Outcome { verdict, helm: helm_took, ours: ours_took })
}

fn errors(helm: &mut Helm, case: &Case, first: &Printed, our: &Printed) -> Result<Verdict, String> {
    let sorted = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let mut other = None;
    let mut tried = first.clone();
    for _ in 0..=RETRIES {
        // Several violations come in the order of a Go map, which is a new one each time.
        if tried.error == our.error || sorted(&tried.error) == sorted(&our.error) {
            return Ok(Verdict::ErrorEqual);
        }
        if tried.error != first.error {
            other = Some(tried.error.clone());
        }
        tried = helm.run(&case.arguments)?;
    }
    let shown = match other {
        Some(other) => format!("{}(or) {other}", first.error),
        None => first.error.clone(),
    };
    Ok(Verdict::ErrorDifferent(shown, our.error.clone()))
}

fn outputs(helm: &mut Helm, case: &Case, first: &Printed, our: &Printed) -> Result<Verdict, String> {
    let second = helm.run(&case.arguments)?;
    let lines = |printed: &Printed| -> Vec<Vec<u8>> {
        printed.out.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    };
    let (first, second, our) = (lines(first), lines(&second), lines(our));
    let mut masked = 0;
    let most = first.len().max(our.len());
    for at in 0..most {
        let (one, ours) = (first.get(at), our.get(at));
        if one == ours {
            continue;
        }
        if let (Some(one), Some(two), Some(ours)) = (one, second.get(at), ours)
            && one != two
            && label(one) == label(ours)
            && first.len() == our.len()
        {
            masked += 1;
            continue;
        }
        let show = |line: Option<&Vec<u8>>| {
            line.map_or("(no line)".to_owned(), |line| String::from_utf8_lossy(line).into_owned())
        };
        return Ok(Verdict::Different(at + 1, show(one), show(ours)));
    }
    Ok(Verdict::EqualBut(masked))
}

/// What stands before the value: the key of a YAML line.
fn label(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| *byte == b':').unwrap_or(0);
    line.get(..end).unwrap_or_default()
}
