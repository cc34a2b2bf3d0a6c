//! Kinds whose controllers say in conditions or in a phase how their objects are: one table for all of them.
//!
//! A [`Rule`] is for kinds of a group. Its checks are looked at in order, and the first that holds decides; when none
//! does, the object is on its way, unless the rule says otherwise.

mod delivery;
mod kubernetes;
mod platform;
mod words;

pub use words::{KindRule, kind_rules};

use serde_json::Value;

use crate::field::{Condition, flag, number, text};
use crate::health::{Health, State};

/// What holds for some kinds of a group.
#[derive(Debug)]
pub(crate) struct Rule {
    /// A group; `*.name` is for all groups below a name.
    group: &'static str,
    /// Empty for all kinds of the group that no rule before names.
    kinds: &'static [&'static str],
    checks: &'static [Check],
    otherwise: Otherwise,
}

/// What an object is when no check holds.
#[derive(Debug)]
enum Otherwise {
    /// On its way: its controller has not said enough yet.
    Waits,
    /// Its controller says only what is wrong.
    IsHealthy,
}

/// One look at an object, and what it is when that finds something.
#[derive(Debug)]
pub(crate) struct Check {
    test: Test,
    state: State,
    blocking: bool,
}

#[derive(Debug)]
enum Test {
    /// A condition with one of the statuses; with one of the reasons (or severities), or none of them.
    Condition {
        /// Where the list of conditions is; `*` stands for all items of a list.
        place: &'static str,
        type_: &'static str,
        statuses: &'static [&'static str],
        reasons: &'static [&'static str],
        but_for: &'static [&'static str],
    },
    /// A text that is one of those.
    Text { pointer: &'static str, values: &'static [&'static str], message: &'static str },
    /// A boolean that is true.
    Flag(&'static str),
    /// A field that has something in it.
    Filled(&'static str),
    /// A field that has nothing in it, or is not there.
    Empty(&'static str),
    /// An annotation with a value.
    Annotation(&'static str, &'static str),
    /// Two numbers, when the first is there, that are the same, or are not.
    Numbers(&'static str, &'static str, bool),
}

const CONDITIONS: &str = "/status/conditions";
const TRUE: &[&str] = &["True"];
const FALSE: &[&str] = &["False"];
const UNKNOWN: &[&str] = &["Unknown"];

const fn condition(type_: &'static str, statuses: &'static [&'static str], state: State) -> Check {
    let test = Test::Condition { place: CONDITIONS, type_, statuses, reasons: &[], but_for: &[] };
    Check { test, state, blocking: true }
}

const fn healthy_if(type_: &'static str) -> Check {
    condition(type_, TRUE, State::Healthy)
}

const fn degraded_if(type_: &'static str) -> Check {
    condition(type_, TRUE, State::Degraded)
}

const fn degraded_unless(type_: &'static str) -> Check {
    condition(type_, FALSE, State::Degraded)
}

const fn progressing_if(type_: &'static str) -> Check {
    condition(type_, TRUE, State::Progressing)
}

const fn progressing_unless(type_: &'static str) -> Check {
    condition(type_, &["False", "Unknown"], State::Progressing)
}

const fn phase(values: &'static [&'static str], state: State) -> Check {
    text_of("/status/phase", values, "/status/message", state)
}

const fn text_of(
    pointer: &'static str,
    values: &'static [&'static str],
    message: &'static str,
    state: State,
) -> Check {
    Check { test: Test::Text { pointer, values, message }, state, blocking: true }
}

const fn suspended_if(pointer: &'static str) -> Check {
    Check { test: Test::Flag(pointer), state: State::Suspended, blocking: true }
}

const fn filled(pointer: &'static str, state: State) -> Check {
    Check { test: Test::Filled(pointer), state, blocking: true }
}

const fn empty(pointer: &'static str, state: State) -> Check {
    Check { test: Test::Empty(pointer), state, blocking: true }
}

impl Check {
    const fn when(mut self, wanted: &'static [&'static str]) -> Self {
        if let Test::Condition { reasons, .. } = &mut self.test {
            *reasons = wanted;
        }
        self
    }

    const fn unless(mut self, spared: &'static [&'static str]) -> Self {
        if let Test::Condition { but_for, .. } = &mut self.test {
            *but_for = spared;
        }
        self
    }

    const fn at(mut self, there: &'static str) -> Self {
        if let Test::Condition { place, .. } = &mut self.test {
            *place = there;
        }
        self
    }

    /// It may rightly stay so for ever.
    const fn holds_nobody_back(mut self) -> Self {
        self.blocking = false;
        self
    }

    /// What the object is if this holds.
    fn of(&self, object: &Value) -> Option<Health> {
        let (reason, message) = self.test.finds(object)?;
        // Being healthy is told by its state alone.
        let health = match self.state {
            State::Healthy => Health::healthy(),
            state => Health::new(state, &reason, message),
        };
        Some(Health { blocking: self.blocking, ..health })
    }
}

impl Test {
    /// Reason and message, if it holds.
    fn finds(&self, object: &Value) -> Option<(String, String)> {
        match self {
            Self::Condition { place, type_, statuses, reasons, but_for } => {
                let found = conditions(object, place).into_iter().find(|(_, condition)| {
                    let is_one_of = |all: &[&str]| {
                        all.iter().any(|word| [condition.reason(), condition.severity()].contains(word))
                    };
                    let is_late = condition
                        .observed_generation()
                        .zip(number(object, "/metadata/generation"))
                        .is_some_and(|(observed, generation)| observed < generation);
                    condition.type_() == *type_
                        && !is_late
                        && statuses.iter().any(|status| condition.is(status))
                        && (reasons.is_empty() || is_one_of(reasons))
                        && !is_one_of(but_for)
                });
                let (of, condition) = found?;
                let reason = if condition.reason().is_empty() { type_ } else { condition.reason() };
                let said = condition.message();
                let text = if said.is_empty() {
                    format!("its condition {type_} is {}", condition.status())
                } else {
                    said.to_owned()
                };
                Some((reason.to_owned(), format!("{of}{text}")))
            }
            Self::Text { pointer, values, message } => {
                let value = text(object, pointer);
                if !values.contains(&value) {
                    return None;
                }
                let said = text(object, message);
                let name = pointer.rsplit('/').next().unwrap_or_default();
                let text = if said.is_empty() { format!("its {name} is {value:?}") } else { said.to_owned() };
                Some((word(value, name), text))
            }
            Self::Flag(pointer) => {
                let name = pointer.rsplit('/').next().unwrap_or_default();
                let pause = if name == "paused" { "Paused" } else { "Suspended" };
                flag(object, pointer).then(|| (pause.to_owned(), format!("it is {}", pause.to_lowercase())))
            }
            Self::Filled(pointer) => {
                let value = object.pointer(pointer).filter(|value| !is_empty(value))?;
                let said = ["/message", ""].iter().find_map(|below| value.pointer(below)?.as_str());
                let name = pointer.rsplit('/').next().unwrap_or_default();
                Some((capitalized(name), said.map_or_else(|| format!("it has {name}"), str::to_owned)))
            }
            Self::Empty(pointer) => {
                let name = pointer.rsplit('/').next().unwrap_or_default();
                let is_missing = object.pointer(pointer).is_none_or(is_empty);
                is_missing.then(|| (format!("No{}", capitalized(name)), format!("it has no {name} yet")))
            }
            Self::Annotation(name, value) => {
                let annotations = object.pointer("/metadata/annotations")?;
                let is_so = annotations.get(name)?.as_str()? == *value;
                is_so.then(|| ("Suspended".to_owned(), format!("its annotation {name} is {value:?}")))
            }
            Self::Numbers(first, second, are_equal) => {
                let (have, want) = (number(object, first)?, number(object, second).unwrap_or(0));
                ((have == want) == *are_equal)
                    .then(|| ("TooFew".to_owned(), format!("{have} of {want} are healthy")))
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// A value as a reason, if it is one word.
fn word(value: &str, name: &str) -> String {
    let is_word = value.starts_with(|first: char| first.is_ascii_alphabetic())
        && value.chars().all(|letter| letter.is_ascii_alphanumeric());
    capitalized(if is_word { value } else { name })
}

/// The conditions below a place, each with whose it is, in words, where that is not the object itself.
fn conditions<'a>(object: &'a Value, place: &str) -> Vec<(String, Condition<'a>)> {
    let Some((list, below)) = place.split_once("/*") else {
        let all = object.pointer(place).and_then(Value::as_array).into_iter().flatten();
        return all.map(|condition| (String::new(), Condition::new(condition))).collect();
    };
    let items = object.pointer(list).and_then(Value::as_array).into_iter().flatten();
    let with_name = |item: &'a Value| {
        const NAMES: [&str; 3] = ["/parentRef/name", "/ancestorRef/name", "/name"];
        let name = NAMES.iter().map(|pointer| text(item, pointer)).find(|name| !name.is_empty());
        let of = name.map_or_else(String::new, |name| format!("for {name}: "));
        let inner = item.pointer(below).and_then(Value::as_array).into_iter().flatten();
        inner.map(move |condition| (of.clone(), Condition::new(condition)))
    };
    items.flat_map(with_name).collect()
}

impl Rule {
    fn is_for(&self, group: &str, kind: &str) -> bool {
        let is_group = match self.group.strip_prefix('*') {
            Some(below) => group.ends_with(below),
            None => self.group == group,
        };
        is_group && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }

    fn of(&self, object: &Value) -> Health {
        if let Some(late) = self.stale(object) {
            return late;
        }
        let found = self.checks.iter().find_map(|check| check.of(object));
        found.unwrap_or_else(|| match self.otherwise {
            Otherwise::Waits => {
                Health::progressing("NoStatusYet", "its controller has not said how it is yet")
            }
            Otherwise::IsHealthy => Health::healthy(),
        })
    }

    /// When all that is said in conditions is about older generations.
    fn stale(&self, object: &Value) -> Option<Health> {
        let generation = number(object, "/metadata/generation")?;
        let mut places: Vec<&str> = self.checks.iter().filter_map(|check| check.test.place()).collect();
        places.dedup();
        let all = places.iter().flat_map(|place| conditions(object, place));
        let observed: Vec<i64> = all.filter_map(|(_, condition)| condition.observed_generation()).collect();
        let newest = observed.into_iter().max()?;
        (newest < generation).then(|| {
            let message = format!("its conditions are about generation {newest}, not yet {generation}");
            Health::progressing("LatestGenerationNotObserved", message)
        })
    }
}

impl Test {
    fn place(&self) -> Option<&'static str> {
        match self {
            Self::Condition { place, .. } => Some(place),
            _ => None,
        }
    }
}

fn rules() -> impl Iterator<Item = &'static Rule> {
    [kubernetes::RULES, delivery::RULES, platform::RULES].into_iter().flatten()
}

/// What the table says of an object of a kind; nothing when it does not know the kind.
pub(crate) fn by_table(group: &str, kind: &str, object: &Value) -> Option<Health> {
    rules().find(|rule| rule.is_for(group, kind)).map(|rule| rule.of(object))
}
