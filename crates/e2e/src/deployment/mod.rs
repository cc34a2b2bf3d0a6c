//! convoy as a user deploys it from `deploy/`: what the overlays and the chart say.

mod installed;
mod objects;
pub mod pods;
pub mod rounds;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

pub use installed::{HOME, Installed, Workload};
pub use objects::{Objects, documents};
pub use pods::{Network, PodRunner};

/// The overlays of `deploy/`.
pub const OVERLAYS: [&str; 3] = ["single-replica", "multi-replica", "production"];

/// `deploy/` of this repository.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").canonicalize().unwrap()
}

/// Renders a folder with `kubectl kustomize`, which may have nothing to complain about.
///
/// # Panics
/// When kubectl fails, or warns.
pub fn kustomize(kubectl: &Path, folder: &Path) -> Objects {
    let output = Command::new(kubectl).arg("kustomize").arg(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "kubectl kustomize {}: {said}", folder.display());
    Objects::new(documents(&output.stdout))
}

/// Whether convoy's own command line takes these arguments: each flag is known, and its value can be meant.
///
/// # Errors
/// What the program says when not.
pub fn command_line_takes(arguments: &[String]) -> Result<(), String> {
    // Arguments are read in order, so that what is wrong before --help is said instead of the help.
    let mut line: Vec<&str> = arguments.iter().map(String::as_str).collect();
    line.push("--help");
    let output = crate::run(&line);
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The container of a Deployment's pods; it has one.
///
/// # Panics
/// When it has none, or more.
pub fn container(deployment: &Value) -> &Value {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1, "{}", deployment["metadata"]["name"]);
    &containers[0]
}

/// Texts of a list.
pub fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// CustomResourceDefinitions, without schemas, of the kinds of others that the overlays name.
pub fn definitions() -> String {
    let kinds = [
        ("cert-manager.io", "v1", "Issuer", "issuers"),
        ("cert-manager.io", "v1", "Certificate", "certificates"),
        ("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
        ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
    ];
    let items: Vec<Value> = kinds
        .into_iter()
        .map(|(group, version, kind, plural)| {
            json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.{group}")},
                "spec": {
                    "group": group,
                    "scope": "Namespaced",
                    "names": {"kind": kind, "plural": plural},
                    "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    }}}],
                },
            })
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
