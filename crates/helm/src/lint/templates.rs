//! Templates: whether they render, and what to.

use super::Severity::{Error, Warning};
use super::documents::{Head, documents, is_list_with_policy};
use super::{LintChart, LintOptions, Linter, deprecations, names};
use crate::capabilities::Capabilities;
use crate::coalesce::{Nulls, coalesce_values};
use crate::functions::Environment;
use crate::render::{Engine, Target};
use crate::schema;
use crate::tree::Node;
use crate::values::to_map;
use crate::watch::Watch;
use convoy_gotemplate::{Str, Value, quote};

const FOLDER: &str = "templates/";

pub(super) fn lint(
    linter: &mut Linter,
    chart: &LintChart,
    options: &LintOptions,
    environment: &mut Environment,
) {
    let is_file = chart.file("templates").is_some();
    let is_there = chart.folders.contains("templates");
    let missing = "directory does not exist".to_owned();
    if !linter.rule(Warning, FOLDER, if is_there || is_file { Ok(()) } else { Err(missing) }) {
        return;
    }
    if !linter.rule(Error, FOLDER, if is_there { Ok(()) } else { Err("not a directory".to_owned()) }) {
        return;
    }
    let Some(loaded) = linter.load(chart, FOLDER) else { return };
    let mut capabilities = Capabilities::default();
    if let Some(version) = &options.kube_version {
        capabilities.kube_version = version.clone();
    }
    let watch = Watch::endless();
    let mut root = Node::new(&loaded, &watch);
    let given = to_map(&options.values, &watch);
    if root.process_dependencies(&given).is_err() {
        return;
    }
    // Helm coalesces twice: a null that removed a default in the first pass lets it in again in the second.
    let Ok(values) = coalesce_values(&root, &given, Nulls::Remove) else { return };
    let values = match coalesce_values(&root, &values, Nulls::Remove) {
        Ok(values) => values,
        Err(error) => {
            linter.rule(Error, FOLDER, Err(error.to_string()));
            return;
        }
    };
    if !options.skip_schema
        && let Err(error) = schema::validate(&root, &values, &|| false)
    {
        linter.rule(Error, FOLDER, Err(error.to_string()));
        return;
    }
    let release = Value::map([
        ("Name", Value::string("test-release")),
        ("Namespace", Value::string(options.namespace.as_str())),
        ("IsUpgrade", Value::Bool(false)),
        ("IsInstall", Value::Bool(false)),
        ("Revision", Value::Int(0)),
        ("Service", Value::string("Helm")),
    ]);
    let target = Target { release, limits: options.limits, capabilities: &capabilities };
    environment.set_lints();
    let rendered = match Engine::run(&root, &values, &target, environment) {
        Ok(rendered) => rendered,
        Err(error) => {
            linter.rule(Error, FOLDER, Err(error.to_string()));
            return;
        }
    };
    for template in &loaded.templates {
        let name = template.name.as_str();
        linter.rule(Error, name, allowed_end(name));
        if !matches!(end_of(name).to_lowercase().as_str(), ".yaml" | ".yml") {
            continue;
        }
        let Some(content) = rendered.get(&format!("{}/{name}", root.metadata.name)) else { continue };
        let kube_version = &capabilities.kube_version;
        if !is_blank(content) && !content_is_well(linter, name, content, kube_version) {
            return;
        }
    }
}

fn is_blank(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).trim().is_empty()
}

/// What stands behind the last dot of the last name, with the dot.
fn end_of(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rfind('.').and_then(|dot| file.get(dot..)).unwrap_or_default()
}

fn allowed_end(name: &str) -> Result<(), String> {
    match end_of(name) {
        ".yaml" | ".yml" | ".tpl" | ".txt" => Ok(()),
        end => {
            Err(format!("file extension '{end}' not valid. Valid extensions are .yaml, .yml, .tpl, or .txt"))
        }
    }
}

/// The rules for what a template renders to; false when it is no YAML, which ends them for all templates.
fn content_is_well(
    linter: &mut Linter,
    name: &str,
    content: &Str,
    kube_version: &crate::capabilities::KubeVersion,
) -> bool {
    linter.rule(Warning, name, top_indent(content));
    for head in documents(content) {
        let head = match head {
            Ok(Some(head)) => head,
            Ok(None) => continue,
            Err(error) => return linter.rule(Error, name, Err(format!("unable to parse YAML: {error}"))),
        };
        linter.rule(Warning, name, names::check(&head));
        linter.rule(Warning, name, deprecations::check(&head, kube_version));
        linter.rule(Error, name, match_selector(&head, content));
        if head.kind == "List" {
            let found = match is_list_with_policy(content) {
                Err(error) => Err(format!("unable to parse YAML: {error}")),
                Ok(true) => {
                    Err("annotation 'helm.sh/resource-policy' within List objects are ignored".to_owned())
                }
                Ok(false) => Ok(()),
            };
            linter.rule(Error, name, found);
        }
    }
    true
}

/// The first line that is not blank must not be indented.
fn top_indent(content: &[u8]) -> Result<(), String> {
    /// Longer lines are an error of Go's scanner.
    const LONGEST: usize = 64 << 10;
    for line in content.split(|byte| *byte == b'\n') {
        if line.len() >= LONGEST {
            return Err("bufio.Scanner: token too long".to_owned());
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if is_blank(line) {
            continue;
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            let line = String::from_utf8_lossy(&quote(line)).into_owned();
            return Err(format!(
                "document starts with an illegal indent: {line}, which may cause parsing problems"
            ));
        }
        return Ok(());
    }
    Ok(())
}

fn match_selector(head: &Head, content: &[u8]) -> Result<(), String> {
    let has = |word: &[u8]| memchr::memmem::find(content, word).is_some();
    let needs_one = matches!(head.kind.as_str(), "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet");
    if !needs_one || has(b"matchLabels") || has(b"matchExpressions") {
        return Ok(());
    }
    let name = String::from_utf8_lossy(&quote(head.name.as_bytes())).into_owned();
    Err(format!("a {} must contain matchLabels or matchExpressions, and {name} does not", head.kind))
}
