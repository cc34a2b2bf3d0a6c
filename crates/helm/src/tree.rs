//! The charts of one render: which dependencies are enabled, under which names, with which values.

use crate::chart::Chart;
use crate::coalesce::{Nulls, TypeMismatch, coalesce_tables, coalesce_values, deep_copy, path_value, table};
use crate::metadata::{Dependency, ImportValues, Metadata};
use crate::semver::is_compatible;
use crate::values::to_map;
use crate::version::HelmVersion;
use crate::watch::Watch;
use convoy_gotemplate::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A chart in its place. Its metadata and values are copies that dependencies change.
#[derive(Clone, Debug)]
pub(crate) struct Node<'c> {
    pub(crate) chart: &'c Chart,
    pub(crate) watch: &'c Watch<'c>,
    /// Without dependencies: see `declared`.
    pub(crate) metadata: Metadata,
    pub(crate) values: Map,
    pub(crate) dependencies: Vec<Node<'c>>,
    /// What Chart.yaml names. To Helm 3 a chart that stands under two aliases has them once.
    declared: Vec<Rc<RefCell<Dependency>>>,
    /// Where the chart stands by the names of Chart.yaml alone.
    loaded_path: String,
    /// Where it stands whatever its parents are called.
    fixed_path: Option<String>,
    /// To Helm 3, a chart that nobody declares is one and the same under several aliases of its parent: it stands in the
    /// one that looked at it last.
    taken_by: Rc<RefCell<Option<String>>>,
}

impl<'c> Node<'c> {
    pub(crate) fn new(chart: &'c Chart, watch: &'c Watch<'c>) -> Self {
        Self::at(chart, watch, chart.metadata.name.clone())
    }

    fn at(chart: &'c Chart, watch: &'c Watch<'c>, loaded_path: String) -> Self {
        let mut metadata = chart.metadata.clone();
        let declared = std::mem::take(&mut metadata.dependencies);
        let below = |child: &'c Chart| {
            Node::at(child, watch, format!("{loaded_path}/charts/{}", child.metadata.name))
        };
        Self {
            chart,
            watch,
            metadata,
            values: to_map(&chart.values, watch),
            dependencies: chart.dependencies.iter().map(below).collect(),
            declared: declared.into_iter().map(|dependency| Rc::new(RefCell::new(dependency))).collect(),
            loaded_path,
            fixed_path: None,
            taken_by: Rc::default(),
        }
    }

    /// The path of the chart's templates, below that of its parent.
    pub(crate) fn path_below(&self, parent: &str) -> String {
        let taken_by = self.taken_by.borrow();
        let parent = taken_by.as_deref().unwrap_or(parent);
        self.fixed_path.clone().unwrap_or_else(|| format!("{parent}/charts/{}", self.metadata.name))
    }

    /// What templates see as `.Chart`.
    pub(crate) fn metadata_value(&self, is_root: bool) -> Value {
        let mut metadata = self.metadata.clone();
        metadata.dependencies = self.declared.iter().map(|dependency| dependency.borrow().clone()).collect();
        metadata.to_value(is_root, self.chart.helm)
    }

    /// A copy for a dependency that is declared.
    fn copy(&self) -> Self {
        let mut copy = Self { taken_by: Rc::default(), ..self.clone() };
        match self.chart.helm {
            HelmVersion::V4 => copy.own_what_is_declared(),
            // Helm 3 leaves the charts below with the chart that was copied, unless the copy looks at what it declares.
            HelmVersion::V3 if self.declared.is_empty() => {
                for child in &mut copy.dependencies {
                    child.fixed_path = Some(child.loaded_path.clone());
                }
            }
            HelmVersion::V3 => {}
        }
        copy
    }

    fn own_what_is_declared(&mut self) {
        for dependency in &mut self.declared {
            let own = dependency.borrow().clone();
            *dependency = Rc::new(RefCell::new(own));
        }
        self.dependencies.iter_mut().for_each(Self::own_what_is_declared);
    }

    /// Drops disabled dependencies, gives others their aliases, and imports values of children.
    pub(crate) fn process_dependencies(&mut self, values: &Map) -> Result<(), TypeMismatch> {
        let path = self.metadata.name.clone();
        self.process_enabled(values, "", &path)?;
        self.import_values_everywhere()
    }

    /// `path` is that of the chart's values, `chart_path` that of its templates.
    fn process_enabled(&mut self, values: &Map, path: &str, chart_path: &str) -> Result<(), TypeMismatch> {
        if self.declared.is_empty() {
            return Ok(());
        }
        let stands_for = |dependency: &Dependency, child: &Node<'_>| {
            child.metadata.name == dependency.name
                && is_compatible(&dependency.version, &child.metadata.version)
        };
        let children = std::mem::take(&mut self.dependencies);
        let declared = &self.declared;
        let mut kept: Vec<Node<'c>> = children
            .iter()
            .filter(|child| !declared.iter().any(|dependency| stands_for(&dependency.borrow(), child)))
            .cloned()
            .collect();
        for dependency in declared {
            let mut dependency = dependency.borrow_mut();
            if let Some(child) = children.iter().find(|child| stands_for(&dependency, child)) {
                let mut child = child.copy();
                if !dependency.alias.is_empty() {
                    child.metadata.name.clone_from(&dependency.alias);
                }
                kept.push(child);
            }
            if !dependency.alias.is_empty() {
                dependency.name = dependency.alias.clone();
            }
            dependency.enabled = true;
        }
        self.dependencies = kept;
        if self.chart.helm == HelmVersion::V3 {
            for child in &self.dependencies {
                child.taken_by.replace(Some(chart_path.to_owned()));
            }
        }

        let values = coalesce_values(self, values, Nulls::Remove)?;
        for dependency in &self.declared {
            let mut dependency = dependency.borrow_mut();
            dependency.apply_tags(&values);
            dependency.apply_condition(&values, path);
        }
        let disabled: BTreeSet<String> = self
            .declared
            .iter()
            .map(|dependency| dependency.borrow())
            .filter(|dependency| !dependency.enabled)
            .map(|dependency| dependency.name.clone())
            .collect();
        self.dependencies.retain(|child| !disabled.contains(&child.metadata.name));
        self.declared.retain(|dependency| !disabled.contains(&dependency.borrow().name));
        for child in &mut self.dependencies {
            let path = format!("{path}{}.", child.metadata.name);
            let chart_path = child.path_below(chart_path);
            child.process_enabled(&values, &path, &chart_path)?;
        }
        Ok(())
    }

    fn import_values_everywhere(&mut self) -> Result<(), TypeMismatch> {
        for child in &mut self.dependencies {
            child.import_values_everywhere()?;
        }
        if self.declared.is_empty() {
            return Ok(());
        }
        let values = coalesce_values(self, &Map::default(), Nulls::Keep)?;
        let imported = Map::default();
        for dependency in &self.declared {
            let mut dependency = dependency.borrow_mut();
            let name = dependency.name.clone();
            dependency.import_values.retain_mut(|import| {
                let (child, parent) = match import {
                    ImportValues::Export(export) => (format!("exports.{export}"), ".".to_owned()),
                    ImportValues::Paths { child, parent, rewritten: false } => {
                        (child.clone(), parent.clone())
                    }
                    // Another alias of the chart went first.
                    ImportValues::Paths { .. } | ImportValues::Other(_) => return false,
                };
                if let Some(found) = table(&values, std::iter::once(name.as_str()).chain(child.split('.'))) {
                    coalesce_tables(&imported, &under(&parent, found), Nulls::Keep);
                }
                *import = ImportValues::Paths { child, parent, rewritten: true };
                true
            });
        }
        let values = deep_copy(&values, self.watch);
        coalesce_tables(&values, &imported, Nulls::Keep);
        self.values = values;
        Ok(())
    }
}

/// The table put at a path of otherwise empty ones; `.` is the top.
fn under(path: &str, table: Map) -> Map {
    if path == "." {
        return table;
    }
    path.rsplit('.').fold(table, |inner, part| [(part, Value::Map(inner))].into_iter().collect())
}

impl Dependency {
    fn apply_tags(&mut self, values: &Map) {
        let Some(tags) = table(values, ["tags"]) else { return };
        let set: Vec<bool> = self
            .tags
            .iter()
            .filter_map(|tag| match tags.get(tag.as_bytes()) {
                Some(Value::Bool(value)) => Some(value),
                _ => None,
            })
            .collect();
        self.enabled = set.is_empty() || set.contains(&true);
    }

    fn apply_condition(&mut self, values: &Map, path: &str) {
        for condition in self.condition.trim().split(',').filter(|condition| !condition.is_empty()) {
            if let Some(Value::Bool(value)) = path_value(values, &format!("{path}{condition}")) {
                self.enabled = value;
                return;
            }
        }
    }
}
