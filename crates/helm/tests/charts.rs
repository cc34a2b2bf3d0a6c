//! Charts from files and archives, and what becomes of their files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use convoy_helm::{
    ArchiveError, Capabilities, Chart, Entropy, Environment, HookEvent, LoadError, ReleaseOptions,
    RenderError, Rendered, TemplateError, TemplateFlags, Values, render, template,
};
use std::io::Write as _;

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn environment() -> Environment {
    Environment::new(jiff::Timestamp::UNIX_EPOCH, Zeros)
}

fn files(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn chart_yaml(name: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n")
}

fn chart(list: &[(&str, &str)]) -> Result<Chart, LoadError> {
    let mut all = files(list);
    if !list.iter().any(|(name, _)| *name == "Chart.yaml") {
        all.push(("Chart.yaml".to_owned(), chart_yaml("app")));
    }
    Chart::load(all)
}

fn rendered(list: &[(&str, &str)]) -> Result<Rendered, RenderError> {
    let chart = chart(list).unwrap();
    render(&chart, &Values::new(), &ReleaseOptions::default(), &Capabilities::default(), &mut environment())
}

/// A .tgz of these files below a folder.
fn archive(folder: &str, list: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, data) in list {
        let mut header = tar::Header::new_gnu();
        let path = format!("{folder}{name}");
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, *data).unwrap();
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar.into_inner().unwrap()).unwrap();
    gzip.finish().unwrap()
}

fn print(list: &[(&str, &str)], flags: &TemplateFlags) -> Result<String, TemplateError> {
    let output = template("rel", flags, &mut |_| Ok(Vec::new()), || chart(list), &mut environment())?;
    Ok(String::from_utf8(output).unwrap())
}

#[test]
fn a_chart_without_chart_yaml_is_none() {
    let error = Chart::load(files(&[("values.yaml", "a: 1")])).unwrap_err();
    assert_eq!(error.helm_text(), "Chart.yaml file is missing");
}

#[test]
fn what_chart_yaml_says_is_checked_in_helms_words() {
    let table = [
        ("name: app\nversion: 0.1.0\n", None),
        ("apiVersion: v2\nversion: 0.1.0\n", Some("validation: chart.metadata.name is required")),
        (
            "apiVersion: v2\nname: a/b\nversion: 0.1.0\n",
            Some("validation: chart.metadata.name \"a/b\" is invalid"),
        ),
        ("apiVersion: v2\nname: app\n", Some("validation: chart.metadata.version is required")),
        (
            "apiVersion: v2\nname: app\nversion: one\n",
            Some("validation: chart.metadata.version \"one\" is invalid"),
        ),
        ("apiVersion: v3\nname: app\nversion: 0.1.0\n", Some("unsupported chart version")),
        (
            "apiVersion: v2\nname: app\nversion: 0.1.0\ntype: other\n",
            Some("validation: chart.metadata.type must be application or library"),
        ),
        (
            "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies: [{name: a, version: '1'}, {name: b, alias: a, version: '1'}]\n",
            Some("validation: more than one dependency with name or alias \"a\""),
        ),
        (
            "apiVersion: v2\nname: [app]\nversion: 0.1.0\n",
            Some(
                "cannot load Chart.yaml: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field Metadata.name of type string",
            ),
        ),
        (
            "a: b: c",
            Some(
                "cannot load Chart.yaml: error converting YAML to JSON: yaml: mapping values are not allowed in this context",
            ),
        ),
    ];
    for (yaml, wanted) in table {
        let found = chart(&[("Chart.yaml", yaml)]).err().map(|error| error.helm_text());
        assert_eq!(found.as_deref(), wanted, "{yaml}");
    }
}

#[test]
fn numbers_in_chart_yaml_become_strings_as_in_go() {
    let chart = chart(&[(
        "Chart.yaml",
        "apiVersion: v2\nname: 7\nversion: 1.10\nappVersion: 1.20\nannotations: {a: true}\n",
    )])
    .unwrap();
    let metadata = &chart.metadata;
    assert_eq!((metadata.name.as_str(), metadata.version.as_str()), ("7", "1.1"));
    assert_eq!(metadata.app_version, "1.2");
    assert_eq!(metadata.annotations.get("a").map(String::as_str), Some("true"));
}

#[test]
fn helmignore_hides_files_and_folders_but_not_in_archives() {
    let list = [
        (".helmignore", "*.bak\nsecret/\n/top.txt\n"),
        ("a.bak", ""),
        ("secret/x", ""),
        ("top.txt", ""),
        ("in/top.txt", ""),
        ("templates/.hidden.yaml", "kind: Never"),
    ];
    let folder = chart(&list).unwrap();
    let names: Vec<&str> = folder.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, [".helmignore", "in/top.txt"]);
    assert_eq!(folder.templates.len(), 0);

    let yaml = chart_yaml("app");
    let mut entries: Vec<(&str, &[u8])> = list.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    entries.push(("Chart.yaml", yaml.as_bytes()));
    let packed = Chart::load_archive(&archive("app/", &entries)).unwrap();
    assert_eq!((packed.files.len(), packed.templates.len()), (5, 1));
}

#[test]
fn archives_that_leave_their_folder_or_are_too_large_are_refused() {
    let yaml = chart_yaml("app");
    let with = |name: &str, data: &[u8]| {
        Chart::load_archive(&archive("", &[("app/Chart.yaml", yaml.as_bytes()), (name, data)])).unwrap_err()
    };
    assert!(matches!(with("app/../../x", b""), LoadError::Archive(ArchiveError::Parent)));
    assert!(matches!(with("app//etc/x", b""), LoadError::Archive(ArchiveError::Absolute)));
    assert!(matches!(with("app/c:/x", b""), LoadError::Archive(ArchiveError::Drive)));
    let large = vec![0; (5 << 20) + 1];
    assert!(matches!(with("app/x", &large), LoadError::Archive(ArchiveError::FileTooLarge(_))));
    assert!(matches!(Chart::load_archive(b"no archive"), Err(LoadError::Archive(ArchiveError::Read(_)))));
}

#[test]
fn subcharts_stand_in_folders_and_archives() {
    let db = chart_yaml("db");
    let tgz = archive("db/", &[("Chart.yaml", db.as_bytes()), ("templates/x.yaml", b"kind: FromArchive")]);
    let mut all: Vec<(String, Vec<u8>)> = files(&[
        ("Chart.yaml", &chart_yaml("app")),
        ("charts/cache/Chart.yaml", &chart_yaml("cache")),
        ("charts/cache/templates/x.yaml", "kind: FromFolder"),
        ("charts/README.md", "no chart"),
        ("charts/_off/x", ""),
    ])
    .into_iter()
    .map(|(name, text)| (name, text.into_bytes()))
    .collect();
    // A file of charts/ itself is a chart without Chart.yaml to Helm.
    let error = Chart::load(all.clone()).unwrap_err();
    assert_eq!(error.helm_text(), "error unpacking subchart README.md in app: Chart.yaml file is missing");
    all.retain(|(name, _)| name != "charts/README.md");
    all.push(("charts/db-0.1.0.tgz".to_owned(), tgz));
    let chart = Chart::load(all).unwrap();
    let release = ReleaseOptions::default();
    let rendered =
        render(&chart, &Values::new(), &release, &Capabilities::default(), &mut environment()).unwrap();
    let found: Vec<(&str, &str)> =
        rendered.manifests.iter().map(|m| (m.source.as_str(), m.kind.as_str())).collect();
    assert_eq!(
        found,
        [
            ("app/charts/db/templates/x.yaml", "FromArchive"),
            ("app/charts/cache/templates/x.yaml", "FromFolder"),
        ]
    );
}

#[test]
fn manifests_are_ordered_by_kind_and_hooks_stand_apart() {
    let hook = "kind: Job\nmetadata:\n  name: h\n  annotations:\n    helm.sh/hook: pre-install, TEST\n    helm.sh/hook-weight: \"-5\"\n    helm.sh/hook-delete-policy: hook-succeeded\n";
    let unknown = "kind: Job\nmetadata:\n  annotations: {helm.sh/hook: sometime}\n";
    let rendered = rendered(&[
        ("templates/a.yaml", "kind: Zebra\n---\nkind: Deployment\n---\nkind: Ant\n---\nkind: Namespace\n"),
        ("templates/b.yaml", "kind: Deployment\nmetadata: {name: second}\n"),
        ("templates/hook.yaml", hook),
        ("templates/unknown.yaml", unknown),
        ("templates/NOTES.txt", "Thanks for {{ .Release.Name }}"),
        ("templates/_partial.yaml", "kind: Never"),
    ])
    .unwrap();
    let kinds: Vec<&str> = rendered.manifests.iter().map(|manifest| manifest.kind.as_str()).collect();
    assert_eq!(kinds, ["Namespace", "Deployment", "Deployment", "Ant", "Zebra"]);
    assert_eq!(&*rendered.notes, b"Thanks for release-name");
    let [hook] = rendered.hooks.as_slice() else { panic!("{:?}", rendered.hooks) };
    assert_eq!(hook.events, [HookEvent::PreInstall, HookEvent::Test]);
    assert_eq!(
        (hook.weight, hook.delete_policies.as_slice()),
        (-5, ["hook-succeeded".to_owned()].as_slice())
    );
}

#[test]
fn what_is_no_yaml_names_its_template() {
    let error = rendered(&[("templates/x.yaml", "a: b: c\n")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "YAML parse error on app/templates/x.yaml: error converting YAML to JSON: yaml: mapping values are not allowed in this context"
    );
    let error = rendered(&[("templates/x.yaml", "- a\n")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "YAML parse error on app/templates/x.yaml: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type util.SimpleHead"
    );
}

#[test]
fn templates_that_cannot_be_parsed_or_fail_name_file_and_line() {
    let error = rendered(&[("templates/x.yaml", "a: b\n{{ if }}\n")]).unwrap_err();
    assert_eq!(error.to_string(), "parse error at (app/templates/x.yaml:2): missing value for if");
    let error = rendered(&[("templates/x.yaml", "a: {{ .Values.x.y }}\n")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "app/templates/x.yaml:1:13\n  executing \"app/templates/x.yaml\" at <.Values.x.y>:\n    nil pointer evaluating interface {}.y"
    );
}

#[test]
fn the_wrong_kubernetes_is_refused() {
    let yaml = "apiVersion: v2\nname: app\nversion: 0.1.0\nkubeVersion: '>=1.99'\n";
    let error = rendered(&[("Chart.yaml", yaml)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "chart requires kubeVersion: >=1.99 which is incompatible with Kubernetes v1.36.0"
    );
    let flags = TemplateFlags { kube_version: Some("1.99.1-gke.5".to_owned()), ..TemplateFlags::default() };
    assert!(print(&[("Chart.yaml", yaml)], &flags).is_ok());
}

#[test]
fn show_only_prints_the_documents_of_matching_templates() {
    let list = [
        ("templates/a.yaml", "kind: A\n---\nkind: B\n"),
        ("templates/sub/c.yaml", "kind: C\n"),
        ("templates/empty.yaml", "{{ if false }}kind: D{{ end }}"),
    ];
    let show = |pattern: &str| {
        print(&list, &TemplateFlags { show_only: vec![pattern.to_owned()], ..TemplateFlags::default() })
    };
    assert_eq!(
        show("templates/*.yaml").unwrap(),
        "---\n# Source: app/templates/a.yaml\nkind: A\n\n\n---\n# Source: app/templates/a.yaml\nkind: B\n\n\n"
    );
    assert_eq!(show("templates/sub/c.yaml").unwrap(), "---\n# Source: app/templates/sub/c.yaml\nkind: C\n\n");
    let error = show("templates/empty.yaml").unwrap_err();
    assert_eq!(error.to_string(), "could not find template templates/empty.yaml in chart");
}

#[test]
fn crds_are_printed_first_when_asked_for() {
    let list = [("crds/a.yaml", "kind: CRD\n"), ("templates/x.yaml", "kind: X")];
    assert_eq!(
        print(&list, &TemplateFlags::default()).unwrap(),
        "---\n# Source: app/templates/x.yaml\nkind: X\n"
    );
    let flags = TemplateFlags { include_crds: true, ..TemplateFlags::default() };
    assert_eq!(
        print(&list, &flags).unwrap(),
        "---\n# Source: app/crds/a.yaml\nkind: CRD\n\n---\n# Source: app/templates/x.yaml\nkind: X\n"
    );
}

#[test]
fn schemas_reach_nothing_outside() {
    for reference in ["http://127.0.0.1:1/x.json", "file:///etc/passwd"] {
        let schema = format!("{{\"$ref\": \"{reference}\"}}");
        let error = rendered(&[("values.schema.json", &schema)]).unwrap_err();
        assert!(error.to_string().contains("references outside of the schema are not followed"), "{error}");
    }
}

#[test]
fn charts_and_what_they_render_to_can_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Chart>();
    shared::<Rendered>();
    shared::<Values>();
    shared::<Capabilities>();
    shared::<RenderError>();
}

#[test]
fn a_render_that_is_cancelled_stops() {
    let chart =
        chart(&[("templates/a.yaml", "{{ range until 1000000 }}{{ range until 1000 }}{{ end }}{{ end }}")])
            .unwrap();
    let asked = std::rc::Rc::new(std::cell::Cell::new(0));
    let counter = std::rc::Rc::clone(&asked);
    let mut environment = environment().with_deadline(move || {
        counter.set(counter.get() + 1);
        counter.get() == 3
    });
    let result = render(
        &chart,
        &Values::new(),
        &ReleaseOptions::default(),
        &Capabilities::default(),
        &mut environment,
    );
    let limit = match result {
        Err(RenderError::Execute { limit, .. }) => limit,
        other => panic!("{other:?}"),
    };
    assert_eq!((limit, asked.get()), (Some(convoy_gotemplate::Limit::Deadline), 3));
}

#[test]
fn show_prints_what_helm_show_prints() {
    let chart = chart(&[
        (
            "Chart.yaml",
            "version: 0.1.0\nname: app\napiVersion: v2\nkeywords: [b, a]\nappVersion: 1.20\nmaintainers: [{name: x, email: x@y.z}]\ndependencies: [{name: d, version: '1', import-values: [e, {child: c, parent: p}]}]\n",
        ),
        ("values.yaml", "# why\na: 1\n"),
        ("README.md", "# app\n"),
        ("crds/a.yaml", "kind: A\n"),
        ("crds/b.yaml", "---\nkind: B\n"),
        ("charts/d/Chart.yaml", "apiVersion: v2\nname: d\nversion: 1.0.0\n"),
        ("charts/d/crds/c.json", "{}"),
    ])
    .unwrap();
    // Printed by helm v4.2.4.
    let all = "apiVersion: v2\nappVersion: \"1.2\"\ndependencies:\n- import-values:\n  - e\n  - child: c\n    parent: p\n  name: d\n  repository: \"\"\n  version: \"1\"\nkeywords:\n- b\n- a\nmaintainers:\n- email: x@y.z\n  name: x\nname: app\nversion: 0.1.0\n\n---\n# why\na: 1\n\n---\n# app\n\n---\nkind: A\n\n---\nkind: B\n\n---\n{}\n";
    assert_eq!(String::from_utf8(convoy_helm::show(&chart, convoy_helm::Part::All)).unwrap(), all);
    assert_eq!(convoy_helm::show(&chart, convoy_helm::Part::Readme), b"# app\n\n");
}
