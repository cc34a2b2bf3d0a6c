//! What `kubectl get` prints of built-in kinds, as kube-apiserver's own printers make it.

use convoy_meta::{Object, TableColumn, time};
use convoy_registry::Strategy;
use convoy_schema::BuiltIn;
use serde_json::{Value, json};

/// A strategy that only prints.
#[derive(Debug)]
pub(super) struct Printed {
    printer: Option<Printer>,
}

#[derive(Debug, Clone, Copy)]
struct Printer {
    columns: fn() -> Vec<TableColumn>,
    cells: fn(&Value, jiff::Timestamp) -> Vec<Value>,
}

impl Printed {
    pub(super) fn of(kind: &BuiltIn) -> Self {
        let printer = match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "Event") => Some(Printer { columns: event_columns, cells: event }),
            ("events.k8s.io", "Event") => Some(Printer { columns: event_columns, cells: new_event }),
            ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
                Some(Printer { columns: role_columns, cells: role })
            }
            ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
                Some(Printer { columns: binding_columns, cells: binding })
            }
            _ => super::workload_columns::printer(kind).map(|(columns, cells)| Printer { columns, cells }),
        };
        Self { printer }
    }
}

impl Strategy for Printed {
    fn table_columns(&self) -> Option<Vec<TableColumn>> {
        self.printer.map(|printer| (printer.columns)())
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        self.printer.map(|printer| (printer.cells)(object, now)).unwrap_or_default()
    }
}

/// The NAME cell.
pub(super) fn name(object: &Value) -> Value {
    object.name().into()
}

/// The AGE cell.
pub(super) fn age(object: &Value, now: jiff::Timestamp) -> Value {
    since(object.meta_str("creationTimestamp"), now)
}

/// How long ago a time was, `<unknown>` when it is none.
pub(super) fn since(text: &str, now: jiff::Timestamp) -> Value {
    time::parse(text).map_or_else(|_| "<unknown>".to_owned(), |at| time::age(at, now)).into()
}

/// A column of text.
pub(super) fn column(name: &str) -> TableColumn {
    TableColumn::new(name, "string", "")
}

/// The text at a JSON pointer, empty when there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn event_columns() -> Vec<TableColumn> {
    vec![
        column("Last Seen"),
        column("Type"),
        column("Reason"),
        column("Object"),
        column("Subobject").wide(),
        column("Source").wide(),
        column("Message"),
        column("First Seen").wide(),
        column("Count").wide(),
        TableColumn::name_column().wide(),
    ]
}

fn event(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    event_cells(
        object,
        now,
        "/involvedObject",
        text(object, "/message"),
        ["/firstTimestamp", "/lastTimestamp"],
        "/count",
        "/source",
    )
}

fn new_event(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    event_cells(
        object,
        now,
        "/regarding",
        text(object, "/note"),
        ["/deprecatedFirstTimestamp", "/deprecatedLastTimestamp"],
        "/deprecatedCount",
        "/deprecatedSource",
    )
}

fn event_cells(
    object: &Value,
    now: jiff::Timestamp,
    about: &str,
    message: &str,
    [first, last]: [&str; 2],
    count: &str,
    source: &str,
) -> Vec<Value> {
    let pick = |pointer: String| text(object, &pointer).to_owned();
    let event_time = text(object, "/eventTime");
    let or = |one: &str, other: &str| if one.is_empty() { other.to_owned() } else { one.to_owned() };
    let first_seen = or(text(object, first), event_time);
    let series = text(object, "/series/lastObservedTime");
    let last_seen = or(series, &or(text(object, last), &first_seen));
    let component = or(
        &pick(format!("{source}/component")),
        &or(text(object, "/reportingComponent"), text(object, "/reportingController")),
    );
    let host = pick(format!("{source}/host"));
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    let kind = pick(format!("{about}/kind")).to_lowercase();
    let about_name = pick(format!("{about}/name"));
    let target = if kind.is_empty() { about_name } else { format!("{kind}/{about_name}") };
    let times = object
        .pointer("/series/count")
        .and_then(Value::as_i64)
        .or_else(|| object.pointer(count).and_then(Value::as_i64))
        .filter(|count| *count > 0)
        .unwrap_or(1);
    vec![
        since(&last_seen, now),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        pick(format!("{about}/fieldPath")).into(),
        source.into(),
        message.trim().into(),
        since(&first_seen, now),
        json!(times),
        name(object),
    ]
}

fn role_columns() -> Vec<TableColumn> {
    vec![TableColumn::name_column(), TableColumn::new("Created At", "date", "")]
}

fn role(object: &Value, _now: jiff::Timestamp) -> Vec<Value> {
    vec![name(object), object.meta_str("creationTimestamp").into()]
}

fn binding_columns() -> Vec<TableColumn> {
    vec![
        TableColumn::name_column(),
        column("Role"),
        TableColumn::age_column(),
        column("Users").wide(),
        column("Groups").wide(),
        column("ServiceAccounts").wide(),
    ]
}

fn binding(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let subjects = object.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of = |kind: &str| {
        let names = subjects.iter().filter(|subject| text(subject, "/kind") == kind).map(|subject| {
            if kind == "ServiceAccount" {
                format!("{}/{}", text(subject, "/namespace"), text(subject, "/name"))
            } else {
                text(subject, "/name").to_owned()
            }
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    vec![name(object), role.into(), age(object, now), of("User"), of("Group"), of("ServiceAccount")]
}
