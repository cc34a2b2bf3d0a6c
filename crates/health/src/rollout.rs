//! Argo Rollouts' Rollout, which newer controllers sum up in a phase, and older ones do not.

use serde_json::Value;

use crate::field::{condition, condition_true, count, flag, number, text};
use crate::health::{Health, State};

pub(crate) fn rollout(object: &Value) -> Health {
    if object.get("status").is_none_or(|status| status.as_object().is_some_and(serde_json::Map::is_empty)) {
        return Health::progressing("NoStatusYet", "its controller has not looked at it yet");
    }
    let written = "/metadata/annotations/rollout.argoproj.io~1workload-generation";
    let seen = text(object, "/status/workloadObservedGeneration");
    if object.pointer("/spec/workloadRef").is_some() && text(object, written) != seen {
        return Health::progressing(
            "LatestGenerationNotObserved",
            "its workload changed and was not looked at yet",
        );
    }
    let message = text(object, "/status/message");
    match text(object, "/status/phase") {
        "" => by_counts(object),
        "Healthy" => Health::healthy(),
        "Degraded" => Health::degraded("Degraded", message),
        "Paused" => Health::new(State::Suspended, "Paused", message),
        phase => Health::progressing(phase, message),
    }
}

fn by_counts(object: &Value) -> Health {
    if let Some(invalid) = condition(object, "InvalidSpec") {
        return Health::degraded("InvalidSpec", invalid.message());
    }
    let failed = condition(object, "Progressing")
        .filter(|progressing| matches!(progressing.reason(), "RolloutAborted" | "ProgressDeadlineExceeded"));
    if let Some(failed) = failed {
        return Health::degraded(failed.reason(), failed.message());
    }
    let pauses = object.pointer("/status/pauseConditions").and_then(Value::as_array);
    if flag(object, "/spec/paused") || pauses.is_some_and(|pauses| !pauses.is_empty()) {
        return Health::new(State::Suspended, "Paused", "it is paused");
    }
    let want = number(object, "/spec/replicas").unwrap_or(1);
    let [replicas, updated, available] = ["replicas", "updatedReplicas", "availableReplicas"]
        .map(|field| count(object, &format!("/status/{field}")));
    if updated < want {
        return Health::progressing(
            "LessUpdated",
            format!("{updated} of {want} Pods are of the newest revision"),
        );
    }
    if available < updated {
        return Health::progressing("LessAvailable", format!("{available} of {updated} Pods are available"));
    }
    let current = text(object, "/status/currentPodHash");
    let stable = ["/status/stableRS", "/status/canary/stableRS"]
        .into_iter()
        .map(|pointer| text(object, pointer))
        .find(|stable| !stable.is_empty())
        .unwrap_or_default();
    if object.pointer("/spec/strategy/blueGreen").is_some() {
        if text(object, "/status/blueGreen/activeSelector") != current {
            return Health::progressing("CutoverPending", "its active Service was not switched over yet");
        }
        if !stable.is_empty() && stable != current {
            return Health::progressing(
                "AnalysisRunning",
                "the analysis of the newest revision has not ended",
            );
        }
    } else if object.pointer("/spec/strategy/canary").is_some() {
        if replicas > updated {
            return Health::progressing(
                "PodsTerminating",
                format!("{} old Pods are still there", replicas - updated),
            );
        }
        if stable.is_empty() || stable != current {
            return Health::progressing("StepsPending", "not all of its steps are done");
        }
    }
    match condition_true(object, "Available") {
        None if current.is_empty() => {
            Health::progressing("NoStatusYet", "its controller has not looked at it yet")
        }
        _ => Health::healthy(),
    }
}
