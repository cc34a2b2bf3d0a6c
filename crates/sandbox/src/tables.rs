//! The cells of `kubectl get`. The columns are data of the catalogue; a column that nobody fills is empty.

use convoy_meta::{Object, TableColumn, time};
use convoy_schema::BuiltIn;
use jiff::Timestamp;
use serde_json::Value;

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";

/// The columns of a kind, NAME included.
pub(crate) fn columns(kind: &BuiltIn) -> Vec<TableColumn> {
    let columns = kind.columns.iter().map(|column| TableColumn {
        name: column.name.clone(),
        type_: column.type_.clone(),
        format: column.format.clone(),
        description: String::new(),
        priority: column.priority,
    });
    columns.collect()
}

/// One row.
pub(crate) fn cells(kind: &BuiltIn, object: &Value, now: Timestamp) -> Vec<Value> {
    let row = Row { kind: &kind.kind, object, now };
    kind.columns.iter().map(|column| row.cell(&column.name)).collect()
}

struct Row<'a> {
    kind: &'a str,
    object: &'a Value,
    now: Timestamp,
}

impl Row<'_> {
    fn cell(&self, column: &str) -> Value {
        match column {
            "Name" => return Value::from(self.object.name()),
            "Age" => return self.age("/metadata/creationTimestamp", "<unknown>"),
            "Created At" => return self.text("/metadata/creationTimestamp"),
            "Containers" => return self.containers("name"),
            "Images" => return self.containers("image"),
            "Selector" => return self.selector(),
            _ => {}
        }
        match self.kind {
            "ConfigMap" => Value::from(self.size("/data") + self.size("/binaryData")),
            "Secret" if column == "Data" => Value::from(self.size("/data")),
            "Secret" => self.text("/type"),
            "Service" => self.service(column),
            "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController" | "DaemonSet" => {
                self.workload(column)
            }
            "Job" | "CronJob" => self.batch(column),
            "Pod" => self.pod(column),
            "PersistentVolumeClaim" | "PersistentVolume" | "StorageClass" => self.storage(column),
            "Ingress" => self.ingress(column),
            "Event" => self.event(column),
            "RoleBinding" | "ClusterRoleBinding" => self.binding(column),
            _ => self.other(column),
        }
    }

    fn at(&self, pointer: &str) -> &Value {
        self.object.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn text(&self, pointer: &str) -> Value {
        Value::from(self.at(pointer).as_str().unwrap_or_default())
    }

    fn text_or(&self, pointer: &str, otherwise: &str) -> Value {
        Value::from(self.at(pointer).as_str().filter(|text| !text.is_empty()).unwrap_or(otherwise))
    }

    fn number(&self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    fn count(&self, pointer: &str) -> Value {
        Value::from(self.number(pointer))
    }

    fn size(&self, pointer: &str) -> usize {
        match self.at(pointer) {
            Value::Object(fields) => fields.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        }
    }

    fn flag(&self, pointer: &str) -> Value {
        Value::from(self.at(pointer).as_bool().unwrap_or_default())
    }

    fn age(&self, pointer: &str, otherwise: &str) -> Value {
        match self.at(pointer).as_str().map(time::parse) {
            Some(Ok(since)) => Value::from(time::age(since, self.now)),
            _ => Value::from(otherwise),
        }
    }

    fn items(&self, pointer: &str) -> impl Iterator<Item = &Value> {
        self.at(pointer).as_array().into_iter().flatten()
    }

    fn joined(&self, pointer: &str, one: impl Fn(&Value) -> Option<String>) -> String {
        self.items(pointer).filter_map(one).collect::<Vec<_>>().join(",")
    }

    fn containers(&self, field: &str) -> Value {
        let pointer = match self.kind {
            "CronJob" => "/spec/jobTemplate/spec/template/spec/containers",
            "PodTemplate" => "/template/spec/containers",
            _ => "/spec/template/spec/containers",
        };
        Value::from(self.joined(pointer, |it| Some(it[field].as_str()?.to_owned())))
    }

    fn selector(&self) -> Value {
        let selector = self.at("/spec/selector");
        let labels = if selector["matchLabels"].is_object() { &selector["matchLabels"] } else { selector };
        let pairs: Vec<String> = labels
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
            .collect();
        Value::from(if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") })
    }

    fn workload(&self, column: &str) -> Value {
        let daemon_set = self.kind == "DaemonSet";
        match column {
            "Ready" if matches!(self.kind, "Deployment" | "StatefulSet") => {
                let ready = self.number("/status/readyReplicas");
                Value::from(format!("{ready}/{}", self.number("/spec/replicas")))
            }
            "Ready" if daemon_set => self.count("/status/numberReady"),
            "Ready" => self.count("/status/readyReplicas"),
            "Desired" if daemon_set => self.count("/status/desiredNumberScheduled"),
            "Desired" => self.count("/spec/replicas"),
            "Current" if daemon_set => self.count("/status/currentNumberScheduled"),
            "Current" => self.count("/status/replicas"),
            "Up-to-date" if daemon_set => self.count("/status/updatedNumberScheduled"),
            "Up-to-date" => self.count("/status/updatedReplicas"),
            "Available" if daemon_set => self.count("/status/numberAvailable"),
            "Available" => self.count("/status/availableReplicas"),
            "Node Selector" => Value::from(NONE),
            _ => Value::from(""),
        }
    }

    fn batch(&self, column: &str) -> Value {
        let holds = |kind: &str| {
            self.items("/status/conditions").any(|it| it["type"] == kind && it["status"] == "True")
        };
        match column {
            "Status" if holds("Complete") => Value::from("Complete"),
            "Status" if holds("Failed") => Value::from("Failed"),
            "Status" if holds("Suspended") => Value::from("Suspended"),
            "Status" => Value::from("Running"),
            "Completions" => {
                let wanted = self.at("/spec/completions").as_i64().unwrap_or(1);
                Value::from(format!("{}/{wanted}", self.number("/status/succeeded")))
            }
            "Duration" => self.age("/status/startTime", ""),
            "Schedule" => self.text("/spec/schedule"),
            "Timezone" => self.text_or("/spec/timeZone", NONE),
            "Suspend" => Value::from(if self.at("/spec/suspend") == true { "True" } else { "False" }),
            "Active" => Value::from(self.size("/status/active")),
            "Last Schedule" => self.age("/status/lastScheduleTime", NONE),
            _ => Value::from(""),
        }
    }

    fn pod(&self, column: &str) -> Value {
        match column {
            "Ready" => {
                let ready = self.items("/status/containerStatuses").filter(|it| it["ready"] == true).count();
                Value::from(format!("{ready}/{}", self.size("/spec/containers")))
            }
            "Status" => {
                let mut states = self.items("/status/containerStatuses");
                let reason = states.find_map(|it| {
                    let state = it["state"]["waiting"]["reason"].as_str();
                    state.or_else(|| it["state"]["terminated"]["reason"].as_str())
                });
                Value::from(reason.unwrap_or_else(|| self.at("/status/phase").as_str().unwrap_or("Unknown")))
            }
            "Restarts" => Value::from("0"),
            "IP" => self.text_or("/status/podIP", NONE),
            "Node" => self.text_or("/spec/nodeName", NONE),
            _ => Value::from(NONE),
        }
    }

    fn service(&self, column: &str) -> Value {
        match column {
            "Type" => self.text("/spec/type"),
            "Cluster-IP" => self.text_or("/spec/clusterIP", NONE),
            "External-IP" => match self.at("/spec/type").as_str() {
                Some("ExternalName") => self.text("/spec/externalName"),
                Some("LoadBalancer") => self.text_or("/status/loadBalancer/ingress/0/ip", "<pending>"),
                _ => Value::from(NONE),
            },
            "Port(s)" => {
                let ports = self.joined("/spec/ports", |port| {
                    let protocol = port["protocol"].as_str().unwrap_or("TCP");
                    let node = port["nodePort"].as_i64().map(|node| format!(":{node}")).unwrap_or_default();
                    Some(format!("{}{node}/{protocol}", port["port"].as_i64()?))
                });
                Value::from(if ports.is_empty() { NONE.to_owned() } else { ports })
            }
            _ => Value::from(""),
        }
    }

    fn storage(&self, column: &str) -> Value {
        match column {
            "Status" => self.text("/status/phase"),
            "Volume" => self.text("/spec/volumeName"),
            "Capacity" if self.kind == "PersistentVolume" => self.text("/spec/capacity/storage"),
            "Capacity" => self.text("/status/capacity/storage"),
            "Access Modes" => Value::from(self.joined("/spec/accessModes", |mode| {
                let short = match mode.as_str()? {
                    "ReadWriteOnce" => "RWO",
                    "ReadOnlyMany" => "ROX",
                    "ReadWriteMany" => "RWX",
                    "ReadWriteOncePod" => "RWOP",
                    _ => return None,
                };
                Some(short.to_owned())
            })),
            "StorageClass" => self.text("/spec/storageClassName"),
            "VolumeAttributesClass" => self.text_or("/spec/volumeAttributesClassName", UNSET),
            "VolumeMode" => self.text("/spec/volumeMode"),
            "Reclaim Policy" => self.text("/spec/persistentVolumeReclaimPolicy"),
            "Provisioner" => self.text("/provisioner"),
            "ReclaimPolicy" => self.text("/reclaimPolicy"),
            "VolumeBindingMode" => self.text("/volumeBindingMode"),
            "AllowVolumeExpansion" => self.flag("/allowVolumeExpansion"),
            _ => Value::from(""),
        }
    }

    fn ingress(&self, column: &str) -> Value {
        match column {
            "Class" => self.text_or("/spec/ingressClassName", NONE),
            "Hosts" => {
                let hosts = self.joined("/spec/rules", |rule| Some(rule["host"].as_str()?.to_owned()));
                Value::from(if hosts.is_empty() { "*".to_owned() } else { hosts })
            }
            "Address" => Value::from(
                self.joined("/status/loadBalancer/ingress", |it| Some(it["ip"].as_str()?.to_owned())),
            ),
            "Ports" => Value::from(if self.size("/spec/tls") > 0 { "80, 443" } else { "80" }),
            _ => Value::from(""),
        }
    }

    fn event(&self, column: &str) -> Value {
        match column {
            "Last Seen" if self.at("/lastTimestamp").is_string() => self.age("/lastTimestamp", "<unknown>"),
            "Last Seen" => self.age("/eventTime", "<unknown>"),
            "First Seen" => self.age("/firstTimestamp", "<unknown>"),
            "Type" => self.text("/type"),
            "Reason" => self.text("/reason"),
            "Object" => {
                let kind = self.at("/involvedObject/kind").as_str().unwrap_or_default().to_lowercase();
                Value::from(format!(
                    "{kind}/{}",
                    self.at("/involvedObject/name").as_str().unwrap_or_default()
                ))
            }
            "Subobject" => self.text("/involvedObject/fieldPath"),
            "Source" => self.text("/source/component"),
            "Message" => Value::from(self.at("/message").as_str().unwrap_or_default().trim()),
            "Count" => self.count("/count"),
            _ => Value::from(""),
        }
    }

    fn binding(&self, column: &str) -> Value {
        let of_kind = |kind: &'static str| {
            self.joined("/subjects", move |it| {
                let name = it["name"].as_str().filter(|_| it["kind"] == kind)?;
                Some(match it["namespace"].as_str() {
                    Some(namespace) => format!("{namespace}/{name}"),
                    None => name.to_owned(),
                })
            })
        };
        Value::from(match column {
            "Role" => {
                let part = |pointer| self.at(pointer).as_str().unwrap_or_default();
                format!("{}/{}", part("/roleRef/kind"), part("/roleRef/name"))
            }
            "Users" => of_kind("User"),
            "Groups" => of_kind("Group"),
            "ServiceAccounts" => of_kind("ServiceAccount"),
            _ => String::new(),
        })
    }

    fn other(&self, column: &str) -> Value {
        match (self.kind, column) {
            ("Lease", "Holder") => self.text("/spec/holderIdentity"),
            ("HorizontalPodAutoscaler", "Reference") => {
                let part = |pointer| self.at(pointer).as_str().unwrap_or_default();
                Value::from(format!(
                    "{}/{}",
                    part("/spec/scaleTargetRef/kind"),
                    part("/spec/scaleTargetRef/name")
                ))
            }
            ("HorizontalPodAutoscaler", "Targets") => Value::from("<unknown>"),
            ("HorizontalPodAutoscaler", "MinPods") => Value::from(
                self.at("/spec/minReplicas").as_i64().map_or_else(|| UNSET.to_owned(), |it| it.to_string()),
            ),
            ("HorizontalPodAutoscaler", "MaxPods") => self.count("/spec/maxReplicas"),
            ("HorizontalPodAutoscaler", "Replicas") => self.count("/status/currentReplicas"),
            ("PodDisruptionBudget", "Min Available") => self.either("/spec/minAvailable"),
            ("PodDisruptionBudget", "Max Unavailable") => self.either("/spec/maxUnavailable"),
            ("PodDisruptionBudget", "Allowed Disruptions") => self.count("/status/disruptionsAllowed"),
            ("IngressClass", "Controller") => self.text("/spec/controller"),
            ("IngressClass", "Parameters") => self.text_or("/spec/parameters/name", NONE),
            ("PriorityClass", "Value") => self.count("/value"),
            ("PriorityClass", "Global-Default") => self.flag("/globalDefault"),
            ("PriorityClass", "PreemptionPolicy") => self.text("/preemptionPolicy"),
            ("RuntimeClass", "Handler") => self.text("/handler"),
            (_, "Webhooks") => Value::from(self.size("/webhooks")),
            (_, "Validations") => Value::from(self.size("/spec/validations")),
            ("APIService", "Service") => {
                match (self.at("/spec/service/namespace"), self.at("/spec/service/name")) {
                    (Value::String(namespace), Value::String(name)) => {
                        Value::from(format!("{namespace}/{name}"))
                    }
                    _ => Value::from("Local"),
                }
            }
            ("APIService", "Available") => {
                let available = self.items("/status/conditions").find(|it| it["type"] == "Available");
                Value::from(available.and_then(|it| it["status"].as_str()).unwrap_or("Unknown"))
            }
            ("Node", "Status") => Value::from("Ready"),
            _ => Value::from(""),
        }
    }

    /// A number or a percentage.
    fn either(&self, pointer: &str) -> Value {
        match self.at(pointer) {
            Value::String(text) => Value::from(text.as_str()),
            Value::Number(number) => Value::from(number.to_string()),
            _ => Value::from("N/A"),
        }
    }
}
