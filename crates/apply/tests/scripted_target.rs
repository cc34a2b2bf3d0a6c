//! Plans carried out on a target whose answers are written down here.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use convoy_apply::{
    AlwaysOwn, ApplyOptions, Class, NotOwner, Ownership, PruneNote, PruneOptions, Report, Target,
    WritePermit, apply_waves, prune,
};
use convoy_plan::{
    Entry, Fate, Input, Kinds, LateWrites, LeftAlone, ObjectKey, Plan, Policy, Prune, ReleaseId, Rendered,
    plan, stage_of,
};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

type Answers = Vec<(u16, Value)>;

/// Answers of a target by `METHOD path`, each used up in turn, the last one for ever; and all that was
/// asked, with the body.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<BTreeMap<String, Answers>>>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Script {
    fn on(self, request: &str, code: u16, body: Value) -> Self {
        self.answers.lock().entry(request.to_owned()).or_default().push((code, body));
        self
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().iter().map(|(request, _)| request.clone()).collect()
    }

    fn target(&self, ownership: Arc<dyn Ownership>) -> Target {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            async move {
                let name = format!("{} {}", request.method(), request.uri().path());
                let body = request.into_body().collect().await.unwrap().to_bytes();
                script.asked.lock().push((name.clone(), serde_json::from_slice(&body).unwrap_or_default()));
                let mut answers = script.answers.lock();
                let of_it = answers.entry(name).or_default();
                let (code, body) = match of_it.len() {
                    0 => (404, status("nothing is written down for this")),
                    1 => of_it[0].clone(),
                    _ => of_it.remove(0),
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Target::new(kube::Client::new(service, "default"), ownership)
    }
}

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    kinds.insert("", "v1", "ConfigMap", "configmaps", true);
    kinds.insert("", "v1", "Namespace", "namespaces", false);
    kinds
}

fn key(kind: &str, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { group: String::new(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
}

/// A plan that applies a Namespace (when asked for) and ConfigMaps.
fn plan_of(create_namespace: bool, maps: &[(&str, &str)]) -> Plan {
    plan_after(&[], create_namespace, maps)
}

/// The same on an inventory.
fn plan_after(inventory: &[Entry], create_namespace: bool, maps: &[(&str, &str)]) -> Plan {
    let rendered: Vec<Rendered> = maps
        .iter()
        .map(|(namespace, name)| Rendered {
            source: format!("{name}.yaml"),
            object: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}),
            early: false,
        })
        .collect();
    plan(&Input {
        release: &ReleaseId { uid: "r".into(), namespace: "team".into(), name: "web".into() },
        rendered: &rendered,
        hooks: &[],
        inventory,
        kinds: &kinds(),
        policy: &Policy { target_namespace: Some("web".into()), create_namespace, ..Policy::default() },
        live: &BTreeMap::new(),
        is_begun: false,
    })
    .unwrap()
}

const OPTIONS: ApplyOptions = ApplyOptions {
    force: true,
    establish_patience: Duration::ZERO,
    recreate_patience: Duration::from_secs(5),
};

async fn carry_out(script: &Script, plan: &Plan) -> Report {
    apply_waves(&script.target(Arc::new(AlwaysOwn)), plan, &OPTIONS).await
}

fn taken() -> Value {
    json!({"metadata": {"uid": "u", "resourceVersion": "7"}})
}

fn status(message: &str) -> Value {
    json!({"kind": "Status", "message": message})
}

const MAPS: &str = "/api/v1/namespaces/web/configmaps";

#[derive(Debug)]
struct Lost;

impl Ownership for Lost {
    fn shard(&self) -> u32 {
        7
    }

    fn epoch(&self) -> u64 {
        1
    }

    fn check(&self) -> Result<(), NotOwner> {
        Err(NotOwner { shard: 7 })
    }

    fn begin(&self) -> Result<WritePermit, NotOwner> {
        Err(NotOwner { shard: 7 })
    }

    fn lost<'a>(&'a self) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn a_replica_that_lost_the_cluster_sends_no_write_and_says_so() {
    let script = Script::default();
    let target = script.target(Arc::new(Lost));
    let report = apply_waves(&target, &plan_of(false, &[("web", "a"), ("web", "b")]), &OPTIONS).await;
    assert_eq!(report.failures[0].error.class, Class::NotOwner);
    assert_eq!((report.failures.len(), report.not_tried), (1, 1));
    assert_eq!(script.asked(), Vec::<String>::new());
    assert_eq!(target.requests().writes(), 0);
}

/// The value that an ignored field has when it is written is the one that it had when it was looked at: what another
/// writes in between is a conflict, and it is looked at again.
#[tokio::test]
async fn what_is_left_alone_is_sent_as_it_is_and_never_as_it_was() {
    let live = |version: &str, value: &str| {
        let managers = json!([{
            "manager": "convoy", "operation": "Apply", "fieldsV1": {"f:data": {"f:left": {}}},
        }]);
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"left": value},
            "metadata": {"name": "a", "namespace": "web", "uid": "u", "resourceVersion": version, "managedFields": managers},
        })
    };
    let at = format!("{MAPS}/a");
    let script = Script::default()
        .on(&format!("GET {at}"), 200, live("7", "first"))
        .on(&format!("GET {at}"), 200, live("8", "second"))
        .on(&format!("PATCH {at}"), 409, status("the object has been modified"))
        .on(&format!("PATCH {at}"), 200, taken());
    let mut plan = plan_after(&[entry_of(key("ConfigMap", "web", "a"), true)], false, &[("web", "a")]);
    let rule = convoy_api::IgnoreRule { paths: vec!["/data/left".to_owned()], ..Default::default() };
    let apply = &mut plan.waves[0].applies[0];
    apply.object["data"] = json!({"left": "of the source", "own": "1"});
    apply.left = LeftAlone::of(&[rule], &apply.target.key, &BTreeMap::new());
    let report = carry_out(&script, &plan).await;
    assert!(report.is_success(), "{report:?}");
    assert_eq!(script.asked(), ["GET", "PATCH", "GET", "PATCH"].map(|verb| format!("{verb} {at}")));
    let sent: Vec<Value> = script.asked.lock().iter().map(|(_, body)| body.clone()).collect();
    for (body, version, value) in [(&sent[1], "7", "first"), (&sent[3], "8", "second")] {
        assert_eq!(body["data"], json!({"left": value, "own": "1"}));
        assert_eq!(
            (&body["metadata"]["resourceVersion"], &body["metadata"]["uid"]),
            (&json!(version), &json!("u"))
        );
    }
}

#[tokio::test]
async fn an_object_that_is_refused_holds_back_no_other() {
    let immutable = "ConfigMap \"b\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
    let script = Script::default()
        .on(&format!("PATCH {MAPS}/a"), 201, taken())
        .on(&format!("PATCH {MAPS}/b"), 422, status(immutable))
        .on(&format!("PATCH {MAPS}/c"), 200, taken());
    let report = carry_out(&script, &plan_of(false, &[("web", "a"), ("web", "b"), ("web", "c")])).await;
    assert!(matches!(report.fates[&key("ConfigMap", "web", "a")], Fate::Applied { created: true, .. }));
    assert!(matches!(report.fates[&key("ConfigMap", "web", "c")], Fate::Applied { created: false, .. }));
    assert_eq!(report.failures[0].source, "b.yaml");
    assert!(report.is_terminal() && report.not_tried == 0);
}

#[tokio::test]
async fn what_needs_a_namespace_that_was_refused_is_not_tried() {
    let script = Script::default()
        .on("POST /api/v1/namespaces", 403, status("admission webhook \"w\" denied the request: no"))
        .on("PATCH /api/v1/namespaces/other/configmaps/b", 201, taken());
    let report = carry_out(&script, &plan_of(true, &[("web", "a"), ("other", "b")])).await;
    assert_eq!(report.failures[0].error.class, Class::Denied);
    assert_eq!(report.not_tried, 1);
    assert_eq!(script.asked(), ["POST /api/v1/namespaces", "PATCH /api/v1/namespaces/other/configmaps/b"]);
}

/// An earlier request without an answer may have made it: then it is the Release's own, which a look says.
#[tokio::test]
async fn a_namespace_that_appears_when_it_was_begun_before_is_not_taken_for_anothers() {
    let namespace = key("Namespace", "", "web");
    let script =
        Script::default().on("POST /api/v1/namespaces", 409, status("namespaces \"web\" already exists"));
    let begun = Entry { uid: String::new(), digest: String::new(), ..entry_of(namespace.clone(), false) };
    let report = carry_out(&script, &plan_after(&[begun], true, &[("web", "a")])).await;
    assert_eq!(report.failures[0].error.class, Class::Precondition);
    assert_ne!(report.fates.get(&namespace), Some(&Fate::Forgotten));
    assert_eq!((report.not_tried, script.asked()), (1, vec!["POST /api/v1/namespaces".to_owned()]));
}

#[tokio::test]
async fn a_shared_namespace_that_another_made_meanwhile_is_theirs() {
    let script = Script::default()
        .on("POST /api/v1/namespaces", 409, status("namespaces \"web\" already exists"))
        .on(&format!("PATCH {MAPS}/a"), 201, taken());
    let report = carry_out(&script, &plan_of(true, &[("web", "a")])).await;
    assert!(report.is_success(), "{report:?}");
    assert_eq!(report.fates[&key("Namespace", "", "web")], Fate::Forgotten);
}

#[tokio::test]
async fn a_release_that_is_forbidden_altogether_is_tried_with_one_object_only() {
    let forbidden = status("configmaps \"a\" is forbidden: User \"u\" cannot patch resource \"configmaps\"");
    let script = Script::default().on(&format!("PATCH {MAPS}/a"), 403, forbidden);
    let report = carry_out(&script, &plan_of(false, &[("web", "a"), ("web", "b"), ("web", "c")])).await;
    assert_eq!((script.asked().len(), report.not_tried), (1, 2));
}

/// The entry of an object that was applied under the uid `u`, with other content.
fn entry_of(key: ObjectKey, created: bool) -> Entry {
    Entry {
        version: "v1".into(),
        uid: "u".into(),
        digest: "d".into(),
        stage: stage_of(&key.group, &key.kind),
        key,
        resource_version: "1".into(),
        created,
        unanswered: false,
        gone: false,
        wave: 0,
        hook: false,
    }
}

#[tokio::test]
async fn an_apply_names_the_uid_that_is_known_and_another_there_is_no_failure_of_the_rest() {
    let message = "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid u, \
                   and no existing object was found";
    let script = Script::default().on(&format!("PATCH {MAPS}/a"), 409, status(message)).on(
        &format!("PATCH {MAPS}/b"),
        201,
        taken(),
    );
    let entry = entry_of(key("ConfigMap", "web", "a"), true);
    let plan = plan_after(std::slice::from_ref(&entry), false, &[("web", "a"), ("web", "b")]);
    let report = carry_out(&script, &plan).await;
    let uids: Vec<Value> =
        script.asked.lock().iter().map(|(_, body)| body["metadata"]["uid"].clone()).collect();
    assert_eq!(uids, [json!("u"), Value::Null]);
    assert!(report.has_gone() && !report.is_success() && !report.is_terminal());
    assert_eq!(report.fates[&entry.key], Fate::Gone);
    let after = plan.settle(&[entry], &report.fates, LateWrites::Over);
    assert_eq!(after.iter().map(|entry| entry.uid.as_str()).collect::<Vec<_>>(), ["", "u"]);
    assert!(after.iter().all(|entry| !entry.unanswered), "nothing of it can come late");
}

#[tokio::test]
async fn only_what_may_have_been_written_without_an_answer_can_come_late() {
    for (code, is_unanswered) in
        [(401, false), (403, false), (409, false), (422, false), (429, false), (500, true), (504, true)]
    {
        let script = Script::default().on(&format!("PATCH {MAPS}/a"), code, status("no")).on(
            &format!("PATCH {MAPS}/b"),
            201,
            taken(),
        );
        let plan = plan_of(false, &[("web", "a"), ("web", "b")]);
        let report = carry_out(&script, &plan).await;
        let after = plan.settle(&[], &report.fates, LateWrites::Over);
        let unanswered: Vec<bool> = after.iter().map(|entry| entry.unanswered).collect();
        assert_eq!(unanswered, [is_unanswered, false], "{code}: {report:?}");
    }
}

/// The plan that changes an object that has an annotation.
fn change_of(at: ObjectKey, annotation: &str, value: &str) -> Plan {
    let mut metadata = json!({"name": at.name, "annotations": { annotation: value }});
    if !at.namespace.is_empty() {
        metadata["namespace"] = at.namespace.clone().into();
    }
    let object = json!({"apiVersion": "v1", "kind": at.kind, "metadata": metadata});
    plan(&Input {
        release: &ReleaseId { uid: "r".into(), namespace: "team".into(), name: "web".into() },
        rendered: &[Rendered { source: "a.yaml".into(), object, early: false }],
        hooks: &[],
        inventory: &[entry_of(at, true)],
        kinds: &kinds(),
        policy: &Policy::default(),
        live: &BTreeMap::new(),
        is_begun: false,
    })
    .unwrap()
}

const REPLACE: (&str, &str) = ("convoy.kumodo.io/replace", "Allowed");
const IMMUTABLE: &str =
    "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set";

#[tokio::test]
async fn an_object_that_cannot_be_changed_is_made_anew_when_that_is_allowed() {
    let at = format!("{MAPS}/a");
    let gone = status("configmaps \"a\" not found");
    let script = Script::default()
        .on(&format!("PATCH {at}"), 422, status(IMMUTABLE))
        .on(&format!("PATCH {at}"), 201, taken())
        .on(&format!("GET {at}"), 200, live(|_| {}))
        // Its finalizers take a while.
        .on(
            &format!("GET {at}"),
            200,
            live(|metadata| metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
        )
        .on(&format!("GET {at}"), 404, gone)
        .on(&format!("DELETE {at}"), 200, json!({}));
    let plan = change_of(key("ConfigMap", "web", "a"), REPLACE.0, REPLACE.1);
    let report = carry_out(&script, &plan).await;
    assert!(report.is_success(), "{report:?}");
    let [patch, get, delete, again, last, anew] = script.asked.lock().clone().try_into().unwrap();
    assert_eq!(patch.1["metadata"]["uid"], "u");
    assert_eq!([&get.0, &again.0, &last.0].map(|name| name.starts_with("GET")), [true; 3]);
    assert_eq!(delete.1["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
    assert_eq!((anew.0.as_str(), &anew.1["metadata"]["uid"]), (format!("PATCH {at}").as_str(), &Value::Null));
}

#[tokio::test]
async fn nothing_is_deleted_to_be_made_anew_without_a_word_or_with_what_is_in_it() {
    let plan = change_of(key("ConfigMap", "web", "a"), "x", "y");
    let script = Script::default().on(&format!("PATCH {MAPS}/a"), 422, status(IMMUTABLE));
    assert!(carry_out(&script, &plan).await.is_terminal());
    assert_eq!(script.asked().len(), 1);

    let plan = change_of(key("Namespace", "", "web"), REPLACE.0, REPLACE.1);
    let script = Script::default().on("PATCH /api/v1/namespaces/web", 422, status(IMMUTABLE));
    assert!(carry_out(&script, &plan).await.is_terminal());
    assert_eq!(script.asked().len(), 1);

    // Another one than was applied.
    let plan = change_of(key("ConfigMap", "web", "a"), REPLACE.0, REPLACE.1);
    let script = Script::default().on(&format!("PATCH {MAPS}/a"), 422, status(IMMUTABLE)).on(
        &format!("GET {MAPS}/a"),
        200,
        live(|metadata| metadata["uid"] = json!("another")),
    );
    assert!(carry_out(&script, &plan).await.has_gone());
    assert_eq!(script.asked().len(), 2);
}

#[tokio::test]
async fn an_object_that_is_replaced_is_replaced_as_it_was_seen_and_then_owned() {
    let at = format!("{MAPS}/a");
    let script = Script::default()
        .on(&format!("GET {at}"), 200, live(|_| {}))
        .on(&format!("GET {at}"), 200, live(|metadata| metadata["resourceVersion"] = json!("8")))
        .on(&format!("PUT {at}"), 409, status("the object has been modified"))
        .on(&format!("PUT {at}"), 200, taken())
        .on(&format!("PATCH {at}"), 200, taken());
    let plan = change_of(key("ConfigMap", "web", "a"), "convoy.kumodo.io/apply", "Replace");
    let report = carry_out(&script, &plan).await;
    assert!(report.is_success(), "{report:?}");
    let asked = script.asked.lock();
    let puts = asked.iter().filter(|(name, _)| name.starts_with("PUT"));
    let seen: Vec<(Value, Value)> = puts
        .map(|(_, body)| (body["metadata"]["uid"].clone(), body["metadata"]["resourceVersion"].clone()))
        .collect();
    assert_eq!(seen, [(json!("u"), json!("7")), (json!("u"), json!("8"))]);
    assert!(asked.last().is_some_and(|(name, _)| name.starts_with("PATCH")));
}

/// The prune of one object that was applied under the uid `u`.
fn prune_of(kind: &str, namespace: &str, name: &str, created: bool) -> Vec<Prune> {
    let group = if kind == "Widget" { "example.com" } else { "" };
    let entry = entry_of(ObjectKey { group: group.into(), ..key(kind, namespace, name) }, created);
    Plan::for_deletion(&[entry], &kinds(), LateWrites::Over).prunes
}

async fn pruned(script: &Script, prunes: &[Prune]) -> (Report, Vec<PruneNote>) {
    let target = script.target(Arc::new(AlwaysOwn));
    let (report, notes) = prune(&target, prunes, &PruneOptions { release_uid: "r" }).await;
    (report, notes.into_iter().map(|(_, note)| note).collect())
}

/// The answer to a look at an object of ours.
fn live(change: impl FnOnce(&mut Value)) -> Value {
    let labels = json!({"convoy.kumodo.io/release-uid": "r"});
    let mut live = json!({"metadata": {"uid": "u", "resourceVersion": "7", "labels": labels}});
    change(&mut live["metadata"]);
    live
}

#[tokio::test]
async fn a_delete_names_uid_and_version_and_a_refusal_means_to_look_again() {
    let at = format!("{MAPS}/a");
    let script = Script::default()
        .on(&format!("GET {at}"), 200, live(|_| {}))
        .on(&format!("GET {at}"), 200, live(|metadata| metadata["resourceVersion"] = json!("8")))
        .on(
            &format!("DELETE {at}"),
            409,
            status("the ResourceVersion in the precondition (7) does not match"),
        )
        .on(&format!("DELETE {at}"), 200, json!({}));
    let (report, _) = pruned(&script, &prune_of("ConfigMap", "web", "a", true)).await;
    assert!(report.is_success(), "{report:?}");
    let asked = script.asked.lock();
    let deletes = asked.iter().filter(|(name, _)| name.starts_with("DELETE"));
    let preconditions: Vec<Value> = deletes.map(|(_, body)| body["preconditions"].clone()).collect();
    let of = |version| json!({"uid": "u", "resourceVersion": version});
    assert_eq!(preconditions, [of("7"), of("8")]);
}

#[tokio::test]
async fn what_is_not_ours_or_asks_to_stay_is_never_deleted() {
    let others = json!({"convoy.kumodo.io/release-uid": "other"});
    let stay = json!({"convoy.kumodo.io/prune": "Disabled"});
    let table: [(Value, PruneNote); 4] = [
        (live(|metadata| metadata["labels"] = json!({})), PruneNote::NotOurs),
        (live(|metadata| metadata["labels"] = others), PruneNote::NotOurs),
        (live(|metadata| metadata["uid"] = json!("v")), PruneNote::MadeAnew),
        (live(|metadata| metadata["annotations"] = stay), PruneNote::Disabled),
    ];
    for (live, want) in table {
        let script = Script::default().on(&format!("GET {MAPS}/a"), 200, live);
        let (report, notes) = pruned(&script, &prune_of("ConfigMap", "web", "a", true)).await;
        assert_eq!(notes, [want]);
        assert_eq!(report.fates[&key("ConfigMap", "web", "a")], Fate::Forgotten);
        assert_eq!(script.asked(), [format!("GET {MAPS}/a")]);
    }
}

#[tokio::test]
async fn what_goes_already_counts_as_pruned() {
    let going = live(|metadata| metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    for (code, answer) in [(200, going), (404, status("configmaps \"a\" not found"))] {
        let script = Script::default().on(&format!("GET {MAPS}/a"), code, answer);
        let (report, _) = pruned(&script, &prune_of("ConfigMap", "web", "a", true)).await;
        assert_eq!(report.fates[&key("ConfigMap", "web", "a")], Fate::Pruned);
        assert_eq!(script.asked().len(), 1);
    }
}

/// A target that serves ConfigMaps, Pods and these groups.
fn discovery(groups: Value) -> Script {
    let list = |items: Value| json!({"kind": "APIGroupDiscoveryList", "items": items});
    let resource = |plural: &str, kind: &str| json!({"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced"});
    let core = json!([{"metadata": {}, "versions": [
        {"version": "v1", "resources": [resource("configmaps", "ConfigMap"), resource("pods", "Pod")]},
    ]}]);
    Script::default()
        .on("GET /version", 200, json!({"gitVersion": "v1.36.0"}))
        .on("GET /api", 200, list(core))
        .on("GET /apis", 200, list(groups))
}

#[tokio::test]
async fn objects_of_a_kind_that_fresh_discovery_does_not_know_are_gone() {
    let widget = ObjectKey { group: "example.com".into(), ..key("Widget", "web", "w") };
    let (report, _) = pruned(&discovery(json!([])), &prune_of("Widget", "web", "w", true)).await;
    assert_eq!(report.fates[&widget], Fate::Pruned);

    let stale =
        json!([{"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "freshness": "Stale"}]}]);
    let (report, _) = pruned(&discovery(stale), &prune_of("Widget", "web", "w", true)).await;
    assert_eq!(report.failures[0].error.class, Class::Transient, "its server only does not answer");
    assert_eq!(report.fates[&widget], Fate::Failed);
}

#[tokio::test]
async fn a_namespace_goes_only_when_convoy_made_it_and_nothing_of_others_is_in_it() {
    let namespace = "/api/v1/namespaces/web";
    let not_made = pruned(&Script::default(), &prune_of("Namespace", "", "web", false)).await;
    assert_eq!(not_made.1, [PruneNote::Guarded]);

    let own = json!({"metadata": {"name": "root", "labels": {"convoy.kumodo.io/release-uid": "r"}}});
    let by_itself = json!({"metadata": {"name": "kube-root-ca.crt"}});
    let owned = json!({"metadata": {"name": "front-abc", "ownerReferences": [{"name": "front"}]}});
    let foreign = json!({"metadata": {"name": "theirs"}});
    for (pods, want) in [(json!([owned]), vec![]), (json!([owned, foreign]), vec![PruneNote::Guarded])] {
        let script = discovery(json!([]))
            .on(&format!("GET {namespace}"), 200, live(|_| {}))
            .on(&format!("GET {namespace}/configmaps"), 200, json!({"items": [own, by_itself]}))
            .on(&format!("GET {namespace}/pods"), 200, json!({"items": pods}))
            .on(&format!("DELETE {namespace}"), 200, json!({}));
        let (report, notes) = pruned(&script, &prune_of("Namespace", "", "web", true)).await;
        assert_eq!(notes, want, "{report:?}");
        let is_deleted = script.asked().iter().any(|request| request.starts_with("DELETE"));
        assert_eq!(is_deleted, want.is_empty());
    }
}

#[tokio::test]
async fn a_namespace_with_labels_is_applied_after_it_was_created_and_what_fails_of_that_is_done_later() {
    let applied = |code: u16| async move {
        let mut plan = plan_of(true, &[("web", "a")]);
        for apply in plan.waves.iter_mut().flat_map(|wave| &mut wave.applies) {
            apply.take_over |= apply.create_only;
        }
        let script = Script::default()
            .on("POST /api/v1/namespaces", 201, taken())
            .on("GET /api/v1/namespaces/web", 200, taken())
            .on("PATCH /api/v1/namespaces/web", code, taken())
            .on(&format!("PATCH {MAPS}/a"), 201, taken());
        let report = carry_out(&script, &plan).await;
        assert!(report.is_success(), "{:?}", report.failures);
        let asked: Vec<String> =
            script.asked().into_iter().filter(|request| request.contains("namespaces/web")).collect();
        assert_eq!(asked[..2], ["GET /api/v1/namespaces/web", "PATCH /api/v1/namespaces/web"]);
        report.fates[&key("Namespace", "", "web")].clone()
    };
    let Fate::Applied { uid, digest, created, .. } = applied(200).await else { panic!("not applied") };
    assert!(uid == "u" && digest.starts_with("sha256:") && created, "{digest}");
    let Fate::Applied { uid, digest, created, .. } = applied(403).await else { panic!("not applied") };
    assert!(uid == "u" && digest.is_empty() && created, "that convoy created it is known: {digest}");
}

#[tokio::test]
async fn each_request_waits_for_its_turn_before_ownership_is_asked() {
    struct Turns(tokio::sync::Semaphore);
    impl convoy_apply::Pace for Turns {
        fn admitted(&self) -> futures::future::BoxFuture<'_, ()> {
            Box::pin(async { self.0.acquire().await.unwrap().forget() })
        }
    }
    let turns = Arc::new(Turns(tokio::sync::Semaphore::new(1)));
    let script = Script::default().on(&format!("PATCH {MAPS}/a"), 201, taken());
    let target = script.target(Arc::new(AlwaysOwn)).paced(Arc::clone(&turns) as _);
    let plan = plan_of(false, &[("web", "a"), ("web", "b")]);
    let carried_out = tokio::spawn(async move { apply_waves(&target, &plan, &OPTIONS).await });
    while script.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(script.asked().len(), 1, "the other one waits");
    turns.0.add_permits(1);
    carried_out.await.unwrap();
    assert_eq!(script.asked().len(), 2);
}

/// Notes as whom each request is made.
#[derive(Default)]
struct Users(Mutex<Vec<Option<String>>>);

impl convoy_apply::Transport for Users {
    fn send(
        &self,
        request: Request<Body>,
    ) -> futures::future::BoxFuture<'_, Result<Response<bytes::Bytes>, convoy_apply::RequestError>> {
        let user = request.headers().get("impersonate-user").map(|user| user.to_str().unwrap().to_owned());
        self.0.lock().push(user);
        Box::pin(async { Ok(Response::new(bytes::Bytes::from_static(b"{}"))) })
    }
}

#[tokio::test]
async fn every_request_is_made_as_the_service_account() {
    let users = Arc::new(Users::default());
    let plain = Target::over(Arc::clone(&users) as Arc<dyn convoy_apply::Transport>, Arc::new(AlwaysOwn));
    let account = convoy_apply::ServiceAccount { namespace: "team".to_owned(), name: "deployer".to_owned() };
    let target = plain.clone().acting_as(Some(account)).under(Arc::new(AlwaysOwn));
    let at = convoy_plan::ObjectRef {
        key: key("ConfigMap", "web", "a"),
        version: "v1".to_owned(),
        plural: "configmaps".to_owned(),
    };
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "web"}});
    target.apply(&at, &object, true).await.unwrap();
    target.create(&at, &object).await.unwrap();
    target.replace(&at, &object).await.unwrap();
    target.set_managed_fields(&at, "1", &json!([])).await.unwrap();
    let seen = target.metadata(&at).await.unwrap().unwrap();
    target.delete(&at, &seen).await.unwrap();
    target.look(&at).await.unwrap();
    let _ = target.discover().await;
    let made = std::mem::take(&mut *users.0.lock());
    assert!(made.len() >= 8, "{made:?}");
    assert!(
        made.iter().all(|user| user.as_deref() == Some("system:serviceaccount:team:deployer")),
        "{made:?}"
    );
    plain.metadata(&at).await.unwrap();
    assert_eq!(*users.0.lock(), [None]);
}

/// Answers only about the object `well`.
struct Silent;

impl convoy_apply::Transport for Silent {
    fn send(
        &self,
        request: Request<Body>,
    ) -> futures::future::BoxFuture<'_, Result<Response<bytes::Bytes>, convoy_apply::RequestError>> {
        let is_well = request.uri().path().ends_with("/well");
        Box::pin(async move {
            if !is_well {
                std::future::pending::<()>().await;
            }
            Ok(Response::new(bytes::Bytes::from_static(b"{}")))
        })
    }
}

/// Ends for as many requests as there are permits.
struct Impatient(tokio::sync::Semaphore, std::sync::atomic::AtomicBool);

impl convoy_apply::Patience for Impatient {
    fn exhausted(&self) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(async {
            self.0.acquire().await.unwrap().forget();
            self.1.store(true, std::sync::atomic::Ordering::Relaxed);
        })
    }

    fn is_exhausted(&self) -> bool {
        self.1.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[tokio::test]
async fn writes_that_wait_long_leave_their_room_to_others_and_later_ones_of_the_same_work_take_none() {
    let target = Target::over(Arc::new(Silent), Arc::new(AlwaysOwn));
    let patience = Arc::new(Impatient(tokio::sync::Semaphore::new(0), Default::default()));
    let slow = target.clone().with_patience(Arc::clone(&patience) as _);
    let write = |target: &Target, name: String| {
        let key = key("ConfigMap", "web", &name);
        let at = convoy_plan::ObjectRef { key, version: "v1".to_owned(), plural: "configmaps".to_owned() };
        let target = target.clone();
        tokio::spawn(async move { target.apply(&at, &json!({}), true).await.is_ok() })
    };
    let turns = || async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    let mut silent: Vec<_> = (0..16).map(|number| write(&slow, format!("silent-{number}"))).collect();
    turns().await;
    let well = write(&target, "well".to_owned());
    turns().await;
    assert!(!well.is_finished(), "all places are taken");
    patience.0.add_permits(1);
    assert!(well.await.unwrap());
    silent.extend((16..40).map(|number| write(&slow, format!("silent-{number}"))));
    turns().await;
    assert!(write(&target, "well".to_owned()).await.unwrap());
    silent.iter().for_each(tokio::task::JoinHandle::abort);
}
