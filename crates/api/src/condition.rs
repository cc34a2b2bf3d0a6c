use jiff::Timestamp;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Condition types. `Ready`, `Reconciling` and `Stalled` have the meaning that kstatus gives them.
pub mod condition_type {
    /// The object is as its spec wants it.
    pub const READY: &str = "Ready";
    /// Something is under way; absent otherwise.
    pub const RECONCILING: &str = "Reconciling";
    /// Nothing more happens until the spec, the source or the target changes; absent otherwise.
    pub const STALLED: &str = "Stalled";
    /// Release: false while its source cannot be looked at anew, and what was fetched last is in use; absent
    /// otherwise.
    pub const FETCHED: &str = "Fetched";
    /// Release: its source rendered to objects.
    pub const RENDERED: &str = "Rendered";
    /// Release: the target took all objects, and what left was pruned.
    pub const APPLIED: &str = "Applied";
    /// Release: what was applied is healthy. Written by the observer.
    pub const HEALTHY: &str = "Healthy";
    /// Release: objects on the target are not as they were applied. Written by the observer.
    pub const DRIFTED: &str = "Drifted";
    /// Cluster: its API server answers and takes our identity.
    pub const REACHABLE: &str = "Reachable";
    /// Cluster: false while something that Releases have delivered to it cannot be watched; absent otherwise. Written by the
    /// observer.
    pub const OBSERVED: &str = "Observed";
}

/// Condition reasons, one list for all kinds; `docs/` explains each.
pub mod reason {
    /// All is done.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Under way.
    pub const PROGRESSING: &str = "Progressing";
    /// No controller-manager looks at the object any more, so that what was said of it is not known to hold.
    pub const CONTROLLER_MISSING: &str = "ControllerMissing";
    /// No observer has held the Release's shard for longer than another one needs to take over.
    pub const OBSERVER_MISSING: &str = "ObserverMissing";
    /// `spec.suspend` is true.
    pub const SUSPENDED: &str = "Suspended";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// An object that the spec names is not there.
    pub const DEPENDENCY_NOT_FOUND: &str = "DependencyNotFound";
    /// An object that the spec names is not ready.
    pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";
    /// Releases wait for each other by `spec.dependsOn`.
    pub const DEPENDENCY_CYCLE: &str = "DependencyCycle";
    /// The spec contradicts itself or asks for what is not allowed.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The Cluster of another namespace that the spec names does not let Releases of this one use it, or is not there.
    pub const CLUSTER_NOT_ALLOWED: &str = "ClusterNotAllowed";

    /// The Git server could not be reached or answered wrongly.
    pub const GIT_UNREACHABLE: &str = "GitUnreachable";
    /// The Git server refused our credentials.
    pub const GIT_AUTHENTICATION_FAILED: &str = "GitAuthenticationFailed";
    /// The server's SSH host key is not the one that known_hosts has.
    pub const HOST_KEY_REFUSED: &str = "HostKeyRefused";
    /// The branch, tag or commit does not exist.
    pub const GIT_REFERENCE_NOT_FOUND: &str = "GitReferenceNotFound";
    /// The Helm repository or OCI registry could not be reached or answered wrongly.
    pub const REGISTRY_UNREACHABLE: &str = "RegistryUnreachable";
    /// The Helm repository or OCI registry refused our credentials.
    pub const REGISTRY_AUTHENTICATION_FAILED: &str = "RegistryAuthenticationFailed";
    /// The chart, the version, the tag or the digest does not exist in the registry.
    pub const VERSION_NOT_FOUND: &str = "VersionNotFound";
    /// The tree breaks a limit or a rule (size, number of files, a link that leaves it).
    pub const ARTIFACT_REFUSED: &str = "ArtifactRefused";
    /// The render store could not be read or written.
    pub const STORE_FAILED: &str = "StoreFailed";

    /// The kubeconfig is malformed or holds what convoy does not run or read (exec, files).
    pub const KUBECONFIG_REFUSED: &str = "KubeconfigRefused";
    /// The target's API server does not answer.
    pub const CLUSTER_UNREACHABLE: &str = "ClusterUnreachable";
    /// The target's API server refused our identity.
    pub const CLUSTER_UNAUTHORIZED: &str = "ClusterUnauthorized";

    /// The target does not serve a kind that is to be watched.
    pub const KIND_NOT_SERVED: &str = "KindNotServed";
    /// The target does not let our identity list and watch a kind.
    pub const WATCH_FORBIDDEN: &str = "WatchForbidden";
    /// The target answers lists or watches of a kind with an error.
    pub const WATCH_FAILED: &str = "WatchFailed";

    /// The source's path does not exist in the artifact.
    pub const PATH_NOT_FOUND: &str = "PathNotFound";
    /// The chart, the values or the manifests do not render; the message names file and line.
    pub const RENDER_FAILED: &str = "RenderFailed";
    /// The bundle is empty although the inventory is not: nothing was deleted.
    pub const EMPTY_BUNDLE: &str = "EmptyBundle";
    /// The plan has problems (unknown kinds, duplicate objects); nothing was applied.
    pub const PLAN_FAILED: &str = "PlanFailed";
    /// The target rejected an object.
    pub const APPLY_REJECTED: &str = "ApplyRejected";
    /// An object belongs to another field manager or another Release.
    pub const APPLY_CONFLICT: &str = "ApplyConflict";
    /// A try failed for a reason that can pass by itself; it will be tried again.
    pub const APPLY_FAILED: &str = "ApplyFailed";
    /// Something could not be pruned; it stays in the inventory and is tried again.
    pub const PRUNE_FAILED: &str = "PruneFailed";
    /// Objects may remain on a Cluster that was deleted.
    pub const LEFT_BEHIND: &str = "LeftBehind";
    /// A hook of the chart failed; it runs again with another revision, or when it is asked for.
    pub const HOOK_FAILED: &str = "HookFailed";
    /// Waiting for a hook of the chart to end.
    pub const WAITING_FOR_HOOK: &str = "WaitingForHook";
    /// Waiting for the applied objects to become healthy.
    pub const WAITING_FOR_HEALTH: &str = "WaitingForHealth";
    /// The objects did not become healthy within `spec.apply.timeout`.
    pub const HEALTH_TIMEOUT: &str = "HealthTimeout";
    /// An earlier revision is being delivered again.
    pub const ROLLING_BACK: &str = "RollingBack";
    /// An earlier revision is on the target; the message says which one, and why.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// An earlier revision cannot be delivered: it is not in the history, or not in the render store.
    pub const ROLLBACK_FAILED: &str = "RollbackFailed";

    /// The observer sees all objects as they were applied.
    pub const IN_SYNC: &str = "InSync";
    /// The observer sees an object that was changed or deleted.
    pub const CHANGED_ON_TARGET: &str = "ChangedOnTarget";
    /// All objects are healthy.
    pub const HEALTHY: &str = "Healthy";
    /// An object reports a failure.
    pub const DEGRADED: &str = "Degraded";
    /// An object is missing.
    pub const MISSING: &str = "Missing";
    /// The state cannot be told.
    pub const UNKNOWN: &str = "Unknown";
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// `"True"`
    True,
    /// `"False"`
    False,
    /// `"Unknown"`
    Unknown,
}

impl ConditionStatus {
    /// As the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(is_true: bool) -> Self {
        if is_true { Self::True } else { Self::False }
    }
}

/// The longest message that convoy puts into a condition, in bytes; Kubernetes allows 32,768.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The condition of a type, if it is there.
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The status of a condition; an absent or foreign one is `Unknown`.
pub fn condition_status(conditions: &[Condition], type_: &str) -> ConditionStatus {
    match find_condition(conditions, type_).map(|condition| condition.status.as_str()) {
        Some("True") => ConditionStatus::True,
        Some("False") => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}

/// Sets a condition in place. `lastTransitionTime` moves only when the status changes, as the API
/// conventions ask; a message that is too long is cut at a character border.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: impl Into<String>,
    observed_generation: i64,
    now: Timestamp,
) {
    let mut message = message.into();
    if message.len() > MAX_MESSAGE_BYTES {
        let mut end = MAX_MESSAGE_BYTES - '…'.len_utf8();
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message.push('…');
    }
    let new = Condition {
        type_: type_.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(observed_generation),
        last_transition_time: Time(whole_second(now)),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(old) => {
            let since = if old.status == new.status {
                old.last_transition_time.clone()
            } else {
                new.last_transition_time.clone()
            };
            *old = Condition { last_transition_time: since, ..new };
        }
        None => conditions.push(new),
    }
}

/// Times in conditions have whole seconds, as Kubernetes writes `metav1.Time`.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        let set = |conditions: &mut Vec<Condition>, status: bool, message: &str, second| {
            set_condition(conditions, "Ready", status.into(), "Because", message, 1, at(second));
        };
        set(&mut conditions, false, "first", 10);
        set(&mut conditions, false, "second", 20);
        let ready = find_condition(&conditions, "Ready").unwrap();
        assert_eq!((ready.message.as_str(), ready.last_transition_time.0), ("second", at(10)));
        set(&mut conditions, true, "third", 30);
        assert_eq!(find_condition(&conditions, "Ready").unwrap().last_transition_time.0, at(30));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_long_message_is_cut_at_a_character_border() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, "Ready", ConditionStatus::False, "R", "é".repeat(5000), 1, at(0));
        let message = &conditions[0].message;
        assert!(message.len() <= MAX_MESSAGE_BYTES && message.ends_with('…'), "{}", message.len());
    }

    #[test]
    fn an_absent_condition_is_unknown() {
        assert_eq!(condition_status(&[], "Ready"), ConditionStatus::Unknown);
    }
}
