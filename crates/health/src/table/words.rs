//! The table in words, for the documentation.

use super::{Check, Otherwise, Rule, Test, rules};
use crate::health::State;

/// One line of the documentation: kinds, and what makes them what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindRule {
    /// The group; `*.name` is for all groups below a name.
    pub group: &'static str,
    /// The kinds; empty for all others of the group.
    pub kinds: &'static [&'static str],
    /// What is looked at, in order: the first that holds decides.
    pub checks: Vec<String>,
}

/// The rules of the kinds that are told by their conditions or their phase.
pub fn kind_rules() -> Vec<KindRule> {
    let in_words = |rule: &'static Rule| {
        let otherwise = match rule.otherwise {
            Otherwise::Waits => "else Progressing",
            Otherwise::IsHealthy => "else Healthy",
        };
        let checks = rule.checks.iter().map(said).chain([otherwise.to_owned()]).collect();
        KindRule { group: rule.group, kinds: rule.kinds, checks }
    };
    rules().map(in_words).collect()
}

fn said(check: &Check) -> String {
    let list = |all: &[&str]| all.join(" or ");
    let test = match &check.test {
        Test::Condition { place, type_, statuses, reasons, but_for } => {
            let whose = place.trim_start_matches("/status/").trim_end_matches("conditions");
            let whose = whose.trim_end_matches("/*/");
            let of = if whose.is_empty() { String::new() } else { format!(" of one of its {whose}") };
            let why = if reasons.is_empty() { String::new() } else { format!(" for {}", list(reasons)) };
            let spared =
                if but_for.is_empty() { String::new() } else { format!(", but for {}", list(but_for)) };
            format!("`{type_}`{of} is {}{why}{spared}", list(statuses))
        }
        Test::Text { pointer, values, .. } => format!("`{}` is {}", dotted(pointer), list(values)),
        Test::Flag(pointer) => format!("`{}` is true", dotted(pointer)),
        Test::Filled(pointer) => format!("`{}` is set", dotted(pointer)),
        Test::Empty(pointer) => format!("`{}` is empty", dotted(pointer)),
        Test::Annotation(name, value) => format!("the annotation `{name}` is {value}"),
        Test::Numbers(first, second, are_equal) => {
            let is = if *are_equal { "is" } else { "is not" };
            format!("`{}` {is} `{}`", dotted(first), dotted(second))
        }
    };
    let waits = if check.state == State::Progressing && !check.blocking {
        " without holding back others"
    } else {
        ""
    };
    format!("{}{waits} when {test}", check.state.as_str())
}

fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}
