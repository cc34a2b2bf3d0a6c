//! How a plan is told before anything is done.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use convoy_api::{DeliveryProgress, HookEvent, Operation};
use convoy_plan::{
    Changes, Entry, Input, Kinds, Live, LiveObject, Mask, ObjectKey, PlanPreview, Policy, Reapply, ReleaseId,
    Rendered, RenderedHook, Tried, digest_of, keys_to_look_at, plan, stage_of,
};
use serde_json::{Value, json};

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    for (group, version, kind, plural, namespaced) in [
        ("", "v1", "ConfigMap", "configmaps", true),
        ("", "v1", "Namespace", "namespaces", false),
        ("batch", "v1", "Job", "jobs", true),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ] {
        kinds.insert(group, version, kind, plural, namespaced);
    }
    kinds
}

fn map(name: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}})
}

fn rendered(objects: Vec<Value>) -> Vec<Rendered> {
    let objects = objects.into_iter().enumerate();
    objects
        .map(|(index, object)| Rendered { source: format!("all.yaml {index}"), object, early: false })
        .collect()
}

fn hook(name: &str, event: HookEvent) -> RenderedHook {
    RenderedHook {
        source: format!("{name}.yaml"),
        object: json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}),
        events: vec![event],
        weight: 0,
        delete_policies: Vec::new(),
    }
}

fn key(kind: &str, name: &str) -> ObjectKey {
    ObjectKey { group: String::new(), kind: kind.into(), namespace: "web".into(), name: name.into() }
}

struct World {
    rendered: Vec<Rendered>,
    hooks: Vec<RenderedHook>,
    inventory: Vec<Entry>,
    live: BTreeMap<ObjectKey, Live>,
    reapply: Reapply,
    progress: Option<DeliveryProgress>,
    tried: BTreeMap<ObjectKey, Tried>,
}

impl World {
    fn new(objects: Vec<Value>) -> Self {
        let operation = Operation::Upgrade;
        Self {
            rendered: rendered(objects),
            hooks: Vec::new(),
            inventory: Vec::new(),
            live: BTreeMap::new(),
            reapply: Reapply::None,
            progress: Some(DeliveryProgress { operation, ..DeliveryProgress::default() }),
            tried: BTreeMap::new(),
        }
    }

    fn told(&self) -> PlanPreview {
        let release = ReleaseId { uid: "u".into(), namespace: "team".into(), name: "web".into() };
        let policy = Policy {
            target_namespace: Some("web".into()),
            prune: true,
            reapply: self.reapply.clone(),
            ..Policy::default()
        };
        let kinds = kinds();
        let input = Input {
            release: &release,
            rendered: &self.rendered,
            hooks: &self.hooks,
            inventory: &self.inventory,
            kinds: &kinds,
            policy: &policy,
            live: &self.live,
            is_begun: false,
        };
        keys_to_look_at(&input).unwrap();
        PlanPreview::of(&plan(&input).unwrap(), self.progress.as_ref(), true, &self.tried, "it was asked for")
    }

    /// `action step name: reason`, or the problem.
    fn lines(&self) -> Vec<String> {
        let told = self.told();
        told.objects
            .iter()
            .map(|object| {
                let step = object.step.map_or("-".to_owned(), |step| step.to_string());
                let why = if object.problem.is_empty() { &object.reason } else { &object.problem };
                format!("{} {step} {}: {why}", object.action.as_words(), object.name)
            })
            .collect()
    }

    /// `name (objects): what it waits for`.
    fn steps(&self) -> Vec<String> {
        let told = self.told();
        let steps = told.steps.iter();
        steps.map(|step| format!("{} ({}): {}", step.name, step.objects, step.waits_for)).collect()
    }
}

/// What was delivered before, with other content.
fn entry(name: &str) -> Entry {
    Entry {
        key: key("ConfigMap", name),
        version: "v1".to_owned(),
        uid: format!("uid-{name}"),
        digest: digest_of(&json!({"kind": "ConfigMap", "of": name})),
        stage: stage_of("", "ConfigMap"),
        wave: 0,
        resource_version: "7".to_owned(),
        created: true,
        unanswered: false,
        gone: false,
        hook: false,
    }
}

#[test]
fn every_object_is_told_with_its_action_its_step_and_why() {
    let mut world =
        World::new(vec![map("new", &json!({})), map("changed", &json!({})), map("adopted", &json!({}))]);
    world.inventory = vec![entry("changed"), entry("left"), entry("kept")];
    world.live.insert(
        key("ConfigMap", "adopted"),
        Live::Present(LiveObject { uid: "x".into(), ..LiveObject::default() }),
    );
    world
        .tried
        .insert(key("ConfigMap", "kept"), Tried::Stays("stays, for its annotation asks for it".into()));
    assert_eq!(
        world.lines(),
        [
            "create 1 new: it is new in the bundle",
            "change 1 changed: the bundle has other content for it",
            "adopt 1 adopted: it exists, and becomes this Release's",
            "delete 2 left: it left the bundle",
            "keep - kept: it left the bundle, but stays, for its annotation asks for it",
        ]
    );
    assert_eq!(world.steps(), ["objects (3): ", "prune (1): "]);
    let counts = world.told().counts;
    assert_eq!((counts.create, counts.change, counts.adopt, counts.delete, counts.keep), (1, 1, 1, 1, 1));
}

#[test]
fn what_the_target_says_changes_what_is_told() {
    let mut world =
        World::new(["gone", "anew", "refused", "same"].map(|name| map(name, &json!({}))).to_vec());
    world.inventory = ["gone", "anew", "refused", "same"].map(entry).to_vec();
    let plain = |text: &str| text.to_owned();
    let places = BTreeMap::new();
    let mask = Mask { text: &plain, hides_before: false, hides_after: false, places: &places };
    for (name, tried) in [
        ("gone", Tried::Gone),
        ("anew", Tried::Recreated("data: field is immutable".into())),
        ("refused", Tried::Refused("no (403)".into())),
        ("same", Tried::Taken(Changes::between(&json!({}), &json!({}), mask))),
    ] {
        world.tried.insert(key("ConfigMap", name), tried);
    }
    assert_eq!(
        world.lines(),
        [
            "create 1 gone: it is not on the target any more",
            "recreate 1 anew: a field that cannot change was changed: data: field is immutable",
            "change 1 refused: no (403)",
            "change 1 same: the bundle has other content for it; no field of it would change",
        ]
    );
}

#[test]
fn steps_say_what_they_wait_for() {
    let wave = |name: &str, wave: &str| map(name, &json!({"convoy.kumodo.io/wave": wave}));
    let mut world = World::new(vec![wave("a", "0"), wave("b", "1"), wave("c", "5")]);
    world.hooks = vec![
        hook("first", HookEvent::PreUpgrade),
        hook("last", HookEvent::PostUpgrade),
        hook("never", HookEvent::PreInstall),
    ];
    assert_eq!(
        world.steps(),
        [
            "pre-upgrade hooks (1): ",
            "wave 0 (1): the pre-upgrade hooks have ended well",
            "wave 1 (1): the objects up to wave 0 are healthy",
            "wave 5 (1): the objects up to wave 1 are healthy",
            "post-upgrade hooks (1): all objects are healthy",
        ]
    );
    // A delivery that has come to its end runs no hook again.
    world.progress = None;
    assert!(world.steps().iter().all(|step| !step.contains("hooks")), "{:?}", world.steps());
}

#[test]
fn namespaces_and_definitions_come_first_and_are_awaited() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [{"name": "v1", "served": true}]},
    });
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    let mut world = World::new(vec![gadget, crd, namespace]);
    world.hooks = vec![hook("first", HookEvent::PreUpgrade)];
    let told = world.told();
    let names: Vec<&str> = told.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names.last(), Some(&"g"), "{names:?}");
    assert_eq!(told.counts.create, 3);
}
