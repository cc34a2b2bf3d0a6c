use std::collections::BTreeSet;

use bytes::Bytes;
use convoy_api::{GlobError, ManifestsRender, PathGlobs};
use serde_json::Value;

use crate::bundle::{Bundle, RenderedObject};
use crate::error::RenderError;
use crate::folder::Folder;

const DEFAULT_INCLUDE: [&str; 3] = ["*.yaml", "*.yml", "*.json"];
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Documents that one Release may render to.
pub(crate) const MAX_DOCUMENTS: usize = 20_000;
/// Bytes of all manifests of one Release.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// The file that makes a folder a kustomization, if there is one.
pub(crate) fn kustomization(folder: &Folder<'_>) -> Option<String> {
    KUSTOMIZATIONS.iter().find(|name| folder.file(name).is_some()).map(|name| folder.full(name))
}

/// Reads a folder of YAML and JSON files, in the order of their paths. Files and folders whose name starts
/// with a dot are left out.
pub(crate) fn render(folder: &Folder<'_>, spec: &ManifestsRender) -> Result<Bundle, RenderError> {
    let files = chosen(folder, spec)?;
    let mut bundle = Bundle::default();
    let mut bytes = 0;
    for (path, content) in files {
        bytes += content.len();
        if bytes > MAX_BYTES {
            return Err(RenderError::TooMuch { what: "bytes", limit: MAX_BYTES });
        }
        let file = folder.full(path);
        let documents = read(&file, content)?;
        let several = documents.len() > 1;
        for (number, object) in documents {
            if bundle.objects.len() == MAX_DOCUMENTS {
                return Err(RenderError::TooMuch { what: "documents", limit: MAX_DOCUMENTS });
            }
            let source = if several { format!("{file} document {number}") } else { file.clone() };
            bundle.objects.push(RenderedObject { source, object, early: false });
        }
    }
    Ok(bundle)
}

fn chosen<'a>(folder: &Folder<'a>, spec: &ManifestsRender) -> Result<Vec<(&'a str, &'a Bytes)>, RenderError> {
    let include = match spec.include.as_slice() {
        [] => globs(&DEFAULT_INCLUDE)?,
        given => globs(given)?,
    };
    let exclude = globs(&spec.exclude)?;
    let recurse = spec.recurse.unwrap_or(true);
    let mut files = Vec::new();
    let mut charts = BTreeSet::new();
    let mut kustomization = None;
    for (path, content) in folder.files() {
        let is_hidden = path.split('/').any(|segment| segment.starts_with('.'));
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if is_hidden || (!recurse && !parent.is_empty()) || exclude.is_match(path) {
            continue;
        }
        if name == "Chart.yaml" {
            charts.insert(parent);
        }
        if KUSTOMIZATIONS.contains(&name) && kustomization.is_none() {
            kustomization = Some(path);
        }
        if include.is_match(path) {
            files.push((path, content));
        }
    }
    // Templates are no YAML, and what a kustomization lists is not what stands in its folder: reading
    // either as manifests would give confusing errors or, worse, objects.
    if let Some(chart) = charts.first().filter(|chart| files.iter().any(|(path, _)| is_below(path, chart))) {
        return Err(RenderError::ChartBelow {
            folder: if chart.is_empty() { folder.name().to_owned() } else { folder.full(chart) },
        });
    }
    match kustomization {
        Some(file) => Err(RenderError::Kustomization { file: folder.full(file) }),
        None => Ok(files),
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn globs(texts: &[impl AsRef<str>]) -> Result<PathGlobs, RenderError> {
    PathGlobs::new(texts).map_err(|GlobError { glob, detail }| RenderError::Glob { glob, detail })
}

/// The documents of a file that are not empty, each with its number among all, from 1.
fn read(file: &str, content: &[u8]) -> Result<Vec<(usize, Value)>, RenderError> {
    let is_json = content.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if is_json { read_json(file, content) } else { read_yaml(file, content) }
}

fn read_json(file: &str, content: &[u8]) -> Result<Vec<(usize, Value)>, RenderError> {
    let mut documents = Vec::new();
    for (index, document) in serde_json::Deserializer::from_slice(content).into_iter::<Value>().enumerate() {
        let document = document.map_err(|error| {
            // The text ends with the position, which stands in front already.
            let text = error.to_string();
            let detail = text.split(" at line ").next().unwrap_or(&text).to_owned();
            RenderError::Syntax { file: file.to_owned(), line: error.line(), column: error.column(), detail }
        });
        match document {
            Ok(Value::Null) => {}
            Ok(document) => documents.push((index + 1, document)),
            Err(error) if file.ends_with(".json") => return Err(error),
            // A YAML flow mapping starts like JSON.
            Err(error) => return read_yaml(file, content).map_err(|_| error),
        }
    }
    Ok(documents)
}

fn read_yaml(file: &str, content: &[u8]) -> Result<Vec<(usize, Value)>, RenderError> {
    let mut documents = Vec::new();
    let mut first_line = 1;
    for (index, text) in convoy_yaml::documents(content).enumerate() {
        let text = text.map_err(|error| RenderError::Syntax {
            file: file.to_owned(),
            line: error.line,
            column: 4,
            detail: error.to_string(),
        })?;
        let document = convoy_yaml::to_json_strict(&text).map_err(|error| {
            let (line, column) = error.position().unwrap_or((1, 1));
            RenderError::Syntax {
                file: file.to_owned(),
                line: first_line + line - 1,
                column,
                detail: detail(&error),
            }
        })?;
        if !document.is_null() {
            documents.push((index + 1, document));
        }
        // Each document but the last is followed by its separator's line.
        first_line += text.iter().filter(|byte| **byte == b'\n').count() + 1;
    }
    Ok(documents)
}

/// The error without its own account of the line, which counts from the document's start.
fn detail(error: &convoy_yaml::Error) -> String {
    match error {
        convoy_yaml::Error::Syntax { problem, .. } => problem.clone(),
        convoy_yaml::Error::Duplicates { keys } => {
            let keys: Vec<_> = keys.iter().map(|key| key.key.as_str()).collect();
            format!("key {} is set twice", keys.join(", "))
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_api::Artifact;

    fn rendered(files: &[(&str, &str)], spec: &ManifestsRender) -> Result<Vec<String>, RenderError> {
        let files =
            files.iter().map(|(path, text)| ((*path).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
        let artifact = Artifact::new("main@sha1:1", files.collect());
        let bundle = render(&Folder::find(&artifact, "")?, spec)?;
        Ok(bundle.objects.iter().map(|object| format!("{}: {}", object.source, object.object)).collect())
    }

    fn all(files: &[(&str, &str)]) -> Result<Vec<String>, RenderError> {
        rendered(files, &ManifestsRender::default())
    }

    #[test]
    fn yaml_and_json_files_of_one_or_more_documents_are_read_in_path_order() {
        let got = all(&[
            ("b.yml", "a: 1"),
            ("a.yaml", "# only a comment\n---\na: 1\n---\n---\nb: yes\n"),
            ("c.json", "{\"a\":1}\n{\"b\":2}"),
            ("d/e.yaml", "{a: 1}"),
            ("README.md", "# no manifest"),
            (".github/ci.yaml", "on: push"),
            ("d/.hidden.yaml", "x: ["),
        ]);
        let want = [
            "a.yaml document 2: {\"a\":1}",
            "a.yaml document 3: {\"b\":true}",
            "b.yml: {\"a\":1}",
            "c.json document 1: {\"a\":1}",
            "c.json document 2: {\"b\":2}",
            "d/e.yaml: {\"a\":1}",
        ];
        assert_eq!(got.unwrap(), want);
    }

    #[test]
    fn broken_files_are_named_with_line_and_column() {
        for (path, text, want) in [
            ("a/b.yaml", "kind: [", "a/b.yaml:2:1: did not find expected node content"),
            ("b.yaml", "a: 1\n---\nb: 2\n---\nc: 1\nd: }\n", "b.yaml:6:4: "),
            ("c.yaml", "a: 1\nb: 2\na: 3\n", "c.yaml:3:4: key \"a\" is set twice"),
            ("d.json", "{\"a\": 1,\n \"b\": }", "d.json:2:7: expected value"),
            ("e.yaml", "a: 1\n--- b: 2\n", "e.yaml:2:4: invalid Yaml document separator: b: 2"),
            ("f.yaml", "a:\n\t- b\n", "f.yaml:2:1: found character that cannot start any token"),
        ] {
            let error = all(&[(path, text)]).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }

    #[test]
    fn globs_choose_files() {
        let files =
            [("a.yaml", "n: a"), ("b/a.yaml", "n: ba"), ("b/c/a.yaml", "n: bca"), ("b/x.txt", "n: bx")];
        let names = |include: &[&str], exclude: &[&str], recurse| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let spec = ManifestsRender { recurse, include: texts(include), exclude: texts(exclude) };
            rendered(&files, &spec).map(|objects| {
                objects.iter().map(|o| o.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
            })
        };
        for (include, exclude, recurse, want) in [
            (&[][..], &[][..], None, &["a.yaml", "b/a.yaml", "b/c/a.yaml"][..]),
            (&[], &[], Some(false), &["a.yaml"]),
            (&["*.txt"], &[], None, &["b/x.txt"]),
            (&["b/*.yaml"], &[], None, &["b/a.yaml"]),
            (&["/b/**"], &["*.txt"], None, &["b/a.yaml", "b/c/a.yaml"]),
            (&["b/c"], &[], None, &["b/c/a.yaml"]),
            (&[], &["b/"], None, &["a.yaml"]),
            (&[], &["a.yaml"], None, &[]),
        ] {
            assert_eq!(names(include, exclude, recurse).unwrap(), want, "{include:?} {exclude:?}");
        }
        assert!(matches!(names(&["a["], &[], None), Err(RenderError::Glob { .. })));
    }

    #[test]
    fn charts_and_kustomizations_below_are_not_read_as_manifests() {
        let chart =
            [("web/Chart.yaml", "name: web"), ("web/templates/x.yaml", "{{ x }}"), ("a.yaml", "a: 1")];
        assert_eq!(all(&chart), Err(RenderError::ChartBelow { folder: "web".to_owned() }));
        let spec = ManifestsRender { exclude: vec!["web".to_owned()], ..ManifestsRender::default() };
        assert_eq!(rendered(&chart, &spec).unwrap(), ["a.yaml: {\"a\":1}"]);
        let kustomization = [("x/kustomization.yaml", "resources: []")];
        assert_eq!(
            all(&kustomization),
            Err(RenderError::Kustomization { file: "x/kustomization.yaml".to_owned() })
        );
    }

    #[test]
    fn more_documents_than_the_limit_are_refused() {
        let text = "a: 1\n---\n".repeat(MAX_DOCUMENTS + 1);
        assert_eq!(
            all(&[("a.yaml", &text)]),
            Err(RenderError::TooMuch { what: "documents", limit: MAX_DOCUMENTS })
        );
    }
}
