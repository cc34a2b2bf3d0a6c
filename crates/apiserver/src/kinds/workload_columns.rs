//! What `kubectl get` prints of workloads and what belongs to them.

use convoy_meta::{Object, TableColumn, time};
use convoy_schema::BuiltIn;
use serde_json::{Value, json};

use super::columns::{age, column, name, since, text};

type Columns = fn() -> Vec<TableColumn>;
type Cells = fn(&Value, jiff::Timestamp) -> Vec<Value>;

/// The columns and cells of a kind, when it has more than a name and an age.
pub(super) fn printer(kind: &BuiltIn) -> Option<(Columns, Cells)> {
    Some(match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => (pod_columns, pod),
        ("", "Service") => (service_columns, service),
        ("", "Node") => (node_columns, node),
        ("", "PersistentVolumeClaim") => (claim_columns, claim),
        ("apps", "Deployment") => (deployment_columns, deployment),
        ("apps", "ReplicaSet") => (replica_set_columns, replica_set),
        ("apps", "StatefulSet") => (stateful_set_columns, stateful_set),
        ("apps", "DaemonSet") => (daemon_set_columns, daemon_set),
        ("batch", "Job") => (job_columns, job),
        ("batch", "CronJob") => (cron_job_columns, cron_job),
        ("networking.k8s.io", "Ingress") => (ingress_columns, ingress),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => (definition_columns, definition),
        _ => return None,
    })
}

fn integer(name: &str) -> TableColumn {
    TableColumn::new(name, "integer", "")
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn containers() -> [TableColumn; 2] {
    [column("Containers").wide(), column("Images").wide()]
}

fn container_cells(object: &Value, template: &str) -> [Value; 2] {
    let of = |field: &str| {
        let all = list(object, &format!("{template}/containers"));
        let values: Vec<&str> = all.iter().map(|container| text(container, field)).collect();
        Value::from(values.join(","))
    };
    [of("/name"), of("/image")]
}

fn selector(object: &Value, pointer: &str) -> Value {
    let Some(found) = object.pointer(pointer) else { return "<none>".into() };
    let nested = found.get("matchLabels").is_some() || found.get("matchExpressions").is_some();
    let found = if nested { found.clone() } else { json!({ "matchLabels": found }) };
    let text = convoy_meta::LabelSelector::from_json(&found).unwrap_or_default().to_string();
    if text.is_empty() { "<none>".into() } else { text.into() }
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

fn pod_columns() -> Vec<TableColumn> {
    vec![
        TableColumn::name_column(),
        column("Ready"),
        column("Status"),
        column("Restarts"),
        TableColumn::age_column(),
        column("IP").wide(),
        column("Node").wide(),
        column("Nominated Node").wide(),
        column("Readiness Gates").wide(),
    ]
}

fn pod(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let statuses = list(object, "/status/containerStatuses");
    let ready = statuses.iter().filter(|status| status.get("ready") == Some(&Value::Bool(true))).count();
    let total = list(object, "/spec/containers").len();
    let restarts: i64 = statuses.iter().map(|status| number(status, "/restartCount")).sum();
    let waiting = statuses
        .iter()
        .rev()
        .flat_map(|status| [text(status, "/state/waiting/reason"), text(status, "/state/terminated/reason")])
        .find(|reason| !reason.is_empty());
    let reason = text(object, "/status/reason");
    let phase = if reason.is_empty() { text(object, "/status/phase") } else { reason };
    let status = if object.is_deleting() { "Terminating" } else { waiting.unwrap_or(phase) };
    vec![
        name(object),
        format!("{ready}/{total}").into(),
        status.into(),
        restarts.to_string().into(),
        age(object, now),
        or_none(text(object, "/status/podIP")),
        or_none(text(object, "/spec/nodeName")),
        or_none(text(object, "/status/nominatedNodeName")),
        "<none>".into(),
    ]
}

fn service_columns() -> Vec<TableColumn> {
    vec![
        TableColumn::name_column(),
        column("Type"),
        column("Cluster-IP"),
        column("External-IP"),
        column("Port(s)"),
        TableColumn::age_column(),
        column("Selector").wide(),
    ]
}

fn service(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let type_ = text(object, "/spec/type");
    let ingress: Vec<&str> = list(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|one| if text(one, "/ip").is_empty() { text(one, "/hostname") } else { text(one, "/ip") })
        .collect();
    let external = match type_ {
        "LoadBalancer" if ingress.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => ingress.join(","),
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        _ => "<none>".to_owned(),
    };
    let ports: Vec<String> = list(object, "/spec/ports")
        .iter()
        .map(|port| {
            let node = number(port, "/nodePort");
            let node = if node > 0 { format!(":{node}") } else { String::new() };
            format!("{}{node}/{}", number(port, "/port"), text(port, "/protocol"))
        })
        .collect();
    vec![
        name(object),
        type_.into(),
        or_none(text(object, "/spec/clusterIP")),
        external.into(),
        or_none(&ports.join(",")),
        age(object, now),
        selector(object, "/spec/selector"),
    ]
}

fn node_columns() -> Vec<TableColumn> {
    vec![
        TableColumn::name_column(),
        column("Status"),
        column("Roles"),
        TableColumn::age_column(),
        column("Version"),
    ]
}

fn node(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let ready = list(object, "/status/conditions").iter().find(|one| text(one, "/type") == "Ready");
    let status = match ready.map(|one| text(one, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let prefix = "node-role.kubernetes.io/";
    let roles: Vec<&str> = object.labels().iter().filter_map(|(key, _)| key.strip_prefix(prefix)).collect();
    let version = text(object, "/status/nodeInfo/kubeletVersion");
    vec![name(object), status.into(), or_none(&roles.join(",")), age(object, now), version.into()]
}

fn claim_columns() -> Vec<TableColumn> {
    vec![
        TableColumn::name_column(),
        column("Status"),
        column("Volume"),
        column("Capacity"),
        column("Access Modes"),
        column("StorageClass"),
        column("VolumeAttributesClass"),
        TableColumn::age_column(),
        column("VolumeMode").wide(),
    ]
}

fn claim(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let short = |mode: &Value| match mode.as_str().unwrap_or_default() {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    let modes: Vec<&str> = list(object, "/status/accessModes").iter().map(short).collect();
    let status = if object.is_deleting() { "Terminating" } else { text(object, "/status/phase") };
    let class = text(object, "/spec/volumeAttributesClassName");
    vec![
        name(object),
        status.into(),
        text(object, "/spec/volumeName").into(),
        text(object, "/status/capacity/storage").into(),
        modes.join(",").into(),
        text(object, "/spec/storageClassName").into(),
        if class.is_empty() { "<unset>".into() } else { class.into() },
        age(object, now),
        text(object, "/spec/volumeMode").into(),
    ]
}

fn deployment_columns() -> Vec<TableColumn> {
    let mut columns = vec![
        TableColumn::name_column(),
        column("Ready"),
        integer("Up-to-date"),
        integer("Available"),
        TableColumn::age_column(),
    ];
    columns.extend(containers());
    columns.push(column("Selector").wide());
    columns
}

fn deployment(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    let mut cells = vec![
        name(object),
        ready.into(),
        number(object, "/status/updatedReplicas").into(),
        number(object, "/status/availableReplicas").into(),
        age(object, now),
    ];
    cells.extend(container_cells(object, "/spec/template/spec"));
    cells.push(selector(object, "/spec/selector"));
    cells
}

fn replica_set_columns() -> Vec<TableColumn> {
    let mut columns = vec![
        TableColumn::name_column(),
        integer("Desired"),
        integer("Current"),
        integer("Ready"),
        TableColumn::age_column(),
    ];
    columns.extend(containers());
    columns.push(column("Selector").wide());
    columns
}

fn replica_set(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let mut cells = vec![
        name(object),
        number(object, "/spec/replicas").into(),
        number(object, "/status/replicas").into(),
        number(object, "/status/readyReplicas").into(),
        age(object, now),
    ];
    cells.extend(container_cells(object, "/spec/template/spec"));
    cells.push(selector(object, "/spec/selector"));
    cells
}

fn stateful_set_columns() -> Vec<TableColumn> {
    let mut columns = vec![TableColumn::name_column(), column("Ready"), TableColumn::age_column()];
    columns.extend(containers());
    columns
}

fn stateful_set(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    let mut cells = vec![name(object), ready.into(), age(object, now)];
    cells.extend(container_cells(object, "/spec/template/spec"));
    cells
}

fn daemon_set_columns() -> Vec<TableColumn> {
    let mut columns = vec![
        TableColumn::name_column(),
        integer("Desired"),
        integer("Current"),
        integer("Ready"),
        integer("Up-to-date"),
        integer("Available"),
        column("Node Selector"),
        TableColumn::age_column(),
    ];
    columns.extend(containers());
    columns.push(column("Selector").wide());
    columns
}

fn daemon_set(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let mut cells = vec![
        name(object),
        number(object, "/status/desiredNumberScheduled").into(),
        number(object, "/status/currentNumberScheduled").into(),
        number(object, "/status/numberReady").into(),
        number(object, "/status/updatedNumberScheduled").into(),
        number(object, "/status/numberAvailable").into(),
        selector(object, "/spec/template/spec/nodeSelector"),
        age(object, now),
    ];
    cells.extend(container_cells(object, "/spec/template/spec"));
    cells.push(selector(object, "/spec/selector"));
    cells
}

fn job_columns() -> Vec<TableColumn> {
    let mut columns = vec![
        TableColumn::name_column(),
        column("Status"),
        column("Completions"),
        column("Duration"),
        TableColumn::age_column(),
    ];
    columns.extend(containers());
    columns.push(column("Selector").wide());
    columns
}

fn job(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let has = |type_: &str| {
        let mut conditions = list(object, "/status/conditions").iter();
        conditions.any(|one| text(one, "/type") == type_ && text(one, "/status") == "True")
    };
    let status = if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if object.is_deleting() {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let wanted = object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    let completions = format!("{}/{wanted}", number(object, "/status/succeeded"));
    let started = time::parse(text(object, "/status/startTime")).ok();
    let ended = time::parse(text(object, "/status/completionTime")).unwrap_or(now);
    let duration = started.map(|started| time::age(started, ended)).unwrap_or_default();
    let mut cells = vec![name(object), status.into(), completions.into(), duration.into(), age(object, now)];
    cells.extend(container_cells(object, "/spec/template/spec"));
    cells.push(selector(object, "/spec/selector"));
    cells
}

fn cron_job_columns() -> Vec<TableColumn> {
    let mut columns = vec![
        TableColumn::name_column(),
        column("Schedule"),
        column("Timezone"),
        column("Suspend"),
        integer("Active"),
        column("Last Schedule"),
        TableColumn::age_column(),
    ];
    columns.extend(containers());
    columns.push(column("Selector").wide());
    columns
}

fn cron_job(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let suspended = object.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let last = text(object, "/status/lastScheduleTime");
    let mut cells = vec![
        name(object),
        text(object, "/spec/schedule").into(),
        or_none(text(object, "/spec/timeZone")),
        (if suspended { "True" } else { "False" }).into(),
        list(object, "/status/active").len().into(),
        if last.is_empty() { "<none>".into() } else { since(last, now) },
        age(object, now),
    ];
    cells.extend(container_cells(object, "/spec/jobTemplate/spec/template/spec"));
    cells.push(selector(object, "/spec/jobTemplate/spec/selector"));
    cells
}

fn ingress_columns() -> Vec<TableColumn> {
    vec![
        TableColumn::name_column(),
        column("Class"),
        column("Hosts"),
        column("Address"),
        column("Ports"),
        TableColumn::age_column(),
    ]
}

fn ingress(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let hosts: Vec<&str> = list(object, "/spec/rules")
        .iter()
        .map(|rule| text(rule, "/host"))
        .filter(|host| !host.is_empty())
        .collect();
    let hosts = if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") };
    let addresses: Vec<&str> = list(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|one| if text(one, "/ip").is_empty() { text(one, "/hostname") } else { text(one, "/ip") })
        .collect();
    let ports = if list(object, "/spec/tls").is_empty() { "80" } else { "80, 443" };
    vec![
        name(object),
        or_none(text(object, "/spec/ingressClassName")),
        hosts.into(),
        addresses.join(",").into(),
        ports.into(),
        age(object, now),
    ]
}

fn definition_columns() -> Vec<TableColumn> {
    vec![TableColumn::name_column(), TableColumn::new("Created At", "date", "")]
}

fn definition(object: &Value, _now: jiff::Timestamp) -> Vec<Value> {
    vec![name(object), object.meta_str("creationTimestamp").into()]
}

#[cfg(test)]
mod tests {
    use convoy_schema::catalogue;

    use super::*;

    #[test]
    fn every_printer_makes_as_many_cells_as_columns() {
        let mut printers = 0;
        for kind in &catalogue().kinds {
            let Some((columns, cells)) = printer(kind) else { continue };
            assert_eq!(
                columns().len(),
                cells(&json!({}), jiff::Timestamp::UNIX_EPOCH).len(),
                "{}",
                kind.kind
            );
            printers += 1;
        }
        assert!(printers >= 11, "{printers}");
    }

    #[test]
    fn a_deployment_prints_as_kubectl_shows_it() {
        let object = json!({
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}
        });
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let want = json!(["web", "1/2", 2, 1, "5m", "c", "nginx:1", "app=web"]);
        assert_eq!(Value::from(deployment(&object, now)), want);
    }
}
