//! `releases/preview`, `diff`, `history` and `health` on the wire: who may, what is passed on to an observer, and who is answered by one.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use convoy_apiserver::kinds::observed::{Observers, OneService};
use convoy_apiserver::kinds::shard_holder::{Leases, ShardHolder};
use convoy_apiserver::pki::Authority;
use convoy_meta::{Reason, Status};
use convoy_runtime::{
    Answers, ProxiedAnswer, ProxiedRequest, ProxiedTls, ProxyAddress, ProxyClient, Shutdown, StoreKey,
    serve_proxied,
};
use convoy_testkit::{HttpsClient, Identity};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::control_plane::Setup;
use super::{Fixture, header};

const RELEASES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/releases";
const PREVIEW: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/releases/web/preview";
const JSON: &str = "application/json";

/// Stands for an observer: answers for all Releases but `elsewhere`.
#[derive(Default)]
struct Observer {
    asked: Mutex<Vec<(String, Value)>>,
}

#[async_trait]
impl Answers for Observer {
    async fn answer(&self, request: ProxiedRequest) -> ProxiedAnswer {
        let body = serde_json::from_slice(&request.body).unwrap_or_default();
        let mark = if request.query.is_empty() { "" } else { "?" };
        self.asked.lock().push((format!("{} {}{mark}{}", request.method, request.path, request.query), body));
        let (code, answer) = if request.path.contains("/elsewhere/") {
            let status = Status::failure(Reason::NotFound, "obs-0 does not own it; obs-1 owns its shard 7");
            (404, serde_json::to_value(status).unwrap())
        } else {
            let kind = match request.path.rsplit('/').next().unwrap() {
                "diff" => "ReleaseDiff",
                "history" => "ReleaseHistory",
                "health" => "ReleaseHealth",
                _ => "ReleasePreview",
            };
            let object = json!({"action": "Create", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "web",
                "name": "a", "reason": "it is new", "diff": "@@ -0,0 +1,1 @@\n+a: 1\n"});
            (200, json!({"kind": kind, "summary": "1 to create", "objects": [object]}))
        };
        ProxiedAnswer { code: http::StatusCode::from_u16(code).unwrap(), body: answer.to_string().into() }
    }
}

fn release(name: &str) -> Value {
    json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": name},
        "spec": {"clusterRef": {"name": "c"}, "source": {"git": {"repositoryRef": {"name": "g"}}}},
    })
}

fn address_of(at: SocketAddr) -> ProxyAddress {
    ProxyAddress { host: "127.0.0.1".to_owned(), port: at.port(), server_name: None }
}

/// The CA, the client's end, and the observer's port.
fn observer(runtime: &Runtime, observer: Arc<Observer>) -> (Authority, Arc<OneService>, SocketAddr) {
    let now = jiff::Timestamp::now();
    let authority = Authority::generate("proxy", now).unwrap();
    let ca = authority.files().certificate.clone().into_bytes();
    let tls = |made: convoy_apiserver::pki::CertificateAndKey| ProxiedTls {
        certificate: made.certificate.into_bytes(),
        key: made.key.into_bytes(),
        other_ca: ca.clone(),
    };
    let serving = tls(authority.serving(&["127.0.0.1".to_owned()], now).unwrap());
    let client = ProxyClient::new(&tls(authority.client("apiserver", &[], now).unwrap())).unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let at = listener.local_addr().unwrap();
    runtime.spawn(serve_proxied(Arc::new(listener), serving, observer, Shutdown::new()));
    let address = address_of(at);
    (authority, Arc::new(OneService { client, address }), at)
}

fn started() -> (Fixture, Arc<Observer>, SocketAddr, Authority, Runtime) {
    let runtime = Runtime::new().unwrap();
    let asked = Arc::new(Observer::default());
    let (authority, service, at) = observer(&runtime, Arc::clone(&asked));
    let it = Fixture::start_with(Setup { observers: service, ..Setup::default() });
    for name in ["web", "elsewhere"] {
        assert_eq!(it.client.send("POST", RELEASES, JSON, &release(name)).unwrap().status, 201);
    }
    (it, asked, at, authority, runtime)
}

#[test]
fn sc48_a_preview_is_asked_for_at_the_one_service_and_its_answer_passed_on() {
    let (it, observer, _at, _authority, _runtime) = started();
    let answer = it.get(PREVIEW);
    assert_eq!((answer.status, &answer.json()["summary"]), (200, &json!("1 to create")));
    assert_eq!(observer.asked.lock().as_slice(), [(format!("GET {PREVIEW}"), Value::Null)]);
    let yaml = it.get_as(PREVIEW, "application/yaml").text();
    assert!(yaml.contains("summary: 1 to create"), "{yaml}");
    // A Release that there is not, is nobody's.
    let none = it.get(&PREVIEW.replace("web", "none"));
    assert!(none.status == 404 && none.text().contains("releases.convoy.kumodo.io \\\"none\\\" not found"));
    assert_eq!(observer.asked.lock().len(), 2);
    for (method, path) in [("PUT", PREVIEW.to_owned()), ("GET", format!("{PREVIEW}/x"))] {
        assert_eq!(
            it.client.send(method, &path, JSON, &release("web")).unwrap().status,
            405,
            "{method} {path}"
        );
    }
}

const OTHERS: [(&str, &str); 3] =
    [("diff", "ReleaseDiff"), ("history", "ReleaseHistory"), ("health", "ReleaseHealth")];

/// The path of another subresource.
fn other(name: &str) -> String {
    PREVIEW.replace("preview", name)
}

#[test]
fn sc48_sc49_diff_history_and_health_are_asked_for_in_the_same_way() {
    let (it, observer, _at, _authority, _runtime) = started();
    for (name, kind) in OTHERS {
        let answer = it.get(&other(name));
        assert_eq!((answer.status, &answer.json()["kind"]), (200, &json!(kind)));
        let asked = observer.asked.lock().last().unwrap().0.clone();
        assert_eq!(asked, format!("GET {}", other(name)));
        let answer = it.get(&other(name).replace("web", "elsewhere"));
        assert!(
            answer.status == 404 && answer.text().contains("obs-1 owns its shard 7"),
            "{}",
            answer.text()
        );
        // They take no Release in a body.
        if name == "diff" {
            continue;
        }
        let before = observer.asked.lock().len();
        assert_eq!(
            it.client.send("POST", &other(name), JSON, &release("web")).unwrap().status,
            405,
            "{name}"
        );
        assert_eq!(observer.asked.lock().len(), before);
    }
}

/// Files that stand for those of the source are passed on as they are, about a Release that is there.
#[test]
fn a_diff_of_files_is_for_those_who_may_create_it_and_their_bytes_are_passed_on() {
    let (it, observer, _at, _authority, _runtime) = started();
    let files = json!(["any", "bytes"]);
    let answer = it.client.send("POST", &other("diff"), "application/gzip", &files).unwrap();
    assert_eq!((answer.status, &answer.json()["kind"]), (200, &json!("ReleaseDiff")), "{}", answer.text());
    assert_eq!(
        observer.asked.lock().last().unwrap().clone(),
        (format!("POST {}", other("diff")), files.clone())
    );
    let none = other("diff").replace("web", "none");
    assert_eq!(it.client.send("POST", &none, "application/gzip", &files).unwrap().status, 404);
    let rules = |verb: &str| json!([{"verbs": [verb], "apiGroups": ["convoy.kumodo.io"], "resources": ["releases/diff"]}]);
    for (verb, code) in [("get", 403), ("create", 200)] {
        let who = it.user(&format!("may-{verb}"), &rules(verb));
        assert_eq!(
            who.send("POST", &other("diff"), "application/gzip", &files).unwrap().status,
            code,
            "{verb}"
        );
    }
}

#[test]
fn a_query_is_judged_and_passed_on() {
    let (it, observer, _at, _authority, _runtime) = started();
    let history = other("history");
    assert_eq!(it.get(&format!("{history}?revision=3&to=4&pretty=true&x=%0d%0a")).status, 200);
    let asked = observer.asked.lock().last().unwrap().0.clone();
    assert_eq!(asked, format!("GET {history}?revision=3&to=4"), "nothing else is passed on");
    let before = observer.asked.lock().len();
    for query in [
        "history?revision=x",
        "history?revision=0",
        "history?revision=1&to=-1",
        "diff?format=odd",
        "health?format=unified",
    ] {
        let answer = it.get(&other(query));
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
    assert_eq!(observer.asked.lock().len(), before, "nobody is asked");
}

#[test]
fn a_diff_is_also_written_as_text() {
    let (it, _observer, _at, _authority, _runtime) = started();
    let answer = it.get(&other("diff?format=unified"));
    assert_eq!((answer.status, header(&answer, "content-type")), (200, Some("text/plain; charset=utf-8")));
    let want = "# create ConfigMap web/a: it is new\n--- /dev/null\n+++ b/v1/ConfigMap/web/a\n@@ -0,0 +1,1 @@\n+a: 1\n";
    assert_eq!(answer.text(), want);
    let answer = it.get(&other("diff?format=summary"));
    assert_eq!(answer.text(), "create ConfigMap web/a: it is new\n1 to create\n");
    assert_eq!(it.get(&other("diff?format=json")).json()["kind"], "ReleaseDiff");
}

#[test]
fn i13_each_is_for_those_who_may_see_it() {
    let (it, _observer, _at, _authority, _runtime) = started();
    for (name, _) in OTHERS {
        let rules = |resource: &str| json!([{"verbs": ["get"], "apiGroups": ["convoy.kumodo.io"], "resources": [resource]}]);
        let viewer = it.user(&format!("sees-{name}"), &rules(&format!("releases/{name}")));
        let reader = it.user(&format!("sees-no-{name}"), &rules("releases"));
        let get = |who: &HttpsClient| who.get(&other(name)).unwrap().status;
        assert_eq!((get(&viewer), get(&reader), get(&it.nobody)), (200, 403, 403), "{name}");
        assert_eq!(viewer.get(PREVIEW).unwrap().status, 403, "{name}");
    }
}

#[test]
fn sc49_who_does_not_own_the_release_says_so_and_the_apiserver_passes_it_on() {
    let (it, _observer, _at, _authority, _runtime) = started();
    let answer = it.get(&PREVIEW.replace("web", "elsewhere"));
    assert_eq!((answer.status, &answer.json()["reason"]), (404, &json!("NotFound")));
    assert!(answer.text().contains("obs-1 owns its shard 7"), "{}", answer.text());
}

#[test]
fn a_release_in_the_body_is_judged_and_defaulted_and_not_saved() {
    let (it, observer, _at, _authority, _runtime) = started();
    let post = |path: &str, body: &Value| it.client.send("POST", path, JSON, body).unwrap();
    let new = PREVIEW.replace("web", "new");
    assert_eq!(post(&new, &release("new")).status, 200);
    let (line, passed) = observer.asked.lock().last().unwrap().clone();
    assert_eq!(line, format!("POST {new}"));
    assert_eq!((&passed["kind"], &passed["metadata"]["namespace"]), (&json!("Release"), &json!("default")));
    assert!(passed["metadata"]["uid"].is_null(), "it is not saved, and has no uid");
    assert_eq!(it.get(&format!("{RELEASES}/new")).status, 404);

    let mut changed = release("web");
    changed["spec"]["targetNamespace"] = json!("other");
    changed["metadata"]["resourceVersion"] = json!("1");
    assert_eq!(post(PREVIEW, &changed).status, 200);
    let (_, passed) = observer.asked.lock().last().unwrap().clone();
    assert_eq!(passed["spec"]["targetNamespace"], "other");
    assert!(passed["metadata"]["uid"].is_string() && passed["metadata"]["generation"] == 2, "{passed:#}");
    assert!(it.get(&format!("{RELEASES}/web")).json()["spec"]["targetNamespace"].is_null());

    let mut invalid = release("web");
    invalid["spec"]["source"] = json!({});
    let preview = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "ReleasePreview", "metadata": {"name": "web"}});
    for (body, code, said) in [
        (invalid, 422, "say where the objects come from"),
        (release("other"), 400, "does not match the name on the URL"),
        (preview, 422, "must be Release"),
        (json!([]), 400, "must be an object"),
    ] {
        let before = observer.asked.lock().len();
        let answer = post(PREVIEW, &body);
        assert!(answer.status == code && answer.text().contains(said), "{} {}", answer.status, answer.text());
        assert_eq!(observer.asked.lock().len(), before, "nobody is asked");
    }
}

#[test]
fn i13_previews_are_for_those_who_may_see_previews() {
    let (it, _observer, _at, _authority, _runtime) = started();
    let rules = |resource: &str, verb: &str| json!([{"verbs": [verb], "apiGroups": ["convoy.kumodo.io"], "resources": [resource]}]);
    let reader = it.user("reader", &rules("releases", "*"));
    let viewer = it.user("viewer", &rules("releases/preview", "get"));
    let poster = it.user("poster", &rules("releases/preview", "create"));
    let get = |who: &HttpsClient| who.get(PREVIEW).unwrap().status;
    let post = |who: &HttpsClient| who.send("POST", PREVIEW, JSON, &release("web")).unwrap().status;
    assert_eq!((get(&reader), get(&viewer), get(&poster), get(&it.nobody)), (403, 200, 403, 403));
    assert_eq!((post(&reader), post(&viewer), post(&poster), post(&it.nobody)), (403, 403, 200, 403));
}

#[test]
fn without_an_observer_it_is_503() {
    let it = Fixture::start();
    assert_eq!(it.client.send("POST", RELEASES, JSON, &release("web")).unwrap().status, 201);
    let answer = it.get(PREVIEW);
    assert!(answer.status == 503 && answer.text().contains("--observer-url"), "{}", answer.text());
    let runtime = Runtime::new().unwrap();
    let (_, service, _) = observer(&runtime, Arc::default());
    let gone = OneService { client: service.client.clone(), address: "127.0.0.1:1".parse().unwrap() };
    let it = Fixture::start_with(Setup { observers: Arc::new(gone), ..Setup::default() });
    assert_eq!(it.client.send("POST", RELEASES, JSON, &release("web")).unwrap().status, 201);
    let answer = it.get(PREVIEW);
    assert_eq!((answer.status, header(&answer, "retry-after")), (503, Some("5")), "{}", answer.text());
    assert!(answer.text().contains("no observer answers"), "{}", answer.text());
}

/// Set when the server is there whose leases are read.
#[derive(Debug, Default)]
struct Late(OnceLock<ShardHolder>);

#[async_trait]
impl Observers for Late {
    async fn ask(&self, cluster: &StoreKey, request: ProxiedRequest) -> Result<ProxiedAnswer, Status> {
        self.0.get().unwrap().ask(cluster, request).await
    }
}

#[test]
fn sc51_the_holder_of_the_shard_is_found_and_a_takeover_followed() {
    let runtime = Runtime::new().unwrap();
    let asked = Arc::new(Observer::default());
    let (_, service, at) = observer(&runtime, Arc::clone(&asked));
    let late = Arc::new(Late::default());
    let it = Fixture::start_with(Setup { observers: Arc::clone(&late) as _, ..Setup::default() });
    let shards = convoy_shard::DEFAULT_SHARD_COUNT;
    let holder = ShardHolder {
        client: service.client.clone(),
        leases: Leases::Own(Arc::clone(&it.plane.registry)),
        lease_namespace: "default".to_owned(),
        shards,
        server_name: "127.0.0.1".to_owned(),
    };
    late.0.set(holder).unwrap();
    for name in ["web", "elsewhere"] {
        assert_eq!(it.client.send("POST", RELEASES, JSON, &release(name)).unwrap().status, 201);
    }
    let gap = |said: &str| {
        let answer = it.get(PREVIEW);
        assert!(answer.status == 503 && answer.text().contains(said), "{said}: {}", answer.text());
        assert_eq!(header(&answer, "retry-after"), Some("5"));
    };
    gap("no observer holds shard");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let shard = convoy_shard::shard_of("default", "c", shards);
    let lease = |name: &str, holder: &str, address: Option<String>| {
        let annotations = address.map(|address| json!({"convoy.kumodo.io/address": address}));
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "annotations": annotations.unwrap_or(json!({}))},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 30}})
    };
    let put = |object: &Value| {
        let path = format!("{leases}/{}", object["metadata"]["name"].as_str().unwrap());
        it.client.send("DELETE", &path, JSON, &json!({})).unwrap();
        let made = it.client.send("POST", leases, JSON, object).unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
    };
    let shard_lease = format!("convoy-obs-shard-{shard}");
    put(&lease(&shard_lease, "obs-0", None));
    gap("the observer obs-0, which holds shard");
    put(&lease("convoy-obs-member-obs-0", "obs-0", Some("127.0.0.1:1".to_owned())));
    gap("no observer answers");
    // Another one takes over.
    put(&lease("convoy-obs-member-obs-1", "obs-1", Some(at.to_string())));
    put(&lease(&shard_lease, "obs-1", None));
    assert_eq!(it.get(PREVIEW).status, 200);
    // One that does not own it any more is not the last word: the next holder is.
    let answer = it.get(&PREVIEW.replace("web", "elsewhere"));
    assert!(
        answer.status == 503 && answer.text().contains("handed over by the observer obs-1"),
        "{}",
        answer.text()
    );
}

#[test]
fn an_observer_answers_nobody_but_the_apiserver() {
    let (it, observer, at, authority, _runtime) = started();
    let admin = it.plane.authority.admin(jiff::Timestamp::now()).unwrap();
    let admin = Identity { certificate: admin.certificate, key: admin.key };
    let ca = &authority.files().certificate;
    for stranger in [None, Some(&admin)] {
        let client = HttpsClient::new(at, ca, stranger).unwrap();
        assert!(client.get(PREVIEW).is_err(), "a stranger {}", stranger.is_some());
    }
    assert!(observer.asked.lock().is_empty());
    // And the apiserver asks nobody but an observer.
    let made = it.plane.authority.client("apiserver", &[], jiff::Timestamp::now()).unwrap();
    let tls = ProxiedTls {
        certificate: made.certificate.into_bytes(),
        key: made.key.into_bytes(),
        other_ca: it.plane.authority.files().certificate.clone().into_bytes(),
    };
    let address = address_of(at);
    let service = OneService { client: ProxyClient::new(&tls).unwrap(), address };
    let request = ProxiedRequest {
        method: http::Method::GET,
        path: PREVIEW.to_owned(),
        query: String::new(),
        body: Default::default(),
    };
    let cluster = StoreKey::new("default", "c");
    let refused = it.runtime.block_on(service.ask(&cluster, request)).unwrap_err();
    assert_eq!(refused.code, 503, "{refused}");
}

#[test]
fn discovery_and_openapi_name_the_subresource_with_its_kind() {
    let it = Fixture::start();
    let list = it.get("/apis/convoy.kumodo.io/v1alpha1").json();
    let found =
        list["resources"].as_array().unwrap().iter().find(|one| one["name"] == "releases/preview").unwrap();
    assert_eq!((&found["kind"], &found["verbs"]), (&json!("ReleasePreview"), &json!(["create", "get"])));
    let document = it.get("/openapi/v3/apis/convoy.kumodo.io/v1alpha1").json();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (_, schema) = schemas.iter().find(|(name, _)| name.ends_with(".ReleasePreview")).unwrap();
    assert!(schema["properties"]["problems"].is_object());
    let path = "/apis/convoy.kumodo.io/v1alpha1/namespaces/{namespace}/releases/{name}/preview";
    assert!(document["paths"][path]["get"].is_object() && document["paths"][path]["post"].is_object());
    for (name, kind) in OTHERS {
        let found = list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == format!("releases/{name}"));
        let found = found.unwrap();
        let verbs = if name == "diff" { json!(["create", "get"]) } else { json!(["get"]) };
        assert_eq!((&found["kind"], &found["verbs"]), (&json!(kind), &verbs));
        assert!(schemas.keys().any(|key| key.ends_with(&format!(".{kind}"))), "{kind}");
        let path = path.replace("preview", name);
        assert!(
            document["paths"][&path]["get"].is_object()
                && document["paths"][&path]["post"].is_null() == (name != "diff"),
            "{path}"
        );
    }
}
