use serde_json::{Value, json};

use crate::cluster::{Cluster, ClusterSpec, ClusterStatus};
use crate::git_repository::{GitRepository, GitRepositorySpec, GitRepositoryStatus};
use crate::health_rule_set::{HealthRuleSet, HealthRuleSetSpec, HealthRuleSetStatus};
use crate::helm_registry::{HelmRegistry, HelmRegistrySpec, HelmRegistryStatus};
use crate::oci_registry::{OCIRegistry, OCIRegistrySpec, OCIRegistryStatus};
use crate::release::{Release, ReleaseSpec, ReleaseStatus};
use crate::release_inventory::{ReleaseInventory, ReleaseInventorySpec};
use crate::schema::{object, structural};

/// Whether objects of a kind live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In none.
    Cluster,
}

/// A column that `kubectl get` prints, in the terms of a CRD's `additionalPrinterColumns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrinterColumn {
    /// Heading.
    pub name: &'static str,
    /// OpenAPI type: `string`, `integer`, `boolean` or `date`.
    pub type_: &'static str,
    /// Where the value is in the object; a simple JSONPath as CRDs take it.
    pub json_path: &'static str,
    /// 0 prints always, 1 only with `-o wide`.
    pub priority: i32,
    /// What the column says.
    pub description: &'static str,
}

/// All that a server needs to know of one kind.
#[derive(Debug, Clone)]
pub struct KindInfo {
    /// The kind, for example `Release`.
    pub kind: &'static str,
    /// The name in URLs.
    pub plural: &'static str,
    /// The name of one.
    pub singular: &'static str,
    /// What kubectl also takes.
    pub short_names: &'static [&'static str],
    /// Groups of kinds that kubectl takes together (`kubectl get convoy`).
    pub categories: &'static [&'static str],
    /// Where objects live.
    pub scope: Scope,
    /// Whether there is a `/status` subresource.
    pub has_status: bool,
    /// Structural OpenAPI v3 schema of the whole object.
    pub schema: Value,
    /// What `kubectl get` prints after NAME, the last column being AGE.
    pub columns: Vec<PrinterColumn>,
}

const fn column(
    name: &'static str,
    type_: &'static str,
    json_path: &'static str,
    priority: i32,
    description: &'static str,
) -> PrinterColumn {
    PrinterColumn { name, type_, json_path, priority, description }
}

const READY: PrinterColumn = column(
    "Ready",
    "string",
    r#".status.conditions[?(@.type=="Ready")].status"#,
    0,
    "Whether the object is as its spec wants it",
);
const STATUS: PrinterColumn = column(
    "Status",
    "string",
    r#".status.conditions[?(@.type=="Ready")].reason"#,
    0,
    "The reason of the Ready condition",
);
const MESSAGE: PrinterColumn = column(
    "Message",
    "string",
    r#".status.conditions[?(@.type=="Ready")].message"#,
    1,
    "The message of the Ready condition",
);
const AGE: PrinterColumn =
    column("Age", "date", ".metadata.creationTimestamp", 0, "Time since the object was made");

/// All kinds of the group, in the order in which people meet them.
pub fn kinds() -> Vec<KindInfo> {
    vec![
        KindInfo {
            kind: "Cluster",
            plural: Cluster::PLURAL,
            singular: Cluster::SINGULAR,
            short_names: &["cl"],
            categories: &["convoy"],
            scope: Scope::Namespaced,
            has_status: true,
            schema: object::<ClusterSpec>(
                "A Cluster is a Kubernetes cluster that Releases are delivered to.",
                Some(structural::<ClusterStatus>()),
            ),
            columns: vec![
                READY,
                STATUS,
                column(
                    "Version",
                    "string",
                    ".status.kubernetesVersion",
                    0,
                    "Version of the target's API server",
                ),
                column("Releases", "integer", ".status.releases", 0, "Releases that name the Cluster"),
                column("Contact", "date", ".status.lastContact", 1, "When the Cluster last answered"),
                AGE,
                MESSAGE,
            ],
        },
        KindInfo {
            kind: "GitRepository",
            plural: GitRepository::PLURAL,
            singular: GitRepository::SINGULAR,
            short_names: &["gitrepo"],
            categories: &["convoy"],
            scope: Scope::Namespaced,
            has_status: true,
            schema: object::<GitRepositorySpec>(
                "A GitRepository is a Git repository that Releases take their charts and manifests from.",
                Some(structural::<GitRepositoryStatus>()),
            ),
            columns: vec![
                READY,
                STATUS,
                column(
                    "Revision",
                    "string",
                    ".status.artifact.revision",
                    0,
                    "The revision that was last fetched",
                ),
                column("URL", "string", ".spec.url", 1, "Where the repository is"),
                AGE,
                MESSAGE,
            ],
        },
        KindInfo {
            kind: "HelmRegistry",
            plural: HelmRegistry::PLURAL,
            singular: HelmRegistry::SINGULAR,
            short_names: &["helmreg"],
            categories: &["convoy"],
            scope: Scope::Namespaced,
            has_status: true,
            schema: object::<HelmRegistrySpec>(
                "A HelmRegistry is an HTTP(S) Helm repository that Releases take charts from.",
                Some(structural::<HelmRegistryStatus>()),
            ),
            columns: vec![
                READY,
                STATUS,
                column("Charts", "integer", ".status.charts", 0, "Charts in the index"),
                column("URL", "string", ".spec.url", 1, "Where the repository is"),
                AGE,
                MESSAGE,
            ],
        },
        KindInfo {
            kind: "OCIRegistry",
            plural: OCIRegistry::PLURAL,
            singular: OCIRegistry::SINGULAR,
            short_names: &["ocireg"],
            categories: &["convoy"],
            scope: Scope::Namespaced,
            has_status: true,
            schema: object::<OCIRegistrySpec>(
                "An OCIRegistry is an OCI registry that Releases take charts and manifests from.",
                Some(structural::<OCIRegistryStatus>()),
            ),
            columns: vec![
                READY,
                STATUS,
                column("URL", "string", ".spec.url", 0, "Where the registry is"),
                AGE,
                MESSAGE,
            ],
        },
        KindInfo {
            kind: "Release",
            plural: Release::PLURAL,
            singular: Release::SINGULAR,
            short_names: &["rel"],
            categories: &["convoy"],
            scope: Scope::Namespaced,
            has_status: true,
            schema: object::<ReleaseSpec>(
                "A Release is what runs on a cluster: objects from a source, rendered and applied, and kept so.",
                Some(structural::<ReleaseStatus>()),
            ),
            columns: vec![
                column("Cluster", "string", ".spec.clusterRef.name", 0, "The target Cluster"),
                READY,
                STATUS,
                column(
                    "Revision",
                    "string",
                    ".status.sourceRevision",
                    0,
                    "The source revision on the target",
                ),
                column("Objects", "integer", ".status.objects", 0, "Objects in the inventory"),
                column(
                    "Cluster-Namespace",
                    "string",
                    ".spec.clusterRef.namespace",
                    1,
                    "Namespace of the target Cluster, when it is not the Release's own",
                ),
                column(
                    "Drifted",
                    "string",
                    r#".status.conditions[?(@.type=="Drifted")].status"#,
                    1,
                    "Whether objects were changed on the target",
                ),
                column(
                    "Healthy",
                    "string",
                    r#".status.conditions[?(@.type=="Healthy")].status"#,
                    1,
                    "Whether all objects are healthy",
                ),
                AGE,
                MESSAGE,
            ],
        },
        KindInfo {
            kind: "ReleaseInventory",
            plural: ReleaseInventory::PLURAL,
            singular: ReleaseInventory::SINGULAR,
            short_names: &["relinv"],
            categories: &[],
            scope: Scope::Namespaced,
            has_status: false,
            schema: object::<ReleaseInventorySpec>(
                "A ReleaseInventory lists the objects that a Release has put, or is about to put, on a cluster.",
                None,
            ),
            columns: vec![
                column(
                    "Release",
                    "string",
                    ".spec.releaseRef.name",
                    0,
                    "The Release that the objects belong to",
                ),
                column(
                    "Cluster",
                    "string",
                    ".spec.clusterRef.name",
                    0,
                    "The Cluster that the objects are on",
                ),
                AGE,
            ],
        },
        KindInfo {
            kind: "HealthRuleSet",
            plural: HealthRuleSet::PLURAL,
            singular: HealthRuleSet::SINGULAR,
            short_names: &["hrs"],
            // It is of no namespace, and not everybody may read it.
            categories: &[],
            scope: Scope::Cluster,
            has_status: true,
            schema: object::<HealthRuleSetSpec>(
                "A HealthRuleSet says what makes objects of some kinds healthy, on all targets.",
                Some(structural::<HealthRuleSetStatus>()),
            ),
            columns: vec![
                READY,
                STATUS,
                column("Kinds", "string", ".spec.rules[*].kind", 0, "The kinds that it has rules for"),
                AGE,
                MESSAGE,
            ],
        },
    ]
}

impl KindInfo {
    /// The same kind as a CustomResourceDefinition of `apiextensions.k8s.io/v1`, for servers that are
    /// to take convoy's objects without convoy's apiserver; tests do.
    pub fn custom_resource_definition(&self) -> Value {
        let columns: Vec<Value> = self
            .columns
            .iter()
            .map(|column| {
                json!({
                    "name": column.name,
                    "type": column.type_,
                    "jsonPath": column.json_path,
                    "priority": column.priority,
                    "description": column.description,
                })
            })
            .collect();
        // A CRD may say nothing about metadata, not even what it is.
        let mut schema = self.schema.clone();
        schema["properties"]["metadata"] = json!({"type": "object"});
        let mut version = json!({
            "name": crate::VERSION,
            "served": true,
            "storage": true,
            "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": columns,
        });
        if self.has_status {
            version["subresources"] = json!({"status": {}});
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, crate::GROUP)},
            "spec": {
                "group": crate::GROUP,
                "scope": match self.scope { Scope::Namespaced => "Namespaced", Scope::Cluster => "Cluster" },
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.singular,
                    "shortNames": self.short_names,
                    "categories": self.categories,
                },
                "versions": [version],
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` on each schema node with its path.
    fn walk(path: &str, node: &Value, visit: &mut impl FnMut(&str, &Value)) {
        visit(path, node);
        for (name, child) in node["properties"].as_object().into_iter().flatten() {
            walk(&format!("{path}.{name}"), child, visit);
        }
        for keyword in ["items", "additionalProperties"] {
            if node[keyword].is_object() {
                walk(&format!("{path}[]"), &node[keyword], visit);
            }
        }
    }

    #[test]
    fn schemas_are_structural_and_every_field_is_described() {
        for info in kinds() {
            walk(info.kind, &info.schema, &mut |path, node| {
                assert!(node["type"].is_string(), "{path} has no single type: {node}");
                for keyword in ["$ref", "oneOf", "anyOf", "allOf", "nullable", "$schema", "const"] {
                    assert!(node.get(keyword).is_none(), "{path} has {keyword}: {node}");
                }
                let is_field = !path.ends_with("[]");
                assert!(!is_field || node["description"].is_string(), "{path} has no description: {node}");
                if node["type"] == "array" {
                    assert!(node["x-kubernetes-list-type"].is_string(), "{path} has no list type");
                }
            });
        }
    }

    #[test]
    fn the_release_schema_is_as_reviewed() {
        let release = kinds().into_iter().find(|info| info.kind == "Release").unwrap();
        let spec = &release.schema["properties"]["spec"];
        assert_eq!(spec["required"], json!(["clusterRef", "source"]));
        assert_eq!(spec["properties"]["historyLimit"]["maximum"], json!(50));
        assert_eq!(spec["properties"]["apply"]["properties"]["conflicts"]["enum"], json!(["Force", "Fail"]));
        let values = &spec["properties"]["render"]["properties"]["helm"]["properties"]["values"];
        assert_eq!(values["x-kubernetes-map-type"], json!("atomic"));
    }

    #[test]
    fn i5_a_writer_names_its_epoch_in_statuses_and_inventories() {
        let all = kinds();
        let schema = |kind: &str| &all.iter().find(|info| info.kind == kind).unwrap().schema["properties"];
        let (release, inventory) = (schema("Release"), schema("ReleaseInventory"));
        for writer in [
            &release["status"]["properties"]["controller"],
            &release["status"]["properties"]["observer"],
            &inventory["spec"]["properties"]["writer"],
        ] {
            assert_eq!(writer["properties"]["epoch"]["type"], "integer", "{writer}");
            assert_eq!(writer["properties"]["epoch"]["minimum"], 0);
            assert_eq!(writer["properties"]["lastLookTime"]["format"], "date-time");
            // Objects of before have none.
            assert_eq!(writer["required"], json!(["replica", "shard"]));
        }
        let old: crate::WriterStatus = serde_json::from_value(json!({"replica": "a", "shard": 3})).unwrap();
        assert_eq!((old.epoch, old.last_look_time), (0, None));
    }
}
