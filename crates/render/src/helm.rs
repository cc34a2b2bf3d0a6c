use convoy_api::HelmRender;
use serde_json::{Map, Value};

use crate::bundle::Bundle;
use crate::error::RenderError;
use crate::folder::Folder;
use crate::input::RenderInput;
use crate::secrets::SecretValues;

pub(crate) fn render(
    folder: &Folder<'_>,
    spec: &HelmRender,
    input: &RenderInput<'_>,
) -> Result<Bundle, RenderError> {
    let mut secrets = SecretValues::default();
    let _values = values(folder, spec, input, &mut secrets)?;
    let detail = format!("{}: Helm charts are not rendered yet", folder.name());
    Err(RenderError::Chart { detail: secrets.masked(&detail) })
}

/// What goes on top of the chart's own values: valuesFiles, then valuesFrom, then values.
fn values(
    folder: &Folder<'_>,
    spec: &HelmRender,
    input: &RenderInput<'_>,
    secrets: &mut SecretValues,
) -> Result<Map<String, Value>, RenderError> {
    let mut merged = Map::new();
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
        let read = read(content).map_err(|(line, column, detail)| RenderError::Syntax {
            file: folder.full(path),
            line,
            column,
            detail,
        })?;
        merge(&mut merged, read);
    }
    for values in input.values_from {
        let read = read(&values.text).map_err(|(line, column, detail)| {
            // The reader's text may quote what it failed on.
            let detail = if values.is_secret { "it is no YAML mapping".to_owned() } else { detail };
            RenderError::Values {
                from: values.from.clone(),
                detail: format!("line {line}, column {column}: {detail}"),
            }
        })?;
        let read = Value::Object(read);
        if values.is_secret {
            secrets.learn(&read);
        }
        if let Value::Object(read) = read {
            merge(&mut merged, read);
        }
    }
    if let Some(values) = &spec.values {
        merge(&mut merged, values.clone());
    }
    Ok(merged)
}

/// A values text: a mapping, or nothing at all.
fn read(text: &[u8]) -> Result<Map<String, Value>, (usize, usize, String)> {
    match convoy_yaml::to_json(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err((1, 1, "values must be a mapping".to_owned())),
        Err(error) => {
            let (line, column) = error.position().unwrap_or((1, 1));
            let detail = match &error {
                convoy_yaml::Error::Syntax { problem, .. } => problem.clone(),
                error => error.to_string(),
            };
            Err((line, column, detail))
        }
    }
}

/// Lays one mapping over another, mappings inside alike; everything else is replaced whole. A null
/// replaces too: it removes a chart's default later on. (`MergeMaps` of Helm's `pkg/cli/values`.)
fn merge(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Object(under)), Value::Object(over)) => merge(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{TargetFacts, ValuesText};
    use bytes::Bytes;
    use convoy_api::Artifact;
    use serde_json::json;

    fn merged(
        files: &[(&str, &str)],
        values_files: &[&str],
        values_from: &[ValuesText],
        own: &Value,
    ) -> Result<Value, RenderError> {
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
        };
        let folder = Folder::find(&artifact, "chart")?;
        values(&folder, &spec, &input, &mut SecretValues::default()).map(Value::Object)
    }

    fn secret(text: &str) -> ValuesText {
        ValuesText {
            from: "Secret web, key values.yaml".to_owned(),
            text: text.as_bytes().to_vec(),
            is_secret: true,
        }
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
        assert_eq!(got.unwrap(), json!({"x": {"a": null, "b": 2, "c": 3}, "l": [3]}));
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
                error.starts_with("values from Secret web, key values.yaml: line 1")
                    && !error.contains("CANARY"),
                "{error}"
            );
        }
    }
}
