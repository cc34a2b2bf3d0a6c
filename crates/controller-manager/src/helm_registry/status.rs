use convoy_api::{ArtifactStatus, Condition, HelmRegistry, HelmRegistryStatus};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::source_status::{self, Outcome};

/// An index as the status names it.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) digest: String,
    pub(crate) charts: i64,
    pub(crate) artifact: ArtifactStatus,
}

/// The status fields to write, with the new conditions; none when they stand there already.
pub(crate) fn patch(
    registry: &HelmRegistry,
    outcome: &Outcome<Index>,
    now: Timestamp,
) -> Option<(Map<String, Value>, Vec<Condition>)> {
    let old = registry.status.clone().unwrap_or_default();
    let generation = registry.metadata.generation.unwrap_or_default();
    let mut new = HelmRegistryStatus {
        observed_generation: Some(generation),
        last_handled_reconcile_at: source_status::asked(registry),
        ..old.clone()
    };
    source_status::say(&mut new.conditions, outcome, generation, now);
    if let Outcome::Fetched { found, .. } = outcome {
        new.index_digest = Some(found.digest.clone());
        new.charts = Some(found.charts);
        new.artifact = Some(found.artifact.clone());
    }
    source_status::news(&old, &new).map(|fields| (fields, new.conditions))
}

#[cfg(test)]
mod tests {
    use convoy_api::{condition_type, find_condition, reason};

    use super::*;

    fn registry(status: Option<Map<String, Value>>) -> HelmRegistry {
        let mut registry = HelmRegistry::default();
        registry.metadata.generation = Some(2);
        registry.status = status.map(|status| serde_json::from_value(Value::Object(status)).unwrap());
        registry
    }

    fn fetched() -> Outcome<Index> {
        let artifact =
            ArtifactStatus { revision: "sha256:i".into(), digest: "sha256:a".into(), size: 3, files: 1 };
        let found = Index { digest: "sha256:i".into(), charts: 2, artifact };
        Outcome::Fetched { found, message: "2 charts".into() }
    }

    #[test]
    fn the_same_index_writes_nothing_and_a_failure_keeps_it() {
        let (first, _) = patch(&registry(None), &fetched(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((&first["charts"], &first["indexDigest"]), (&Value::from(2), &Value::from("sha256:i")));
        let later = Timestamp::from_second(60).unwrap();
        assert!(patch(&registry(Some(first.clone())), &fetched(), later).is_none());
        let failed = |is_transient| Outcome::Failed {
            reason: reason::REGISTRY_UNREACHABLE,
            message: "no".into(),
            is_transient,
        };
        let (second, conditions) = patch(&registry(Some(first.clone())), &failed(true), later).unwrap();
        assert_eq!(second["artifact"], first["artifact"]);
        assert!(find_condition(&conditions, condition_type::STALLED).is_none());
        let (_, conditions) = patch(&registry(Some(first)), &failed(false), later).unwrap();
        assert_eq!(find_condition(&conditions, condition_type::STALLED).unwrap().status, "True");
    }
}
