//! The charts of one render: which dependencies are enabled, under which names, with which values.

use crate::chart::Chart;
use crate::coalesce::{Nulls, TypeMismatch, coalesce_tables, coalesce_values, deep_copy, path_value, table};
use crate::metadata::{Dependency, ImportValues, Metadata};
use crate::semver::is_compatible;
use crate::values::to_map;
use convoy_gotemplate::{Map, Value};
use std::collections::BTreeSet;

/// A chart in its place. Its metadata and values are copies that dependencies change.
#[derive(Clone, Debug)]
pub(crate) struct Node<'c> {
    pub(crate) chart: &'c Chart,
    pub(crate) metadata: Metadata,
    pub(crate) values: Map,
    pub(crate) dependencies: Vec<Node<'c>>,
}

impl<'c> Node<'c> {
    pub(crate) fn new(chart: &'c Chart) -> Self {
        Self {
            chart,
            metadata: chart.metadata.clone(),
            values: to_map(&chart.values),
            dependencies: chart.dependencies.iter().map(Node::new).collect(),
        }
    }

    /// Drops disabled dependencies, gives others their aliases, and imports values of children.
    pub(crate) fn process_dependencies(&mut self, values: &Map) -> Result<(), TypeMismatch> {
        self.process_enabled(values, "")?;
        self.import_values_everywhere()
    }

    fn process_enabled(&mut self, values: &Map, path: &str) -> Result<(), TypeMismatch> {
        if self.metadata.dependencies.is_empty() {
            return Ok(());
        }
        let stands_for = |dependency: &Dependency, child: &Node<'_>| {
            child.metadata.name == dependency.name
                && is_compatible(&dependency.version, &child.metadata.version)
        };
        let children = std::mem::take(&mut self.dependencies);
        let declared = &mut self.metadata.dependencies;
        let mut kept: Vec<Node<'c>> = children
            .iter()
            .filter(|child| !declared.iter().any(|dependency| stands_for(dependency, child)))
            .cloned()
            .collect();
        for dependency in declared {
            if let Some(child) = children.iter().find(|child| stands_for(dependency, child)) {
                let mut child = child.clone();
                if !dependency.alias.is_empty() {
                    child.metadata.name.clone_from(&dependency.alias);
                }
                kept.push(child);
            }
            if !dependency.alias.is_empty() {
                dependency.name.clone_from(&dependency.alias);
            }
            dependency.enabled = true;
        }
        self.dependencies = kept;

        let values = coalesce_values(self, values, Nulls::Remove)?;
        for dependency in &mut self.metadata.dependencies {
            dependency.apply_tags(&values);
            dependency.apply_condition(&values, path);
        }
        let disabled: BTreeSet<String> = self
            .metadata
            .dependencies
            .iter()
            .filter(|dependency| !dependency.enabled)
            .map(|dependency| dependency.name.clone())
            .collect();
        self.dependencies.retain(|child| !disabled.contains(&child.metadata.name));
        self.metadata.dependencies.retain(|dependency| !disabled.contains(&dependency.name));
        for child in &mut self.dependencies {
            let path = format!("{path}{}.", child.metadata.name);
            child.process_enabled(&values, &path)?;
        }
        Ok(())
    }

    fn import_values_everywhere(&mut self) -> Result<(), TypeMismatch> {
        for child in &mut self.dependencies {
            child.import_values_everywhere()?;
        }
        if self.metadata.dependencies.is_empty() {
            return Ok(());
        }
        let values = coalesce_values(self, &Map::default(), Nulls::Keep)?;
        let imported = Map::default();
        for dependency in &mut self.metadata.dependencies {
            let name = dependency.name.clone();
            dependency.import_values.retain_mut(|import| {
                let (child, parent) = match import {
                    ImportValues::Export(export) => (format!("exports.{export}"), ".".to_owned()),
                    ImportValues::Paths { child, parent, .. } => (child.clone(), parent.clone()),
                    ImportValues::Other(_) => return false,
                };
                if let Some(found) = table(&values, std::iter::once(name.as_str()).chain(child.split('.'))) {
                    coalesce_tables(&imported, &under(&parent, found), Nulls::Keep);
                }
                *import = ImportValues::Paths { child, parent, rewritten: true };
                true
            });
        }
        let values = deep_copy(&values);
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
