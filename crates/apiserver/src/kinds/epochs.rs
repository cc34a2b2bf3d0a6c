//! Who wrote first: a replica that lost its shard does not overwrite its successor.

use convoy_api::cause;
use convoy_meta::{GroupResource, Object, Status, StatusCause};
use serde_json::Value;

/// Where the writers of a kind name themselves.
fn writers(kind: &str) -> &'static [&'static str] {
    match kind {
        "Release" => &["status.controller", "status.observer"],
        "ReleaseInventory" => &["spec.writer"],
        _ => &[],
    }
}

/// The shard and the epoch of a writer; what names no epoch is older than any that does.
fn term(object: &Value, path: &str) -> Option<(i64, i64)> {
    let writer = path.split('.').try_fold(object, |value, part| value.get(part))?;
    let number = |field: &str| writer.get(field).and_then(Value::as_i64);
    Some((number("shard")?, number("epoch").unwrap_or(0)))
}

/// Refuses a write whose epoch is older than the stored one of the same writer and shard. Another shard, as
/// when a Release moved to another Cluster, starts a new comparison: its epochs count another Lease.
///
/// # Errors
/// 409 with a cause [`cause::OLDER_EPOCH`] for each such writer.
pub(super) fn may_replace(
    kind: &str,
    resource: &GroupResource,
    object: &Value,
    old: &Value,
) -> Result<(), Status> {
    let mut texts = Vec::new();
    let mut causes = Vec::new();
    for path in writers(kind) {
        let (Some((shard, epoch)), Some((stored_shard, stored))) = (term(object, path), term(old, path))
        else {
            continue;
        };
        if shard == stored_shard && epoch < stored {
            texts.push(format!(
                "{path}.epoch is {epoch}, and epoch {stored} of shard {shard} has written already: the shard has changed hands"
            ));
            let field = format!("{path}.epoch");
            causes.push(StatusCause {
                reason: cause::OLDER_EPOCH.to_owned(),
                message: stored.to_string(),
                field,
            });
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    let mut status = Status::conflict(resource, object.name(), texts.join("; "));
    status.details.get_or_insert_default().causes = causes;
    Err(status)
}

#[cfg(test)]
mod tests {
    use convoy_meta::Reason;
    use serde_json::json;

    use super::*;

    fn refusal(kind: &str, new: &Value, old: &Value) -> Option<Status> {
        may_replace(kind, &GroupResource::new("convoy.kumodo.io", "things"), new, old).err()
    }

    #[allow(clippy::needless_pass_by_value, reason = "reads better in tables")]
    fn release(writer: &str, value: Value) -> Value {
        json!({"metadata": {"name": "web"}, "status": {writer: value}})
    }

    #[test]
    fn i5_an_older_epoch_of_the_same_writer_and_shard_is_refused_and_both_are_named() {
        for writer in ["controller", "observer"] {
            let old = release(writer, json!({"replica": "b", "shard": 3, "epoch": 5}));
            let stale = release(writer, json!({"replica": "a", "shard": 3, "epoch": 4}));
            let status = refusal("Release", &stale, &old).unwrap();
            assert_eq!((status.code, status.reason()), (409, Reason::Conflict));
            assert!(status.message.contains("epoch is 4, and epoch 5 of shard 3"), "{}", status.message);
            let cause = &status.details.unwrap().causes[0];
            assert_eq!((cause.reason.as_str(), cause.message.as_str()), ("OlderEpoch", "5"));
            assert_eq!(cause.field, format!("status.{writer}.epoch"));
            // One of before epochs names none: it is older.
            let ancient = release(writer, json!({"replica": "a", "shard": 3}));
            assert!(refusal("Release", &ancient, &old).is_some());
        }
        let inventory = |epoch: i64| json!({"metadata": {"name": "i"}, "spec": {"writer": {"replica": "a", "shard": 1, "epoch": epoch}}});
        assert!(refusal("ReleaseInventory", &inventory(1), &inventory(2)).is_some());
        assert!(refusal("ReleaseInventory", &inventory(2), &inventory(2)).is_none());
        assert!(refusal("ReleaseInventory", &inventory(3), &inventory(2)).is_none());
        assert!(refusal("Cluster", &inventory(1), &inventory(2)).is_none());
    }

    #[test]
    fn i5_another_shard_an_absent_writer_and_the_other_writer_are_no_older_epoch() {
        let old = release("controller", json!({"replica": "b", "shard": 3, "epoch": 5}));
        for new in [
            release("controller", json!({"replica": "a", "shard": 4, "epoch": 1})),
            release("observer", json!({"replica": "a", "shard": 3, "epoch": 1})),
            json!({"metadata": {"name": "web"}}),
            old.clone(),
        ] {
            assert!(refusal("Release", &new, &old).is_none(), "{new}");
            assert!(refusal("Release", &old, &json!({})).is_none());
        }
    }
}
