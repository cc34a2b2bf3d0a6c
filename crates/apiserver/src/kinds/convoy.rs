//! convoy's own kinds: their definitions and strategies.

use std::num::NonZeroU32;
use std::sync::Arc;

use convoy_api::{GROUP, KindInfo, ReleaseRollback, Scope as ApiScope, VERSION, label};
use convoy_meta::{FieldError, GroupResource, Status};
use convoy_registry::{PrinterColumn, RequestContext, ResourceDef, Scope, Strategy, Subresource};
use convoy_schema::{Structural, openapi};
use convoy_smd::Schema;
use serde_json::Value;

use super::{epochs, observed, rollback, rules, shard_label, sharding};

/// A schema of convoy's own that cannot be used: a fault of the program.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// For defaults and validation.
    #[error("the schema of {kind} is not structural")]
    Structural {
        /// The kind.
        kind: &'static str,
        /// Why not.
        #[source]
        source: convoy_schema::SchemaError,
    },
    /// For merging.
    #[error("the schema of {kind} cannot be merged by")]
    Merge {
        /// The kind.
        kind: &'static str,
        /// Why not.
        #[source]
        source: convoy_smd::SchemaError,
    },
}

/// All of convoy's kinds; `shards` is the number of shards that their objects are divided into.
///
/// # Errors
/// When a schema cannot be used, which a test rules out.
pub fn definitions(shards: NonZeroU32) -> Result<Vec<ResourceDef>, DefinitionError> {
    convoy_api::kinds().iter().map(|info| definition(info, shards)).collect()
}

/// The schemas of convoy's kinds by name, for OpenAPI documents.
pub fn schemas() -> Vec<(String, Value)> {
    let all = convoy_api::kinds();
    let of = |info: &KindInfo| {
        let list = format!("{}List", info.kind);
        openapi::custom_resource_schemas(GROUP, VERSION, info.kind, &list, Some(&info.schema))
    };
    let counted = convoy_api::sharding::KIND;
    let list = format!("{counted}List");
    let count = openapi::custom_resource_schemas(GROUP, VERSION, counted, &list, Some(&sharding::schema()));
    let rollback = ReleaseRollback::KIND;
    let list = format!("{rollback}List");
    let rollback =
        openapi::custom_resource_schemas(GROUP, VERSION, rollback, &list, Some(&ReleaseRollback::schema()));
    let observed = observed::schemas().flat_map(|(kind, schema)| {
        openapi::custom_resource_schemas(GROUP, VERSION, kind, &format!("{kind}List"), Some(&schema))
    });
    all.iter().flat_map(of).chain(count).chain(rollback).chain(observed).collect()
}

fn definition(info: &KindInfo, shards: NonZeroU32) -> Result<ResourceDef, DefinitionError> {
    let kind = info.kind;
    let scope = match info.scope {
        ApiScope::Namespaced => Scope::Namespaced,
        ApiScope::Cluster => Scope::Cluster,
    };
    let mut def = ResourceDef::new(GROUP, VERSION, kind, info.plural, scope);
    def.singular = info.singular.to_owned();
    def.short_names = info.short_names.iter().map(|name| (*name).to_owned()).collect();
    def.categories = info.categories.iter().map(|name| (*name).to_owned()).collect();
    if info.has_status {
        def.subresources.push(Subresource::status());
    }
    if kind == "Release" {
        def.subresources.extend(observed::subresources());
        def.subresources.push(rollback::subresource());
    }
    def.schema =
        Some(Structural::new(&info.schema).map_err(|source| DefinitionError::Structural { kind, source })?);
    def.merge_schema = Schema::from_structural(&info.schema, false)
        .map_err(|source| DefinitionError::Merge { kind, source })?;
    def.columns = info
        .columns
        .iter()
        .map(|column| PrinterColumn {
            name: column.name.to_owned(),
            type_: column.type_.to_owned(),
            description: column.description.to_owned(),
            priority: column.priority,
            json_path: column.json_path.to_owned(),
            ..PrinterColumn::default()
        })
        .collect();
    def.selectable_fields = match kind {
        "Release" => vec![
            "spec.clusterRef.name".into(),
            "spec.clusterRef.namespace".into(),
            "spec.source.git.repositoryRef.name".into(),
            "spec.source.helm.registryRef.name".into(),
            "spec.source.oci.registryRef.name".into(),
        ],
        "ReleaseInventory" => vec![
            "spec.clusterRef.name".into(),
            "spec.clusterRef.namespace".into(),
            "spec.releaseRef.name".into(),
        ],
        _ => Vec::new(),
    };
    def.server_fields = vec![["metadata", "labels", label::SHARD].map(str::to_owned).to_vec()];
    def.strategy = Arc::new(ConvoyStrategy { kind, shards });
    Ok(def)
}

/// What all of convoy's kinds have in common: the shard label, and rules that a schema cannot say.
#[derive(Debug)]
struct ConvoyStrategy {
    kind: &'static str,
    shards: NonZeroU32,
}

impl Strategy for ConvoyStrategy {
    fn prepare_for_create(&self, _context: &RequestContext, object: &mut Value) {
        shard_label::set(self.kind, self.shards, object);
    }

    fn prepare_for_update(&self, _: &RequestContext, _subresource: &str, object: &mut Value, _old: &Value) {
        shard_label::set(self.kind, self.shards, object);
    }

    fn may_replace(&self, resource: &GroupResource, object: &Value, old: &Value) -> Result<(), Status> {
        epochs::may_replace(self.kind, resource, object, old)
    }

    fn unserved(&self, object: &Value) -> Vec<FieldError> {
        rules::unserved(self.kind, object)
    }

    fn validate(&self, _context: &RequestContext, object: &Value) -> Vec<FieldError> {
        rules::faults(self.kind, object)
    }

    fn validate_update(
        &self,
        _context: &RequestContext,
        _subresource: &str,
        object: &Value,
        old: &Value,
    ) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.kind == "ReleaseInventory" {
            for field in ["clusterRef", "releaseRef"] {
                let pick =
                    |object: &Value| object.pointer(&format!("/spec/{field}")).cloned().unwrap_or_default();
                if pick(object) != pick(old) {
                    errors.push(FieldError::invalid(
                        format!("spec.{field}"),
                        pick(object),
                        "field is immutable",
                    ));
                }
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use convoy_meta::Object as _;
    use serde_json::json;

    use super::*;

    fn strategy(kind: &'static str) -> ConvoyStrategy {
        ConvoyStrategy { kind, shards: convoy_shard::DEFAULT_SHARD_COUNT }
    }

    fn context() -> RequestContext {
        RequestContext::internal("test", jiff::Timestamp::UNIX_EPOCH)
    }

    #[allow(clippy::needless_pass_by_value, reason = "reads better in tables")]
    fn faults(kind: &'static str, spec: Value) -> Vec<String> {
        let object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec});
        strategy(kind).validate(&context(), &object).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_kind_of_the_api_can_be_served() {
        let all = definitions(convoy_shard::DEFAULT_SHARD_COUNT).unwrap();
        let names: Vec<&str> = all.iter().map(|def| def.plural.as_str()).collect();
        assert!(names.contains(&"releases") && names.contains(&"clusters"), "{names:?}");
        assert!(all.iter().all(|def| def.schema.is_some() && !def.columns.is_empty()));
    }

    /// Shards computed with Go's `hash/fnv`: of `fleet/edge-1` 27, of `fleet/edge-2` 14, of
    /// `default/prod-eu` 15.
    #[test]
    fn sc05_sc06_a_release_has_the_shard_of_its_cluster_and_others_their_own() {
        let labelled = |kind, mut object: Value| {
            strategy(kind).prepare_for_create(&context(), &mut object);
            object.label(label::SHARD).map(str::to_owned)
        };
        let meta = json!({"name": "edge-2", "namespace": "fleet", "labels": {label::SHARD: "3"}});
        assert_eq!(labelled("Cluster", json!({"metadata": meta})).as_deref(), Some("14"));
        for kind in ["Release", "ReleaseInventory"] {
            let release = json!({"metadata": meta, "spec": {"clusterRef": {"name": "edge-1"}}});
            assert_eq!(labelled(kind, release).as_deref(), Some("27"));
        }
        let moved =
            json!({"metadata": meta, "spec": {"clusterRef": {"name": "prod-eu", "namespace": "default"}}});
        assert_eq!(labelled("Release", moved).as_deref(), Some("15"));
    }

    #[test]
    fn a_git_repository_follows_one_revision_and_its_url_holds_no_password() {
        let url = "https://git.example/apps";
        let of = |reference: Value| faults("GitRepository", json!({"url": url, "ref": reference}));
        for good in [
            json!({}),
            json!({"semver": "1.x"}),
            json!({"name": "refs/pull/1/head"}),
            json!({"branch": "main", "commit": "a".repeat(40)}),
        ] {
            assert!(of(good.clone()).is_empty(), "{good}");
        }
        for (bad, which) in [
            (json!({"branch": "main", "tag": "v1"}), "branch, tag"),
            (json!({"tag": "v1", "semver": "1.x"}), "tag, semver"),
            (json!({"semver": "1.x", "commit": "a"}), "semver, commit"),
            (json!({"branch": "main", "name": "refs/heads/main", "commit": "a"}), "branch, name, commit"),
        ] {
            let want = format!(
                "spec.ref: Forbidden: at most one of branch, tag, semver, name, commit may be set, but {which} are"
            );
            assert_eq!(of(bad), [want]);
        }
        for good in ["ssh://git@git.example:22/apps", "git@git.example:team/apps", "SSH://git@h/apps"] {
            assert!(faults("GitRepository", json!({"url": good})).is_empty(), "{good}");
        }
        for bad in ["https://git@git.example/apps", "ssh://git:CANARY@git.example/apps"] {
            let faults = faults("GitRepository", json!({"url": bad}));
            assert!(faults.len() == 1 && faults[0].starts_with("spec.url: Forbidden"), "{faults:?}");
            assert!(!faults[0].contains("CANARY"));
        }
    }

    /// All of docs/src/refused-fields.md that no test of its own has.
    #[test]
    fn fields_that_contradict_each_other_or_mean_nothing_are_refused_with_their_path() {
        let release = |more: Value| {
            let mut spec =
                json!({"clusterRef": {"name": "c"}, "source": {"git": {"repositoryRef": {"name": "g"}}}});
            spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            spec
        };
        let helm = json!({"helm": {"registryRef": {"name": "h"}, "chart": "a"}});
        let both = json!({"helm": {"registryRef": {"name": "h"}, "chart": "a"}, "git": {"repositoryRef": {"name": "g"}}});
        let oci = |more: Value| {
            let mut oci = json!({"registryRef": {"name": "o"}, "repository": "a"});
            oci.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            json!({"source": {"oci": oci}})
        };
        let git = |more: Value| {
            let mut spec = json!({"url": "https://git.example/a"});
            spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            spec
        };
        let registry = |more: Value| {
            let mut spec = json!({"url": "https://charts.example/a"});
            spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            spec
        };
        let rules = |rules: &[Value]| json!({"rules": rules});
        for (kind, spec) in [
            ("Release", release(json!({}))),
            ("Release", release(json!({"source": helm, "render": {"helm": {"valuesFiles": ["a/b..yaml"]}}}))),
            ("Release", release(json!({"render": {"manifests": {"include": ["*.yaml"]}}}))),
            ("Release", release(oci(json!({"tag": "1"})))),
            ("Release", release(oci(json!({"semver": ">=1.2 <2 || 4.x"})))),
            ("GitRepository", git(json!({"ref": {"semver": "~1.4-0"}}))),
            ("GitRepository", git(json!({"include": ["a/**"], "ignore": ["*.md"]}))),
            ("HelmRegistry", registry(json!({"passCredentials": true, "secretRef": {"name": "s"}}))),
            ("HelmRegistry", registry(json!({"passCredentials": false}))),
            (
                "HealthRuleSet",
                rules(&[
                    json!({"kind": "A", "versions": ["v1"], "healthy": "has(object.status)", "message": "'x'"}),
                    json!({"kind": "A", "versions": ["v2"], "degraded": "object.status.failed"}),
                ]),
            ),
        ] {
            assert_eq!(faults(kind, spec.clone()), [""; 0], "{kind}: {spec}");
        }
        for (kind, spec, want) in [
            ("Release", release(json!({"source": {}})), "spec.source.git: Required"),
            ("Release", release(json!({"source": both})), "spec.source: Forbidden: at most one of"),
            (
                "Release",
                release(
                    json!({"source": {"helm": {"registryRef": {"name": "h"}, "chart": "a", "version": "newest"}}}),
                ),
                "spec.source.helm.version: Invalid value: \"newest\"",
            ),
            (
                "Release",
                release(oci(json!({"semver": ">=1 <<2"}))),
                "spec.source.oci.semver: Invalid value: \">=1 <<2\"",
            ),
            ("GitRepository", git(json!({"ref": {"semver": "v1 or v2"}})), "spec.ref.semver: Invalid"),
            ("Release", release(oci(json!({}))), "spec.source.oci.tag: Required"),
            (
                "Release",
                release(oci(json!({"tag": "1", "semver": "1"}))),
                "spec.source.oci: Forbidden: at most one of",
            ),
            (
                "Release",
                release(json!({"render": {"helm": {}, "manifests": {}}})),
                "spec.render: Forbidden: at most one of",
            ),
            (
                "Release",
                release(json!({"source": helm, "render": {"manifests": {}}})),
                "spec.render.manifests: Forbidden: may not be set with spec.source.helm",
            ),
            (
                "Release",
                release(json!({"render": {"helm": {"valuesFiles": ["a.yaml", "../b.yaml"]}}})),
                "spec.render.helm.valuesFiles[1]: Invalid value: \"../b.yaml\"",
            ),
            (
                "Release",
                release(json!({"render": {"helm": {"valuesFiles": ["/etc/passwd"]}}})),
                "spec.render.helm.valuesFiles[0]: Invalid",
            ),
            (
                "Release",
                release(json!({"render": {"helm": {"skipTests": false}}})),
                "spec.render.helm.skipTests: Forbidden: may not be false",
            ),
            (
                "Release",
                release(json!({"render": {"manifests": {"exclude": ["ok", "a["]}}})),
                "spec.render.manifests.exclude[1]: Invalid value: \"a[\"",
            ),
            ("Release", release(json!({"apply": {"timeout": "5 minutes"}})), "spec.apply.timeout: Invalid"),
            (
                "Release",
                release(json!({"apply": {"deletionTimeout": "-1h"}})),
                "spec.apply.deletionTimeout: Invalid",
            ),
            ("Release", release(json!({"dependsOn": [{"name": "a"}]})), "spec.dependsOn[0].name: Invalid"),
            ("GitRepository", git(json!({"include": ["["]})), "spec.include[0]: Invalid"),
            ("GitRepository", git(json!({"ignore": ["a", "["]})), "spec.ignore[1]: Invalid"),
            ("GitRepository", git(json!({"timeout": "soon"})), "spec.timeout: Invalid"),
            (
                "HelmRegistry",
                registry(json!({"passCredentials": true})),
                "spec.passCredentials: Forbidden: needs spec.secretRef",
            ),
            ("OCIRegistry", json!({"url": "oci://u:p@h/x"}), "spec.url: Forbidden"),
            (
                "HealthRuleSet",
                rules(&[json!({"kind": "A", "message": "'x'"})]),
                "spec.rules[0].healthy: Required",
            ),
            (
                "HealthRuleSet",
                rules(&[
                    json!({"kind": "A", "healthy": "true"}),
                    json!({"kind": "B", "degraded": "object."}),
                ]),
                "spec.rules[1].degraded: Invalid value: \"object.\": it is no CEL expression",
            ),
            (
                "HealthRuleSet",
                rules(&[json!({"kind": "A", "healthy": "object.a.all(x, object.b.all(y, x == y))"})]),
                "spec.rules[0].healthy: Invalid",
            ),
            (
                "HealthRuleSet",
                rules(&[json!({"kind": "A", "healthy": "true"}), json!({"kind": "A", "healthy": "false"})]),
                "spec.rules[1].kind: Duplicate",
            ),
        ] {
            let found = faults(kind, spec.clone());
            assert!(found.len() == 1 && found[0].starts_with(want), "{kind}: {spec}: {found:?}");
        }
    }

    #[test]
    fn what_is_not_served_yet_is_refused_and_not_dropped() {
        let of = |kind, spec: Value| -> Vec<String> {
            strategy(kind).unserved(&json!({"spec": spec})).iter().map(ToString::to_string).collect()
        };
        for (kind, spec, path) in [
            ("GitRepository", json!({"verify": {"secretRef": {"name": "k"}}}), "spec.verify: Forbidden: "),
            ("OCIRegistry", json!({"verify": {"secretRef": {"name": "k"}}}), "spec.verify: Forbidden: "),
            ("Release", json!({"render": {"kustomize": {}}}), "spec.render.kustomize: Forbidden: "),
        ] {
            let found = of(kind, spec);
            assert!(found.len() == 1 && found[0].starts_with(path), "{found:?}");
        }
        assert!(of("GitRepository", json!({"recurseSubmodules": true, "verify": null})).is_empty());
        assert!(of("Release", json!({"render": {"helm": {}}, "verify": {}})).is_empty());
    }

    #[test]
    fn a_cluster_is_reached_in_exactly_one_way() {
        assert_eq!(
            faults("Cluster", json!({})),
            [
                "spec.kubeconfig: Required value: name the Secret with the cluster's kubeconfig, or set spec.inCluster to true"
            ]
        );
        let both = json!({"inCluster": true, "kubeconfig": {"secretRef": {"name": "k"}}});
        assert_eq!(
            faults("Cluster", both),
            ["spec.inCluster: Forbidden: may not be true when spec.kubeconfig is set"]
        );
        assert!(faults("Cluster", json!({"inCluster": true})).is_empty());
    }

    #[test]
    fn what_a_cluster_lets_is_a_selector_and_a_reference_names_a_namespace() {
        let of =
            |selector: Value| faults("Cluster", json!({"inCluster": true, "allowedNamespaces": selector}));
        let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "team", "operator": operator, "values": values}]});
        for good in [json!({}), json!({"matchLabels": {"team": "a"}}), expression("In", json!(["a"]))] {
            assert!(of(good.clone()).is_empty(), "{good}");
        }
        for bad in [
            expression("In", json!([])),
            expression("Exists", json!(["a"])),
            json!({"matchLabels": {"-": "a"}}),
            json!({"matchLabels": {"team": "no value"}}),
        ] {
            let found = of(bad.clone());
            assert!(found.len() == 1 && found[0].starts_with("spec.allowedNamespaces: "), "{bad}: {found:?}");
        }
        let named = |namespace: &str| {
            let source = json!({"git": {"repositoryRef": {"name": "g"}}});
            faults("Release", json!({"clusterRef": {"name": "c", "namespace": namespace}, "source": source}))
        };
        assert!(named("fleet").is_empty());
        for bad in ["a.b", "../x", "A", "a/b"] {
            let found = named(bad);
            assert!(found.len() == 1 && found[0].starts_with("spec.clusterRef.namespace: "), "{found:?}");
        }
    }

    #[test]
    fn limits_of_a_cluster_are_bounded_and_a_burst_needs_a_rate() {
        let schema = Structural::new(
            &convoy_api::kinds().into_iter().find(|info| info.kind == "Cluster").unwrap().schema,
        )
        .unwrap();
        let faults = |limits: Value| {
            let spec = json!({"inCluster": true, "limits": limits});
            let object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec});
            let mut found: Vec<String> = schema.validate(&object).iter().map(ToString::to_string).collect();
            found.extend(super::tests::faults("Cluster", spec));
            found
        };
        assert!(faults(json!({"qps": 5, "burst": 1, "maxConcurrentApplies": 1})).is_empty());
        for (limits, path) in [
            (json!({"qps": 0}), "spec.limits.qps: "),
            (json!({"qps": -1}), "spec.limits.qps: "),
            (json!({"qps": 1_000_000}), "spec.limits.qps: "),
            (json!({"qps": 1.5}), "spec.limits.qps: "),
            (json!({"qps": 1, "burst": 0}), "spec.limits.burst: "),
            (json!({"qps": 1, "burst": 1_000_000}), "spec.limits.burst: "),
            (json!({"burst": 5}), "spec.limits.burst: Forbidden: needs spec.limits.qps"),
            (json!({"maxConcurrentApplies": 0}), "spec.limits.maxConcurrentApplies: "),
            (json!({"maxConcurrentApplies": 1000}), "spec.limits.maxConcurrentApplies: "),
        ] {
            // Of a number that is no integer Kubernetes says two things.
            let found = faults(limits.clone());
            assert!(found.first().is_some_and(|found| found.starts_with(path)), "{limits}: {found:?}");
        }
    }

    #[test]
    fn a_release_has_one_source_and_stays_inside_it() {
        let spec = json!({"clusterRef": {"name": "A"}, "source": {}, "render": {"helm": {}, "manifests": {}}, "interval": "soon"});
        let faults_found = faults("Release", spec);
        assert_eq!(faults_found.len(), 4, "{faults_found:#?}");
        let climbing = json!({"clusterRef": {"name": "a"}, "source": {"git": {"repositoryRef": {"name": "g"}, "path": "../x"}}});
        assert_eq!(
            faults("Release", climbing),
            ["spec.source.git.path: Invalid value: \"../x\": must not leave the repository"]
        );
    }

    #[test]
    fn labels_are_for_a_namespace_that_is_created_and_weaken_nothing() {
        let of = |create: Value, labels: Value| {
            let mut spec = json!({
                "clusterRef": {"name": "c"}, "source": {"git": {"repositoryRef": {"name": "g"}}},
                "namespaceLabels": labels,
            });
            if !create.is_null() {
                spec["createNamespace"] = create;
            }
            faults("Release", spec)
        };
        let good = json!({"team": "a", "pod-security.kubernetes.io/enforce": "restricted"});
        assert!(of(json!(true), good.clone()).is_empty());
        for create in [json!(false), Value::Null] {
            assert!(of(create.clone(), json!({})).is_empty());
            let want = "spec.namespaceLabels: Forbidden: needs spec.createNamespace: true";
            assert_eq!(of(create, good.clone()), [want]);
        }
        for (key, value) in [
            ("pod-security.kubernetes.io/enforce", "privileged"),
            ("pod-security.kubernetes.io/enforce-version", "v1.19"),
            ("kubernetes.io/metadata.name", "kube-system"),
            ("convoy.kumodo.io/release-uid", "1"),
        ] {
            let found = of(json!(true), json!({key: value}));
            let path = format!("spec.namespaceLabels[{key}]: Forbidden: ");
            assert!(found.len() == 1 && found[0].starts_with(&path), "{key}: {found:?}");
        }
        assert!(!of(json!(true), json!({"team": "no value"})).is_empty());
        assert!(!of(json!(true), json!({"-": "a"})).is_empty());
    }

    #[test]
    fn what_is_left_alone_has_to_be_said_and_to_make_sense() {
        let of = |drift: Value| {
            let spec = json!({
                "clusterRef": {"name": "c"}, "source": {"git": {"repositoryRef": {"name": "g"}}},
                "drift": drift,
            });
            faults("Release", spec)
        };
        let target =
            json!({"group": "apps", "kind": "Deployment", "labelSelector": {"matchLabels": {"a": "b"}}});
        for rule in [
            json!({"paths": ["/spec/replicas", "/metadata/annotations/a~1b"]}),
            json!({"managers": ["hpa"], "target": target}),
        ] {
            assert!(of(json!({"mode": "Report", "ignore": [rule]})).is_empty(), "{rule}");
        }
        assert!(of(json!({"mode": "Ignore"})).is_empty());
        let good = json!({"paths": ["/spec/replicas"]});
        let bad = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
        for (drift, want) in [
            (json!({"mode": "Ignore", "ignore": [good]}), "spec.drift.ignore: Forbidden"),
            (json!({"ignore": [good, {}]}), "spec.drift.ignore[1].paths: Required"),
            (json!({"ignore": [{"paths": [], "managers": []}]}), "spec.drift.ignore[0].paths: Required"),
            (json!({"ignore": [{"paths": ["spec.replicas"]}]}), "spec.drift.ignore[0].paths[0]: Invalid"),
            (
                json!({"ignore": [{"paths": ["/a", "/metadata/name"]}]}),
                "spec.drift.ignore[0].paths[1]: Invalid",
            ),
            (json!({"ignore": [{"managers": ["convoy"]}]}), "spec.drift.ignore[0].managers[0]: Invalid"),
            (
                json!({"ignore": [{"paths": ["/a"], "target": {"labelSelector": bad}}]}),
                "spec.drift.ignore[0].target.labelSelector: Invalid",
            ),
        ] {
            let found = of(drift.clone());
            assert!(found.len() == 1 && found[0].starts_with(want), "{drift}: {found:?}");
        }
    }

    #[test]
    fn values_come_from_and_go_to_what_can_be() {
        let of = |reference: Value| {
            let spec = json!({
                "clusterRef": {"name": "c"}, "source": {"git": {"repositoryRef": {"name": "g"}}},
                "render": {"helm": {"valuesFrom": [reference]}},
            });
            faults("Release", spec)
        };
        for path in ["a", "a.b[0].c", r"labels.example\.com/x"] {
            assert!(of(json!({"kind": "Secret", "name": "s", "targetPath": path})).is_empty(), "{path}");
        }
        for path in ["a..b", "a=b", "a[", "a[x]", "a,b", "a."] {
            let found = of(json!({"kind": "Secret", "name": "s", "targetPath": path}));
            let is_named =
                |found: &String| found.starts_with("spec.render.helm.valuesFrom[0].targetPath: Invalid");
            assert!(found.len() == 1 && found.iter().all(is_named), "{path}: {found:?}");
        }
        let found = of(json!({"kind": "Secret", "name": "../other/s"}));
        assert!(
            found.len() == 1 && found[0].starts_with("spec.render.helm.valuesFrom[0].name: "),
            "{found:?}"
        );
    }

    #[test]
    fn what_a_release_waits_for_is_another_one_that_can_be_judged() {
        let faults = |depends_on: Value| {
            faults(
                "Release",
                json!({
                    "clusterRef": {"name": "c"}, "source": {"git": {"repositoryRef": {"name": "g"}}},
                    "dependsOn": depends_on,
                }),
            )
        };
        let when = "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')";
        assert!(faults(json!([{"name": "db", "readyWhen": when}, {"name": "cache"}])).is_empty());
        for (depends_on, path, why) in [
            (json!([{"name": "a"}]), "spec.dependsOn[0].name", "cannot wait for itself"),
            (json!([{"name": "b"}, {"name": "b"}]), "spec.dependsOn[1].name", "Duplicate"),
            (json!([{"name": "B"}]), "spec.dependsOn[0].name", "lowercase"),
            (
                json!([{"name": "b", "readyWhen": "object."}]),
                "spec.dependsOn[0].readyWhen",
                "no CEL expression",
            ),
            (json!([{"name": "b", "readyWhen": "self.ready"}]), "spec.dependsOn[0].readyWhen", "no variable"),
        ] {
            let found = faults(depends_on);
            assert!(found.len() == 1 && found[0].starts_with(path) && found[0].contains(why), "{found:?}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_refused_without_being_repeated() {
        let found = faults("GitRepository", json!({"url": "https://user:hunter2@example.com/x"}));
        assert_eq!(found.len(), 1);
        assert!(!found[0].contains("hunter2"), "{}", found[0]);
        let refs = json!({"url": "https://example.com/x", "ref": {"branch": "a", "tag": "b"}});
        assert_eq!(
            faults("GitRepository", refs),
            [
                "spec.ref: Forbidden: at most one of branch, tag, semver, name, commit may be set, but branch, tag are"
            ]
        );
    }

    #[test]
    fn an_artifact_of_a_registry_is_named_in_one_way() {
        let faults =
            |oci: Value| faults("Release", json!({"clusterRef": {"name": "a"}, "source": {"oci": oci}}));
        let with = |more: &[(&str, &str)]| {
            let mut oci = json!({"registryRef": {"name": "r"}, "repository": "web"});
            for (field, value) in more {
                oci[*field] = json!(value);
            }
            oci
        };
        assert!(faults(with(&[("tag", "1")])).is_empty());
        assert_eq!(
            faults(with(&[])),
            ["spec.source.oci.tag: Required value: set one of tag, semver and digest"]
        );
        assert_eq!(
            faults(with(&[("tag", "1"), ("semver", "1.x")])),
            [
                "spec.source.oci: Forbidden: at most one of tag, semver, digest may be set, but tag, semver are"
            ]
        );
        let url = faults_of_url("OCIRegistry", "oci://u:hunter2@example.com/x");
        assert!(url.len() == 1 && !url[0].contains("hunter2"), "{url:?}");
    }

    fn faults_of_url(kind: &'static str, url: &str) -> Vec<String> {
        faults(kind, json!({"url": url}))
    }

    #[test]
    fn an_inventory_never_changes_what_it_is_about() {
        let old = json!({"spec": {"clusterRef": {"name": "a"}, "releaseRef": {"name": "r", "uid": "1"}}});
        let mut new = old.clone();
        new["spec"]["clusterRef"]["name"] = json!("b");
        let errors = strategy("ReleaseInventory").validate_update(&context(), "", &new, &old);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].path, "spec.clusterRef");
    }
}
