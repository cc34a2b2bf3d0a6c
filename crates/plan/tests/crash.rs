//! Whatever is delivered in whatever order, wherever it is cut off, and however late a request without an answer
//! arrives: what is on the target is in the inventory, what is wanted arrives, and then nothing more is done.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use convoy_api::DeliveryProgress;
use convoy_plan::{
    Apply, ApplyReason, Entry, Fate, Input, Kinds, LATEST_ARRIVAL, LateWrites, Live, LiveObject, ObjectKey,
    Plan, Policy, ReleaseId, Rendered, Step, keys_to_look_at, next_step, plan,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

type Bundle = BTreeMap<u8, u8>;

/// A target that holds objects by key, with the uid it gave each.
#[derive(Default)]
struct Target {
    objects: BTreeMap<ObjectKey, (String, Value)>,
    next_uid: u32,
    /// Applies that lie in the network, with the time at which they arrive.
    under_way: Vec<(Duration, Apply)>,
}

impl Target {
    /// Answers as the API server does: with a uid nothing is created, and what is taken over has to be there.
    fn apply(&mut self, apply: &Apply) -> Fate {
        let found = self.objects.get(&apply.target.key);
        if apply.create_only && found.is_some() {
            return if apply.reason == ApplyReason::Create { Fate::Forgotten } else { Fate::Failed };
        }
        if apply.take_over && !apply.create_only && found.is_none() {
            return Fate::Gone;
        }
        if !apply.uid.is_empty() && found.is_none_or(|(uid, _)| *uid != apply.uid) {
            return Fate::Gone;
        }
        let created = found.is_none();
        let uid = found.map_or_else(
            || {
                self.next_uid += 1;
                format!("u{}", self.next_uid)
            },
            |(uid, _)| uid.clone(),
        );
        self.objects.insert(apply.target.key.clone(), (uid.clone(), apply.object.clone()));
        Fate::Applied { uid, digest: apply.digest.clone(), resource_version: "1".into(), created }
    }

    fn look(&self, key: &ObjectKey) -> Live {
        let Some((uid, object)) = self.objects.get(key) else { return Live::Absent };
        let label = object.pointer("/metadata/labels").and_then(|l| l.get(convoy_api::label::RELEASE_UID));
        Live::Present(LiveObject {
            uid: uid.clone(),
            release_uid: label.and_then(Value::as_str).map(str::to_owned),
            ..LiveObject::default()
        })
    }
}

/// One Release, one target, and what the process that works on it remembers.
#[derive(Default)]
struct World {
    target: Target,
    inventory: Vec<Entry>,
    now: Duration,
    /// When the last request without an answer may have been sent, and when it was looked for what came of it.
    sent: Duration,
    looked: Option<Duration>,
    /// The bundle whose delivery was last begun, and how far that has come; stored with the inventory.
    begun: (Bundle, Option<DeliveryProgress>),
    /// Steps until the delivery is cut off.
    left: usize,
    /// Whether the Release makes its namespace.
    makes_namespace: bool,
}

/// What goes wrong in a delivery.
#[derive(Clone, Debug, Default)]
struct Trouble {
    /// Where it is cut off, counted in steps: write-ahead, each apply, each prune, settle.
    cut: Option<usize>,
    /// The objects whose apply gets no answer, and after how many seconds it arrives; the namespace is [`NAMESPACE`].
    lost: BTreeMap<u8, u64>,
}

const NAMESPACE: u8 = 6;

/// The objects are of three waves.
fn wave_of(name: u8) -> String {
    (i32::from(name % 3) - 1).to_string()
}

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    kinds.insert("", "v1", "ConfigMap", "configmaps", true);
    kinds.insert("", "v1", "Namespace", "namespaces", false);
    kinds
}

impl World {
    fn late(&self) -> LateWrites {
        LateWrites::judge(self.sent, self.looked, self.now)
    }

    /// Time passes, and what is under way arrives.
    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        let (arrived, under_way) =
            std::mem::take(&mut self.target.under_way).into_iter().partition(|(at, _)| *at <= self.now);
        self.target.under_way = under_way;
        let arrived: Vec<(Duration, Apply)> = arrived;
        for (_, apply) in arrived {
            self.target.apply(&apply);
        }
    }

    /// Plans and carries out; answers with the number of writes.
    fn deliver(&mut self, bundle: &Bundle, trouble: &Trouble) -> usize {
        let policy = Policy {
            target_namespace: Some("web".into()),
            create_namespace: self.makes_namespace,
            prune: true,
            allow_large_prune: true,
            ..Policy::default()
        };
        let rendered: Vec<Rendered> = bundle
            .iter()
            .map(|(name, value)| Rendered {
                source: format!("{name}.yaml"),
                object: json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": format!("c{name}"), "annotations": {"convoy.kumodo.io/wave": wave_of(*name)}}, "data": {"v": value.to_string()}}),
                early: false,
            })
            .collect();
        self.left = trouble.cut.unwrap_or(usize::MAX);
        let mut progress = match self.begun.0 == *bundle {
            true => self.begun.1.clone(),
            false => Some(DeliveryProgress::default()),
        };
        let mut writes = 0;
        loop {
            let plan = self.plan(&rendered, &policy);
            let step = next_step(&plan, progress.as_ref(), true, "1");
            let ends = plan.ends_with(progress.as_ref(), &step);
            match step {
                Step::Apply { waves, prunes } => {
                    let before = self.inventory.clone();
                    let (more, is_over) = self.carry_out(&plan.part(waves, prunes), &before, trouble, || {
                        (bundle.clone(), progress.clone())
                    });
                    writes += more;
                    if is_over {
                        return writes;
                    }
                    if ends {
                        progress = None;
                        self.begun.1 = None;
                    }
                }
                Step::Await { wave } => {
                    let known = progress.take().unwrap();
                    progress = Some(DeliveryProgress { healthy_below: wave, ..known });
                }
                Step::Done => {
                    self.begun = (bundle.clone(), None);
                    return writes;
                }
                Step::Hook(_) => panic!("there are no hooks"),
            }
        }
    }

    fn plan(&self, rendered: &[Rendered], policy: &Policy) -> Plan {
        let (before, no_facts) = (self.inventory.clone(), BTreeMap::new());
        let mut input = Input {
            release: &ReleaseId { uid: "r".into(), namespace: "ns".into(), name: "n".into() },
            rendered,
            hooks: &[],
            inventory: &before,
            kinds: &kinds(),
            policy,
            live: &no_facts,
            is_begun: false,
        };
        let wanted = keys_to_look_at(&input).unwrap();
        let live = wanted.into_iter().map(|at| (at.key.clone(), self.target.look(&at.key))).collect();
        input.live = &live;
        plan(&input).unwrap()
    }

    /// Answers with the number of writes, and whether the delivery ended there.
    fn carry_out(
        &mut self,
        plan: &Plan,
        before: &[Entry],
        trouble: &Trouble,
        begun: impl Fn() -> (Bundle, Option<DeliveryProgress>),
    ) -> (usize, bool) {
        if plan.is_empty() {
            return (0, false);
        }
        let mut left = self.left;
        let mut step = || {
            left = left.saturating_sub(1);
            left > 0
        };
        if !step() {
            return (0, true);
        }
        let late = self.late();
        self.begun = begun();
        self.inventory = plan.write_ahead(before, late);
        // As long as nothing else is known.
        self.sent = self.now;
        let (mut fates, mut writes) = (BTreeMap::new(), 0);
        let lost = |key: &ObjectKey| {
            let name = if key.kind == "Namespace" { NAMESPACE } else { key.name[1..].parse().unwrap() };
            trouble.lost.get(&name)
        };
        for (_, apply) in plan.applies() {
            if !step() {
                return (writes, true);
            }
            writes += 1;
            let fate = match lost(&apply.target.key) {
                Some(delay) => {
                    let at = self.now + Duration::from_secs(*delay);
                    self.target.under_way.push((at, apply.clone()));
                    Fate::Failed
                }
                None => self.target.apply(apply),
            };
            fates.insert(apply.target.key.clone(), fate);
        }
        let is_well = |fate: &Fate| matches!(fate, Fate::Applied { .. } | Fate::Forgotten | Fate::Pruned);
        if fates.values().all(is_well) {
            for prune in &plan.prunes {
                if !step() {
                    return (writes, true);
                }
                writes += 1;
                self.target.objects.remove(&prune.target.key);
                fates.insert(prune.target.key.clone(), Fate::Pruned);
            }
            self.looked = Some(self.now);
        }
        let is_settled = step();
        if is_settled {
            self.inventory = plan.settle(before, &fates, late);
        }
        self.left = left;
        (writes, !is_settled || !fates.values().all(is_well))
    }

    fn look_for_late_writes(&mut self) {
        let (before, late) = (self.inventory.clone(), self.late());
        let sent = self.sent;
        let plan = Plan::for_late_writes(&before, &kinds(), late);
        if !plan.is_empty() {
            self.left = usize::MAX;
            let begun = self.begun.clone();
            self.carry_out(&plan, &before, &Trouble::default(), || begun.clone());
            self.sent = sent;
        }
    }

    fn orphans(&self) -> Vec<String> {
        let known: BTreeSet<&ObjectKey> = self.inventory.iter().map(|entry| &entry.key).collect();
        self.target.objects.keys().filter(|key| !known.contains(key)).map(ToString::to_string).collect()
    }
}

fn trouble() -> impl Strategy<Value = Trouble> {
    let lost = prop::collection::btree_map(0..=NAMESPACE, 0..LATEST_ARRIVAL.as_secs(), 0..3);
    (prop::option::of(0_usize..14), lost).prop_map(|(cut, lost)| Trouble { cut, lost })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/crash.regressions.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_cut_and_no_late_request_leaves_an_orphan_and_the_last_bundle_always_arrives(
        bundles in prop::collection::vec(
            (prop::collection::btree_map(0_u8..6, 0_u8..3, 1..6), trouble(), 0_u64..1000),
            1..8,
        ),
        makes_namespace in any::<bool>(),
    ) {
        let mut world = World { makes_namespace, ..World::default() };
        for (bundle, trouble, pause) in &bundles {
            world.deliver(bundle, trouble);
            prop_assert_eq!(world.orphans(), Vec::<String>::new());
            for _ in 0..4 {
                world.wait(pause / 4);
                prop_assert_eq!(world.orphans(), Vec::<String>::new());
                world.look_for_late_writes();
                prop_assert_eq!(world.orphans(), Vec::<String>::new());
            }
        }
        let last = &bundles[bundles.len() - 1].0;
        for _ in 0..20 {
            // What a request in between took along is made anew, and what it brought back goes.
            world.deliver(last, &Trouble::default());
            world.wait(60);
            world.look_for_late_writes();
        }
        let live: BTreeMap<String, String> = world
            .target
            .objects
            .iter()
            .filter(|(key, _)| key.kind == "ConfigMap")
            .map(|(key, (_, object))| (key.name.clone(), object["data"]["v"].as_str().unwrap().to_owned()))
            .collect();
        let names: BTreeSet<&String> = live.keys().collect();
        let want: Vec<String> = last.keys().map(|name| format!("c{name}")).collect();
        prop_assert_eq!(names, want.iter().collect::<BTreeSet<_>>());
        prop_assert_eq!(world.deliver(last, &Trouble::default()), 0, "then nothing is written");
        prop_assert_eq!(world.inventory.len(), world.target.objects.len());
        prop_assert_eq!(world.target.objects.len(), last.len() + usize::from(makes_namespace));
    }
}

fn bundle(names: &[u8]) -> Bundle {
    names.iter().map(|name| (*name, 1)).collect()
}

fn lost(name: u8, after: u64) -> Trouble {
    Trouble { cut: None, lost: BTreeMap::from([(name, after)]) }
}

/// What is wrong with dropping an entry whose object was seen absent.
#[test]
fn an_apply_that_arrives_after_its_object_left_the_bundle_is_found_and_pruned() {
    let mut world = World::default();
    world.deliver(&bundle(&[1, 2]), &lost(2, 70));
    world.deliver(&bundle(&[1]), &Trouble::default());
    let of_2 = |world: &World| world.inventory.iter().find(|entry| entry.key.name == "c2").cloned();
    let tombstone = of_2(&world).unwrap();
    assert!(tombstone.gone && tombstone.unanswered && tombstone.uid.is_empty());
    assert_eq!(world.deliver(&bundle(&[1]), &Trouble::default()), 0, "a tombstone costs no request");
    world.wait(20);
    world.look_for_late_writes();
    world.wait(100);
    assert_eq!(world.target.objects.len(), 2, "it came");
    world.look_for_late_writes();
    assert_eq!(world.target.objects.len(), 1);
    assert!(of_2(&world).is_some(), "there may be another");
    world.wait(LATEST_ARRIVAL.as_secs());
    world.look_for_late_writes();
    assert_eq!(of_2(&world), None);
}

#[test]
fn an_apply_that_was_answered_later_says_nothing_of_the_one_before() {
    let mut world = World::default();
    world.deliver(&bundle(&[1, 2]), &lost(2, 70));
    world.deliver(&bundle(&[1, 2]), &Trouble::default());
    assert_eq!(world.target.objects.len(), 2);
    world.deliver(&bundle(&[1]), &Trouble::default());
    assert_eq!((world.target.objects.len(), world.inventory.len()), (1, 2));
    world.wait(100);
    world.look_for_late_writes();
    assert_eq!((world.target.objects.len(), world.inventory.len()), (1, 2));
}

#[test]
fn an_apply_of_an_object_that_is_there_creates_none_however_late_it_arrives() {
    let mut world = World::default();
    world.deliver(&bundle(&[1, 2]), &Trouble::default());
    let changed = BTreeMap::from([(1, 1), (2, 2)]);
    world.deliver(&changed, &lost(2, 70));
    world.deliver(&bundle(&[1]), &Trouble::default());
    assert_eq!(world.inventory.len(), 1, "it needs no tombstone");
    world.wait(100);
    assert_eq!(world.target.objects.len(), 1);
}

#[test]
fn an_object_that_was_deleted_is_made_anew_with_a_new_uid() {
    let mut world = World::default();
    world.deliver(&bundle(&[1]), &Trouble::default());
    world.target.objects.clear();
    let changed = BTreeMap::from([(1, 2)]);
    world.deliver(&changed, &Trouble::default());
    assert!(world.target.objects.is_empty(), "it is not known yet that it is gone");
    assert_eq!(world.deliver(&changed, &Trouble::default()), 1);
    assert_eq!(world.target.objects.len(), 1);
    assert_eq!(world.deliver(&changed, &Trouble::default()), 0);
}

#[test]
fn an_object_that_is_wanted_again_is_no_tombstone_any_more() {
    let mut world = World::default();
    world.deliver(&bundle(&[1, 2]), &lost(2, 70));
    world.deliver(&bundle(&[1]), &Trouble::default());
    world.deliver(&bundle(&[1, 2]), &Trouble::default());
    assert!(world.inventory.iter().all(|entry| !entry.gone && !entry.uid.is_empty()));
    world.wait(100);
    world.look_for_late_writes();
    assert_eq!(world.target.objects.len(), 2);
}
