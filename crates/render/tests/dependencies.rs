//! Charts of a source that need other charts.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as tests do")]

use std::collections::BTreeMap;

use bytes::Bytes;
use convoy_api::Artifact;
use convoy_render::{RenderInput, TargetFacts, render};

/// Names of the ConfigMaps that a chart of the source renders to, or why it does not.
fn rendered(files: &[(&str, &str)], path: &str) -> Result<Vec<String>, String> {
    let config_map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    let mut all: BTreeMap<String, Bytes> = BTreeMap::from([
        ("dep/Chart.yaml".to_owned(), "apiVersion: v2\nname: dep\nversion: 0.1.0\n".into()),
        ("dep/templates/d.yaml".to_owned(), config_map("d").into()),
        (format!("{path}/templates/x.yaml"), config_map("x").into()),
    ]);
    all.extend(
        files.iter().map(|(path, text)| ((*path).to_owned(), Bytes::copy_from_slice(text.as_bytes()))),
    );
    let artifact = Artifact::new("main@sha1:1", all);
    let target =
        TargetFacts { kubernetes_version: "v1.36.0".to_owned(), api_versions: ["v1".to_owned()].into() };
    let bundle = render(&RenderInput {
        release_name: "web",
        namespace: "prod",
        ..RenderInput::plain(&artifact, path, &target)
    });
    let name = |object: &convoy_render::RenderedObject| {
        object.object["metadata"]["name"].as_str().unwrap().to_owned()
    };
    bundle.map(|bundle| bundle.objects.iter().map(name).collect()).map_err(|error| error.to_string())
}

fn chart(name: &str, dependencies: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\ndependencies:\n{dependencies}")
}

/// Case 307: never rendered without them.
#[test]
fn case307_a_chart_is_never_rendered_without_its_dependencies() {
    let missing = chart(
        "missing",
        "- {name: dep, version: 0.1.0, repository: 'http://127.0.0.1:1/none'}\n\
         - {name: opt, version: 0.1.0, repository: 'http://127.0.0.1:1/none', condition: opt.enabled}\n",
    );
    let error = rendered(
        &[("missing/Chart.yaml", &missing), ("missing/values.yaml", "opt: {enabled: false}\n")],
        "missing",
    )
    .unwrap_err();
    assert!(error.contains("found in Chart.yaml, but missing in charts/ directory: dep, opt"), "{error}");

    // Of the same source.
    let local = chart("local", "- {name: dep, version: 0.1.x, repository: 'file://../dep'}\n");
    assert_eq!(rendered(&[("local/Chart.yaml", &local)], "local").unwrap(), ["d", "x"]);
    let lock = |version: &str| {
        format!("dependencies:\n- {{name: dep, repository: 'file://../dep', version: {version}}}\n")
    };
    let files = [("local/Chart.yaml", local.as_str()), ("local/Chart.lock", &lock("0.1.0"))];
    assert_eq!(rendered(&files, "local").unwrap(), ["d", "x"]);

    for (name, dependency, more, want) in [
        (
            "outside",
            "- {name: dep, version: 0.1.0, repository: 'file://../../../../etc'}\n",
            ("x", String::new()),
            "it leaves the source",
        ),
        (
            "absolute",
            "- {name: dep, version: 0.1.0, repository: 'file:///etc'}\n",
            ("x", String::new()),
            "it leaves the source",
        ),
        (
            "nowhere",
            "- {name: dep, version: 0.1.0, repository: 'file://../none'}\n",
            ("x", String::new()),
            "there is no chart in none",
        ),
        (
            "newer",
            "- {name: dep, version: '>=2', repository: 'file://../dep'}\n",
            ("x", String::new()),
            "dep has version 0.1.0, not >=2",
        ),
        (
            "wronglock",
            "- {name: dep, version: 0.1.0, repository: 'file://../dep'}\n",
            ("wronglock/Chart.lock", lock("9.9.9")),
            "the lock file (Chart.lock) is out of sync",
        ),
        (
            "nested",
            "- {name: dep, version: 0.1.0, repository: 'file://../dep'}\n",
            ("dep/Chart.yaml", chart("dep", "- {name: deeper, version: 1.0.0, repository: 'file://../x'}\n")),
            "missing in its charts/ directory: deeper",
        ),
    ] {
        let files = [(format!("{name}/Chart.yaml"), chart(name, dependency)), (more.0.to_owned(), more.1)];
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let error = rendered(&files, name).unwrap_err();
        assert!(error.contains(want), "{name}: {error}");
    }

    // What is in charts/ is taken, as Helm takes it, whatever its version.
    let stale = chart("stale", "- {name: dep, version: '>=2'}\n");
    let files = [
        ("stale/Chart.yaml", stale.as_str()),
        ("stale/charts/dep/Chart.yaml", "apiVersion: v2\nname: dep\nversion: 0.1.0\n"),
        ("stale/charts/dep/templates/d.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\n"),
    ];
    assert_eq!(rendered(&files, "stale").unwrap(), ["d", "x"]);
}
