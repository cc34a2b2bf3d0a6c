//! Kinds with a rule of their own.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::{condition, condition_true, count, flag, text};
use crate::generic;
use crate::health::{Health, State};

pub(crate) fn job(object: &Value) -> Health {
    if let Some(failed) = condition_true(object, "Failed") {
        return Health::degraded(failed.reason(), failed.message());
    }
    if condition_true(object, "Complete").is_some() {
        return Health::healthy();
    }
    if condition_true(object, "Suspended").is_some() || flag(object, "/spec/suspend") {
        return Health::new(State::Suspended, "Suspended", "it is suspended");
    }
    let [active, succeeded, failed] =
        ["active", "succeeded", "failed"].map(|field| count(object, &format!("/status/{field}")));
    let message = format!("it is not complete: {active} Pods run, {succeeded} succeeded, {failed} failed");
    Health::progressing("JobNotComplete", message)
}

pub(crate) fn cron_job(object: &Value) -> Health {
    if flag(object, "/spec/suspend") {
        return Health::new(State::Suspended, "Suspended", "it is suspended");
    }
    let time = |pointer| text(object, pointer).parse::<Timestamp>().ok();
    let runs =
        object.pointer("/status/active").and_then(Value::as_array).is_some_and(|jobs| !jobs.is_empty());
    let (started, succeeded) = (time("/status/lastScheduleTime"), time("/status/lastSuccessfulTime"));
    match started.zip(succeeded) {
        Some((started, succeeded)) if succeeded < started && !runs => {
            Health::degraded("LastRunFailed", format!("its run of {started} did not succeed"))
        }
        _ => Health::healthy(),
    }
}

pub(crate) fn volume_claim(object: &Value) -> Health {
    match text(object, "/status/phase") {
        "Bound" => Health::healthy(),
        "Lost" => Health::degraded("Lost", "its volume is lost"),
        _ => Health { blocking: false, ..Health::progressing("Pending", "no volume is bound to it yet") },
    }
}

pub(crate) fn service(object: &Value) -> Health {
    let is_balanced = text(object, "/spec/type") == "LoadBalancer";
    if is_balanced && text(object, "/spec/clusterIP").is_empty() {
        return Health::progressing("NoIPAssigned", "it has no cluster IP yet");
    }
    let addresses = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    if is_balanced && addresses.is_none_or(Vec::is_empty) {
        // Where nothing hands out addresses it stays so, and serves inside the cluster.
        let message = "no load balancer has given it an address yet";
        return Health { blocking: false, ..Health::progressing("NoAddress", message) };
    }
    generic::by_conditions(object)
}

pub(crate) fn namespace(object: &Value) -> Health {
    match text(object, "/status/phase") {
        "Terminating" => Health::progressing("Terminating", "it is being deleted"),
        _ => Health::healthy(),
    }
}

pub(crate) fn custom_resource_definition(object: &Value) -> Health {
    if let Some(refused) = condition(object, "NamesAccepted").filter(|accepted| accepted.is("False")) {
        return Health::degraded(refused.reason(), refused.message());
    }
    if let Some(broken) = condition_true(object, "NonStructuralSchema") {
        return Health::degraded(broken.reason(), broken.message());
    }
    match condition(object, "Established") {
        Some(established) if established.is("True") => Health::healthy(),
        // A fresh definition is not established while it is being installed.
        Some(established) if established.is("False") && established.reason() != "Installing" => {
            Health::degraded(established.reason(), established.message())
        }
        _ => Health::progressing("Installing", "its kind is not served yet"),
    }
}

pub(crate) fn api_service(object: &Value) -> Health {
    match condition(object, "Available") {
        Some(available) if available.is("True") => Health::healthy(),
        Some(available) => Health::progressing(available.reason(), available.message()),
        None => Health::progressing("NotAvailable", "its server was not asked yet"),
    }
}

pub(crate) fn autoscaler(object: &Value) -> Health {
    // In version v1 the conditions are in an annotation.
    let annotated = object.pointer("/metadata/annotations/autoscaling.alpha.kubernetes.io~1conditions");
    let annotated =
        annotated.and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let with_conditions = annotated.map(|conditions| json!({"status": {"conditions": conditions}}));
    let object = with_conditions.as_ref().unwrap_or(object);
    let not = |type_: &str| condition(object, type_).filter(|condition| condition.is("False"));
    if let Some(unable) = not("AbleToScale") {
        return Health::degraded(unable.reason(), unable.message());
    }
    match not("ScalingActive") {
        // Its target is scaled to zero on purpose.
        Some(inactive) if inactive.reason() != "ScalingDisabled" => {
            Health::progressing(inactive.reason(), inactive.message())
        }
        _ => Health::healthy(),
    }
}
