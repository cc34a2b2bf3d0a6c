//! Case 113: two Releases that claim the same objects, in whatever order they are changed, delivered and deleted. An object has
//! one Release; the other one names it and writes nothing, and what leaves one takes nothing of the other's along.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use convoy_plan::{
    Entry, Fate, Input, Kinds, LateWrites, Live, LiveObject, ObjectKey, Plan, Policy, Problem, Problems,
    ReleaseId, Rendered, keys_to_look_at, plan,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What there is on the target, by its key: its uid, and the Release that it bears.
type Target = BTreeMap<ObjectKey, (String, String)>;

#[derive(Clone, Debug, Default)]
struct Release {
    wanted: BTreeSet<u8>,
    inventory: Vec<Entry>,
    adopts: bool,
    /// Whose objects it met at its last look.
    named: BTreeSet<String>,
}

#[derive(Default)]
struct World {
    target: Target,
    uids: u32,
    releases: BTreeMap<&'static str, Release>,
}

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    kinds.insert("", "v1", "ConfigMap", "configmaps", true);
    kinds
}

fn key(name: u8) -> ObjectKey {
    ObjectKey {
        group: String::new(),
        kind: "ConfigMap".into(),
        namespace: "web".into(),
        name: format!("c{name}"),
    }
}

impl World {
    fn of(wanted: [(&'static str, &[u8]); 2]) -> Self {
        let release =
            |names: &[u8]| Release { wanted: names.iter().copied().collect(), ..Release::default() };
        let releases = wanted.into_iter().map(|(name, names)| (name, release(names))).collect();
        Self { releases, ..Self::default() }
    }

    /// One look of a Release at the target, with all that comes of it.
    fn reconcile(&mut self, name: &'static str) {
        let release = self.releases.get_mut(name).unwrap();
        let object = |number: &u8| Rendered {
            source: format!("{number}.yaml"),
            object: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number}")}}),
            early: false,
        };
        let rendered: Vec<Rendered> = release.wanted.iter().map(object).collect();
        let policy = Policy {
            target_namespace: Some("web".into()),
            prune: true,
            adopt: release.adopts,
            ..Policy::default()
        };
        let before = release.inventory.clone();
        let (id, kinds, nothing) = (id(name), kinds(), BTreeMap::new());
        let mut input = Input {
            release: &id,
            rendered: &rendered,
            hooks: &[],
            inventory: &before,
            kinds: &kinds,
            policy: &policy,
            live: &nothing,
            is_begun: false,
        };
        release.named.clear();
        // A Release whose source brings nothing any more keeps what it has.
        let Ok(wanted) = keys_to_look_at(&input) else { return };
        let look = |key: &ObjectKey| match self.target.get(key) {
            None => Live::Absent,
            Some((uid, owner)) => Live::Present(LiveObject {
                uid: uid.clone(),
                release_uid: Some(owner.clone()),
                owner: Some(owner.clone()),
                ..LiveObject::default()
            }),
        };
        let live = wanted.into_iter().map(|at| (at.key.clone(), look(&at.key))).collect();
        input.live = &live;
        match plan(&input) {
            Ok(plan) => self.carry_out(name, &plan),
            Err(Problems(problems)) => {
                let owner = |problem: Problem| match problem {
                    Problem::OwnedByOther { owner, .. } => Some(owner),
                    _ => None,
                };
                release.named = problems.into_iter().filter_map(owner).collect();
            }
        }
    }

    fn carry_out(&mut self, name: &'static str, plan: &Plan) {
        let release = self.releases.get_mut(name).unwrap();
        let before = release.inventory.clone();
        let mut fates = BTreeMap::new();
        for (_, apply) in plan.applies() {
            let label = apply
                .object
                .pointer("/metadata/labels")
                .and_then(|all| all.get(convoy_api::label::RELEASE_UID));
            let owner = label.and_then(Value::as_str).unwrap().to_owned();
            let found = self.target.get(&apply.target.key).map(|(uid, _)| uid.clone());
            if !apply.uid.is_empty() && found.as_ref() != Some(&apply.uid) {
                fates.insert(apply.target.key.clone(), Fate::Gone);
                continue;
            }
            let uid = found.clone().unwrap_or_else(|| {
                self.uids += 1;
                format!("u{}", self.uids)
            });
            self.target.insert(apply.target.key.clone(), (uid.clone(), owner));
            let (digest, resource_version) = (apply.digest.clone(), "1".to_owned());
            fates.insert(
                apply.target.key.clone(),
                Fate::Applied { uid, digest, resource_version, created: found.is_none() },
            );
        }
        for prune in &plan.prunes {
            let fate = match self.target.get(&prune.target.key) {
                // As the target is asked before anything is deleted.
                Some((uid, owner)) if *owner != name || (!prune.uid.is_empty() && *uid != prune.uid) => {
                    Fate::Forgotten
                }
                _ => {
                    self.target.remove(&prune.target.key);
                    Fate::Pruned
                }
            };
            fates.insert(prune.target.key.clone(), fate);
        }
        release.inventory = plan.settle(&before, &fates, LateWrites::Over);
    }

    fn delete(&mut self, name: &'static str) {
        let plan = Plan::for_deletion(&self.releases[name].inventory, &kinds(), LateWrites::Over);
        self.carry_out(name, &plan);
        self.releases.get_mut(name).unwrap().wanted.clear();
    }

    /// Who holds an object, by the inventories.
    fn holders(&self, object: u8) -> Vec<&'static str> {
        let has =
            |release: &Release| release.inventory.iter().any(|entry| entry.key == key(object) && !entry.gone);
        self.releases.iter().filter(|(_, release)| has(release)).map(|(name, _)| *name).collect()
    }
}

fn id(name: &str) -> ReleaseId {
    ReleaseId { uid: name.to_owned(), namespace: "team".into(), name: name.to_owned() }
}

#[derive(Clone, Debug)]
enum Step {
    Commit(&'static str, BTreeSet<u8>),
    Reconcile(&'static str),
    Delete(&'static str),
}

fn step() -> impl Strategy<Value = Step> {
    let name = || prop_oneof![Just("a"), Just("b")];
    prop_oneof![
        2 => (name(), prop::collection::btree_set(0_u8..4, 1..4)).prop_map(|(name, wanted)| Step::Commit(name, wanted)),
        5 => name().prop_map(Step::Reconcile),
        1 => name().prop_map(Step::Delete),
    ]
}

proptest! {
    #[test]
    fn an_object_has_one_release_and_nobody_takes_it_or_takes_it_along(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::of([("a", &[0, 1]), ("b", &[1, 2])]);
        for step in steps {
            let before = world.target.clone();
            let who = match step {
                Step::Commit(name, wanted) => {
                    world.releases.get_mut(name).unwrap().wanted = wanted;
                    name
                }
                Step::Reconcile(name) => {
                    world.reconcile(name);
                    name
                }
                Step::Delete(name) => {
                    world.delete(name);
                    name
                }
            };
            // What was another's is as it was.
            for (key, (uid, owner)) in before.iter().filter(|(_, (_, owner))| owner != who) {
                prop_assert_eq!(world.target.get(key), Some(&(uid.clone(), owner.clone())));
            }
            for object in 0..4 {
                let holders = world.holders(object);
                let owner = world.target.get(&key(object)).map(|(_, owner)| owner.as_str());
                prop_assert_eq!(holders.first().copied(), owner);
                prop_assert!(holders.len() <= 1, "{object} is in two inventories");
            }
        }
        // Whoever is left wanting what the other has says whose it is, and has written nothing.
        for (name, other) in [("a", "b"), ("b", "a")] {
            let (before, inventory) = (world.target.clone(), world.releases[name].inventory.clone());
            world.reconcile(name);
            let is_others = |object: &u8| before.get(&key(*object)).is_some_and(|(_, owner)| owner == other);
            if world.releases[name].wanted.iter().any(is_others) {
                prop_assert_eq!(&world.releases[name].named, &BTreeSet::from([other.to_owned()]));
                prop_assert_eq!((&world.target, &world.releases[name].inventory), (&before, &inventory));
            }
        }
    }

    /// One commit moves an object to a Release that is to adopt it.
    #[test]
    fn an_object_that_moves_ends_with_the_other_release_in_whatever_order_they_look(
        orders in prop::collection::vec(prop_oneof![Just("a"), Just("b")], 1..12),
    ) {
        let mut world = World::of([("a", &[0, 1]), ("b", &[2])]);
        world.reconcile("a");
        world.reconcile("b");
        let uid = world.target[&key(1)].0.clone();
        world.releases.get_mut("a").unwrap().wanted = BTreeSet::from([0]);
        let b = world.releases.get_mut("b").unwrap();
        (b.wanted, b.adopts) = (BTreeSet::from([1, 2]), true);
        let is_adopted_first = orders[0] == "b";
        for name in orders.into_iter().chain(["a", "b"]) {
            world.reconcile(name);
            prop_assert!(world.target.contains_key(&key(0)) && world.target.contains_key(&key(2)));
            if is_adopted_first {
                prop_assert_eq!(&world.target[&key(1)], &(uid.clone(), "b".to_owned()));
            }
        }
        prop_assert_eq!(world.target[&key(1)].1.as_str(), "b");
        prop_assert_eq!(world.holders(1), ["b"]);
    }
}
