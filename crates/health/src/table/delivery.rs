//! Kinds that deliver software, or roll it out: Argo, Flux, Knative, KEDA.

use super::*;

/// What Flux's kinds have in common. One that waits for another is not ready, and tries again.
const FLUX: &[Check] = &[
    suspended_if("/spec/suspend"),
    degraded_if("Stalled"),
    condition("Ready", UNKNOWN, State::Progressing),
    healthy_if("Ready"),
    degraded_unless("Ready"),
];

/// Knative's condition `Ready` sums up all others.
const KNATIVE: &[Check] = &[
    degraded_unless("Ready"),
    degraded_unless("ConfigurationsReady"),
    degraded_unless("RoutesReady"),
    progressing_unless("Ready"),
    healthy_if("Ready"),
];

const RUN: &[Check] = &[
    phase(&["Successful", "Succeeded"], State::Healthy),
    phase(&["Failed", "Error"], State::Degraded),
    phase(&["Inconclusive"], State::Unknown),
    phase(&["Pending", "Running"], State::Progressing),
];

pub(super) const RULES: &[Rule] = &[
    Rule {
        group: "argoproj.io",
        kinds: &["Application"],
        checks: &[
            text_of(
                "/status/health/status",
                &["Degraded", "Missing"],
                "/status/health/message",
                State::Degraded,
            ),
            text_of("/status/health/status", &["Suspended"], "/status/health/message", State::Suspended),
            text_of("/status/health/status", &["Unknown"], "/status/health/message", State::Unknown),
            text_of("/status/health/status", &["Healthy"], "/status/health/message", State::Healthy),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "argoproj.io",
        kinds: &["ApplicationSet"],
        checks: &[
            degraded_if("ErrorOccurred"),
            degraded_unless("ResourcesUpToDate"),
            progressing_if("RolloutProgressing"),
            healthy_if("ResourcesUpToDate"),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "argoproj.io",
        kinds: &["AnalysisRun", "Experiment", "Workflow"],
        checks: RUN,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "argoproj.io",
        kinds: &["CronWorkflow"],
        checks: &[degraded_if("SpecError"), degraded_if("SubmissionError"), suspended_if("/spec/suspend")],
        otherwise: Otherwise::IsHealthy,
    },
    Rule {
        group: "argoproj.io",
        kinds: &["EventBus", "EventSource", "Sensor"],
        checks: &[degraded_unless("Deployed"), healthy_if("Deployed")],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "helm.toolkit.fluxcd.io",
        kinds: &["HelmRelease"],
        checks: FLUX,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "kustomize.toolkit.fluxcd.io",
        kinds: &["Kustomization"],
        checks: FLUX,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "source.toolkit.fluxcd.io",
        kinds: &["HelmRepository"],
        checks: &[
            suspended_if("/spec/suspend"),
            // It is not asked by itself, and has no status.
            text_of("/spec/type", &["oci"], "", State::Healthy),
            degraded_if("Stalled"),
            condition("Ready", UNKNOWN, State::Progressing),
            healthy_if("Ready"),
            degraded_unless("Ready"),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "source.toolkit.fluxcd.io",
        kinds: &["Bucket", "GitRepository", "HelmChart", "OCIRepository"],
        checks: FLUX,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "image.toolkit.fluxcd.io",
        kinds: &["ImagePolicy", "ImageRepository", "ImageUpdateAutomation"],
        checks: FLUX,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "notification.toolkit.fluxcd.io",
        kinds: &["Receiver"],
        checks: FLUX,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "fluxcd.controlplane.io",
        kinds: &["FluxInstance", "ResourceSet", "ResourceSetInputProvider"],
        checks: FLUX,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "flagger.app",
        kinds: &["Canary"],
        checks: &[phase(&["Initialized", "Succeeded"], State::Healthy), phase(&["Failed"], State::Degraded)],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "serving.knative.dev",
        kinds: &["Service", "Configuration", "Route", "Revision", "DomainMapping"],
        checks: KNATIVE,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "eventing.knative.dev",
        kinds: &["Broker", "Trigger"],
        checks: KNATIVE,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "messaging.knative.dev",
        kinds: &["Channel", "InMemoryChannel", "Subscription"],
        checks: KNATIVE,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "sources.knative.dev",
        kinds: &["ApiServerSource", "ContainerSource", "PingSource", "SinkBinding"],
        checks: KNATIVE,
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "operator.knative.dev",
        kinds: &["KnativeEventing", "KnativeServing"],
        checks: &[
            degraded_unless("InstallSucceeded"),
            degraded_unless("DependenciesInstalled"),
            progressing_unless("DeploymentsAvailable"),
            progressing_unless("Ready"),
            healthy_if("Ready"),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "keda.sh",
        kinds: &["ScaledObject", "ScaledJob"],
        checks: &[
            degraded_unless("Ready"),
            degraded_if("Fallback"),
            condition("Ready", UNKNOWN, State::Degraded).when(&["PartialTriggerError"]),
            condition("Ready", UNKNOWN, State::Progressing),
            condition("Paused", TRUE, State::Suspended),
            healthy_if("Ready"),
        ],
        otherwise: Otherwise::Waits,
    },
];
