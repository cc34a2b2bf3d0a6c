//! Whatever is delivered in whatever order, and wherever it is cut off: what is on the target is in
//! the inventory, what is wanted arrives, and then nothing more is done.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use convoy_plan::{
    Entry, Fate, Input, Kinds, Live, LiveObject, ObjectKey, Policy, ReleaseId, Rendered, keys_to_look_at,
    plan, settle,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

/// A target that holds objects by key, with the uid it gave each.
#[derive(Default)]
struct Target {
    objects: BTreeMap<ObjectKey, (String, Value)>,
    next_uid: u32,
}

/// Where a delivery is cut off, counted in steps: write-ahead, each apply, each prune, settle.
type Cut = Option<usize>;

fn deliver(target: &mut Target, inventory: &mut Vec<Entry>, bundle: &BTreeMap<u8, u8>, cut: Cut) -> usize {
    let release = ReleaseId { uid: "r".into(), namespace: "ns".into(), name: "n".into() };
    let mut kinds = Kinds::default();
    kinds.insert("", "v1", "ConfigMap", "configmaps", true);
    let policy = Policy {
        target_namespace: Some("web".into()),
        prune: true,
        allow_large_prune: true,
        ..Policy::default()
    };
    let rendered: Vec<Rendered> = bundle
        .iter()
        .map(|(name, value)| Rendered {
            source: format!("{name}.yaml"),
            object: json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("c{name}")}, "data": {"v": value.to_string()}}),
        })
        .collect();
    let before = inventory.clone();
    let no_facts = BTreeMap::new();
    let mut input = Input {
        release: &release,
        rendered: &rendered,
        inventory: &before,
        kinds: &kinds,
        policy: &policy,
        live: &no_facts,
    };
    let live: BTreeMap<ObjectKey, Live> = keys_to_look_at(&input)
        .unwrap()
        .into_iter()
        .map(|at| {
            let live = target.objects.get(&at.key).map_or(Live::Absent, |(uid, object)| {
                let label =
                    object.pointer("/metadata/labels").and_then(|l| l.get(convoy_api::label::RELEASE_UID));
                Live::Present(LiveObject {
                    uid: uid.clone(),
                    release_uid: label.and_then(Value::as_str).map(str::to_owned),
                    owner: None,
                })
            });
            (at.key, live)
        })
        .collect();
    input.live = &live;
    let plan = plan(&input).unwrap();
    let mut left = cut.unwrap_or(usize::MAX);
    let mut step = || {
        left = left.saturating_sub(1);
        left > 0
    };
    if plan.is_empty() {
        return 0;
    }
    if !step() {
        return 0;
    }
    *inventory = plan.write_ahead(&before);
    let mut fates = BTreeMap::new();
    let mut writes = 0;
    for (_, apply) in plan.applies() {
        if !step() {
            return writes;
        }
        writes += 1;
        let created = !target.objects.contains_key(&apply.target.key);
        let next = &mut target.next_uid;
        let slot = target.objects.entry(apply.target.key.clone()).or_insert_with(|| {
            *next += 1;
            (format!("u{next}"), Value::Null)
        });
        slot.1 = apply.object.clone();
        let fate = Fate::Applied {
            uid: slot.0.clone(),
            digest: apply.digest.clone(),
            resource_version: "1".into(),
            created,
        };
        fates.insert(apply.target.key.clone(), fate);
    }
    for prune in &plan.prunes {
        if !step() {
            return writes;
        }
        writes += 1;
        target.objects.remove(&prune.target.key);
        fates.insert(prune.target.key.clone(), Fate::Pruned);
    }
    if step() {
        *inventory = settle(inventory, &fates);
    }
    writes
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/crash.regressions.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_cut_leaves_an_orphan_and_the_last_bundle_always_arrives(
        bundles in prop::collection::vec(
            (prop::collection::btree_map(0_u8..6, 0_u8..3, 1..6), prop::option::of(0_usize..14)),
            1..8,
        ),
    ) {
        let mut target = Target::default();
        let mut inventory = Vec::new();
        for (bundle, cut) in &bundles {
            deliver(&mut target, &mut inventory, bundle, *cut);
            for key in target.objects.keys() {
                prop_assert!(inventory.iter().any(|entry| entry.key == *key), "{} is an orphan", key);
            }
        }
        let last = &bundles[bundles.len() - 1].0;
        deliver(&mut target, &mut inventory, last, None);
        let live: BTreeMap<String, String> = target
            .objects
            .iter()
            .map(|(key, (_, object))| (key.name.clone(), object["data"]["v"].as_str().unwrap().to_owned()))
            .collect();
        let want: BTreeMap<String, String> =
            last.iter().map(|(name, value)| (format!("c{name}"), value.to_string())).collect();
        prop_assert_eq!(live, want);
        prop_assert_eq!(deliver(&mut target, &mut inventory, last, None), 0, "then nothing is written");
        prop_assert_eq!(inventory.len(), target.objects.len());
    }
}
