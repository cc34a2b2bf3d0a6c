//! The lease thread itself, on a real clock and against a server that speaks HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use convoy_shard::{ProcessKind, Settings};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{LeaseOptions, start_leases};
use crate::{Metrics, ProcessIdentity, Readiness, RealClock, Shutdown};

/// Longer than any of this takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const MEMBER: &str = "convoy-cm-member-cm-0";

/// Leases as an API server keeps them.
#[derive(Default)]
struct Stored {
    version: u64,
    leases: BTreeMap<String, Value>,
}

impl Stored {
    fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (StatusCode, Value) {
        let failure = |code: StatusCode| {
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16()});
            (code, status)
        };
        if !path.contains("/leases") {
            return failure(StatusCode::NOT_FOUND);
        }
        if method == Method::GET {
            let items: Vec<&Value> = self.leases.values().collect();
            let list = json!({"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
                "metadata": {"resourceVersion": self.version.to_string()}, "items": items});
            return (StatusCode::OK, list);
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        let name = lease["metadata"]["name"].as_str().unwrap().to_owned();
        let known = self.leases.get(&name).map(|lease| lease["metadata"]["resourceVersion"].clone());
        let is_new = method == Method::POST;
        if is_new != known.is_none()
            || !is_new && known.as_ref() != Some(&lease["metadata"]["resourceVersion"])
        {
            return failure(StatusCode::CONFLICT);
        }
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        lease["metadata"]["uid"] = format!("uid-{name}").into();
        self.leases.insert(name, lease.clone());
        (if is_new { StatusCode::CREATED } else { StatusCode::OK }, lease)
    }
}

/// Serves leases on a thread of its own, and tells each write of the member lease.
fn serve() -> (SocketAddr, mpsc::Receiver<()>) {
    let (tell, told) = mpsc::channel();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stored = Arc::new(Mutex::new(Stored::default()));
    let accept = async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (stored, tell) = (Arc::clone(&stored), tell.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (stored, tell) = (Arc::clone(&stored), tell.clone());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let (code, answer) = stored.lock().answer(&head.method, head.uri.path(), &body);
                    if head.method == Method::PUT && head.uri.path().ends_with(MEMBER) && code.is_success() {
                        // The test may have seen enough.
                        let _ = tell.send(());
                    }
                    let body = Full::new(Bytes::from(answer.to_string()));
                    let response =
                        Response::builder().status(code).header("content-type", "application/json");
                    Ok::<_, Infallible>(response.body(body).unwrap())
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    };
    std::thread::spawn(move || runtime.block_on(accept));
    (address, told)
}

#[test]
fn i6_leases_are_renewed_although_the_main_runtime_is_blocked_for_longer_than_they_last() {
    let (address, renewals) = serve();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}]});
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let mut settings = Settings::new(ProcessKind::ControllerManager, "cm-0", "boot");
    settings.shards = NonZeroU32::new(2).unwrap();
    settings.lease_duration = Duration::from_secs(2);
    settings.renew_interval = Duration::from_millis(100);
    settings.observe_interval = Duration::from_millis(100);
    settings.check().unwrap();
    let shutdown = Shutdown::new();
    let options = LeaseOptions {
        settings: settings.clone(),
        namespace: "n".to_owned(),
        kubeconfig: Some(kubeconfig),
        identity: ProcessIdentity { process: "controller-manager", replica_id: "cm-0".to_owned() },
        clock: Arc::new(RealClock::new()),
        readiness: Readiness::default(),
        metrics: Metrics::default(),
        shutdown: shutdown.clone(),
        warn_of_peers: None,
    };
    // More renewals than fit into two durations.
    let enough = 2 * settings.lease_duration.as_millis() / settings.renew_interval.as_millis();
    // One thread: what blocks a task of it blocks all.
    let main = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    main.block_on(async {
        let leases = start_leases(options).unwrap();
        let shards = leases.shards();
        let mut owned = shards.changes();
        let all = owned.wait_for(|owned| owned.len() == 2);
        drop(tokio::time::timeout(PATIENCE, all).await.unwrap().unwrap());
        let terms = shards.owned();
        while renewals.try_recv().is_ok() {}

        let goes_on = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&goes_on);
        let beside = tokio::spawn(async move { set.store(true, Ordering::SeqCst) });
        for number in 0..enough {
            renewals.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("only {number} renewals"));
        }
        assert!(!goes_on.load(Ordering::SeqCst), "the runtime was not blocked");
        assert_eq!(shards.owned(), terms, "nothing was lost meanwhile");
        assert!(shards.guard(0).is_ok() && shards.guard(1).is_ok());
        beside.await.unwrap();
        shutdown.trigger();
        tokio::time::timeout(PATIENCE, leases.ended()).await.unwrap().unwrap();
    });
}
