//! The rules that hold for every kind.

use serde_json::Value;

use crate::field::{condition, condition_true, number, text};
use crate::health::Health;

/// What is true of an object whatever its kind: it is being deleted, or its controller has not looked at
/// its newest generation.
pub(crate) fn before_all(object: &Value) -> Option<Health> {
    if object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        let names: Vec<_> = finalizers.into_iter().flatten().filter_map(Value::as_str).collect();
        let message = match names.as_slice() {
            [] => "it is being deleted".to_owned(),
            names => format!("it is being deleted and waits for the finalizers {}", names.join(", ")),
        };
        return Some(Health::progressing("Terminating", message));
    }
    let generation = number(object, "/metadata/generation");
    // Some write it as a text, in which others have something else.
    let as_text = || {
        let observed = text(object, "/status/observedGeneration").parse().ok();
        observed.filter(|observed| Some(*observed) < generation)
    };
    let observed = number(object, "/status/observedGeneration").or_else(as_text);
    match (generation, observed) {
        (Some(generation), Some(observed)) if observed != generation => {
            let message = format!("its controller has seen generation {observed}, not yet {generation}");
            Some(Health::progressing("LatestGenerationNotObserved", message))
        }
        _ => None,
    }
}

/// `Stalled`, `Reconciling` and `Ready`, as kstatus reads them; an object without them is Healthy.
pub(crate) fn by_conditions(object: &Value) -> Health {
    if let Some(stalled) = condition_true(object, "Stalled") {
        return Health::degraded(stalled.reason(), stalled.message());
    }
    if let Some(reconciling) = condition_true(object, "Reconciling") {
        return Health::progressing(reconciling.reason(), reconciling.message());
    }
    let Some(ready) = condition(object, "Ready") else { return Health::healthy() };
    let generation = number(object, "/metadata/generation");
    if ready.observed_generation().zip(generation).is_some_and(|(observed, generation)| observed < generation)
    {
        return Health::progressing(
            "LatestGenerationNotObserved",
            "its condition Ready is about an older generation",
        );
    }
    if ready.is("True") { Health::healthy() } else { Health::progressing(ready.reason(), ready.message()) }
}
