//! The server's answers on the wire, without kubectl. Codes and texts are those of kube-apiserver 1.36.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests, with the machine's clock")]
#![allow(dead_code, reason = "the tests with kubectl use more of the control plane")]

#[path = "kubectl/control_plane.rs"]
mod control_plane;
#[path = "http/observed.rs"]
mod observed;
#[path = "http/rollback.rs"]
mod rollback;
#[path = "http/sharing.rs"]
mod sharing;
#[path = "http/streams.rs"]
mod streams;
#[path = "http/unserved.rs"]
mod unserved;

use std::time::Duration;

use control_plane::ControlPlane;
use convoy_testkit::{HttpsClient, Identity, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

struct Fixture {
    client: HttpsClient,
    nobody: HttpsClient,
    plane: ControlPlane,
    runtime: Runtime,
    folder: TempDir,
}

impl Fixture {
    fn start() -> Self {
        Self::start_with(control_plane::Setup::default())
    }

    fn start_with(setup: control_plane::Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let plane = runtime.block_on(control_plane::start_with(folder.path(), 0, setup)).unwrap();
        let admin = plane.authority.admin(jiff::Timestamp::now()).unwrap();
        let identity = Identity { certificate: admin.certificate, key: admin.key };
        let ca = &plane.authority.files().certificate;
        let client = HttpsClient::new(plane.server.address(), ca, Some(&identity)).unwrap();
        let nobody = HttpsClient::new(plane.server.address(), ca, None).unwrap();
        Self { client, nobody, plane, runtime, folder }
    }

    fn get(&self, path: &str) -> Response {
        self.client.get(path).unwrap()
    }

    fn get_as(&self, path: &str, accept: &str) -> Response {
        self.client.request("GET", path, &[("Accept", accept)], b"").unwrap()
    }

    fn create(&self, name: &str) -> Value {
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
        let answer = self.client.send("POST", CONFIGS, "application/json", &body).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }
}

fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer
        .headers
        .iter()
        .find(|(header, _)| header.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

fn frames(answer: &Response) -> Vec<Value> {
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn nobody_sees_health_and_version_and_nothing_else() {
    let it = Fixture::start();
    for path in ["/livez", "/readyz", "/healthz", "/version"] {
        assert_eq!(it.nobody.get(path).unwrap().status, 200, "{path}");
    }
    for path in ["/metrics", "/apis", "/api/v1/namespaces", "/openapi/v3"] {
        assert_eq!(it.nobody.get(path).unwrap().status, 403, "{path}");
    }
    let headers = [("Authorization", "Bearer guess")];
    assert_eq!(it.nobody.request("GET", "/apis", &headers, b"").unwrap().status, 401);
    let claimed = [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")];
    assert_eq!(it.nobody.request("GET", "/apis", &claimed, b"").unwrap().status, 403);
}

#[test]
fn paths_that_name_nothing_are_not_found_and_never_redirected() {
    let it = Fixture::start();
    for path in
        ["/nosuch", "/apis/no.such/v1", "//api/v1", "/api/v1/namespaces/%2e%2e/configmaps", "/api/v1/a%2fb"]
    {
        let answer = it.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (404, "404 page not found\n"), "{path}");
    }
    for path in ["/api/v1/nosuch", "/api/v1/namespaces/default/namespaces", &format!("{CONFIGS}/a/status")] {
        let answer = it.get(path);
        assert_eq!(answer.json()["message"], "the server could not find the requested resource", "{path}");
    }
}

#[test]
fn bodies_and_types_that_are_not_taken_are_refused() {
    let it = Fixture::start();
    let post = |content_type: &str, body: &[u8]| {
        it.client.request("POST", CONFIGS, &[("Content-Type", content_type)], body).unwrap()
    };
    assert_eq!(post("text/plain", b"x").status, 415);
    assert_eq!(post("application/json", b"{\"a\":").status, 400);
    assert_eq!(post("application/json", "[".repeat(10_000).as_bytes()).status, 400);
    assert_eq!(post("application/vnd.kubernetes.protobuf", b"k8s\0\xff").status, 400);
    let large = post("application/json", &vec![b' '; 3 * 1024 * 1024 + 1]);
    assert_eq!(large.json()["message"], "Request entity too large: limit is 3145728");
    assert_eq!(large.status, 413);
    assert_eq!(it.get_as(CONFIGS, "text/html").status, 406);
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
    assert_eq!(it.client.request("GET", CONFIGS, &upgrade, b"").unwrap().status, 400);
}

#[test]
fn answers_take_the_form_that_is_asked_for() {
    let it = Fixture::start();
    it.create("a");
    let one = format!("{CONFIGS}/a");
    assert_eq!(
        it.get_as(&one, "application/vnd.kubernetes.protobuf,application/json").json()["data"]["a"],
        "b"
    );
    assert!(it.get_as(&one, "application/yaml").text().starts_with("apiVersion: v1\ndata:\n  a: b\n"));
    let table = it.get_as(CONFIGS, TABLE).json();
    assert_eq!(table["rows"][0]["cells"][1], json!(1));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let partial =
        it.get_as(CONFIGS, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").json();
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert!(partial["items"][0].get("data").is_none());
    for index in 0..300 {
        it.create(&format!("filler-{index:03}-{}", "x".repeat(200)));
    }
    let zipped = it.client.request("GET", CONFIGS, &[("Accept-Encoding", "gzip")], b"").unwrap();
    assert_eq!(header(&zipped, "content-encoding"), Some("gzip"));
    let plain = it.get(CONFIGS);
    assert_eq!(plain.json()["items"].as_array().unwrap().len(), 301);
    assert!(zipped.body.len() * 3 < plain.body.len());
    let page = it.get(&format!("{CONFIGS}?limit=2")).json();
    assert_eq!(page["metadata"]["remainingItemCount"], 299);
    let next = page["metadata"]["continue"].as_str().unwrap();
    let page = it.get(&format!("{CONFIGS}?limit=1000&continue={next}")).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 299);
}

#[test]
fn a_watch_that_starts_with_a_list_says_where_the_list_ends() {
    let it = Fixture::start();
    it.create("a");
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    let seen = frames(&it.get(&format!("{CONFIGS}?{query}")));
    assert_eq!(seen[0]["type"], "ADDED");
    assert_eq!(seen[1]["type"], "BOOKMARK");
    let end = &seen[1]["object"]["metadata"];
    assert_eq!(end["annotations"]["k8s.io/initial-events-end"], "true");
    let from = end["resourceVersion"].as_str().unwrap().to_owned();
    it.create("b");
    let seen = frames(&it.get(&format!("{CONFIGS}?watch=1&resourceVersion={from}&timeoutSeconds=1")));
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0]["object"]["metadata"]["name"], "b");
    let table = frames(&it.get_as(&format!("{CONFIGS}?{query}"), TABLE));
    assert!(table[0]["object"]["columnDefinitions"].is_array());
    assert!(table[1]["object"]["columnDefinitions"].is_null());
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let partial = frames(&it.get_as(&format!("{CONFIGS}?{query}"), partial));
    assert!(partial.iter().all(|event| event["object"]["kind"] == "PartialObjectMetadata"));
    // In the stream, as kube-apiserver says it: not every client takes a 410 for what it is.
    let expired = it.get(&format!("{CONFIGS}?watch=1&resourceVersion=1&timeoutSeconds=1"));
    assert_eq!(expired.status, 200, "{}", expired.text());
    let expired = frames(&expired);
    assert_eq!(expired.len(), 1);
    assert_eq!((&expired[0]["type"], &expired[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(expired[0]["object"]["reason"], "Expired");
}

#[test]
fn every_request_is_in_the_audit_log_without_its_body() {
    let it = Fixture::start();
    let body = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    let path = "/api/v1/namespaces/default/secrets";
    let headers = [("Content-Type", "application/json"), ("Audit-ID", "from-the-client")];
    let answer = it.client.request("POST", path, &headers, body.to_string().as_bytes()).unwrap();
    assert_eq!((answer.status, header(&answer, "audit-id")), (201, Some("from-the-client")));
    let _ = it.nobody.get(path).unwrap();
    let log = std::fs::read_to_string(it.folder.path().join("audit.log")).unwrap();
    assert!(!log.contains("hunter2") && !log.contains("aHVudGVyMg"));
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let created = events.iter().find(|event| event["auditID"] == "from-the-client").unwrap();
    assert_eq!(created["verb"], "create");
    assert_eq!(created["user"]["username"], "admin");
    assert_eq!(created["responseStatus"]["code"], 201);
    let refused = events.iter().find(|event| event["user"]["username"] == "system:anonymous").unwrap();
    assert_eq!(refused["annotations"]["authorization.k8s.io/decision"], "forbid");
}

#[test]
fn a_server_that_stops_finishes_what_it_has_begun() {
    let it = Fixture::start();
    let client = it.client.clone();
    let watching = std::thread::spawn(move || {
        client.get(&format!("{CONFIGS}?watch=1&allowWatchBookmarks=true")).unwrap()
    });
    let open = || {
        let metrics = it.get("/metrics").text();
        metrics.lines().any(|line| line == "apiserver_longrunning_requests 1")
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !open() {
        assert!(std::time::Instant::now() < deadline, "the watch never started");
    }
    it.runtime.block_on(it.plane.server.stop(Duration::ZERO, Duration::from_secs(10)));
    assert_eq!(watching.join().unwrap().status, 200, "the watch ended in good order");
    assert!(it.client.get("/livez").is_err(), "nobody listens any more");
}

#[test]
fn who_may_change_objects_may_not_therefore_create_them_by_an_apply() {
    let it = Fixture::start();
    let jane = it.plane.authority.client("jane", &[], jiff::Timestamp::now()).unwrap();
    let identity = Identity { certificate: jane.certificate, key: jane.key };
    let ca = &it.plane.authority.files().certificate;
    let jane = HttpsClient::new(it.plane.server.address(), ca, Some(&identity)).unwrap();
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({
        "metadata": {"name": "jane"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}],
    });
    let binding = json!({
        "metadata": {"name": "jane"}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jane"},
    });
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let answer =
            it.client.send("POST", &format!("{rbac}/{plural}"), "application/json", &object).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let apply = |client: &HttpsClient| {
        let path = format!("{CONFIGS}/new?fieldManager=test&force=true");
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}});
        let answer = client.send("PATCH", &path, "application/apply-patch+yaml", &map).unwrap();
        (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    let refused = "configmaps \"new\" is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \"\" in the \
                   namespace \"default\"";
    assert_eq!(apply(&jane), (403, refused.to_owned()));
    assert_eq!(it.get(&format!("{CONFIGS}/new")).status, 404);
    assert_eq!(apply(&it.client).0, 201);
    assert_eq!(apply(&jane).0, 200);
}
