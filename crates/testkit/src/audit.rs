//! Reading `audit.k8s.io/v1` logs: kube-apiserver's, convoy's own and the sandbox's alike.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

/// On events of a log that several clusters share: the cluster.
const CLUSTER: &str = "sandbox.convoy.kumodo.io/cluster";

/// Who sent a request, by its User-Agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sender {
    /// `controller-manager` of `convoy-controller-manager/0.1.0 (cm-0)`; other programs' User-Agents whole.
    pub process: String,
    /// `cm-0` of the same; empty for other programs.
    pub replica: String,
}

impl Sender {
    /// Reads `convoy-<process>/<version> (<replica-id>)`.
    pub fn parse(user_agent: &str) -> Self {
        let convoy = || {
            let (process, rest) = user_agent.strip_prefix("convoy-")?.split_once('/')?;
            let replica = rest.split_once(" (")?.1.strip_suffix(')')?;
            Some(Self { process: process.to_owned(), replica: replica.to_owned() })
        };
        convoy().unwrap_or_else(|| Self { process: user_agent.to_owned(), replica: String::new() })
    }
}

/// One request that changes something, when it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The cluster that it went to; empty when the log is of one cluster.
    pub cluster: String,
    /// Who sent it.
    pub sender: Sender,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Plural of the kind, with `/<subresource>` when there is one.
    pub resource: String,
    /// Namespace; may be empty.
    pub namespace: String,
    /// Name; empty for a create.
    pub name: String,
    /// When the server received it.
    pub began: Timestamp,
    /// When the server had its answer.
    pub ended: Timestamp,
    /// The answer's status code.
    pub code: u16,
}

impl Write {
    /// The mutating request of one line; none when the line is another event. Dry runs and reviews of
    /// access change nothing.
    pub fn parse(line: &str) -> Option<Self> {
        // Most lines are reads; they are told apart without parsing them.
        if !line.contains("ResponseComplete") || line.contains("\"verb\":\"get\"") {
            return None;
        }
        let event: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let verb = text(&event["verb"]);
        let is_mutating =
            matches!(verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection");
        let object = &event["objectRef"];
        let mut resource = text(&object["resource"]);
        let is_real = !text(&event["requestURI"]).contains("dryRun=") && !resource.ends_with("reviews");
        if event["stage"] != "ResponseComplete" || !is_mutating || !is_real {
            return None;
        }
        if let Some(subresource) = object["subresource"].as_str() {
            resource = format!("{resource}/{subresource}");
        }
        Some(Self {
            cluster: text(&event["annotations"][CLUSTER]),
            sender: Sender::parse(event["userAgent"].as_str().unwrap_or_default()),
            verb,
            resource,
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            began: event["requestReceivedTimestamp"].as_str()?.parse().ok()?,
            ended: event["stageTimestamp"].as_str()?.parse().ok()?,
            code: u16::try_from(event["responseStatus"]["code"].as_u64()?).ok()?,
        })
    }

    /// Whether it was carried out.
    pub fn is_done(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// Reads a log that still grows.
#[derive(Debug, Clone)]
pub struct AuditReader {
    path: PathBuf,
    offset: u64,
}

impl AuditReader {
    /// A reader that has read nothing.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), offset: 0 }
    }

    /// The mutating requests since the last call. A line that is not yet whole is left for the next.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&mut self) -> io::Result<Vec<Write>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |position| position + 1);
        self.offset += whole as u64;
        let text = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
        Ok(text.lines().filter_map(Write::parse).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// As kube-apiserver writes it (shortened by fields that are not read).
    const KUBERNETES: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/x/configmaps/c?fieldManager=convoy","verb":"patch","user":{"username":"admin"},"sourceIPs":["127.0.0.1"],"userAgent":"convoy-controller-manager/0.1.0 (cm-0)","objectRef":{"resource":"configmaps","namespace":"x","name":"c","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2026-11-29T10:00:00.000001Z","stageTimestamp":"2026-11-29T10:00:00.010000Z","annotations":{"authorization.k8s.io/decision":"allow"}}"#;

    #[test]
    fn a_write_is_read_with_its_sender_and_its_times() {
        let write = Write::parse(KUBERNETES).unwrap();
        assert_eq!(write.sender, Sender { process: "controller-manager".into(), replica: "cm-0".into() });
        assert_eq!((write.verb.as_str(), write.resource.as_str(), write.code), ("patch", "configmaps", 201));
        assert_eq!((write.ended - write.began).total(jiff::Unit::Microsecond).unwrap(), 9999.0);
        assert!(write.is_done() && write.cluster.is_empty());
        let sandbox = KUBERNETES.replace(
            r#""annotations":{"#,
            r#""annotations":{"sandbox.convoy.kumodo.io/cluster":"cluster-1","#,
        );
        assert_eq!(Write::parse(&sandbox).unwrap().cluster, "cluster-1");
    }

    #[test]
    fn what_changes_nothing_is_left_out() {
        for (from, to) in [
            (r#""verb":"patch""#, r#""verb":"get""#),
            (r#""verb":"patch""#, r#""verb":"watch""#),
            ("ResponseComplete", "RequestReceived"),
            ("?fieldManager=convoy", "?dryRun=All"),
            (r#""resource":"configmaps""#, r#""resource":"selfsubjectaccessreviews""#),
            ("audit", "\u{0}audit"),
        ] {
            assert_eq!(Write::parse(&KUBERNETES.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn other_programs_are_senders_too() {
        assert_eq!(Sender::parse("kubectl/v1.36").process, "kubectl/v1.36");
        assert_eq!(Sender::parse("convoy-x").replica, "");
    }

    #[test]
    fn a_growing_log_is_read_line_by_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut reader = AuditReader::new(file.path());
        let (first, rest) = KUBERNETES.split_at(40);
        write!(file, "{KUBERNETES}\n{first}").unwrap();
        assert_eq!(reader.read().unwrap().len(), 1);
        assert_eq!(reader.read().unwrap().len(), 0);
        writeln!(file, "{rest}").unwrap();
        assert_eq!(reader.read().unwrap().len(), 1);
    }
}
