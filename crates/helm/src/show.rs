//! What `helm show` prints of a chart.

use crate::chart::{Chart, File};
use crate::functions::yaml_text;
use crate::metadata::{Dependency, ImportValues, Metadata};
use crate::render::is_manifest;
use convoy_gotemplate::{Str, Value};

/// A part of a chart to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Chart.yaml.
    Chart,
    /// values.yaml.
    Values,
    /// The readme.
    Readme,
    /// Custom resource definitions, of the charts in it too.
    Crds,
    /// All of these.
    All,
}

/// What `helm show` prints for a part.
pub fn show(chart: &Chart, part: Part) -> Vec<u8> {
    let is_all = part == Part::All;
    let mut out = Vec::new();
    let mut line = |text: &[u8]| {
        out.extend_from_slice(text);
        out.push(b'\n');
    };
    if is_all || part == Part::Chart {
        line(yaml_text(&chart.metadata.to_yaml()).as_bytes());
        line(b"");
    }
    if is_all || part == Part::Values {
        if is_all {
            line(b"---");
        }
        if let Some(text) = &chart.values_text {
            line(text);
        }
    }
    if (is_all || part == Part::Readme)
        && let Some(readme) = readme(&chart.files)
    {
        if is_all {
            line(b"---");
        }
        line(readme);
    }
    if is_all || part == Part::Crds {
        let mut crds = Vec::new();
        collect_crds(chart, &mut crds);
        for crd in crds {
            if !crd.starts_with(b"---") {
                line(b"---");
            }
            line(crd);
        }
    }
    out
}

fn readme(files: &[File]) -> Option<&Str> {
    let is_one = |name: &str| {
        ["readme.md", "readme.txt", "readme"].iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    files.iter().find(|file| is_one(&file.name)).map(|file| file.data.bytes())
}

fn collect_crds<'c>(chart: &'c Chart, crds: &mut Vec<&'c Str>) {
    let own = chart.files.iter().filter(|file| file.name.starts_with("crds/") && is_manifest(&file.name));
    crds.extend(own.map(|file| file.data.bytes()));
    chart.dependencies.iter().for_each(|child| collect_crds(child, crds));
}

fn text(key: &'static str, text: &str) -> Option<(&'static str, Value)> {
    (!text.is_empty()).then(|| (key, Value::string(text)))
}

fn texts(key: &'static str, items: &[String]) -> Option<(&'static str, Value)> {
    let list = || Value::list(items.iter().map(|item| Value::string(item.as_str())).collect());
    (!items.is_empty()).then(|| (key, list()))
}

impl Metadata {
    /// Chart.yaml as Helm writes it: what is empty is left out.
    fn to_yaml(&self) -> Value {
        let maintainer = |maintainer: &crate::metadata::Maintainer| {
            let fields = [
                text("name", &maintainer.name),
                text("email", &maintainer.email),
                text("url", &maintainer.url),
            ];
            Value::map(fields.into_iter().flatten())
        };
        let maintainers: Vec<Value> = self.maintainers.iter().map(maintainer).collect();
        let dependencies: Vec<Value> = self.dependencies.iter().map(Dependency::to_yaml).collect();
        let annotations =
            self.annotations.iter().map(|(key, value)| (key.as_str(), Value::string(value.as_str())));
        let fields = [
            text("name", &self.name),
            text("home", &self.home),
            texts("sources", &self.sources),
            text("version", &self.version),
            text("description", &self.description),
            texts("keywords", &self.keywords),
            (!maintainers.is_empty()).then(|| ("maintainers", Value::list(maintainers))),
            text("icon", &self.icon),
            text("apiVersion", &self.api_version),
            text("condition", &self.condition),
            text("tags", &self.tags),
            text("appVersion", &self.app_version),
            self.deprecated.then_some(("deprecated", Value::Bool(true))),
            (!self.annotations.is_empty()).then(|| ("annotations", Value::map(annotations))),
            text("kubeVersion", &self.kube_version),
            (!dependencies.is_empty()).then(|| ("dependencies", Value::list(dependencies))),
            text("type", &self.kind),
        ];
        Value::map(fields.into_iter().flatten())
    }
}

impl Dependency {
    fn to_yaml(&self) -> Value {
        let imports = self.import_values.iter().map(|import| match import {
            ImportValues::Export(name) => Value::string(name.as_str()),
            ImportValues::Paths { child, parent, .. } => Value::map([
                ("child", Value::string(child.as_str())),
                ("parent", Value::string(parent.as_str())),
            ]),
            ImportValues::Other(data) => data.to_value(),
        });
        let fields = [
            Some(("name", Value::string(self.name.as_str()))),
            text("version", &self.version),
            Some(("repository", Value::string(self.repository.as_str()))),
            text("condition", &self.condition),
            texts("tags", &self.tags),
            self.enabled.then_some(("enabled", Value::Bool(true))),
            (!self.import_values.is_empty()).then(|| ("import-values", Value::list(imports.collect()))),
            text("alias", &self.alias),
        ];
        Value::map(fields.into_iter().flatten())
    }
}
