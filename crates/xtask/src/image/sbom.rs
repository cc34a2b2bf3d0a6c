//! What convoy is made of, as CycloneDX JSON: the crates that cargo links into the program, with their licences.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::workspace;

/// The bill of the program `convoy` for this platform; the same as long as Cargo.lock is.
pub(crate) fn sbom() -> anyhow::Result<Vec<u8>> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"))
        .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", &triple])
        .current_dir(workspace::root())
        .output()
        .context("could not run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    bill(&serde_json::from_slice(&output.stdout)?)
}

/// The bill of cargo's metadata.
fn bill(metadata: &Value) -> anyhow::Result<Vec<u8>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    let root = packages
        .iter()
        .find(|(_, package)| package["name"] == "convoy")
        .context("there is no package convoy")?;

    let purl = |id: &str| {
        let package = &packages[id];
        format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
    };
    let mut seen = BTreeSet::new();
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    let mut open = vec![root.0.clone()];
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let node = nodes.get(&id).with_context(|| format!("{id} is not resolved"))?;
        // What only builds or tests it is not in the program.
        let linked: BTreeSet<String> = list(&node["deps"])
            .iter()
            .filter(|dep| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()))
            .map(|dep| text(&dep["pkg"]))
            .collect();
        let package = &packages[&id];
        let mut component = json!({
            "type": "library", "bom-ref": purl(&id), "purl": purl(&id),
            "name": package["name"], "version": package["version"],
        });
        if let Some(licence) = package["license"].as_str() {
            // The older way to write OR.
            component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
        }
        components.insert(purl(&id), component);
        dependencies.insert(purl(&id), linked.iter().map(|id| purl(id)).collect::<BTreeSet<_>>());
        open.extend(linked);
    }
    let mut about = components.remove(&purl(root.0)).unwrap_or_default();
    about["type"] = json!("application");
    let dependencies: Vec<Value> =
        dependencies.into_iter().map(|(of, on)| json!({"ref": of, "dependsOn": on})).collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": about},
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    Ok(serde_json::to_vec_pretty(&bill)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_on_the_bill_and_what_only_builds_or_tests_is_not() {
        let package =
            |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let dep = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("convoy"), package("a"), package("b"), package("cc"), package("insta")],
            "resolve": {"nodes": [
                {"id": "convoy", "deps": [dep("a", Value::Null), dep("insta", json!("dev"))]},
                {"id": "a", "deps": [dep("b", Value::Null), dep("cc", json!("build"))]},
                {"id": "b", "deps": []}, {"id": "cc", "deps": []}, {"id": "insta", "deps": []},
            ]},
        });
        let bill: Value = serde_json::from_slice(&bill(&metadata).unwrap()).unwrap();
        let names: Vec<&str> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(bill["metadata"]["component"]["name"], "convoy");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(
            bill["dependencies"][0],
            json!({"ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@1.0.0"]})
        );
    }
}
