//! The three processes of a deployment, each by itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use convoy_e2e::{Convoy, Kubectl, run, until};
use convoy_testkit::{leave_out, program};
use serde_json::json;

/// The status code of a health path. The process said where it listens in its first line.
fn health(convoy: &Convoy, path: &str) -> Option<u16> {
    let address = convoy.ready_line().rsplit("http://").next().unwrap();
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn apiserver_controller_manager_and_observer_work_as_processes_of_their_own() {
    let Ok(kubectl) = program("kubectl").inspect_err(|missing| leave_out(missing)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("convoy");
    let kubeconfig = data.join("admin.kubeconfig");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let _apiserver =
        Convoy::start(&["apiserver", "--data-dir", data.to_str().unwrap(), "--secure-port", "0"]).unwrap();
    let store = format!("file://{}", folder.path().join("store").display());
    let any_port = ["--health-bind-address", "127.0.0.1:0", "--kubeconfig", kubeconfig];
    let manager =
        Convoy::start(&[&["controller-manager", "--render-store-url", &store], any_port.as_slice()].concat());
    let observer = Convoy::start(&[&["observer"], any_port.as_slice()].concat());
    let (manager, observer) = (manager.unwrap(), observer.unwrap());
    for process in [&manager, &observer] {
        until("the process is ready", || (health(process, "/readyz") == Some(200)).then_some(()));
        for path in ["/healthz", "/livez", "/metrics", "/version"] {
            assert_eq!(health(process, path), Some(200), "{path}");
        }
    }

    let targets = folder.path().join("targets");
    let _sandbox = Convoy::start(&["sandbox", "--dir", targets.to_str().unwrap()]).unwrap();
    let host = Kubectl::new(&kubectl, data.join("admin.kubeconfig").as_path());
    let text = std::fs::read_to_string(targets.join("cluster-1.kubeconfig")).unwrap();
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"}, "stringData": {"kubeconfig": text}}),
        json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"},
               "spec": {"kubeconfig": {"secretRef": {"name": "k"}}}}),
        // Files of the controller-manager's machine are fetched in standalone only.
        json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "GitRepository", "metadata": {"name": "r"},
               "spec": {"url": "file:///etc"}}),
    ] {
        host.ok_with(&["apply", "-f", "-"], &object.to_string());
    }
    host.ok(&["wait", "--for=condition=Ready", "cluster/c", "--timeout=60s"]);
    let reason = r#"jsonpath={.status.conditions[?(@.type=="Ready")].reason}"#;
    until("the file URL is refused", || {
        (host.ok(&["get", "gitrepository", "r", "-o", reason]) == "InvalidSpec").then_some(())
    });
}

#[test]
fn a_process_without_its_api_server_says_so_and_ends() {
    let output = run(&["observer", "--kubeconfig", "/nonexistent", "--health-bind-address", "127.0.0.1:0"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--kubeconfig \"/nonexistent\" cannot be used"), "{text}");
}

/// Each before anything starts: nothing on standard output, and the flag named.
#[test]
fn values_of_flags_that_cannot_be_used_are_refused_with_code_2_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no kubeconfig").unwrap();
    let file = file.to_str().unwrap();
    let (in_file, store) = (format!("{file}/log"), format!("file://{file}/store"));
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let manager = |store| ["controller-manager", "--kubeconfig", file, "--render-store-url", store];
    for (arguments, flag) in [
        (manager("nowhere").as_slice(), "--render-store-url"),
        (&manager("gs://bucket"), "--render-store-url"),
        (&manager("s3://B/x"), "--render-store-url"),
        (
            &[&manager("s3://bucket"), ["--render-store-s3-endpoint", "http://127.0.0.1:9"].as_slice()]
                .concat(),
            "--render-store-s3-allow-http",
        ),
        (&manager(&store), "--render-store-url"),
        (&manager("memory://"), "--kubeconfig"),
        (&["observer", "--kubeconfig", file], "--kubeconfig"),
        (&["observer", "--health-bind-address", "nowhere"], "--health-bind-address"),
        (&["observer", "--shards", "5000"], "--shards"),
        (&["apiserver", "--shards", "5000", "--data-dir", data], "--shards"),
        (&["sandbox", "--port", "65535", "--clusters", "2", "--dir", data], "--port"),
        (&["observer", "--log", "a=b=c"], "--log"),
        (&["apiserver", "--data-dir", file], "--data-dir"),
        (&["apiserver", "--data-dir", data, "--audit-log-path", &in_file], "--audit-log-path"),
        (&["standalone", "--data-dir", data, "--audit-log-path", &in_file], "--audit-log-path"),
        (&["sandbox", "--dir", file], "--dir"),
        (&["sandbox", "--dir", data, "--audit-log-path", &in_file], "--audit-log-path"),
    ] {
        let output = run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(flag), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?}: it said that it runs");
    }
}
