//! The repository's own examples, as a Release renders them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as tests do")]

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use convoy_api::Artifact;
use convoy_render::{Bundle, RenderError, RenderInput, TargetFacts, render};

fn examples() -> Artifact {
    fn read(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Bytes>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                read(&entry.path(), &format!("{path}/"), files);
            } else {
                files.insert(path, std::fs::read(entry.path()).unwrap().into());
            }
        }
    }
    let mut files = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"), "", &mut files);
    Artifact::new("main@sha1:1", files)
}

fn rendered(path: &str) -> Result<Bundle, RenderError> {
    let artifact = examples();
    let target =
        TargetFacts { kubernetes_version: "v1.36.0".to_owned(), api_versions: ["v1".to_owned()].into() };
    render(&RenderInput {
        release_name: "web",
        namespace: "prod",
        ..RenderInput::plain(&artifact, path, &target)
    })
}

#[test]
fn the_plain_manifests_are_objects_with_their_files() {
    let bundle = rendered("library").unwrap();
    let shown: Vec<_> = bundle
        .objects
        .iter()
        .map(|o| format!("{}: {}", o.source, o.object["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(
        shown,
        [
            "library/00-namespace.yaml: Namespace",
            "library/books.yaml document 1: Book",
            "library/books.yaml document 2: Book",
            "library/crd.yaml: CustomResourceDefinition",
            "library/server.yaml document 1: ConfigMap",
            "library/server.yaml document 2: Service",
            "library/server.yaml document 3: Deployment",
        ]
    );
    assert!(bundle.warnings.is_empty() && bundle.hooks.is_empty());
    assert_eq!(bundle.digest(), rendered("library").unwrap().digest());
}

#[test]
fn the_root_is_no_folder_of_manifests_because_charts_are_in_it() {
    assert_eq!(rendered("").unwrap_err(), RenderError::ChartBelow { folder: "broken".to_owned() });
}

#[test]
fn the_chart_is_objects_in_the_order_of_installation() {
    let bundle = rendered("web").unwrap();
    let shown: Vec<_> = bundle
        .objects
        .iter()
        .map(|o| format!("{}: {}", o.source, o.object["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(
        shown,
        [
            "web/templates/configmap.yaml: ConfigMap",
            "web/templates/service.yaml: Service",
            "web/templates/deployment.yaml: Deployment",
        ]
    );
    assert!(bundle.notes.unwrap().contains("web"));
}

#[test]
fn the_broken_chart_names_its_file_and_line() {
    let error = rendered("broken").unwrap_err().to_string();
    assert!(error.starts_with("broken: broken/templates/configmap.yaml:8:19"), "{error}");
}
