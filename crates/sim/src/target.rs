//! A simulated target cluster: objects, written by server-side apply, and who wrote what when.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::time::Nanos;

/// Names the revision of an object that was applied.
pub(crate) const REVISION: &str = "revision";

/// An object, and who wrote it last; that is for the messages of failures.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) uid: u64,
    pub(crate) version: u64,
    pub(crate) revision: u64,
    /// The last change.
    pub(crate) changed: Nanos,
    /// The process that made it; 0 for people.
    pub(crate) by: u64,
    /// Its epoch.
    pub(crate) epoch: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) objects: BTreeMap<String, Object>,
    version: u64,
    /// Changes so far.
    pub(crate) changes: u64,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) pid: u64,
    pub(crate) epoch: u64,
    pub(crate) now: Nanos,
}

pub(crate) type HttpAnswer = (u16, Bytes);

fn status(code: u16, message: &str) -> HttpAnswer {
    (code, Bytes::from(json!({"kind": "Status", "code": code, "message": message}).to_string()))
}

fn metadata(object: &Object) -> Bytes {
    let (uid, version) = (format!("uid-{}", object.uid), object.version);
    Bytes::from(format!(r#"{{"metadata":{{"uid":"{uid}","resourceVersion":"{version}"}}}}"#))
}

pub(crate) fn error(code: u16) -> HttpAnswer {
    status(code, "simulated trouble")
}

impl Cluster {
    pub(crate) fn answer(&mut self, method: &Method, path: &str, body: &[u8], asker: Asker) -> HttpAnswer {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        match *method {
            Method::GET => {
                self.objects.get(path).map_or_else(|| status(404, "not found"), |at| (200, metadata(at)))
            }
            Method::PATCH => {
                let revision =
                    body["metadata"]["annotations"][REVISION].as_str().and_then(|text| text.parse().ok());
                // As kube-apiserver does: who names a uid means that object and no other.
                let meant = body["metadata"]["uid"].as_str();
                let uid = self.objects.get(path).map(|object| format!("uid-{}", object.uid));
                if meant.is_some() && meant != uid.as_deref() {
                    return status(409, "the object is another, or gone");
                }
                self.apply(path, revision.unwrap_or(0), asker)
            }
            Method::DELETE => self.delete(path, &body["preconditions"]),
            _ => status(405, "not allowed"),
        }
    }

    pub(crate) fn apply(&mut self, path: &str, revision: u64, asker: Asker) -> HttpAnswer {
        let is_new = !self.objects.contains_key(path);
        self.version += 1;
        let version = self.version;
        let object = self.objects.entry(path.to_owned()).or_insert_with(|| Object {
            uid: version,
            version,
            revision,
            changed: asker.now,
            by: asker.pid,
            epoch: asker.epoch,
        });
        // What changes nothing gets no new version, as with server-side apply.
        if is_new || object.revision != revision {
            *object = Object {
                uid: object.uid,
                version,
                revision,
                changed: asker.now,
                by: asker.pid,
                epoch: asker.epoch,
            };
            self.changes += 1;
        }
        (if is_new { 201 } else { 200 }, metadata(object))
    }

    fn delete(&mut self, path: &str, preconditions: &Value) -> HttpAnswer {
        let Some(object) = self.objects.get(path) else { return status(404, "not found") };
        let is_meant = preconditions["uid"] == format!("uid-{}", object.uid)
            && preconditions["resourceVersion"].as_str().and_then(|text| text.parse().ok())
                == Some(object.version);
        if !is_meant {
            return status(409, "the object is another, or changed");
        }
        self.objects.remove(path);
        self.changes += 1;
        (200, Bytes::from_static(b"{}"))
    }
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.changed / crate::time::SEC;
        write!(f, "revision {} by pid {} in epoch {} at {seconds} s", self.revision, self.by, self.epoch)
    }
}
