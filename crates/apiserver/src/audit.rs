//! The audit log: `audit.k8s.io/v1` events as JSON lines, level Metadata.
//!
//! The format is kube-apiserver's, so that one reader serves both. No body is ever logged.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::request_info::RequestInfo;
use crate::user::User;

/// A log that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the audit log {path}")]
pub struct OpenError {
    path: String,
    #[source]
    source: io::Error,
}

/// Where audit events go.
#[derive(Debug)]
pub struct AuditLog {
    file: Mutex<BufWriter<File>>,
}

impl AuditLog {
    /// Appends to a file, made when missing.
    ///
    /// # Errors
    /// When the file cannot be opened for writing.
    pub fn open(path: &Path) -> Result<Arc<Self>, OpenError> {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(|source| OpenError { path: path.display().to_string(), source })?;
        Ok(Arc::new(Self { file: Mutex::new(BufWriter::new(file)) }))
    }

    /// Writes one event as one line.
    pub fn write(&self, event: &Value) {
        let mut line = event.to_string();
        line.push('\n');
        let mut file = self.file.lock();
        if let Err(error) = file.write_all(line.as_bytes()).and_then(|()| file.flush()) {
            tracing::error!(%error, "cannot write the audit log");
        }
    }
}

/// What is known of a request when it is logged.
#[derive(Debug)]
pub struct Record<'a> {
    /// The request's audit ID.
    pub id: &'a str,
    /// The stage: `ResponseStarted` for a watch, `ResponseComplete`, `Panic`.
    pub stage: &'a str,
    /// Path and query as sent.
    pub uri: &'a str,
    /// What the request is about.
    pub info: &'a RequestInfo,
    /// Who made it.
    pub user: &'a User,
    /// As whom it was carried out, when that was somebody else.
    pub impersonated: Option<&'a User>,
    /// The client's address.
    pub source: String,
    /// The client's User-Agent.
    pub user_agent: &'a str,
    /// The answer's code.
    pub code: u16,
    /// The decision of authorisation, when it was asked, and its reason.
    pub decision: Option<(&'a str, &'a str)>,
    /// What this server adds to each of its events.
    pub annotations: &'a [(String, String)],
    /// When the request came.
    pub received: jiff::Timestamp,
    /// Now.
    pub now: jiff::Timestamp,
}

impl Record<'_> {
    /// The event.
    pub fn event(&self) -> Value {
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self.id,
            "stage": self.stage,
            "requestURI": self.uri,
            "verb": self.info.verb,
            "user": self.user,
            "sourceIPs": [self.source],
            "userAgent": self.user_agent,
            "responseStatus": {"metadata": {}, "code": self.code},
            "requestReceivedTimestamp": convoy_meta::time::format_micro(self.received),
            "stageTimestamp": convoy_meta::time::format_micro(self.now),
        });
        let Some(map) = event.as_object_mut() else { return event };
        if let Some(impersonated) = self.impersonated {
            map.insert("impersonatedUser".into(), json!(impersonated));
        }
        if let Some(resource) = &self.info.resource {
            let mut reference = serde_json::Map::new();
            let fields = [
                ("resource", &resource.resource),
                ("namespace", &resource.namespace),
                ("name", &resource.name),
                ("apiGroup", &resource.group),
                ("apiVersion", &resource.version),
                ("subresource", &resource.subresource),
            ];
            for (field, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
                reference.insert(field.into(), Value::from(value.as_str()));
            }
            map.insert("objectRef".into(), Value::Object(reference));
        }
        let mut annotations = serde_json::Map::new();
        if let Some((decision, reason)) = self.decision {
            annotations.insert("authorization.k8s.io/decision".into(), Value::from(decision));
            annotations.insert("authorization.k8s.io/reason".into(), Value::from(reason));
        }
        for (key, value) in self.annotations {
            annotations.insert(key.clone(), Value::from(value.as_str()));
        }
        if !annotations.is_empty() {
            map.insert("annotations".into(), Value::Object(annotations));
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use convoy_meta::Query;

    use super::*;

    #[test]
    fn a_request_is_one_line_in_kubernetes_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = AuditLog::open(&path).unwrap();
        let uri = "/api/v1/namespaces/x/secrets/s";
        let info = RequestInfo::parse(&http::Method::GET, uri, &Query::default()).unwrap();
        let now = jiff::Timestamp::UNIX_EPOCH;
        let user = User::new("jane", ["devs"]);
        let record = Record {
            id: "i",
            stage: "ResponseComplete",
            uri,
            info: &info,
            user: &user,
            impersonated: Some(&User::service_account("team", "deployer", "")),
            source: "127.0.0.1".into(),
            user_agent: "kubectl",
            code: 200,
            decision: Some(("allow", "")),
            annotations: &[("example.com/cluster".to_owned(), "one".to_owned())],
            received: now,
            now,
        };
        log.write(&record.event());
        let text = std::fs::read_to_string(&path).unwrap();
        let event: Value = serde_json::from_str(text.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(
            event["objectRef"],
            json!({"resource": "secrets", "namespace": "x", "name": "s", "apiVersion": "v1"})
        );
        assert_eq!(event["user"], json!({"username": "jane", "groups": ["devs"]}));
        assert_eq!(event["requestReceivedTimestamp"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "allow");
        assert_eq!(event["annotations"]["example.com/cluster"], "one");
    }
}
