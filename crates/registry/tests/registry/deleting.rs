use convoy_meta::{DeleteOptions, ListOptions, Object, Preconditions, PropagationPolicy};
use convoy_registry::DeleteOutcome;
use convoy_storage::Storage;
use serde_json::json;

use crate::fixture::{Fixture, is, named, said};

fn with_policy(policy: PropagationPolicy) -> DeleteOptions {
    DeleteOptions { propagation_policy: Some(policy), ..DeleteOptions::default() }
}

#[tokio::test]
async fn an_object_without_finalizers_is_gone_at_once() {
    let fixture = Fixture::new();
    fixture.create(named("a")).await.unwrap();
    let outcome = fixture.delete("a", &DeleteOptions::default()).await.unwrap();
    let DeleteOutcome::Gone { status, .. } = outcome else { panic!("{outcome:?}") };
    let details = status.details.unwrap();
    assert_eq!((details.name.as_str(), details.kind.as_str()), ("a", "things"));
    assert_eq!(details.uid, "00000000-0000-0000-0000-000000000001");
    let text = "things.ex.io \"a\" not found";
    assert_eq!(said(fixture.get("a").await), is(404, "NotFound", text));
    assert_eq!(said(fixture.delete("a", &DeleteOptions::default()).await), is(404, "NotFound", text));
}

#[tokio::test]
async fn the_last_finalizer_takes_the_object_with_it_in_the_same_request() {
    let mut fixture = Fixture::new();
    let mut thing = named("a");
    thing["metadata"]["finalizers"] = json!(["x.io/a", "x.io/b"]);
    fixture.create(thing).await.unwrap();
    fixture.context.now = "2026-01-01T05:00:00Z".parse().unwrap();
    let outcome = fixture.delete("a", &DeleteOptions::default()).await.unwrap();
    let DeleteOutcome::Waiting(object) = outcome else { panic!("{outcome:?}") };
    let object = object.to_value();
    assert_eq!(object["metadata"]["deletionTimestamp"], "2026-01-01T05:00:00Z");
    assert_eq!(object["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(object.generation(), 2);
    // Again: nothing to change.
    let again = fixture.delete("a", &DeleteOptions::default()).await.unwrap();
    let DeleteOutcome::Waiting(again) = again else { panic!("{again:?}") };
    assert_eq!(again.to_value(), object);

    fixture.merge("a", "", json!({"metadata": {"finalizers": ["x.io/b"]}})).await.unwrap();
    assert!(fixture.get("a").await.unwrap().is_deleting());
    let added = said(fixture.merge("a", "", json!({"metadata": {"finalizers": ["x.io/b", "x.io/c"]}})).await);
    assert_eq!((added.0, added.1.as_str()), (422, "Invalid"));
    let last = fixture.merge("a", "", json!({"metadata": {"finalizers": null}})).await.unwrap();
    assert!(last.object.to_value().finalizers().is_empty());
    assert_eq!(said(fixture.get("a").await).0, 404);
}

#[tokio::test]
async fn propagation_policies_are_finalizers() {
    let fixture = Fixture::new();
    for (policy, finalizer) in
        [(PropagationPolicy::Orphan, "orphan"), (PropagationPolicy::Foreground, "foregroundDeletion")]
    {
        fixture.create(named("a")).await.unwrap();
        let outcome = fixture.delete("a", &with_policy(policy)).await.unwrap();
        let DeleteOutcome::Waiting(object) = outcome else { panic!("{outcome:?}") };
        assert_eq!(object.to_value().finalizers(), [finalizer]);
        // Another word on it replaces the first.
        let outcome = fixture.delete("a", &with_policy(PropagationPolicy::Background)).await.unwrap();
        assert!(matches!(outcome, DeleteOutcome::Gone { .. }), "{outcome:?}");
    }
}

#[tokio::test]
async fn preconditions_that_do_not_hold_keep_the_object() {
    let fixture = Fixture::new();
    let revision = fixture.create(named("a")).await.unwrap().object.revision();
    let uid = "00000000-0000-0000-0000-000000000001";
    let options = |uid: Option<&str>, version: Option<&str>| DeleteOptions {
        preconditions: Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: version.map(str::to_owned),
        },
        ..DeleteOptions::default()
    };
    let text = format!(
        "Operation cannot be fulfilled on Thing.ex.io \"a\": the UID in the precondition (x) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    assert_eq!(said(fixture.delete("a", &options(Some("x"), None)).await), is(409, "Conflict", &text));
    let text = format!(
        "Operation cannot be fulfilled on Thing.ex.io \"a\": the ResourceVersion in the precondition (777) does not match the ResourceVersion in record ({revision}). The object might have been modified"
    );
    assert_eq!(said(fixture.delete("a", &options(Some(uid), Some("777"))).await), is(409, "Conflict", &text));
    assert!(fixture.get("a").await.is_ok());
    fixture.delete("a", &options(Some(uid), Some(&revision.to_string()))).await.unwrap();
}

#[tokio::test]
async fn a_collection_is_deleted_as_far_as_the_selector_goes() {
    let fixture = Fixture::new();
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut thing = named(name);
        thing["spec"] = json!({"color": color});
        fixture.create(thing).await.unwrap();
    }
    let list = ListOptions::parse(&convoy_meta::Query::parse("fieldSelector=spec.color%3Dred")).unwrap();
    let (context, things) = (&fixture.context, fixture.things());
    let options = DeleteOptions::default();
    let deleted =
        fixture.registry.delete_collection(context, &things, Some("default"), &list, &options).await.unwrap();
    assert_eq!(deleted.entries.iter().map(|entry| entry.name()).collect::<Vec<_>>(), ["a", "c"]);
    let left = fixture.list("").await.unwrap();
    assert_eq!(left.entries.iter().map(|entry| entry.name()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn a_dry_run_deletes_nothing() {
    let fixture = Fixture::new();
    fixture.create(named("a")).await.unwrap();
    let options = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    assert!(matches!(fixture.delete("a", &options).await.unwrap(), DeleteOutcome::Gone { .. }));
    assert!(fixture.get("a").await.is_ok());
}

#[tokio::test]
async fn one_broken_object_breaks_neither_lists_nor_its_own_deletion() {
    let fixture = Fixture::new();
    fixture.create(named("a")).await.unwrap();
    for broken in ["{not json", "", "[]", "{\"metadata\": 7}"] {
        fixture.storage.create("/registry/ex.io/things/default/broken", broken.into()).await.unwrap();
        let listed = fixture.list("").await.unwrap();
        assert_eq!(listed.entries.len(), 1, "{broken}");
        let got = said(fixture.get("broken").await);
        assert_eq!((got.0, got.1.as_str()), (500, "InternalError"));
        assert!(got.2.contains("/registry/ex.io/things/default/broken"), "{}", got.2);
        fixture.delete("broken", &DeleteOptions::default()).await.unwrap();
        assert_eq!(said(fixture.get("broken").await).0, 404);
    }
}
