//! Plans as tables: what is applied, kept, pruned and refused.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use convoy_plan::{
    ApplyReason, Entry, Fate, HelmRelease, Input, KeepReason, Kinds, LateWrites, Live, LiveObject, ObjectKey,
    Plan, Policy, Problem, Problems, PruneReason, Reapply, ReleaseId, Rendered, RenderedHook, Stage,
    keys_to_look_at, plan,
};
use serde_json::{Value, json};

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    for (group, version, kind, plural, namespaced) in [
        ("", "v1", "ConfigMap", "configmaps", true),
        ("", "v1", "Namespace", "namespaces", false),
        ("", "v1", "Secret", "secrets", true),
        ("", "v1", "Service", "services", true),
        ("apps", "v1", "Deployment", "deployments", true),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
        (
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            false,
        ),
    ] {
        kinds.insert(group, version, kind, plural, namespaced);
    }
    kinds
}

struct Case {
    release: ReleaseId,
    rendered: Vec<Rendered>,
    hooks: Vec<RenderedHook>,
    inventory: Vec<Entry>,
    kinds: Kinds,
    policy: Policy,
    live: BTreeMap<ObjectKey, Live>,
    is_begun: bool,
}

impl Case {
    fn new(objects: Vec<Value>) -> Case {
        let rendered = objects
            .into_iter()
            .enumerate()
            .map(|(index, object)| Rendered { source: format!("file-{index}.yaml"), object, early: false })
            .collect();
        Case {
            release: ReleaseId { uid: "uid-1".into(), namespace: "team".into(), name: "web".into() },
            rendered,
            hooks: Vec::new(),
            inventory: Vec::new(),
            kinds: kinds(),
            policy: Policy { target_namespace: Some("web".into()), prune: true, ..Policy::default() },
            live: BTreeMap::new(),
            is_begun: false,
        }
    }

    fn input(&self) -> Input<'_> {
        Input {
            release: &self.release,
            rendered: &self.rendered,
            hooks: &self.hooks,
            inventory: &self.inventory,
            kinds: &self.kinds,
            policy: &self.policy,
            live: &self.live,
            is_begun: self.is_begun,
        }
    }

    fn plan(&self) -> Result<Plan, Problems> {
        plan(&self.input())
    }

    /// Carries the plan out with success and settles the inventory.
    fn deliver(&mut self) -> Plan {
        let plan = self.plan().unwrap();
        let mut fates = BTreeMap::new();
        for (_, apply) in plan.applies() {
            let uid = format!("uid of {}", apply.target);
            let fate = Fate::Applied {
                uid,
                digest: apply.digest.clone(),
                resource_version: "1".into(),
                created: true,
            };
            fates.insert(apply.target.key.clone(), fate);
        }
        for prune in &plan.prunes {
            fates.insert(prune.target.key.clone(), Fate::Pruned);
        }
        self.inventory = plan.settle(&self.inventory, &fates, LateWrites::Over);
        plan
    }
}

fn key(kind: &str, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { group: String::new(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}})
}

fn names(plan: &Plan) -> Vec<(Stage, String, ApplyReason)> {
    plan.applies().map(|(stage, apply)| (stage, apply.target.to_string(), apply.reason)).collect()
}

fn problems(case: &Case) -> Vec<String> {
    case.plan().unwrap_err().0.iter().map(Problem::to_string).collect()
}

#[test]
fn objects_go_in_stages_and_kind_order_whatever_their_order_in_the_bundle() {
    let case = Case::new(vec![
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "hook"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "front"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}}),
        config_map("settings", "1"),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"},
                "scope": "Namespaced", "versions": [{"name": "v1", "served": true}]}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}),
    ]);
    let create = ApplyReason::Create;
    assert_eq!(
        names(&case.plan().unwrap()),
        [
            (Stage::Namespaces, "Namespace web".to_owned(), create),
            (
                Stage::Definitions,
                "CustomResourceDefinition.apiextensions.k8s.io widgets.example.com".to_owned(),
                create
            ),
            (Stage::Prerequisites, "ConfigMap web/settings".to_owned(), create),
            (Stage::Workloads, "Service web/front".to_owned(), create),
            (Stage::Workloads, "Deployment.apps web/front".to_owned(), create),
            (Stage::Workloads, "Widget.example.com web/w".to_owned(), create),
            (
                Stage::Admission,
                "ValidatingWebhookConfiguration.admissionregistration.k8s.io hook".to_owned(),
                create
            ),
        ]
    );
}

#[test]
fn a_kind_that_only_a_definition_of_the_bundle_brings_is_planned_but_not_looked_at() {
    let case = Case::new(vec![
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"},
                "scope": "Cluster", "versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}]}}),
    ]);
    let looked_at: Vec<String> = keys_to_look_at(&case.input()).unwrap().iter().map(|r| r.path()).collect();
    assert_eq!(looked_at, ["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"]);
    let plan = case.plan().unwrap();
    let widget = plan.applies().last().unwrap().1;
    assert_eq!(widget.target.path(), "/apis/example.com/v1/widgets/w");
}

#[test]
fn what_is_sent_has_our_labels_a_namespace_and_nothing_of_the_servers() {
    let mut map = config_map("settings", "1");
    map["metadata"]["labels"] = json!({"app": "web", "app.kubernetes.io/managed-by": "Helm"});
    map["metadata"]["resourceVersion"] = json!("");
    map["metadata"]["creationTimestamp"] = Value::Null;
    map["metadata"]["annotations"] = Value::Null;
    map["status"] = json!({});
    let case = Case::new(vec![
        map,
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "other"},
            "spec": {"clusterIP": null, "ports": [{"port": 80, "nodePort": null}]}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "all", "namespace": "ignored"}, "aggregationRule": {"clusterRoleSelectors": []}, "rules": []}),
    ]);
    let plan = case.plan().unwrap();
    let sent: Vec<Value> = plan.applies().map(|(_, apply)| apply.object.clone()).collect();
    let labels = json!({"app.kubernetes.io/managed-by": "convoy", "convoy.kumodo.io/release-uid": "uid-1"});
    assert_eq!(
        sent,
        [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "web",
                "labels": {"app": "web", "app.kubernetes.io/managed-by": "convoy", "convoy.kumodo.io/release-uid": "uid-1"}},
                "data": {"a": "1"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "all", "labels": labels}, "aggregationRule": {"clusterRoleSelectors": []}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "other", "labels": labels},
                "spec": {"ports": [{"port": 80}]}}),
        ]
    );
}

#[test]
fn an_unchanged_bundle_plans_nothing_and_looks_at_nothing() {
    let mut case = Case::new(vec![config_map("a", "1"), config_map("b", "1")]);
    case.policy.create_namespace = true;
    case.deliver();
    assert_eq!(keys_to_look_at(&case.input()).unwrap(), []);
    let again = case.plan().unwrap();
    assert!(again.is_empty(), "{again:?}");
    assert_eq!(again.counts().unchanged, 3);
}

#[test]
fn a_shared_target_namespace_is_neither_claimed_nor_looked_at_again() {
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.policy.create_namespace = true;
    let namespace = key("Namespace", "", "web");
    let other = LiveObject { uid: "n".into(), release_uid: Some("uid-2".into()), ..LiveObject::default() };
    case.live.insert(namespace.clone(), Live::Present(other));
    let plan = case.deliver();
    assert_eq!(plan.counts().left, 1);
    assert!(!case.inventory.iter().any(|entry| entry.key == namespace));
    assert_eq!(keys_to_look_at(&case.input()).unwrap(), []);
    assert!(case.plan().unwrap().is_empty());
}

fn namespace_of(plan: &Plan) -> Option<(bool, bool, Value)> {
    let (_, apply) = plan.applies().find(|(_, apply)| apply.target.key.kind == "Namespace")?;
    let mut labels = apply.object["metadata"]["labels"].as_object().cloned().unwrap();
    labels.retain(|name, _| !name.contains("managed-by") && !name.contains("release-uid"));
    Some((apply.create_only, apply.take_over, Value::Object(labels)))
}

#[test]
fn the_namespace_that_convoy_creates_has_the_labels_and_keeps_them_as_they_change() {
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.policy.create_namespace = true;
    let labels = |labels: Value| serde_json::from_value::<BTreeMap<String, String>>(labels).unwrap();
    case.policy.namespace_labels = labels(json!({"team": "a", "tier": "1"}));
    assert_eq!(namespace_of(&case.deliver()), Some((true, true, json!({"team": "a", "tier": "1"}))));
    assert!(case.plan().unwrap().is_empty());
    // Applied with what was created made its own, so that the label that left goes.
    case.policy.namespace_labels = labels(json!({"team": "b"}));
    assert_eq!(namespace_of(&case.deliver()), Some((false, true, json!({"team": "b"}))));
    assert!(case.plan().unwrap().is_empty());
}

#[test]
fn a_namespace_that_was_found_gets_no_labels() {
    let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.policy.create_namespace = true;
    case.policy.namespace_labels = labels.clone();
    let found = LiveObject { uid: "n".into(), ..LiveObject::default() };
    case.live.insert(key("Namespace", "", "web"), Live::Present(found));
    assert_eq!(namespace_of(&case.deliver()), None);
    assert!(case.plan().unwrap().is_empty());

    // One that stood in the bundle before, and was there before convoy.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    let mut case = Case::new(vec![config_map("a", "1"), namespace]);
    case.policy.create_namespace = true;
    case.policy.namespace_labels = labels;
    case.deliver();
    for entry in &mut case.inventory {
        entry.created = false;
    }
    case.rendered.truncate(1);
    let plan = case.plan().unwrap();
    assert_eq!(namespace_of(&plan).map(|(_, _, labels)| labels).unwrap_or(json!({})), json!({}));
}

#[test]
fn a_namespace_that_was_begun_or_is_gone_is_made_and_not_taken_over() {
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.policy.create_namespace = true;
    let of_namespace = |entry: &&mut Entry| entry.key.kind == "Namespace";
    case.deliver();
    let entry = case.inventory.iter_mut().find(of_namespace).unwrap();
    (entry.uid, entry.digest) = (String::new(), String::new());
    case.live.insert(key("Namespace", "", "web"), Live::Absent);
    assert_eq!(
        namespace_of(&case.plan().unwrap()).map(|(create, over, _)| (create, over)),
        Some((true, false))
    );
    // The first request was answered late.
    let own = LiveObject { uid: "n".into(), release_uid: Some("uid-1".into()), ..LiveObject::default() };
    case.live.insert(key("Namespace", "", "web"), Live::Present(own));
    assert_eq!(
        namespace_of(&case.plan().unwrap()).map(|(create, over, _)| (create, over)),
        Some((false, true))
    );
}

#[test]
fn labels_that_a_release_may_not_set_are_problems() {
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.policy.create_namespace = true;
    for (label, value) in
        [("pod-security.kubernetes.io/enforce", "privileged"), ("kubernetes.io/metadata.name", "x")]
    {
        case.policy.namespace_labels = BTreeMap::from([(label.to_owned(), value.to_owned())]);
        let problems = problems(&case);
        assert!(problems.len() == 1 && problems[0].contains(label), "{problems:?}");
    }
}

#[test]
fn only_the_changed_object_is_applied() {
    let mut case = Case::new(vec![config_map("a", "1"), config_map("b", "1")]);
    case.deliver();
    case.rendered[1].object = config_map("b", "2");
    let plan = case.plan().unwrap();
    assert_eq!(names(&plan), [(Stage::Prerequisites, "ConfigMap web/b".to_owned(), ApplyReason::Changed)]);
    assert_eq!(plan.counts().to_string(), "1 to change, 1 unchanged");
}

#[test]
fn drifted_objects_are_applied_again_and_all_when_asked_for() {
    let mut case = Case::new(vec![config_map("a", "1"), config_map("b", "1")]);
    case.deliver();
    case.policy.reapply = Reapply::Drifted(BTreeSet::from([key("ConfigMap", "web", "b")]));
    assert_eq!(
        names(&case.plan().unwrap()),
        [(Stage::Prerequisites, "ConfigMap web/b".to_owned(), ApplyReason::Drifted)]
    );
    case.policy.reapply = Reapply::All;
    assert_eq!(case.plan().unwrap().counts().change, 2);
}

/// Two installations of convoy, or two Clusters of one target: they know nothing of each other.
#[test]
fn what_drifted_because_another_release_took_it_is_not_taken_back() {
    let mut case = Case::new(vec![config_map("a", "1"), config_map("b", "1")]);
    case.deliver();
    let b = key("ConfigMap", "web", "b");
    case.policy.reapply = Reapply::Drifted(BTreeSet::from([b.clone()]));
    let looked_at = keys_to_look_at(&case.input()).unwrap();
    assert!(looked_at.len() == 1 && looked_at[0].key == b, "{looked_at:?}");
    let live = |release: Option<&str>, is_labelled_by_convoy: bool| {
        Live::Present(LiveObject {
            is_labelled_by_convoy,
            is_handed_over: true,
            uid: "uid of ConfigMap web/b".into(),
            release_uid: release.map(str::to_owned),
            owner: release.map(|_| "the Release team/other".to_owned()),
            ..LiveObject::default()
        })
    };
    // A label that somebody wrote by hand is put right as any other field.
    for ours in [live(Some("uid-1"), true), live(None, false), live(Some("uid-2"), false)] {
        case.live = BTreeMap::from([(b.clone(), ours.clone())]);
        let plan = case.plan().unwrap();
        assert_eq!(names(&plan).len(), 1, "{ours:?}");
        assert!(plan.applies().all(|(_, apply)| !apply.take_over), "what kubectl wrote beside it stays");
    }
    case.live = BTreeMap::from([(b, live(Some("uid-2"), true))]);
    assert_eq!(
        problems(&case),
        ["ConfigMap web/b belongs to the Release team/other; remove it from one of the two"]
    );
    case.policy.adopt = true;
    assert_eq!(names(&case.plan().unwrap()).len(), 1, "it was asked for");
}

#[test]
fn what_left_the_bundle_is_pruned_against_the_order_of_kinds() {
    let mut case = Case::new(vec![
        config_map("a", "1"),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "extra"}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}),
    ]);
    case.deliver();
    case.rendered.truncate(1);
    let plan = case.plan().unwrap();
    let pruned: Vec<(String, String, bool)> =
        plan.prunes.iter().map(|p| (p.target.to_string(), p.uid.clone(), p.guarded)).collect();
    let want = |object: &str, guarded| (object.to_owned(), format!("uid of {object}"), guarded);
    assert_eq!(
        pruned,
        [want("Deployment.apps web/d", false), want("Secret web/s", false), want("Namespace extra", true)]
    );
    let kept = plan.keeps.iter().find(|keep| keep.key.name == "kube-system").unwrap();
    assert_eq!(kept.reason, KeepReason::Protected);

    case.policy.prune = false;
    let plan = case.plan().unwrap();
    assert_eq!(plan.prunes, []);
    assert!(plan.keeps.iter().any(|keep| keep.reason == KeepReason::PruneOff));
    case.deliver();
    assert_eq!(case.inventory.len(), 5, "what is not pruned stays recorded");
}

#[test]
fn an_empty_render_prunes_nothing_where_there_was_something() {
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.deliver();
    for documents in
        [vec![], vec![Value::Null], vec![json!({"apiVersion": "v1", "kind": "List", "items": []})]]
    {
        case.rendered = documents
            .into_iter()
            .map(|object| Rendered { source: "empty.yaml".into(), object, early: false })
            .collect();
        case.policy.create_namespace = true;
        assert_eq!(
            problems(&case),
            ["rendering gave no objects, but the Release has 1 on the target; nothing is pruned \
              (delete the Release to remove them)"]
        );
    }
    case.inventory.clear();
    case.policy.create_namespace = false;
    assert!(case.plan().unwrap().is_empty(), "a Release that never had an object may be empty");
}

#[test]
fn all_problems_are_reported_and_none_hides_another() {
    let mut case = Case::new(vec![
        json!("text"),
        json!({"kind": "ConfigMap", "metadata": {"name": "a"}}),
        json!({"apiVersion": "v1", "metadata": {"name": "a"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "../../nodes/n"}}),
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}),
        json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "d"}}),
        json!({"apiVersion": "a/b/c", "kind": "Deployment", "metadata": {"name": "d"}}),
        config_map("twice", "1"),
        config_map("twice", "2"),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l", "labels": []}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "namespace": "a/b"}}),
    ]);
    assert_eq!(
        problems(&case),
        [
            "file-0.yaml: not a Kubernetes object: the document is no mapping",
            "file-1.yaml: not a Kubernetes object: the ConfigMap has no apiVersion",
            "file-2.yaml: not a Kubernetes object: it has no kind",
            "file-3.yaml: ConfigMap has no metadata.name",
            "file-4.yaml: ConfigMap has metadata.generateName; give it a metadata.name, for it is applied again and again",
            "file-5.yaml: ConfigMap has the name 7, which is no string; quote it",
            "file-6.yaml: ConfigMap has the impossible name \"../../nodes/n\"",
            "file-7.yaml: the target serves no Widget in example.com/v1; install its CustomResourceDefinition first, or put it into this Release",
            "file-8.yaml: the target serves no Deployment in apps/v1beta1; it serves v1",
            "file-9.yaml: not a Kubernetes object: the Deployment has the odd apiVersion \"a/b/c\"",
            "ConfigMap web/twice is in the bundle twice: in file-10.yaml and in file-11.yaml; remove one",
            "file-12.yaml: not a Kubernetes object: the ConfigMap \"l\" has metadata, labels or annotations that are no mapping",
            "file-13.yaml: ConfigMap \"n\" has the namespace \"a/b\", which is no namespace's name",
        ]
    );
    case.policy.target_namespace = None;
    case.rendered = vec![Rendered { source: "x.yaml".into(), object: config_map("a", "1"), early: false }];
    assert_eq!(
        problems(&case),
        ["x.yaml: ConfigMap a has no namespace, and the Release has no spec.targetNamespace; set one"]
    );
}

#[test]
fn hostile_nesting_is_a_problem_and_no_overflow() {
    let mut deep = json!({});
    for _ in 0..1_000 {
        deep = Value::Array(vec![deep]);
    }
    let mut map = config_map("deep", "1");
    map["data"] = deep;
    let mut list = config_map("a", "1");
    for _ in 0..10 {
        list = json!({"apiVersion": "v1", "kind": "List", "items": [list]});
    }
    let case = Case::new(vec![map, list]);
    assert_eq!(
        problems(&case),
        [
            "file-1.yaml item 0 item 0 item 0 item 0: not a Kubernetes object: lists are nested deeper than 4",
            "file-0.yaml: not a Kubernetes object: it is nested deeper than 100 levels",
        ]
    );
}

#[test]
fn lists_are_flattened() {
    let case = Case::new(vec![json!({"apiVersion": "v1", "kind": "ConfigMapList",
        "items": [config_map("a", "1"), config_map("b", "1")]})]);
    assert_eq!(case.plan().unwrap().counts().create, 2);
}

#[test]
fn an_object_of_another_release_is_a_problem_and_an_ownerless_one_is_adopted() {
    let mut case = Case::new(vec![config_map("a", "1"), config_map("b", "1")]);
    let live = |release_uid: Option<&str>, owner: Option<&str>| {
        Live::Present(LiveObject {
            uid: "u".into(),
            release_uid: release_uid.map(str::to_owned),
            owner: owner.map(str::to_owned),
            ..LiveObject::default()
        })
    };
    case.live.insert(key("ConfigMap", "web", "a"), live(None, None));
    assert_eq!(names(&case.plan().unwrap())[0].2, ApplyReason::Adopt);
    case.live.insert(key("ConfigMap", "web", "a"), live(Some("uid-1"), None));
    assert_eq!(names(&case.plan().unwrap())[0].2, ApplyReason::Unconfirmed);
    case.live.insert(key("ConfigMap", "web", "a"), live(Some("uid-2"), Some("the Release team/db")));
    case.live.insert(key("ConfigMap", "web", "b"), live(Some("uid-3"), None));
    assert_eq!(
        problems(&case),
        [
            "ConfigMap web/a belongs to the Release team/db; remove it from one of the two",
            "ConfigMap web/b belongs to the Release with the uid uid-3; remove it from one of the two",
        ]
    );
    case.policy.adopt = true;
    assert_eq!(case.plan().unwrap().counts().adopt, 2);
}

#[test]
fn an_ignored_object_is_neither_applied_nor_pruned() {
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.deliver();
    case.rendered[0].object["metadata"]["annotations"] = json!({"convoy.kumodo.io/ignore": "true"});
    case.rendered[0].object["data"] = json!({"a": "2"});
    let plan = case.plan().unwrap();
    assert!(plan.is_empty());
    assert_eq!(plan.keeps[0].reason, KeepReason::Ignored);
}

#[test]
fn a_large_prune_needs_a_word_from_the_user() {
    let mut case = Case::new((0..30).map(|i| config_map(&format!("c{i}"), "1")).collect());
    case.deliver();
    case.rendered.truncate(9);
    assert_eq!(
        case.plan().unwrap_err().0,
        [Problem::LargePrune { pruned: 21, applied: 30, annotation: "convoy.kumodo.io/allow-prune" }]
    );
    case.policy.allow_large_prune = true;
    assert_eq!(case.plan().unwrap().prunes.len(), 21);
}

#[test]
fn an_entry_whose_kind_is_gone_is_marked_so() {
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.kinds.insert("example.com", "v1", "Widget", "widgets", true);
    case.rendered.push(Rendered {
        source: "w.yaml".into(),
        object: json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}),
        early: false,
    });
    case.deliver();
    case.rendered.truncate(1);
    case.kinds = kinds();
    assert_eq!(case.plan().unwrap().prunes[0].reason, PruneReason::KindGone);
    let deletion = Plan::for_deletion(&case.inventory, &case.kinds, LateWrites::Over);
    let reasons: Vec<PruneReason> = deletion.prunes.iter().map(|prune| prune.reason).collect();
    assert_eq!(reasons, [PruneReason::KindGone, PruneReason::ReleaseDeleted]);
}

#[test]
fn a_crash_between_write_ahead_and_settle_never_makes_old_content_look_applied() {
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.deliver();
    case.rendered[0].object = config_map("a", "2");
    let ahead = case.plan().unwrap().write_ahead(&case.inventory, LateWrites::Over);
    // The apply went out, the process died, and meanwhile the source went back to the old content.
    case.inventory = ahead;
    case.rendered[0].object = config_map("a", "1");
    assert_eq!(names(&case.plan().unwrap())[0].2, ApplyReason::Unconfirmed);
}

#[test]
fn a_crash_between_a_prune_and_settle_never_makes_the_object_look_present() {
    let mut case = Case::new(vec![config_map("a", "1"), config_map("b", "1")]);
    case.deliver();
    let removed = case.rendered.pop().unwrap();
    // The delete went out, the process died, and meanwhile the source has the object again.
    case.inventory = case.plan().unwrap().write_ahead(&case.inventory, LateWrites::Over);
    case.rendered.push(removed);
    assert_eq!(
        names(&case.plan().unwrap()),
        [(Stage::Prerequisites, "ConfigMap web/b".to_owned(), ApplyReason::Unconfirmed)]
    );
}

#[test]
fn paths_escape_nothing_that_a_name_may_hold_and_everything_else() {
    let case = Case::new(vec![json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "system:a b?c#d"}})]);
    assert_eq!(
        case.plan().unwrap().applies().next().unwrap().1.target.path(),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%3Fc%23d"
    );
}

fn annotated(name: &str, value: &str, annotation: &str, said: &str) -> Value {
    let mut object = config_map(name, value);
    object["metadata"]["annotations"] = json!({ annotation: said });
    object
}

#[test]
fn a_word_to_convoy_that_means_nothing_stops_the_plan_and_is_named() {
    let table = [
        ("convoy.kumodo.io/apply", "ifNotPresent", "IfNotPresent or Replace"),
        ("convoy.kumodo.io/replace", "true", "Allowed"),
        ("convoy.kumodo.io/prune", "disabled", "Disabled"),
    ];
    let objects = table.iter().map(|(name, value, _)| annotated("a", "1", name, value)).collect();
    let case = Case::new(objects);
    let want: Vec<String> = table
        .iter()
        .enumerate()
        .map(|(index, (name, value, allowed))| {
            format!(
                "file-{index}.yaml: ConfigMap web/a has the annotation {name}: {value:?}; it can be {allowed}"
            )
        })
        .collect();
    assert_eq!(problems(&case), want);
}

#[test]
fn what_is_only_wanted_to_be_there_is_made_once_and_then_left_alone() {
    let optional = |value: &str| annotated("a", value, "convoy.kumodo.io/apply", "IfNotPresent");
    let mut case = Case::new(vec![optional("1")]);
    assert_eq!(keys_to_look_at(&case.input()).unwrap().len(), 1);
    let plan = case.deliver();
    let apply = plan.applies().next().unwrap().1;
    assert!(apply.create_only && apply.uid.is_empty(), "{apply:?}");

    case.rendered[0].object = optional("2");
    assert_eq!(keys_to_look_at(&case.input()).unwrap(), []);
    let plan = case.plan().unwrap();
    assert!(plan.is_empty());
    assert_eq!(plan.keeps[0].reason, KeepReason::Exists);

    // Somebody deleted it, or changed it.
    case.policy.reapply = Reapply::All;
    assert_eq!(keys_to_look_at(&case.input()).unwrap().len(), 1);
    assert_eq!(names(&case.plan().unwrap()).len(), 1);
    let there = LiveObject {
        uid: case.inventory[0].uid.clone(),
        release_uid: Some("uid-1".into()),
        ..LiveObject::default()
    };
    case.live.insert(case.inventory[0].key.clone(), Live::Present(there));
    assert!(case.plan().unwrap().is_empty());
}

#[test]
fn what_earlier_tools_wrote_of_an_adopted_object_is_taken_over() {
    let mut case = Case::new(vec![config_map("a", "1"), config_map("b", "1")]);
    let written = LiveObject { uid: "u".into(), is_handed_over: true, ..LiveObject::default() };
    case.live.insert(key("ConfigMap", "web", "a"), Live::Present(written));
    let plan = case.deliver();
    let taken: Vec<bool> = plan.applies().map(|(_, apply)| apply.take_over).collect();
    assert_eq!(taken, [true, false]);
    case.live.clear();
    case.rendered[0].object = config_map("a", "2");
    assert!(case.plan().unwrap().applies().all(|(_, apply)| !apply.take_over));
}

#[test]
fn the_helm_release_of_the_same_name_is_carried_on_and_another_only_when_asked_for() {
    let helm = |name: &str| HelmRelease { namespace: "web".to_owned(), name: name.to_owned() };
    let mut case = Case::new(vec![config_map("a", "1")]);
    case.policy.helm_release = Some(helm("own"));
    let of = |name: &str| {
        Live::Present(LiveObject { uid: "u".into(), helm_release: Some(helm(name)), ..LiveObject::default() })
    };
    case.live.insert(key("ConfigMap", "web", "a"), of("own"));
    assert_eq!(names(&case.plan().unwrap())[0].2, ApplyReason::Adopt);
    case.live.insert(key("ConfigMap", "web", "a"), of("other"));
    let said = problems(&case);
    assert!(said[0].starts_with("ConfigMap web/a belongs to the Helm release other in web;"), "{said:?}");
    case.policy.adopt = true;
    assert_eq!(names(&case.plan().unwrap())[0].2, ApplyReason::Adopt);
}

#[test]
fn what_is_only_wanted_to_be_there_and_is_another_s_is_neither_taken_nor_looked_for_again() {
    let mut case = Case::new(vec![annotated("a", "1", "convoy.kumodo.io/apply", "IfNotPresent")]);
    let theirs = LiveObject { uid: "u".into(), release_uid: Some("another".into()), ..LiveObject::default() };
    case.live.insert(key("ConfigMap", "web", "a"), Live::Present(theirs));
    let plan = case.deliver();
    assert!(plan.is_empty() && case.inventory.is_empty());
    case.is_begun = true;
    case.live.clear();
    assert_eq!(keys_to_look_at(&case.input()).unwrap(), []);
    assert!(case.plan().unwrap().is_empty());
}

#[test]
fn an_object_that_may_be_made_anew_can_come_late() {
    let may = |value: &str| annotated("a", value, "convoy.kumodo.io/replace", "Allowed");
    let mut case = Case::new(vec![may("1"), annotated("b", "1", "convoy.kumodo.io/apply", "Replace")]);
    case.deliver();
    case.rendered[0].object = may("2");
    case.rendered[1].object = annotated("b", "2", "convoy.kumodo.io/apply", "Replace");
    let plan = case.plan().unwrap();
    let applies: Vec<(bool, bool, bool)> =
        plan.applies().map(|(_, apply)| (apply.recreate, apply.replace, apply.may_create())).collect();
    assert_eq!(applies, [(true, false, true), (false, true, false)]);
    let ahead = plan.write_ahead(&case.inventory, LateWrites::Over);
    assert_eq!(ahead.iter().map(|entry| entry.unanswered).collect::<Vec<_>>(), [true, false]);
}

/// What another program lost for ever: an object whose deletion was refused while its inventory had moved on.
#[test]
fn what_is_refused_to_go_is_kept_in_mind_over_any_number_of_revisions_until_it_is_gone() {
    let mut case = Case::new(vec![config_map("a", "0"), config_map("b", "0")]);
    case.deliver();
    case.rendered.truncate(1);
    let b = key("ConfigMap", "web", "b");
    // Refused by a webhook, without an answer, and not tried at all; each time beside another revision.
    for (revision, fate) in
        [Some(Fate::Refused), Some(Fate::Failed), None, Some(Fate::Refused)].into_iter().enumerate()
    {
        case.rendered[0].object = config_map("a", &format!("{}", revision + 1));
        let plan = case.plan().unwrap();
        let pruned: Vec<&ObjectKey> = plan.prunes.iter().map(|prune| &prune.target.key).collect();
        assert_eq!(pruned, [&b], "revision {revision}");
        assert_eq!(plan.prunes[0].uid, "uid of ConfigMap web/b", "it is still told from another of its name");
        let mut fates: BTreeMap<ObjectKey, Fate> = fate.into_iter().map(|fate| (b.clone(), fate)).collect();
        for (_, apply) in plan.applies() {
            let applied = Fate::Applied {
                uid: "uid of ConfigMap web/a".into(),
                digest: apply.digest.clone(),
                resource_version: "2".into(),
                created: false,
            };
            fates.insert(apply.target.key.clone(), applied);
        }
        case.inventory = plan.settle(&case.inventory, &fates, LateWrites::Over);
        assert!(case.inventory.iter().any(|entry| entry.key == b), "{:?} lost it", fates.get(&b));
    }
    case.deliver();
    assert!(!case.inventory.iter().any(|entry| entry.key == b));
    assert!(case.plan().unwrap().is_empty());
}

#[test]
fn namespaces_that_a_cluster_cannot_do_without_are_never_pruned_even_when_convoy_made_them() {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
        let mut case = Case::new(vec![config_map("a", "1"), namespace, other]);
        case.deliver();
        assert!(case.inventory.iter().all(|entry| entry.created));
        let deletion = Plan::for_deletion(&case.inventory, &case.kinds, LateWrites::Over);
        case.rendered.truncate(1);
        for prunes in [case.plan().unwrap().prunes, deletion.prunes] {
            let namespaces = prunes.iter().filter(|prune| prune.target.key.kind == "Namespace");
            let pruned: Vec<&str> = namespaces.map(|prune| prune.target.key.name.as_str()).collect();
            assert_eq!(pruned, ["other"], "without {name}");
        }
    }
}

#[test]
fn what_the_observer_names_is_applied_again_and_all_when_it_names_too_many() {
    let of = |count: usize| {
        let object = |number: usize| convoy_api::DriftedObject {
            kind: "ConfigMap".into(),
            namespace: "web".into(),
            name: format!("a{number}"),
            ..Default::default()
        };
        Reapply::of_drifted(&(0..count).map(object).collect::<Vec<_>>())
    };
    assert_eq!(of(1), Reapply::Drifted(BTreeSet::from([key("ConfigMap", "web", "a0")])));
    assert_eq!((of(0), of(convoy_api::MAX_DRIFTED_OBJECTS)), (Reapply::All, Reapply::All));
}

/// A rule that comes or goes has the objects applied anew that it chooses, and no other.
#[test]
fn what_is_left_alone_goes_with_the_object_and_its_digest() {
    let mut case = Case::new(vec![config_map("a", "1"), config_map("b", "1")]);
    case.deliver();
    assert!(case.plan().unwrap().is_empty());
    let target = convoy_api::IgnoreTarget { name: Some("a".into()), ..Default::default() };
    let paths = vec!["/data/x".to_owned()];
    case.policy.ignore = vec![convoy_api::IgnoreRule { target: Some(target), paths, managers: Vec::new() }];
    let plan = case.plan().unwrap();
    let applied: Vec<_> =
        plan.applies().map(|(_, apply)| (apply.target.key.name.as_str(), apply.left.is_some())).collect();
    assert_eq!(applied, [("a", true)]);
    case.deliver();
    assert!(case.plan().unwrap().is_empty());
    case.policy.ignore.clear();
    assert_eq!(case.plan().unwrap().applies().count(), 1);
}
