//! A registry on the embedded store, before and after a restart.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use std::path::Path;
use std::sync::Arc;

use convoy_meta::{DeleteOptions, GetOptions, ListOptions, Query};
use convoy_registry::{Registry, RegistryOptions, RequestContext, ResourceDef, ResourceTable, Scope};
use convoy_storage::embedded::{EmbeddedOptions, EmbeddedStorage};
use serde_json::json;

fn start(path: &Path) -> Registry {
    let storage = EmbeddedStorage::open(path, EmbeddedOptions::default()).unwrap();
    let table = Arc::new(ResourceTable::default());
    table.install([ResourceDef::new("ex.io", "v1", "Thing", "things", Scope::Namespaced)]);
    Registry::new(Arc::new(storage), table, RegistryOptions::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_there_after_a_restart_with_its_resource_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let context = RequestContext::internal("test", "2026-01-01T00:00:00Z".parse().unwrap());
    let registry = start(&path);
    let things = registry.table().find("ex.io", "v1", "things").unwrap();
    for name in ["a", "b", "c"] {
        let body = json!({"metadata": {"name": name}, "spec": {"x": name}});
        registry.create(&context, &things, "default", body.into()).await.unwrap();
    }
    registry.delete(&context, &things, "default", "b", &DeleteOptions::default()).await.unwrap();
    let before = registry.list(&things, None, &ListOptions::default()).await.unwrap();
    let page = ListOptions::parse(&Query::parse("limit=1")).unwrap();
    let page = registry.list(&things, None, &page).await.unwrap();
    // Caches follow the storage and keep it open until the table lets go of them.
    registry.table().remove("ex.io", "v1", "things");
    drop((things, registry));

    let registry = reopened(&path).await;
    let things = registry.table().find("ex.io", "v1", "things").unwrap();
    let after = registry.list(&things, None, &ListOptions::default()).await.unwrap();
    assert_eq!(after.entries, before.entries);
    assert_eq!(after.revision, before.revision);
    // A list that was read in part goes on.
    let next =
        ListOptions::parse(&Query::parse(&format!("limit=1&continue={}", page.continue_token))).unwrap();
    let next = registry.list(&things, None, &next).await.unwrap();
    assert_eq!(next.entries.iter().map(|entry| entry.name()).collect::<Vec<_>>(), ["c"]);
    let body = json!({"metadata": {"name": "d"}});
    let created = registry.create(&context, &things, "default", body.into()).await.unwrap();
    assert_eq!(created.object.revision(), before.revision + 1);
    registry.get(&things, "default", "d", &GetOptions::default()).await.unwrap();
}

/// Opens the store as soon as the tasks of the first registry have let go of it.
async fn reopened(path: &Path) -> Registry {
    let opened = async {
        while EmbeddedStorage::open(path, EmbeddedOptions::default()).is_err() {
            tokio::task::yield_now().await;
        }
        start(path)
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), opened).await.expect("the store stays in use")
}
