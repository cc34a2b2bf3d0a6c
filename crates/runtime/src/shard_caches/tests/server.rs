//! An API server that does what a test says.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// It holds Releases. Lists show what it holds; watches tell only what the test has them tell.
#[derive(Clone, Default)]
pub(super) struct Server {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<String, Value>,
    requests: Vec<String>,
    failing: HashMap<String, u32>,
    held: Vec<(String, Arc<Notify>)>,
    watches: Vec<(String, mpsc::UnboundedSender<Value>)>,
    /// Watches from earlier versions are answered with 410.
    oldest: u64,
}

impl Server {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let asked = request.uri().query().unwrap_or_default().to_owned();
                drop(request);
                Ok::<_, Infallible>(server.answer(&asked).await)
            }
        });
        Client::new(service, "default")
    }

    /// Creates or changes a Release whose cluster is in the shard of the label.
    pub(super) fn put(&self, name: &str, label: Option<&str>) {
        self.put_in(name, label, label.unwrap_or("0"));
    }

    /// The same with a cluster in another shard.
    pub(super) fn put_in(&self, name: &str, label: Option<&str>, shard: &str) {
        let mut state = self.state.lock();
        state.revision += 1;
        let object = release(name, label, shard, state.revision);
        state.objects.insert(name.to_owned(), object);
    }

    pub(super) fn delete(&self, name: &str) {
        let mut state = self.state.lock();
        state.revision += 1;
        state.objects.remove(name);
    }

    pub(super) fn object(&self, name: &str) -> Value {
        self.state.lock().objects[name].clone()
    }

    /// A Release as it was or will be; it is not stored.
    pub(super) fn object_at(&self, name: &str, label: Option<&str>, revision: u64) -> Value {
        release(name, label, label.unwrap_or("0"), revision)
    }

    pub(super) fn version(&self, name: &str) -> String {
        self.object(name)["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    pub(super) fn revision(&self) -> u64 {
        self.state.lock().revision
    }

    /// Has the watches with a selector tell of an object as it is.
    pub(super) fn tell(&self, selector: &str, type_: &str, name: &str) {
        self.tell_object(selector, type_, &self.object(name));
    }

    pub(super) fn tell_object(&self, selector: &str, type_: &str, object: &Value) {
        let state = self.state.lock();
        let event = json!({"type": type_, "object": object});
        let watches = state.watches.iter().filter(|(of, _)| of == selector);
        let told = watches.filter(|(_, watch)| watch.send(event.clone()).is_ok()).count();
        assert!(told > 0, "nobody watches {selector:?}");
    }

    /// The next lists with a selector fail.
    pub(super) fn fail(&self, selector: &str, times: u32) {
        self.state.lock().failing.insert(selector.to_owned(), times);
    }

    /// The next list with a selector is answered from the state of its arrival, when told to.
    pub(super) fn hold(&self, selector: &str) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.state.lock().held.push((selector.to_owned(), Arc::clone(&notify)));
        notify
    }

    /// Ends all watches, and knows nothing of before now.
    pub(super) fn forget(&self) {
        let mut state = self.state.lock();
        state.revision += 1;
        state.oldest = state.revision;
        state.watches.clear();
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.state.lock().requests.clone()
    }

    pub(super) fn lists(&self, selector: &str) -> usize {
        let list = format!("list {selector}");
        self.state.lock().requests.iter().filter(|request| **request == list).count()
    }

    /// How many watches with a selector are open.
    pub(super) fn watches(&self, selector: &str) -> usize {
        let mut state = self.state.lock();
        state.watches.retain(|(_, watch)| !watch.is_closed());
        state.watches.iter().filter(|(of, _)| of == selector).count()
    }

    async fn answer(&self, asked: &str) -> Answer {
        let query = query(asked);
        let field = |name: &str| query.get(name).cloned().unwrap_or_default();
        let selector = field("labelSelector");
        let verb = if field("watch") == "true" { "watch" } else { "list" };
        self.state.lock().requests.push(format!("{verb} {selector}").trim().to_owned());
        if verb == "watch" {
            let from: u64 = field("resourceVersion").parse().unwrap();
            if from < self.state.lock().oldest {
                let status = json!({"kind": "Status", "status": "Failure", "code": 410, "message": "too old resource version", "reason": "Expired"});
                return whole(410, &status);
            }
            let (sender, receiver) = mpsc::unbounded_channel();
            self.state.lock().watches.push((selector, sender));
            let lines = futures::stream::unfold(receiver, |mut receiver| async move {
                let event: Value = receiver.recv().await?;
                Some((Ok(Frame::data(Bytes::from(format!("{event}\n")))), receiver))
            });
            return Response::new(StreamBody::new(lines.boxed()).boxed_unsync());
        }
        assert_eq!(query.get("resourceVersion"), None, "a list from the server's cache");
        let (answer, hold) = self.list(&query, &selector);
        if let Some(hold) = hold {
            hold.notified().await;
        }
        answer
    }

    fn list(&self, query: &HashMap<String, String>, selector: &str) -> (Answer, Option<Arc<Notify>>) {
        let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
        let mut state = self.state.lock();
        if let Some(times) = state.failing.get_mut(selector).filter(|times| **times > 0) {
            *times -= 1;
            let status = json!({"kind": "Status", "status": "Failure", "code": 500, "message": "m", "reason": "InternalError"});
            return (whole(500, &status), None);
        }
        let all: Vec<Value> = state.objects.values().filter(|o| is_selected(o, selector)).cloned().collect();
        let from = number("continue").unwrap_or(0);
        let limit = number("limit").unwrap();
        let items: Vec<&Value> = all.iter().skip(from).take(limit).collect();
        let next = (from + limit < all.len()).then(|| (from + limit).to_string());
        let list = json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "ReleaseList",
            "metadata": {"resourceVersion": state.revision.to_string(), "continue": next.unwrap_or_default()},
            "items": items,
        });
        let at = state.held.iter().position(|(held, _)| held == selector);
        let hold = at.map(|at| state.held.remove(at).1);
        (whole(200, &list), hold)
    }
}

fn whole(code: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

fn is_selected(object: &Value, selector: &str) -> bool {
    let label = object["metadata"]["labels"]["convoy.kumodo.io/shard"].as_str();
    if let Some((_, shards)) = selector.split_once(" notin ") {
        let shards: Vec<&str> = shards.trim_matches(['(', ')']).split(',').collect();
        return !label.is_some_and(|label| shards.contains(&label));
    }
    match selector.split_once('=') {
        Some((_, shard)) => label == Some(shard),
        None => true,
    }
}

fn release(name: &str, label: Option<&str>, shard: &str, revision: u64) -> Value {
    let shard: u32 = shard.parse().unwrap();
    let count = NonZeroU32::new(super::COUNT).unwrap();
    let cluster = (0..1000)
        .map(|n| format!("cluster-{n}"))
        .find(|cluster| convoy_shard::shard_of("team", cluster, count) == shard % super::COUNT)
        .unwrap();
    let mut object = json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release",
        "metadata": {
            "namespace": "team", "name": name, "uid": name, "resourceVersion": revision.to_string(),
            "managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {"clusterRef": {"name": cluster}, "source": {}},
    });
    if let Some(label) = label {
        object["metadata"]["labels"] = json!({"convoy.kumodo.io/shard": label});
    }
    object
}

/// An object with another resourceVersion.
pub(super) fn at(mut object: Value, version: String) -> Value {
    object["metadata"]["resourceVersion"] = version.into();
    object
}

fn query(text: &str) -> HashMap<String, String> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let hex = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap()
                }
                other => other,
            });
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

/// Lets other tasks run.
pub(super) async fn breathe() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Waits until something is so.
pub(super) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            breathe().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .unwrap_or_else(|_| panic!("waited too long: {what}"));
}
