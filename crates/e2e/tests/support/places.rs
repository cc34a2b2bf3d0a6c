//! Targets of a world: its kube-apiserver, and sandboxes.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::needless_pass_by_value, reason = "helpers of tests make objects as others do")]

use convoy_e2e::Convoy;
use convoy_runtime::{ProcessIdentity, host_client};
use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};

use super::support::{World, api_of};

/// A target: the kube-apiserver of the world, or a sandbox.
pub(crate) struct Place {
    pub(crate) cluster: &'static str,
    pub(crate) client: Client,
    pub(crate) _sandbox: Option<Convoy>,
}

impl Place {
    pub(crate) fn api(
        &self,
        api_version: &str,
        kind: &str,
        plural: &str,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        api_of(&self.client, (api_version, kind, plural), namespace)
    }

    pub(crate) fn maps(&self, namespace: &str) -> Api<DynamicObject> {
        self.api("v1", "ConfigMap", "configmaps", Some(namespace))
    }

    pub(crate) fn deployments(&self) -> Api<DynamicObject> {
        self.api("apps/v1", "Deployment", "deployments", Some("web"))
    }

    pub(crate) async fn text(&self, namespace: &str, name: &str) -> Value {
        let found = self.maps(namespace).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |found| found.data["data"].clone())
    }

    pub(crate) fn release(&self, more: Value) -> Value {
        let mut spec = json!({
            "clusterRef": {"name": self.cluster}, "targetNamespace": "web", "createNamespace": true,
            "apply": {"wait": false},
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        spec
    }
}

pub(crate) fn here(world: &World) -> Place {
    Place { cluster: "here", client: world.client.clone(), _sandbox: None }
}

impl World {
    /// Adds a Cluster with this kubeconfig.
    pub(crate) async fn cluster(&self, name: &str, kubeconfig: &str) {
        let secret = json!({"metadata": {"name": name}, "stringData": {"kubeconfig": kubeconfig}});
        self.create("v1", "Secret", "secrets", secret).await;
        let spec = json!({"kubeconfig": {"secretRef": {"name": name}}});
        self.convoy("Cluster", json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    pub(crate) async fn sandbox(&self) -> Place {
        let folder = self.folder.path().join("targets");
        let sandbox = Convoy::start(&["sandbox", "--dir", folder.to_str().unwrap()]).unwrap();
        let kubeconfig = folder.join("cluster-1.kubeconfig");
        let identity = ProcessIdentity { process: "test", replica_id: "test".to_owned() };
        let client = host_client(Some(&kubeconfig), &identity).await.unwrap();
        self.cluster("sandbox", &std::fs::read_to_string(&kubeconfig).unwrap()).await;
        Place { cluster: "sandbox", client, _sandbox: Some(sandbox) }
    }
}

pub(crate) fn deployment(name: &str, replicas: &str, container: &str, more: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n{replicas}  selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n{more}      containers:\n      - {{name: web, image: \"registry.example/web:1\"{container}}}\n"
    )
}

pub(crate) fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{value: {value:?}}}\n")
}
