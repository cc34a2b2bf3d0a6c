//! The arrows between crates, held against the table in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::Value;

/// What pure crates never link, because it acts.
const IMPURE: [&str; 12] = [
    "tokio",
    "kube",
    "kube-client",
    "kube-runtime",
    "hyper",
    "hyper-util",
    "reqwest",
    "rustls",
    "gix",
    "object_store",
    "redb",
    "tracing-subscriber",
];

/// The crate table: ring and allowed arrows of each crate.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
}

#[derive(Debug)]
struct Row {
    ring: u8,
    may_use: MayUse,
}

#[derive(Debug)]
enum MayUse {
    Any,
    /// All crates of the rings up to this one, and those named.
    Rings(u8, BTreeSet<String>),
    Named(BTreeSet<String>),
}

/// A package of the workspace with its arrows to others of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    name: String,
    folder: String,
    dependencies: BTreeSet<String>,
    dev_dependencies: BTreeSet<String>,
    foreign: BTreeSet<String>,
}

impl Table {
    /// Crates of ring 0, by package name.
    pub(crate) fn pure(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter(|(_, row)| row.ring == 0).map(|(name, _)| name.as_str())
    }

    /// How many arrows the table allows by name.
    pub(crate) fn arrows(&self) -> usize {
        self.rows
            .values()
            .map(|row| match &row.may_use {
                MayUse::Any => 0,
                MayUse::Named(names) | MayUse::Rings(_, names) => names.len(),
            })
            .sum()
    }
}

/// Reads the table: `| ring | `crate` | what | may use |`.
pub(crate) fn parse_table(architecture: &str) -> anyhow::Result<Table> {
    let mut table = Table::default();
    for line in architecture.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [ring, name, _, may_use] = cells[..] else { continue };
        let Ok(ring) = ring.parse::<u8>() else { continue };
        let name = name.trim_matches('`').to_owned();
        let names = |text: &str| -> BTreeSet<String> {
            text.split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(|name| format!("convoy-{name}"))
                .collect()
        };
        let may_use = if may_use == "any" {
            MayUse::Any
        } else if let Some(rest) = may_use.strip_prefix("ring 0–") {
            let (highest, rest) = rest.split_once(',').unwrap_or((rest, ""));
            MayUse::Rings(
                highest.trim().parse().with_context(|| format!("row {name}: {may_use}"))?,
                names(rest),
            )
        } else {
            MayUse::Named(names(may_use))
        };
        table.rows.insert(name, Row { ring, may_use });
    }
    ensure!(!table.rows.is_empty(), "ARCHITECTURE.md holds no crate table");
    Ok(table)
}

/// The workspace's packages, from `cargo metadata`.
pub(crate) fn packages(metadata: &Value) -> Vec<Package> {
    let ours: Vec<&Value> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|package| package["source"].is_null())
        .collect();
    let names: BTreeSet<&str> = ours.iter().filter_map(|package| package["name"].as_str()).collect();
    ours.iter()
        .map(|package| {
            let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
            let mut found = Package {
                name: text("name"),
                folder: text("manifest_path").rsplit('/').nth(1).unwrap_or_default().to_owned(),
                dependencies: BTreeSet::new(),
                dev_dependencies: BTreeSet::new(),
                foreign: BTreeSet::new(),
            };
            for dependency in package["dependencies"].as_array().into_iter().flatten() {
                let Some(name) = dependency["name"].as_str() else { continue };
                let dev = dependency["kind"] == "dev";
                match (names.contains(name), dev) {
                    (true, false) => found.dependencies.insert(name.to_owned()),
                    (true, true) => found.dev_dependencies.insert(name.to_owned()),
                    (false, false) => found.foreign.insert(name.to_owned()),
                    (false, true) => false,
                };
            }
            found
        })
        .collect()
}

/// All arrows that the table does not allow, and rows and crates that do not match.
pub(crate) fn check(table: &Table, packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages {
        let name = &package.name;
        let folder = name.strip_prefix("convoy-").unwrap_or(name);
        if package.folder != folder {
            problems.push(format!(
                "{name} lives in crates/{}; its folder is its name without the prefix",
                package.folder
            ));
        }
        let Some(row) = table.rows.get(name) else {
            problems.push(format!("{name} has no row in ARCHITECTURE.md's crate table"));
            continue;
        };
        for target in &package.dependencies {
            let ring_of_target = table.rows.get(target).map_or(u8::MAX, |row| row.ring);
            let allowed = match &row.may_use {
                MayUse::Any => true,
                MayUse::Named(names) => names.contains(target),
                MayUse::Rings(highest, names) => ring_of_target <= *highest || names.contains(target),
            };
            if !allowed {
                problems.push(format!("{name} uses {target}, an arrow that the crate table does not have"));
            }
        }
        for target in &package.dev_dependencies {
            // A crate's own tests may look further in, and at the testkit; never at a process beside it.
            let ring_of_target = table.rows.get(target).map_or(u8::MAX, |row| row.ring);
            if ring_of_target >= 2 && target != "convoy-testkit" && row.ring < 3 {
                problems.push(format!("tests of {name} use {target}; such a test belongs to convoy-e2e"));
            }
        }
        if row.ring == 0 {
            for foreign in package.foreign.iter().filter(|foreign| IMPURE.contains(&foreign.as_str())) {
                problems.push(format!("{name} is pure and uses {foreign}"));
            }
        }
    }
    for name in table.rows.keys() {
        if !packages.iter().any(|package| package.name == *name) {
            problems.push(format!("the crate table has a row for {name}, which does not exist"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| ring | crate | what it is | may use |
|---|---|---|---|
| 0 | `convoy-meta` | m | |
| 0 | `convoy-smd` | s | meta |
| 1 | `convoy-storage` | st | meta |
| 2 | `convoy-apiserver` | a | ring 0–1 |
| 2 | `convoy-sandbox` | b | ring 0–1, apiserver |
";

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            folder: name.trim_start_matches("convoy-").to_owned(),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
            dev_dependencies: BTreeSet::new(),
            foreign: BTreeSet::new(),
        }
    }

    fn workspace(changed: Package) -> Vec<Package> {
        let mut packages = vec![
            package("convoy-meta", &[]),
            package("convoy-smd", &["convoy-meta"]),
            package("convoy-storage", &["convoy-meta"]),
            package("convoy-apiserver", &["convoy-storage", "convoy-smd"]),
            package("convoy-sandbox", &["convoy-apiserver", "convoy-meta"]),
        ];
        packages.retain(|package| package.name != changed.name);
        packages.push(changed);
        packages
    }

    fn problems(changed: Package) -> Vec<String> {
        check(&parse_table(TABLE).unwrap(), &workspace(changed))
    }

    #[test]
    fn allowed_arrows_pass() {
        assert_eq!(problems(package("convoy-meta", &[])), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_outwards_is_named() {
        let found = problems(package("convoy-storage", &["convoy-apiserver"]));
        assert_eq!(
            found,
            ["convoy-storage uses convoy-apiserver, an arrow that the crate table does not have"]
        );
    }

    #[test]
    fn processes_never_see_each_other() {
        assert_eq!(problems(package("convoy-apiserver", &["convoy-sandbox"])).len(), 1);
    }

    #[test]
    fn a_pure_crate_that_acts_is_named() {
        let mut impure = package("convoy-smd", &[]);
        impure.foreign.insert("tokio".to_owned());
        assert_eq!(problems(impure), ["convoy-smd is pure and uses tokio"]);
    }

    #[test]
    fn crates_and_rows_match_both_ways() {
        let extra = problems(package("convoy-new", &[]));
        assert_eq!(extra, ["convoy-new has no row in ARCHITECTURE.md's crate table"]);
        let missing = check(&parse_table(TABLE).unwrap(), &workspace(package("convoy-meta", &[]))[1..]);
        assert_eq!(missing.len(), 1, "{missing:?}");
    }
}
