//! `convoy apiserver` behind the real kube-aggregator, on the etcd of the real kube-apiserver, with the rights that
//! `deploy/` gives it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests, which run programs"
)]

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use convoy_e2e::{Convoy, Kubectl, deployment, until};
use convoy_testkit::{Authority, ControlPlane, HttpsClient, Identity, Options, leave_out, program};
use serde_json::{Value, json};
use tempfile::TempDir;

const SERVICE: &str = "convoy-apiserver.convoy-system.svc";
const RELEASES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releases";

struct World {
    folder: TempDir,
    kubectl: Kubectl,
    authority: Authority,
    plane: ControlPlane,
}

impl World {
    fn start_or_leave_out() -> Option<Self> {
        let kubectl = program("kubectl").inspect_err(|missing| leave_out(missing)).ok()?;
        let options = Options { controller_manager: true, ..Options::default() };
        let plane = ControlPlane::start_or_leave_out(&options)?;
        let kubectl = Kubectl::new(&kubectl, &plane.kubeconfig());
        let authority = Authority::new("convoy-serving-ca").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let serving = authority.server(&[SERVICE, "localhost", "127.0.0.1"]).unwrap();
        std::fs::write(folder.path().join("tls.crt"), serving.certificate).unwrap();
        std::fs::write(folder.path().join("tls.key"), serving.key).unwrap();
        for file in ["namespace", "service-accounts", "rbac-apiserver"] {
            let path = deployment::folder().join(format!("base/{file}.yaml"));
            kubectl.ok(&["apply", "-f", path.to_str().unwrap()]);
        }
        kubectl.ok(&["create", "namespace", "team"]);
        let world = Self { folder, kubectl, authority, plane };
        let token = world.kubectl.ok(&["create", "token", "convoy-apiserver", "-n", "convoy-system"]);
        world.write_kubeconfig(token.trim());
        Some(world)
    }

    /// That of the ServiceAccount.
    fn write_kubeconfig(&self, token: &str) {
        let ca = BASE64.encode(self.plane.authority());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "host",
            "clusters": [{"name": "host", "cluster": {"server": self.plane.url(), "certificate-authority-data": ca}}],
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": "convoy"}}],
            "users": [{"name": "convoy", "user": {"token": token}}],
        });
        std::fs::write(self.path("kubeconfig"), config.to_string()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A replica, and its port.
    fn replica(&self, more: &[&str]) -> (Convoy, u16) {
        let path = |name| self.path(name).display().to_string();
        let servers = format!("--etcd-servers=http://127.0.0.1:1,{}", self.plane.etcd_url());
        let (kubeconfig, certificate, key) = (path("kubeconfig"), path("tls.crt"), path("tls.key"));
        let flags = [
            "apiserver",
            &servers,
            "--etcd-prefix=/convoy.kumodo.io",
            "--secure-port=0",
            "--kubeconfig",
            &kubeconfig,
            "--tls-cert-file",
            &certificate,
            "--tls-private-key-file",
            &key,
            "--authorization-webhook-cache-authorized-ttl=1s",
            "--authorization-webhook-cache-unauthorized-ttl=1s",
        ];
        let convoy = Convoy::start(&[&flags, more].concat()).unwrap();
        let port = convoy.ready_line().rsplit(':').next().unwrap().parse().unwrap();
        let client = self.direct(port, None);
        until("the replica is ready", || {
            client.get("/readyz").is_ok_and(|answer| answer.status == 200).then_some(())
        });
        (convoy, port)
    }

    /// A client that goes around the aggregator.
    fn direct(&self, port: u16, identity: Option<&Identity>) -> HttpsClient {
        let address = ([127, 0, 0, 1], port).into();
        HttpsClient::new(address, self.authority.certificate(), identity).unwrap()
    }

    /// Makes the host's aggregator lead to this port.
    fn register(&self, port: u16) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "convoy-apiserver", "namespace": "convoy-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        });
        let registration = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1alpha1.convoy.kumodo.io"},
            "spec": {
                "group": "convoy.kumodo.io", "version": "v1alpha1", "groupPriorityMinimum": 1000, "versionPriority": 15,
                "service": {"name": "convoy-apiserver", "namespace": "convoy-system", "port": port},
                "caBundle": BASE64.encode(self.authority.certificate()),
            },
        });
        for object in [service, registration] {
            self.kubectl.ok_with(&["apply", "-f", "-"], &object.to_string());
        }
        let name = "apiservice/v1alpha1.convoy.kumodo.io";
        self.kubectl.ok(&["wait", "--for=condition=Available", name, "--timeout=60s"]);
    }

    /// What a command that has to fail says.
    fn refused(&self, arguments: &[&str], input: &str) -> String {
        let output = self.kubectl.command(arguments, input);
        assert!(!output.status.success(), "kubectl {} was done", arguments.join(" "));
        String::from_utf8(output.stderr).unwrap()
    }

    fn create(&self, object: &Value) {
        self.kubectl.ok_with(&["create", "-f", "-"], &object.to_string());
    }
}

fn release(name: &str) -> Value {
    json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "clusterRef": {"name": "prod"},
            "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "web"}},
        },
    })
}

#[test]
fn sc53_kubectl_does_everything_through_the_aggregator() {
    let Some(world) = World::start_or_leave_out() else { return };
    let (_convoy, port) = world.replica(&[]);
    world.register(port);
    let kubectl = &world.kubectl;
    let team = |arguments: &[&str]| kubectl.ok(&[arguments, &["-n", "team"]].concat());

    // Discovery and documents.
    let kinds = kubectl.ok(&["api-resources", "--api-group=convoy.kumodo.io", "-o", "name"]);
    assert!(
        kinds.contains("releases.convoy.kumodo.io") && kinds.contains("clusters.convoy.kumodo.io"),
        "{kinds}"
    );
    until("the host has the documents", || {
        kubectl.command(&["explain", "release.spec.clusterRef"], "").status.success().then_some(())
    });

    // Every verb.
    let written = release("web").to_string();
    kubectl.ok_with(&["apply", "-f", "-"], &written);
    assert!(kubectl.ok_with(&["apply", "-f", "-"], &written).contains("unchanged"));
    kubectl.ok_with(&["apply", "--server-side", "-f", "-"], &release("ssa").to_string());
    assert_eq!(team(&["get", "releases", "-o", "name"]).lines().count(), 2);
    assert!(team(&["get", "release", "web"]).contains("NAME"));
    team(&["describe", "release", "web"]);
    team(&["label", "release", "web", "tier=front"]);
    team(&["annotate", "release", "web", "note=x"]);
    team(&["patch", "release", "web", "--type=merge", "-p", r#"{"spec":{"suspend":true}}"#]);
    team(&["patch", "release", "web", "--type=json", "-p", r#"[{"op":"remove","path":"/spec/suspend"}]"#]);
    let mut current = kubectl.object(&["release", "web", "-n", "team"]).unwrap();
    current["spec"]["suspend"] = json!(true);
    kubectl.ok_with(&["replace", "-f", "-"], &current.to_string());
    let stale = world.refused(&["replace", "-f", "-"], &current.to_string());
    assert!(stale.contains("the object has been modified"), "{stale}");
    let edited = kubectl.edit(&["release", "web", "-n", "team"], "s/suspend: true/suspend: false/");
    assert!(edited.contains("edited"), "{edited}");
    assert_eq!(kubectl.object(&["release", "web", "-n", "team"]).unwrap()["spec"]["suspend"], false);
    let mut changed = release("web");
    changed["spec"]["targetNamespace"] = json!("shop");
    let difference = kubectl.command(&["diff", "-f", "-"], &changed.to_string());
    assert!(String::from_utf8_lossy(&difference.stdout).contains("+  targetNamespace: shop"));
    let status = r#"{"status":{"observedGeneration":7}}"#;
    team(&["patch", "release", "web", "--subresource=status", "--type=merge", "-p", status]);
    team(&["wait", "release/web", "--for=jsonpath={.status.observedGeneration}=7", "--timeout=10s"]);
    // A subresource reaches convoy, which has no observer to ask.
    let preview = world.refused(&["get", "--raw", &format!("{RELEASES}/web/preview")], "");
    assert!(preview.contains("knows no observer"), "{preview}");
    team(&["delete", "release", "ssa"]);
    kubectl.ok(&["delete", "--raw", RELEASES]);
    assert_eq!(team(&["get", "releases", "-o", "name"]), "");

    // Rights are those of the host.
    kubectl.ok_with(&["create", "-f", "-"], &written);
    team(&["create", "role", "viewer", "--verb=get,list", "--resource=releases.convoy.kumodo.io"]);
    let may = ["auth", "can-i", "list", "releases.convoy.kumodo.io", "-n", "team", "--as", "jane"];
    assert!(!kubectl.command(&may, "").status.success());
    let list = ["get", "releases", "-n", "team", "--as", "jane"];
    let refused = world.refused(&list, "");
    assert!(refused.contains(r#"User "jane" cannot list resource "releases""#), "{refused}");
    team(&["create", "rolebinding", "viewer", "--role=viewer", "--user=jane"]);
    kubectl.ok(&may);
    until("leave is given", || kubectl.command(&list, "").status.success().then_some(()));
    world.refused(&["delete", "release", "web", "-n", "team", "--as", "jane"], "");
    team(&["delete", "rolebinding", "viewer"]);
    until("leave is taken back", || (!kubectl.command(&list, "").status.success()).then_some(()));

    the_host_deletes_what_nobody_owns_any_more(&world);
    namespaces_are_those_of_the_host(&world);
}

fn the_host_deletes_what_nobody_owns_any_more(world: &World) {
    let kubectl = &world.kubectl;
    let owner =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "team"}});
    world.create(&owner);
    let uid = kubectl.object(&["configmap", "owner", "-n", "team"]).unwrap()["metadata"]["uid"].clone();
    let mut owned = release("owned");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    world.create(&owned);
    kubectl.ok(&["delete", "configmap", "owner", "-n", "team"]);
    until("the garbage collector deletes the Release", || {
        kubectl.object(&["release", "owned", "-n", "team"]).is_none().then_some(())
    });
}

fn namespaces_are_those_of_the_host(world: &World) {
    let kubectl = &world.kubectl;
    let mut elsewhere = release("web");
    elsewhere["metadata"]["namespace"] = json!("nowhere");
    let missing = world.refused(&["create", "-f", "-"], &elsewhere.to_string());
    assert!(missing.contains(r#"namespaces "nowhere" not found"#), "{missing}");

    // What holds the namespace open while it is being deleted.
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": "team", "finalizers": ["example.com/hold"]}});
    world.create(&held);
    kubectl.ok(&["delete", "namespace", "team", "--wait=false"]);
    until("the namespace controller deletes the Releases", || {
        kubectl.ok(&["get", "releases", "-n", "team", "-o", "name"]).is_empty().then_some(())
    });
    let going = world.refused(&["create", "-f", "-"], &release("late").to_string());
    assert!(going.contains("because it is being terminated"), "{going}");
    let unheld = r#"{"metadata":{"finalizers":null}}"#;
    kubectl.ok(&["patch", "configmap", "held", "-n", "team", "--type=merge", "-p", unheld]);
    until("the namespace is gone", || kubectl.object(&["namespace", "team"]).is_none().then_some(()));
}

#[test]
fn sc52_sc57_replicas_on_one_etcd_agree_and_direct_requests_with_forged_headers_are_refused() {
    let Some(world) = World::start_or_leave_out() else { return };
    let ((first, first_port), (second, second_port)) =
        (world.replica(&["--shutdown-delay-duration=20s"]), world.replica(&[]));
    let admin = world.plane.admin();
    let (one, other) = (world.direct(first_port, Some(admin)), world.direct(second_port, Some(admin)));

    // A client certificate of the host's CA is a user; a token of the host is, too; nobody is nobody.
    assert_eq!(one.get(RELEASES).unwrap().status, 200);
    let token = world.kubectl.ok(&["create", "token", "default", "-n", "team"]);
    let bearer = format!("Bearer {}", token.trim());
    let stranger = world.direct(first_port, None);
    let asked = |headers: &[(&str, &str)]| stranger.request("GET", RELEASES, headers, b"").unwrap();
    let by_token = asked(&[("Authorization", &bearer)]);
    assert_eq!(by_token.status, 403);
    assert!(by_token.text().contains("system:serviceaccount:team:default"), "{}", by_token.text());
    assert_eq!(asked(&[("Authorization", "Bearer guess")]).status, 401);
    assert!(asked(&[]).text().contains("system:anonymous"));

    let forged = [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")];
    assert_eq!(asked(&forged).status, 401);
    assert_eq!(asked(&[forged[1]]).status, 401);
    assert_eq!(asked(&[forged[0], forged[1], ("Authorization", &bearer)]).status, 401);
    assert_eq!(
        one.request("GET", RELEASES, &forged, b"").unwrap().status,
        401,
        "of the clients' CA is not of the proxy's"
    );
    let foreign = Authority::new("front-proxy-ca").unwrap().client("front-proxy-client", None).unwrap();
    let foreign = world.direct(first_port, Some(&foreign));
    assert_eq!(foreign.request("GET", RELEASES, &forged, b"").unwrap().status, 401);
    assert_eq!(asked(&[("Impersonate-User", "admin")]).status, 403);

    // What one replica has acknowledged the other shows.
    for i in 0..20 {
        let written = one.send("POST", RELEASES, "application/json", &release(&format!("r{i}"))).unwrap();
        assert_eq!(written.status, 201, "{}", written.text());
        let version = written.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let list = match i % 2 {
            0 => other.get(RELEASES),
            _ => {
                other.get(&format!("{RELEASES}?resourceVersion={version}&resourceVersionMatch=NotOlderThan"))
            }
        };
        assert_eq!(list.unwrap().json()["items"].as_array().unwrap().len(), i + 1);
    }
    let pages = other.get(&format!("{RELEASES}?limit=7")).unwrap().json();
    let next = pages["metadata"]["continue"].as_str().unwrap();
    // Another replica goes on with the page.
    let rest = one.get(&format!("{RELEASES}?limit=7&continue={next}")).unwrap().json();
    assert_eq!(rest["items"].as_array().unwrap().len(), 7);
    let metrics = other.get("/metrics").unwrap().text();
    assert!(metrics.contains("etcd_requests_total{operation=\"range\"}"), "{metrics}");
    assert!(
        metrics.contains("apiserver_storage_objects{resource=\"releases.convoy.kumodo.io\"}"),
        "{metrics}"
    );

    // One that ends says so first and still answers; one that is killed leaves the other.
    first.ask_to_end();
    until("it says that it ends", || {
        one.get("/readyz").is_ok_and(|answer| answer.status == 500).then_some(())
    });
    for i in 0..20 {
        let written = one.send("POST", RELEASES, "application/json", &release(&format!("late{i}"))).unwrap();
        assert_eq!(written.status, 201, "{}", written.text());
    }
    assert_eq!(first.ended(), Some(0));
    assert_eq!(other.get(RELEASES).unwrap().json()["items"].as_array().unwrap().len(), 40);
    second.kill();
    let (_third, port) = world.replica(&[]);
    let third = world.direct(port, Some(admin));
    assert_eq!(third.get(RELEASES).unwrap().json()["items"].as_array().unwrap().len(), 40);
}
