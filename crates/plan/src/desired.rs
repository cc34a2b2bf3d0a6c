//! Rendered documents made ready to be applied.

use std::collections::BTreeMap;

use convoy_api::{annotation, label, namespace_label_fault};
use serde_json::{Map, Value};

use crate::{Kinds, LeftAlone, ObjectKey, ObjectRef, Policy, Problem, ReleaseId, digest_of};

/// How deep an object may be nested; Kubernetes' own decoder stops far later, honest manifests far
/// earlier.
const MAX_DEPTH: usize = 100;
/// How deep a `List` may hold lists.
const MAX_LIST_DEPTH: usize = 4;
/// Where the implied Namespace says it comes from.
const CREATE_NAMESPACE_SOURCE: &str = "spec.createNamespace";

/// One document as rendering produced it.
#[derive(Clone, PartialEq)]
pub struct Rendered {
    /// The file (or chart template) it came from, for messages.
    pub source: String,
    /// The parsed document.
    pub object: Value,
    /// Whether it is applied before a chart's hooks run: it stands in the chart's folder of
    /// CustomResourceDefinitions.
    pub early: bool,
}

/// Without the content, which may be secret: what a panic says is written to logs.
impl std::fmt::Debug for Rendered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rendered")
            .field("source", &self.source)
            .field("early", &self.early)
            .finish_non_exhaustive()
    }
}

/// An object ready to be applied: its place on the target and the exact content.
#[derive(Clone, PartialEq)]
pub struct Desired {
    /// Where it goes.
    pub target: ObjectRef,
    /// What is sent: without status and the metadata that the server owns, with convoy's labels.
    pub object: Value,
    /// [`digest_of`] the object; with what is left alone of it.
    pub digest: String,
    /// What is left alone when it is there.
    pub left: Option<LeftAlone>,
    /// The file it came from.
    pub source: String,
    /// Whether the manifest asks convoy to leave the object alone.
    pub ignored: bool,
    /// How the manifest asks it to be written.
    pub how: How,
    /// Whether it may be deleted and made anew when a field that cannot change was changed.
    pub recreate: bool,
    /// The wave that it is applied in.
    pub wave: i32,
    /// Whether it is applied before all waves, and before a chart's hooks run.
    pub early: bool,
    /// Whether no document holds it: the Namespace of `createNamespace`, which may be shared.
    pub implied: bool,
}

/// Without the content, which may be secret: what a panic says is written to logs.
impl std::fmt::Debug for Desired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desired")
            .field("target", &self.target)
            .field("digest", &self.digest)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// How an object is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// By server-side apply.
    #[default]
    Apply,
    /// As a whole: what others added to it goes.
    Replace,
    /// Only when it is not there.
    IfNotPresent,
}

/// Makes desired objects of rendered documents: lists are flattened, namespaces defaulted to the
/// Release's, server-owned fields and the status dropped, labels added. `kinds` is widened by the
/// CustomResourceDefinitions among the documents. Answers with the objects in the order of the
/// documents and with every problem found.
pub fn normalize(
    rendered: &[Rendered],
    kinds: &mut Kinds,
    release: &ReleaseId,
    policy: &Policy,
) -> (Vec<Desired>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut documents = Vec::new();
    let mut early = Vec::new();
    for document in rendered {
        flatten(&document.source, &document.object, 0, &mut documents, &mut problems);
        early.resize(documents.len(), document.early);
    }
    for (_, object) in &documents {
        if object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition") {
            kinds.learn_from_crd(object);
        }
    }
    let mut desired = Vec::with_capacity(documents.len());
    let mut first_source: BTreeMap<ObjectKey, String> = BTreeMap::new();
    for ((source, object), early) in documents.into_iter().zip(early) {
        match one(&source, object, kinds, release, policy) {
            Ok(object) => {
                let object = Desired { early, ..object };
                if let Some(first) = first_source.get(&object.target.key) {
                    problems.push(Problem::Duplicate {
                        key: Box::new(object.target.key.clone()),
                        first: first.clone(),
                        second: source,
                    });
                } else {
                    first_source.insert(object.target.key.clone(), source);
                    desired.push(object);
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    if let Some(namespace) = implied_namespace(&desired, release, policy) {
        desired.insert(0, namespace);
    }
    bring_forward(&mut desired);
    (desired, problems)
}

/// Namespaces and CustomResourceDefinitions that say nothing of a wave are applied with the first objects that need
/// them.
fn bring_forward(desired: &mut [Desired]) {
    let mut namespaces: BTreeMap<String, i32> = BTreeMap::new();
    let mut kinds: BTreeMap<(String, String), i32> = BTreeMap::new();
    for object in desired.iter().filter(|object| object.wave < 0) {
        let key = &object.target.key;
        for first in [
            namespaces.entry(key.namespace.clone()).or_default(),
            kinds.entry((key.group.clone(), key.kind.clone())).or_default(),
        ] {
            *first = object.wave.min(*first);
        }
    }
    if namespaces.is_empty() {
        return;
    }
    let has_wave = |object: &Value| {
        object.pointer("/metadata/annotations").is_some_and(|all| all.get(annotation::WAVE).is_some())
    };
    for object in desired.iter_mut().filter(|object| !has_wave(&object.object)) {
        let key = &object.target.key;
        let text =
            |pointer| object.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let first = match key.kind.as_str() {
            "Namespace" if key.group.is_empty() => namespaces.get(&key.name),
            "CustomResourceDefinition" => kinds.get(&(text("/spec/group"), text("/spec/names/kind"))),
            _ => None,
        };
        if let Some(first) = first {
            object.wave = *first;
        }
    }
}

fn flatten<'a>(
    source: &str,
    object: &'a Value,
    depth: usize,
    documents: &mut Vec<(String, &'a Value)>,
    problems: &mut Vec<Problem>,
) {
    let is_list = object.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match object.get("items").and_then(Value::as_array).filter(|_| is_list) {
        Some(_) if depth >= MAX_LIST_DEPTH => problems.push(Problem::NotAnObject {
            source_name: source.to_owned(),
            detail: format!("lists are nested deeper than {MAX_LIST_DEPTH}"),
        }),
        Some(items) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{source} item {index}"), item, depth + 1, documents, problems);
            }
        }
        // Empty documents are what charts leave behind when a template's condition is false.
        None if object.is_null() => {}
        None => documents.push((source.to_owned(), object)),
    }
}

pub(crate) fn one(
    source: &str,
    object: &Value,
    kinds: &Kinds,
    release: &ReleaseId,
    policy: &Policy,
) -> Result<Desired, Problem> {
    let not_an_object = |detail: String| Problem::NotAnObject { source_name: source.to_owned(), detail };
    let text = |field: &str| object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    if !object.is_object() {
        return Err(not_an_object("the document is no mapping".to_owned()));
    }
    if is_deeper_than(object, MAX_DEPTH) {
        return Err(not_an_object(format!("it is nested deeper than {MAX_DEPTH} levels")));
    }
    let kind = text("kind").ok_or_else(|| not_an_object("it has no kind".to_owned()))?;
    let api_version =
        text("apiVersion").ok_or_else(|| not_an_object(format!("the {kind} has no apiVersion")))?;
    let (group, version) = match api_version.split_once('/') {
        Some((group, version)) if !group.is_empty() && !version.is_empty() && !version.contains('/') => {
            (group, version)
        }
        None => ("", api_version),
        Some(_) => return Err(not_an_object(format!("the {kind} has the odd apiVersion {api_version:?}"))),
    };
    let name = name_of(source, kind, object)?;
    let fact = kinds.get(group, version, kind).ok_or_else(|| {
        let served = kinds.versions(group, kind);
        Problem::UnknownKind {
            source_name: source.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            hint: if served.is_empty() {
                "; install its CustomResourceDefinition first, or put it into this Release".to_owned()
            } else {
                format!("; it serves {}", served.join(", "))
            },
        }
    })?;
    let namespace = if fact.namespaced {
        let own = object.pointer("/metadata/namespace").and_then(Value::as_str).filter(|n| !n.is_empty());
        let namespace = own.or(policy.target_namespace.as_deref()).ok_or_else(|| Problem::NoNamespace {
            source_name: source.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        })?;
        if !is_path_segment(namespace) {
            return Err(Problem::BadName {
                source_name: source.to_owned(),
                kind: kind.to_owned(),
                detail: format!("{name:?} has the namespace {namespace:?}, which is no namespace's name"),
            });
        }
        namespace
    } else {
        ""
    };
    let key = ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let target = ObjectRef { key, version: version.to_owned(), plural: fact.plural.clone() };
    let ignored =
        object.pointer("/metadata/annotations").and_then(|a| a.get(annotation::IGNORE)).is_some_and(is_true);
    let how = match chosen(source, object, &target.key, annotation::APPLY, &HOWS)? {
        Some(annotation::APPLY_IF_NOT_PRESENT) => How::IfNotPresent,
        Some(annotation::APPLY_REPLACE) => How::Replace,
        _ => How::Apply,
    };
    let recreate = chosen(source, object, &target.key, annotation::REPLACE, &[annotation::REPLACE_ALLOWED])?;
    chosen(source, object, &target.key, annotation::PRUNE, &[annotation::PRUNE_DISABLED])?;
    let recreate = recreate.is_some();
    let wave = wave_of(source, object, &target.key)?;
    let object = clean(object, &target.key, release).ok_or_else(|| {
        not_an_object(format!("the {kind} {name:?} has metadata, labels or annotations that are no mapping"))
    })?;
    let left = left_alone(&object, &target.key, policy);
    let digest = digest(&object, left.as_ref());
    let source = source.to_owned();
    let (early, implied) = (false, false);
    Ok(Desired { target, object, digest, left, source, ignored, how, recreate, wave, early, implied })
}

/// What the Release's rules say of an object.
fn left_alone(object: &Value, key: &ObjectKey, policy: &Policy) -> Option<LeftAlone> {
    if policy.ignore.is_empty() {
        return None;
    }
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let labels = labels.into_iter().flatten().filter_map(text).collect();
    LeftAlone::of(&policy.ignore, key, &labels)
}

fn digest(object: &Value, left: Option<&LeftAlone>) -> String {
    let digest = digest_of(object);
    left.map(|left| left.digest(&digest)).unwrap_or(digest)
}

/// The values of the annotation that says how an object is written.
const HOWS: [&str; 2] = [annotation::APPLY_IF_NOT_PRESENT, annotation::APPLY_REPLACE];

/// The value of an annotation, if the object has it; it has to be one of `allowed`.
fn chosen<'a>(
    source: &str,
    object: &Value,
    key: &ObjectKey,
    annotation: &'static str,
    allowed: &'a [&'static str],
) -> Result<Option<&'a str>, Problem> {
    let Some(value) = object.pointer("/metadata/annotations").and_then(|all| all.get(annotation)) else {
        return Ok(None);
    };
    match allowed.iter().find(|allowed| value == **allowed) {
        Some(value) => Ok(Some(value)),
        None => Err(Problem::BadAnnotation {
            source_name: source.to_owned(),
            key: Box::new(key.clone()),
            annotation,
            value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            allowed: allowed.join(" or "),
        }),
    }
}

/// The wave that an object names; 0 when it names none.
fn wave_of(source: &str, object: &Value, key: &ObjectKey) -> Result<i32, Problem> {
    let Some(value) = object.pointer("/metadata/annotations").and_then(|all| all.get(annotation::WAVE))
    else {
        return Ok(0);
    };
    value.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| Problem::BadAnnotation {
        source_name: source.to_owned(),
        key: Box::new(key.clone()),
        annotation: annotation::WAVE,
        value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        allowed: "a whole number in quotes, such as \"-1\"".to_owned(),
    })
}

fn is_true(value: &Value) -> bool {
    value.as_str() == Some("true") || value.as_bool() == Some(true)
}

fn name_of<'a>(source: &str, kind: &str, object: &'a Value) -> Result<&'a str, Problem> {
    let bad =
        |detail: String| Problem::BadName { source_name: source.to_owned(), kind: kind.to_owned(), detail };
    match object.pointer("/metadata/name") {
        Some(Value::String(name)) if is_path_segment(name) => Ok(name),
        Some(Value::String(name)) if !name.is_empty() => {
            Err(bad(format!("has the impossible name {name:?}")))
        }
        Some(other) if !other.is_null() && !other.is_string() => {
            Err(bad(format!("has the name {other}, which is no string; quote it")))
        }
        _ if object.pointer("/metadata/generateName").is_some() => {
            Err(bad("has metadata.generateName; give it a metadata.name, for it is applied again and again"
                .to_owned()))
        }
        _ => Err(bad("has no metadata.name".to_owned())),
    }
}

/// Whether a text can be one segment of a request path, as Kubernetes asks of every name.
fn is_path_segment(text: &str) -> bool {
    const LONGEST_NAME: usize = 253;
    !matches!(text, "" | "." | "..")
        && text.len() <= LONGEST_NAME
        && !text.bytes().any(|byte| matches!(byte, b'/' | b'%') || byte.is_ascii_control())
}

fn is_deeper_than(value: &Value, limit: usize) -> bool {
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        if depth > limit {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => open.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    false
}

/// The object as it is sent; none when its metadata has the wrong shape.
fn clean(object: &Value, key: &ObjectKey, release: &ReleaseId) -> Option<Value> {
    let mut object = object.as_object()?.clone();
    // The status is another endpoint's, and these fields of the metadata are the server's; an empty
    // resourceVersion would even be refused on the second apply.
    object.remove("status");
    // The control plane fills the rules of an aggregated ClusterRole; owning them would empty them.
    if key.kind == "ClusterRole" && object.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
        object.remove("rules");
    }
    if is_built_in(&key.group) {
        object.values_mut().for_each(drop_nulls);
        object.retain(|_, value| !value.is_null());
    }
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    for field in [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    ] {
        metadata.remove(field);
    }
    metadata.retain(|_, value| !value.is_null());
    if metadata.get("annotations").is_some_and(|annotations| !annotations.is_object()) {
        return None;
    }
    if key.namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), key.namespace.clone().into());
    }
    let labels = metadata.entry("labels").or_insert_with(|| Value::Object(Map::new())).as_object_mut()?;
    labels.insert(label::MANAGED_BY.to_owned(), label::MANAGED_BY_CONVOY.into());
    labels.insert(label::RELEASE_UID.to_owned(), release.uid.clone().into());
    Some(Value::Object(object))
}

/// Groups whose types have no nullable fields, so that null means absent there. A custom resource
/// may tell the two apart.
fn is_built_in(group: &str) -> bool {
    matches!(group, "" | "apps" | "batch" | "autoscaling" | "policy") || group.ends_with(".k8s.io")
}

fn drop_nulls(value: &mut Value) {
    // The depth was checked before.
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Gives the implied Namespace its labels.
pub(crate) fn label_namespace(namespace: &mut Desired, labels: &BTreeMap<String, String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in labels {
        match namespace_label_fault(key, value) {
            None => namespace.object["metadata"]["labels"][key.as_str()] = value.as_str().into(),
            Some(fault) => problems.push(Problem::NamespaceLabel { key: key.clone(), fault }),
        }
    }
    namespace.digest = digest(&namespace.object, namespace.left.as_ref());
    problems
}

fn implied_namespace(desired: &[Desired], release: &ReleaseId, policy: &Policy) -> Option<Desired> {
    let name = policy.target_namespace.as_ref().filter(|_| policy.create_namespace)?;
    let key = ObjectKey {
        group: String::new(),
        kind: "Namespace".to_owned(),
        namespace: String::new(),
        name: name.clone(),
    };
    if desired.iter().any(|object| object.target.key == key) {
        return None;
    }
    let object = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": { label::MANAGED_BY: label::MANAGED_BY_CONVOY, label::RELEASE_UID: release.uid },
        },
    });
    let left = left_alone(&object, &key, policy);
    Some(Desired {
        target: ObjectRef { key, version: "v1".to_owned(), plural: "namespaces".to_owned() },
        digest: digest(&object, left.as_ref()),
        object,
        left,
        source: CREATE_NAMESPACE_SOURCE.to_owned(),
        ignored: false,
        how: How::Apply,
        recreate: false,
        wave: 0,
        early: true,
        implied: true,
    })
}
