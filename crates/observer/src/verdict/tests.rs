//! Inventories and watch events in, conditions out.

use std::collections::BTreeSet;

use convoy_api::{DeliveryProgress, HookRun, HookState, InventoryEntry, ReleaseInventory};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::seen;

/// A model with one Release, `team/web`, told step by step.
struct Story {
    model: Model,
    now: Duration,
    release: StoreKey,
}

fn entry(kind: &str, name: &str, uid: &str, digest: &str, version: &str) -> InventoryEntry {
    InventoryEntry {
        group: if kind == "Deployment" { "apps".to_owned() } else { String::new() },
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: "prod".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        digest: digest.to_owned(),
        resource_version: version.to_owned(),
        ..InventoryEntry::default()
    }
}

/// A ConfigMap as convoy applied it, with `by` as the last other writer.
fn config_map(name: &str, uid: &str, version: &str, value: &str, by: Option<&str>) -> Value {
    let mut managers = vec![json!({
        "manager": "convoy", "operation": "Apply", "time": "2026-11-01T10:00:00Z",
        "fieldsV1": {"f:data": {"f:a": {}}},
    })];
    if let Some(by) = by {
        managers.push(
            json!({"manager": by, "operation": "Update", "time": "2026-11-01T10:05:00Z", "fieldsV1": {}}),
        );
    }
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": value},
        "metadata": {"namespace": "prod", "name": name, "uid": uid, "resourceVersion": version, "managedFields": managers},
    })
}

impl Story {
    fn new() -> Self {
        Self {
            model: Model::default(),
            now: Duration::from_secs(1000),
            release: StoreKey::new("team", "web"),
        }
    }

    fn inventory(&mut self, bundle: &str, entries: &[InventoryEntry]) -> &mut Self {
        let mut inventory = ReleaseInventory::default();
        inventory.spec.bundle_digest = bundle.to_owned();
        inventory.spec.entries = entries.to_vec();
        self.model.set_inventories(&self.release, &[&inventory], self.now);
        for kind in self.model.wanted_kinds().cloned().collect::<Vec<_>>() {
            self.model.watch_started(&kind);
        }
        self
    }

    /// An inventory of a delivery whose hook runs, or does not.
    fn hook(&mut self, state: HookState, entries: &[InventoryEntry]) -> &mut Self {
        let mut inventory = ReleaseInventory::default();
        inventory.spec.entries = entries.to_vec();
        let run = HookRun { state, ..HookRun::default() };
        inventory.spec.delivery = Some(DeliveryProgress { hooks: vec![run], ..DeliveryProgress::default() });
        self.model.set_inventories(&self.release, &[&inventory], self.now);
        self
    }

    fn kind(&self, kind: &str) -> WatchedKind {
        self.model.wanted_kinds().find(|wanted| wanted.kind == kind).unwrap().clone()
    }

    fn sees(&mut self, object: &Value) -> &mut Self {
        let kind = self.kind(object["kind"].as_str().unwrap());
        let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
        let name = (text("namespace"), text("name"));
        let rules = self.model.rules_of(&kind, &name);
        let now = "2026-11-01T12:00:00Z".parse::<Timestamp>().unwrap();
        self.model.put(
            &kind,
            &name,
            seen::look_with(object, now, rules.as_deref(), &convoy_health::HealthRules::default()),
        );
        self
    }

    fn lists(&mut self, kind: &str, names: &[&str]) -> &mut Self {
        let kind = self.kind(kind);
        let names: BTreeSet<_> = names.iter().map(|name| ("prod".to_owned(), (*name).to_owned())).collect();
        self.model.listed(&kind, None, &names);
        self
    }

    fn loses(&mut self, kind: &str, name: &str) -> &mut Self {
        let kind = self.kind(kind);
        self.model.remove(&kind, &("prod".to_owned(), name.to_owned()));
        self
    }

    fn waits(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    fn verdict(&self) -> Verdict {
        judge(&self.model, &self.release, DriftMode::Correct, self.now).unwrap()
    }

    /// `<Healthy>/<reason> <Drifted>/<reason>` and the bundle.
    #[track_caller]
    fn is(&self, want: &str) -> &Self {
        let verdict = self.verdict();
        let shown = |finding: &Finding| format!("{}/{}", finding.status.as_str(), finding.reason);
        let bundle = match verdict.bundle_digest.as_deref() {
            _ if verdict.is_premature => "premature",
            bundle => bundle.unwrap_or("-"),
        };
        let got =
            format!("{} {} {bundle}", shown(&verdict.healthy), shown(verdict.drifted.as_ref().unwrap()));
        assert_eq!(got, want, "{verdict:?}");
        self
    }

    #[track_caller]
    fn says(&self, want: &str) {
        let verdict = self.verdict();
        let both = format!("{} | {}", verdict.healthy.message, verdict.drifted.unwrap().message);
        assert!(both.contains(want), "{both}");
    }
}

const IN_SYNC: &str = "True/Healthy False/InSync b1";
const CHANGED: &str = "True/Healthy True/ChangedOnTarget b1";

/// One ConfigMap, applied and seen.
fn settled() -> Story {
    let mut story = Story::new();
    story.inventory("b1", &[entry("ConfigMap", "a", "u1", "d1", "5")]);
    story.sees(&config_map("a", "u1", "5", "1", None)).lists("ConfigMap", &["a"]);
    story
}

#[test]
fn what_was_applied_and_seen_is_healthy_and_in_sync() {
    settled().is(IN_SYNC).says("1 objects are as they were applied");
}

#[test]
fn a_release_without_objects_is_healthy_and_in_sync() {
    let mut story = Story::new();
    story.inventory("b1", &[]).is(IN_SYNC);
}

#[test]
fn nothing_is_said_before_the_watch_has_shown_the_applied_version() {
    let mut story = Story::new();
    story.inventory("b1", &[entry("ConfigMap", "a", "u1", "d1", "5")]);
    story.is("Unknown/Unknown Unknown/Unknown premature");
    story.lists("ConfigMap", &[]).is("Unknown/Unknown Unknown/Unknown premature");
    story.sees(&config_map("a", "u1", "4", "0", None)).is("Unknown/Unknown Unknown/Unknown premature");
    assert_eq!(story.verdict().look_again, Some(LAG));
    story.sees(&config_map("a", "u1", "5", "1", None)).is(IN_SYNC);
    assert_eq!(story.verdict().look_again, None);
}

#[test]
fn a_change_by_hand_is_drift_until_it_is_taken_back_or_applied_again() {
    let mut story = settled();
    story.sees(&config_map("a", "u1", "6", "by hand", Some("kubectl-edit"))).is(CHANGED);
    story.says("ConfigMap prod/a was changed");
    story.sees(&config_map("a", "u1", "7", "1", None)).is(IN_SYNC);
    story.sees(&config_map("a", "u1", "8", "by hand", Some("kubectl-edit"))).is(CHANGED);
    story.sees(&config_map("a", "u1", "9", "1", None));
    story.inventory("b1", &[entry("ConfigMap", "a", "u1", "d1", "9")]).is(IN_SYNC);
}

#[test]
fn a_new_revision_is_no_drift() {
    let mut story = settled();
    // Written ahead: what the plan will touch has no digest.
    story.inventory("b2", &[entry("ConfigMap", "a", "u1", "", "5")]);
    story.sees(&config_map("a", "u1", "6", "2", None)).is("True/Healthy Unknown/Unknown -");
    story.inventory("b2", &[entry("ConfigMap", "a", "u1", "d2", "6")]).is("True/Healthy False/InSync b2");
}

#[test]
fn a_status_write_between_apply_and_inventory_does_not_hide_a_later_change() {
    let mut story = Story::new();
    story.inventory("b1", &[entry("ConfigMap", "a", "", "", "")]).lists("ConfigMap", &[]);
    story.sees(&config_map("a", "u1", "5", "1", None)).sees(&config_map("a", "u1", "6", "1", None));
    story.sees(&config_map("a", "u1", "7", "by hand", Some("kubectl-edit")));
    story.inventory("b1", &[entry("ConfigMap", "a", "u1", "d1", "5")]).is(CHANGED);
}

#[test]
fn a_change_while_nobody_looked_is_taken_for_drift_once() {
    let mut story = Story::new();
    story.inventory("b1", &[entry("ConfigMap", "a", "u1", "d1", "5")]);
    story.sees(&config_map("a", "u1", "9", "?", Some("kubectl-edit"))).lists("ConfigMap", &["a"]).is(CHANGED);
    // The controller-manager applied it again, which changed nothing.
    story.inventory("b1", &[entry("ConfigMap", "a", "u1", "d1", "9")]).is(IN_SYNC);
}

#[test]
fn a_newer_version_that_only_convoy_wrote_is_not_taken_for_drift() {
    let mut story = Story::new();
    story.inventory("b1", &[entry("ConfigMap", "a", "u1", "d1", "5")]);
    story.sees(&config_map("a", "u1", "9", "1", None)).lists("ConfigMap", &["a"]).is(IN_SYNC);
}

#[test]
fn a_deleted_object_is_missing_and_drift() {
    let mut story = settled();
    story.loses("ConfigMap", "a").is("False/Missing True/ChangedOnTarget b1");
    story.says("ConfigMap prod/a was deleted");
    story.sees(&config_map("a", "u2", "9", "1", None)).is(CHANGED);
    story.says("ConfigMap prod/a was deleted and made again");
}

#[test]
fn a_new_list_without_the_object_says_that_it_is_gone() {
    let mut story = settled();
    story.lists("ConfigMap", &[]).is("False/Missing True/ChangedOnTarget b1");
}

#[test]
fn an_object_that_never_shows_is_missing_after_a_while() {
    let mut story = Story::new();
    story.inventory("b1", &[entry("ConfigMap", "a", "u1", "d1", "5")]).lists("ConfigMap", &[]);
    story.waits(9).is("Unknown/Unknown Unknown/Unknown premature");
    story.waits(2).is("False/Missing True/ChangedOnTarget b1");
}

#[test]
fn health_is_the_worst_of_all_objects() {
    let mut story = Story::new();
    let entries = [entry("ConfigMap", "a", "u1", "d1", "5"), entry("Deployment", "w", "u2", "d2", "6")];
    story.inventory("b1", &entries).sees(&config_map("a", "u1", "5", "1", None)).lists("ConfigMap", &["a"]);
    let deployment = |status: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}, "status": status,
            "metadata": {"namespace": "prod", "name": "w", "uid": "u2", "resourceVersion": "6", "generation": 1},
        })
    };
    story.sees(&deployment(json!({}))).lists("Deployment", &["w"]).is("False/Progressing False/InSync b1");
    assert_eq!(story.verdict().healthy_objects, 1);
    let late = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    story
        .sees(&deployment(json!({"observedGeneration": 1, "conditions": late})))
        .is("False/Degraded False/InSync b1");
    story.says("1 of 2 objects are healthy: Deployment prod/w is Degraded");
}

#[test]
fn a_broken_watch_makes_its_own_kind_unknown_until_it_has_listed_again() {
    let mut story = Story::new();
    let entries = [entry("ConfigMap", "a", "u1", "d1", "5"), entry("Deployment", "w", "u2", "d2", "6")];
    story.inventory("b1", &entries).sees(&config_map("a", "u1", "5", "1", None)).lists("ConfigMap", &["a"]);
    story.is("Unknown/Unknown Unknown/Unknown premature");
    let kind = story.kind("Deployment");
    story.model.failed(&kind, Fault::new(reason::WATCH_FORBIDDEN, "may not"), story.now);
    story.is("Unknown/WatchForbidden Unknown/WatchForbidden -");
    let why = "Deployment (apps/v1) cannot be watched (WatchForbidden: may not)";
    story.says(why);
    let drifted = story.verdict().drifted.unwrap().message;
    assert_eq!(drifted, format!("1 of 2 objects were not seen as they were applied yet: {why}"));
    assert!(story.model.has_broken_watch());
    story.now += Duration::from_secs(3600);
    story.is("Unknown/WatchForbidden Unknown/WatchForbidden -");
    // Another Release that has no Deployment is not touched.
    let mut inventory = ReleaseInventory::default();
    inventory.spec.bundle_digest = "b9".to_owned();
    inventory.spec.entries = vec![entry("ConfigMap", "a", "u1", "d1", "5")];
    let other = StoreKey::new("team", "other");
    story.model.set_inventories(&other, &[&inventory], story.now);
    assert_eq!(judge(&story.model, &other, DriftMode::Correct, story.now).unwrap().healthy.reason, "Healthy");
    assert_eq!(story.model.releases_of_kind(&kind), std::slice::from_ref(&story.release));
    assert_eq!(
        story.model.releases_with(&story.kind("ConfigMap"), &("prod".to_owned(), "a".to_owned())).len(),
        2
    );
    story.lists("Deployment", &[]).is("False/Missing True/ChangedOnTarget b1");
    assert!(!story.model.has_broken_watch());
}

/// What a dry run said of the only object, as it is.
fn tested(story: &mut Story, version: &str, outcome: Outcome) {
    let id = (story.kind("ConfigMap"), ("prod".to_owned(), "a".to_owned()));
    story.model.tested(
        &story.release.clone(),
        &id,
        crate::model::Tested { version: version.to_owned(), outcome },
    );
}

#[test]
fn a_suspicion_is_tried_out_once_and_what_that_says_is_said() {
    let suspected = |story: &Story| {
        let all = suspects(&story.model, &story.release, story.now);
        all.into_iter().map(|(_, version)| version).collect::<Vec<_>>()
    };
    let changed = |version: &str| {
        let mut object = config_map("a", "u1", version, "theirs", Some("kubectl-edit"));
        object["metadata"]["managedFields"][0]["fieldsV1"] = json!({});
        object
    };
    let mut story = settled();
    assert!(suspected(&story).is_empty());
    story.sees(&changed("9")).is(CHANGED);
    assert_eq!(suspected(&story), ["9"]);
    tested(&mut story, "9", Outcome::Confirmed(vec!["/data/b".to_owned()]));
    assert!(suspected(&story).is_empty());
    assert_eq!(story.is(CHANGED).verdict().drifted_objects[0].fields, ["/data/b"]);

    // Another version is another suspicion.
    story.sees(&changed("10"));
    assert_eq!(suspected(&story), ["10"]);
    let until = story.now + Duration::from_secs(30);
    tested(&mut story, "10", Outcome::Untried { why: "a webhook is down".to_owned(), until });
    assert!(suspected(&story).is_empty());
    let verdict = story.is(CHANGED).verdict();
    let message = verdict.drifted.unwrap().message;
    assert!(message.ends_with("(no dry run has confirmed it: a webhook is down)"), "{message}");

    // That the webhook is up again changes no object: it is tried again by itself, after a while.
    assert_eq!(verdict.look_again, Some(Duration::from_secs(30)));
    story.now = until;
    assert_eq!(suspected(&story), ["10"]);
    let look_again = story.verdict().look_again;
    assert!(look_again.is_some_and(|span| span >= Duration::from_secs(1)), "{look_again:?}");
    tested(&mut story, "10", Outcome::Confirmed(vec!["/data/b".to_owned()]));
    assert!(suspected(&story).is_empty());
    assert_eq!(story.is(CHANGED).verdict().look_again, None);

    // What is refuted is how it is to be, from then on; of another version that says nothing.
    story.sees(&changed("11"));
    tested(&mut story, "10", Outcome::Refuted);
    assert_eq!(suspected(&story), ["11"]);
    tested(&mut story, "11", Outcome::Refuted);
    assert!(suspected(&story).is_empty());
    story.is(IN_SYNC);
}

#[test]
fn a_cluster_none_of_whose_watches_is_answered_is_not_looked_at() {
    let mut story = settled();
    let kind = story.kind("ConfigMap");
    story.model.failed(&kind, Fault::new(reason::CLUSTER_UNREACHABLE, "refused"), story.now);
    story.is("Unknown/ClusterUnreachable Unknown/ClusterUnreachable -");
    story.lists("ConfigMap", &["a"]).is(IN_SYNC);
}

#[test]
fn an_unreachable_cluster_makes_all_unknown_and_hides_no_drift_for_good() {
    let mut story = settled();
    story.model.unreachable = Some("no route".to_owned());
    story
        .is("Unknown/ClusterUnreachable Unknown/ClusterUnreachable -")
        .says("the cluster cannot be watched: no route");
    story.model.unreachable = None;
    story.is(IN_SYNC);
}

#[test]
fn kinds_are_wanted_as_long_as_an_entry_names_them() {
    let mut story = Story::new();
    let kinds = |story: &Story| story.model.wanted_kinds().map(|kind| kind.kind.clone()).collect::<Vec<_>>();
    story.inventory(
        "b1",
        &[
            entry("ConfigMap", "a", "", "", ""),
            entry("ConfigMap", "b", "", "", ""),
            entry("Deployment", "w", "", "", ""),
        ],
    );
    assert_eq!(kinds(&story), ["ConfigMap", "Deployment"]);
    story.inventory("b1", &[entry("ConfigMap", "b", "", "", ""), entry("ConfigMap", "b", "", "", "")]);
    assert_eq!(kinds(&story), ["ConfigMap"]);
    assert!(story.model.set_inventories(&story.release.clone(), &[], story.now));
    assert!(
        kinds(&story).is_empty()
            && judge(&story.model, &story.release, DriftMode::Correct, story.now).is_none()
    );
}

#[test]
fn parts_that_speak_of_two_bundles_name_none() {
    let mut story = settled();
    let parts = ["b1", "b2"].map(|digest| {
        let mut inventory = ReleaseInventory::default();
        inventory.spec.bundle_digest = digest.to_owned();
        inventory
    });
    story.model.set_inventories(&story.release.clone(), &[&parts[0], &parts[1]], story.now);
    story.is("True/Healthy False/InSync -");
}

#[test]
fn the_object_and_who_changed_it_are_named() {
    let mut story = settled();
    let mut changed = config_map("a", "u1", "9", "theirs", Some("kubectl-edit"));
    changed["metadata"]["managedFields"][0]["fieldsV1"] = json!({});
    story.sees(&changed).is(CHANGED);
    let verdict = story.verdict();
    story.says(
        r#"ConfigMap prod/a was changed at /data/a by the field manager "kubectl-edit" after "convoy" applied it"#,
    );
    assert_eq!(
        json!(verdict.drifted_objects),
        json!([{"kind": "ConfigMap", "namespace": "prod", "name": "a", "manager": "kubectl-edit", "fields": ["/data/a"]}])
    );
    let ignoring = judge(&story.model, &story.release, DriftMode::Ignore, story.now).unwrap();
    assert_eq!((ignoring.drifted, ignoring.drifted_objects), (None, Vec::new()));
}

/// Rules that come while an object is drifted have its kind listed anew; until then nothing is said.
#[test]
fn rules_that_come_later_take_back_what_they_leave_alone_and_nothing_else() {
    let rule = convoy_api::IgnoreRule { paths: vec!["/data/a".to_owned()], ..Default::default() };
    let mut release = convoy_api::Release::default();
    release.spec.drift = Some(convoy_api::DriftPolicy { mode: None, ignore: vec![rule] });
    let rules = seen::Rules::of_release(&release);
    for (field, want) in [("a", IN_SYNC), ("b", CHANGED)] {
        let mut story = settled();
        let mut changed = config_map("a", "u1", "9", "theirs", Some("kubectl-edit"));
        changed["metadata"]["managedFields"][0]["fieldsV1"] = json!({});
        changed["metadata"]["managedFields"][1]["fieldsV1"] = json!({"f:data": {format!("f:{field}"): {}}});
        story.sees(&changed).is(CHANGED);
        assert!(story.model.set_rules(&story.release.clone(), rules.as_ref()));
        assert!(!story.model.set_rules(&story.release.clone(), rules.as_ref()));
        let kinds: Vec<_> = story.model.take_relists().into_iter().map(|kind| kind.kind.clone()).collect();
        assert_eq!(kinds, ["ConfigMap"]);
        assert!(story.verdict().is_premature);
        story.sees(&changed).is(want);
        // And again when they go: it was written by others, and is applied anew.
        assert!(story.model.set_rules(&story.release.clone(), None));
        story.sees(&changed).is(CHANGED);
    }
}

#[test]
fn the_end_of_a_hook_that_is_waited_for_changes_what_is_said_and_nothing_else() {
    let mut story = settled();
    let object = entry("ConfigMap", "a", "u1", "d1", "5");
    let of_hook = |uid: &str| InventoryEntry { hook: true, ..entry("Pod", "migrate", uid, "d", "7") };
    let pod = |uid: &str, phase: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "status": {"phase": phase},
            "metadata": {"namespace": "prod", "name": "migrate", "uid": uid, "resourceVersion": "8"},
        })
    };
    let before = story.verdict();
    let same = |story: &Story| {
        let now = story.verdict();
        let of =
            |verdict: &Verdict| (verdict.healthy.clone(), verdict.drifted.clone(), verdict.healthy_objects);
        assert_eq!(of(&now), of(&before), "neither its health nor its drift count");
    };
    story.hook(HookState::Running, &[object.clone(), of_hook("u9")]);
    same(&story);
    story.sees(&pod("u9", "Running")).lists("Pod", &["migrate"]);
    same(&story);
    story.sees(&pod("u9", "Failed"));
    let ended = story.verdict().healthy;
    assert_eq!(
        ended,
        Finding {
            message: format!("{}; hooks that have ended: 1", before.healthy.message),
            ..before.healthy.clone()
        }
    );
    // It is begun once more: what is there is of the run before.
    story.hook(HookState::Running, &[object.clone(), of_hook("")]);
    same(&story);
    story.hook(HookState::Running, &[object.clone(), of_hook("u10")]);
    same(&story);
    story.sees(&pod("u10", "Succeeded"));
    assert_eq!(story.verdict().healthy, ended);
    // It is recorded: nobody waits, and nothing of it is watched.
    story.hook(HookState::Succeeded, &[object, of_hook("u10")]);
    same(&story);
    assert!(story.model.wanted_kinds().all(|kind| kind.kind != "Pod"));
}
