use std::sync::LazyLock;

use convoy_api::HelmRender;
use convoy_helm::functions::Environment;
use convoy_helm::{
    Capabilities, Chart, Data, HelmVersion, HookEvent, KubeVersion, Limit, Manifest, ReleaseOptions,
    Rendered, Values, ValuesError, check_installable, check_name, lay_over, read_values, set_text,
};
use regex::bytes::Regex;
use serde_json::Value;

use crate::bundle::{self, Bundle, RenderedObject};
use crate::dependencies;
use crate::entropy::Seeded;
use crate::error::RenderError;
use crate::folder::Folder;
use crate::input::{RenderInput, ValuesText};
use crate::manifests::{MAX_BYTES, MAX_DOCUMENTS};
use crate::secrets::SecretValues;

/// Renders the chart in a folder as `helm template --include-crds` does. Text that quotes values of Secrets
/// is masked, in errors and in the notes.
pub(crate) fn render(
    folder: &Folder<'_>,
    spec: &HelmRender,
    input: &RenderInput<'_>,
) -> Result<Bundle, RenderError> {
    let mut secrets = SecretValues::default();
    let helm = helm_version(spec);
    let values = values(folder, spec, input, &mut secrets)?;
    let failed = |detail: &str| RenderError::Chart {
        folder: folder.name().to_owned(),
        detail: secrets.masked(detail),
    };
    let load = || {
        let local = dependencies::local(folder, input)?;
        let files = folder.files().map(|(path, content)| (path.to_owned(), content.clone()));
        let files: Vec<_> = files.chain(local).collect();
        let bytes = files.iter().map(|(path, content)| path.len() + content.len()).sum();
        let files = files.iter().map(|(path, content)| (path.clone(), &**content));
        let chart = Chart::load_for(files, helm).map_err(|error| failed(&error.helm_text()))?;
        Ok::<_, RenderError>((chart, bytes))
    };
    let chart = match input.charts {
        // What is loaded depends on nothing else.
        Some(charts) => charts.get(&format!("{} {helm} {}", input.artifact.digest(), folder.name()), load)?,
        None => load()?.0,
    };
    check_installable(&chart).map_err(|error| failed(&error.to_string()))?;
    let name = spec.release_name.as_deref().unwrap_or(input.release_name);
    check_name(name, helm).map_err(|error| failed(&format!("{error}; set spec.render.helm.releaseName")))?;
    let kube_version = KubeVersion::parse(&input.target.kubernetes_version)
        .map_err(|error| failed(&format!("the target's Kubernetes version: {error}")))?;
    let api_versions: Vec<String> = input.target.api_versions.iter().cloned().collect();
    let capabilities = Capabilities { kube_version, api_versions: api_versions.into() };
    let mut release = ReleaseOptions {
        name: name.to_owned(),
        namespace: input.namespace.to_owned(),
        ..ReleaseOptions::default()
    };
    release.limits.max_output = MAX_BYTES;
    let mut environment =
        Environment::new(input.now, Seeded::new(&[input.seed, input.salt].concat(), [input.namespace, name]));
    if let Some(stop) = input.stop.cloned() {
        environment = environment.with_deadline(move || stop.is_over());
    }
    let rendered =
        convoy_helm::render(&chart, &values, &release, &capabilities, &mut environment).map_err(|error| {
            match (error.reached_limit(), input.stop) {
                (Some(Limit::Deadline), Some(stop)) => {
                    RenderError::Stopped { folder: folder.name().to_owned(), seconds: stop.limit.as_secs() }
                }
                _ => failed(&error.to_string()),
            }
        })?;
    bundle(folder, spec, &rendered, &secrets)
}

/// Names of the functions that draw random values or the time, as far as needed to know them.
static DRAWING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new("rand(Alpha|Ascii|Numeric|Bytes|Int)|uuidv4|shuffle|gen(CA|Signed|SelfSigned|PrivateKey)|bcrypt|htpasswd|encryptAES|\\{\\{[^}]*\\b(now|ago)\\b").ok()
});

/// Whether a chart may draw random values or the time: whether the name of a function that does stands in it or in its
/// values. Packed subcharts are not looked into, they may.
pub(crate) fn may_draw(input: &RenderInput<'_>) -> bool {
    let Ok(folder) = Folder::find(input.artifact, input.path) else { return false };
    if folder.file("Chart.yaml").is_none() {
        return false;
    }
    let Some(drawing) = &*DRAWING else { return true };
    let spec = serde_json::to_vec(&input.render).unwrap_or_default();
    let Ok(local) = dependencies::local(&folder, input) else { return true };
    local.iter().any(|(path, content)| path.ends_with(".tgz") || drawing.is_match(content))
        || folder.files().any(|(path, content)| path.ends_with(".tgz") || drawing.is_match(content))
        || input.values_from.iter().any(|values| drawing.is_match(&values.text))
        || drawing.is_match(&spec)
}

fn bundle(
    folder: &Folder<'_>,
    spec: &HelmRender,
    rendered: &Rendered,
    secrets: &SecretValues,
) -> Result<Bundle, RenderError> {
    let mut bundle = Bundle::default();
    let object = |source: &str, text: &[u8]| {
        convoy_yaml::to_json(text).map_err(|error| RenderError::Chart {
            folder: folder.name().to_owned(),
            detail: secrets.masked(&format!("{source} renders to what is no YAML: {error}")),
        })
    };
    if spec.skip_crds != Some(true) {
        for (source, text) in &rendered.crds {
            for document in convoy_yaml::documents(text.bytes()) {
                let document = document.map_err(|error| RenderError::Chart {
                    folder: folder.name().to_owned(),
                    detail: format!("{source}: {error}"),
                })?;
                push(&mut bundle, source, object(source, &document)?, true);
            }
        }
    }
    for manifest in &rendered.manifests {
        push(&mut bundle, &manifest.source, object(&manifest.source, &manifest.content)?, false);
    }
    for hook in &rendered.hooks {
        let Manifest { source, content, .. } = &hook.manifest;
        let events: Vec<_> = hook.events.iter().filter_map(|event| event_of(*event)).collect();
        let object = object(source, content)?;
        // Tests are not run on delivery.
        if events.is_empty() || object.is_null() {
            continue;
        }
        bundle.hooks.push(bundle::Hook {
            source: source.clone(),
            events,
            weight: hook.weight,
            delete_policies: hook.delete_policies.clone(),
            object,
        });
    }
    if bundle.objects.len() + bundle.hooks.len() > MAX_DOCUMENTS {
        return Err(RenderError::TooMuch { what: "documents", limit: MAX_DOCUMENTS });
    }
    let notes = String::from_utf8_lossy(&rendered.notes).trim().to_owned();
    bundle.notes = (!notes.is_empty()).then(|| secrets.masked(&notes));
    Ok(bundle)
}

fn push(bundle: &mut Bundle, source: &str, object: Value, early: bool) {
    if !object.is_null() {
        bundle.objects.push(RenderedObject { source: source.to_owned(), object, early });
    }
}

fn event_of(event: HookEvent) -> Option<convoy_api::HookEvent> {
    Some(match event {
        HookEvent::PreInstall => convoy_api::HookEvent::PreInstall,
        HookEvent::PostInstall => convoy_api::HookEvent::PostInstall,
        HookEvent::PreDelete => convoy_api::HookEvent::PreDelete,
        HookEvent::PostDelete => convoy_api::HookEvent::PostDelete,
        HookEvent::PreUpgrade => convoy_api::HookEvent::PreUpgrade,
        HookEvent::PostUpgrade => convoy_api::HookEvent::PostUpgrade,
        HookEvent::PreRollback => convoy_api::HookEvent::PreRollback,
        HookEvent::PostRollback => convoy_api::HookEvent::PostRollback,
        HookEvent::Test => return None,
    })
}

fn helm_version(spec: &HelmRender) -> HelmVersion {
    match spec.version.unwrap_or_default() {
        convoy_api::HelmVersion::V3 => HelmVersion::V3,
        convoy_api::HelmVersion::V4 => HelmVersion::V4,
    }
}

/// What goes on top of the chart's own values: valuesFiles, then valuesFrom, then values.
fn values(
    folder: &Folder<'_>,
    spec: &HelmRender,
    input: &RenderInput<'_>,
    secrets: &mut SecretValues,
) -> Result<Values, RenderError> {
    let mut merged = Values::new();
    for path in &spec.values_files {
        let failed = |detail: &str| RenderError::Values { from: path.clone(), detail: detail.to_owned() };
        if path.starts_with('/') || path.contains('\\') || path.split('/').any(|segment| segment == "..") {
            return Err(failed(
                "the path is absolute or leaves the chart: give a path from the chart's folder",
            ));
        }
        let clean: Vec<_> = path.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
        let content =
            folder.file(&clean.join("/")).ok_or_else(|| failed("there is no such file in the chart"))?;
        let read = read_values(content, helm_version(spec)).map_err(|error| match place(&error) {
            Some((line, column)) => RenderError::Syntax {
                file: folder.full(&clean.join("/")),
                line,
                column,
                detail: problem(&error),
            },
            None => failed(&problem(&error)),
        })?;
        lay_over(&mut merged, read);
    }
    for from in input.values_from {
        match &from.target_path {
            Some(path) => lay_text(&mut merged, path, from, secrets)?,
            None => lay_over(&mut merged, read_from(from, helm_version(spec), secrets)?),
        }
    }
    for (key, value) in spec.values.iter().flatten() {
        lay_over(&mut merged, Values::from([(key.as_str().into(), Data::from(value))]));
    }
    Ok(merged)
}

/// The values that stand in a ConfigMap or a Secret.
fn read_from(
    from: &ValuesText,
    helm: HelmVersion,
    secrets: &mut SecretValues,
) -> Result<Values, RenderError> {
    let read = read_values(&from.text, helm).map_err(|error| {
        // The reader's text may quote what it failed on.
        let problem = if from.is_secret { "it is no YAML mapping".to_owned() } else { problem(&error) };
        let place = place(&error).map(|(line, column)| format!("line {line}, column {column}: "));
        RenderError::Values { from: from.from.clone(), detail: place.unwrap_or_default() + &problem }
    })?;
    if from.is_secret {
        secrets.learn(&read);
    }
    Ok(read)
}

/// Lays the text of a ConfigMap or a Secret in at a path.
fn lay_text(
    merged: &mut Values,
    path: &str,
    from: &ValuesText,
    secrets: &mut SecretValues,
) -> Result<(), RenderError> {
    let failed = |detail: String| RenderError::Values { from: from.from.clone(), detail };
    let text = std::str::from_utf8(&from.text)
        .map_err(|_| failed(format!("it is no text in UTF-8, which targetPath {path} needs")))?;
    if from.is_secret {
        secrets.learn(&Values::from([("".into(), Data::String(text.into()))]));
    }
    // Other values may stand in the way, and errors name their kind only.
    set_text(path, text, merged).map_err(|error| failed(format!("targetPath {path}: {error}")))
}

/// Line and column of a problem with values.
fn place(error: &ValuesError) -> Option<(usize, usize)> {
    match error {
        ValuesError::Separator(error) => Some((error.line, 1)),
        ValuesError::Yaml(error) => error.position(),
        ValuesError::NotAMap(_) => None,
    }
}

fn problem(error: &ValuesError) -> String {
    match error {
        ValuesError::Separator(error) => error.to_string(),
        ValuesError::Yaml(convoy_yaml::Error::Syntax { problem, .. }) => problem.clone(),
        ValuesError::Yaml(error) => error.to_string(),
        ValuesError::NotAMap(found) => format!("values must be a mapping, this is a {found}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Stop, TargetFacts};
    use bytes::Bytes;
    use convoy_api::Artifact;
    use serde_json::json;

    fn merged(
        files: &[(&str, &str)],
        values_files: &[&str],
        values_from: &[ValuesText],
        own: &Value,
    ) -> Result<Values, RenderError> {
        let files =
            files.iter().map(|(path, text)| ((*path).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
        let artifact = Artifact::new("main@sha1:1", files.collect());
        let spec = HelmRender {
            values_files: values_files.iter().map(|path| (*path).to_owned()).collect(),
            values: own.as_object().cloned(),
            ..HelmRender::default()
        };
        let target = TargetFacts::default();
        let input = RenderInput {
            artifact: &artifact,
            path: "chart",
            render: None,
            values_from,
            release_name: "web",
            namespace: "prod",
            target: &target,
            seed: b"",
            salt: b"",
            now: jiff::Timestamp::UNIX_EPOCH,
            charts: None,
            stop: None,
        };
        let folder = Folder::find(&artifact, "chart")?;
        let merged = values(&folder, &spec, &input, &mut SecretValues::default())?;
        Ok(merged)
    }

    fn secret(text: &str) -> ValuesText {
        ValuesText {
            from: "Secret web, key values.yaml".to_owned(),
            text: text.as_bytes().to_vec(),
            target_path: None,
            is_secret: true,
        }
    }

    fn at(path: &str, text: &str) -> ValuesText {
        ValuesText { target_path: Some(path.to_owned()), ..secret(text) }
    }

    #[test]
    fn later_values_win_and_mappings_are_merged() {
        let files = [
            ("chart/Chart.yaml", ""),
            ("chart/env/a.yaml", "x: {a: 1, b: 1}\nl: [1, 2]"),
            ("chart/b.yaml", "x: {b: 2}"),
        ];
        let got = merged(
            &files,
            &["env/a.yaml", "./b.yaml"],
            &[secret("x: {c: 3}\nl: [3]")],
            &json!({"x": {"a": null}}),
        );
        let want = Data::from(&json!({"x": {"a": null, "b": 2, "c": 3}, "l": [3]}));
        assert_eq!(Data::Map(got.unwrap()), want);
    }

    #[test]
    fn texts_go_to_their_paths_in_the_order_of_values_from() {
        let files = [("chart/Chart.yaml", ""), ("chart/f.yaml", "db: {user: file, password: file}\nl: [1]")];
        let from = [
            at("db.password", "first"),
            secret("db: {password: yaml, host: yaml}"),
            at("db.host", "a: {b, c=d]\n"),
            at("l[0]", "true"),
        ];
        let own = json!({"db": {"user": "own"}});
        let got = merged(&files, &["f.yaml"], &from, &own).unwrap();
        let want = json!({"db": {"user": "own", "password": "yaml", "host": "a: {b, c=d]\n"}, "l": ["true"]});
        assert_eq!(Data::Map(got), Data::from(&want));
        let over = merged(&files, &[], &[at("db.password", "CANARY")], &json!({"db": {"password": "own"}}));
        assert_eq!(Data::Map(over.unwrap()), Data::from(&json!({"db": {"password": "own"}})));
        for (from, want) in [
            (at("l.x", "CANARY"), "targetPath l.x: "),
            (at("a..b", "CANARY"), "targetPath a..b: "),
            (ValuesText { text: b"CANARY\xff".to_vec(), ..at("a", "") }, "UTF-8"),
        ] {
            let error = merged(&files, &["f.yaml"], &[from], &Value::Null).unwrap_err().to_string();
            let begins = error.starts_with("values from Secret web, key values.yaml: ");
            assert!(begins && error.contains(want) && !error.contains("CANARY"), "{error}");
        }
    }

    #[test]
    fn a_secret_that_goes_to_a_path_is_masked() {
        let from = [at("password", "CANARY: {x")];
        let bundle = rendered(&CHART, &HelmRender::default(), &from).unwrap();
        assert_eq!(bundle.notes.as_deref(), Some("Log in with ***."));
        let mut files = CHART.to_vec();
        files.push(("c/templates/x.yaml", "a: {{ fail .Values.password }}"));
        let error = rendered(&files, &HelmRender::default(), &from).unwrap_err().to_string();
        assert!(error.contains("***") && !error.contains("CANARY"), "{error}");
    }

    #[test]
    fn the_version_of_helm_decides_also_when_the_chart_is_loaded_already() {
        let files = [
            ("c/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            ("c/values.yaml", "a: null\n---\nb: 1\n"),
            ("c/templates/a.yaml", "values: {{ toJson .Values }}\n"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), Bytes::copy_from_slice(text.as_bytes())));
        let artifact = Artifact::new("main@sha1:1", files.into_iter().collect());
        let target = TargetFacts { kubernetes_version: "v1.36.2".to_owned(), ..TargetFacts::default() };
        let charts = crate::Charts::new(1 << 20);
        let input = RenderInput {
            charts: Some(&charts),
            release_name: "rel",
            ..RenderInput::plain(&artifact, "c", &target)
        };
        for (version, want) in [
            (None, json!({"b": 1})),
            (Some(convoy_api::HelmVersion::V3), json!({"a": null})),
            (Some(convoy_api::HelmVersion::V4), json!({"b": 1})),
        ] {
            let spec = HelmRender { version, ..HelmRender::default() };
            let bundle = render(&Folder::find(&artifact, "c").unwrap(), &spec, &input).unwrap();
            assert_eq!(bundle.objects[0].object, json!({"values": want}), "{version:?}");
        }
    }

    #[test]
    fn values_files_stay_inside_the_chart() {
        let files = [("chart/Chart.yaml", ""), ("other/values.yaml", "a: 1")];
        for path in [
            "../other/values.yaml",
            "/var/run/secrets/token",
            "gone.yaml",
            "file:///etc/passwd",
            "a/../../other/values.yaml",
        ] {
            let error = merged(&files, &[path], &[], &Value::Null).unwrap_err();
            assert!(matches!(&error, RenderError::Values { from, .. } if from == path), "{error}");
        }
    }

    #[test]
    fn broken_values_are_named_and_a_secrets_content_is_not_shown() {
        let files = [("chart/Chart.yaml", ""), ("chart/v.yaml", "a: 1\nb: ]")];
        let error = merged(&files, &["v.yaml"], &[], &Value::Null).unwrap_err();
        assert!(error.to_string().starts_with("chart/v.yaml:2:4: "), "{error}");
        for text in ["CANARY", "- CANARY", "a: !!float CANARY", "a: *CANARY"] {
            let error = merged(&files, &[], &[secret(text)], &Value::Null).unwrap_err().to_string();
            assert!(
                error.starts_with("values from Secret web, key values.yaml: ") && !error.contains("CANARY"),
                "{error}"
            );
        }
    }

    const CHART: [(&str, &str); 7] = [
        ("c/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("c/values.yaml", "replicas: 1\n"),
        (
            "c/crds/widgets.yaml",
            "kind: CustomResourceDefinition\n---\nkind: CustomResourceDefinition\nx: 2\n",
        ),
        (
            "c/templates/all.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\n\
             metadata: {name: {{ .Release.Name }}-{{ .Release.Namespace }}}\nreplicas: {{ .Values.replicas }}\n",
        ),
        (
            "c/templates/hooks.yaml",
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, annotations: {helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-weight: '-5', \
             helm.sh/hook-delete-policy: hook-succeeded}}\n\
             ---\napiVersion: v1\nkind: Pod\nmetadata: {name: try, annotations: {helm.sh/hook: test}}\n",
        ),
        ("c/templates/NOTES.txt", "Log in with {{ .Values.password }}.\n"),
        ("c/templates/old.yaml", "{{ if .Capabilities.APIVersions.Has \"old/v1\" }}kind: Old{{ end }}\n"),
    ];

    fn rendered(
        files: &[(&str, &str)],
        spec: &HelmRender,
        values_from: &[ValuesText],
    ) -> Result<Bundle, RenderError> {
        let files =
            files.iter().map(|(path, text)| ((*path).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
        let artifact = Artifact::new("main@sha1:1", files.collect());
        let target = TargetFacts { kubernetes_version: "v1.36.2".to_owned(), ..TargetFacts::default() };
        let input = RenderInput {
            values_from,
            release_name: "rel",
            namespace: "prod",
            ..RenderInput::plain(&artifact, "c", &target)
        };
        render(&Folder::find(&artifact, "c")?, spec, &input)
    }

    #[test]
    fn a_chart_becomes_objects_hooks_and_notes() {
        let spec =
            HelmRender { values: json!({"replicas": 3}).as_object().cloned(), ..HelmRender::default() };
        let bundle = rendered(&CHART, &spec, &[secret("password: CANARY")]).unwrap();
        let objects: Vec<_> =
            bundle.objects.iter().map(|object| format!("{} {}", object.source, object.object)).collect();
        assert_eq!(
            objects,
            [
                r#"web/crds/widgets.yaml {"kind":"CustomResourceDefinition"}"#,
                r#"web/crds/widgets.yaml {"kind":"CustomResourceDefinition","x":2}"#,
                r#"web/templates/all.yaml {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"rel-prod"},"replicas":3}"#,
                r#"web/templates/all.yaml {"apiVersion":"v1","kind":"Service","metadata":{"name":"b"}}"#,
            ]
        );
        assert_eq!(bundle.hooks.len(), 1);
        let events = [convoy_api::HookEvent::PreInstall, convoy_api::HookEvent::PreUpgrade];
        let hook = &bundle.hooks[0];
        assert_eq!((hook.events.as_slice(), hook.weight), (events.as_slice(), -5));
        assert_eq!(hook.delete_policies, ["hook-succeeded"]);
        assert_eq!(
            bundle.objects.iter().map(|object| object.early).collect::<Vec<_>>(),
            [true, true, false, false]
        );
        assert!(bundle.warnings.is_empty());
        assert_eq!(bundle.notes.as_deref(), Some("Log in with ***."));
        let without = HelmRender { skip_crds: Some(true), ..HelmRender::default() };
        assert_eq!(rendered(&CHART, &without, &[]).unwrap().objects.len(), 2);
    }

    #[test]
    fn a_chart_is_loaded_once_for_all_releases() {
        let charts = crate::Charts::new(1 << 20);
        let files = CHART
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Bytes::copy_from_slice(text.as_bytes())))
            .collect();
        let artifact = Artifact::new("main@sha1:1", files);
        let target = TargetFacts { kubernetes_version: "v1.36.2".to_owned(), ..TargetFacts::default() };
        let mut input = RenderInput {
            artifact: &artifact,
            path: "c",
            render: None,
            values_from: &[],
            release_name: "one",
            namespace: "prod",
            target: &target,
            seed: b"",
            salt: b"",
            now: jiff::Timestamp::UNIX_EPOCH,
            charts: Some(&charts),
            stop: None,
        };
        let one = crate::render(&input).unwrap();
        input.release_name = "other";
        let other = crate::render(&input).unwrap();
        assert_eq!(charts.len(), 1);
        assert_ne!(one, other);
        input.charts = None;
        assert_eq!(crate::render(&input).unwrap(), other);
    }

    #[test]
    fn a_chart_draws_the_same_until_it_is_salted() {
        const DRAWS: &str = "a: {{ randAlphaNum 20 }}\nb: {{ now | date \"15:04:05\" }}\n\
                             c: {{ (genCA \"x\" 5).Cert | sha256sum }}\nv: {{ .Values.v }}\n";
        let draw = |values: Value, salt: &[u8]| {
            let files = [CHART[0], ("c/templates/x.yaml", DRAWS)];
            let files = files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
            let artifact = Artifact::new("main@sha1:1", files.collect());
            let target = TargetFacts { kubernetes_version: "v1.36.2".to_owned(), ..TargetFacts::default() };
            let helm = HelmRender { values: values.as_object().cloned(), ..HelmRender::default() };
            let render = convoy_api::ReleaseRender { helm: Some(helm), manifests: None };
            let input = RenderInput {
                artifact: &artifact,
                path: "c",
                render: Some(&render),
                values_from: &[],
                release_name: "rel",
                namespace: "prod",
                target: &target,
                seed: b"seed",
                salt,
                now: jiff::Timestamp::UNIX_EPOCH,
                charts: None,
                stop: None,
            };
            crate::render(&input).unwrap().objects.remove(0).object
        };
        let [one, other, salted] =
            [draw(json!({"v": 1}), b""), draw(json!({"v": 2}), b""), draw(json!({"v": 1}), b"salt")];
        for key in ["a", "b", "c"] {
            assert_eq!(one[key], other[key]);
            assert!(key == "b" || one[key] != salted[key], "{key}");
        }
        assert_ne!(one["v"], other["v"]);
    }

    #[test]
    fn a_render_whose_time_is_over_says_how_long_it_was() {
        let files = [CHART[0], ("c/templates/x.yaml", "{{ range 1000000000 }}{{ end }}")];
        let files =
            files.iter().map(|(path, text)| ((*path).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
        let artifact = Artifact::new("main@sha1:1", files.collect());
        let target = TargetFacts { kubernetes_version: "v1.36.2".to_owned(), ..TargetFacts::default() };
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let stop = Stop::new(std::time::Duration::from_secs(7), move || {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 3
        });
        let input = RenderInput {
            release_name: "rel",
            namespace: "prod",
            stop: Some(&stop),
            ..RenderInput::plain(&artifact, "c", &target)
        };
        let error = crate::render(&input).unwrap_err();
        assert_eq!(error, RenderError::Stopped { folder: "c".to_owned(), seconds: 7 });
    }

    #[test]
    fn broken_charts_name_folder_file_and_line() {
        let with = |path: &'static str, text: &'static str| {
            let mut files: Vec<_> = CHART.into_iter().filter(|(other, _)| *other != path).collect();
            files.push((path, text));
            rendered(&files, &HelmRender::default(), &[secret("password: CANARY")]).unwrap_err().to_string()
        };
        for (path, text, want) in [
            ("c/templates/x.yaml", "a: 1\nb: {{ .Values.x.y }}", "web/templates/x.yaml:2:"),
            ("c/templates/x.yaml", "a: 1\n{{ end }}", "web/templates/x.yaml:2"),
            ("c/templates/x.yaml", "a: ]", "web/templates/x.yaml"),
            ("c/templates/x.yaml", "a: {{ index .Values.password 99 }}", "web/templates/x.yaml:1:"),
            (
                "c/templates/x.yaml",
                "{{ range until 100 }}{{ repeat 1000000 \"x\" }}{{ end }}",
                "web/templates/x.yaml:1:",
            ),
            (
                "c/templates/x.yaml",
                "{{ define \"x\" }}{{ include \"x\" . }}{{ end }}{{ include \"x\" . }}",
                "x",
            ),
            ("c/templates/x.yaml", "a: {{ fail .Values.password }}", "web/templates/x.yaml:1:"),
            ("c/templates/x.yaml", "a: {{ required \"set .tls\" .Values.tls }}", "set .tls"),
            ("c/values.yaml", "a: ]", "cannot load values.yaml"),
            ("c/values.schema.json", r#"{"required": ["tls"]}"#, "tls"),
            ("c/values.schema.json", r#"{"properties": {"password": {"enum": ["x"]}}}"#, "/password"),
            ("c/Chart.yaml", "name: web", "chart.metadata.version is required"),
            (
                "c/Chart.yaml",
                "apiVersion: v2\nname: web\nversion: 1.0.0\nkubeVersion: '>=1.99'",
                "incompatible with Kubernetes v1.36.2",
            ),
            ("c/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\ntype: library", "library"),
        ] {
            let error = with(path, text);
            assert!(
                error.starts_with("c: ") && error.contains(want) && !error.contains("CANARY"),
                "{want}: {error}"
            );
        }
        let spec = HelmRender { release_name: Some("Not_A_Name".to_owned()), ..HelmRender::default() };
        let error = rendered(&CHART, &spec, &[]).unwrap_err().to_string();
        assert!(error.contains("Not_A_Name") && error.contains("spec.render.helm.releaseName"), "{error}");
    }
}
