//! Dependencies of a chart that are folders of the same source: `repository: file://../common`.
//!
//! `helm dependency build` would pack them into charts/ first. Others have to be in charts/ already: rendering asks
//! no network.

use bytes::Bytes;
use convoy_helm::semver::is_compatible;
use serde_json::Value;

use crate::error::RenderError;
use crate::folder::Folder;
use crate::input::RenderInput;

/// The files that are missing in charts/, with their paths from the chart.
pub(crate) fn local(
    folder: &Folder<'_>,
    input: &RenderInput<'_>,
) -> Result<Vec<(String, Bytes)>, RenderError> {
    let mut found = Vec::new();
    for dependency in declared(folder) {
        let Some(path) = dependency.repository.strip_prefix("file://") else { continue };
        if is_there(folder, &dependency.name) {
            continue;
        }
        let failed = |detail: String| RenderError::Chart {
            folder: folder.name().to_owned(),
            detail: format!(
                "dependency {:?} of Chart.yaml, {:?}: {detail}",
                dependency.name, dependency.repository
            ),
        };
        let path = beside(folder.name(), path).ok_or_else(|| {
            failed("it leaves the source; only folders of the same source can be named".to_owned())
        })?;
        let chart = Folder::find(input.artifact, &path)
            .ok()
            .filter(|chart| chart.file("Chart.yaml").is_some())
            .ok_or_else(|| failed(format!("there is no chart in {path}")))?;
        let version = text(&manifest(&chart, "Chart.yaml"), "version");
        if !is_compatible(&dependency.version, &version) {
            return Err(failed(format!("{path} has version {version}, not {}", dependency.version)));
        }
        if let Some(locked) = locked(folder, &dependency.name)
            && locked != version
        {
            return Err(failed(format!(
                "the lock file (Chart.lock) is out of sync with the dependencies file (Chart.yaml): it has version \
                 {locked}, and {path} has {version}"
            )));
        }
        // What it needs itself has to be packed in it; Helm would render it without.
        let missing: Vec<String> = declared(&chart)
            .into_iter()
            .filter(|inner| !is_there(&chart, &inner.name))
            .map(|inner| inner.name)
            .collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(failed(format!(
                "found in its Chart.yaml, but missing in its charts/ directory: {missing}"
            )));
        }
        let name = &dependency.name;
        found.extend(chart.files().map(|(path, content)| (format!("charts/{name}/{path}"), content.clone())));
    }
    Ok(found)
}

struct Dependency {
    name: String,
    version: String,
    repository: String,
}

fn declared(folder: &Folder<'_>) -> Vec<Dependency> {
    let manifest = manifest(folder, "Chart.yaml");
    let all = manifest.get("dependencies").and_then(Value::as_array);
    let all = all.into_iter().flatten();
    all.map(|dependency| Dependency {
        name: text(dependency, "name"),
        version: text(dependency, "version"),
        repository: text(dependency, "repository"),
    })
    .filter(|dependency| !dependency.name.is_empty() && !dependency.name.contains('/'))
    .collect()
}

/// The version that Chart.lock has of a dependency.
fn locked(folder: &Folder<'_>, name: &str) -> Option<String> {
    let lock = manifest(folder, "Chart.lock");
    let all = lock.get("dependencies")?.as_array()?;
    all.iter().find(|found| text(found, "name") == name).map(|found| text(found, "version"))
}

/// A file as JSON; null when there is none or it is malformed, which the reader of charts will tell.
fn manifest(folder: &Folder<'_>, file: &str) -> Value {
    folder.file(file).and_then(|text| convoy_yaml::to_json(text).ok()).unwrap_or_default()
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Whether charts/ has something of this name; what exactly, is seen when the chart is loaded.
fn is_there(folder: &Folder<'_>, name: &str) -> bool {
    folder.files().filter_map(|(path, _)| path.strip_prefix("charts/")).any(|path| {
        let rest = path.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with('/') || (rest.starts_with('-') && rest.ends_with(".tgz")))
    })
}

/// A relative path from a folder, as a path from the root; none when it leaves that.
fn beside(folder: &str, path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains(['\\', '\0']) {
        return None;
    }
    let mut segments: Vec<&str> = folder.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            segment => segments.push(segment),
        }
    }
    Some(segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_source() {
        assert_eq!(beside("charts/web", "../common").as_deref(), Some("charts/common"));
        assert_eq!(beside("web", "./../common/").as_deref(), Some("common"));
        assert_eq!(beside(".", "common").as_deref(), Some("common"));
        for path in ["../../../../etc", "../../x", "/etc", "..\\x"] {
            assert_eq!(beside("web", path), None, "{path}");
        }
    }
}
