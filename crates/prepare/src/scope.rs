//! What a Release's spec and annotations mean for a plan.

use std::collections::BTreeMap;

use convoy_api::{ClusterSpec, DeliveryProgress, Operation, Release};
use convoy_apply::ServiceAccount;
use convoy_plan::{HelmRelease, Live, ObjectKey, Policy, Reapply, ReleaseId};

/// The annotation of a Release that allows to prune more than half of a large inventory.
const ALLOW_PRUNE: &str = "convoy.kumodo.io/allow-prune";
/// The annotation of a Release that lets it take over objects of other Releases.
pub const ADOPT: &str = "convoy.kumodo.io/adopt";

/// Which Release a plan is for, and what its spec says about applying and pruning. `namespace` is that of
/// objects that name none.
pub fn scope(release: &Release, namespace: &str, reapply: Reapply) -> (ReleaseId, Policy) {
    let (metadata, spec) = (&release.metadata, &release.spec);
    let id = ReleaseId {
        uid: metadata.uid.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    };
    let policy = Policy {
        target_namespace: Some(namespace.to_owned()),
        create_namespace: spec.create_namespace.unwrap_or(false),
        namespace_labels: spec.namespace_labels.clone(),
        prune: spec.prunes(),
        allow_large_prune: has_annotation(release, ALLOW_PRUNE),
        adopt: has_annotation(release, ADOPT),
        helm_release: Some(helm_release(release)),
        reapply,
        ignore: spec.ignore_rules().to_vec(),
    };
    (id, policy)
}

/// Whether a Release has an annotation with the value "true".
pub fn has_annotation(release: &Release, name: &str) -> bool {
    let annotations = release.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(name)).is_some_and(|value| value == "true")
}

/// The Helm release that a Release carries on, whatever it renders with.
pub fn helm_release(release: &Release) -> HelmRelease {
    let helm = release.spec.render.as_ref().and_then(|render| render.helm.as_ref());
    let name = helm.and_then(|helm| helm.release_name.clone());
    HelmRelease { namespace: namespace_of(release), name: name.unwrap_or_else(|| name_of(release)) }
}

/// As whom everything is done on a Cluster for a Release; none for who its kubeconfig says. A Release has no say about
/// the namespace: it is its own, so that no tenant acts as another's account.
pub fn acts_as(release: &Release, cluster: &ClusterSpec) -> Option<ServiceAccount> {
    let name = release.spec.service_account_name.as_ref().or(cluster.service_account_name.as_ref())?;
    Some(ServiceAccount {
        namespace: release.metadata.namespace.clone().unwrap_or_default(),
        name: name.clone(),
    })
}

/// The name of a Release.
pub fn name_of(release: &Release) -> String {
    release.metadata.name.clone().unwrap_or_default()
}

/// The namespace on the target: of objects that name none, and what templates see.
pub fn namespace_of(release: &Release) -> String {
    let own = release.metadata.namespace.clone().unwrap_or_default();
    release.spec.target_namespace.clone().unwrap_or(own)
}

/// What a delivery does on a cluster with such an inventory. It installs until a delivery has come to its end there.
pub fn operation(known: Option<&DeliveryProgress>, is_new: bool, is_rollback: bool) -> Operation {
    match known.map(|progress| progress.operation) {
        _ if is_rollback => Operation::Rollback,
        _ if is_new => Operation::Install,
        Some(Operation::Install | Operation::Delete) => Operation::Install,
        Some(Operation::Upgrade | Operation::Rollback) | None => Operation::Upgrade,
    }
}

/// Whether one of these objects is of the Helm release that a Release carries on, so that it is upgraded although it
/// seems to be installed.
pub fn carries_on(release: &Release, live: &BTreeMap<ObjectKey, Live>) -> bool {
    let helm = helm_release(release);
    live.values().any(|live| match live {
        Live::Present(object) => object.helm_release.as_ref() == Some(&helm),
        Live::Absent => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_is_told_what_the_spec_says() {
        let release = |spec: serde_json::Value| -> Release {
            serde_json::from_value(json!({
                "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release",
                "metadata": {"name": "web", "namespace": "team"}, "spec": spec,
            }))
            .unwrap()
        };
        let bare = release(json!({"clusterRef": {"name": "c"}, "source": {}}));
        let (_, policy) = scope(&bare, &namespace_of(&bare), Reapply::default());
        let helm = policy.helm_release.unwrap();
        assert_eq!((helm.namespace.as_str(), helm.name.as_str()), ("team", "web"));
        assert_eq!(policy.target_namespace.as_deref(), Some("team"));
        assert!(policy.prune && !policy.create_namespace);
        assert!(policy.namespace_labels.is_empty() && policy.ignore.is_empty());

        let full = release(json!({
            "clusterRef": {"name": "c"}, "source": {}, "targetNamespace": "prod", "createNamespace": true,
            "namespaceLabels": {"a": "b"}, "apply": {"prune": false},
            "drift": {"ignore": [{"paths": ["/spec/replicas"]}]}, "render": {"helm": {"releaseName": "old"}},
        }));
        let (_, policy) = scope(&full, &namespace_of(&full), Reapply::default());
        let helm = policy.helm_release.unwrap();
        assert_eq!((helm.namespace.as_str(), helm.name.as_str()), ("prod", "old"));
        assert_eq!(policy.target_namespace.as_deref(), Some("prod"));
        assert!(!policy.prune && policy.create_namespace);
        assert_eq!(policy.namespace_labels.get("a").map(String::as_str), Some("b"));
        assert_eq!(policy.ignore[0].paths, ["/spec/replicas"]);
    }

    #[test]
    fn a_release_acts_as_an_account_of_its_own_namespace_and_never_of_another() {
        let cases = [
            (None, None, None),
            (Some("own"), None, Some("own")),
            (None, Some("default"), Some("default")),
            (Some("own"), Some("default"), Some("own")),
        ];
        for (own, default, wanted) in cases {
            let release: Release = serde_json::from_value(json!({
                "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release",
                "metadata": {"name": "web", "namespace": "team"},
                "spec": {
                    "clusterRef": {"name": "prod", "namespace": "fleet"}, "source": {},
                    "targetNamespace": "kube-system", "serviceAccountName": own,
                },
            }))
            .unwrap();
            let cluster =
                ClusterSpec { service_account_name: default.map(str::to_owned), ..ClusterSpec::default() };
            let user = acts_as(&release, &cluster).map(|account| account.user());
            let wanted = wanted.map(|name| format!("system:serviceaccount:team:{name}"));
            assert_eq!(user, wanted, "{own:?} {default:?}");
        }
    }
}
