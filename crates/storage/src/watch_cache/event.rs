//! What watchers get.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use convoy_meta::{FieldSelector, LabelSelector};

use super::{Entry, EntryFormat};

/// Which objects of a resource are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Only this namespace.
    pub namespace: Option<String>,
    pub labels: LabelSelector,
    /// Of the fields that the resource declares.
    pub fields: FieldSelector,
}

impl Selector {
    /// Whether an object is among those asked for. One with a fault never is.
    pub fn matches(&self, entry: &Entry) -> bool {
        entry.fault().is_none()
            && self.namespace.as_deref().is_none_or(|namespace| entry.namespace() == namespace)
            && (self.labels.is_empty() || self.labels.matches_with(|key| entry.label(key)))
            && (self.fields.is_empty()
                || self.fields.matches_with(|path| entry.field(path).unwrap_or_default().to_owned()))
    }

    /// Whether it looks at more than the namespace.
    pub fn filters(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

impl DeliveryKind {
    /// As it stands in the `type` of a watch event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
        }
    }
}

/// One change of the cache, shared by all watchers with all that is serialised of it.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) revision: u64,
    pub(super) current: Option<Arc<Entry>>,
    pub(super) previous: Option<Arc<Entry>>,
    /// `previous` at the revision of the change: what goes from a watcher's view.
    gone: OnceLock<Option<Arc<Entry>>>,
    added: OnceLock<Bytes>,
    modified: OnceLock<Bytes>,
    deleted: OnceLock<Bytes>,
}

impl Change {
    pub(super) fn new(revision: u64, current: Option<Arc<Entry>>, previous: Option<Arc<Entry>>) -> Self {
        Self {
            revision,
            current,
            previous,
            gone: OnceLock::new(),
            added: OnceLock::new(),
            modified: OnceLock::new(),
            deleted: OnceLock::new(),
        }
    }

    pub(super) fn subject(&self) -> Option<&Arc<Entry>> {
        self.current.as_ref().or(self.previous.as_ref())
    }

    /// Bytes that this change keeps in memory although the cache has moved on.
    pub(super) fn weight(&self) -> usize {
        self.previous.as_ref().map_or(0, |entry| entry.json().len()) + 256
    }

    fn gone(&self) -> Option<&Arc<Entry>> {
        self.gone.get_or_init(|| Some(Arc::new(self.previous.as_ref()?.at(self.revision)))).as_ref()
    }

    /// What a watcher with this selector gets of the change, if anything.
    pub(super) fn seen_by(self: &Arc<Self>, selector: &Selector) -> Option<Delivery> {
        let was = self.previous.as_ref().is_some_and(|entry| selector.matches(entry));
        let is = self.current.as_ref().is_some_and(|entry| selector.matches(entry));
        let kind = match (was, is) {
            (false, false) => return None,
            (false, true) => DeliveryKind::Added,
            (true, true) => DeliveryKind::Modified,
            (true, false) => DeliveryKind::Deleted,
        };
        Some(Delivery { kind, body: Body::Change(Arc::clone(self)) })
    }
}

/// One event of one watcher.
#[derive(Debug, Clone)]
pub struct Delivery {
    kind: DeliveryKind,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Initial(Arc<Entry>),
    Change(Arc<Change>),
    Bookmark { format: Arc<EntryFormat>, revision: u64, initial_events_end: bool },
}

impl Delivery {
    pub(super) fn initial(entry: Arc<Entry>) -> Self {
        Self { kind: DeliveryKind::Added, body: Body::Initial(entry) }
    }

    pub(super) fn bookmark(format: Arc<EntryFormat>, revision: u64, initial_events_end: bool) -> Self {
        Self { kind: DeliveryKind::Bookmark, body: Body::Bookmark { format, revision, initial_events_end } }
    }

    /// The type of the event.
    pub fn kind(&self) -> DeliveryKind {
        self.kind
    }

    /// The resourceVersion of the event's object.
    pub fn revision(&self) -> u64 {
        match &self.body {
            Body::Initial(entry) => entry.revision(),
            Body::Change(change) => change.revision,
            Body::Bookmark { revision, .. } => *revision,
        }
    }

    /// Whether it is the bookmark that ends the initial events.
    pub fn ends_initial_events(&self) -> bool {
        matches!(self.body, Body::Bookmark { initial_events_end: true, .. })
    }

    /// The event's object; `None` for a bookmark.
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        match &self.body {
            Body::Initial(entry) => Some(entry),
            Body::Change(change) if self.kind == DeliveryKind::Deleted => change.gone(),
            Body::Change(change) => change.current.as_ref(),
            Body::Bookmark { .. } => None,
        }
    }

    /// The event's object as JSON.
    pub fn object(&self) -> Bytes {
        match &self.body {
            Body::Bookmark { format, revision, initial_events_end } => {
                let annotations = serde_json::json!({ "k8s.io/initial-events-end": "true" });
                let mut metadata = serde_json::json!({ "resourceVersion": revision.to_string() });
                if *initial_events_end && let Some(map) = metadata.as_object_mut() {
                    map.insert("annotations".to_owned(), annotations);
                }
                let object = serde_json::json!({
                    "apiVersion": format.api_version, "kind": format.kind, "metadata": metadata,
                });
                object.to_string().into()
            }
            Body::Initial(_) | Body::Change(_) => {
                self.entry().map(|entry| entry.json().clone()).unwrap_or_default()
            }
        }
    }

    /// The event as a line of a JSON watch stream, serialised once for all watchers.
    pub fn frame(&self) -> Bytes {
        let serialise = || frame(self.kind, &self.object());
        match (&self.body, self.kind) {
            (Body::Change(change), DeliveryKind::Added) => change.added.get_or_init(serialise).clone(),
            (Body::Change(change), DeliveryKind::Modified) => change.modified.get_or_init(serialise).clone(),
            (Body::Change(change), DeliveryKind::Deleted) => change.deleted.get_or_init(serialise).clone(),
            _ => serialise(),
        }
    }
}

fn frame(kind: DeliveryKind, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 32);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_str().as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}
