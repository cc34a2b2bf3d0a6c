//! In which steps a bundle comes onto a target: waves, a chart's hooks, and what each waits for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;

use convoy_api::{DeliveryProgress, HookEvent, HookRun, HookState, Operation};
use convoy_plan::{
    Entry, Fate, HookStep, Input, Kinds, LateWrites, ObjectKey, Plan, Policy, Problem, ReleaseId, Rendered,
    RenderedHook, Step, next_hook_step, next_step, plan,
};
use serde_json::{Value, json};

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    for (group, version, kind, plural, namespaced) in [
        ("", "v1", "ConfigMap", "configmaps", true),
        ("", "v1", "Secret", "secrets", true),
        ("", "v1", "Namespace", "namespaces", false),
        ("batch", "v1", "Job", "jobs", true),
        ("apps", "v1", "Deployment", "deployments", true),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ] {
        kinds.insert(group, version, kind, plural, namespaced);
    }
    kinds
}

fn object(api_version: &str, kind: &str, name: &str, wave: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if let Some(wave) = wave {
        object["metadata"]["annotations"] = json!({"convoy.kumodo.io/wave": wave});
    }
    object
}

fn map(name: &str, wave: Option<&str>) -> Value {
    object("v1", "ConfigMap", name, wave)
}

fn hook(name: &str, events: &[HookEvent], weight: i64, policies: &[&str]) -> RenderedHook {
    RenderedHook {
        source: format!("chart/templates/{name}.yaml"),
        object: object("batch/v1", "Job", name, None),
        events: events.to_vec(),
        weight,
        delete_policies: policies.iter().map(|word| (*word).to_owned()).collect(),
    }
}

/// A Release and its target.
struct World {
    rendered: Vec<Rendered>,
    hooks: Vec<RenderedHook>,
    inventory: Vec<Entry>,
    progress: Option<DeliveryProgress>,
    /// Names of hooks that fail.
    fails: Vec<&'static str>,
    /// Whether objects become healthy.
    is_healthy: bool,
    waits: bool,
    log: Vec<String>,
}

impl World {
    fn new(objects: Vec<Value>, hooks: Vec<RenderedHook>) -> World {
        World {
            rendered: rendered(objects),
            hooks,
            inventory: Vec::new(),
            progress: Some(DeliveryProgress::default()),
            fails: Vec::new(),
            is_healthy: true,
            waits: true,
            log: Vec::new(),
        }
    }

    fn plan(&self) -> Plan {
        plan(&self.input(&BTreeMap::new(), &kinds(), &policy(), &release())).unwrap()
    }

    fn input<'a>(
        &'a self,
        live: &'a BTreeMap<ObjectKey, convoy_plan::Live>,
        kinds: &'a Kinds,
        policy: &'a Policy,
        release: &'a ReleaseId,
    ) -> Input<'a> {
        Input {
            release,
            rendered: &self.rendered,
            hooks: &self.hooks,
            inventory: &self.inventory,
            kinds,
            policy,
            live,
            is_begun: false,
        }
    }

    /// Another bundle comes.
    fn begin(&mut self, objects: Vec<Value>, operation: Operation) {
        self.rendered = rendered(objects);
        self.progress = Some(DeliveryProgress { operation, ..DeliveryProgress::default() });
        self.log.clear();
    }

    fn carry_out(&mut self, part: &Plan) {
        let mut fates = BTreeMap::new();
        for (_, apply) in part.applies() {
            let fate = Fate::Applied {
                uid: format!("u{}", self.log.len()),
                digest: apply.digest.clone(),
                resource_version: "1".into(),
                created: true,
            };
            fates.insert(apply.target.key.clone(), fate);
        }
        fates.extend(part.prunes.iter().map(|prune| (prune.target.key.clone(), Fate::Pruned)));
        let names = |keys: Vec<String>| keys.join(" ");
        let applied = names(part.applies().map(|(_, apply)| apply.target.key.name.clone()).collect());
        let pruned = names(part.prunes.iter().map(|prune| prune.target.key.name.clone()).collect());
        for (verb, what) in [("apply", applied), ("delete", pruned)] {
            if !what.is_empty() {
                self.log.push(format!("{verb} {what}"));
            }
        }
        self.inventory = part.settle(&self.inventory, &fates, LateWrites::Over);
    }

    /// Goes on as far as it can, with a new look at everything for each step; answers with what it did.
    fn go_on(&mut self, attempt: &str) -> Vec<String> {
        for _ in 0..100 {
            let plan = self.plan();
            let step = next_step(&plan, self.progress.as_ref(), self.waits, attempt);
            let ends = plan.ends_with(self.progress.as_ref(), &step);
            match step {
                Step::Done => {
                    self.progress = None;
                    return self.log.clone();
                }
                Step::Apply { waves, prunes } => {
                    self.carry_out(&plan.part(waves, prunes));
                    if ends {
                        self.progress = None;
                    }
                }
                Step::Await { wave } => {
                    let progress = self.progress.as_mut().unwrap();
                    let awaited = plan.awaited(progress, wave, &self.inventory);
                    let names: Vec<&str> = awaited.iter().map(|at| at.key.name.as_str()).collect();
                    self.log.push(format!("await {}", names.join(" ")));
                    if !self.is_healthy {
                        return self.log.clone();
                    }
                    progress.healthy_below = Some(wave.unwrap_or(i32::MAX));
                }
                Step::Hook(step) => {
                    if !self.hook(&plan, step, attempt) {
                        return self.log.clone();
                    }
                }
            }
        }
        panic!("it does not come to its end: {:?}", self.log);
    }

    fn hook(&mut self, plan: &Plan, step: HookStep, attempt: &str) -> bool {
        match step {
            HookStep::Run { event, index } => {
                let hook = &plan.hooks[index];
                let name = hook.apply.target.key.name.clone();
                let failed = self.fails.contains(&name.as_str());
                self.log.push(format!("{} {name}{}", event.as_str(), if failed { " fails" } else { "" }));
                self.carry_out_silently(&Plan::of_hook(hook));
                let run = HookRun {
                    event,
                    index: i64::try_from(index).unwrap(),
                    attempt: attempt.to_owned(),
                    state: if failed { HookState::Failed } else { HookState::Succeeded },
                    message: "m".into(),
                    ..HookRun::default()
                };
                let runs = &mut self.progress.as_mut().unwrap().hooks;
                runs.retain(|known| (known.event, known.index) != (run.event, run.index));
                runs.push(run);
                true
            }
            HookStep::Clear(prunes) => {
                self.carry_out(&Plan::clearing(prunes));
                true
            }
            HookStep::Failed { event, message, .. } => {
                self.log.push(format!("stopped by {}: {message}", event.as_str()));
                false
            }
        }
    }

    fn carry_out_silently(&mut self, part: &Plan) {
        let log = self.log.clone();
        self.carry_out(part);
        self.log = log;
    }
}

fn rendered(objects: Vec<Value>) -> Vec<Rendered> {
    objects
        .into_iter()
        .map(|object| Rendered {
            source: "a.yaml".into(),
            early: object["kind"] == "CustomResourceDefinition",
            object,
        })
        .collect()
}

fn release() -> ReleaseId {
    ReleaseId { uid: "r".into(), namespace: "team".into(), name: "web".into() }
}

fn policy() -> Policy {
    Policy { target_namespace: Some("web".into()), create_namespace: true, prune: true, ..Policy::default() }
}

#[test]
fn waves_go_in_the_order_of_their_numbers_and_each_waits_for_the_ones_before() {
    let mut world = World::new(
        vec![
            map("c", Some("10")),
            map("b", None),
            map("a", Some("-1")),
            object("v1", "Secret", "s", Some("10")),
        ],
        Vec::new(),
    );
    let want = ["apply web a", "await web a", "apply b", "await b", "apply s c"];
    assert_eq!(world.go_on("1"), want);
    assert_eq!(world.progress, None);
    let waves: Vec<(String, i32)> = world.inventory.iter().map(|e| (e.key.name.clone(), e.wave)).collect();
    let want = [("a", -1), ("b", 0), ("c", 10), ("web", -1), ("s", 10)];
    assert_eq!(waves, want.map(|(name, wave)| (name.to_owned(), wave)));

    // A wave without a change is waited for as well; what goes does so last, the highest wave first.
    world.begin(vec![map("b", None), map("a", Some("-1")), map("d", Some("3"))], Operation::Upgrade);
    assert_eq!(world.go_on("2"), ["await web b a", "apply d", "delete c s"]);
}

#[test]
fn without_waiting_the_next_wave_begins_when_the_one_before_is_applied() {
    let mut world = World::new(vec![map("b", Some("2")), map("a", Some("1"))], Vec::new());
    world.waits = false;
    assert_eq!(world.go_on("1"), ["apply web a", "apply b"]);
}

#[test]
fn what_does_not_become_healthy_holds_the_next_wave_and_the_delivery_goes_on_where_it_was() {
    let mut world = World::new(vec![map("b", Some("1")), map("a", None)], Vec::new());
    world.is_healthy = false;
    assert_eq!(world.go_on("1"), ["apply web a", "await web a"]);
    assert_eq!(world.go_on("1").last().unwrap(), "await web a");
    world.is_healthy = true;
    assert_eq!(world.go_on("1").last().unwrap(), "apply b");
    let nothing = world.log.len();
    assert_eq!(world.go_on("1").len(), nothing, "then nothing is done");
}

#[test]
fn what_drifted_is_put_right_at_once() {
    let mut world = World::new(vec![map("b", Some("1")), map("a", None)], Vec::new());
    world.go_on("1");
    world.log.clear();
    for entry in &mut world.inventory {
        entry.digest.clear();
    }
    assert_eq!(world.go_on("1"), ["apply web a b"]);
}

#[test]
fn namespaces_and_definitions_come_with_the_first_objects_that_need_them() {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced", "versions": [{"name": "v1", "served": true}]}});
    let mut widget = object("example.com/v1", "Widget", "w", Some("-5"));
    widget["metadata"]["namespace"] = "other".into();
    let other = object("v1", "Namespace", "other", None);
    let stays = object("v1", "Namespace", "late", Some("3"));
    let mut world = World::new(vec![map("a", None), widget, crd, other, stays], Vec::new());
    world.rendered[2].early = false;
    world.waits = false;
    assert_eq!(world.go_on("1"), ["apply web other widgets.example.com w", "apply a", "apply late"]);
}

#[test]
fn a_wave_that_is_no_whole_number_stops_the_plan_and_names_the_object() {
    for (value, shown) in [
        (json!("1.5"), "1.5"),
        (json!(1), "1"),
        (json!("first"), "first"),
        (json!("99999999999"), "99999999999"),
    ] {
        let mut object = map("a", None);
        object["metadata"]["annotations"] = json!({"convoy.kumodo.io/wave": value});
        let world = World::new(vec![object], Vec::new());
        let problems = plan(&world.input(&BTreeMap::new(), &kinds(), &policy(), &release())).unwrap_err();
        let said: Vec<String> = problems.0.iter().map(Problem::to_string).collect();
        let want = format!(
            "a.yaml: ConfigMap web/a has the annotation convoy.kumodo.io/wave: {shown:?}; it can be a whole number in \
             quotes, such as \"-1\""
        );
        assert_eq!(said, [want]);
    }
}

const INSTALL: &[HookEvent] = &[HookEvent::PreInstall];

#[test]
fn hooks_run_by_weight_and_then_by_name_around_the_objects() {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crd"}});
    let hooks = vec![
        hook("z", INSTALL, 0, &[]),
        hook("late", INSTALL, 10, &[]),
        hook("b", INSTALL, 0, &[]),
        hook("early", INSTALL, -3, &["hook-succeeded"]),
        hook(
            "after",
            &[HookEvent::PostInstall, HookEvent::PostUpgrade],
            0,
            &["hook-succeeded", "before-hook-creation"],
        ),
        hook("never", &[HookEvent::PreRollback, HookEvent::PreDelete], 0, &[]),
    ];
    let mut world = World::new(vec![map("a", None), map("b", Some("1")), crd], hooks);
    let want = [
        "apply web crd",
        "pre-install early",
        "pre-install b",
        "pre-install z",
        "pre-install late",
        "delete early",
        "apply a",
        "await web a crd",
        "apply b",
        "await b",
        "post-install after",
        "delete after",
    ];
    assert_eq!(world.go_on("1"), want);
    // What the hooks left is recorded, and is neither pruned nor counted.
    let left: Vec<&str> = world.inventory.iter().filter(|e| e.hook).map(|e| e.key.name.as_str()).collect();
    assert_eq!(left, ["b", "late", "z"]);
    assert_eq!(world.plan().counts().to_string(), "4 unchanged");
    assert_eq!(world.go_on("1").len(), want.len(), "a second look runs none");

    world.begin(vec![map("a", None), map("b", Some("1"))], Operation::Upgrade);
    let again = world.go_on("2");
    assert_eq!(again, ["delete crd", "await web a b", "post-upgrade after", "delete after"]);
}

#[test]
fn a_hook_that_failed_stops_the_revision_until_another_attempt() {
    let hooks = vec![
        hook("first", INSTALL, 0, &["hook-succeeded"]),
        hook("second", INSTALL, 1, &["hook-failed"]),
        hook("third", INSTALL, 2, &[]),
    ];
    let mut world = World::new(vec![map("a", None)], hooks);
    world.fails = vec!["second"];
    let want = [
        "apply web",
        "pre-install first",
        "pre-install second fails",
        "delete second first",
        "stopped by pre-install: m",
    ];
    assert_eq!(world.go_on("1"), want);
    assert_eq!(world.go_on("1").last().unwrap(), "stopped by pre-install: m");
    assert_eq!(world.log.len(), want.len() + 1, "it is not run again");
    world.fails.clear();
    world.log.clear();
    // What went well is not run again.
    let want = ["pre-install second", "pre-install third", "apply a"];
    assert_eq!(world.go_on("2"), want);
}

#[test]
fn a_hook_of_two_events_is_not_taken_away_while_it_runs_for_the_second() {
    let both = &[HookEvent::PreInstall, HookEvent::PostInstall];
    let mut world = World::new(vec![map("a", None)], vec![hook("both", both, 0, &["hook-succeeded"])]);
    let want = [
        "apply web",
        "pre-install both",
        "delete both",
        "apply a",
        "await web a",
        "post-install both",
        "delete both",
    ];
    assert_eq!(world.go_on("1"), want);

    let mut running = DeliveryProgress::default();
    let run = |event, state| HookRun { event, state, ..HookRun::default() };
    running.hooks = vec![
        run(HookEvent::PreInstall, HookState::Succeeded),
        run(HookEvent::PostInstall, HookState::Running),
    ];
    world.inventory.push(Plan::of_hook(&world.plan().hooks[0]).write_ahead(&[], LateWrites::Over).remove(0));
    let hooks = world.plan().hooks;
    assert!(hooks[0].prune.is_some());
    assert_eq!(next_hook_step(&hooks, HookEvent::PreInstall, &running, "1"), None);
    let goes_on = HookStep::Run { event: HookEvent::PostInstall, index: 0 };
    assert_eq!(next_hook_step(&hooks, HookEvent::PostInstall, &running, "1"), Some(goes_on));
}

#[test]
fn a_job_of_a_hook_that_left_the_chart_goes_and_what_it_may_still_need_stays() {
    let mut secret = hook("s", INSTALL, -1, &[]);
    secret.object = object("v1", "Secret", "s", None);
    let mut world = World::new(vec![map("a", None)], vec![secret, hook("job", INSTALL, 0, &[])]);
    world.go_on("1");
    world.hooks.clear();
    world.begin(vec![map("a", None)], Operation::Upgrade);
    assert_eq!(world.go_on("2"), ["delete job"]);
    let names: Vec<&str> = world.inventory.iter().map(|entry| entry.key.name.as_str()).collect();
    assert_eq!(names, ["a", "web", "s"]);
    // With the Release all goes.
    let all = Plan::for_deletion(&world.inventory, &kinds(), LateWrites::Over);
    assert_eq!(all.prunes.len(), 3);
}

#[test]
fn a_hook_that_is_to_be_ignored_is_not_run_and_one_of_an_unknown_kind_stops_the_plan() {
    let mut left_alone = hook("job", INSTALL, 0, &[]);
    left_alone.object["metadata"]["annotations"] = json!({"convoy.kumodo.io/ignore": "true"});
    let mut world = World::new(vec![map("a", None)], vec![left_alone]);
    assert_eq!(world.go_on("1"), ["apply web a"]);
    world.hooks[0].object = object("example.com/v1", "Widget", "w", None);
    let problems = plan(&world.input(&BTreeMap::new(), &kinds(), &policy(), &release())).unwrap_err();
    assert!(
        problems.to_string().starts_with("chart/templates/job.yaml: the target serves no Widget"),
        "{problems}"
    );
}

#[test]
fn a_job_that_would_go_by_itself_is_kept_until_its_end_was_seen() {
    let mut short = hook("short", INSTALL, 0, &[]);
    short.object["spec"] = json!({"ttlSecondsAfterFinished": 0});
    let mut long = hook("long", INSTALL, 1, &[]);
    long.object["spec"] = json!({"ttlSecondsAfterFinished": 86400});
    let world = World::new(vec![map("a", None)], vec![short, long]);
    let ttls: Vec<i64> = world
        .plan()
        .hooks
        .iter()
        .map(|hook| hook.apply.object["spec"]["ttlSecondsAfterFinished"].as_i64().unwrap())
        .collect();
    assert_eq!(ttls, [600, 86400]);
}
