//! Counts, and the first difference of each case that differs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::compare::{Outcome, Verdict};
use crate::variants::Kind;

/// Longer lines are cut when they are shown.
const SHOWN: usize = 600;

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    equal: usize,
    equal_but: usize,
    masked_lines: usize,
    different: usize,
    only_we_fail: usize,
    only_helm_fails: usize,
    error_equal: usize,
    error_different: usize,
    helm: Duration,
    ours: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    kinds: BTreeMap<Kind, Counts>,
}

impl Report {
    pub(crate) fn add(&mut self, kind: Kind, chart: &str, variant: &str, outcome: &Outcome, verbose: bool) {
        let counts = self.kinds.entry(kind).or_default();
        counts.helm += outcome.helm;
        counts.ours += outcome.ours;
        let cut = |text: &str| {
            if verbose { text.to_owned() } else { text.chars().take(SHOWN).collect::<String>() }
        };
        match &outcome.verdict {
            Verdict::Equal => counts.equal += 1,
            Verdict::EqualBut(lines) => {
                counts.equal_but += 1;
                counts.masked_lines += lines;
            }
            Verdict::ErrorEqual => counts.error_equal += 1,
            Verdict::Different(line, helm, ours) => {
                counts.different += 1;
                println!(
                    "DIFFERENT {chart} {variant}\n  line {line}\n  helm: {}\n  ours: {}",
                    cut(helm),
                    cut(ours)
                );
            }
            Verdict::OnlyWeFail(error) => {
                counts.only_we_fail += 1;
                println!("ONLY OURS FAILS {chart} {variant}\n  ours: {}", cut(error));
            }
            Verdict::OnlyHelmFails(error) => {
                counts.only_helm_fails += 1;
                println!("ONLY HELM FAILS {chart} {variant}\n  helm: {}", cut(error));
            }
            Verdict::ErrorDifferent(helm, ours) => {
                counts.error_different += 1;
                println!("ERROR DIFFERENT {chart} {variant}\n  helm: {}\n  ours: {}", cut(helm), cut(ours));
            }
        }
    }

    /// All outputs are equal, and where helm fails so do we.
    pub(crate) fn is_clean(&self) -> bool {
        self.kinds.values().all(|counts| counts.different + counts.only_we_fail + counts.only_helm_fails == 0)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10} {:>7} {:>7} {:>9} {:>9} {:>9} {:>10} | {:>10} {:>11} | {:>8} {:>8}",
            "variant",
            "cases",
            "equal",
            "equal but",
            "different",
            "we fail",
            "helm fails",
            "error same",
            "error other",
            "helm s",
            "ours s"
        )?;
        let mut masked = 0;
        for (kind, counts) in &self.kinds {
            let Counts { equal, equal_but, masked_lines, different, only_we_fail, only_helm_fails, .. } =
                counts;
            let Counts { error_equal, error_different, helm, ours, .. } = counts;
            let cases = equal
                + equal_but
                + different
                + only_we_fail
                + only_helm_fails
                + error_equal
                + error_different;
            masked += masked_lines;
            writeln!(
                f,
                "{:<10} {cases:>7} {equal:>7} {equal_but:>9} {different:>9} {only_we_fail:>9} {only_helm_fails:>10} | {error_equal:>10} {error_different:>11} | {:>8.1} {:>8.1}",
                kind.name(),
                helm.as_secs_f64(),
                ours.as_secs_f64()
            )?;
        }
        writeln!(f, "{masked} lines were left out because they differ between two runs of helm")
    }
}
