//! A sandbox of one cluster and a client to it.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here fails the test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use convoy_sandbox::{Options, Sandbox};
use convoy_testkit::{HttpsClient, Identity};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct OneCluster {
    pub(crate) client: HttpsClient,
    pub(crate) sandbox: Sandbox,
    pub(crate) folder: TempDir,
}

pub(crate) async fn start(ready_after: Duration) -> OneCluster {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        names: vec!["one".to_owned()],
        folder: folder.path().to_owned(),
        ready_after,
        first_port: 0,
        audit_log: Some(folder.path().join("audit.log")),
        now: Arc::new(jiff::Timestamp::now),
    };
    let sandbox = Sandbox::start(&options).await.unwrap();
    let cluster = &sandbox.clusters()[0];
    let kubeconfig = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let data = |field: &str| {
        let line = kubeconfig.lines().find(|line| line.contains(field)).unwrap();
        let encoded = line.rsplit(": ").next().unwrap().trim().trim_matches('"');
        String::from_utf8(BASE64.decode(encoded).unwrap()).unwrap()
    };
    let identity = Identity { certificate: data("client-certificate-data"), key: data("client-key-data") };
    let client =
        HttpsClient::new(cluster.address(), &data("certificate-authority-data"), Some(&identity)).unwrap();
    OneCluster { client, sandbox, folder }
}

/// The path of the collection that the object belongs to.
pub(crate) fn collection(object: &Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    let known = convoy_schema::catalogue().kind(group, version, kind).unwrap_or_else(|| panic!("{kind}?"));
    let root = convoy_schema::openapi::group_version_path(group, version);
    if known.namespaced {
        format!("/{root}/namespaces/default/{}", known.plural)
    } else {
        format!("/{root}/{}", known.plural)
    }
}

/// Asks again until the answer is right; fails when that takes too long.
pub(crate) async fn eventually(
    client: &HttpsClient,
    path: &str,
    right: impl Fn(u16, &Value) -> bool,
) -> Value {
    let start = Instant::now();
    loop {
        let (again, at) = (client.clone(), path.to_owned());
        let answer = tokio::task::spawn_blocking(move || again.get(&at).unwrap()).await.unwrap();
        let body = answer.json();
        if right(answer.status, &body) {
            return body;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "still {}: {body}", answer.status);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
