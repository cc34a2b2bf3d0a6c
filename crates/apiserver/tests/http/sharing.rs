//! What the server writes and refuses so that many replicas can share the work: shard labels, epochs, and
//! the word of Releases that nobody looks at.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_apiserver::background::{Looker, OverdueLooks, ShardLabels, keep_running};
use convoy_meta::{ListOptions, Object as _};
use convoy_runtime::{Clock, ManualClock, RealClock};
use convoy_shard::shard_of;
use convoy_storage::Storage;
use convoy_storage::memory::MemoryStorage;
use convoy_testkit::Response;
use serde_json::{Value, json};

use super::control_plane::Setup;
use super::{Fixture, frames};

const RELEASES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/releases";
const INVENTORIES: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/releaseinventories";
const CLUSTERS: &str = "/apis/convoy.kumodo.io/v1alpha1/namespaces/default/clusters";
const SHARD: &str = "convoy.kumodo.io/shard";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl Fixture {
    fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Response {
        self.client.send(method, path, content_type, body).unwrap()
    }

    fn taken(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Value {
        let answer = self.send(method, path, content_type, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.text());
        answer.json()
    }

    /// Refused for its epoch, with the stored one in the cause.
    fn too_old(&self, method: &str, path: &str, content_type: &str, body: &Value) {
        let answer = self.send(method, path, content_type, body);
        let status = answer.json();
        assert_eq!(
            (answer.status, &status["reason"]),
            (409, &json!("Conflict")),
            "{method} {path}: {status}"
        );
        assert_eq!(status["details"]["causes"][0]["reason"], "OlderEpoch", "{status}");
        assert_eq!(status["details"]["causes"][0]["message"], "5", "{status}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("epoch is 4") && message.contains("epoch 5 of shard 3"), "{message}");
    }
}

fn release(name: &str, cluster: &str) -> Value {
    json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": name},
        "spec": {"clusterRef": {"name": cluster}, "source": {"git": {"repositoryRef": {"name": "g"}}}, "interval": "1m"},
    })
}

fn inventory(name: &str, epoch: i64) -> Value {
    json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "ReleaseInventory", "metadata": {"name": name},
        "spec": {"releaseRef": {"name": "web", "uid": "u"}, "clusterRef": {"name": "edge-1"},
            "writer": writer(3, epoch)},
    })
}

fn writer(shard: i64, epoch: i64) -> Value {
    json!({"replica": "cm-1", "shard": shard, "epoch": epoch})
}

fn label(object: &Value) -> Option<&str> {
    object.label(SHARD)
}

#[test]
fn i5_no_verb_overwrites_the_status_of_a_later_epoch() {
    let it = Fixture::start();
    it.taken("POST", RELEASES, JSON, &release("web", "edge-1"));
    let (main, status) = (format!("{RELEASES}/web"), format!("{RELEASES}/web/status"));
    let applied = |field: &str, writer: Value| {
        json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": "web"},
            "status": {field: writer}})
    };
    for field in ["controller", "observer"] {
        let apply = format!("{status}?fieldManager=convoy-{field}&force=true");
        it.taken("PATCH", &apply, APPLY, &applied(field, writer(3, 5)));
        let mut old = it.get(&main).json();
        old["status"][field]["epoch"] = json!(4);
        it.too_old("PUT", &status, JSON, &old);
        it.too_old("PATCH", &status, MERGE, &json!({"status": {field: {"epoch": 4}}}));
        let step = json!([{"op": "replace", "path": format!("/status/{field}/epoch"), "value": 4}]);
        it.too_old("PATCH", &status, JSON_PATCH, &step);
        it.too_old("PATCH", &apply, APPLY, &applied(field, writer(3, 4)));
        it.too_old("PATCH", &format!("{apply}&dryRun=All"), APPLY, &applied(field, writer(3, 4)));
        // The status in a write of the main resource does not count, so that it hinders nobody.
        old["metadata"]["labels"] = json!({"team": field});
        let stored = it.taken("PUT", &main, JSON, &old);
        assert_eq!(stored["status"][field]["epoch"], 5);
        // Nor is anybody hindered who leaves it as it is, or comes later, or with another shard.
        it.taken("PUT", &status, JSON, &stored);
        it.taken("PATCH", &apply, APPLY, &applied(field, writer(3, 6)));
        let moved = it.taken("PATCH", &apply, APPLY, &applied(field, writer(4, 1)));
        assert_eq!(moved["status"][field]["epoch"], 1);
    }
}

#[test]
fn i5_no_verb_overwrites_the_inventory_of_a_later_epoch() {
    let it = Fixture::start();
    let one = format!("{INVENTORIES}/web.edge-1");
    let apply = format!("{one}?fieldManager=convoy&force=true");
    let created = it.taken("POST", INVENTORIES, JSON, &inventory("web.edge-1", 5));
    let mut old = created.clone();
    old["spec"]["writer"]["epoch"] = json!(4);
    it.too_old("PUT", &one, JSON, &old);
    it.too_old("PATCH", &one, MERGE, &json!({"spec": {"writer": {"epoch": 4}}}));
    let step = json!([{"op": "replace", "path": "/spec/writer/epoch", "value": 4}]);
    it.too_old("PATCH", &one, JSON_PATCH, &step);
    it.too_old("PATCH", &apply, APPLY, &inventory("web.edge-1", 4));
    // An inventory with the version of before is refused as any stale write is, without that cause.
    it.taken("PATCH", &one, MERGE, &json!({"spec": {"bundleDigest": "sha256:x"}}));
    let stale = it.send("PUT", &one, JSON, &created);
    assert_eq!((stale.status, stale.json()["details"]["causes"].is_null()), (409, true), "{}", stale.text());
    // What is made anew, also by apply, compares with nothing.
    it.taken("DELETE", &one, JSON, &json!({}));
    let anew = it.taken("PATCH", &apply, APPLY, &inventory("web.edge-1", 1));
    assert_eq!(anew["spec"]["writer"]["epoch"], 1);
}

#[test]
fn sc12_no_verb_sets_changes_or_removes_the_shard_label() {
    let it = Fixture::start();
    let wanted = shard_of("default", "edge-1", convoy_shard::DEFAULT_SHARD_COUNT).to_string();
    let mut sent = release("web", "edge-1");
    sent["metadata"]["labels"] = json!({SHARD: "99", "team": "a"});
    let created = it.taken("POST", &format!("{RELEASES}?fieldManager=me"), JSON, &sent);
    assert_eq!(label(&created), Some(wanted.as_str()));
    let one = format!("{RELEASES}/web");
    let apply = |manager: &str| format!("{one}?fieldManager={manager}");
    let mut bare = created;
    bare["metadata"].as_object_mut().unwrap().remove("labels");
    let writes = [
        ("PUT", one.clone(), JSON, bare),
        ("PATCH", one.clone(), MERGE, json!({"metadata": {"labels": {SHARD: null}}})),
        ("PATCH", one.clone(), MERGE, json!({"metadata": {"labels": null}})),
        ("PATCH", one.clone(), MERGE, json!({"metadata": {"labels": {SHARD: "7", "x": "y"}}})),
        ("PATCH", one.clone(), JSON_PATCH, json!([{"op": "remove", "path": "/metadata/labels"}])),
        ("PATCH", format!("{one}/status"), MERGE, json!({"metadata": {"labels": {SHARD: "7"}}})),
        // Two managers that both apply the label are in no conflict, for nobody owns it.
        ("PATCH", apply("a"), APPLY, sent.clone()),
        (
            "PATCH",
            apply("b"),
            APPLY,
            json!({"apiVersion": sent["apiVersion"], "kind": "Release",
            "metadata": {"name": "web", "labels": {SHARD: "8"}}}),
        ),
        (
            "PATCH",
            apply("b"),
            APPLY,
            json!({"apiVersion": sent["apiVersion"], "kind": "Release",
            "metadata": {"name": "web"}}),
        ),
    ];
    for (verb, path, content_type, body) in writes {
        let written = it.taken(verb, &path, content_type, &body);
        assert_eq!(label(&written), Some(wanted.as_str()), "{verb} {path} {body}");
        let managed = written["metadata"]["managedFields"].to_string();
        assert!(!managed.contains(SHARD), "{verb} {path}: {managed}");
    }
    // It follows the Cluster.
    let moved = it.taken("PATCH", &one, MERGE, &json!({"spec": {"clusterRef": {"name": "edge-2"}}}));
    assert_eq!(label(&moved), Some(of("edge-2", 32).as_str()));
}

fn of(name: &str, shards: u32) -> String {
    shard_of("default", name, NonZeroU32::new(shards).unwrap()).to_string()
}

/// Repairs the labels of what `it` serves and answers how many that were.
fn repair(it: &Fixture, shards: u32) -> usize {
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let registry = Arc::clone(&it.plane.registry);
    let labels = ShardLabels::new(registry, NonZeroU32::new(shards).unwrap(), clock, &it.plane.metrics);
    it.runtime.block_on(labels.pass()).unwrap()
}

#[test]
fn sc45_sc13_labels_of_another_number_of_shards_are_put_right_and_scoped_watches_see_it() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    // A name whose shard differs between the two numbers.
    let cluster = (0..).map(|n| format!("edge-{n}")).find(|name| of(name, 32) != of(name, 64)).unwrap();
    let before = Fixture::start_with(Setup { storage: Arc::clone(&storage), ..Setup::default() });
    before.taken("POST", RELEASES, JSON, &release("web", &cluster));
    let spec = json!({"inCluster": true});
    before.taken("POST", CLUSTERS, JSON, &json!({"metadata": {"name": cluster}, "spec": spec}));
    before.taken("POST", INVENTORIES, JSON, &inventory("web.edge-1", 1));
    assert_eq!(repair(&before, 32), 0);
    // One that was stored before there were labels.
    let table = before.plane.registry.table();
    let releases = table.find("convoy.kumodo.io", "v1alpha1", "releases").unwrap();
    before.taken("POST", RELEASES, JSON, &release("old", &cluster));
    before.runtime.block_on(async {
        let registry = &before.plane.registry;
        let all = registry.list(&releases, None, &ListOptions::default()).await.unwrap().entries;
        let old = all.iter().find(|entry| entry.name() == "old").unwrap();
        assert!(registry.repair(old, |object| object.set_label(SHARD, None)).await.unwrap());
        before.plane.server.stop(Duration::ZERO, Duration::from_secs(10)).await;
    });

    let shards = NonZeroU32::new(64).unwrap();
    let it = Fixture::start_with(Setup { storage, shards, ..Setup::default() });
    let list = it.get(RELEASES).json();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let metric = |text: &str| it.get("/metrics").text().lines().any(|line| line == text);
    let expected = 3 + usize::from(of("edge-1", 32) != of("edge-1", 64));
    assert_eq!(repair(&it, 64), expected);
    assert!(metric("convoy_shard_label_repairs_total{resource=\"releases\"} 2"));
    assert!(metric("convoy_shard_label_repairs_total{resource=\"gitrepositories\"} 0"));
    assert!(metric("convoy_shard_label_repair_failures_total{resource=\"releases\"} 0"));
    assert_eq!(repair(&it, 64), 0, "a second look finds nothing to do");
    for path in [format!("{RELEASES}/web"), format!("{RELEASES}/old"), format!("{CLUSTERS}/{cluster}")] {
        let object = it.get(&path).json();
        assert_eq!(label(&object), Some(of(&cluster, 64).as_str()), "{path}");
        assert_eq!(object["metadata"]["generation"], 1, "{path}");
    }
    let watch = |shard: &str| {
        let query =
            format!("watch=1&resourceVersion={from}&timeoutSeconds=1&labelSelector={SHARD}%3D{shard}");
        let seen = frames(&it.get(&format!("{RELEASES}?{query}")));
        let mut seen: Vec<String> = seen
            .iter()
            .map(|event| {
                format!("{} {}", event["type"], event["object"]["metadata"]["name"]).replace('"', "")
            })
            .collect();
        seen.sort();
        seen
    };
    assert_eq!(watch(&of(&cluster, 32)), ["DELETED web"]);
    assert_eq!(watch(&of(&cluster, 64)), ["ADDED old", "ADDED web"]);
}

#[test]
fn i12_a_release_that_no_controller_looks_at_stops_saying_that_it_is_ready() {
    let clock = ManualClock::at(jiff::Timestamp::now());
    let now = clock.clone();
    let it = Fixture::start_with(Setup { now: Arc::new(move || now.now()), ..Setup::default() });
    let missing = Arc::new(OverdueLooks::new(
        Looker::ControllerManager,
        Arc::clone(&it.plane.registry),
        Arc::new(clock.clone()),
        &it.plane.metrics,
    ));
    let task = keep_running("missing", Arc::new(clock.clone()), move || Arc::clone(&missing).run());
    it.runtime.spawn(task);
    it.taken("POST", RELEASES, JSON, &release("web", "edge-1"));
    it.taken("POST", RELEASES, JSON, &release("held", "edge-1"));
    let look = |name: &str| {
        let time = clock.now();
        let body = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": name},
            "status": {
                "controller": {"replica": "cm-1", "shard": 3, "epoch": 5, "lastLookTime": time.to_string()},
                "conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "all well",
                    "lastTransitionTime": time.to_string()}]}});
        let path = format!("{RELEASES}/{name}/status?fieldManager=convoy-controller-manager&force=true");
        it.taken("PATCH", &path, APPLY, &body)
    };
    look("held");
    it.taken("PATCH", &format!("{RELEASES}/held"), MERGE, &json!({"spec": {"suspend": true}}));
    let ready = |name: &str| it.get(&format!("{RELEASES}/{name}")).json()["status"]["conditions"][0].clone();
    // Twice, so that a look after it was missed counts anew.
    for _ in 0..2 {
        look("web");
        assert_eq!(ready("web")["status"], "True");
        let deadline = Instant::now() + Duration::from_secs(20);
        while ready("web")["status"] != "Unknown" {
            assert!(Instant::now() < deadline, "it is {}", ready("web"));
            // In small steps: a clock that jumps is an API server that hung, which gives time to look first.
            clock.advance(Duration::from_secs(1));
        }
        let said = ready("web");
        assert_eq!(said["reason"], "ControllerMissing");
        let message = said["message"].as_str().unwrap();
        assert!(message.contains("cm-1 did last, ") && message.contains(" ago"), "{message}");
        let managed = it.get(&format!("{RELEASES}/web")).json()["metadata"]["managedFields"].clone();
        let by_us = managed.as_array().unwrap().iter().find(|entry| entry["manager"] == "convoy-apiserver");
        assert_eq!(by_us.unwrap()["subresource"], "status");
    }
    assert_eq!(ready("held")["status"], "True", "what is suspended is left alone");
    assert!(it.get("/metrics").text().contains("\nconvoy_releases_without_controller_total 2\n"));
    let back = look("web");
    assert_eq!(back["status"]["conditions"][0]["status"], "True");
    assert!(!back["metadata"]["managedFields"].to_string().contains("convoy-apiserver"));
}

#[test]
fn i12_what_an_observer_said_is_not_known_any_more_when_none_looks_and_the_column_shows_it() {
    let clock = ManualClock::at(jiff::Timestamp::now());
    let now = clock.clone();
    let it = Fixture::start_with(Setup { now: Arc::new(move || now.now()), ..Setup::default() });
    let overdue = OverdueLooks::new(
        Looker::Observer,
        Arc::clone(&it.plane.registry),
        Arc::new(clock.clone()),
        &it.plane.metrics,
    );
    let overdue = Arc::new(overdue);
    it.runtime.spawn(keep_running("overdue", Arc::new(clock.clone()), move || Arc::clone(&overdue).run()));
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": clock.now().to_string()})
    };
    let look = |name: &str, drifted: &str| {
        let body = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": name},
            "status": {
                "observer": {"replica": "obs-1", "shard": 3, "epoch": 5, "lastLookTime": clock.now().to_string()},
                "conditions": [condition("Healthy", "True", "Healthy"), condition("Drifted", drifted, "Said")]}});
        let path = format!("{RELEASES}/{name}/status?fieldManager=convoy-observer&force=true");
        it.taken("PATCH", &path, APPLY, &body)
    };
    for name in ["web", "half"] {
        it.taken("POST", RELEASES, JSON, &release(name, "edge-1"));
    }
    let ready = json!({"status": {"conditions": [condition("Ready", "True", "Succeeded")]}});
    let path = format!("{RELEASES}/web/status?fieldManager=convoy-controller-manager&force=true");
    let body = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": "web"},
        "status": ready["status"]});
    it.taken("PATCH", &path, APPLY, &body);
    let of = |name: &str, type_: &str| {
        let all = it.get(&format!("{RELEASES}/{name}")).json()["status"]["conditions"].take();
        all.as_array().unwrap().iter().find(|condition| condition["type"] == type_).unwrap().clone()
    };
    // Twice, so that a look after it was missed counts anew.
    for _ in 0..2 {
        look("web", "False");
        look("half", "Unknown");
        assert_eq!(of("web", "Healthy")["status"], "True");
        let deadline = Instant::now() + Duration::from_secs(20);
        while ["web", "half"].iter().any(|name| of(name, "Healthy")["status"] != "Unknown") {
            assert!(Instant::now() < deadline, "it is {}", of("web", "Healthy"));
            // In small steps: a clock that jumps is an API server that hung, which gives time to look first.
            clock.advance(Duration::from_secs(1));
        }
        for (type_, was) in
            [("Healthy", "Healthy was True (Healthy)"), ("Drifted", "Drifted was False (Said)")]
        {
            let said = of("web", type_);
            assert_eq!((&said["status"], &said["reason"]), (&json!("Unknown"), &json!("ObserverMissing")));
            let message = said["message"].as_str().unwrap();
            assert!(message.contains("obs-1 did last, ") && message.ends_with(was), "{message}");
        }
        assert_eq!(of("half", "Drifted")["reason"], "Said", "what was not known needs no other word");
        assert_eq!(of("web", "Ready")["status"], "True", "it is another's word");
    }
    let table = it.get_as(RELEASES, "application/json;as=Table;v=v1;g=meta.k8s.io").json();
    let columns = table["columnDefinitions"].as_array().unwrap();
    for (name, cell) in [("Ready", "True"), ("Healthy", "Unknown"), ("Drifted", "Unknown")] {
        let at = columns.iter().position(|column| column["name"] == name).unwrap();
        let row = table["rows"].as_array().unwrap().iter().find(|row| row["cells"][0] == "web").unwrap();
        assert_eq!(row["cells"][at], cell, "{name}");
    }
    assert!(it.get("/metrics").text().contains("\nconvoy_releases_without_observer_total 4\n"));
    let back = look("web", "False");
    assert!(!back["metadata"]["managedFields"].to_string().contains("convoy-apiserver"));
}

#[test]
fn sc14_the_server_says_how_many_shards_it_counts_to_whom_may_read_it_and_lets_nobody_write_it() {
    const SHARDINGS: &str = "/apis/convoy.kumodo.io/v1alpha1/shardings";
    let it = Fixture::start_with(Setup { shards: NonZeroU32::new(7).unwrap(), ..Setup::default() });
    let one = format!("{SHARDINGS}/convoy");
    let said = it.get(&one).json();
    assert_eq!(
        (said["kind"].as_str(), said["status"]["shards"].as_u64()),
        (Some("Sharding"), Some(7)),
        "{said}"
    );
    let all = it.get(SHARDINGS).json();
    assert_eq!(all["kind"], "ShardingList");
    assert_eq!(all["items"], json!([said]), "{all}");
    let none = it.get(&format!("{SHARDINGS}?fieldSelector=metadata.name%3Dother")).json();
    assert_eq!(none["items"], json!([]));
    let table = it.get_as(SHARDINGS, "application/json;as=Table;v=v1;g=meta.k8s.io").json();
    assert_eq!(table["rows"][0]["cells"], json!(["convoy", 7]), "{table}");
    assert_eq!(it.get(&format!("{SHARDINGS}/other")).status, 404);
    assert_eq!(it.nobody.get(&one).unwrap().status, 403);
    for (method, path) in [("POST", SHARDINGS), ("PUT", &one), ("DELETE", &one)] {
        assert_eq!(it.send(method, path, JSON, &said).status, 405, "{method}");
    }
    let served = it.get("/apis/convoy.kumodo.io/v1alpha1").json();
    let named = |resource: &&Value| resource["name"] == "shardings";
    let resource = served["resources"].as_array().unwrap().iter().find(named).unwrap();
    assert_eq!((&resource["namespaced"], &resource["verbs"]), (&json!(false), &json!(["get", "list"])));
}

#[test]
fn who_asks_for_another_shard_label_is_told_that_the_server_writes_it() {
    let it = Fixture::start();
    let one = format!("{RELEASES}/web");
    let warnings = |answer: &Response| -> Vec<String> {
        assert!((200..300).contains(&answer.status), "{}", answer.text());
        let warning =
            |(name, value): &(String, String)| name.eq_ignore_ascii_case("warning").then(|| value.clone());
        answer.headers.iter().filter_map(warning).collect()
    };
    // The shard of default/prod-eu is 15 of 32.
    let told = |asked: &str| {
        format!(
            r#"299 - "metadata.labels[convoy.kumodo.io/shard] is written by the API server alone: {asked} was not taken, it is \"15\"""#
        )
    };
    let labelled = |shard: &str| {
        let mut object = release("web", "prod-eu");
        object["metadata"]["labels"] = json!({SHARD: shard});
        object
    };
    let three = told(r#"\"3\""#);
    let created = it.send("POST", RELEASES, JSON, &labelled("3"));
    assert_eq!(warnings(&created), [three.as_str()]);
    let label = |shard: Value| json!({"metadata": {"labels": {SHARD: shard}}});
    let merged = it.send("PATCH", &one, MERGE, &label(json!("3")));
    assert_eq!(warnings(&merged), [three.as_str()]);
    let removed = it.send("PATCH", &one, MERGE, &label(Value::Null));
    assert_eq!(warnings(&removed), [told("its removal")]);
    assert_eq!(removed.json()["metadata"]["labels"][SHARD], "15");
    let apply = format!("{one}?fieldManager=a&force=true");
    assert_eq!(warnings(&it.send("PATCH", &apply, APPLY, &labelled("3"))), [three.as_str()]);
    let fresh = format!("{RELEASES}/web-2?fieldManager=a");
    let mut applied = labelled("3");
    applied["metadata"]["name"] = json!("web-2");
    assert_eq!(warnings(&it.send("PATCH", &fresh, APPLY, &applied)), [three.as_str()]);
    let mut replaced = created.json();
    replaced["metadata"]["labels"][SHARD] = json!("3");
    replaced["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let current = it.get(&one).json();
    replaced["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
    assert_eq!(warnings(&it.send("PUT", &one, JSON, &replaced)), [three.as_str()]);
    // Who does not ask is told nothing.
    let none: [&str; 0] = [];
    let mut without = it.get(&one).json();
    without["metadata"].as_object_mut().unwrap().remove("labels");
    assert_eq!(warnings(&it.send("PUT", &one, JSON, &without)), none);
    let other = json!({"metadata": {"labels": {"team": "a"}}});
    assert_eq!(warnings(&it.send("PATCH", &one, MERGE, &other)), none);
    assert_eq!(warnings(&it.send("PATCH", &apply, APPLY, &release("web", "prod-eu"))), none);
    let status = json!({"status": {"controller": writer(15, 1)}});
    assert_eq!(warnings(&it.send("PATCH", &format!("{one}/status"), MERGE, &status)), none);
}

#[test]
fn i5_what_the_documentation_says_to_clear_lets_epochs_begin_anew() {
    let it = Fixture::start();
    let (one, last) = (format!("{RELEASES}/web/status"), i64::from(i32::MAX));
    it.taken("POST", RELEASES, JSON, &release("web", "edge-1"));
    let status = |part: &str, writer: Value| json!({"status": {part: writer}});
    for part in ["controller", "observer"] {
        it.taken("PATCH", &one, MERGE, &status(part, writer(3, last)));
        assert_eq!(it.send("PATCH", &one, MERGE, &status(part, writer(3, 0))).status, 409);
        it.taken("PATCH", &one, MERGE, &status(part, Value::Null));
        it.taken("PATCH", &one, MERGE, &status(part, writer(3, 0)));
    }
    it.taken("POST", INVENTORIES, JSON, &inventory("web", last));
    let part = format!("{INVENTORIES}/web");
    let spec = |writer: Value| json!({"spec": {"writer": writer}});
    assert_eq!(it.send("PATCH", &part, MERGE, &spec(writer(3, 0))).status, 409);
    it.taken("PATCH", &part, MERGE, &spec(Value::Null));
    it.taken("PATCH", &part, MERGE, &spec(writer(3, 0)));
}
