//! Kinds of the table, each with objects as their controllers leave them, and the documentation of the table.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use convoy_health::State::{self, Degraded, Healthy, Progressing, Suspended, Unknown};
use convoy_health::{KindRule, health_of, kind_rules};
use jiff::Timestamp;
use serde_json::{Value, json};

/// `Type=Status/Reason` with a space between conditions.
fn conditions(text: &str) -> Value {
    let one = |condition: &str| {
        let (type_, status) = condition.split_once('=').unwrap();
        let (status, reason) = status.split_once('/').unwrap_or((status, ""));
        json!({"type": type_, "status": status, "reason": reason, "message": format!("says {type_}")})
    };
    text.split_whitespace().map(one).collect()
}

fn said(text: &str) -> Value {
    json!({"status": {"conditions": conditions(text)}})
}

fn phase(phase: &str) -> Value {
    json!({"status": {"phase": phase, "message": "says phase"}})
}

fn with(field: &str, value: Value, mut object: Value) -> Value {
    object[field] = value;
    object
}

fn suspended(object: Value) -> Value {
    with("spec", json!({"suspend": true}), object)
}

fn paused(object: Value) -> Value {
    with("spec", json!({"paused": true}), object)
}

#[track_caller]
fn check(api_version: &str, kinds: &str, facts: impl IntoIterator<Item = (State, Value)>) {
    let now: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
    for (expected, object) in facts {
        for kind in kinds.split_whitespace() {
            let mut object = with("kind", json!(kind), object.clone());
            object["apiVersion"] = json!(api_version);
            let health = health_of(&object, now);
            assert_eq!(health.state, expected, "{object}: {health:?}");
            let has_reason = !health.reason.is_empty() && !health.message.is_empty();
            assert!(health.state == Healthy || has_reason, "{object}: {health:?}");
        }
    }
}

#[test]
fn kinds_of_kubernetes() {
    check(
        "v1",
        "PersistentVolume",
        [
            (Healthy, phase("Bound")),
            (Healthy, phase("Available")),
            (Progressing, phase("Pending")),
            (Degraded, phase("Released")),
            (Degraded, phase("Failed")),
        ],
    );
    let address = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    check("networking.k8s.io/v1", "Ingress", [(Healthy, address.clone()), (Progressing, json!({}))]);
    let balancer = |object| with("spec", json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}), object);
    check("v1", "Service", [(Healthy, balancer(address)), (Progressing, balancer(json!({})))]);
    check(
        "policy/v1",
        "PodDisruptionBudget",
        [
            (Healthy, json!({})),
            (Healthy, said("DisruptionAllowed=False/InsufficientPods")),
            (Degraded, said("DisruptionAllowed=False/SyncFailed")),
        ],
    );
    let run = |started: &str, succeeded: &str, active: Value| json!({"status": {"lastScheduleTime": started, "lastSuccessfulTime": succeeded, "active": active}});
    let (early, late) = ("2026-10-31T12:00:00Z", "2026-10-31T12:01:00Z");
    check(
        "batch/v1",
        "CronJob",
        [
            (Healthy, json!({})),
            (Healthy, run(early, late, json!([]))),
            (Healthy, run(late, early, json!([{"name": "j"}]))),
            (Degraded, run(late, early, json!([]))),
            (Suspended, suspended(json!({}))),
        ],
    );
    let annotated = |text: &str| {
        let all = conditions(text).to_string();
        json!({"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/conditions": all}}})
    };
    check(
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        [
            (Degraded, annotated("AbleToScale=False/FailedGetScale")),
            (Healthy, annotated("AbleToScale=True ScalingActive=True")),
        ],
    );
    check(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        [(Degraded, said("Established=True NonStructuralSchema=True/Violations"))],
    );
    let waiting = |reason: &str| {
        let state = json!({"name": "main", "state": {"waiting": {"reason": reason}}});
        json!({"status": {"phase": "Pending", "containerStatuses": [state]}})
    };
    check(
        "v1",
        "Pod",
        [
            (Degraded, waiting("ErrImagePull")),
            (Degraded, waiting("ImagePullBackOff")),
            (Degraded, waiting("RunContainerError")),
            (Progressing, waiting("ContainerCreating")),
        ],
    );
    check(
        "snapshot.storage.k8s.io/v1",
        "VolumeSnapshot VolumeSnapshotContent",
        [
            (Progressing, json!({})),
            (Healthy, json!({"status": {"readyToUse": true}})),
            (Degraded, json!({"status": {"readyToUse": false, "error": {"message": "no driver"}}})),
        ],
    );
}

#[test]
fn kinds_of_the_gateway_api() {
    let listed = |field: &str, name: &str, text: &str| {
        let reference = if name.is_empty() { json!({}) } else { json!({"name": name}) };
        json!({"status": {field: [{"parentRef": reference, "conditions": conditions(text)}]}})
    };
    check(
        "gateway.networking.k8s.io/v1",
        "GatewayClass",
        [
            (Progressing, said("Accepted=Unknown/Pending")),
            (Degraded, said("Accepted=False/InvalidParameters")),
            (Healthy, said("Accepted=True")),
        ],
    );
    check(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        [
            (Progressing, json!({})),
            (Progressing, said("Accepted=True Programmed=Unknown/Pending")),
            (Degraded, said("Accepted=False/Invalid Programmed=False/Invalid")),
            (Healthy, said("Accepted=True Programmed=True")),
            (Degraded, listed("listeners", "", "ResolvedRefs=False/InvalidCertificateRef")),
        ],
    );
    let parent = |text: &str| listed("parents", "edge", text);
    check(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute GRPCRoute",
        [
            (Progressing, json!({})),
            (Degraded, parent("Accepted=False/NoMatchingParent ResolvedRefs=True")),
            (Degraded, parent("Accepted=True ResolvedRefs=False/BackendNotFound")),
            (Healthy, parent("Accepted=True ResolvedRefs=True")),
        ],
    );
    let mut route = parent("Accepted=False/NotAllowedByListeners");
    route["apiVersion"] = json!("gateway.networking.k8s.io/v1");
    route["kind"] = json!("HTTPRoute");
    let health = health_of(&route, Timestamp::UNIX_EPOCH);
    assert_eq!(health.message, "for edge: says Accepted");
    route["metadata"] = json!({"generation": 2});
    route["status"]["parents"][0]["conditions"][0]["observedGeneration"] = json!(1);
    let health = health_of(&route, Timestamp::UNIX_EPOCH);
    assert_eq!((health.state, health.reason.as_str()), (Progressing, "LatestGenerationNotObserved"));
    // What one parent says of an older generation counts no more when another speaks of the newest.
    let newer = json!({"conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 2}]});
    route["status"]["parents"].as_array_mut().unwrap().push(newer);
    assert_eq!(health_of(&route, Timestamp::UNIX_EPOCH).state, Healthy);
    check(
        "gateway.networking.k8s.io/v1",
        "BackendTLSPolicy",
        [
            (Healthy, listed("ancestors", "", "Accepted=True")),
            (Degraded, listed("ancestors", "", "Accepted=False/Conflicted")),
        ],
    );
}

#[test]
fn kinds_that_deliver() {
    let flux = [
        (Progressing, json!({})),
        (Progressing, said("Reconciling=True Ready=Unknown/Progressing")),
        (Healthy, said("Ready=True/Succeeded")),
        (Degraded, said("Ready=False/BuildFailed")),
        (Degraded, said("Stalled=True/InvalidURL Ready=False/InvalidURL")),
        (Suspended, suspended(said("Ready=True/Succeeded"))),
    ];
    for (group, kinds) in [
        ("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        ("source.toolkit.fluxcd.io/v1", "GitRepository HelmRepository HelmChart OCIRepository Bucket"),
        ("image.toolkit.fluxcd.io/v1", "ImagePolicy ImageRepository ImageUpdateAutomation"),
        ("notification.toolkit.fluxcd.io/v1", "Receiver"),
    ] {
        check(group, kinds, flux.clone());
    }
    let oci = json!({"spec": {"type": "oci"}});
    check("source.toolkit.fluxcd.io/v1", "HelmRepository", [(Healthy, oci)]);
    check(
        "argoproj.io/v1alpha1",
        "AnalysisRun Experiment Workflow",
        [
            (Progressing, json!({})),
            (Progressing, phase("Running")),
            (Degraded, phase("Failed")),
            (Degraded, phase("Error")),
        ],
    );
    check(
        "argoproj.io/v1alpha1",
        "AnalysisRun",
        [(Healthy, phase("Successful")), (Unknown, phase("Inconclusive"))],
    );
    let app = |state: &str| json!({"status": {"health": {"status": state}}});
    check(
        "argoproj.io/v1alpha1",
        "Application",
        [
            (Healthy, app("Healthy")),
            (Degraded, app("Missing")),
            (Progressing, app("Progressing")),
            (Suspended, app("Suspended")),
        ],
    );
    check(
        "argoproj.io/v1alpha1",
        "ApplicationSet",
        [
            (Degraded, said("ErrorOccurred=True/Bad ResourcesUpToDate=True")),
            (Progressing, said("RolloutProgressing=True/Steps ResourcesUpToDate=True")),
            (Healthy, said("ErrorOccurred=False ResourcesUpToDate=True")),
        ],
    );
    check(
        "argoproj.io/v1alpha1",
        "CronWorkflow",
        [(Healthy, json!({})), (Degraded, said("SubmissionError=True")), (Suspended, suspended(json!({})))],
    );
    check(
        "argoproj.io/v1alpha1",
        "EventBus EventSource Sensor",
        [(Healthy, said("Deployed=True")), (Degraded, said("Deployed=False/NoBus"))],
    );
    check(
        "flagger.app/v1beta1",
        "Canary",
        [(Healthy, phase("Succeeded")), (Progressing, phase("Promoting")), (Degraded, phase("Failed"))],
    );
    for (group, kinds) in [
        ("serving.knative.dev/v1", "Service Configuration Route Revision"),
        ("eventing.knative.dev/v1", "Broker Trigger"),
    ] {
        check(
            group,
            kinds,
            [
                (Progressing, json!({})),
                (Progressing, said("Ready=Unknown/Deploying")),
                (Degraded, said("ConfigurationsReady=False/RevisionFailed Ready=False/RevisionFailed")),
                (Healthy, said("Ready=True")),
            ],
        );
    }
    check(
        "operator.knative.dev/v1beta1",
        "KnativeServing",
        [
            (
                Progressing,
                said("InstallSucceeded=True DeploymentsAvailable=False/NotReady Ready=False/NotReady"),
            ),
            (Degraded, said("InstallSucceeded=False/Error Ready=False/Error")),
            (Healthy, said("InstallSucceeded=True DeploymentsAvailable=True Ready=True")),
        ],
    );
    check(
        "keda.sh/v1alpha1",
        "ScaledObject ScaledJob",
        [
            (Progressing, json!({})),
            (Healthy, said("Ready=True Paused=False")),
            (Suspended, said("Ready=True Paused=True/Paused")),
            (Degraded, said("Ready=True Fallback=True/FallbackExists")),
            (Degraded, said("Ready=False/ScaledObjectCheckFailed")),
        ],
    );
}

#[test]
fn rollouts() {
    let rollout = |phase: &str| phase_of(phase, json!({"replicas": 2}));
    fn phase_of(name: &str, spec: Value) -> Value {
        with("spec", spec, phase(name))
    }
    check(
        "argoproj.io/v1alpha1",
        "Rollout",
        [
            (Progressing, json!({})),
            (Healthy, rollout("Healthy")),
            (Progressing, rollout("Progressing")),
            (Suspended, rollout("Paused")),
            (Degraded, rollout("Degraded")),
        ],
    );
    let late =
        json!({"metadata": {"generation": 3}, "status": {"phase": "Healthy", "observedGeneration": "2"}});
    check("argoproj.io/v1alpha1", "Rollout", [(Progressing, late)]);
    let counted = |updated: i64, available: i64, stable: &str| {
        json!({
            "spec": {"replicas": 2, "strategy": {"canary": {}}},
            "status": {
                "replicas": 2, "updatedReplicas": updated, "availableReplicas": available,
                "currentPodHash": "b", "stableRS": stable, "conditions": conditions("Available=True"),
            },
        })
    };
    check(
        "argoproj.io/v1alpha1",
        "Rollout",
        [
            (Progressing, counted(1, 1, "a")),
            (Progressing, counted(2, 1, "b")),
            (Progressing, counted(2, 2, "a")),
            (Healthy, counted(2, 2, "b")),
            (Degraded, said("Progressing=False/RolloutAborted")),
        ],
    );
}

#[test]
fn kinds_that_provide() {
    check(
        "cert-manager.io/v1",
        "Certificate",
        [
            (Progressing, json!({})),
            (Progressing, said("Ready=False/DoesNotExist Issuing=True/DoesNotExist")),
            (Degraded, said("Ready=False/Failed")),
            (Healthy, said("Ready=True/Ready")),
        ],
    );
    check(
        "cert-manager.io/v1",
        "Issuer ClusterIssuer",
        [
            (Progressing, json!({})),
            (Degraded, said("Ready=False/ErrRegisterACMEAccount")),
            (Healthy, said("Ready=True")),
        ],
    );
    check(
        "cert-manager.io/v1",
        "CertificateRequest",
        [
            (Progressing, said("Ready=False/Pending")),
            (Degraded, said("Ready=False/Failed")),
            (Degraded, said("Denied=True/Policy Ready=False/Denied")),
        ],
    );
    let state = |state: &str| json!({"status": {"state": state}});
    check(
        "acme.cert-manager.io/v1",
        "Order Challenge",
        [(Progressing, state("pending")), (Healthy, state("valid")), (Degraded, state("invalid"))],
    );
    check(
        "external-secrets.io/v1",
        "ExternalSecret SecretStore ClusterSecretStore PushSecret",
        [
            (Progressing, json!({})),
            (Degraded, said("Ready=False/SecretSyncedError")),
            (Healthy, said("Ready=True/SecretSynced")),
        ],
    );
    check(
        "external-secrets.io/v1",
        "ClusterExternalSecret",
        [(Degraded, said("PartiallyReady=True")), (Healthy, said("Ready=True"))],
    );
    check(
        "bitnami.com/v1alpha1",
        "SealedSecret",
        [(Progressing, json!({})), (Degraded, said("Synced=False")), (Healthy, said("Synced=True"))],
    );
    check(
        "monitoring.coreos.com/v1",
        "Prometheus Alertmanager ThanosRuler",
        [
            (Progressing, json!({})),
            (Progressing, said("Available=False/SomePodsNotReady")),
            (Degraded, said("Available=Degraded/NoPodReady")),
            (Healthy, said("Available=True")),
            (Suspended, paused(said("Available=True"))),
        ],
    );
    check("monitoring.coreos.com/v1", "ServiceMonitor PrometheusRule", [(Healthy, json!({}))]);
    let unattended = json!({"metadata": {"annotations": {"cnpg.io/reconciliationLoop": "disabled"}}});
    check(
        "postgresql.cnpg.io/v1",
        "Cluster",
        [
            (Healthy, phase("Cluster in healthy state")),
            (Progressing, phase("Setting up primary")),
            (Degraded, phase("Failing over")),
            (Degraded, phase("Cluster is unrecoverable and needs manual intervention")),
            (Suspended, said("cnpg.io/hibernation=True/Hibernated")),
            (Suspended, unattended),
        ],
    );
    check(
        "postgresql.cnpg.io/v1",
        "Backup",
        [(Healthy, phase("completed")), (Progressing, phase("running")), (Degraded, phase("failed"))],
    );
    check(
        "kafka.strimzi.io/v1beta2",
        "Kafka KafkaTopic KafkaUser KafkaConnect",
        [
            (Progressing, json!({})),
            (Progressing, said("NotReady=True/Creating")),
            (Degraded, said("NotReady=True/FatalProblem")),
            (Healthy, said("Ready=True")),
            (Suspended, said("ReconciliationPaused=True")),
        ],
    );
    check(
        "pkg.crossplane.io/v1",
        "Provider",
        [
            (Progressing, json!({})),
            (Degraded, said("Installed=True Healthy=False/UnhealthyPackageRevision")),
            (Healthy, said("Installed=True Healthy=True")),
        ],
    );
    for group in ["database.aws.crossplane.io/v1", "s3.aws.upbound.io/v1beta1"] {
        check(
            group,
            "Bucket",
            [
                (Progressing, json!({})),
                (Progressing, said("Synced=True Ready=False/Creating")),
                (Degraded, said("Synced=False/ReconcileError Ready=False/Creating")),
                (Suspended, said("Synced=False/ReconcilePaused")),
                (Healthy, said("Synced=True Ready=True")),
            ],
        );
        check(group, "ProviderConfig", [(Healthy, json!({}))]);
    }
    check(
        "elasticsearch.k8s.elastic.co/v1",
        "Elasticsearch",
        [
            (Healthy, json!({"status": {"health": "green", "phase": "Ready"}})),
            (Progressing, json!({"status": {"health": "green", "phase": "ApplyingChanges"}})),
            (Degraded, json!({"status": {"health": "red"}})),
        ],
    );
    check(
        "rabbitmq.com/v1beta1",
        "RabbitmqCluster",
        [
            (Progressing, said("ClusterAvailable=False/NotAvailable")),
            (Degraded, said("ReconcileSuccess=False/Error ClusterAvailable=True")),
            (Healthy, said("ReconcileSuccess=True ClusterAvailable=True AllReplicasReady=True")),
        ],
    );
}

#[test]
fn kinds_of_cluster_api() {
    check(
        "cluster.x-k8s.io/v1beta1",
        "Cluster",
        [
            (Progressing, phase("Provisioning")),
            (Healthy, phase("Provisioned")),
            (Degraded, phase("Failed")),
            (Suspended, paused(phase("Provisioned"))),
        ],
    );
    let ready = |severity: &str, phase: &str| {
        let condition =
            json!({"type": "Ready", "status": "False", "severity": severity, "reason": "Scaling"});
        json!({"status": {"phase": phase, "conditions": [condition]}})
    };
    check(
        "cluster.x-k8s.io/v1beta1",
        "Cluster",
        [
            (Progressing, ready("Info", "Provisioning")),
            (Degraded, ready("Error", "Provisioning")),
            (Healthy, ready("Info", "Provisioned")),
        ],
    );
    check(
        "cluster.x-k8s.io/v1beta1",
        "Machine",
        [(Progressing, phase("Provisioning")), (Healthy, phase("Running")), (Degraded, phase("Failed"))],
    );
    check(
        "cluster.x-k8s.io/v1beta1",
        "MachineDeployment MachineSet",
        [
            (Progressing, phase("ScalingUp")),
            (Healthy, phase("Running")),
            (Suspended, paused(phase("Running"))),
            (Healthy, said("Available=True")),
            (Progressing, said("Available=False/NotAvailable")),
        ],
    );
    check(
        "cluster.x-k8s.io/v1beta1",
        "MachinePool",
        [(Healthy, phase("Running")), (Degraded, phase("Failed"))],
    );
    let counted = |healthy: i64| json!({"status": {"currentHealthy": healthy, "expectedMachines": 3}});
    check(
        "cluster.x-k8s.io/v1beta1",
        "MachineHealthCheck",
        [(Progressing, json!({})), (Degraded, counted(2)), (Healthy, counted(3))],
    );
    check(
        "controlplane.cluster.x-k8s.io/v1beta1",
        "KubeadmControlPlane",
        [
            (Progressing, said("Ready=False/ScalingUp")),
            (Healthy, said("Ready=True")),
            (Degraded, json!({"status": {"failureMessage": "no quota"}})),
        ],
    );
}

#[test]
fn what_may_stay_so_for_ever_holds_nobody_back() {
    let now = Timestamp::UNIX_EPOCH;
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1"},
    });
    for object in [ingress, service] {
        let health = health_of(&object, now);
        assert_eq!((health.state, health.blocking), (Progressing, false), "{health:?}");
    }
}

/// The page is made from the rules: `CONVOY_UPDATE_DOCS=1 cargo test -p convoy-health docs` writes it anew.
#[test]
fn docs_name_every_kind_of_the_table() {
    let page = page(&kind_rules());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/health-kinds.md");
    if std::env::var_os("CONVOY_UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).is_ok_and(|found| found == page),
        "docs/src/health-kinds.md is out of date: run CONVOY_UPDATE_DOCS=1 cargo test -p convoy-health docs"
    );
    let named: BTreeSet<_> =
        kind_rules().iter().flat_map(|rule| rule.kinds.iter().map(|kind| (rule.group, *kind))).collect();
    let listed: usize = kind_rules().iter().map(|rule| rule.kinds.len()).sum();
    assert_eq!(named.len(), listed, "a kind stands twice");
}

fn page(rules: &[KindRule]) -> String {
    let mut page = String::from(
        "# Kinds with health rules\n\n\
         The kinds that are judged by their own conditions or phase; the checks are looked at in order, and the first\n\
         that holds decides. A condition that speaks of an older generation does not count. [Health and drift](health.md)\n\
         says how workloads and all other kinds are judged, and [health rules](health-rules.md) how to have it otherwise.\n\n\
         This page is made from the rules: `CONVOY_UPDATE_DOCS=1 cargo test -p convoy-health docs` writes it anew.\n\n\
         | group | kinds | health |\n|---|---|---|\n",
    );
    for rule in rules {
        let group = if rule.group.is_empty() { "core" } else { rule.group };
        let kinds = if rule.kinds.is_empty() { "all others".to_owned() } else { rule.kinds.join(", ") };
        let _ = writeln!(page, "| `{group}` | {kinds} | {} |", rule.checks.join("; "));
    }
    page
}
