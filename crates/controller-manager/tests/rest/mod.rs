//! Releases that are looked at by the controller itself, on an API server and a target that take everything.
#![allow(dead_code, reason = "the benchmark needs less than the tests")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use convoy_api::{Artifact, ArtifactStatus, Cluster, GitRepository, Release, ReleaseInventory, decode};
use convoy_apply::{AlwaysOwn, Capabilities, RequestError, Target, Transport};
use convoy_controller_manager::looks::{Given, Looks};
use convoy_render::RenderStore;
use convoy_runtime::{Clock as _, ManualClock, Next, StoreKey};
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

const RELEASES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releases";
const INVENTORIES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releaseinventories";

/// The objects of convoy's API server by their paths, and what it and the target were asked.
#[derive(Clone, Default)]
pub(crate) struct Server {
    objects: BTreeMap<String, Value>,
    asked: Vec<String>,
    version: u64,
    /// The target's objects by their paths.
    target: BTreeMap<String, Value>,
    /// What somebody changes of the Release right before its next status is stored.
    meanwhile: Option<fn(&mut Value)>,
    /// How many writes the target refuses from now on.
    refusals: usize,
    /// Which object was written for the Release of which uid, one after the other.
    writes: Vec<(String, String)>,
}

impl Server {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        self.asked.push(format!("{method} {path}"));
        let at = path.trim_end_matches("/status").to_owned();
        match *method {
            Method::GET => match self.objects.get(&at) {
                Some(found) => (StatusCode::OK, found.clone()),
                None => (
                    StatusCode::NOT_FOUND,
                    json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
                ),
            },
            Method::PATCH if at != path => {
                if !self.objects.contains_key(&at) {
                    return (StatusCode::NOT_FOUND, Value::Null);
                }
                if let Some(change) = self.meanwhile.take() {
                    self.change(&at, change);
                }
                self.change(&at, |object| {
                    let theirs = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
                    object["status"] = body["status"].clone();
                    // The observer's stay.
                    let theirs = theirs.into_iter().filter(|condition| condition["type"] == "Drifted");
                    if let Some(ours) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut)
                    {
                        ours.retain(|condition| condition["type"] != "Drifted");
                        ours.extend(theirs);
                    }
                });
                (StatusCode::OK, self.objects[&at].clone())
            }
            Method::POST | Method::PUT => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let path = if *method == Method::POST { format!("{at}/{name}") } else { at };
                self.objects.insert(path.clone(), body);
                self.change(&path, |object| object["metadata"]["uid"] = "u".into());
                (StatusCode::CREATED, self.objects[&path].clone())
            }
            Method::DELETE => {
                self.objects.remove(&at);
                (StatusCode::OK, json!({"kind": "Status", "status": "Success"}))
            }
            _ => (StatusCode::METHOD_NOT_ALLOWED, Value::Null),
        }
    }

    /// Somebody writes an object.
    fn change(&mut self, path: &str, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        if let Some(object) = self.objects.get_mut(path) {
            change(object);
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
        }
    }
}

/// All that a look depends on. Clones are worlds of their own, but for the render store.
pub(crate) struct World {
    server: Arc<Mutex<Server>>,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) store: RenderStore,
    clock: ManualClock,
    artifact: ArtifactStatus,
    is_source_well: bool,
}

impl Clone for World {
    fn clone(&self) -> Self {
        let clock = clock();
        clock.advance(self.clock.monotonic());
        Self {
            server: Arc::new(Mutex::new(self.server.lock().clone())),
            capabilities: Arc::clone(&self.capabilities),
            store: self.store.clone(),
            clock,
            artifact: self.artifact.clone(),
            is_source_well: self.is_source_well,
        }
    }
}

fn client(server: &Arc<Mutex<Server>>) -> kube::Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, answer) = server.lock().answer(&parts.method, parts.uri.path(), body);
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

impl Server {
    fn answer_of_target(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        self.asked.push(format!("{method} {path} of the target"));
        let found = self.target.get(path).cloned();
        match (method, found) {
            (&Method::GET, Some(found)) => (StatusCode::OK, found),
            (&Method::PATCH, _) if self.refusals > 0 => {
                self.refusals -= 1;
                let refused = json!({"kind": "Status", "reason": "InternalError", "code": 500});
                (StatusCode::INTERNAL_SERVER_ERROR, refused)
            }
            (&Method::PATCH, found) => {
                let owner =
                    body["metadata"]["labels"]["convoy.kumodo.io/release-uid"].as_str().unwrap_or_default();
                self.writes.push((path.to_owned(), owner.to_owned()));
                self.version += 1;
                let mut object = body;
                if let Some(status) = found.as_ref().and_then(|found| found.get("status")) {
                    object["status"] = status.clone();
                }
                object["metadata"]["uid"] = format!("uid of {path}").into();
                object["metadata"]["resourceVersion"] = self.version.to_string().into();
                self.target.insert(path.to_owned(), object.clone());
                (if found.is_some() { StatusCode::OK } else { StatusCode::CREATED }, object)
            }
            _ => (StatusCode::NOT_FOUND, json!({"kind": "Status", "reason": "NotFound", "code": 404})),
        }
    }
}

/// A target that takes everything, after a while in which others go on.
struct Takes(Arc<Mutex<Server>>);

impl Transport for Takes {
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Bytes>, RequestError>> {
        Box::pin(async move {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, answer) = self.0.lock().answer_of_target(&parts.method, parts.uri.path(), body);
            Ok(Response::builder().status(code).body(Bytes::from(answer.to_string())).unwrap())
        })
    }
}

fn convoy(kind: &str, name: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind, "spec": spec, "status": status,
        "metadata": {
            "name": name, "namespace": "team", "uid": format!("uid-of-{name}"), "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-11-01T00:00:00Z", "finalizers": ["convoy.kumodo.io/release"],
        },
    })
}

fn config_map(number: usize) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{number}}}\ndata: {{text: some, more: words}}\n"
    )
}

fn clock() -> ManualClock {
    ManualClock::at("2026-11-02T00:00:00Z".parse::<Timestamp>().unwrap())
}

pub(crate) fn key() -> StoreKey {
    StoreKey::new("team", "web")
}

fn path_of(release: &str) -> String {
    format!("{RELEASES}/{release}")
}

impl World {
    /// A Release of so many objects that was never looked at; without health, so that no observer is needed.
    pub(crate) async fn new(objects: usize) -> Self {
        Self::of(&["web"], objects).await
    }

    /// The same with several Releases of the same objects.
    pub(crate) async fn of(releases: &[&str], objects: usize) -> Self {
        let spec = json!({
            "clusterRef": {"name": "prod"}, "source": {"git": {"repositoryRef": {"name": "apps"}}},
            "apply": {"wait": false},
        });
        let server = Arc::new(Mutex::new(Server::default()));
        for name in releases {
            server.lock().objects.insert(path_of(name), convoy("Release", name, &spec, &json!({})));
        }
        let mut capabilities = Capabilities { version: "v1.36.0".to_owned(), ..Capabilities::default() };
        capabilities.kinds.insert("", "v1", "ConfigMap", "configmaps", true);
        capabilities.kinds.insert("apps", "v1", "Deployment", "deployments", true);
        let store = RenderStore::in_memory();
        let mut world = Self {
            server,
            capabilities: Arc::new(capabilities),
            store,
            clock: clock(),
            artifact: ArtifactStatus::default(),
            is_source_well: true,
        };
        world.commit("main@sha1:1", objects).await;
        world
    }

    /// The source has a revision of so many objects.
    pub(crate) async fn commit(&mut self, revision: &str, objects: usize) {
        self.commit_text(revision, (0..objects).map(config_map).collect()).await;
    }

    /// The source has a revision of these manifests.
    pub(crate) async fn commit_text(&mut self, revision: &str, manifests: String) {
        let files = BTreeMap::from([("all.yaml".to_owned(), Bytes::from(manifests))]);
        let artifact = Artifact::new(revision, files);
        self.store.put_artifact(&artifact).await.unwrap();
        self.artifact = artifact.status();
    }

    /// The target refuses its next writes.
    pub(crate) fn refuse(&self, writes: usize) {
        self.server.lock().refusals = writes;
    }

    /// Somebody changes an object on the target.
    pub(crate) fn change_on_target(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut server = self.server.lock();
        if let Some(object) = server.target.get_mut(path) {
            change(object);
        }
    }

    pub(crate) fn source_fails(&mut self, fails: bool) {
        self.is_source_well = !fails;
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(std::time::Duration::from_secs(seconds));
    }

    pub(crate) fn change_release(&self, change: impl FnOnce(&mut Value)) {
        self.server.lock().change(&path_of("web"), change);
    }

    /// Somebody writes the inventory, when there is one.
    pub(crate) fn change_inventory(&self, change: impl FnOnce(&mut Value)) {
        let mut server = self.server.lock();
        let at = server.objects.keys().find(|path| path.starts_with(INVENTORIES)).cloned();
        if let Some(at) = at {
            server.change(&at, change);
        }
    }

    /// Somebody changes the Release right before its next status is stored.
    pub(crate) fn meanwhile(&self, change: fn(&mut Value)) {
        self.server.lock().meanwhile = Some(change);
    }

    pub(crate) fn release(&self) -> Value {
        self.release_of("web")
    }

    pub(crate) fn release_of(&self, name: &str) -> Value {
        self.server.lock().objects[&path_of(name)].clone()
    }

    /// The uids of the Releases for which the objects were written, in turn, by object.
    pub(crate) fn writers(&self) -> BTreeMap<String, Vec<String>> {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (path, uid) in &self.server.lock().writes {
            all.entry(path.clone()).or_default().push(uid.clone());
        }
        all
    }

    pub(crate) fn objects(&self) -> BTreeMap<String, Value> {
        self.server.lock().objects.clone()
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.server.lock().asked.clone()
    }

    /// What the caches show of it.
    fn given(&self) -> Given {
        let stored = self.objects();
        let of_inventories = stored.iter().filter(|(path, _)| path.starts_with(INVENTORIES));
        let inventories: Vec<ReleaseInventory> =
            of_inventories.map(|(_, object)| decode(object).unwrap()).collect();
        let of_releases = stored.iter().filter(|(path, _)| path.starts_with(&path_of("")));
        let releases: Vec<Release> = of_releases.map(|(_, object)| decode(object).unwrap()).collect();
        let ready = if self.is_source_well { "True" } else { "False" };
        let status = json!({
            "artifact": self.artifact,
            "conditions": [{"type": "Ready", "status": ready, "reason": "FetchFailed", "message": "",
                "lastTransitionTime": "2026-11-01T00:00:00Z"}],
        });
        let url = json!({"url": "https://git.example.com/apps"});
        let repository: GitRepository =
            serde_json::from_value(convoy("GitRepository", "apps", &url, &status)).unwrap();
        let cluster = convoy("Cluster", "prod", &json!({"inCluster": true}), &Value::Null);
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        Given {
            host: client(&self.server),
            target: Target::over(Arc::new(Takes(Arc::clone(&self.server))), Arc::new(AlwaysOwn)),
            capabilities: Arc::clone(&self.capabilities),
            store: self.store.clone(),
            clock: Arc::new(self.clock.clone()),
            releases,
            inventories,
            clusters: vec![cluster],
            repositories: vec![repository],
        }
    }

    /// The controller of a process that has just begun, or of one that has seen what is new.
    pub(crate) fn controller(&self, before: Option<&Looks>, is_whole: bool) -> Looks {
        let looks = match before {
            Some(before) => before.go_on(self.given()),
            None => Looks::at(self.given()),
        };
        if is_whole {
            looks.forget_rest();
        }
        looks
    }

    /// One look of such a controller: what it asks for, and when it wants to look next.
    pub(crate) async fn look(&self, before: Option<&Looks>, is_whole: bool) -> (Looks, Vec<String>, Next) {
        let looks = self.controller(before, is_whole);
        let asked = self.asked().len();
        let next = looks.look(&key()).await;
        let asked = self.asked().split_off(asked);
        (looks, asked, next)
    }
}

/// A Release that was delivered, and looked at until nothing was left to do, in a world with what it last asked for.
pub(crate) async fn at_rest(objects: usize) -> (Looks, World) {
    let world = World::new(objects).await;
    let mut looks = None;
    // What was written comes to the caches before the next look.
    for _ in 0..10 {
        let (after, asked, _) = world.look(looks.as_ref(), false).await;
        if asked.is_empty() {
            let status = &world.release()["status"];
            let ready =
                status["conditions"].as_array().into_iter().flatten().find(|it| it["type"] == "Ready");
            assert_eq!(ready.map(|ready| &ready["status"]), Some(&json!("True")), "{status:#}");
            assert_eq!(status["objects"], objects);
            return (after, world);
        }
        looks = Some(after);
    }
    panic!("it never comes to rest: {:#?}", world.objects());
}
