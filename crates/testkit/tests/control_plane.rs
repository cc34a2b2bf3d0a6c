//! The real control plane starts, serves, and ends with its handle.

use std::net::TcpStream;

use convoy_testkit::{ControlPlane, Options};
use serde_json::json;

#[test]
fn control_plane_serves_objects_and_ends_when_dropped() {
    let options = Options { controller_manager: true, ..Options::default() };
    let Some(control_plane) = ControlPlane::start_or_leave_out(&options) else { return };
    let version = control_plane.client().get("/version").unwrap().json();
    assert_eq!((version["major"].as_str(), version["minor"].as_str()), (Some("1"), Some("36")));

    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let path = "/api/v1/namespaces/default/configmaps";
    let answer = control_plane.client().send("POST", path, "application/json", &config_map).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    let audit = std::fs::read_to_string(control_plane.audit_log()).unwrap();
    assert!(audit.lines().any(|line| line.contains(r#""verb":"create""#) && line.contains("configmaps")));

    let (address, folder) = (control_plane.address(), control_plane.folder().to_owned());
    drop(control_plane);
    assert!(TcpStream::connect(address).is_err(), "kube-apiserver still listens");
    assert!(!folder.exists(), "{} still exists", folder.display());
}
