//! Kinds that provide something else: certificates, secrets, databases, queues, metrics, infrastructure.

use super::*;

/// A condition `Ready` that is `False` only when something is wrong.
const READY: &[Check] = &[degraded_unless("Ready"), healthy_if("Ready")];

const CROSSPLANE: &[Check] = &[
    suspended_if("/spec/paused"),
    condition("Synced", FALSE, State::Suspended).when(&["ReconcilePaused"]),
    degraded_unless("LastAsyncOperation"),
    degraded_unless("Synced"),
    healthy_if("Ready"),
    healthy_if("Healthy"),
    healthy_if("Established"),
    healthy_if("Offered"),
    healthy_if("ValidPipeline"),
    healthy_if("RevisionHealthy"),
    progressing_unless("Ready"),
    progressing_unless("Healthy"),
];

const STRIMZI: &[Check] = &[
    condition("NotReady", TRUE, State::Degraded).unless(&["Creating"]),
    condition("ReconciliationPaused", TRUE, State::Suspended),
    progressing_if("NotReady"),
    healthy_if("Ready"),
];

const AVAILABLE: &[Check] = &[
    suspended_if("/spec/paused"),
    condition("Available", &["False", "Unknown", "Degraded"], State::Progressing).when(&["SomePodsNotReady"]),
    condition("Available", &["False", "Unknown", "Degraded"], State::Degraded),
    healthy_if("Available"),
];

const ELASTIC: &[Check] = &[
    text_of("/status/health", &["unknown"], "", State::Unknown),
    text_of("/status/phase", &["ApplyingChanges", "MigratingData"], "", State::Progressing),
    text_of("/status/phase", &["Invalid"], "", State::Degraded),
    text_of("/status/health", &["green"], "", State::Healthy),
    text_of("/status/health", &["yellow"], "", State::Progressing),
    text_of("/status/health", &["red"], "", State::Degraded),
];

/// How CloudNativePG puts what a cluster does.
const POSTGRES: &[Check] = &[
    Check {
        test: Test::Annotation("cnpg.io/reconciliationLoop", "disabled"),
        state: State::Suspended,
        blocking: true,
    },
    condition("cnpg.io/hibernation", TRUE, State::Suspended),
    condition("cnpg.io/hibernation", FALSE, State::Progressing),
    text_of("/status/phase", &["Cluster in healthy state"], "/status/phaseReason", State::Healthy),
    text_of(
        "/status/phase",
        &[
            "Failing over",
            "Waiting for user action",
            "Cluster upgrade delayed",
            "Cluster cannot execute instance online upgrade due to missing architecture binary",
            "Unable to create required cluster objects",
            "Cluster cannot proceed to reconciliation due to an unknown plugin being required",
            "Cluster has incomplete or invalid image catalog",
            "Cluster is unrecoverable and needs manual intervention",
        ],
        "/status/phaseReason",
        State::Degraded,
    ),
    condition("Ready", FALSE, State::Progressing),
];

pub(super) const RULES: &[Rule] = &[
    Rule {
        group: "cert-manager.io",
        kinds: &["Certificate"],
        checks: &[progressing_if("Issuing"), degraded_unless("Ready"), healthy_if("Ready")],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "cert-manager.io",
        kinds: &["Issuer", "ClusterIssuer"],
        checks: READY,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "cert-manager.io",
        kinds: &["CertificateRequest"],
        checks: &[
            degraded_if("Denied"),
            degraded_if("InvalidRequest"),
            degraded_unless("Ready").when(&["Failed", "Denied"]),
            healthy_if("Ready"),
            progressing_unless("Ready"),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "acme.cert-manager.io",
        kinds: &["Order", "Challenge"],
        checks: &[
            text_of("/status/state", &["valid"], "/status/reason", State::Healthy),
            text_of("/status/state", &["invalid", "expired", "errored"], "/status/reason", State::Degraded),
            text_of(
                "/status/state",
                &["pending", "processing", "ready"],
                "/status/reason",
                State::Progressing,
            ),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "external-secrets.io",
        kinds: &["ExternalSecret", "SecretStore", "ClusterSecretStore", "PushSecret"],
        checks: READY,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "external-secrets.io",
        kinds: &["ClusterExternalSecret"],
        checks: &[
            degraded_if("NotReady"),
            degraded_if("PartiallyReady"),
            degraded_unless("Ready"),
            healthy_if("Ready"),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "bitnami.com",
        kinds: &["SealedSecret"],
        checks: &[degraded_unless("Synced"), healthy_if("Synced")],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "monitoring.coreos.com",
        kinds: &["Prometheus", "PrometheusAgent", "Alertmanager", "ThanosRuler"],
        checks: AVAILABLE,
        otherwise: Otherwise::Waits,
    },
    Rule { group: "postgresql.cnpg.io", kinds: &["Cluster"], checks: POSTGRES, otherwise: Otherwise::Waits },
    Rule {
        group: "postgresql.cnpg.io",
        kinds: &["Backup"],
        checks: &[
            text_of("/status/phase", &["completed"], "", State::Healthy),
            text_of("/status/phase", &["failed", "walArchivingFailing"], "/status/error", State::Degraded),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "postgresql.cnpg.io",
        kinds: &["ScheduledBackup"],
        checks: &[suspended_if("/spec/suspend")],
        otherwise: Otherwise::IsHealthy,
    },
    Rule {
        group: "postgresql.cnpg.io",
        kinds: &["Database", "Publication", "Subscription"],
        checks: &[filled("/status/applied", State::Healthy), filled("/status/message", State::Degraded)],
        otherwise: Otherwise::Waits,
    },
    Rule { group: "kafka.strimzi.io", kinds: &[], checks: STRIMZI, otherwise: Otherwise::Waits },
    Rule {
        group: "pkg.crossplane.io",
        kinds: &["Provider", "Configuration", "Function"],
        checks: &[
            degraded_unless("Installed"),
            degraded_unless("Healthy"),
            condition("Healthy", UNKNOWN, State::Progressing),
            healthy_if("Healthy"),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "apiextensions.crossplane.io",
        kinds: &["Composition", "CompositionRevision"],
        checks: &[],
        otherwise: Otherwise::IsHealthy,
    },
    Rule {
        group: "*.crossplane.io",
        kinds: &[
            "ProviderConfig",
            "ClusterProviderConfig",
            "ProviderConfigUsage",
            "DeploymentRuntimeConfig",
            "ControllerConfig",
        ],
        checks: &[],
        otherwise: Otherwise::IsHealthy,
    },
    Rule {
        group: "*.upbound.io",
        kinds: &["ProviderConfig", "ClusterProviderConfig", "ProviderConfigUsage"],
        checks: &[],
        otherwise: Otherwise::IsHealthy,
    },
    Rule { group: "*.crossplane.io", kinds: &[], checks: CROSSPLANE, otherwise: Otherwise::Waits },
    Rule { group: "*.upbound.io", kinds: &[], checks: CROSSPLANE, otherwise: Otherwise::Waits },
    Rule {
        group: "elasticsearch.k8s.elastic.co",
        kinds: &["Elasticsearch"],
        checks: ELASTIC,
        otherwise: Otherwise::Waits,
    },
    Rule { group: "kibana.k8s.elastic.co", kinds: &["Kibana"], checks: ELASTIC, otherwise: Otherwise::Waits },
    Rule {
        group: "rabbitmq.com",
        kinds: &["RabbitmqCluster"],
        checks: &[
            degraded_unless("ReconcileSuccess"),
            progressing_unless("ClusterAvailable"),
            progressing_unless("AllReplicasReady"),
            healthy_if("ClusterAvailable"),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "rabbitmq.com",
        kinds: &["Binding", "Exchange", "Permission", "Policy", "Queue", "Shovel", "User", "Vhost"],
        checks: READY,
        otherwise: Otherwise::Waits,
    },
    Rule { group: "karpenter.sh", kinds: &["NodePool"], checks: READY, otherwise: Otherwise::Waits },
    Rule { group: "karpenter.k8s.aws", kinds: &["EC2NodeClass"], checks: READY, otherwise: Otherwise::Waits },
    Rule {
        group: "k8s.mariadb.com",
        kinds: &["MariaDB", "Database", "Grant", "User"],
        checks: &[
            degraded_unless("Ready").when(&["Failed"]),
            progressing_unless("Ready"),
            healthy_if("Ready"),
        ],
        otherwise: Otherwise::Waits,
    },
];
