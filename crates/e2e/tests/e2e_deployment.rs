//! What `deploy/` says: that it is what the contract promises, and that convoy and a real API server take it.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use convoy_e2e::deployment::{
    OVERLAYS, Objects, command_line_takes, container, documents, folder, kustomize, texts,
};
use convoy_testkit::{leave_out, program};
use serde_json::{Value, json};

fn kubectl() -> Option<PathBuf> {
    program("kubectl").inspect_err(|missing| leave_out(missing)).ok()
}

fn overlay(kubectl: &std::path::Path, name: &str) -> Objects {
    kustomize(kubectl, &folder().join("overlays").join(name))
}

fn arguments(objects: &Objects, deployment: &str) -> Vec<String> {
    texts(&container(objects.get("Deployment", deployment))["args"])
}

fn replicas(objects: &Objects, deployment: &str) -> u64 {
    objects.get("Deployment", deployment)["spec"]["replicas"].as_u64().unwrap()
}

#[test]
fn sc30_sc37_sc38_sc39_sc50_sc51_overlays_have_as_many_replicas_as_they_say_each_with_its_own_name_and_scoped_caches()
 {
    let Some(kubectl) = kubectl() else { return };
    for (name, wanted) in [("single-replica", 1), ("multi-replica", 2), ("production", 3)] {
        let objects = overlay(&kubectl, name);
        for deployment in ["convoy-controller-manager", "convoy-observer"] {
            assert_eq!(replicas(&objects, deployment), wanted, "{name} {deployment}");
            let container = container(objects.get("Deployment", deployment));
            assert!(
                texts(&container["args"]).contains(&"--shard-scoped-cache".to_owned()),
                "{name} {deployment}"
            );
            let variable = |variable: &str| {
                let all = container["env"].as_array().unwrap();
                let found = all.iter().find(|entry| entry["name"] == variable).unwrap();
                found["valueFrom"]["fieldRef"]["fieldPath"].as_str().unwrap().to_owned()
            };
            // --replica-id and --lease-namespace have them from there.
            assert_eq!(variable("POD_NAME"), "metadata.name");
            assert_eq!(variable("POD_NAMESPACE"), "metadata.namespace");
        }
        let behind_one = objects.get("Service", "convoy-observer");
        assert_eq!(behind_one["spec"]["selector"]["app.kubernetes.io/component"], "observer");
    }
}

#[test]
fn sc54_sc56_sc58_the_dev_overlays_have_one_apiserver_with_no_checked_certificate_and_one_etcd_that_forgets()
{
    let Some(kubectl) = kubectl() else { return };
    for name in ["single-replica", "multi-replica"] {
        let objects = overlay(&kubectl, name);
        assert_eq!(replicas(&objects, "convoy-apiserver"), 1);
        let service = objects.get("APIService", "v1alpha1.convoy.kumodo.io");
        assert_eq!(service["spec"]["insecureSkipTLSVerify"], true);
        assert!(!arguments(&objects, "convoy-apiserver").iter().any(|flag| flag.starts_with("--tls-")));
        assert_eq!(replicas(&objects, "convoy-etcd"), 1);
        let volumes = &objects.get("Deployment", "convoy-etcd")["spec"]["template"]["spec"]["volumes"];
        assert_eq!(volumes, &json!([{"name": "data", "emptyDir": {}}]));
    }
}

#[test]
fn sc55_sc57_sc59_production_has_an_etcd_of_its_own_over_tls_and_certificates_that_the_host_checks() {
    let Some(kubectl) = kubectl() else { return };
    let objects = overlay(&kubectl, "production");
    assert_eq!(replicas(&objects, "convoy-apiserver"), 3);
    let service = objects.get("APIService", "v1alpha1.convoy.kumodo.io");
    assert!(service["spec"].get("insecureSkipTLSVerify").is_none());
    assert!(service["metadata"]["annotations"]["cert-manager.io/inject-ca-from"].is_string());
    assert!(objects.find("Deployment", "convoy-etcd").is_none());
    let flags = arguments(&objects, "convoy-apiserver");
    for flag in [
        "--etcd-servers=https://",
        "--etcd-cafile=",
        "--etcd-certfile=",
        "--etcd-keyfile=",
        "--tls-cert-file=",
    ] {
        assert!(flags.iter().any(|given| given.starts_with(flag)), "{flag}");
    }
    // Replicas on several nodes share a bucket; that the Secret with its credentials is mounted is in the list of volumes.
    assert!(objects.find("PersistentVolumeClaim", "convoy-render-store").is_none());
    for deployment in ["convoy-controller-manager", "convoy-observer"] {
        let flags = arguments(&objects, deployment);
        let stores = flags.iter().filter(|flag| flag.starts_with("--render-store-url="));
        assert!(stores.map(|flag| flag.starts_with("--render-store-url=s3://")).eq([true]), "{flags:?}");
    }
    for component in ["apiserver", "controller-manager", "observer"] {
        let name = format!("convoy-{component}");
        assert!(objects.find("PodDisruptionBudget", &name).is_some());
        assert!(objects.find("NetworkPolicy", &name).is_some());
        assert!(objects.find("ServiceMonitor", &name).is_some());
        let pod = &objects.get("Deployment", &name)["spec"]["template"]["spec"];
        assert_eq!(pod["topologySpreadConstraints"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn every_pod_is_confined_and_has_probes_and_bounds() {
    let Some(kubectl) = kubectl() else { return };
    for name in OVERLAYS {
        let objects = overlay(&kubectl, name);
        for deployment in objects.of("Deployment") {
            let who = format!("{name} {}", deployment["metadata"]["name"]);
            let pod = &deployment["spec"]["template"]["spec"];
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{who}");
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{who}");
            let container = container(deployment);
            let context = &container["securityContext"];
            assert_eq!(context["readOnlyRootFilesystem"], true, "{who}");
            assert_eq!(context["allowPrivilegeEscalation"], false, "{who}");
            assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}), "{who}");
            assert!(container["resources"]["requests"]["memory"].is_string(), "{who}");
            assert!(container["resources"]["limits"]["memory"].is_string(), "{who}");
            for probe in ["livenessProbe", "readinessProbe"] {
                assert!(container[probe]["httpGet"]["path"].is_string(), "{who} {probe}");
            }
            // Every mount is of a volume, and every volume is mounted.
            let names = |list: &Value| -> BTreeSet<String> {
                list.as_array()
                    .into_iter()
                    .flatten()
                    .map(|entry| entry["name"].as_str().unwrap().to_owned())
                    .collect()
            };
            assert_eq!(names(&container["volumeMounts"]), names(&pod["volumes"]), "{who}");
        }
    }
}

#[test]
fn every_argument_of_a_container_is_one_that_convoy_takes() {
    let Some(kubectl) = kubectl() else { return };
    for name in OVERLAYS {
        let objects = overlay(&kubectl, name);
        for component in ["apiserver", "controller-manager", "observer"] {
            let line = arguments(&objects, &format!("convoy-{component}"));
            assert_eq!(line[0], component);
            command_line_takes(&line).unwrap_or_else(|said| panic!("{name} {line:?}: {said}"));
        }
    }
    let unknown = ["observer".to_owned(), "--no-such-flag".to_owned()];
    assert!(command_line_takes(&unknown).is_err());
    let unmeant = ["observer".to_owned(), "--shards=none".to_owned()];
    assert!(command_line_takes(&unmeant).is_err());
}

/// A manifest as it is, whatever order lists of flags and of named entries have.
fn unordered(mut object: Value) -> Value {
    fn sort(value: &mut Value) {
        match value {
            Value::Array(items) => {
                items.iter_mut().for_each(sort);
                let is_named = items.iter().all(|item| item["name"].is_string());
                let are_flags =
                    items.iter().skip(1).all(|item| item.as_str().is_some_and(|text| text.starts_with("--")));
                if is_named || are_flags {
                    items.sort_by_key(|item| {
                        item["name"].as_str().unwrap_or(item.as_str().unwrap_or_default()).to_owned()
                    });
                }
            }
            Value::Object(fields) => fields.values_mut().for_each(sort),
            _ => {}
        }
    }
    sort(&mut object);
    object
}

#[test]
fn the_chart_renders_to_the_objects_of_the_overlays() {
    let Some(kubectl) = kubectl() else { return };
    let chart = folder().join("chart");
    for (name, values) in [
        ("single-replica", vec![]),
        ("multi-replica", vec!["--set", "controllerManager.replicas=2,observer.replicas=2"]),
        ("production", vec!["-f", "values-production.yaml"]),
    ] {
        let values: Vec<String> = values
            .into_iter()
            .map(|value| {
                if value.ends_with(".yaml") {
                    chart.join(value).display().to_string()
                } else {
                    value.to_owned()
                }
            })
            .collect();
        let mut line = vec!["template", "convoy", chart.to_str().unwrap(), "-n", "convoy-system"];
        line.extend(["--set", "createNamespace=true"]);
        line.extend(values.iter().map(String::as_str));
        let output = convoy_e2e::run(&line);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rendered = Objects::new(documents(&output.stdout));
        let wanted = overlay(&kubectl, name);
        assert_eq!(rendered.names(), wanted.names(), "{name}");
        for (rendered, wanted) in rendered.iter().zip(wanted.iter()) {
            let who = format!("{name}: {} {}", wanted["kind"], wanted["metadata"]["name"]);
            pretty(&who, &unordered(rendered.clone()), &unordered(wanted.clone()));
        }
    }
}

fn pretty(who: &str, found: &Value, wanted: &Value) {
    let text = |value| serde_json::to_string_pretty(value).unwrap();
    assert!(found == wanted, "{who}: the chart has {}\nthe overlay has {}", text(found), text(wanted));
}

/// The names of metrics in an expression: what has an underscore and is no function and no label.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_metric = |word: &&str| word.starts_with("convoy_") || word.starts_with("apiserver_");
    words.filter(is_metric).map(str::to_owned).collect()
}

/// The names under which the code counts things: texts that are nothing but a name, and types in the text format.
fn metrics_of_the_code() -> BTreeSet<String> {
    fn read(folder: &std::path::Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, names);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            // Tests name metrics, too.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for literal in code.split('"').skip(1).step_by(2) {
                let name = literal
                    .strip_prefix("# TYPE ")
                    .and_then(|rest| rest.split(' ').next())
                    .unwrap_or(literal);
                if metrics_in(name).contains(name) {
                    names.insert(name.to_owned());
                }
            }
        }
    }
    let mut names = BTreeSet::new();
    for crate_name in ["runtime", "apiserver", "controller-manager", "observer"] {
        read(&folder().join("../crates").join(crate_name).join("src"), &mut names);
    }
    names
}

#[test]
fn alerts_and_dashboard_name_only_metrics_that_there_are() {
    let Some(kubectl) = kubectl() else { return };
    let objects = overlay(&kubectl, "production");
    let known = metrics_of_the_code();
    assert!(known.contains("convoy_shards_owned") && known.contains("apiserver_request_total"), "{known:?}");
    let mut expressions = Vec::new();
    for group in objects.get("PrometheusRule", "convoy")["spec"]["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            expressions.push(rule["expr"].as_str().unwrap().to_owned());
            assert!(rule["annotations"]["description"].is_string());
        }
    }
    let dashboard = objects.get("ConfigMap", "convoy-dashboard")["data"]["convoy.json"].as_str().unwrap();
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            expressions.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    assert!(expressions.len() > 20);
    for expression in expressions {
        let names = metrics_in(&expression);
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            let is_known = ["", "_total", "_bucket", "_count", "_sum"]
                .iter()
                .any(|suffix| name.strip_suffix(suffix).is_some_and(|name| known.contains(name)));
            assert!(is_known, "{name} in {expression}");
        }
    }
}

#[test]
fn every_kind_may_be_viewed_and_is_read_by_the_controller_manager_and_the_observer() {
    let Some(kubectl) = kubectl() else { return };
    let objects = overlay(&kubectl, "single-replica");
    for role in ["convoy-view", "convoy-controller-manager", "convoy-observer"] {
        let rules = objects.get("ClusterRole", role)["rules"].as_array().unwrap();
        for kind in convoy_api::kinds() {
            let reads = rules.iter().any(|rule| {
                let verbs = texts(&rule["verbs"]);
                texts(&rule["resources"]).iter().any(|resource| resource == kind.plural)
                    && ["get", "list", "watch"].iter().all(|verb| verbs.iter().any(|given| given == verb))
            });
            assert!(reads, "{role} does not read {}", kind.plural);
        }
    }
}
