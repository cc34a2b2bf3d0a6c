//! Whether what an API server lists may be acted on. Pure.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What is known of the API server by its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Which installation it is: the uid of the namespace `default`.
    pub(crate) installation: String,
    /// The resourceVersion of the list of Releases; none when it is no number.
    pub(crate) resource_version: Option<u64>,
    /// How many Releases there are.
    pub(crate) releases: usize,
}

/// What one collection notes for the next, in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Note {
    installation: String,
    #[serde(default)]
    resource_version: Option<u64>,
    #[serde(default)]
    releases: usize,
    /// Nothing is collected before, and why.
    #[serde(default)]
    held: Option<Held>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    until: Timestamp,
    why: String,
}

/// Whether to collect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    Given,
    Held { why: String },
}

/// Decides whether a list may be acted on, and what to note.
pub(crate) fn consent(
    before: Option<&Note>,
    seen: &Seen,
    now: Timestamp,
    grace: Duration,
) -> (Consent, Note) {
    let mut note = Note {
        installation: seen.installation.clone(),
        resource_version: seen.resource_version,
        releases: seen.releases,
        held: None,
    };
    let Some(before) = before else { return (Consent::Given, note) };
    if before.installation != seen.installation {
        let why = format!(
            "another convoy collects there (its namespace \"default\" has the uid {}); give each a store of its own, or \
             delete the file \"collection\" in the store when the other is gone",
            before.installation
        );
        return (Consent::Held { why }, before.clone());
    }
    let went_back = match (before.resource_version, seen.resource_version) {
        (Some(before), Some(now)) => now < before,
        // What cannot be compared tells nothing.
        (None, _) | (_, None) => false,
    };
    let why = if went_back {
        Some("the API server was restored from a backup")
    } else if seen.releases == 0 && before.releases > 0 {
        Some("all Releases are gone at once")
    } else {
        None
    };
    note.held = match why {
        Some(why) => {
            let until = now.checked_add(grace).unwrap_or(Timestamp::MAX);
            Some(Held { until, why: why.to_owned() })
        }
        None => before.held.clone().filter(|held| now < held.until),
    };
    match &note.held {
        Some(held) => {
            let why = format!("{}; nothing is deleted before {}", held.why, held.until);
            (Consent::Held { why }, note)
        }
        None => (Consent::Given, note),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(3600);

    fn seen(installation: &str, resource_version: u64, releases: usize) -> Seen {
        Seen { installation: installation.to_owned(), resource_version: Some(resource_version), releases }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn nothing_is_collected_for_a_while_after_a_restore_or_when_all_is_gone() {
        let (consent_now, first) = consent(None, &seen("a", 10, 3), at(0), GRACE);
        assert_eq!(consent_now, Consent::Given);
        assert_eq!(consent(Some(&first), &seen("a", 10, 3), at(1), GRACE), (Consent::Given, first.clone()));

        for (odd, why) in [(seen("a", 9, 3), "restored from a backup"), (seen("a", 11, 0), "gone at once")] {
            let (held, note) = consent(Some(&first), &odd, at(100), GRACE);
            assert!(matches!(&held, Consent::Held { why: said } if said.contains(why)), "{held:?}");
            // It holds over later collections that find nothing odd.
            let (held, note) = consent(Some(&note), &seen("a", 20, odd.releases), at(3699), GRACE);
            assert!(matches!(&held, Consent::Held { why: said } if said.contains(why)), "{held:?}");
            assert_eq!(consent(Some(&note), &seen("a", 21, odd.releases), at(3700), GRACE).0, Consent::Given);
        }
    }

    #[test]
    fn a_store_of_another_convoy_is_never_collected_in() {
        let (_, first) = consent(None, &seen("a", 10, 3), at(0), GRACE);
        let (held, note) = consent(Some(&first), &seen("b", 50, 3), at(1_000_000), GRACE);
        assert!(matches!(held, Consent::Held { .. }));
        assert_eq!(note, first, "whose it is stays noted");
        assert_eq!(consent(Some(&note), &seen("a", 11, 3), at(1_000_001), GRACE).0, Consent::Given);
    }
}
