use std::convert::Infallible;

use convoy_runtime::ManualClock;
use kube::client::Body;

use super::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_watch_of_a_kind_that_is_not_there_tries_again_when_a_kind_came() {
    let unknown = tower::service_fn(|_: http::Request<Body>| async {
        Ok::<_, Infallible>(http::Response::builder().status(404).body(Body::empty()).unwrap())
    });
    let (shutdown, model) = (Shutdown::new(), Arc::<Mutex<Model>>::default());
    let (failed, mut failures) = tokio::sync::mpsc::unbounded_channel();
    let watch = |client: Client, kind: WatchedKind| KindWatch {
        cluster: StoreKey::new("team", "edge-1"),
        kind,
        client,
        model: Arc::clone(&model),
        turns: Arc::new(Semaphore::new(LISTS)),
        health: Arc::default(),
        // It stands still: no pause ends by itself.
        clock: Arc::new(ManualClock::at(jiff::Timestamp::UNIX_EPOCH)),
        on_change: Arc::new(|_| {}),
        on_failure: Arc::new({
            let failed = failed.clone();
            move || {
                let _ = failed.send(());
            }
        }),
        on_state: Arc::new(|| {}),
    };
    let client = Client::new(unknown, "default");
    let widgets = watch(client.clone(), WatchedKind::new("example.org", "v1", "Widget"));
    let running = tokio::spawn(widgets.run(shutdown.clone()));
    failures.recv().await.unwrap();

    let definitions = WatchedKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = ApiResource::from_gvk(&gvk);
    let definitions = watch(client, definitions);
    for established in ["False", "True"] {
        let object = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "widgets.example.org", "uid": "u"},
            "status": {"conditions": [{"type": "Established", "status": established, "reason": "Installing"}]},
        }));
        definitions.handle(Event::Apply(object.unwrap()), None, &resource, &mut None);
    }
    tokio::time::timeout(Duration::from_secs(20), failures.recv()).await.unwrap().unwrap();
    shutdown.trigger();
    running.await.unwrap();
}

#[tokio::test]
async fn a_watch_that_fails_says_of_which_cluster_and_kind() {
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _here = tracing::subscriber::set_default(lines);
    let refuses = tower::service_fn(|_: http::Request<Body>| async {
        Ok::<_, Infallible>(http::Response::builder().status(500).body(Body::empty()).unwrap())
    });
    let shutdown = Shutdown::new();
    let until = shutdown.clone();
    let watch = KindWatch {
        cluster: StoreKey::new("team", "edge-1"),
        kind: WatchedKind::new("apps", "v1", "Deployment"),
        client: Client::new(refuses, "default"),
        model: Arc::default(),
        turns: Arc::new(Semaphore::new(LISTS)),
        health: Arc::default(),
        clock: Arc::new(ManualClock::at(jiff::Timestamp::UNIX_EPOCH)),
        on_change: Arc::new(|_| {}),
        on_failure: Arc::new(move || until.trigger()),
        on_state: Arc::new(|| {}),
    };
    tokio::time::timeout(Duration::from_secs(20), watch.run(shutdown)).await.unwrap();
    let text = String::from_utf8(log.0.lock().clone()).unwrap();
    assert!(text.contains("watch of a target failed"), "{text}");
    assert!(text.contains("team/edge-1") && text.contains("Deployment"), "{text}");
}

#[test]
fn what_failed_together_does_not_come_back_together_and_soon_enough() {
    let pauses = |failures: u32| {
        let all = (0..200).map(|kind| pause(failures, &("team/edge-1", kind)));
        all.collect::<std::collections::BTreeSet<_>>()
    };
    for (failures, longest) in [(1, 500), (4, 4_000), (90, 30_000)] {
        let longest = Duration::from_millis(longest);
        let all = pauses(failures);
        assert!(all.len() > 30, "{all:?}");
        assert!(all.iter().all(|pause| *pause >= longest / 2 && *pause <= longest), "{all:?}");
    }
}

/// A target that holds back its answers to lists, and has them counted.
#[derive(Clone, Default)]
struct SlowTarget(Arc<Mutex<(usize, usize)>>);

impl SlowTarget {
    async fn answer(self, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        let is_list = request.uri().path().ends_with("s") && !request.uri().path().ends_with("v1");
        let body = if is_list {
            {
                let mut counts = self.0.lock();
                counts.0 += 1;
                counts.1 = counts.1.max(counts.0);
            }
            // Time for all that would come.
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            self.0.lock().0 -= 1;
            serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500})
        } else {
            let kinds: Vec<_> = (0..200)
                .map(|n| serde_json::json!({"kind": format!("K{n}"), "name": format!("k{n}s"), "namespaced": true, "verbs": ["list", "watch"], "singularName": ""}))
                .collect();
            serde_json::json!({"kind": "APIResourceList", "groupVersion": "example.org/v1", "resources": kinds})
        };
        let code = if is_list { 500 } else { 200 };
        Ok(http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap())
    }
}

#[tokio::test]
async fn of_two_hundred_kinds_of_a_cluster_a_few_are_listed_at_a_time() {
    let target = SlowTarget::default();
    let asked = target.clone();
    let service = tower::service_fn(move |request| asked.clone().answer(request));
    let client = Client::new(service, "default");
    let (shutdown, turns) = (Shutdown::new(), Arc::new(Semaphore::new(LISTS)));
    let (failed, mut failures) = tokio::sync::mpsc::unbounded_channel();
    let mut running = tokio::task::JoinSet::new();
    for number in 0..200 {
        let failed = failed.clone();
        let watch = KindWatch {
            cluster: StoreKey::new("team", "edge-1"),
            kind: WatchedKind::new("example.org", "v1", format!("K{number}")),
            client: client.clone(),
            model: Arc::default(),
            turns: Arc::clone(&turns),
            health: Arc::default(),
            clock: Arc::new(ManualClock::at(jiff::Timestamp::UNIX_EPOCH)),
            on_change: Arc::new(|_| {}),
            on_failure: Arc::new(move || {
                let _ = failed.send(());
            }),
            on_state: Arc::new(|| {}),
        };
        running.spawn(watch.run(shutdown.clone()));
    }
    for _ in 0..200 {
        tokio::time::timeout(Duration::from_secs(60), failures.recv()).await.unwrap().unwrap();
    }
    shutdown.trigger();
    running.join_all().await;
    assert_eq!(target.0.lock().1, LISTS, "as many as may, and no more");
}
