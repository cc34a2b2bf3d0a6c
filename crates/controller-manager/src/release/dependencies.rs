//! What a Release waits for before anything new is delivered: `spec.dependsOn`.

use std::collections::{BTreeMap, HashSet};

use convoy_api::{
    ConditionStatus, Dependency, Release, condition_status, condition_type, encode, find_condition, reason,
};
use convoy_cel::Expression;
use convoy_runtime::{Next, StoreKey};

use super::dependents::{Known, dependencies_of};
use super::reconcile::WAIT;
use super::{Look, Releases};

/// Releases that a search for a cycle goes through.
const MOST_SEARCHED: usize = 10_000;

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Whether waiting is no use.
    pub(crate) is_terminal: bool,
    /// When to look again if no change of what is waited for brings the next look.
    pub(crate) next: Next,
}

/// The way from a Release back to itself, which ends with where it began. `next` says whom one waits for.
fn cycle(start: &StoreKey, next: impl Fn(&StoreKey) -> Vec<StoreKey>) -> Option<Vec<StoreKey>> {
    let mut seen = HashSet::new();
    let mut came_from: BTreeMap<StoreKey, StoreKey> = BTreeMap::new();
    let mut open = std::collections::VecDeque::from([start.clone()]);
    while let Some(at) = open.pop_front() {
        for to in next(&at) {
            if to == *start {
                let mut way = vec![to, at.clone()];
                let mut at = &at;
                while let Some(from) = came_from.get(at) {
                    way.push(from.clone());
                    at = from;
                }
                way.reverse();
                return Some(way);
            }
            if seen.len() < MOST_SEARCHED && seen.insert(to.clone()) {
                came_from.insert(to.clone(), at.clone());
                open.push_back(to);
            }
        }
    }
    None
}

/// Whether a Release is ready for those that wait for it; if not, why not.
fn is_ready(dependency: &Dependency, release: &Release) -> Result<(), String> {
    if let Some(text) = &dependency.ready_when {
        let failed = |error: &dyn std::error::Error| format!("readyWhen has no answer for it: {error}");
        let expression = Expression::compile(text).map_err(|error| failed(&error))?;
        return match expression.is_true(&encode(release)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("readyWhen is not true: {text}")),
            Err(error) => Err(failed(&error)),
        };
    }
    let conditions = release.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
    let seen = release.status.as_ref().and_then(|status| status.observed_generation);
    if seen != release.metadata.generation {
        return Err("its spec changed a moment ago".to_owned());
    }
    match condition_status(conditions, condition_type::READY) {
        ConditionStatus::True => Ok(()),
        ConditionStatus::False | ConditionStatus::Unknown => {
            Err(find_condition(conditions, condition_type::READY).map_or_else(
                || "nothing is known of it yet".to_owned(),
                |ready| format!("{}: {}", ready.reason, ready.message.chars().take(300).collect::<String>()),
            ))
        }
    }
}

impl Releases {
    /// The cycle that a Release is part of, when it waits for itself by others.
    pub(crate) fn cycle_of(&self, look: Look<'_>) -> Option<Awaited> {
        if look.release.spec.depends_on.is_empty() {
            return None;
        }
        let next = |key: &StoreKey| {
            let known = if key == look.key {
                return dependencies_of(key, look.release).collect();
            } else {
                self.dependents.look_up(&self.releases, key)
            };
            match known {
                Known::Found(release) => dependencies_of(key, &release).collect(),
                Known::Missing | Known::NotYet | Known::Unwatched => Vec::new(),
            }
        };
        let way = cycle(look.key, next)?;
        let names: Vec<&str> = way.iter().map(|key| key.name.as_str()).collect();
        let message =
            format!("spec.dependsOn goes round: {}; take one of them out of it", names.join(" waits for "));
        Some(Awaited { reason: reason::DEPENDENCY_CYCLE, message, is_terminal: true, next: Next::Done })
    }

    /// What a Release waits for; none when all that it depends on is ready.
    pub(crate) fn awaited(&self, look: Look<'_>) -> Option<Awaited> {
        let (mut missing, mut unready, mut next) = (Vec::new(), Vec::new(), Next::Done);
        for dependency in &look.release.spec.depends_on {
            let key = StoreKey::new(look.key.namespace.as_str(), dependency.name.as_str());
            let why = match self.dependents.look_up(&self.releases, &key) {
                Known::Missing => {
                    missing.push(format!("there is no Release {key}, which spec.dependsOn names"));
                    continue;
                }
                Known::Found(found) => is_ready(dependency, &found),
                Known::NotYet => Err("it is being looked up".to_owned()),
                Known::Unwatched => {
                    next = Next::Wait(WAIT);
                    Err("too many Releases of other shards are waited for".to_owned())
                }
            };
            if let Err(why) = why {
                unready.push(format!("it waits for the Release {key}: {why}"));
            }
        }
        let reason = match (missing.is_empty(), unready.is_empty()) {
            (true, true) => return None,
            (false, _) => reason::DEPENDENCY_NOT_FOUND,
            (true, false) => reason::DEPENDENCY_NOT_READY,
        };
        missing.append(&mut unready);
        Some(Awaited { reason, message: missing.join("; "), is_terminal: false, next })
    }
}

#[cfg(test)]
mod tests {
    use convoy_api::{ReleaseStatus, set_condition};
    use jiff::Timestamp;

    use super::*;

    fn key(name: &str) -> StoreKey {
        StoreKey::new("team", name)
    }

    #[test]
    fn a_cycle_is_named_whole_by_each_of_its_members_and_by_no_other() {
        // d waits for a, which is in the cycle a → b → c → a; e waits for itself.
        let arrows: BTreeMap<&str, Vec<&str>> =
            [("a", vec!["x", "b"]), ("b", vec!["c"]), ("c", vec!["a"]), ("d", vec!["a"]), ("e", vec!["e"])]
                .into();
        let next = |at: &StoreKey| {
            arrows.get(at.name.as_str()).into_iter().flatten().map(|name| key(name)).collect::<Vec<_>>()
        };
        let way = |start: &str| {
            cycle(&key(start), next)
                .map(|way| way.iter().map(|key| key.name.clone()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(way("a").as_deref(), Some("a b c a"));
        assert_eq!(way("b").as_deref(), Some("b c a b"));
        assert_eq!(way("c").as_deref(), Some("c a b c"));
        assert_eq!(way("e").as_deref(), Some("e e"));
        assert_eq!((way("d"), way("x")), (None, None));
    }

    #[test]
    fn ready_is_ready_for_the_present_spec_or_what_ready_when_says() {
        let with = |generation: i64, status: ConditionStatus| {
            let mut release = Release::default();
            release.metadata.generation = Some(2);
            let mut new = ReleaseStatus { observed_generation: Some(generation), ..ReleaseStatus::default() };
            let now = Timestamp::UNIX_EPOCH;
            set_condition(&mut new.conditions, "Ready", status, "HealthTimeout", "0 of 1", 1, now);
            new.source_revision = Some("main@sha1:a".to_owned());
            release.status = Some(new);
            release
        };
        let plain = Dependency { name: "db".to_owned(), ready_when: None };
        assert_eq!(is_ready(&plain, &with(2, ConditionStatus::True)), Ok(()));
        assert!(is_ready(&plain, &with(1, ConditionStatus::True)).unwrap_err().contains("a moment ago"));
        let unready = is_ready(&plain, &with(2, ConditionStatus::False)).unwrap_err();
        assert_eq!(unready, "HealthTimeout: 0 of 1");
        let when = |text: &str| Dependency { name: "db".to_owned(), ready_when: Some(text.to_owned()) };
        let unready = with(1, ConditionStatus::False);
        assert_eq!(is_ready(&when("object.status.sourceRevision == 'main@sha1:a'"), &unready), Ok(()));
        let not_true = is_ready(&when("size(object.status.history) > 0"), &unready).unwrap_err();
        assert!(not_true.contains("no answer"), "{not_true}");
        assert!(is_ready(&when("has(object.status.history)"), &unready).unwrap_err().contains("not true"));
    }
}
