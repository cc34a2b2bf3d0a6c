//! `convoy describe`: all about an object, for people.

use std::fmt::Write as _;

use convoy_api::KindInfo;
use convoy_meta::time;
use convoy_runtime::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Map, Value, json};

use super::arguments::Describe;
use super::forget::named_cluster;
use super::server::Server;
use super::what::parse;
use crate::terminal::{Cell, Colour, Display, Table};

/// Entries of an inventory that are printed; the rest is counted.
const SHOWN: usize = 30;

/// Prints all about the objects. False when one that was named is not there.
pub(super) async fn run(arguments: &Describe, clock: &dyn Clock) -> anyhow::Result<bool> {
    let wanted = parse(&arguments.what)?;
    let server = Server::select(&arguments.selection).await?;
    server.check(&wanted, true)?;
    let (mut is_all, mut is_first) = (true, true);
    for one in &wanted {
        let (objects, has_all) = server.objects(one).await?;
        is_all &= has_all;
        for object in objects {
            let inventories = match one.info.kind {
                "Release" => super::forget::inventories(&server, &object).await?,
                _ => Vec::new(),
            };
            let events = server.events(&object).await;
            if !is_first {
                println!("\n");
            }
            is_first = false;
            let value = serde_json::to_value(&object)?;
            let now = clock.now();
            print!("{}", text(&one.info, &value, &inventories, &events, now, Display::detect())?);
        }
    }
    Ok(is_all)
}

fn text(
    info: &KindInfo,
    object: &Value,
    inventories: &[Value],
    events: &[Event],
    now: Timestamp,
    display: Display,
) -> anyhow::Result<String> {
    let mut page = Page { text: String::new(), display, now };
    let at = |pointer: &str| object.pointer(pointer).filter(|value| !value.is_null());
    let of = |pointer: &str| at(pointer).map(plain).unwrap_or_default();
    page.field("Name", &of("/metadata/name"));
    page.field("Namespace", &of("/metadata/namespace"));
    page.map("Labels", at("/metadata/labels"), |_| true);
    // What kubectl keeps there is long, and says nothing new.
    page.map("Annotations", at("/metadata/annotations"), |name| !name.starts_with("kubectl.kubernetes.io/"));
    let created = of("/metadata/creationTimestamp");
    page.field("Created", &page.since(&created));
    let deleted = of("/metadata/deletionTimestamp");
    if !deleted.is_empty() {
        page.field("Deleted", &page.since(&deleted));
    }
    if at("/spec/suspend") == Some(&Value::Bool(true)) {
        page.field("Suspended", "yes");
    }
    match info.kind {
        "Release" => release(&mut page, object),
        _ => {
            page.document("Spec", at("/spec"))?;
            let mut status = at("/status").and_then(Value::as_object).cloned().unwrap_or_default();
            for known in ["conditions", "observedGeneration"] {
                status.remove(known);
            }
            page.document("Status", Some(&Value::Object(status)))?;
        }
    }
    page.conditions(at("/status/conditions"));
    if info.kind == "Release" {
        page.history(at("/status/history"));
        page.inventories(inventories);
        if let Some(notes) = at("/status/notes").and_then(Value::as_str) {
            page.heading("Notes");
            notes.lines().for_each(|line| page.line(line));
        }
    }
    page.events(events);
    Ok(page.text)
}

fn release(page: &mut Page, object: &Value) {
    let of = |pointer: &str| object.pointer(pointer).map(plain).unwrap_or_default();
    page.field("Cluster", &named_cluster(object));
    let source = [
        ("GitRepository", "git/repositoryRef", &["path"][..]),
        ("HelmRegistry", "helm/registryRef", &["chart", "version"]),
        ("OCIRegistry", "oci/registryRef", &["repository", "tag", "semver", "digest"]),
    ];
    for (kind, reference, more) in source {
        let name = of(&format!("/spec/source/{reference}/name"));
        if name.is_empty() {
            continue;
        }
        let way = reference.split('/').next().unwrap_or_default();
        let parts = more.iter().filter_map(|field| {
            let value = of(&format!("/spec/source/{way}/{field}"));
            (!value.is_empty()).then(|| format!(", {field} {value}"))
        });
        page.field("Source", &format!("{kind} {name}{}", parts.collect::<String>()));
    }
    let (revision, tried) = (of("/status/sourceRevision"), of("/status/lastAttemptedRevision"));
    page.field("Revision", &revision);
    if tried != revision {
        page.field("Tried", &tried);
    }
    let (objects, healthy) = (of("/status/objects"), of("/status/healthyObjects"));
    if !objects.is_empty() {
        let healthy = if healthy.is_empty() { String::new() } else { format!(", {healthy} healthy") };
        page.field("Objects", &format!("{objects}{healthy}"));
    }
    page.field("Target namespace", &of("/spec/targetNamespace"));
    page.field("Bundle", &of("/status/bundleDigest"));
    let applied = of("/status/lastAppliedTime");
    if !applied.is_empty() {
        page.field("Applied", &page.since(&applied));
    }
    page.field("Controller", &of("/status/controller/replica"));
    page.field("Observer", &of("/status/observer/replica"));
}

struct Page {
    text: String,
    display: Display,
    now: Timestamp,
}

impl Page {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "  {line}");
    }

    fn heading(&mut self, heading: &str) {
        let _ = writeln!(self.text, "{}", self.display.paint(Colour::Bold, &format!("{heading}:")));
    }

    fn field(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            let _ = writeln!(self.text, "{:18}{value}", format!("{name}:"));
        }
    }

    fn since(&self, text: &str) -> String {
        match time::parse(text) {
            Ok(at) => format!("{text} ({} ago)", time::age(at, self.now)),
            Err(_) => text.to_owned(),
        }
    }

    fn age(&self, text: &str) -> String {
        time::parse(text).map_or_else(|_| "-".to_owned(), |at| time::age(at, self.now))
    }

    fn map(&mut self, name: &str, value: Option<&Value>, is_shown: impl Fn(&str) -> bool) {
        let empty = Map::new();
        let all = value.and_then(Value::as_object).unwrap_or(&empty);
        for (index, (key, value)) in all.iter().filter(|(key, _)| is_shown(key)).enumerate() {
            let name = if index == 0 { format!("{name}:") } else { String::new() };
            let _ = writeln!(self.text, "{name:18}{key}={}", plain(value));
        }
    }

    fn document(&mut self, heading: &str, value: Option<&Value>) -> anyhow::Result<()> {
        let Some(value) = value.filter(|value| **value != json!({})) else { return Ok(()) };
        self.heading(heading);
        for line in convoy_yaml::to_yaml(value)?.lines() {
            self.line(line);
        }
        Ok(())
    }

    fn table(&mut self, heading: &str, table: &Table) {
        self.heading(heading);
        for line in table.render(self.display).lines() {
            self.line(line);
        }
    }

    fn conditions(&mut self, conditions: Option<&Value>) {
        let Some(conditions) = conditions.and_then(Value::as_array).filter(|all| !all.is_empty()) else {
            return;
        };
        let mut table = Table::new(&["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"]);
        for condition in conditions {
            let of = |name: &str| condition.get(name).map(plain).unwrap_or_default();
            // Of these, true is the bad news.
            let is_inverse = ["Stalled", "Drifted"].contains(&of("type").as_str());
            let status = match of("status").as_str() {
                "True" if is_inverse => Cell::coloured("True", Colour::Bad),
                "True" => Cell::coloured("True", Colour::Good),
                "False" if !is_inverse => Cell::coloured("False", Colour::Bad),
                other => other.into(),
            };
            table.row(vec![
                of("type").into(),
                status,
                of("reason").into(),
                self.age(&of("lastTransitionTime")).into(),
                one_line(&of("message")).into(),
            ]);
        }
        self.table("Conditions", &table);
    }

    fn history(&mut self, history: Option<&Value>) {
        let Some(history) = history.and_then(Value::as_array).filter(|all| !all.is_empty()) else { return };
        let mut table = Table::new(&["REVISION", "OUTCOME", "SOURCE", "CLUSTER", "AGE", "MESSAGE"]);
        for entry in history {
            let of = |name: &str| entry.get(name).map(plain).unwrap_or_default();
            let outcome = match of("outcome").as_str() {
                "Succeeded" => Cell::coloured("Succeeded", Colour::Good),
                "Failed" => Cell::coloured("Failed", Colour::Bad),
                other => other.into(),
            };
            table.row(vec![
                of("revision").into(),
                outcome,
                of("sourceRevision").into(),
                entry.pointer("/clusterRef/name").map(plain).unwrap_or_default().into(),
                self.age(&of("started")).into(),
                one_line(&of("message")).into(),
            ]);
        }
        self.table("History", &table);
    }

    fn inventories(&mut self, inventories: &[Value]) {
        for (cluster, objects) in super::forget::listed(inventories) {
            let mut table = Table::new(&["KIND", "NAMESPACE", "NAME"]);
            for object in objects.iter().take(SHOWN) {
                table.row(object.iter().map(|text| text.as_str().into()).collect());
            }
            let more = objects.len().saturating_sub(SHOWN);
            let count =
                if objects.len() == 1 { "1 object".to_owned() } else { format!("{} objects", objects.len()) };
            self.table(&format!("On the Cluster {cluster}, {count}"), &table);
            if more > 0 {
                self.line(&format!("and {more} more"));
            }
        }
    }

    fn events(&mut self, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        let mut table = Table::new(&["TYPE", "REASON", "AGE", "FROM", "MESSAGE"]);
        for event in events {
            let last = event.last_timestamp.as_ref().map(|last| time::age(last.0, self.now));
            let age = match (last, event.count.unwrap_or(1)) {
                (Some(age), count) if count > 1 => format!("{age} (x{count})"),
                (age, _) => age.unwrap_or_else(|| "-".to_owned()),
            };
            let kind = event.type_.clone().unwrap_or_default();
            let kind = if kind == "Warning" { Cell::coloured(kind, Colour::Bad) } else { kind.into() };
            let from = event.source.as_ref().and_then(|source| source.component.clone());
            table.row(vec![
                kind,
                event.reason.clone().unwrap_or_default().into(),
                age.into(),
                from.or_else(|| event.reporting_component.clone()).unwrap_or_default().into(),
                one_line(event.message.as_deref().unwrap_or_default()).into(),
            ]);
        }
        self.table("Events", &table);
    }
}

/// Of several lines one, so that columns stay columns; and no control characters, which terminals obey.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::what::parse;
    use super::*;

    fn described(kind: &str, object: &Value, inventories: &[Value]) -> String {
        let info = parse(&[kind.to_owned()]).unwrap().remove(0).info;
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        text(&info, object, inventories, &[], now, Display::Plain).unwrap()
    }

    #[test]
    fn a_release_is_told_from_its_cluster_to_its_objects() {
        let release = json!({
            "metadata": {"name": "web", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}},
            "spec": {"clusterRef": {"name": "here"}, "suspend": true,
                "source": {"helm": {"registryRef": {"name": "charts"}, "chart": "web", "version": "1.x"}}},
            "status": {
                "sourceRevision": "1.0.0", "lastAttemptedRevision": "1.1.0", "objects": 2, "healthyObjects": 1,
                "conditions": [{"type": "Ready", "status": "False", "reason": "ApplyRejected",
                    "lastTransitionTime": "2026-01-01T00:50:00Z", "message": "two\nlines\u{1b}[31m"}],
                "history": [{"revision": 2, "outcome": "Failed", "sourceRevision": "1.1.0",
                    "clusterRef": {"name": "here"}, "started": "2026-01-01T00:55:00Z"}],
            },
        });
        let inventory = json!({"spec": {"clusterRef": {"name": "here"}, "entries": [
            {"kind": "ConfigMap", "namespace": "web", "name": "a"},
            {"kind": "Deployment", "group": "apps", "namespace": "web", "name": "b"},
            {"kind": "Secret", "namespace": "web", "name": "c", "gone": true}]}});
        let text = described("release", &release, &[inventory]);
        for part in [
            "Name:             web\n",
            "Annotations:      a=b\n",
            "Created:          2026-01-01T00:00:00Z (60m ago)\n",
            "Suspended:        yes\n",
            "Source:           HelmRegistry charts, chart web, version 1.x\n",
            "Revision:         1.0.0\nTried:            1.1.0\n",
            "Objects:          2, 1 healthy\n",
            "  Ready   False    ApplyRejected   10m   two lines [31m\n",
            "  2          Failed    1.1.0    here      5m\n",
            "On the Cluster here, 2 objects:\n",
            "  Deployment.apps   web         b\n",
        ] {
            assert!(text.contains(part), "{part:?}:\n{text}");
        }
        assert!(
            !text.contains("last-applied") && !text.contains("Secret") && !text.contains('\u{1b}'),
            "{text}"
        );
    }

    #[test]
    fn other_kinds_show_spec_and_status() {
        let source = json!({
            "metadata": {"name": "apps", "namespace": "team"},
            "spec": {"url": "https://git.example/apps"},
            "status": {"observedGeneration": 1, "artifact": {"revision": "main@sha1:1"}, "conditions": []},
        });
        let text = described("gitrepo", &source, &[]);
        assert!(text.contains("Spec:\n  url: https://git.example/apps\n"), "{text}");
        assert!(text.contains("Status:\n  artifact:\n    revision: main@sha1:1\n"), "{text}");
    }
}
