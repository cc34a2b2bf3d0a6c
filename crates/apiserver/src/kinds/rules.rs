//! What a schema cannot say of convoy's kinds: which fields contradict each other, and which do nothing yet.
//! `docs/src/refused-fields.md` lists them; their tests are those of the kinds.

use std::collections::BTreeSet;

use convoy_api::HealthRule;
use convoy_cel::Expression;
use convoy_helm::semver::Constraints;
use convoy_meta::{FieldError, LabelSelector, validation};
use serde_json::Value;

/// All that is wrong with an object beyond its schema.
pub(super) fn faults(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match kind {
        "Cluster" => cluster(object, &mut errors),
        "GitRepository" => git_repository(object, &mut errors),
        "HelmRegistry" => helm_registry(object, &mut errors),
        "OCIRegistry" => source(object, &mut errors),
        "HealthRuleSet" => health_rules(object, &mut errors),
        "Release" => release(object, &mut errors),
        "ReleaseInventory" => {
            cluster_reference(object, &mut errors);
            name(object, "spec.releaseRef.name", &mut errors);
        }
        _ => {}
    }
    errors
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, part| value.get(part)).filter(|value| !value.is_null())
}

/// A reference has to be the name of an object.
fn name(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(found) = at(object, path).and_then(Value::as_str)
        && let Some(fault) = validation::dns1123_subdomain(found).first()
    {
        errors.push(FieldError::invalid(path, found, fault.as_str()));
    }
}

/// Each kind has one rule in a set, which says something, in expressions that may run.
fn health_rules(object: &Value, errors: &mut Vec<FieldError>) {
    let all = at(object, "spec.rules").and_then(Value::as_array);
    let mut seen = BTreeSet::new();
    for (index, rule) in all.into_iter().flatten().enumerate() {
        let path = format!("spec.rules[{index}]");
        let Ok(rule) = serde_json::from_value::<HealthRule>(rule.clone()) else { continue };
        let says = rule.expressions().filter(|(field, _)| *field != "message").count();
        if says == 0 {
            let detail = "set at least one of healthy, progressing, degraded and suspended";
            errors.push(FieldError::required(format!("{path}.healthy"), detail));
        }
        for (field, text) in rule.expressions() {
            if let Err(error) = Expression::compile(text) {
                errors.push(FieldError::invalid(format!("{path}.{field}"), text, error.to_string()));
            }
        }
        let versions = if rule.versions.is_empty() { vec![String::new()] } else { rule.versions };
        for version in versions {
            let name = (rule.group.clone(), rule.kind.clone(), version);
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.kind"), rule.kind.as_str()));
                break;
            }
        }
    }
}

/// A Cluster, perhaps of another namespace.
fn cluster_reference(object: &Value, errors: &mut Vec<FieldError>) {
    const NAMESPACE: &str = "spec.clusterRef.namespace";
    name(object, "spec.clusterRef.name", errors);
    if let Some(namespace) = at(object, NAMESPACE).and_then(Value::as_str)
        && let Some(fault) = validation::dns1123_label(namespace).first()
    {
        errors.push(FieldError::invalid(NAMESPACE, namespace, fault.as_str()));
    }
}

/// Which of the fields below a path are set.
fn set<'a>(object: &Value, path: &str, fields: &[&'a str]) -> Vec<&'a str> {
    fields.iter().copied().filter(|field| at(object, &format!("{path}.{field}")).is_some()).collect()
}

fn at_most_one(object: &Value, path: &str, fields: &[&str], errors: &mut Vec<FieldError>) {
    let found = set(object, path, fields);
    if found.len() > 1 {
        let detail = format!("at most one of {} may be set, but {} are", fields.join(", "), found.join(", "));
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn duration(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(text) = at(object, path).and_then(Value::as_str)
        && let Err(error) = text.parse::<convoy_api::Duration>()
    {
        errors.push(FieldError::invalid(path, text, error.to_string()));
    }
}

fn cluster(object: &Value, errors: &mut Vec<FieldError>) {
    let in_cluster = at(object, "spec.inCluster").and_then(Value::as_bool) == Some(true);
    let kubeconfig = at(object, "spec.kubeconfig").is_some();
    match (kubeconfig, in_cluster) {
        (true, true) => {
            errors
                .push(FieldError::forbidden("spec.inCluster", "may not be true when spec.kubeconfig is set"));
        }
        (false, false) => {
            let detail = "name the Secret with the cluster's kubeconfig, or set spec.inCluster to true";
            errors.push(FieldError::required("spec.kubeconfig", detail));
        }
        _ => {}
    }
    name(object, "spec.kubeconfig.secretRef.name", errors);
    name(object, "spec.serviceAccountName", errors);
    if let Some(selector) = at(object, "spec.allowedNamespaces")
        && let Err(error) = LabelSelector::from_json(selector)
    {
        errors.push(FieldError::invalid("spec.allowedNamespaces", selector.clone(), error.to_string()));
    }
    if at(object, "spec.limits.burst").is_some() && at(object, "spec.limits.qps").is_none() {
        let detail = "needs spec.limits.qps: without it requests have no limit";
        errors.push(FieldError::forbidden("spec.limits.burst", detail));
    }
}

/// Fields that people expect and that do nothing yet.
pub(super) fn unserved(kind: &str, object: &Value) -> Vec<FieldError> {
    const UNSERVED: [(&str, &str, &str); 3] = [
        (
            "GitRepository",
            "spec.verify",
            "signatures are not verified yet, so that anybody's commits would be taken",
        ),
        (
            "OCIRegistry",
            "spec.verify",
            "signatures are not verified yet, so that anybody's artifacts would be taken",
        ),
        (
            "Release",
            "spec.render.kustomize",
            "kustomizations are not rendered yet; render them before they are committed",
        ),
    ];
    let asked = UNSERVED.iter().filter(|(of, path, _)| {
        *of == kind && at(object, path).is_some_and(|value| *value != Value::Bool(false))
    });
    asked.map(|(_, path, why)| FieldError::forbidden(*path, format!("{why}; leave the field out"))).collect()
}

/// A range of versions is one that some version can be in.
fn version_range(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(range) = at(object, path).and_then(Value::as_str)
        && let Err(error) = Constraints::parse(range)
    {
        errors.push(FieldError::invalid(path, range, error.to_string()));
    }
}

/// Globs choose files.
fn globs(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let all = at(object, path).and_then(Value::as_array).into_iter().flatten();
    for (index, glob) in all.enumerate() {
        if let Some(text) = glob.as_str()
            && let Err(error) = convoy_api::PathGlobs::new(&[text])
        {
            errors.push(FieldError::invalid(format!("{path}[{index}]"), text, error.detail));
        }
    }
}

fn git_repository(object: &Value, errors: &mut Vec<FieldError>) {
    globs(object, "spec.include", errors);
    globs(object, "spec.ignore", errors);
    const WAYS: [&str; 5] = ["branch", "tag", "semver", "name", "commit"];
    // A commit may say on which branch it is.
    if set(object, "spec.ref", &WAYS) != ["branch", "commit"] {
        at_most_one(object, "spec.ref", &WAYS, errors);
    }
    version_range(object, "spec.ref.semver", errors);
    source(object, errors);
}

fn helm_registry(object: &Value, errors: &mut Vec<FieldError>) {
    const PASS: &str = "spec.passCredentials";
    if at(object, PASS) == Some(&Value::Bool(true)) && at(object, "spec.secretRef").is_none() {
        errors.push(FieldError::forbidden(PASS, "needs spec.secretRef: there are no credentials to pass"));
    }
    source(object, errors);
}

/// What all sources have: times, a Secret, and a URL.
fn source(object: &Value, errors: &mut Vec<FieldError>) {
    for field in ["spec.interval", "spec.timeout"] {
        duration(object, field, errors);
    }
    name(object, "spec.secretRef.name", errors);
    if let Some(url) = at(object, "spec.url").and_then(Value::as_str) {
        let authority =
            url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
        // Over SSH the user is part of where to go.
        let is_secret = match url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("ssh://")) {
            true => authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')),
            false => authority.contains('@') && !url.starts_with("file:"),
        };
        if is_secret {
            // The URL is not repeated: it holds a password, most likely.
            let detail = "must hold no user or password: put them into the Secret that spec.secretRef names";
            errors.push(FieldError::forbidden("spec.url", detail));
        }
    }
}

fn release(object: &Value, errors: &mut Vec<FieldError>) {
    const SOURCES: [&str; 3] = ["git", "helm", "oci"];
    cluster_reference(object, errors);
    name(object, "spec.serviceAccountName", errors);
    let sources = set(object, "spec.source", &SOURCES);
    if sources.is_empty() {
        errors.push(FieldError::required("spec.source.git", "say where the objects come from"));
    }
    at_most_one(object, "spec.source", &SOURCES, errors);
    name(object, "spec.source.helm.registryRef.name", errors);
    version_range(object, "spec.source.helm.version", errors);
    version_range(object, "spec.source.oci.semver", errors);
    name(object, "spec.source.oci.registryRef.name", errors);
    if at(object, "spec.source.oci").is_some() {
        const REFERENCES: [&str; 3] = ["tag", "semver", "digest"];
        at_most_one(object, "spec.source.oci", &REFERENCES, errors);
        if set(object, "spec.source.oci", &REFERENCES).is_empty() {
            errors.push(FieldError::required("spec.source.oci.tag", "set one of tag, semver and digest"));
        }
    }
    name(object, "spec.source.git.repositoryRef.name", errors);
    if let Some(path) = at(object, "spec.source.git.path").and_then(Value::as_str)
        && path.split('/').any(|part| part == "..")
    {
        errors.push(FieldError::invalid("spec.source.git.path", path, "must not leave the repository"));
    }
    at_most_one(object, "spec.render", &["helm", "manifests"], errors);
    if set(object, "spec.source", &SOURCES) == ["helm"] && at(object, "spec.render.manifests").is_some() {
        let detail = "may not be set with spec.source.helm: that is always a chart";
        errors.push(FieldError::forbidden("spec.render.manifests", detail));
    }
    const SKIP_TESTS: &str = "spec.render.helm.skipTests";
    if at(object, SKIP_TESTS) == Some(&Value::Bool(false)) {
        let detail = "may not be false: convoy runs no tests; leave the field out";
        errors.push(FieldError::forbidden(SKIP_TESTS, detail));
    }
    values_files(object, errors);
    globs(object, "spec.render.manifests.include", errors);
    globs(object, "spec.render.manifests.exclude", errors);
    for field in ["spec.interval", "spec.apply.timeout", "spec.apply.deletionTimeout"] {
        duration(object, field, errors);
    }
    namespace_labels(object, errors);
    values_from(object, errors);
    depends_on(object, errors);
    drift(object, errors);
}

/// Rules for what is left alone say what, and something is compared at all.
fn drift(object: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.drift.ignore";
    let rules = at(object, PATH).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if !rules.is_empty() && at(object, "spec.drift.mode").is_some_and(|mode| mode == "Ignore") {
        let detail = "may not be set when spec.drift.mode is Ignore: nothing is compared then";
        errors.push(FieldError::forbidden(PATH, detail));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        let texts = |field: &str| {
            let all = rule.get(field).and_then(Value::as_array).into_iter().flatten();
            all.enumerate().filter_map(|(index, text)| Some((index, text.as_str()?))).collect::<Vec<_>>()
        };
        let (paths, managers) = (texts("paths"), texts("managers"));
        if paths.is_empty() && managers.is_empty() {
            let detail = "say what is left alone: paths, managers, or both";
            errors.push(FieldError::required(format!("{path}.paths"), detail));
        }
        for (at, pointer) in paths {
            if let Some(fault) = convoy_api::pointer_fault(pointer) {
                errors.push(FieldError::invalid(format!("{path}.paths[{at}]"), pointer, fault));
            }
        }
        for (at, manager) in managers {
            if manager == convoy_api::field_manager::TARGET {
                let detail = "is convoy itself: nothing would be put right";
                errors.push(FieldError::invalid(format!("{path}.managers[{at}]"), manager, detail));
            }
        }
        if let Some(selector) = at(rule, "target.labelSelector")
            && let Err(error) = LabelSelector::from_json(selector)
        {
            let path = format!("{path}.target.labelSelector");
            errors.push(FieldError::invalid(path, selector.clone(), error.to_string()));
        }
    }
}

/// Labels are for a namespace that is created, and allow it no more than it would be allowed without.
fn namespace_labels(object: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.namespaceLabels";
    let Some(labels) = at(object, PATH).and_then(Value::as_object).filter(|labels| !labels.is_empty()) else {
        return;
    };
    if at(object, "spec.createNamespace").and_then(Value::as_bool) != Some(true) {
        errors.push(FieldError::forbidden(PATH, "needs spec.createNamespace: true"));
    }
    errors.extend(validation::labels(&Value::Object(labels.clone()), PATH));
    for (key, value) in labels {
        if let Some(fault) = convoy_api::namespace_label_fault(key, value.as_str().unwrap_or_default()) {
            errors.push(FieldError::forbidden(format!("{PATH}[{key}]"), fault));
        }
    }
}

/// Files of values are the chart's.
fn values_files(object: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.render.helm.valuesFiles";
    let all = at(object, PATH).and_then(Value::as_array).into_iter().flatten();
    for (index, file) in all.enumerate() {
        if let Some(path) = file.as_str()
            && (path.starts_with('/') || path.split('/').any(|part| part == ".."))
        {
            let path_of_field = format!("{PATH}[{index}]");
            errors.push(FieldError::invalid(path_of_field, path, "must be a path inside the chart"));
        }
    }
}

/// Values come from objects, and go to places, that can be.
fn values_from(object: &Value, errors: &mut Vec<FieldError>) {
    let all = at(object, "spec.render.helm.valuesFrom").and_then(Value::as_array);
    for (index, reference) in all.into_iter().flatten().enumerate() {
        let path = format!("spec.render.helm.valuesFrom[{index}]");
        let field = |name: &str| reference.get(name).and_then(Value::as_str);
        if let Some(name) = field("name")
            && let Some(fault) = validation::dns1123_subdomain(name).first()
        {
            errors.push(FieldError::invalid(format!("{path}.name"), name, fault.as_str()));
        }
        if let Some(place) = field("targetPath")
            && let Err(error) = convoy_helm::set_text(place, "", &mut convoy_helm::Values::new())
        {
            errors.push(FieldError::invalid(format!("{path}.targetPath"), place, error.to_string()));
        }
    }
}

/// Each dependency is named once, is another Release, and can be judged.
fn depends_on(object: &Value, errors: &mut Vec<FieldError>) {
    let own = at(object, "metadata.name").and_then(Value::as_str);
    let mut seen = BTreeSet::new();
    let all = at(object, "spec.dependsOn").and_then(Value::as_array);
    for (index, dependency) in all.into_iter().flatten().enumerate() {
        let path = format!("spec.dependsOn[{index}]");
        let field = |name: &str| dependency.get(name).and_then(Value::as_str);
        if let Some(name) = field("name") {
            let path = format!("{path}.name");
            if let Some(fault) = validation::dns1123_subdomain(name).first() {
                errors.push(FieldError::invalid(path, name, fault.as_str()));
            } else if Some(name) == own {
                errors.push(FieldError::invalid(path, name, "a Release cannot wait for itself"));
            } else if !seen.insert(name) {
                errors.push(FieldError::duplicate(path, name));
            }
        }
        if let Some(text) = field("readyWhen")
            && let Err(error) = Expression::compile(text)
        {
            errors.push(FieldError::invalid(format!("{path}.readyWhen"), text, error.to_string()));
        }
    }
}
