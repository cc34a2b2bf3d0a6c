//! What a Release waits for before anything new is delivered: `spec.dependsOn`.

use std::collections::{BTreeMap, HashSet};

use convoy_api::reason;
use convoy_prepare::is_ready;
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
}
