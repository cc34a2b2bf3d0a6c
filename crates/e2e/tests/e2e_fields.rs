//! Fields of Clusters and Releases that say how much, how, where to and with what, on a simulated cluster.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_e2e::{Cli, Convoy, Kubectl, until};
use convoy_testkit::{leave_out, program};
use serde_json::{Value, json};

const API: &str = "convoy.kumodo.io/v1alpha1";

/// A control plane, a simulated cluster, and a Git repository.
struct Stage {
    folder: tempfile::TempDir,
    host: Kubectl,
    target: Kubectl,
    _convoy: Convoy,
    _sandbox: Convoy,
}

impl Stage {
    /// With a Secret `k` that holds the kubeconfig of the simulated cluster, and a GitRepository `r`. `None` when
    /// kubectl is not built.
    fn set(files: &[(&str, &str)]) -> Option<Self> {
        let kubectl: PathBuf = program("kubectl").inspect_err(|missing| leave_out(missing)).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (targets, audit_log, data) = (path("targets"), path("audit.log"), path("convoy"));
        let sandbox = ["sandbox", "--clusters", "1", "--dir", &targets, "--audit-log-path", &audit_log];
        let sandbox = Convoy::start(&sandbox).unwrap();
        let convoy = Convoy::start(&["standalone", "--data-dir", &data, "--port", "0"]).unwrap();
        let kubeconfig = folder.path().join("targets/cluster-1.kubeconfig");
        let host = Kubectl::new(&kubectl, &folder.path().join("convoy/admin.kubeconfig"));
        let target = Kubectl::new(&kubectl, &kubeconfig);
        let stage = Self { folder, host, target, _convoy: convoy, _sandbox: sandbox };
        commit(&stage.repository(), files);
        stage.kubeconfig("default");
        stage.repository_of("default");
        Some(stage)
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    fn apply(&self, namespace: &str, object: &Value) {
        self.host.ok_with(&["apply", "-n", namespace, "-f", "-"], &object.to_string());
    }

    fn kubeconfig(&self, namespace: &str) {
        let text = std::fs::read_to_string(self.folder.path().join("targets/cluster-1.kubeconfig")).unwrap();
        self.apply(
            namespace,
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"}, "stringData": {"kubeconfig": text}}),
        );
    }

    fn repository_of(&self, namespace: &str) {
        let spec = json!({"url": format!("file://{}", self.repository().display()), "interval": "1s"});
        let repository =
            json!({"apiVersion": API, "kind": "GitRepository", "metadata": {"name": "r"}, "spec": spec});
        self.apply(namespace, &repository);
    }

    /// A Cluster `c` with more of its spec.
    fn cluster(&self, namespace: &str, more: &Value) {
        let mut spec = json!({"kubeconfig": {"secretRef": {"name": "k"}}});
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        self.apply(
            namespace,
            &json!({"apiVersion": API, "kind": "Cluster", "metadata": {"name": "c"}, "spec": spec}),
        );
    }

    fn release_of(name: &str, path: &str, more: &Value) -> Value {
        let mut spec = json!({
            "clusterRef": {"name": "c"},
            "source": {"git": {"repositoryRef": {"name": "r"}, "path": path}},
            "targetNamespace": name,
            "createNamespace": true,
        });
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        json!({"apiVersion": API, "kind": "Release", "metadata": {"name": name}, "spec": spec})
    }

    fn release(&self, namespace: &str, name: &str, path: &str, more: &Value) {
        self.apply(namespace, &Self::release_of(name, path, more));
    }

    /// Waits for Ready with the status and the reason, of the present spec.
    fn says(&self, namespace: &str, release: &str, status: &str, reason: &str) -> Value {
        until(&format!("{namespace}/{release} is {status} because of {reason}"), || {
            let object = self.host.object(&["release", release, "-n", namespace])?;
            let conditions = object["status"]["conditions"].as_array()?;
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
            let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            (current && ready["status"] == status && ready["reason"] == reason).then(|| object.clone())
        })
    }

    /// Says why an object is not taken.
    fn refusal(&self, object: &Value) -> String {
        let output = self.host.command(&["apply", "-f", "-"], &object.to_string());
        assert!(!output.status.success(), "it was taken: {object}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The controller-manager's requests to namespaces of the target: when, verb, namespace.
    fn requests(&self) -> Vec<(f64, String, String)> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut requests: Vec<_> = events
            .filter(|event| event["userAgent"].as_str().unwrap_or_default().contains("controller-manager"))
            .filter_map(|event| {
                let (_, rest) = event["requestURI"].as_str()?.split_once("/namespaces/")?;
                let namespace = rest.split(['/', '?']).next()?.to_owned();
                let at: jiff::Timestamp = event["requestReceivedTimestamp"].as_str()?.parse().ok()?;
                Some((at.as_nanosecond() as f64 / 1e9, event["verb"].as_str()?.to_owned(), namespace))
            })
            .collect();
        requests.sort_by(|a, b| a.0.total_cmp(&b.0));
        requests
    }
}

fn commit(repository: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = repository.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for arguments in [
        &["init", "--quiet", "--initial-branch", "main", "."][..],
        &["add", "--all"],
        &["-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "--quiet", "-m", "change"],
    ] {
        let status = Command::new("git").arg("-C").arg(repository).args(arguments).status();
        assert!(status.unwrap().success(), "git {arguments:?}");
    }
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: '1'}}\n")
}

#[test]
fn limits_of_a_cluster_hold_and_change_without_a_restart() {
    let maps: Vec<(String, String)> =
        (0..8).map(|n| (format!("m/{n}.yaml"), config_map(&format!("m{n}")))).collect();
    let files: Vec<(&str, &str)> = maps.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let Some(stage) = Stage::set(&files) else { return };
    let of = |limits: Value| {
        json!({"apiVersion": API, "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {"kubeconfig": {"secretRef": {"name": "k"}}, "limits": limits}})
    };
    for (limits, path) in [
        (json!({"qps": 0}), "spec.limits.qps"),
        (json!({"qps": -5}), "spec.limits.qps"),
        (json!({"qps": 1_000_000_000}), "spec.limits.qps"),
        (json!({"burst": 5}), "spec.limits.burst"),
        (json!({"maxConcurrentApplies": 0}), "spec.limits.maxConcurrentApplies"),
        (json!({"maxConcurrentApplies": 100_000}), "spec.limits.maxConcurrentApplies"),
    ] {
        let refusal = stage.refusal(&of(limits));
        assert!(refusal.contains(path), "{path}: {refusal}");
    }

    stage.cluster("default", &json!({"limits": {"qps": 5, "burst": 5, "maxConcurrentApplies": 1}}));
    for name in ["a1", "a2", "a3"] {
        stage.release("default", name, "m", &json!({"apply": {"wait": false}}));
    }
    for name in ["a1", "a2", "a3"] {
        stage.says("default", name, "True", "Succeeded");
    }
    let limited = stage.requests();
    let span = |requests: &[(f64, String, String)]| requests[requests.len() - 1].0 - requests[0].0;
    let at_least = (limited.len() - 5) as f64 / 5.0;
    assert!(limited.len() >= 3 * 9, "{limited:?}");
    assert!(span(&limited) > at_least - 2.0, "{} requests in {} s", limited.len(), span(&limited));
    // One after another.
    let mut spans: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (at, verb, namespace) in &limited {
        if verb != "get" {
            let span = spans.entry(namespace.as_str()).or_insert((*at, *at));
            span.1 = *at;
        }
    }
    let mut spans: Vec<_> = spans.into_values().collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(spans.len(), 3);
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "at a time: {spans:?}");

    stage.host.ok(&[
        "patch",
        "cluster",
        "c",
        "--type=merge",
        "-p",
        r#"{"spec":{"limits":{"qps":null,"burst":null,"maxConcurrentApplies":4}}}"#,
    ]);
    let names: Vec<String> = (0..6).map(|n| format!("b{n}")).collect();
    for name in &names {
        stage.release("default", name, "m", &json!({"apply": {"wait": false}}));
    }
    for name in &names {
        stage.says("default", name, "True", "Succeeded");
    }
    let all = stage.requests();
    let free: Vec<_> =
        all[limited.len()..].iter().filter(|request| request.2.starts_with('b')).cloned().collect();
    let at_the_old_rate = (free.len() - 5) as f64 / 5.0;
    assert!(span(&free) < at_the_old_rate * 0.75, "{} requests in {} s", free.len(), span(&free));
    println!(
        "{} requests in {:.1} s at 5 per second, {} in {:.1} s without",
        limited.len(),
        span(&limited),
        free.len(),
        span(&free)
    );
}

#[test]
fn a_value_of_a_secret_goes_to_its_path_and_shows_nowhere() {
    const PASSWORD: &str = "CANARY, {x: ]=true\n";
    let Some(stage) = Stage::set(&[
        ("c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("c/values.yaml", "db: {user: chart, password: chart}\n"),
        (
            "c/templates/all.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: db}\ndata:\n  user: {{ .Values.db.user | quote }}\n  \
             password: {{ .Values.db.password | quote }}\n  label: {{ index .Values.labels \"example.com/x\" | quote }}\n  \
             plain: {{ .Values.plain | quote }}\n",
        ),
        ("c/templates/NOTES.txt", "The password is {{ .Values.db.password }}.\n"),
    ]) else {
        return;
    };
    stage.cluster("default", &json!({}));
    let secret = json!({"password": PASSWORD, "values.yaml": "db: {user: secret, password: overwritten}"});
    stage.apply(
        "default",
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "stringData": secret}),
    );
    stage.apply(
        "default",
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "db"}, "data": {"password": "none"}}),
    );
    let from = |more: Value| {
        let mut from = json!({"kind": "Secret", "name": "db"});
        from.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        from
    };
    let render =
        |from: Value, values: Value| json!({"render": {"helm": {"valuesFrom": from, "values": values}}});
    let bad =
        render(json!([from(json!({})), from(json!({"key": "password", "targetPath": "db..x"}))]), json!({}));
    let refusal = stage.refusal(&Stage::release_of("web", "c", &bad));
    assert!(refusal.contains("spec.render.helm.valuesFrom[1].targetPath"), "{refusal}");

    let good = render(
        json!([
            from(json!({})),
            from(json!({"key": "password", "targetPath": "db.password"})),
            from(json!({"key": "password", "targetPath": r"labels.example\.com/x"})),
            from(json!({"key": "gone", "targetPath": "db.user", "optional": true})),
            from(json!({"kind": "ConfigMap", "key": "password", "targetPath": "plain"})),
        ]),
        json!({"db": {"user": "own"}}),
    );
    stage.release("default", "web", "c", &good);
    let release = stage.says("default", "web", "True", "Succeeded");
    let map = stage.target.object(&["configmap", "db", "-n", "web"]).unwrap();
    assert_eq!(map["data"], json!({"user": "own", "password": PASSWORD, "label": PASSWORD, "plain": "none"}));
    assert_eq!(release["status"]["notes"], "The password is ***\n.");
    assert!(!release.to_string().contains("CANARY"), "{release}");
}

#[test]
fn a_namespace_that_convoy_creates_has_its_labels_and_another_is_left_alone() {
    let map = config_map("m");
    let Some(stage) = Stage::set(&[("m/m.yaml", &map)]) else { return };
    stage.cluster("default", &json!({}));
    for (spec, path) in [
        (json!({"createNamespace": false, "namespaceLabels": {"team": "a"}}), "spec.namespaceLabels"),
        (
            json!({"namespaceLabels": {"pod-security.kubernetes.io/enforce": "privileged"}}),
            "spec.namespaceLabels[pod-security.kubernetes.io/enforce]",
        ),
        (
            json!({"namespaceLabels": {"kubernetes.io/metadata.name": "kube-system"}}),
            "spec.namespaceLabels[kubernetes.io/metadata.name]",
        ),
    ] {
        let refusal = stage.refusal(&Stage::release_of("new", "m", &spec));
        assert!(refusal.contains(path), "{refusal}");
    }
    stage.target.ok(&["create", "namespace", "old"]);
    let labels = json!({"team": "a", "tier": "1", "pod-security.kubernetes.io/enforce": "restricted"});
    for name in ["new", "old"] {
        stage.release("default", name, "m", &json!({"namespaceLabels": labels}));
        stage.says("default", name, "True", "Succeeded");
    }
    let labels_of = |namespace: &str| {
        let mut labels =
            stage.target.object(&["namespace", namespace]).unwrap()["metadata"]["labels"].clone();
        let own =
            ["kubernetes.io/metadata.name", "app.kubernetes.io/managed-by", "convoy.kumodo.io/release-uid"];
        labels.as_object_mut().unwrap().retain(|name, _| !own.contains(&name.as_str()));
        labels
    };
    assert_eq!(labels_of("new"), labels);
    assert_eq!(labels_of("old"), json!({}));
    // Kept as every object is, from the first moment.
    stage.target.ok(&["label", "--overwrite", "namespace", "new", "team=mallory"]);
    until("the drift is corrected", || (labels_of("new") == labels).then_some(()));

    let fewer = json!({"team": "b", "pod-security.kubernetes.io/enforce": "restricted"});
    stage.release("default", "new", "m", &json!({"namespaceLabels": fewer}));
    until("the labels have changed", || (labels_of("new") == fewer).then_some(()));
    assert_eq!(labels_of("old"), json!({}));
}

#[test]
fn a_cluster_of_another_namespace_is_used_only_while_it_lets_that_and_who_may_not_is_not_told_what_is_there()
{
    let map = config_map("m");
    let Some(stage) = Stage::set(&[("m/m.yaml", &map)]) else { return };
    for namespace in ["fleet", "web"] {
        stage.host.ok(&["create", "namespace", namespace]);
    }
    stage.kubeconfig("fleet");
    stage.repository_of("web");
    stage.cluster("fleet", &json!({"allowedNamespaces": {"matchLabels": {"convoy": "allowed"}}}));
    let elsewhere = json!({"clusterRef": {"name": "c", "namespace": "fleet"}});
    let nowhere = json!({"clusterRef": {"name": "d", "namespace": "fleet"}});
    let bad = json!({"clusterRef": {"name": "c", "namespace": "Fleet"}});
    let refusal = stage.refusal(&Stage::release_of("bad", "m", &bad));
    assert!(refusal.contains("spec.clusterRef.namespace"), "{refusal}");
    stage.release("web", "one", "m", &elsewhere);
    stage.release("web", "two", "m", &nowhere);
    let message = |release: &Value| {
        let conditions = release["status"]["conditions"].as_array().unwrap();
        let of = |type_: &str| conditions.iter().find(|condition| condition["type"] == type_).cloned();
        assert_eq!(of("Stalled").unwrap()["status"], "True", "{release}");
        of("Ready").unwrap()["message"].as_str().unwrap().to_owned()
    };
    let one = message(&stage.says("web", "one", "False", "ClusterNotAllowed"));
    let two = message(&stage.says("web", "two", "False", "ClusterNotAllowed"));
    assert_eq!(one.replace("Cluster c ", "Cluster d "), two);
    assert_eq!(stage.requests(), []);
    let shard = |kind: &str, namespace: &str, name: &str| {
        let object = stage.host.object(&[kind, name, "-n", namespace]).unwrap();
        object["metadata"]["labels"]["convoy.kumodo.io/shard"].clone()
    };
    assert_eq!(shard("release", "web", "one"), shard("cluster", "fleet", "c"));

    // Both ways to let it: the label of the namespace, and the selector of the Cluster.
    stage.host.ok(&["label", "namespace", "web", "convoy=allowed"]);
    stage.says("web", "one", "True", "Succeeded");
    let there = || stage.target.object(&["configmap", "m", "-n", "one"]);
    let first = there().unwrap();
    let inventory = stage.host.object(&["releaseinventory", "one.fleet.c", "-n", "web"]).unwrap();
    assert_eq!(inventory["spec"]["clusterRef"], json!({"name": "c", "namespace": "fleet"}));
    assert_eq!(shard("releaseinventory", "web", "one.fleet.c"), shard("cluster", "fleet", "c"));
    until("the Cluster counts it", || {
        let cluster = stage.host.object(&["cluster", "c", "-n", "fleet"])?;
        (cluster["status"]["releases"] == 1).then_some(())
    });
    stage.host.ok(&["label", "namespace", "web", "convoy-"]);
    stage.says("web", "one", "False", "ClusterNotAllowed");
    let written = stage.requests().len();
    let revision = || {
        let source = stage.host.object(&["gitrepository", "r", "-n", "web"]).unwrap();
        source["status"]["artifact"]["revision"].clone()
    };
    let (old, changed) = (revision(), config_map("m").replace("'1'", "'2'"));
    commit(&stage.repository(), &[("m/m.yaml", &changed)]);
    until("the source has the change", || (revision() != old).then_some(()));
    stage.host.ok(&["annotate", "release", "one", "-n", "web", "convoy.kumodo.io/reconcile-at=now"]);
    until("it was looked at since", || {
        let release = stage.host.object(&["release", "one", "-n", "web"])?;
        (release["status"]["lastHandledReconcileAt"] == "now").then_some(())
    });
    stage.says("web", "one", "False", "ClusterNotAllowed");
    assert_eq!(there().unwrap(), first, "what was delivered stays");
    assert_eq!(stage.requests().len(), written, "and nothing is written");

    let patch = |spec: &str| {
        let patch = format!("{{\"spec\":{{\"allowedNamespaces\":{spec}}}}}");
        stage.host.ok(&["patch", "cluster", "c", "-n", "fleet", "--type=merge", "-p", &patch]);
    };
    patch(r#"{"matchLabels":{"convoy":null,"kubernetes.io/metadata.name":"web"}}"#);
    stage.says("web", "one", "True", "Succeeded");
    until("the change is there", || (there()?["data"]["a"] == "2").then_some(()));
    patch("null");
    stage.says("web", "one", "False", "ClusterNotAllowed");
    // What it has is removed all the same.
    stage.host.ok(&["delete", "release", "one", "-n", "web", "--timeout=60s"]);
    assert_eq!(there(), None);
    until("the namespace is gone", || stage.target.object(&["namespace", "one"]).is_none().then_some(()));
}

/// The files of one revision are chosen anew when the choice changes.
#[test]
fn a_git_repository_leaves_out_what_it_is_told_to() {
    let (one, two) = (config_map("one"), config_map("two"));
    let files = [("m/one.yaml", one.as_str()), ("m/two.yaml", &two), ("m/docs/no.yaml", "{{ no manifest }}")];
    let Some(stage) = Stage::set(&files) else { return };
    stage.cluster("default", &json!({}));
    let choose = |choice: Value| {
        let mut spec = json!({"url": format!("file://{}", stage.repository().display()), "interval": "1s"});
        spec.as_object_mut().unwrap().extend(choice.as_object().cloned().unwrap());
        json!({"apiVersion": API, "kind": "GitRepository", "metadata": {"name": "r"}, "spec": spec})
    };
    let refusal = stage.refusal(&choose(json!({"verify": true})));
    assert!(refusal.contains("spec.verify") && refusal.contains("leave the field out"), "{refusal}");
    let refusal = stage.refusal(&choose(json!({"ignore": ["["]})));
    assert!(refusal.contains("spec.ignore[0]"), "{refusal}");
    stage.apply("default", &choose(json!({"ignore": ["docs", "two.yaml"]})));
    stage.release("default", "a", "m", &json!({}));
    let maps = || {
        let list = stage.target.object(&["configmaps", "-n", "a"])?;
        let items = list["items"].as_array()?.iter();
        let names = items.filter_map(|map| map["metadata"]["name"].as_str());
        Some(names.filter(|name| !name.starts_with("kube-")).map(str::to_owned).collect::<Vec<_>>())
    };
    until("one is there", || (maps()? == ["one"]).then_some(()));
    stage.apply("default", &choose(json!({"include": ["/m/*.yaml"]})));
    until("two came", || (maps()? == ["one", "two"]).then_some(()));
    stage.apply("default", &choose(json!({"include": ["/m/*.yaml"], "ignore": ["one.yaml"]})));
    until("one went", || (maps()? == ["two"]).then_some(()));
}

/// A suspended source fetches nothing, also when it is asked to; a suspended Cluster takes nothing.
#[test]
fn a_kubeconfig_is_at_the_key_that_is_named_and_what_is_suspended_stays_as_it_is() {
    let map = |value: &str| config_map("m").replace("'1'", &format!("'{value}'"));
    let Some(stage) = Stage::set(&[("m/m.yaml", &map("1"))]) else { return };
    let text = std::fs::read_to_string(stage.folder.path().join("targets/cluster-1.kubeconfig")).unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"kubeconfig": "no: kubeconfig", "other": text}});
    stage.apply("default", &secret);
    stage.cluster("default", &json!({"kubeconfig": {"secretRef": {"name": "keys", "key": "other"}}}));
    stage.release("default", "one", "m", &json!({"apply": {"wait": false}}));
    stage.says("default", "one", "True", "Succeeded");

    let object = |kind: &str, name: &str| stage.host.object(&[kind, name]).unwrap();
    let suspend = |kind: &str, name: &str, is: bool| {
        let patch = json!({"spec": {"suspend": is}}).to_string();
        stage.host.ok(&["patch", kind, name, "--type=merge", "-p", &patch]);
        if is {
            until(&format!("{kind} {name} says that it is suspended"), || {
                let status = object(kind, name)["status"].clone();
                let mut conditions = status["conditions"].as_array()?.iter();
                conditions.find(|one| one["type"] == "Ready" && one["reason"] == "Suspended").map(|_| ())
            });
        }
    };
    let live = || stage.target.object(&["configmap", "m", "-n", "one"]).unwrap()["data"]["a"].clone();
    let revision = || object("gitrepository", "r")["status"]["artifact"]["revision"].clone();

    suspend("gitrepository", "r", true);
    let before = revision();
    commit(&stage.repository(), &[("m/m.yaml", &map("2"))]);
    stage.host.ok(&["annotate", "gitrepository", "r", "convoy.kumodo.io/reconcile-at=now"]);
    until("the look that was asked for was made", || {
        (object("gitrepository", "r")["status"]["lastHandledReconcileAt"] == "now").then_some(())
    });
    assert_eq!((revision(), live()), (before, json!("1")));
    suspend("gitrepository", "r", false);
    until("the change is there", || (live() == "2").then_some(()));

    suspend("cluster", "c", true);
    let before = revision();
    commit(&stage.repository(), &[("m/m.yaml", &map("3"))]);
    let committed = std::time::Instant::now();
    until("the change was fetched", || (revision() != before).then_some(()));
    // Without spec.interval it would be a minute.
    assert!(committed.elapsed().as_secs() < 40, "{:?} at an interval of a second", committed.elapsed());
    until("the Release says so", || {
        let said = object("release", "one")["status"]["conditions"].to_string();
        said.contains("the Cluster default/c is suspended").then_some(())
    });
    assert_eq!(live(), "2");
    suspend("cluster", "c", false);
    until("the change is there", || (live() == "3").then_some(()));
}

/// A target that is gone for good: nothing is let go of by itself but after `deletionTimeout`, and each way out ends the
/// deletion.
#[test]
fn a_target_that_is_gone_keeps_no_release_that_somebody_lets_go_of() {
    let map = config_map("m");
    let Some(Stage { folder, host, _convoy, _sandbox: sandbox, target }) = Stage::set(&[("m/m.yaml", &map)])
    else {
        return;
    };
    let apply = |object: &Value| host.ok_with(&["apply", "-f", "-"], &object.to_string());
    let cluster = json!({"apiVersion": API, "kind": "Cluster", "metadata": {"name": "c"}, "spec": {"kubeconfig": {"secretRef": {"name": "k"}}}});
    apply(&cluster);
    let ready = |kind: &str, name: &str| {
        let object = host.object(&[kind, name])?;
        let conditions = object["status"]["conditions"].as_array()?;
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
        Some(format!("{}: {}", ready["reason"].as_str()?, ready["message"].as_str()?))
    };
    let names = ["policy", "forget", "cluster", "timeout"];
    for name in names {
        let mut policy = json!({"wait": false});
        if name == "timeout" {
            policy["deletionTimeout"] = "10s".into();
        }
        apply(&Stage::release_of(name, "m", &json!({"apply": policy})));
        until(&format!("{name} is delivered"), || {
            ready("release", name).filter(|said| said.starts_with("Succeeded"))
        });
        assert!(target.object(&["configmap", "m", "-n", name]).is_some());
    }
    sandbox.kill();
    until("the target is known to be gone", || {
        let now = format!("convoy.kumodo.io/reconcile-at={:?}", std::time::Instant::now());
        host.ok(&["annotate", "--overwrite", "cluster", "c", &now]);
        ready("cluster", "c").filter(|said| said.starts_with("ClusterUnreachable"))
    });
    for name in names {
        host.ok(&["delete", "release", name, "--wait=false"]);
    }
    for name in names {
        let said = until(&format!("{name} says what it waits for"), || {
            ready("release", name).filter(|said| said.contains("not in contact"))
        });
        let ways = said.contains("deletionPolicy to Orphan") && said.contains("delete the Cluster object");
        assert!(said.starts_with("ClusterUnreachable") && ways, "{said}");
        assert_eq!(said.contains("convoy lets go of them"), name == "timeout", "{said}");
    }
    let is_gone = |name: &str| {
        until(&format!("{name} is gone"), || host.object(&["release", name]).is_none().then_some(()));
    };
    let orphan = json!({"spec": {"apply": {"deletionPolicy": "Orphan"}}}).to_string();
    host.ok(&["patch", "release", "policy", "--type=merge", "-p", &orphan]);
    is_gone("policy");
    let cli = Cli::new(&folder.path().join("convoy/admin.kubeconfig"));
    let (code, out, err) = cli.run("forget release forget --yes");
    assert_eq!((code, out.trim()), (Some(0), "release.convoy.kumodo.io/forget forgotten"), "{err}");
    is_gone("forget");
    is_gone("timeout");
    assert!(host.object(&["release", "cluster"]).is_some(), "nobody has let go of it");
    host.ok(&["delete", "cluster", "c", "--wait=false"]);
    is_gone("cluster");
    until("the Cluster is gone", || host.object(&["cluster", "c"]).is_none().then_some(()));
    let left = host.ok(&["get", "releaseinventories", "-o", "name"]);
    assert_eq!(left.trim(), "", "an inventory is left");
    let events = host.ok(&["get", "events", "-o", "json"]);
    assert!(events.contains("LeftBehind"), "what may be on it is told: {events}");
}
