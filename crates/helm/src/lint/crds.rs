//! crds/: custom resource definitions and nothing else.

use super::Severity::Error;
use super::documents::documents;
use super::{LintChart, Linter};
use crate::chart::{Chart, File};
use crate::render::is_manifest;

const FOLDER: &str = "crds/";

pub(super) fn lint(linter: &mut Linter, chart: &LintChart) {
    let is_file = chart.file("crds").is_some();
    if !is_file && !chart.folders.contains("crds") {
        return;
    }
    if !linter.rule(Error, FOLDER, if is_file { Err("not a directory".to_owned()) } else { Ok(()) }) {
        return;
    }
    let Some(loaded) = linter.load(chart, FOLDER) else { return };
    let mut files = Vec::new();
    collect(&loaded, &mut files);
    for file in files {
        for head in documents(file.data.bytes()) {
            let head = match head {
                Ok(Some(head)) => head,
                Ok(None) => continue,
                Err(error) => {
                    linter.rule(Error, &file.name, Err(format!("unable to parse YAML: {error}")));
                    return;
                }
            };
            let is_group = head.api_version.starts_with("apiextensions.k8s.io");
            let problem = "apiVersion is not in 'apiextensions.k8s.io'".to_owned();
            linter.rule(Error, &file.name, if is_group { Ok(()) } else { Err(problem) });
            let is_kind = head.kind == "CustomResourceDefinition";
            let problem = "object kind is not 'CustomResourceDefinition'".to_owned();
            linter.rule(Error, &file.name, if is_kind { Ok(()) } else { Err(problem) });
        }
    }
}

fn collect<'c>(chart: &'c Chart, files: &mut Vec<&'c File>) {
    let own = chart.files.iter().filter(|file| file.name.starts_with(FOLDER) && is_manifest(&file.name));
    files.extend(own);
    chart.dependencies.iter().for_each(|child| collect(child, files));
}
