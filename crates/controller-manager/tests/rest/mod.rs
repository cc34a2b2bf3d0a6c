//! A Release that was delivered, and looked at until nothing was left to do: by the controller itself, on an API server and
//! a target that take everything.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use convoy_api::{Artifact, Cluster, GitRepository, Release, ReleaseInventory, decode};
use convoy_apply::{AlwaysOwn, Capabilities, RequestError, Target, Transport};
use convoy_controller_manager::looks::{Given, Looks};
use convoy_render::RenderStore;
use convoy_runtime::{ManualClock, StoreKey};
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

const RELEASE: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releases/web";
const INVENTORIES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releaseinventories";

/// The objects of convoy's API server by their paths, and how many requests there were to it and to the target.
#[derive(Default)]
pub(crate) struct World {
    objects: Mutex<BTreeMap<String, Value>>,
    requests: Mutex<usize>,
}

impl World {
    pub(crate) fn requests(&self) -> usize {
        *self.requests.lock()
    }

    fn answer(&self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        *self.requests.lock() += 1;
        let version = self.requests().to_string();
        let mut objects = self.objects.lock();
        let at = path.trim_end_matches("/status").to_owned();
        match *method {
            Method::GET => match objects.get(&at) {
                Some(found) => (StatusCode::OK, found.clone()),
                None => (
                    StatusCode::NOT_FOUND,
                    json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
                ),
            },
            Method::PATCH if at != path => {
                let Some(object) = objects.get_mut(&at) else { return (StatusCode::NOT_FOUND, Value::Null) };
                object["status"] = body["status"].clone();
                object["metadata"]["resourceVersion"] = version.into();
                (StatusCode::OK, object.clone())
            }
            Method::POST | Method::PUT => {
                let mut object = body;
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                object["metadata"]["uid"] = "u".into();
                object["metadata"]["resourceVersion"] = version.into();
                let path = if *method == Method::POST { format!("{at}/{name}") } else { at };
                objects.insert(path, object.clone());
                (StatusCode::CREATED, object)
            }
            _ => (StatusCode::METHOD_NOT_ALLOWED, Value::Null),
        }
    }

    fn host(self: &Arc<Self>) -> kube::Client {
        let world = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let world = Arc::clone(&world);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = world.answer(&parts.method, parts.uri.path(), body);
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        kube::Client::new(service, "default")
    }
}

/// A target that takes everything and has nothing else.
struct Takes(Arc<World>);

impl Transport for Takes {
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Bytes>, RequestError>> {
        *self.0.requests.lock() += 1;
        let (code, body) = match *request.method() {
            Method::GET => (404, json!({"kind": "Status", "reason": "NotFound", "code": 404})),
            _ => (201, json!({"metadata": {"uid": request.uri().path(), "resourceVersion": "1"}})),
        };
        let answer = Response::builder().status(code).body(Bytes::from(body.to_string())).unwrap();
        Box::pin(async move { Ok(answer) })
    }
}

fn convoy<K: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: &Value, status: &Value) -> K {
    let object = json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind, "spec": spec, "status": status,
        "metadata": {
            "name": name, "namespace": "team", "uid": format!("uid-of-{name}"), "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-11-01T00:00:00Z", "finalizers": ["convoy.kumodo.io/release"],
        },
    });
    serde_json::from_value(object).unwrap()
}

fn config_map(number: usize) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{number}}}\ndata: {{text: some, more: words}}\n"
    )
}

/// The controller, and what it may not ask any more. `wait: false`, so that no observer is needed.
pub(crate) async fn at_rest(objects: usize) -> (Looks, StoreKey, Arc<World>) {
    let world = Arc::new(World::default());
    let manifests: String = (0..objects).map(config_map).collect();
    let files = BTreeMap::from([("all.yaml".to_owned(), Bytes::from(manifests))]);
    let artifact = Artifact::new("main@sha1:1", files);
    let store = RenderStore::in_memory();
    store.put_artifact(&artifact).await.unwrap();
    let repository: GitRepository = convoy(
        "GitRepository",
        "apps",
        &json!({"url": "https://git.example.com/apps"}),
        &json!({"artifact": artifact.status()}),
    );
    let cluster: Cluster = convoy("Cluster", "prod", &json!({"inCluster": true}), &Value::Null);
    let spec = json!({
        "clusterRef": {"name": "prod"}, "source": {"git": {"repositoryRef": {"name": "apps"}}},
        "apply": {"wait": false},
    });
    let release: Value = convoy("Release", "web", &spec, &json!({}));
    world.objects.lock().insert(RELEASE.to_owned(), release);
    let mut capabilities = Capabilities { version: "v1.36.0".to_owned(), ..Capabilities::default() };
    capabilities.kinds.insert("", "v1", "ConfigMap", "configmaps", true);
    let clock = ManualClock::at("2026-11-02T00:00:00Z".parse::<Timestamp>().unwrap());
    let key = StoreKey::new("team", "web");
    // What was written comes to the caches before the next look.
    for _ in 0..10 {
        let stored = world.objects.lock().clone();
        let release: Release = decode(&stored[RELEASE]).unwrap();
        let of_inventories = stored.iter().filter(|(path, _)| path.starts_with(INVENTORIES));
        let inventories: Vec<ReleaseInventory> =
            of_inventories.map(|(_, object)| decode(object).unwrap()).collect();
        let looks = Looks::at(Given {
            host: world.host(),
            target: Target::over(Arc::new(Takes(Arc::clone(&world))), Arc::new(AlwaysOwn)),
            capabilities: capabilities.clone(),
            store: store.clone(),
            clock: Arc::new(clock.clone()),
            releases: vec![release],
            inventories,
            clusters: vec![cluster.clone()],
            repositories: vec![repository.clone()],
        });
        let before = world.requests();
        looks.look(&key).await;
        if world.requests() == before {
            let status = &stored[RELEASE]["status"];
            let ready =
                status["conditions"].as_array().into_iter().flatten().find(|it| it["type"] == "Ready");
            assert_eq!(ready.map(|ready| &ready["status"]), Some(&json!("True")), "{status:#}");
            assert_eq!(status["objects"], objects);
            return (looks, key, world);
        }
    }
    panic!("it never comes to rest: {:#?}", world.objects.lock());
}
