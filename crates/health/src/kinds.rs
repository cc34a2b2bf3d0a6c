//! Kinds with a rule of their own.

use serde_json::Value;

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
    match flag(object, "/spec/suspend") {
        true => Health::new(State::Suspended, "Suspended", "it is suspended"),
        false => generic::by_conditions(object),
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
