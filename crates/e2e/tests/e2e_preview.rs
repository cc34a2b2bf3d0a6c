//! `convoy preview`, `diff`, `history` and `health` by a person, through the apiserver and the observer, for a simulated and for a real target.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests, with the machine's clock"
)]

#[path = "support/told.rs"]
mod told;

use std::path::{Path, PathBuf};

use convoy_e2e::repository::Repository;
use convoy_e2e::{Cli, Convoy};
use convoy_runtime::{ProcessIdentity, host_client};
use convoy_testkit::{ControlPlane, Options};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const CANARY: &str = "CANARY-4711-of-a-secret";
/// The canary in base64.
const ENCODED: &str = "Q0FOQVJZLTQ3MTEtb2YtYS1zZWNyZXQ=";

const GADGETS: &str = "\
apiVersion: preview.example/v1
kind: Gadget
metadata: {name: g}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.preview.example}
spec:
  group: preview.example
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
";
const NEW_NAMESPACE: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: fresh}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: inside, namespace: fresh}
";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside}\n";
const CHART: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\n";
/// The canary in every place that a chart can put it.
const TEMPLATES: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: keeps, annotations: {note: {{ .Values.password | quote }}}}
stringData: {password: {{ .Values.password | quote }}, other: "CANARY-4711-of-a-secret {{ .Values.size }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: tells}
data: {plain: {{ .Values.password | quote }}, encoded: {{ .Values.password | b64enc | quote }}, size: {{ .Values.size | quote }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fixed, annotations: {convoy.kumodo.io/replace: Allowed}}
immutable: true
data: {size: {{ .Values.size | quote }}}
{{- if eq (int .Values.size) 1 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: leaves}
{{- else }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: taken}
data: {by: convoy}
---
apiVersion: v1
kind: Secret
metadata: {name: refused}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: "CANARY-4711-of-a-secret is no JSON"}
{{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: same}
"#;
const HOOK: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: before, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
data: {secret: {{ .Values.password | quote }}}
"#;

struct World {
    folder: tempfile::TempDir,
    client: Client,
    target: Client,
    audit_log: PathBuf,
    is_real: bool,
    _standalone: Convoy,
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "convoy.kumodo.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "convoy.kumodo.io/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn core(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", kind))
}

impl World {
    /// A standalone, with this target as the Cluster `here`.
    async fn start(kubeconfig: &Path, audit_log: PathBuf, is_real: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let standalone = Convoy::standalone(&data, &[]).unwrap();
        let identity = ProcessIdentity { process: "test", replica_id: "t".to_owned() };
        let client = host_client(Some(&data.join("admin.kubeconfig")), &identity).await.unwrap();
        let target = host_client(Some(kubeconfig), &identity).await.unwrap();
        let world = Self { folder, client, target, audit_log, is_real, _standalone: standalone };
        world.repository().init();
        world.repository().commit(&[
            ("gadgets/all.yaml", GADGETS),
            ("namespace/all.yaml", NEW_NAMESPACE),
            ("map/all.yaml", MAP),
            ("plain/all.yaml", told::PLAIN),
            ("c/Chart.yaml", CHART),
            ("c/values.yaml", "size: 1\n"),
            ("c/templates/all.yaml", TEMPLATES),
            ("c/templates/hook.yaml", HOOK),
            (
                "broken/all.yaml",
                "kind: Nothing\napiVersion: none.example/v1\nmetadata: {name: a}\n---\njust text\n",
            ),
        ]);
        let secret = |name: &str, key: &str, value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: value}});
        let kubeconfig = std::fs::read_to_string(kubeconfig).unwrap();
        world.create(&core("Secret"), &secret("here", "value", &kubeconfig)).await;
        let values = format!("password: {CANARY}\n");
        world.create(&core("Secret"), &secret("values", "values.yaml", &values)).await;
        let cluster = json!({"kubeconfig": {"secretRef": {"name": "here", "key": "value"}}});
        world.convoy("Cluster", "clusters", "here", &cluster).await;
        let source = json!({"url": world.repository().url(), "interval": "1h"});
        world.convoy("GitRepository", "gitrepositories", "apps", &source).await;
        world
    }

    fn repository(&self) -> Repository {
        Repository::at(&self.folder.path().join("repository"))
    }

    async fn create(&self, resource: &ApiResource, object: &Value) {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", resource);
        api.create(&PostParams::default(), &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
    }

    async fn convoy(&self, kind: &str, plural: &str, name: &str, spec: &Value) {
        let object = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec});
        self.create(&resource(kind, plural), &object).await;
    }

    async fn patch(&self, name: &str, spec: &Value) {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), "default", &resource("Release", "releases"));
        let patch = Patch::Merge(json!({"spec": spec}));
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    fn convoy_cli(&self) -> Cli {
        Cli::new(&self.folder.path().join("data/admin.kubeconfig"))
    }

    /// The preview of a Release as JSON.
    fn preview(&self, what: &str) -> (Option<i32>, Value) {
        let (code, out, err) = self.convoy_cli().run(&format!("preview {what} -o json"));
        (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{what}: {out}{err}")))
    }

    /// All that the target has of some kinds, with the versions.
    async fn versions(&self) -> Vec<String> {
        let mut all = Vec::new();
        for kind in ["ConfigMap", "Secret", "Namespace", "Service"] {
            let api: Api<DynamicObject> = Api::all_with(self.target.clone(), &core(kind));
            for found in api.list(&ListParams::default()).await.unwrap().items {
                let metadata = found.metadata;
                all.push(format!(
                    "{kind} {:?} {:?} {:?}",
                    metadata.namespace, metadata.name, metadata.resource_version
                ));
            }
        }
        all
    }

    /// What observers did on the target beyond looking.
    fn writes(&self) -> Vec<String> {
        let log = std::fs::read_to_string(&self.audit_log).unwrap();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let of_observer = events.filter(|event| text(event, "userAgent").starts_with("convoy-observer"));
        let requests: Vec<(String, String)> =
            of_observer.map(|event| (text(&event, "verb"), text(&event, "requestURI"))).collect();
        assert!(!requests.is_empty(), "the audit log tells of the observer");
        let is_look = |verb: &str| ["get", "list", "watch"].contains(&verb);
        let writes = requests.into_iter().filter(|(verb, uri)| !is_look(verb) && !uri.contains("dryRun=All"));
        writes.map(|(verb, uri)| format!("{verb} {uri}")).collect()
    }
}

/// Action and object of all that a preview shows.
fn actions(preview: &Value) -> Vec<String> {
    let objects = preview["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let mut all: Vec<String> = objects
        .iter()
        .map(|object| format!("{} {} {}", text(object, "action"), text(object, "kind"), text(object, "name")))
        .collect();
    all.sort();
    all
}

fn source(path: &str) -> Value {
    json!({"clusterRef": {"name": "here"}, "source": {"git": {"repositoryRef": {"name": "apps"}, "path": path}},
        "targetNamespace": "default", "interval": "1h", "suspend": true})
}

/// A definition and its object in one Release, and a namespace and what is in it: all are previewed as new.
async fn what_a_release_brings_itself_is_no_problem(world: &World) {
    world.convoy("Release", "releases", "gadgets", &source("gadgets")).await;
    let (code, preview) = world.preview("gadgets");
    assert_eq!(code, Some(0), "{preview:#}");
    assert_eq!(
        actions(&preview),
        ["Create CustomResourceDefinition gadgets.preview.example", "Create Gadget g"]
    );
    assert_eq!(preview["operation"], "Install");
    assert!(preview["waits"][0].as_str().unwrap().contains("spec.suspend is true"), "{preview:#}");
    let steps = preview["steps"].as_array().unwrap();
    assert!(
        steps.len() == 1 || steps[1]["waitsFor"].as_str().unwrap().contains("Established"),
        "{preview:#}"
    );

    world.convoy("Release", "releases", "namespace", &source("namespace")).await;
    let (code, preview) = world.preview("namespace");
    assert_eq!(
        (code, actions(&preview)),
        (Some(0), vec!["Create ConfigMap inside".to_owned(), "Create Namespace fresh".to_owned()])
    );

    let mut map = source("map");
    map["targetNamespace"] = json!("nowhere");
    world.convoy("Release", "releases", "map", &map).await;
    let (code, preview) = world.preview("map");
    assert_eq!(code, Some(1), "a namespace that nobody makes is a problem: {preview:#}");
    let said = preview["problems"][0]["message"].as_str().unwrap();
    assert!(said.contains("the namespace nowhere does not exist"), "{said}");
    world.patch("map", &json!({"createNamespace": true})).await;
    world.convoy_cli().until("preview map -o json", "Namespace");
    let (code, preview) = world.preview("map");
    assert_eq!(
        (code, actions(&preview)),
        (Some(0), vec!["Create ConfigMap inside".to_owned(), "Create Namespace nowhere".to_owned()])
    );

    world.convoy("Release", "releases", "broken", &source("broken")).await;
    let (code, out, err) = world.convoy_cli().run("preview broken");
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("2 problems are in the way") && out.contains("serves no Nothing"), "{out}{err}");
}

/// A Release that is not saved.
fn what_is_not_saved_can_be_previewed(world: &World) {
    let file = world.folder.path().join("release.yaml");
    let release = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release",
        "metadata": {"name": "unsaved", "namespace": "default"}, "spec": source("map")});
    std::fs::write(&file, release.to_string()).unwrap();
    let shown = file.display();
    let (code, preview) = world.preview(&format!("-f {shown}"));
    assert_eq!(
        (code, actions(&preview)),
        (Some(0), vec!["Create ConfigMap inside".to_owned()]),
        "{preview:#}"
    );
    assert!(world.convoy_cli().run("get releases -o name").1.lines().all(|name| !name.ends_with("/unsaved")));
    for (line, code, want) in [
        (format!("preview other -f {shown}"), 2, "is unsaved, not other"),
        (format!("preview -f {shown} -n other"), 2, "in namespace default, not other"),
        ("preview".to_owned(), 2, "give the name of a Release"),
        ("preview nobody".to_owned(), 1, "\"nobody\" not found"),
    ] {
        let (got, _, err) = world.convoy_cli().run(&line);
        assert!(got == Some(code) && err.contains(want), "{line}: {got:?} {err}");
    }
    // What a preview says is no Release.
    let (_, out, _) = world.convoy_cli().run("preview map -o json");
    std::fs::write(&file, out).unwrap();
    let (code, _, err) = world.convoy_cli().run(&format!("preview -f {shown}"));
    assert!(code == Some(2) && err.contains("holds no Release"), "{err}");
}

/// All that can be done with an object, and no secret in any of it.
async fn every_action_is_shown_and_no_secret(world: &World) {
    let mut release = source("c");
    release["suspend"] = json!(false);
    release["render"] = json!({"helm": {"valuesFrom": [{"kind": "Secret", "name": "values"}]}});
    world.convoy("Release", "releases", "web", &release).await;
    world.convoy_cli().until("get rel web", "Succeeded");
    let (code, preview) = world.preview("web");
    assert_eq!(code, Some(0), "{preview:#}");
    assert!(preview["counts"]["keep"] == 5 && preview["counts"]["change"].is_null(), "{preview:#}");

    let taken = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken"}, "data": {"by": "hand"}});
    let maps: Api<DynamicObject> = Api::namespaced_with(world.target.clone(), "default", &core("ConfigMap"));
    maps.create(&PostParams::default(), &serde_json::from_value(taken).unwrap()).await.unwrap();
    world.patch("web", &json!({"suspend": true, "render": {"helm": {"values": {"size": 2}}}})).await;
    world.convoy_cli().until("get rel web", "Suspended");
    world.convoy_cli().until("preview web -o json", "Adopt");
    let before = world.versions().await;
    let mut answers = String::new();
    for format in ["table", "wide", "json", "yaml", "name"] {
        let (_, out, err) = world.convoy_cli().run(&format!("preview web -o {format}"));
        assert!(!out.is_empty(), "{format}: {err}");
        answers.push_str(&out);
        answers.push_str(&err);
    }
    for secret in ["CANARY", ENCODED] {
        assert!(!answers.contains(secret), "{answers}");
    }
    assert_eq!(world.versions().await, before, "nothing changed");
    assert_eq!(world.writes(), Vec::<String>::new());

    let (_, diff, _) = world.convoy_cli().run("diff web -o json");
    let diff: Value = serde_json::from_str(&diff).unwrap();
    let (code, preview) = world.preview("web");
    let told = actions(&preview).into_iter().filter(|action| !action.starts_with("Keep"));
    assert_eq!(actions(&diff), told.collect::<Vec<_>>(), "what would be done is what differs: {diff:#}");
    let text = diff.to_string();
    assert!(!text.contains("CANARY") && !text.contains(ENCODED), "{text}");
    assert_eq!(
        actions(&preview),
        [
            "Adopt ConfigMap taken",
            "Change ConfigMap tells",
            "Change Secret keeps",
            "Create Secret refused",
            "Delete ConfigMap leaves",
            "Keep ConfigMap same",
            "Recreate ConfigMap fixed",
            "RunHook ConfigMap before",
        ],
        "{preview:#}"
    );
    assert_eq!(preview["operation"], "Upgrade");
    let problems = preview["problems"].as_array().map_or(&[][..], Vec::as_slice);
    if world.is_real {
        // A simulated cluster does not look into a Secret of this type.
        assert_eq!((code, problems.len()), (Some(1), 1), "what is refused is in the way: {preview:#}");
        assert!(problems[0]["message"].as_str().unwrap().starts_with("Secret default/refused: "));
    } else {
        assert_eq!((code, problems.len()), (Some(0), 0), "{preview:#}");
    }
    let object = |name: &str| {
        let objects = preview["objects"].as_array().unwrap();
        objects.iter().find(|object| object["name"] == name).unwrap().clone()
    };
    let change = object("tells")["changes"].as_array().unwrap().clone();
    assert_eq!(change, [json!({"path": "data.size", "before": "(hidden)", "after": "\"2\""})]);
    assert_eq!(object("keeps")["changes"][0]["after"], "(hidden)");
    assert_eq!(
        object("taken")["changes"].as_array().unwrap().iter().filter(|one| one["path"] == "data.by").count(),
        1
    );
    let steps: Vec<&str> =
        preview["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(steps, ["pre-upgrade hooks", "objects", "prune"]);
    // The mask is only on what is shown.
    let secrets: Api<DynamicObject> = Api::namespaced_with(world.target.clone(), "default", &core("Secret"));
    assert_eq!(secrets.get("keeps").await.unwrap().data["data"]["password"], ENCODED);
}

async fn all_of_it(world: &World) {
    world.convoy_cli().until("get gitrepo apps", "Succeeded");
    world.convoy_cli().until("get cluster here", "True");
    what_a_release_brings_itself_is_no_problem(world).await;
    what_is_not_saved_can_be_previewed(world);
    every_action_is_shown_and_no_secret(world).await;
    told::differences_are_shown_and_no_secret(world).await;
    told::files_of_this_machine_are_compared(world).await;
    told::the_history_is_shown_and_no_secret(world).await;
    told::health_is_a_tree_that_explains(world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulated_cluster_is_previewed_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let audit_log = folder.path().join("audit.log");
    let clusters = folder.path().join("clusters");
    let (log, dir) = (audit_log.to_str().unwrap(), clusters.to_str().unwrap());
    let arguments = ["sandbox", "--clusters", "1", "--dir", dir, "--audit-log-path", log];
    let sandbox = Convoy::start(&arguments).unwrap();
    let kubeconfig = std::fs::read_dir(&clusters)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "kubeconfig"))
        .unwrap();
    all_of_it(&World::start(&kubeconfig, audit_log.clone(), false).await).await;
    drop(sandbox);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_cluster_is_previewed_and_not_touched() {
    let options = Options { controller_manager: true, ..Options::default() };
    let Some(plane) = ControlPlane::start_or_leave_out(&options) else { return };
    all_of_it(&World::start(&plane.kubeconfig(), plane.audit_log(), true).await).await;
}
