//! Our defaults beside those of a real kube-apiserver.

use convoy_schema::catalogue;
use convoy_testkit::{ControlPlane, Options};
use serde_json::{Value, json};

/// Objects that leave out what can be left out, with the path they are created at.
fn objects() -> Vec<(&'static str, Value)> {
    let containers = json!([
        {
            "name": "a",
            "image": "registry.example.com/a",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 81}},
            "startupProbe": {"exec": {"command": ["true"]}},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
            "resources": {"limits": {"cpu": "1"}},
        },
        {"name": "b", "image": "registry.example.com:5000/b:1.2"},
        {"name": "c", "image": "c:latest", "imagePullPolicy": "Never"},
    ]);
    let volumes = json!([
        {"name": "none"},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "map", "configMap": {"name": "m"}},
        {"name": "host", "hostPath": {"path": "/var/x"}},
        {"name": "down", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "projected", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    ]);
    let labels = json!({"app": "x"});
    let pods = json!({"containers": containers, "volumes": volumes, "serviceAccountName": "sa"});
    let template = json!({"metadata": {"labels": labels}, "spec": pods});
    let selector = json!({"matchLabels": labels});
    let once = json!({"metadata": {"labels": labels}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}});
    let object = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    vec![
        (
            "/apis/apps/v1/namespaces/default/deployments",
            object("apps/v1", "Deployment", json!({"spec": {"selector": selector, "template": template}})),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            object(
                "apps/v1",
                "Deployment",
                json!({"spec": {"strategy": {"type": "Recreate"}, "selector": selector, "template": template}}),
            ),
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            object(
                "apps/v1",
                "StatefulSet",
                json!({"spec": {
                    "selector": selector, "template": template, "serviceName": "x",
                    "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
                }}),
            ),
        ),
        (
            "/apis/apps/v1/namespaces/default/daemonsets",
            object("apps/v1", "DaemonSet", json!({"spec": {"selector": selector, "template": template}})),
        ),
        (
            "/apis/apps/v1/namespaces/default/replicasets",
            object("apps/v1", "ReplicaSet", json!({"spec": {"selector": selector, "template": template}})),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            object("batch/v1", "Job", json!({"spec": {"template": once}})),
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            object(
                "batch/v1",
                "CronJob",
                json!({"spec": {"schedule": "0 1 * * *", "jobTemplate": {"spec": {"template": once}}}}),
            ),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            object(
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                json!({"spec": {
                    "maxReplicas": 5,
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
                }}),
            ),
        ),
        (
            "/api/v1/namespaces/default/services",
            object("v1", "Service", json!({"spec": {"selector": labels, "ports": [{"port": 80}]}})),
        ),
        (
            "/api/v1/namespaces/default/services",
            object(
                "v1",
                "Service",
                json!({"spec": {"clusterIP": "None", "sessionAffinity": "ClientIP", "selector": labels, "ports": [{"port": 80, "targetPort": "http"}]}}),
            ),
        ),
        (
            "/api/v1/namespaces/default/services",
            object(
                "v1",
                "Service",
                json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30100}]}}),
            ),
        ),
        (
            "/api/v1/namespaces/default/services",
            object("v1", "Service", json!({"spec": {"type": "ExternalName", "externalName": "example.com"}})),
        ),
        (
            "/api/v1/namespaces/default/secrets",
            object("v1", "Secret", json!({"stringData": {"a": "b"}, "data": {"c": "ZA=="}})),
        ),
        ("/api/v1/namespaces/default/configmaps", object("v1", "ConfigMap", json!({"data": {"a": "b"}}))),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            object(
                "v1",
                "PersistentVolumeClaim",
                json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
            ),
        ),
        (
            "/api/v1/persistentvolumes",
            object(
                "v1",
                "PersistentVolume",
                json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "nfs": {"server": "nfs.example.com", "path": "/x"}}}),
            ),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            object(
                "networking.k8s.io/v1",
                "NetworkPolicy",
                json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}}),
            ),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            object(
                "networking.k8s.io/v1",
                "Ingress",
                json!({"spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}}),
            ),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            object(
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
                json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
            ),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            object(
                "rbac.authorization.k8s.io/v1",
                "ClusterRoleBinding",
                json!({
                    "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"},
                    "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "default"}],
                }),
            ),
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            object("storage.k8s.io/v1", "StorageClass", json!({"provisioner": "example.com/x"})),
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            object("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 5})),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            object(
                "policy/v1",
                "PodDisruptionBudget",
                json!({"spec": {"minAvailable": 1, "selector": selector}}),
            ),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            object(
                "admissionregistration.k8s.io/v1",
                "MutatingWebhookConfiguration",
                json!({"webhooks": [{
                    "name": "x.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                    "clientConfig": {"service": {"name": "x", "namespace": "default"}},
                    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
                }]}),
            ),
        ),
    ]
}

/// What the server allots or counts, and what tests elsewhere hold against it.
fn without_allotted(mut object: Value) -> Value {
    for path in ["metadata", "status"] {
        object.as_object_mut().unwrap().remove(path);
    }
    if object["kind"] == "Service"
        && let Some(spec) = object["spec"].as_object_mut()
    {
        for field in ["clusterIP", "clusterIPs"] {
            spec.remove(field);
        }
    }
    object
}

fn uid_replaced(object: &Value, uid: &Value) -> Value {
    let text = object.to_string().replace(uid.as_str().unwrap_or("no uid"), "<uid>");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn defaults_are_those_of_kube_apiserver() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let mut differences = Vec::new();
    for (path, object) in objects() {
        let answer =
            plane.client().send("POST", &format!("{path}?dryRun=All"), "application/json", &object).unwrap();
        let real = answer.json();
        assert_eq!(answer.status, 201, "{path}: {real}");

        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let kind = object["kind"].as_str().unwrap();
        let mut ours = object.clone();
        ours["metadata"]["uid"] = real["metadata"]["uid"].clone();
        let known = catalogue().kind(group, version, kind).unwrap();
        catalogue().structural(known).unwrap().default(&mut ours);
        super::set(group, kind, &mut ours);
        let mut twice = ours.clone();
        super::set(group, kind, &mut twice);
        assert_eq!(twice, ours, "defaults of {kind} are not idempotent");

        let uid = &real["metadata"]["uid"];
        let (real, ours) = (uid_replaced(&real, uid), uid_replaced(&ours, uid));
        let (real, ours) = (without_allotted(real), without_allotted(ours));
        if real != ours {
            differences.push(format!("{kind}\n  real: {real}\n  ours: {ours}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
