//! Objects that live for a time only, such as Events.

use std::sync::Arc;
use std::time::Duration;

use convoy_meta::{DeleteOptions, ListOptions, Object, Preconditions, Reason, Status, time};
use jiff::Timestamp;
use serde_json::Value;

use crate::{Registry, RequestContext};

const USER: &str = "system:apiserver";
/// Objects that are looked at in one request.
const PAGE: u64 = 500;

/// When an object was last of interest: for an Event the time of its last occurrence, else its creation.
pub fn last_seen(object: &Value) -> Option<Timestamp> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    ["/series/lastObservedTime", "/deprecatedLastTimestamp", "/lastTimestamp", "/eventTime"]
        .into_iter()
        .filter_map(text)
        .chain([object.meta_str("creationTimestamp")])
        .filter_map(|text| time::parse(text).ok())
        .max()
}

/// Deletes the objects of one resource that are older than `ttl`.
pub struct Expiry {
    pub registry: Arc<Registry>,
    /// Group, version and plural.
    pub resource: (String, String, String),
    pub ttl: Duration,
    /// How often to look.
    pub every: Duration,
    /// The clock.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl std::fmt::Debug for Expiry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expiry")
            .field("resource", &self.resource)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

impl Expiry {
    /// Runs until the future is dropped.
    pub async fn run(self) {
        loop {
            if let Err(status) = Box::pin(self.pass()).await {
                tracing::debug!(%status, resource = ?self.resource, "expired objects could not be deleted");
            }
            tokio::time::sleep(self.every).await;
        }
    }

    /// Deletes what is too old now, and says how many objects that were.
    ///
    /// # Errors
    /// Those of the list and of the deletions; it can be called again.
    pub async fn pass(&self) -> Result<usize, Status> {
        let (group, version, plural) = &self.resource;
        let Some(resource) = self.registry.table().find(group, version, plural) else { return Ok(0) };
        let now = (self.now)();
        let context = RequestContext::internal(USER, now);
        let mut options = ListOptions { limit: PAGE, ..ListOptions::default() };
        let mut deleted = 0;
        loop {
            let page = self.registry.list(&resource, None, &options).await?;
            for entry in &page.entries {
                let age = last_seen(&entry.to_value()).map(|seen| now.duration_since(seen));
                if age.is_none_or(|age| age.unsigned_abs() < self.ttl || age.is_negative()) {
                    continue;
                }
                let preconditions = Preconditions {
                    uid: None,
                    // One that occurred again in between stays.
                    resource_version: Some(entry.revision().to_string()),
                };
                let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                let delete =
                    self.registry.delete(&context, &resource, entry.namespace(), entry.name(), &options);
                match Box::pin(delete).await {
                    Ok(_) => deleted += 1,
                    Err(status) if [Reason::NotFound, Reason::Conflict].contains(&status.reason()) => {}
                    Err(status) => return Err(status),
                }
            }
            if page.continue_token.is_empty() {
                return Ok(deleted);
            }
            options.continue_token = page.continue_token;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_was_last_seen_at_its_last_occurrence() {
        let event = json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "lastTimestamp": "2026-01-01T02:00:00Z", "eventTime": null,
            "series": {"lastObservedTime": "2026-01-01T03:00:00.000000Z"},
        });
        assert_eq!(last_seen(&event), Some("2026-01-01T03:00:00Z".parse().unwrap()));
        let plain = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(last_seen(&plain), Some("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(last_seen(&json!({})), None);
    }
}
