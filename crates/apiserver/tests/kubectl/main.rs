//! The real kubectl against a control plane in memory. Expected texts are what kubectl prints against
//! kube-apiserver 1.36.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run programs, with the machine's clock"
)]

mod control_plane;
mod fixture;

use std::time::Duration;

use fixture::Fixture;

const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: \"1\"}\n";

fn release(name: &str) -> String {
    format!(
        "apiVersion: convoy.kumodo.io/v1alpha1\nkind: Release\nmetadata: {{name: {name}}}\nspec:\n  clusterRef: {{name: edge-1}}\n  source: {{git: {{repositoryRef: {{name: apps}}, path: web}}}}\n"
    )
}

#[test]
fn kubectl_creates_core_objects_and_prints_their_columns() {
    let Some(it) = Fixture::start() else { return };
    it.kubectl(&["create", "secret", "generic", "s", "--from-literal=a=b"]).ok();
    it.kubectl(&["create", "configmap", "c", "--from-literal=k=v"]).ok();
    it.kubectl(&["create", "serviceaccount", "sa"]).ok();
    it.kubectl(&["create", "rolebinding", "rb", "--role=r", "--serviceaccount=demo:sa", "--user=jane"]).ok();
    let columns = |resource: &str| {
        let table = it.kubectl(&["get", resource, "-o", "wide"]).ok();
        let header = table.lines().next().unwrap_or_default().split_whitespace();
        header.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(columns("secrets"), "NAME TYPE DATA AGE");
    assert_eq!(columns("configmaps"), "NAME DATA AGE");
    assert_eq!(columns("serviceaccounts"), "NAME AGE");
    assert_eq!(columns("rolebindings"), "NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS");
    assert_eq!(columns("namespaces"), "NAME STATUS AGE");
    assert_eq!(it.kubectl(&["get", "secret", "s", "-o", "jsonpath={.data.a}"]).ok(), "Yg==");
    let again = it.kubectl(&["create", "secret", "generic", "s"]).failed();
    assert_eq!(again, "error: failed to create secret secrets \"s\" already exists\n");
    assert!(it.kubectl(&["describe", "secret", "s"]).ok().contains("a:  1 bytes"));
    it.kubectl(&["delete", "secret", "s"]).ok();
    let gone = it.kubectl(&["get", "secret", "s"]).failed();
    assert_eq!(gone, "Error from server (NotFound): secrets \"s\" not found\n");
    it.kubectl(&["delete", "namespace", "demo", "--timeout=15s"]).ok();
}

#[test]
fn kubectl_applies_on_both_sides_and_sees_conflicts() {
    let Some(it) = Fixture::start() else { return };
    assert_eq!(it.kubectl_input(&["apply", "-f", "-"], CONFIG).ok(), "configmap/c created\n");
    assert_eq!(it.kubectl_input(&["apply", "-f", "-"], CONFIG).ok(), "configmap/c unchanged\n");
    let changed = CONFIG.replace('1', "2");
    let changed = changed.replace("v2", "v1");
    assert_eq!(it.kubectl_input(&["diff", "-f", "-"], &changed).code, 1);
    assert_eq!(it.kubectl_input(&["diff", "--server-side", "-f", "-"], &changed).code, 1);
    assert_eq!(it.kubectl_input(&["apply", "-f", "-"], &changed).ok(), "configmap/c configured\n");
    let server_side = ["apply", "--server-side", "-f", "-"];
    assert_eq!(it.kubectl_input(&server_side, &changed).ok(), "configmap/c serverside-applied\n");
    assert_eq!(it.kubectl_input(&["diff", "--server-side", "-f", "-"], &changed).code, 0);
    let other = ["apply", "--server-side", "--field-manager=other", "-f", "-"];
    let conflict = it.kubectl_input(&other, &CONFIG.replace("\"1\"", "\"3\"")).failed();
    let expected = "error: Apply failed with 1 conflict: conflict with \"kubectl\": .data.a\n";
    assert!(conflict.starts_with(expected), "{conflict}");
    for manifest in [release("web"), release("web").replace("path: web", "path: site")] {
        it.kubectl_input(&["apply", "-f", "-"], &manifest).ok();
    }
    let path = it.kubectl(&["get", "release", "web", "-o", "jsonpath={.spec.source.git.path}"]).ok();
    assert_eq!(path, "site");
    let shard = "jsonpath={.metadata.labels.convoy\\.kumodo\\.io/shard}";
    let before = it.kubectl(&["get", "release", "web", "-o", shard]).ok();
    it.kubectl(&["label", "--overwrite", "release", "web", "convoy.kumodo.io/shard=99"]).ok();
    assert_eq!(
        it.kubectl(&["get", "release", "web", "-o", shard]).ok(),
        before,
        "users cannot set the shard"
    );
}

#[test]
fn kubectl_patches_labels_and_edits() {
    let Some(it) = Fixture::start() else { return };
    it.kubectl(&["create", "configmap", "c", "--from-literal=k=v"]).ok();
    let patch =
        |kind: &str, patch: &str| it.kubectl(&["patch", "configmap", "c", "--type", kind, "-p", patch]);
    patch("strategic", r#"{"data":{"b":"1"}}"#).ok();
    patch("merge", r#"{"data":{"b":null,"m":"2"}}"#).ok();
    patch(
        "json",
        r#"[{"op":"test","path":"/data/m","value":"2"},{"op":"add","path":"/data/j","value":"3"}]"#,
    )
    .ok();
    patch("json", r#"[{"op":"test","path":"/data/m","value":"9"}]"#).failed();
    it.kubectl(&["label", "configmap", "c", "x=y"]).ok();
    it.kubectl_with(("KUBE_EDITOR", "sed -i s/j:/edited:/"), &["edit", "configmap", "c"]).ok();
    let data = it.kubectl(&["get", "configmap", "c", "-o", "jsonpath={.data}"]).ok();
    assert_eq!(data, r#"{"edited":"3","k":"v","m":"2"}"#);
    assert_eq!(it.kubectl(&["get", "configmap", "-l", "x in (y),!z", "-o", "name"]).ok(), "configmap/c\n");
    let strategic = it.kubectl(&["patch", "release", "r", "--type", "strategic", "-p", "{}"]).failed();
    assert!(
        strategic.contains("application/merge-patch+json") || strategic.contains("not found"),
        "{strategic}"
    );
}

#[test]
fn kubectl_watches_and_waits() {
    let Some(it) = Fixture::start() else { return };
    let mut lines = it.lines(&["get", "configmaps", "--watch", "--output-watch-events", "--no-headers"]);
    let mut event =
        || lines.next().split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>().join(" ");
    it.kubectl(&["create", "configmap", "w"]).ok();
    assert_eq!(event(), "ADDED w");
    it.kubectl(&["label", "configmap", "w", "a=b"]).ok();
    assert_eq!(event(), "MODIFIED w");
    it.kubectl(&["delete", "configmap", "w"]).ok();
    assert_eq!(event(), "DELETED w");
    it.kubectl_input(&["create", "-f", "-"], &release("r")).ok();
    let condition = r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Done","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    let status = ["patch", "release", "r", "--subresource=status", "--type=merge", "-p", condition];
    it.kubectl(&status).ok();
    it.kubectl(&["wait", "--for=condition=Ready", "release/r", "--timeout=10s"]).ok();
    let timed_out = it.kubectl(&["wait", "--for=delete", "release/r", "--timeout=1s"]).failed();
    assert_eq!(timed_out, "error: timed out waiting for the condition on releases/r\n");
}

#[test]
fn kubectl_finds_its_way_by_discovery_and_schemas() {
    let Some(it) = Fixture::start() else { return };
    let resources = it.kubectl(&["api-resources", "--no-headers"]).ok();
    for name in ["releases ", "clusters ", "secrets ", "leases ", "selfsubjectaccessreviews "] {
        assert!(resources.lines().any(|line| line.starts_with(name)), "{name}: {resources}");
    }
    assert!(it.kubectl(&["explain", "releases.spec.clusterRef"]).ok().contains("-required-"));
    assert!(it.kubectl(&["version"]).ok().contains("Server Version: v1.36"));
    assert_eq!(it.kubectl(&["auth", "can-i", "get", "secrets"]).ok(), "yes\n");
    assert!(it.kubectl(&["auth", "whoami"]).ok().contains("[system:masters system:authenticated]"));
    let strict =
        it.kubectl_input(&["create", "-f", "-"], &CONFIG.replace("\ndata:", "\nnope: x\ndata:")).failed();
    assert!(strict.contains("strict decoding error: unknown field \"nope\""), "{strict}");
    let missing = it.kubectl(&["create", "configmap", "x", "--namespace=missing"]).failed();
    assert_eq!(missing, "error: failed to create configmap: namespaces \"missing\" not found\n");
    let invalid = it.kubectl_input(
        &["create", "-f", "-"],
        &release("r").replace("source:", "render: {}\n  interval: x\n  source:"),
    );
    assert!(invalid.failed().contains("spec.interval: Invalid value"));
}

#[test]
fn a_service_account_may_only_do_what_a_binding_gives() {
    let Some(it) = Fixture::start() else { return };
    it.kubectl(&["create", "serviceaccount", "sa"]).ok();
    let token = it.kubectl(&["create", "token", "sa"]).ok();
    // Without the administrator's certificate, which would win over the token.
    let bare = it.plane.kubeconfig.with_file_name("bare.kubeconfig");
    let server = format!("--server={}", it.plane.url);
    let ca = it.plane.kubeconfig.with_file_name("ca.crt");
    std::fs::write(&ca, &it.plane.authority.files().certificate).unwrap();
    std::fs::write(&bare, "").unwrap();
    let arguments = |token: &str| {
        vec![
            format!("--kubeconfig={}", bare.display()),
            server.clone(),
            format!("--certificate-authority={}", ca.display()),
            format!("--token={}", token.trim()),
            "get".to_owned(),
            "secrets".to_owned(),
        ]
    };
    let run = |token: &str| {
        let arguments = arguments(token);
        it.kubectl(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(
        run(&token).failed(),
        "Error from server (Forbidden): secrets is forbidden: User \"system:serviceaccount:demo:sa\" cannot list resource \"secrets\" in API group \"\" in the namespace \"demo\"\n"
    );
    it.kubectl(&["create", "role", "r", "--verb=list", "--resource=secrets"]).ok();
    it.kubectl(&["create", "rolebinding", "rb", "--role=r", "--serviceaccount=demo:sa"]).ok();
    run(&token).ok();
    it.kubectl(&["delete", "serviceaccount", "sa"]).ok();
    assert!(run(&token).failed().contains("Unauthorized"), "the token of a deleted account is refused");
    assert!(run("x.y.z").failed().contains("Unauthorized"));
}

#[test]
fn a_stopping_server_ends_its_watches() {
    let Some(it) = Fixture::start() else { return };
    let mut lines = it.lines(&["get", "namespaces", "--watch", "-o", "name"]);
    assert!(!lines.next().is_empty());
    let Fixture { plane, runtime, .. } = it;
    runtime.block_on(plane.server.stop(Duration::ZERO, Duration::from_secs(10)));
    while !lines.next().is_empty() {}
}
