//! Addresses and ports that Services get.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use convoy_meta::Status;
use convoy_registry::{Admission, AdmissionRequest, Operation};
use serde_json::{Value, json};

const SERVICE_NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const NODE_PORTS: std::ops::Range<u32> = 30_000..32_768;

/// Gives cluster addresses and node ports, one after the other.
#[derive(Debug)]
pub(crate) struct Addresses {
    address: AtomicU32,
    port: AtomicU32,
}

impl Default for Addresses {
    fn default() -> Self {
        // The first ones are for services that manifests name by address, such as DNS.
        Self { address: AtomicU32::new(256), port: AtomicU32::new(0) }
    }
}

#[async_trait]
impl Admission for Addresses {
    async fn mutate(&self, request: AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        let is_service = request.resource.group.is_empty() && request.resource.plural == "services";
        if !is_service || !request.subresource.is_empty() {
            return Ok(());
        }
        if request.operation == Operation::Update
            && let Some(old) = request.old
        {
            keep(old, object);
        }
        if request.operation != Operation::Delete {
            self.allocate(object);
        }
        Ok(())
    }
}

impl Addresses {
    fn allocate(&self, service: &mut Value) {
        let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
        if kind == "ExternalName" {
            return;
        }
        if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
            let number = self.address.fetch_add(1, Ordering::Relaxed) % 65_534;
            spec["clusterIP"] = json!(Ipv4Addr::from(SERVICE_NETWORK + number).to_string());
        }
        if spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
            spec["clusterIPs"] = json!([spec["clusterIP"]]);
        }
        if spec["ipFamilies"].as_array().is_none_or(Vec::is_empty) {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if spec["ipFamilyPolicy"].as_str().unwrap_or_default().is_empty() {
            spec["ipFamilyPolicy"] = json!("SingleStack");
        }
        if kind == "NodePort" || kind == "LoadBalancer" {
            for port in ports(spec) {
                if port.is_object() && port["nodePort"].as_u64().unwrap_or_default() == 0 {
                    let count = NODE_PORTS.end - NODE_PORTS.start;
                    port["nodePort"] =
                        json!(NODE_PORTS.start + self.port.fetch_add(1, Ordering::Relaxed) % count);
                }
            }
        }
    }
}

/// What was given stays when the new object does not mention it.
fn keep(old: &Value, new: &mut Value) {
    let (Some(old), Some(new)) = (old.get("spec"), new.get_mut("spec")) else { return };
    if !new.is_object() || new["type"] == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let empty = match &new[field] {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if empty && !old[field].is_null() {
            new[field] = old[field].clone();
        }
    }
    if !matches!(new["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        return;
    }
    let given = old["ports"].as_array().cloned().unwrap_or_default();
    for port in ports(new).filter(|port| port.is_object()) {
        let same = given.iter().find(|it| it["port"] == port["port"] && it["protocol"] == port["protocol"]);
        if let Some(same) = same.filter(|same| port["nodePort"].is_null() && !same["nodePort"].is_null()) {
            port["nodePort"] = same["nodePort"].clone();
        }
    }
}

fn ports(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten()
}
