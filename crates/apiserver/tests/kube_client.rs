//! The client of the kube crate, which convoy's own processes use, against a control plane in memory.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests, with the machine's clock")]
#![allow(dead_code, reason = "the tests with kubectl use more of the control plane")]

#[path = "kubectl/control_plane.rs"]
mod control_plane;

use std::time::Duration;

use convoy_api::{Release, ReleaseSpec};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Config};
use serde_json::json;
use tempfile::TempDir;

async fn start() -> (TempDir, control_plane::ControlPlane, Client) {
    let folder = tempfile::tempdir().unwrap();
    let plane = control_plane::start(folder.path(), 0).await.unwrap();
    let kubeconfig = Kubeconfig::read_from(&plane.kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    (folder, plane, Client::try_from(config).unwrap())
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some([("a".to_owned(), "b".to_owned())].into()),
        ..ConfigMap::default()
    }
}

/// The next event as a word and, where it has one, the object's name.
async fn next<K: kube::Resource>(
    events: &mut (impl Stream<Item = Result<Event<K>, watcher::Error>> + Unpin),
) -> String {
    let event = tokio::time::timeout(Duration::from_secs(10), events.next()).await.unwrap().unwrap().unwrap();
    let (word, object) = match &event {
        Event::Init => ("init", None),
        Event::InitDone => ("init done", None),
        Event::InitApply(object) => ("init apply", Some(object)),
        Event::Apply(object) => ("apply", Some(object)),
        Event::Delete(object) => ("delete", Some(object)),
    };
    let name = object.and_then(|object| object.meta().name.as_deref()).unwrap_or_default();
    format!("{word} {name}").trim().to_owned()
}

async fn watches(client: Client, config: watcher::Config) {
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let partial: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client);
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let mut events = Box::pin(watcher::watcher(api.clone(), config.clone()));
    let mut metadata = Box::pin(watcher::watcher(partial, config));
    for expected in ["init", "init apply a", "init done"] {
        assert_eq!(next(&mut events).await, expected);
        assert_eq!(next(&mut metadata).await, expected);
    }
    api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"a": "c"}}));
    api.patch("b", &PatchParams::default(), &patch).await.unwrap();
    for name in ["a", "b"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    for expected in ["apply b", "apply b", "delete a", "delete b"] {
        assert_eq!(next(&mut events).await, expected);
        assert_eq!(next(&mut metadata).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_see_every_change_after_a_list() {
    let (_folder, _plane, client) = start().await;
    watches(client, watcher::Config::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_see_every_change_after_a_streamed_list() {
    let (_folder, _plane, client) = start().await;
    watches(client, watcher::Config::default().streaming_lists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pages_of_one_moment() {
    let (_folder, _plane, client) = start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for index in 0..5 {
        api.create(&PostParams::default(), &config_map(&format!("c{index}"))).await.unwrap();
    }
    let first = api.list(&ListParams::default().limit(3)).await.unwrap();
    api.delete("c4", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let rest = api.list(&ListParams::default().continue_token(&token)).await.unwrap();
    assert_eq!((first.items.len(), rest.items.len()), (3, 2));
    assert_eq!(first.metadata.resource_version, rest.metadata.resource_version);
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_releases_are_applied_and_their_status_is_apart() {
    let (_folder, _plane, client) = start().await;
    let api: Api<Release> = Api::default_namespaced(client);
    let manifest = json!({
        "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": "web"},
        "spec": {"clusterRef": {"name": "edge-1"}, "source": {"git": {"repositoryRef": {"name": "apps"}}}}
    });
    let apply = PatchParams::apply("test").force();
    let first = api.patch("web", &apply, &Patch::Apply(&manifest)).await.unwrap();
    let again = api.patch("web", &apply, &Patch::Apply(&manifest)).await.unwrap();
    assert_eq!(first.metadata.resource_version, again.metadata.resource_version, "no change, no write");
    assert_eq!(first.metadata.generation, Some(1));
    let status = json!({"status": {"observedGeneration": 1}, "spec": {"suspend": true}});
    let written = api.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    assert_eq!(written.spec, ReleaseSpec { suspend: None, ..first.spec });
    assert_eq!(written.metadata.generation, Some(1));
    let missing = api.get("nosuch").await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.code == 404));
}
