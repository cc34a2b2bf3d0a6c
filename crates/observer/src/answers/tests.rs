use std::num::NonZeroU32;

use convoy_api::{PreviewChange, PreviewObject};
use convoy_runtime::{OwnedShards, ProcessIdentity, RealClock};
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::bounded::{MOST_BYTES, MOST_OBJECTS};
use super::*;

#[test]
fn only_what_is_told_of_releases_is_asked_for() {
    let base = "/apis/convoy.kumodo.io/v1alpha1/namespaces";
    for (name, wanted) in [
        ("preview", Wanted::Preview),
        ("diff", Wanted::Diff),
        ("history", Wanted::History),
        ("health", Wanted::Health),
    ] {
        let path = format!("{base}/team/releases/web/{name}");
        assert_eq!(asked_for(&path), Some((StoreKey::new("team", "web"), wanted)));
    }
    for path in [
        "/team/releases/web",
        "/team/clusters/web/preview",
        "/team/releases/web/preview/x",
        "/preview",
        "/team/releases/web/status",
    ] {
        assert_eq!(asked_for(&format!("{base}{path}")), None, "{path}");
    }
}

#[test]
fn an_answer_is_bounded_and_says_what_it_leaves_out() {
    let object = |text: &str| PreviewObject { name: text.to_owned(), ..PreviewObject::default() };
    let many = ReleasePreview { objects: vec![object("a"); MOST_OBJECTS + 5], ..ReleasePreview::default() };
    let cut = bounded(many);
    assert_eq!((cut.objects.len(), cut.omitted_objects), (MOST_OBJECTS, 5));
    assert!(cut.remarks[0].starts_with("5 objects were left out"), "{:?}", cut.remarks);
    let change = PreviewChange { after: "x".repeat(100_000), ..PreviewChange::default() };
    let heavy = PreviewObject { changes: vec![change; 100], ..object("a") };
    let cut = bounded(ReleasePreview { objects: vec![heavy], ..ReleasePreview::default() });
    assert_eq!((cut.objects.len(), cut.objects[0].omitted_changes, cut.omitted_objects), (1, 100, 0));
    let cut =
        bounded(ReleasePreview { objects: vec![object(&"x".repeat(MOST_BYTES))], ..Default::default() });
    assert_eq!((cut.objects.len(), cut.omitted_objects), (0, 1));
}

fn elsewhere(name: &str, cluster: &str) -> Release {
    let mut release = release(name, cluster);
    release.spec.cluster_ref.namespace = Some("fleet".to_owned());
    release
}

fn fleet(name: &str, allowed: &Value) -> convoy_api::Cluster {
    let cluster = json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name, "namespace": "fleet"},
        "spec": {"kubeconfig": {"secretRef": {"name": "none"}}, "allowedNamespaces": allowed},
    });
    decode(&cluster).unwrap()
}

fn release(name: &str, cluster: &str) -> Release {
    let release = json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release",
        "metadata": {"name": name, "namespace": "team", "uid": "u"},
        "spec": {"clusterRef": {"name": cluster}, "source": {"git": {"repositoryRef": {"name": "apps"}}}},
    });
    decode(&release).unwrap()
}

const BACKOFF: convoy_runtime::Backoff = convoy_runtime::Backoff {
    first: std::time::Duration::from_secs(1),
    longest: std::time::Duration::from_secs(1),
};

/// An observer with the Release `web` in its cache.
fn observer(shards: Shards, looked: OwnedShards, own: Option<PeerLeases>) -> Answering {
    observer_of(CacheScope::OwnShards, shards, looked, own)
}

fn observer_of(scope: CacheScope, shards: Shards, looked: OwnedShards, own: Option<PeerLeases>) -> Answering {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"a": "b"}}});
        let body = match request.uri().path() {
            "/api/v1/namespaces/team" => Body::from(team.to_string().into_bytes()),
            _ => Body::empty(),
        };
        Ok::<_, std::io::Error>(Response::new(body))
    });
    let stores = Stores {
        releases: Store::of([release("web", "prod")]),
        inventories: Store::of([]),
        clusters: Store::of([
            fleet("closed", &Value::Null),
            fleet("of-others", &json!({"matchLabels": {"a": "c"}})),
            fleet("of-team", &json!({"matchLabels": {"a": "b"}})),
        ]),
        repositories: Store::of([]),
        helm_registries: Store::of([]),
        oci_registries: Store::of([]),
    };
    let identity = ProcessIdentity { process: "observer", replica_id: "obs-0".to_owned() };
    let owned = Owned { shards, looked: LookedShards::of(looked), own, scope };
    let store = RenderStore::in_memory();
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let host = kube::Client::new(service, "default");
    let clusters = Arc::new(Clusters {
        host: host.clone(),
        reach: convoy_runtime::Reach::new(identity.clone(), None),
        clock: Arc::clone(&clock),
        shutdown: convoy_runtime::Shutdown::new(),
        shards: owned.shards.clone(),
        queue: convoy_runtime::WorkQueue::new(BACKOFF, Arc::clone(&clock)),
        statuses: convoy_runtime::WorkQueue::new(BACKOFF, Arc::clone(&clock)),
        releases: convoy_runtime::WorkQueue::new(BACKOFF, Arc::clone(&clock)),
        health: Default::default(),
        state: Default::default(),
    });
    Answering::new(host, identity, stores, store, owned, clusters, clock)
}

async fn asked(observer: &Answering, method: Method, name: &str, body: &Value) -> (u16, Value) {
    asked_about(observer, method, &format!("{name}/preview"), body).await
}

async fn asked_about(observer: &Answering, method: Method, what: &str, body: &Value) -> (u16, Value) {
    let (what, query) = what.split_once('?').unwrap_or((what, ""));
    let path = format!("/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releases/{what}");
    let body = if body.is_null() { Default::default() } else { body.to_string().into() };
    let answer = observer.answer(ProxiedRequest { method, path, query: query.to_owned(), body }).await;
    (answer.code.as_u16(), serde_json::from_slice(&answer.body).unwrap())
}

#[tokio::test]
async fn sc47_sc49_an_observer_answers_from_its_cache_and_names_the_owner() {
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let count = NonZeroU32::new(8).unwrap();
    let shard = Shards::new(count, Arc::clone(&clock)).shard_of("team", "prod");
    let other = observer(
        Shards::new(count, Arc::clone(&clock)),
        OwnedShards::new(),
        Some(PeerLeases::of(shard, "obs-1")),
    );
    let (code, said) = asked(&other, Method::GET, "web", &Value::Null).await;
    let message =
        format!("the observer obs-0 does not own the Release team/web; obs-1 owns its shard {shard}");
    assert_eq!((code, &said["reason"], &said["message"]), (404, &json!("NotFound"), &json!(message)));
    assert_eq!(said["details"]["causes"][0]["message"], "obs-1");
    let (code, said) = asked(&other, Method::GET, "new", &Value::Null).await;
    assert_eq!(code, 404, "{said}");
    assert!(said["message"].as_str().unwrap().ends_with("or does not know it yet"), "{said}");

    // Of the owner, the Release that the cache has; and one that nobody has, when it is given.
    let all = Shards::all(count, clock);
    let looked: OwnedShards = all.owned().iter().map(|(shard, epoch)| (*shard, *epoch)).collect();
    let owner = observer(all.clone(), looked, None);
    let (code, said) = asked(&owner, Method::GET, "web", &Value::Null).await;
    assert_eq!((code, &said["kind"], &said["cluster"]), (200, &json!("ReleasePreview"), &json!("prod")));
    let problem = said["problems"][0]["message"].as_str().unwrap();
    assert!(problem.starts_with("there is no Cluster team/prod"), "{said}");
    let given = serde_json::to_value(release("new", "edge")).unwrap();
    let (code, said) = asked(&owner, Method::POST, "new", &given).await;
    assert_eq!((code, &said["cluster"]), (200, &json!("edge")), "{said}");
    assert_eq!(asked(&owner, Method::POST, "new", &json!({"spec": 1})).await.0, 400);

    // A shard that was not looked at yet is not answered for.
    let fresh = observer(all, OwnedShards::new(), None);
    let (code, said) = asked(&fresh, Method::GET, "web", &Value::Null).await;
    assert_eq!((code, &said["details"]["retryAfterSeconds"]), (503, &json!(1)), "{said}");
}

#[tokio::test]
async fn sc47_sc49_diff_health_and_history_are_of_the_cache_and_of_the_owner_alone() {
    let count = NonZeroU32::new(8).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let shard = Shards::new(count, Arc::clone(&clock)).shard_of("team", "prod");
    let other = observer(
        Shards::new(count, Arc::clone(&clock)),
        OwnedShards::new(),
        Some(PeerLeases::of(shard, "obs-1")),
    );
    let all = Shards::all(count, clock);
    let looked: OwnedShards = all.owned().iter().map(|(shard, epoch)| (*shard, *epoch)).collect();
    let owner = observer(all.clone(), looked, None);
    let fresh = observer(all, OwnedShards::new(), None);
    for (what, kind) in [("diff", "ReleaseDiff"), ("health", "ReleaseHealth"), ("history", "ReleaseHistory")]
    {
        let path = format!("web/{what}");
        let (code, said) = asked_about(&other, Method::GET, &path, &Value::Null).await;
        assert_eq!((code, &said["details"]["causes"][0]["message"]), (404, &json!("obs-1")), "{said}");
        assert_eq!(asked_about(&fresh, Method::GET, &path, &Value::Null).await.0, 503);
        let (code, said) = asked_about(&owner, Method::GET, &path, &Value::Null).await;
        assert_eq!((code, &said["kind"]), (200, &json!(kind)), "{said}");
        let release = serde_json::to_value(release("web", "prod")).unwrap();
        let (code, said) = asked_about(&owner, Method::POST, &path, &release).await;
        assert_eq!(code, if what == "diff" { 400 } else { 405 }, "{what}: a Release is no archive: {said}");
    }
    let (_, diff) = asked_about(&owner, Method::GET, "web/diff", &Value::Null).await;
    assert!(diff["problems"][0]["message"].as_str().unwrap().starts_with("there is no Cluster team/prod"));
    let (_, health) = asked_about(&owner, Method::GET, "web/health", &Value::Null).await;
    assert_eq!((&health["state"], &health["cluster"]), (&json!("Unknown"), &json!("prod")));
    // What is not in the history is no word of whose the Release is.
    let (code, said) = asked_about(&owner, Method::GET, "web/history?revision=4", &Value::Null).await;
    assert_eq!(code, 422, "{said}");
    assert_eq!(asked_about(&owner, Method::GET, "web/history?to=4", &Value::Null).await.0, 400);
}

/// Without `--shard-scoped-cache` every replica has what answers are made of.
#[tokio::test]
async fn sc51_an_observer_that_caches_all_releases_answers_for_those_of_others() {
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let shards = Shards::new(NonZeroU32::new(8).unwrap(), clock);
    let own = PeerLeases::of(shards.shard_of("team", "prod"), "obs-1");
    let observer = observer_of(CacheScope::Everything, shards, OwnedShards::new(), Some(own));
    for (what, kind) in [
        ("preview", "ReleasePreview"),
        ("diff", "ReleaseDiff"),
        ("health", "ReleaseHealth"),
        ("history", "ReleaseHistory"),
    ] {
        let (code, said) = asked_about(&observer, Method::GET, &format!("web/{what}"), &Value::Null).await;
        assert_eq!((code, &said["kind"]), (200, &json!(kind)), "{said}");
    }
    let (_, said) = asked_about(&observer, Method::GET, "web/health", &Value::Null).await;
    assert_eq!(said["state"], "Unknown");
    assert!(
        said["remarks"][0].as_str().unwrap().contains("the observer obs-1 watches its objects"),
        "{said}"
    );
    assert_eq!(asked(&observer, Method::GET, "new", &Value::Null).await.0, 404, "there is none");
}

#[tokio::test]
async fn a_cluster_of_another_namespace_is_previewed_when_it_lets_the_releases_and_else_not_told_of() {
    let all = Shards::all(NonZeroU32::new(8).unwrap(), Arc::new(RealClock::new()));
    let looked: OwnedShards = all.owned().iter().map(|(shard, epoch)| (*shard, *epoch)).collect();
    let observer = observer(all, looked, None);
    let mut said = Vec::new();
    for cluster in ["closed", "of-others", "gone", "of-team"] {
        let given = serde_json::to_value(elsewhere("web", cluster)).unwrap();
        let (code, answer) = asked(&observer, Method::POST, "web", &given).await;
        assert_eq!(code, 200, "{answer}");
        let problem = &answer["problems"][0];
        said.push((problem["reason"].clone(), problem["message"].as_str().unwrap().replace(cluster, "X")));
    }
    let refused =
        (json!("ClusterNotAllowed"), convoy_prepare::not_allowed("team", &StoreKey::new("fleet", "X")));
    assert_eq!(said[..3], [refused.clone(), refused.clone(), refused]);
    // It goes on to the kubeconfig, which there is none of.
    assert_eq!(said[3].0, "ClusterUnreachable", "{}", said[3].1);
}
