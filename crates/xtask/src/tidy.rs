//! `cargo xtask tidy`: what the compiler does not check about the repository's shape.
//!
//! Each rule returns all the problems it finds, so that one run shows everything there is to mend.

mod contract;
mod guarantees;
mod layering;
mod links;
mod sources;

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::workspace;

/// Checks all rules and prints each problem on a line of its own.
pub(crate) fn run() -> anyhow::Result<()> {
    let root = workspace::root();
    let metadata = metadata(&root)?;
    let architecture =
        std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("reading ARCHITECTURE.md")?;
    let table = layering::parse_table(&architecture)?;
    let packages = layering::packages(&metadata);

    let mut problems = layering::check(&table, &packages);
    problems.extend(sources::check(&root, &table)?);
    problems.extend(contract::check(&root)?);
    problems.extend(guarantees::check(&root)?);
    problems.extend(links::check(&root)?);
    problems.extend(licence(&root, &metadata));
    problems.extend(features(&metadata));
    for problem in &problems {
        println!("tidy: {problem}");
    }
    ensure!(problems.is_empty(), "{} problem(s)", problems.len());
    println!("tidy: {} crates, {} arrows allowed, nothing to mend", packages.len(), table.arrows());
    Ok(())
}

fn metadata(root: &Path) -> anyhow::Result<Value> {
    let output = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"))
        .args(["metadata", "--format-version", "1"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("could not run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed");
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The licence is there, and every package of ours says so.
fn licence(root: &Path, metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let text = std::fs::read_to_string(root.join("LICENSE")).unwrap_or_default();
    if !text.contains("Apache License") {
        problems.push("LICENSE does not hold the Apache License".to_owned());
    }
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if package["source"].is_null() && package["license"] != "Apache-2.0" {
            problems.push(format!("{}: licence is not Apache-2.0", package["name"]));
        }
    }
    problems
}

/// Features of others that would change what convoy does.
fn features(metadata: &Value) -> Vec<String> {
    let banned = [(
        "serde_json",
        "preserve_order",
        "objects are written with sorted keys; one crate that asks for insertion order changes that for all",
    )];
    let nodes = metadata["resolve"]["nodes"].as_array();
    let mut problems = Vec::new();
    for (crate_name, feature, why) in banned {
        let enabled = nodes.into_iter().flatten().any(|node| {
            let id = node["id"].as_str().unwrap_or_default();
            let names = id.rsplit_once('#').map_or(id, |(_, tail)| tail);
            names.starts_with(&format!("{crate_name}@"))
                && node["features"].as_array().is_some_and(|features| features.iter().any(|on| on == feature))
        });
        if enabled {
            problems.push(format!("feature {feature} of {crate_name} is on: {why}"));
        }
    }
    problems
}
