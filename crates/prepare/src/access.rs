//! Whether a Release may use the Cluster that it names.

use std::collections::BTreeMap;

use convoy_api::{Cluster, Release};
use convoy_runtime::{Sharded as _, StoreKey};

/// Whether a Release names a Cluster of its own namespace, which it may always use: nobody has to ask for labels.
pub fn names_own_cluster(release: &Release) -> bool {
    release.shard_key().namespace.as_str() == release.metadata.namespace.as_deref().unwrap_or_default()
}

/// Whether a Release may use the Cluster that it names. `cluster` is that, none when it is not there; `labels` are those
/// of the Release's namespace, none when that is not there.
pub fn may_use(
    release: &Release,
    cluster: Option<&Cluster>,
    labels: Option<&BTreeMap<String, String>>,
) -> bool {
    names_own_cluster(release) || cluster.is_some_and(|cluster| cluster.spec.admits(labels))
}

/// What to say when it may not. Nothing in it tells whether there is such a Cluster.
pub fn not_allowed(own: &str, cluster: &StoreKey) -> String {
    format!(
        "no Cluster {} in the namespace {} lets Releases of the namespace {own} use it: its spec.allowedNamespaces has to \
         choose {own} by its labels",
        cluster.name, cluster.namespace
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_cluster_of_another_namespace_is_used_only_when_it_is_there_and_lets_the_releases() {
        let cluster = |allowed: Value| -> Cluster {
            serde_json::from_value(json!({
                "apiVersion": convoy_api::API_VERSION, "kind": "Cluster",
                "metadata": {"name": "prod", "namespace": "fleet"},
                "spec": {"inCluster": true, "allowedNamespaces": allowed},
            }))
            .unwrap()
        };
        let release = |own: &str| -> Release {
            serde_json::from_value(json!({
                "apiVersion": convoy_api::API_VERSION, "kind": "Release",
                "metadata": {"name": "web", "namespace": own},
                "spec": {"clusterRef": {"name": "prod", "namespace": "fleet"}, "source": {}},
            }))
            .unwrap()
        };
        let labels = BTreeMap::from([("team".to_owned(), "web".to_owned())]);
        let (closed, all) = (cluster(Value::Null), cluster(json!({})));
        let chosen = cluster(json!({"matchLabels": {"team": "web"}}));
        let table = [
            ("web", Some(&all), Some(&labels), true),
            ("web", Some(&chosen), Some(&labels), true),
            ("web", Some(&chosen), Some(&BTreeMap::new()), false),
            ("web", Some(&chosen), None, false),
            ("web", Some(&all), None, false),
            ("web", Some(&closed), Some(&labels), false),
            ("web", None, Some(&labels), false),
            ("fleet", Some(&closed), None, true),
            ("fleet", None, None, true),
        ];
        for (own, cluster, labels, want) in table {
            assert_eq!(may_use(&release(own), cluster, labels), want, "{own} {cluster:?} {labels:?}");
        }
    }
}
