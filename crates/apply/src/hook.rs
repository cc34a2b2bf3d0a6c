//! Hooks on a target: making their objects, and seeing them end.

use std::time::Duration;

use convoy_api::annotation;
use convoy_plan::{Hook, ObjectRef};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::{Applied, Class, LiveMeta, RequestError, Target};

/// How often an object that comes and goes while it is looked at is looked at again.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How the object of a hook is made.
#[derive(Clone, Copy, Debug)]
pub struct HookOptions<'a> {
    /// The run: the object is marked with it.
    pub run: &'a str,
    /// The uid of the Release.
    pub release_uid: &'a str,
    /// Whether an object of another Release, or of nobody, may be deleted.
    pub adopt: bool,
    /// How long to wait for the object of an earlier run to go.
    pub patience: Duration,
    /// How long to wait for a CustomResourceDefinition.
    pub establish_patience: Duration,
}

/// What became of the making of a hook's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// It is there.
    There(Applied),
    /// The object of an earlier run is being deleted.
    Waits(String),
    /// There is an object that may not be deleted.
    InTheWay(String),
}

/// What a look at a hook's object says of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookSeen {
    /// There is no object of this run.
    Absent,
    /// It has not ended.
    Running {
        /// The object.
        applied: Applied,
        /// How far it is.
        message: String,
    },
    /// It ended.
    Ended {
        /// The object.
        applied: Applied,
        /// Why it failed.
        outcome: Result<(), String>,
    },
}

impl Target {
    /// Looks how far a run of a hook has come.
    ///
    /// # Errors
    /// See [`Class`].
    pub async fn look_at_hook(&self, hook: &Hook, run: &str) -> Result<HookSeen, RequestError> {
        let at = &hook.apply.target;
        let object = match self.get(&at.path(), Some(at)).await {
            Ok(object) => object,
            Err(error)
                if matches!(error.class, Class::NotFound | Class::NamespaceMissing | Class::KindUnknown) =>
            {
                return Ok(HookSeen::Absent);
            }
            Err(error) => return Err(error),
        };
        let metadata = &object["metadata"];
        if metadata["annotations"][annotation::HOOK_RUN] != run {
            return Ok(HookSeen::Absent);
        }
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let applied = Applied { uid: text("uid"), resource_version: text("resourceVersion"), created: true };
        if !hook.ends {
            return Ok(HookSeen::Ended { applied, outcome: Ok(()) });
        }
        Ok(match end_of(&object) {
            End::Running(message) => HookSeen::Running { applied, message },
            End::Succeeded => HookSeen::Ended { applied, outcome: Ok(()) },
            End::Failed(why) => HookSeen::Ended { applied, outcome: Err(why) },
        })
    }

    /// Makes the object of a hook's run, after it has deleted that of an earlier one where the hook's policy says so.
    ///
    /// # Errors
    /// See [`Class`].
    pub async fn make_hook(&self, hook: &Hook, options: &HookOptions<'_>) -> Result<Made, RequestError> {
        let at = &hook.apply.target;
        let object = marked(&hook.apply.object, options.run);
        if hook.stays() {
            if let Some(live) = self.metadata(at).await?
                && live.release_uid.as_deref().is_some_and(|uid| uid != options.release_uid)
                && !options.adopt
            {
                return Ok(Made::InTheWay("it belongs to another Release".to_owned()));
            }
            let applied = self.apply(at, &object, true).await?;
            if at.key.kind == "CustomResourceDefinition" {
                self.await_established(at, options.establish_patience).await?;
            }
            return Ok(Made::There(applied));
        }
        let deadline = Instant::now() + options.patience;
        let mut tries_left = TRIES;
        loop {
            if let Some(live) = self.metadata(at).await?
                && let Some(made) = self.clear_the_way(hook, options, live, deadline).await?
            {
                return Ok(made);
            }
            match self.create(at, &object).await {
                // It came in between.
                Err(error) if error.class == Class::Precondition && tries_left > 0 => tries_left -= 1,
                outcome => return outcome.map(Made::There),
            }
        }
    }

    /// Deletes what stands where a hook's object is to be made; answers when that cannot be, or is not to be.
    async fn clear_the_way(
        &self,
        hook: &Hook,
        options: &HookOptions<'_>,
        mut live: LiveMeta,
        deadline: Instant,
    ) -> Result<Option<Made>, RequestError> {
        let at = &hook.apply.target;
        if live.hook_run.as_deref() == Some(options.run) {
            return Ok(Some(Made::There(Applied {
                uid: live.uid,
                resource_version: live.resource_version,
                created: true,
            })));
        }
        if !hook.policies.before_creation && !live.terminating {
            return Ok(Some(Made::InTheWay(
                "it is there already, and the hook's delete policy does not let it go before it runs: add \
                 before-hook-creation, or delete it"
                    .to_owned(),
            )));
        }
        let is_ours = live.release_uid.as_deref() == Some(options.release_uid);
        // What Helm left of its own runs has no owner.
        let is_left_over = live.release_uid.is_none() && live.is_helm_hook;
        if !is_ours && !is_left_over && !options.adopt && !live.terminating {
            return Ok(Some(Made::InTheWay(
                "an object of this name is there that is not of this Release: delete it, or set the annotation \
                 convoy.kumodo.io/adopt: \"true\" on the Release"
                    .to_owned(),
            )));
        }
        let mut pause = FIRST_PAUSE;
        let mut is_deleted = live.terminating;
        loop {
            if !is_deleted {
                match self.delete(at, &live).await {
                    Ok(()) => is_deleted = true,
                    Err(error) if error.class == Class::NotFound => return Ok(None),
                    // It changed since it was looked at.
                    Err(error) if error.class == Class::Precondition && Instant::now() < deadline => {}
                    Err(error) => return Err(error),
                }
            }
            match self.metadata(at).await? {
                Some(found) if found.uid == live.uid => live = found,
                _ => return Ok(None),
            }
            if Instant::now() + pause > deadline {
                return Ok(Some(Made::Waits("the object of an earlier run is being deleted".to_owned())));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The objects among some that are not healthy by the rules, with why, as far as it is worth to know: a few.
    ///
    /// # Errors
    /// The first request that failed, with its object.
    pub async fn not_healthy(
        &self,
        objects: &[ObjectRef],
        rules: &convoy_health::HealthRules,
        now: jiff::Timestamp,
    ) -> Result<Vec<(ObjectRef, convoy_health::Health)>, (ObjectRef, RequestError)> {
        const AT_A_TIME: usize = 8;
        let mut found = Vec::new();
        for some in objects.chunks(AT_A_TIME) {
            let looks = some.iter().map(|at| async move { (at, self.get(&at.path(), Some(at)).await) });
            for (at, answer) in futures::future::join_all(looks).await {
                let health = match answer {
                    Ok(object) => rules.health_of(&object, now),
                    Err(error) if matches!(error.class, Class::NotFound | Class::NamespaceMissing) => {
                        convoy_health::Health::missing()
                    }
                    Err(error) => return Err((at.clone(), error)),
                };
                if health.blocking && !is_good(&health) {
                    found.push((at.clone(), health));
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        Ok(found)
    }
}

fn is_good(health: &convoy_health::Health) -> bool {
    matches!(health.state, convoy_health::State::Healthy | convoy_health::State::Suspended)
}

fn marked(object: &Value, run: &str) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(annotation::HOOK_RUN.to_owned(), run.into());
        }
    }
    object
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Running(String),
    Succeeded,
    Failed(String),
}

/// Whether an object, a Job or a Pod, has ended, well or not.
pub fn has_ended(object: &Value) -> bool {
    matches!(object["kind"].as_str(), Some("Job" | "Pod")) && !matches!(end_of(object), End::Running(_))
}

/// Whether a Job or a Pod has ended.
fn end_of(object: &Value) -> End {
    let status = &object["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if object["kind"] == "Pod" {
        return match status["phase"].as_str() {
            Some("Succeeded") => End::Succeeded,
            Some("Failed") => {
                let why = [text(&status["reason"]), text(&status["message"])];
                let why: Vec<String> = why.into_iter().filter(|text| !text.is_empty()).collect();
                End::Failed(if why.is_empty() {
                    "a container ended with an error".to_owned()
                } else {
                    why.join(": ")
                })
            }
            phase => End::Running(format!("it is {}", phase.unwrap_or("Pending"))),
        };
    }
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_true = |type_: &str| conditions.iter().find(|c| c["type"] == type_ && c["status"] == "True");
    if let Some(failed) = is_true("Failed") {
        return End::Failed(format!("{}: {}", text(&failed["reason"]), text(&failed["message"])));
    }
    if is_true("Complete").is_some() {
        return End::Succeeded;
    }
    let count = |field: &str| status[field].as_i64().unwrap_or_default();
    End::Running(format!("{} Pods run, {} failed", count("active"), count("failed")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_has_ended_by_its_conditions_and_a_pod_by_its_phase() {
        let failed = json!({"kind": "Job", "status": {"failed": 1, "conditions": [
            {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"},
            {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"},
        ]}});
        let complete = json!({"kind": "Job", "status": {"conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"},
        ]}});
        let table = [
            (failed, End::Failed("BackoffLimitExceeded: m".to_owned())),
            (complete, End::Succeeded),
            (
                json!({"kind": "Job", "status": {"active": 1, "conditions": [{"type": "Complete", "status": "False"}]}}),
                End::Running("1 Pods run, 0 failed".to_owned()),
            ),
            (json!({"kind": "Job"}), End::Running("0 Pods run, 0 failed".to_owned())),
            (json!({"kind": "Pod", "status": {"phase": "Succeeded"}}), End::Succeeded),
            (
                json!({"kind": "Pod", "status": {"phase": "Failed"}}),
                End::Failed("a container ended with an error".to_owned()),
            ),
            (
                json!({"kind": "Pod", "status": {"phase": "Running"}}),
                End::Running("it is Running".to_owned()),
            ),
        ];
        for (object, want) in table {
            assert_eq!(end_of(&object), want, "{object}");
            assert_eq!(has_ended(&object), !matches!(want, End::Running(_)), "{object}");
        }
    }
}
