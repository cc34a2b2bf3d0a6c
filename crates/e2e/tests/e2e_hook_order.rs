//! helm and convoy run the hooks of one chart in one order, and delete their objects alike.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, and run helm"
)]

mod support;

use std::process::Command;

use convoy_testkit::{ControlPlane, Options, leave_out, program};
use serde_json::{Value, json};

use support::World;

const CHART: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\n";

/// Kind, name, events, weight and delete policies of hooks, none of which runs to an end.
const HOOKS: &[(&str, &str, &str, &str, &str)] = &[
    ("ServiceAccount", "zeta", "pre-install,pre-upgrade", "0", ""),
    ("ConfigMap", "zeta", "pre-install,pre-upgrade", "0", ""),
    ("Secret", "beta", "pre-install", "0", "before-hook-creation"),
    ("ConfigMap", "alpha", "pre-install,post-upgrade", "5", "hook-succeeded,before-hook-creation"),
    ("ConfigMap", "first", "pre-install", "-10", "hook-succeeded"),
    ("ConfigMap", "second", "pre-install,pre-upgrade", "-10", "hook-succeeded"),
    ("Secret", "after", "post-install,post-upgrade", "1", ""),
    ("ConfigMap", "before-after", "post-install", "-1", "hook-failed,before-hook-creation"),
    ("ConfigMap", "try", "test", "0", ""),
];

fn files(value: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = HOOKS
        .iter()
        .enumerate()
        .map(|(number, (kind, name, events, weight, policies))| {
            let mut annotations = json!({"helm.sh/hook": events, "helm.sh/hook-weight": weight});
            if !policies.is_empty() {
                annotations["helm.sh/hook-delete-policy"] = json!(policies);
            }
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "annotations": annotations}});
            (format!("c/templates/h{number}.yaml"), object.to_string())
        })
        .collect();
    let plain =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}, "data": {"v": value}});
    files.push(("c/templates/plain.yaml".to_owned(), plain.to_string()));
    files.push(("c/Chart.yaml".to_owned(), CHART.to_owned()));
    files
}

impl World {
    /// What was written to the namespace and took effect, by who has such a User-Agent.
    fn effects(&self, agent: &str, namespace: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.plane.audit_log()).unwrap_or_default();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events
            .filter(|event| event["stage"] == "ResponseComplete")
            .filter(|event| event["userAgent"].as_str().is_some_and(|text| text.starts_with(agent)))
            .filter(|event| event["objectRef"]["namespace"] == namespace)
            .filter(|event| event["responseStatus"]["code"].as_i64().is_some_and(|code| code < 300))
            .filter_map(|event| {
                let verb = match event["verb"].as_str()? {
                    "create" | "patch" | "update" => "write",
                    "delete" => "delete",
                    _ => return None,
                };
                let name = match event["objectRef"]["name"].as_str() {
                    Some(name) => name,
                    // A request that creates has the name in its answer.
                    None => event["responseObject"]["metadata"]["name"]
                        .as_str()
                        .or_else(|| event["requestObject"]["metadata"]["name"].as_str())
                        .unwrap_or("?"),
                };
                // Helm's record of its own releases, and the namespace that each makes in its own way.
                let is_other =
                    name.starts_with("sh.helm.release") || event["objectRef"]["resource"] == "namespaces";
                (!is_other).then(|| {
                    format!("{verb} {} {name}", event["objectRef"]["resource"].as_str().unwrap_or("?"))
                })
            })
            .collect()
    }
}

/// The same without the order of deletions that follow one another: convoy deletes objects of a kind together.
fn without_order_of_deletions(effects: &[String]) -> Vec<String> {
    let is_delete = |effect: &String| effect.starts_with("delete");
    let mut parts: Vec<Vec<String>> =
        effects.chunk_by(|a, b| is_delete(a) == is_delete(b)).map(<[String]>::to_vec).collect();
    parts.iter_mut().filter(|part| part.first().is_some_and(is_delete)).for_each(|part| part.sort());
    parts.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_in_helms_order_and_go_when_helms_do() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let helm = match program("helm") {
        Ok(helm) => helm,
        Err(missing) => return leave_out(&missing),
    };
    let first = files("1");
    let one: Vec<(&str, &str)> = first.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let mut world = World::start(plane, &one).await;
    let run = |arguments: &[&str], kubeconfig: &std::path::Path, folder: &std::path::Path| {
        let output = Command::new(&helm)
            .args(arguments)
            .current_dir(folder)
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let kubeconfig = world.plane.kubeconfig();
    run(
        &["install", "c", "c", "--namespace=with-helm", "--create-namespace"],
        &kubeconfig,
        &world.repository(),
    );
    let spec = json!({"targetNamespace": "web", "createNamespace": true, "apply": {"wait": false}});
    world.release("c", "c", spec).await;
    world.says("c", "True/Succeeded", "2 objects").await;
    let (theirs, ours) =
        (world.effects("Helm", "with-helm"), world.effects("convoy-controller-manager", "web"));
    assert!(theirs.len() > 8, "{theirs:?}");
    assert_eq!(without_order_of_deletions(&ours), without_order_of_deletions(&theirs), "installed");

    let second = files("2");
    let two: Vec<(&str, &str)> = second.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    world.commit(&two);
    run(&["upgrade", "c", "c", "--namespace=with-helm"], &kubeconfig, &world.repository());
    world.delivered("c", 2).await;
    assert_eq!(world.config_map("web", "plain").await, json!({"v": "2"}));
    let (more_theirs, more_ours) =
        (world.effects("Helm", "with-helm"), world.effects("convoy-controller-manager", "web"));
    assert!(more_theirs.len() > theirs.len());
    let upgraded = without_order_of_deletions(&more_theirs[theirs.len()..]);
    assert_eq!(without_order_of_deletions(&more_ours[ours.len()..]), upgraded, "upgraded");
    world.stop().await;
}
