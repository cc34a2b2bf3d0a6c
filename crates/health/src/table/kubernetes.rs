//! Kinds of Kubernetes itself and of its working groups.

use super::*;

const PARENTS: &str = "/status/parents/*/conditions";
const ANCESTORS: &str = "/status/ancestors/*/conditions";
const LISTENERS: &str = "/status/listeners/*/conditions";

pub(super) const RULES: &[Rule] = &[
    Rule {
        group: "",
        kinds: &["PersistentVolume"],
        checks: &[
            phase(&["Bound", "Available"], State::Healthy),
            phase(&["Failed"], State::Degraded),
            phase(&["Released"], State::Degraded),
            phase(&["Pending"], State::Progressing).holds_nobody_back(),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "networking.k8s.io",
        kinds: &["Ingress"],
        checks: &[
            filled("/status/loadBalancer/ingress", State::Healthy),
            // Many controllers never say where they serve it.
            empty("/status/loadBalancer/ingress", State::Progressing).holds_nobody_back(),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "policy",
        kinds: &["PodDisruptionBudget"],
        checks: &[degraded_unless("DisruptionAllowed").unless(&["InsufficientPods"])],
        otherwise: Otherwise::IsHealthy,
    },
    Rule {
        group: "gateway.networking.k8s.io",
        kinds: &["GatewayClass"],
        checks: &[degraded_unless("Accepted"), healthy_if("Accepted")],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "gateway.networking.k8s.io",
        kinds: &["Gateway", "ListenerSet"],
        checks: &[
            degraded_unless("ResolvedRefs"),
            degraded_unless("Accepted"),
            progressing_unless("Programmed"),
            degraded_unless("ResolvedRefs").at(LISTENERS),
            degraded_unless("Accepted").at(LISTENERS),
            progressing_unless("Programmed").at(LISTENERS),
            progressing_unless("Accepted"),
            filled("/status/conditions", State::Healthy),
            filled("/status/listeners", State::Healthy),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "gateway.networking.k8s.io",
        kinds: &["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"],
        checks: &[
            degraded_unless("ResolvedRefs").at(PARENTS),
            degraded_unless("Accepted").at(PARENTS),
            progressing_unless("Programmed").at(PARENTS),
            healthy_if("Accepted").at(PARENTS),
            healthy_if("ResolvedRefs").at(PARENTS),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "gateway.networking.k8s.io",
        kinds: &["BackendTLSPolicy"],
        checks: &[
            degraded_unless("Accepted").at(ANCESTORS),
            degraded_unless("ResolvedRefs").at(ANCESTORS),
            healthy_if("Accepted").at(ANCESTORS),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "snapshot.storage.k8s.io",
        kinds: &["VolumeSnapshot", "VolumeSnapshotContent"],
        checks: &[filled("/status/readyToUse", State::Healthy), filled("/status/error", State::Degraded)],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "cluster.x-k8s.io",
        kinds: &["Cluster"],
        checks: &[
            suspended_if("/spec/paused"),
            phase(&["Failed"], State::Degraded),
            degraded_unless("Ready").when(&["Error", "Warning"]),
            text_of("/status/phase", &["Pending", "Provisioning", "Deleting"], "", State::Progressing),
            degraded_unless("Ready").unless(&["Info"]),
            degraded_unless("Available"),
            phase(&["Provisioned"], State::Healthy),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "cluster.x-k8s.io",
        kinds: &["Machine"],
        checks: &[
            phase(&["Running"], State::Healthy),
            text_of("/status/phase", &["Failed"], "/status/failureMessage", State::Degraded),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "cluster.x-k8s.io",
        kinds: &["MachineDeployment", "MachineSet"],
        checks: &[
            suspended_if("/spec/paused"),
            phase(&["Running"], State::Healthy),
            phase(&["Failed"], State::Degraded),
            phase(&["ScalingUp", "ScalingDown"], State::Progressing),
            healthy_if("Available"),
            healthy_if("Ready"),
            progressing_unless("Available"),
            progressing_unless("Ready"),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "cluster.x-k8s.io",
        kinds: &["MachinePool"],
        checks: &[
            phase(&["Running", "Scaling", "ScalingUp", "ScalingDown"], State::Healthy),
            phase(&["Failed", "Unknown"], State::Degraded),
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "cluster.x-k8s.io",
        kinds: &["MachineHealthCheck"],
        checks: &[
            Check {
                test: Test::Numbers("/status/currentHealthy", "/status/expectedMachines", true),
                state: State::Healthy,
                blocking: true,
            },
            Check {
                test: Test::Numbers("/status/currentHealthy", "/status/expectedMachines", false),
                state: State::Degraded,
                blocking: true,
            },
        ],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "addons.cluster.x-k8s.io",
        kinds: &["ClusterResourceSet"],
        checks: &[degraded_unless("ResourcesApplied"), healthy_if("ResourcesApplied")],
        otherwise: Otherwise::Waits,
    },
    Rule {
        group: "*.cluster.x-k8s.io",
        kinds: &[],
        checks: &[
            filled("/status/failureMessage", State::Degraded),
            degraded_unless("Ready").when(&["Error"]),
            progressing_unless("Ready"),
            healthy_if("Ready"),
            filled("/status/ready", State::Healthy),
        ],
        otherwise: Otherwise::IsHealthy,
    },
];
