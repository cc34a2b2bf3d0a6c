use std::time::Duration;

use convoy_meta::{ListOptions, Query, Status};
use convoy_registry::watch_status;
use convoy_storage::Storage;
use convoy_storage::watch_cache::{DeliveryKind, Watcher};
use serde_json::{Value, json};

use crate::fixture::{Fixture, is, named, said};

async fn watch(fixture: &Fixture, query: &str) -> Result<Watcher, Status> {
    let options = ListOptions::parse(&Query::parse(&format!("watch=1&{query}")))?;
    fixture.registry.watch(&fixture.things(), Some("default"), &options).await
}

/// The next `count` events as `TYPE name`, with their frames checked.
async fn take(watcher: &mut Watcher, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    while events.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(10), watcher.next()).await.expect("no event");
        for delivery in next.unwrap() {
            let frame: Value = serde_json::from_slice(&delivery.frame()).unwrap();
            assert_eq!(frame["type"], delivery.kind().as_str());
            assert_eq!(frame["object"]["metadata"]["resourceVersion"], delivery.revision().to_string());
            let name = frame["object"]["metadata"]["name"].as_str().unwrap_or("-").to_owned();
            events.push(format!("{} {name}", delivery.kind().as_str()));
        }
    }
    events
}

async fn three(fixture: &Fixture) {
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut thing = named(name);
        thing["spec"] = json!({"color": color});
        thing["metadata"]["labels"] = json!({"color": color});
        fixture.create(thing).await.unwrap();
    }
}

#[tokio::test]
async fn a_list_shows_every_acknowledged_write_and_the_revision_of_the_store() {
    let fixture = Fixture::new();
    for i in 0..50 {
        let written = fixture.create(named(&format!("n{i:02}"))).await.unwrap();
        let list = fixture.list("").await.unwrap();
        assert_eq!((list.entries.len(), list.revision), (i + 1, written.object.revision()));
    }
    let other = fixture.create_config(json!({"metadata": {"name": "c"}})).await.unwrap();
    assert_eq!(fixture.list("").await.unwrap().revision, other.object.revision());
}

#[tokio::test]
async fn selectors_select_by_label_and_by_declared_fields() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let names = async |query: &str| -> Vec<String> {
        let list = fixture.list(query).await.unwrap();
        list.entries.iter().map(|entry| entry.name().to_owned()).collect()
    };
    assert_eq!(names("labelSelector=color%3Dred").await, ["a", "c"]);
    assert_eq!(names("labelSelector=color!%3Dred").await, ["b"]);
    assert_eq!(names("fieldSelector=spec.color%3Dblue").await, ["b"]);
    assert_eq!(names("fieldSelector=metadata.name%3Dc").await, ["c"]);
    assert_eq!(names("fieldSelector=metadata.name!%3Dc,metadata.namespace%3Ddefault").await, ["a", "b"]);
    let text = "field label not supported: spec.size";
    assert_eq!(said(fixture.list("fieldSelector=spec.size%3D1").await), is(400, "BadRequest", text));
    let options = ListOptions::parse(&Query::parse("fieldSelector=spec.size%3D1")).unwrap();
    let text = "\"spec.size\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    let refused = fixture.registry.list(&fixture.configs(), None, &options).await;
    assert_eq!(said(refused), is(400, "BadRequest", text));
}

#[tokio::test]
async fn pages_show_the_revision_of_the_first_one() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let first = fixture.list("limit=2").await.unwrap();
    assert_eq!((first.entries.len(), first.remaining), (2, Some(1)));
    fixture.merge("c", "", json!({"spec": {"size": 9}})).await.unwrap();
    fixture.create(named("d")).await.unwrap();
    let second = fixture.list(&format!("limit=2&continue={}", first.continue_token)).await.unwrap();
    assert_eq!(second.revision, first.revision);
    assert_eq!((second.entries.len(), second.continue_token.as_str()), (1, ""));
    assert_eq!(second.entries[0].to_value()["spec"]["size"], 3);
    let selected = fixture.list("limit=1&labelSelector=color%3Dred").await.unwrap();
    assert_eq!((selected.entries.len(), selected.remaining), (1, None));
    assert!(!selected.continue_token.is_empty());
}

#[tokio::test]
async fn an_expired_page_says_so_and_gives_a_token_to_go_on() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let first = fixture.list("limit=1").await.unwrap();
    for i in 0..5000 {
        fixture.merge_or_create(i).await;
    }
    fixture.list("").await.unwrap();
    fixture.storage.compact(fixture.storage.revision().await.unwrap()).await.unwrap();
    let expired = fixture.list(&format!("limit=1&continue={}", first.continue_token)).await.unwrap_err();
    assert_eq!((expired.code, expired.reason_text.as_str()), (410, "Expired"));
    let token = expired.metadata.unwrap().continue_token;
    let next = fixture.list(&format!("limit=1&continue={token}")).await.unwrap();
    assert_eq!(next.entries[0].name(), "b");
}

#[tokio::test]
async fn a_list_of_an_exact_revision_is_the_past_and_one_of_the_future_times_out() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let at = fixture.list("").await.unwrap().revision;
    let later = fixture.create(named("d")).await.unwrap().object.revision();
    let past = fixture.list(&format!("resourceVersion={at}&resourceVersionMatch=Exact")).await.unwrap();
    assert_eq!((past.entries.len(), past.revision), (3, at));
    let newer = fixture.list(&format!("resourceVersion={later}")).await.unwrap();
    assert_eq!(newer.entries.len(), 4);
    tokio::time::pause();
    let future = said(fixture.list("resourceVersion=999999").await);
    assert_eq!(
        future,
        is(504, "Timeout", &format!("Timeout: Too large resource version: 999999, current: {}", at + 1))
    );
}

#[tokio::test]
async fn a_watch_starts_with_what_is_there_or_after_a_revision() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let at = fixture.list("").await.unwrap().revision;
    let mut from_start = watch(&fixture, "").await.unwrap();
    assert_eq!(take(&mut from_start, 3).await, ["ADDED a", "ADDED b", "ADDED c"]);
    let mut from_revision = watch(&fixture, &format!("resourceVersion={at}")).await.unwrap();
    fixture.merge("b", "", json!({"spec": {"size": 7}})).await.unwrap();
    fixture.delete("a", &convoy_meta::DeleteOptions::default()).await.unwrap();
    for watcher in [&mut from_start, &mut from_revision] {
        assert_eq!(take(watcher, 2).await, ["MODIFIED b", "DELETED a"]);
    }
}

#[tokio::test]
async fn a_watch_list_ends_its_initial_events_with_a_bookmark() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watcher = watch(&fixture, query).await.unwrap();
    let events = watcher.next().await.unwrap();
    let end = events.last().unwrap();
    assert_eq!((events.len(), end.kind(), end.ends_initial_events()), (4, DeliveryKind::Bookmark, true));
    let object: Value = serde_json::from_slice(&end.object()).unwrap();
    assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!((object["kind"].as_str(), object["apiVersion"].as_str()), (Some("Thing"), Some("ex.io/v1")));
    fixture.create(named("d")).await.unwrap();
    assert_eq!(take(&mut watcher, 1).await, ["ADDED d"]);
}

#[tokio::test]
async fn an_object_that_leaves_or_enters_the_selection_is_deleted_or_added_for_the_watcher() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let mut watcher = watch(&fixture, "labelSelector=color%3Dred&resourceVersion=0").await.unwrap();
    assert_eq!(take(&mut watcher, 2).await, ["ADDED a", "ADDED c"]);
    let left = fixture.merge("a", "", json!({"metadata": {"labels": {"color": "blue"}}})).await.unwrap();
    let next = watcher.next().await.unwrap();
    assert_eq!(
        (next.len(), next[0].kind(), next[0].revision()),
        (1, DeliveryKind::Deleted, left.object.revision())
    );
    // As it was when it was last seen, at the revision of the change.
    let object: Value = serde_json::from_slice(&next[0].object()).unwrap();
    assert_eq!(object["metadata"]["labels"]["color"], "red");
    assert_eq!(object["metadata"]["resourceVersion"], left.object.revision().to_string());
    fixture.merge("b", "", json!({"metadata": {"labels": {"color": "red"}}})).await.unwrap();
    assert_eq!(take(&mut watcher, 1).await, ["ADDED b"]);
}

#[tokio::test]
async fn a_watch_of_one_name_sees_only_that_object() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let mut watcher = watch(&fixture, "fieldSelector=metadata.name%3Db&resourceVersion=0").await.unwrap();
    assert_eq!(take(&mut watcher, 1).await, ["ADDED b"]);
    for name in ["a", "c", "b", "a"] {
        fixture.merge(name, "", json!({"spec": {"size": 5}})).await.unwrap();
        fixture.merge(name, "", json!({"spec": {"size": 6}})).await.unwrap();
    }
    assert_eq!(take(&mut watcher, 2).await, ["MODIFIED b", "MODIFIED b"]);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_bookmarks_that_follow_the_whole_store() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let mut watcher = watch(&fixture, "resourceVersion=0&allowWatchBookmarks=true").await.unwrap();
    take(&mut watcher, 4).await;
    let foreign = fixture.create_config(json!({"metadata": {"name": "c"}})).await.unwrap();
    let next = watcher.next().await.unwrap();
    assert_eq!((next[0].kind(), next[0].revision()), (DeliveryKind::Bookmark, foreign.object.revision()));
}

#[tokio::test]
async fn a_watch_from_a_forgotten_revision_is_refused_as_expired() {
    let fixture = Fixture::new();
    three(&fixture).await;
    // The cache is filled here, so it knows nothing of what was before.
    fixture.list("").await.unwrap();
    let refused = said(watch(&fixture, "resourceVersion=1").await);
    assert_eq!((refused.0, refused.1.as_str()), (410, "Expired"));
    assert!(refused.2.starts_with("too old resource version: 1 ("), "{}", refused.2);
}

#[tokio::test]
async fn a_watch_of_a_removed_resource_ends() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let mut watcher = watch(&fixture, "resourceVersion=0").await.unwrap();
    take(&mut watcher, 3).await;
    // Whoever holds the resource does not keep its watches alive.
    let held = fixture.things();
    fixture.registry.table().remove("ex.io", "v1", "things");
    let ended = tokio::time::timeout(Duration::from_secs(10), watcher.next()).await.expect("still running");
    assert_eq!(watch_status(&ended.unwrap_err()).code, 410);
    drop(held);
}

#[tokio::test]
async fn a_broken_object_is_not_in_a_watch_and_its_repair_is_an_addition() {
    let fixture = Fixture::new();
    let key = "/registry/ex.io/things/default/x";
    let broken = fixture.storage.create(key, "{".into()).await.unwrap();
    let mut watcher = watch(&fixture, "resourceVersion=0").await.unwrap();
    let good = r#"{"apiVersion":"ex.io/v1","kind":"Thing","metadata":{"name":"x","namespace":"default"}}"#;
    let repaired = fixture.storage.update(key, broken, good.into()).await.unwrap();
    assert_eq!(take(&mut watcher, 1).await, ["ADDED x"]);
    fixture.storage.update(key, repaired, "]".into()).await.unwrap();
    assert_eq!(take(&mut watcher, 1).await, ["DELETED x"]);
}

#[tokio::test]
async fn a_watch_from_a_revision_that_was_never_given_out_is_refused_as_expired() {
    let fixture = Fixture::new();
    three(&fixture).await;
    let refused = said(watch(&fixture, "resourceVersion=999999").await);
    assert_eq!((refused.0, refused.1.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn a_resource_version_that_is_no_number_is_refused() {
    let fixture = Fixture::new();
    let text = "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
    assert_eq!(said(fixture.list("resourceVersion=abc").await), is(400, "BadRequest", text));
}
