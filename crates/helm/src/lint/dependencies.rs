//! Whether what Chart.yaml declares and what stands in charts/ are the same.

use super::Severity::{Error, Warning};
use super::{LintChart, Linter};
use std::collections::BTreeSet;

pub(super) fn lint(linter: &mut Linter, chart: &LintChart) {
    let loaded = match chart.load() {
        Ok(loaded) => loaded,
        Err(error) => {
            linter.rule(Error, "", Err(format!("unable to load chart\n\t{}", error.helm_text())));
            return;
        }
    };
    let declared = &loaded.metadata.dependencies;
    let found = |text: &str, names: Vec<&str>| match names.is_empty() {
        true => Ok(()),
        false => Err(format!("{text}: {}", names.join(","))),
    };
    let there = loaded.dependencies.iter().map(|child| child.metadata.name.as_str());
    let undeclared = there.filter(|name| !declared.iter().any(|dependency| dependency.name == *name));
    let undeclared = found("chart metadata is missing these dependencies", undeclared.collect());
    linter.rule(Error, &chart.folder, undeclared);

    let mut seen = BTreeSet::new();
    let keys = declared.iter().map(|dependency| match dependency.alias.as_str() {
        "" => dependency.name.as_str(),
        alias => alias,
    });
    let twice =
        found("multiple dependencies with name or alias", keys.filter(|key| !seen.insert(*key)).collect());
    linter.rule(Error, &chart.folder, twice);

    let is_there = |name: &str| loaded.dependencies.iter().any(|child| child.metadata.name == name);
    let missing = declared.iter().map(|dependency| dependency.name.as_str()).filter(|name| !is_there(name));
    let missing = found("chart directory is missing these dependencies", missing.collect());
    linter.rule(Warning, &chart.folder, missing);
}
