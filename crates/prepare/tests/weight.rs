//! What bundles in memory take. A test of its own, because it reads the memory of its process.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use convoy_plan::Rendered;
use convoy_prepare::Ready;
use serde_json::json;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1024
}

fn bundle(number: usize) -> Ready {
    let labels =
        json!({"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": format!("web-{number}")});
    let metadata = json!({"name": format!("web-{number}"), "namespace": "shop", "labels": labels});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"number": number.to_string()}});
    let port = json!({"name": "http", "containerPort": 8080, "protocol": "TCP"});
    let container = json!({"name": "web", "image": "registry.example.com/web:1.2.3", "ports": [port],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
    let rendered = |object| Rendered { source: "web/templates/all.yaml".to_owned(), object, early: false };
    Ready {
        digest: format!("sha256:{number:064}"),
        objects: [map, deployment].map(rendered).into(),
        hooks: Vec::new(),
        notes: None,
        warnings: Vec::new(),
    }
}

#[test]
fn a_bundle_weighs_about_what_it_takes() {
    const COUNT: usize = 5_000;
    let before = resident_bytes();
    let all: Vec<Ready> = (0..COUNT).map(bundle).collect();
    let taken = (resident_bytes() - before) / COUNT;
    let weight = all.iter().map(Ready::weight).sum::<usize>() / COUNT;
    println!("a bundle takes {taken} bytes and weighs {weight}");
    assert!((taken * 85 / 100..taken * 115 / 100).contains(&weight), "takes {taken}, weighs {weight}");
}
