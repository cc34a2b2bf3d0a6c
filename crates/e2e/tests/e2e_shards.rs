//! `convoy shards` against a real API server.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests, with the machine's clock")]

use std::time::{SystemTime, UNIX_EPOCH};

use convoy_e2e::{Convoy, run};
use convoy_runtime::{ProcessIdentity, host_client};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn lease(name: &str, holder: &str, renewed_ago: u64, annotations: &Value) -> DynamicObject {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let renewed = i64::try_from(now - renewed_ago).unwrap();
    let renewed = jiff::Timestamp::from_second(renewed).unwrap();
    serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 3600, "leaseTransitions": 3,
            "renewTime": renewed.to_string()},
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_shows_owners_gaps_and_objects_and_its_exit_code_says_whether_all_are_owned() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let standalone = Convoy::start(&[
        "standalone",
        "--only",
        "apiserver",
        "--port",
        "0",
        "--shards",
        "2",
        "--data-dir",
        data.to_str().unwrap(),
    ])
    .unwrap();
    let kubeconfig = data.join("admin.kubeconfig");
    let identity = ProcessIdentity { process: "test", replica_id: "t".to_owned() };
    let client = host_client(Some(&kubeconfig), &identity).await.unwrap();
    let leases: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        "default",
        &resource("coordination.k8s.io", "v1", "Lease", "leases"),
    );
    let shards = |more: &[&str]| {
        let kubeconfig = kubeconfig.to_str().unwrap();
        let base = ["shards", "--kubeconfig", kubeconfig];
        let output = run(&[base.as_slice(), more].concat());
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), text.concat())
    };
    let (code, text) = shards(&["--lease-namespace", "nope"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("the namespace nope does not exist; name the one"), "{text}");
    let (code, text) = shards(&["--process", "observer"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there are no leases of observers in the namespace convoy-system; name"), "{text}");

    let member = json!({"convoy.kumodo.io/shards": "2", "convoy.kumodo.io/state": "acting",
        "convoy.kumodo.io/boot-id": "boot", "convoy.kumodo.io/lease-renew-interval-ms": "10000"});
    for lease in [
        lease("convoy-cm-member-a", "a", 5, &member),
        lease("convoy-cm-shard-0", "a", 5, &json!({})),
        // It ended an hour ago.
        lease("convoy-cm-shard-1", "b", 7200, &json!({})),
        lease("other", "x", 1, &json!({})),
    ] {
        leases.create(&PostParams::default(), &lease).await.unwrap();
    }
    let releases: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        "default",
        &resource("convoy.kumodo.io", "v1alpha1", "Release", "releases"),
    );
    for name in ["x", "y"] {
        let release = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": name},
            "spec": {"clusterRef": {"name": "c"}, "source": {"git": {"repositoryRef": {"name": "g"}}}}});
        releases.create(&PostParams::default(), &serde_json::from_value(release).unwrap()).await.unwrap();
    }

    let shards = |more: &[&str]| {
        let kubeconfig = kubeconfig.to_str().unwrap();
        let base = ["shards", "--kubeconfig", kubeconfig, "--lease-namespace", "default"];
        let output = run(&[base.as_slice(), more].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = shards(&["--process", "controller-manager", "-o", "wide"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("controller-manager: 2 shards, 1 live replica, 1 without an owner"), "{text}");
    assert!(text.contains("none (was b)   3       ended 60m ago"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colour in a pipe: {text}");
    let (code, text) = shards(&["-o", "json"]);
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &read["processes"][1]["unowned"]), (Some(1), &json!(2)), "{text}");
    assert_eq!(read["processes"][1]["apiServerShards"], 2, "{text}");
    let counted = |row: &Value| row["objects"]["releases"].as_u64().unwrap();
    let rows = read["processes"][0]["shards"].as_array().unwrap();
    assert_eq!(rows.iter().map(counted).sum::<u64>(), 2, "{text}");

    let mut mended = leases.get("convoy-cm-shard-1").await.unwrap();
    mended.data["spec"] = lease("x", "a", 0, &json!({})).data["spec"].clone();
    leases.replace("convoy-cm-shard-1", &PostParams::default(), &mended).await.unwrap();
    let (code, text) = shards(&["--process", "controller-manager"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("controller-manager: 2 shards, 1 live replica, all owned"), "{text}");
    assert_eq!(shards(&["-o", "nothing"]).0, Some(2));
    assert_eq!(shards(&["--context", "elsewhere"]).0, Some(2));
    let elsewhere =
        run(&["shards", "--kubeconfig", kubeconfig.to_str().unwrap(), "--lease-namespace", "nope"]);
    let text = String::from_utf8(elsewhere.stderr).unwrap();
    assert!(text.contains("there are some in default: use --lease-namespace default"), "{text}");
    // The lease of a replica that never was: it has a holder and our annotations, and nobody renews it.
    let forged = lease("convoy-cm-member-z", "z", 60, &member);
    leases.create(&PostParams::default(), &forged).await.unwrap();
    let (_, text) = shards(&["--process", "controller-manager", "-o", "wide"]);
    let line = text.lines().find(|line| line.starts_with("z ")).unwrap();
    assert!(line.starts_with("z         silent   0"), "{text}");
    drop(standalone);
    assert_eq!(shards(&[]).0, Some(2), "nobody answers");
}
