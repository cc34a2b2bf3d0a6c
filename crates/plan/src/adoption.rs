//! What an object has of the tools that wrote it before.

use convoy_smd::Set;
use serde_json::{Map, Value, json};

/// The annotations with which Helm marks the objects of a release
/// (`pkg/action/validate.go` of Helm).
const HELM_NAME: &str = "meta.helm.sh/release-name";
const HELM_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// A Helm release on the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelmRelease {
    /// The namespace of the Helm release.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl HelmRelease {
    /// The Helm release that an object says it belongs to, by its metadata.
    pub fn of(metadata: &Value) -> Option<Self> {
        let annotation = |name: &str| metadata["annotations"][name].as_str().map(str::to_owned);
        let name = annotation(HELM_NAME)?;
        Some(Self { namespace: annotation(HELM_NAMESPACE).unwrap_or_default(), name })
    }
}

/// Whether what a field manager wrote is handed over with the object: what kubectl and Helm call themselves, and
/// `before-first-apply`, under which kube-apiserver keeps what was there before fields had managers.
fn is_handed_over(name: &str) -> bool {
    matches!(name, "before-first-apply" | "helm") || name == "kubectl" || name.starts_with("kubectl-")
}

/// Whether `manager` applied a label of an object, by its metadata.
pub fn applies_label(metadata: &Value, label: &str, manager: &str) -> bool {
    let entries = metadata["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    entries.iter().any(|entry| {
        let labels = &entry["fieldsV1"]["f:metadata"]["f:labels"];
        entry["manager"] == manager
            && entry["operation"] == "Apply"
            && labels.get(format!("f:{label}")).is_some()
    })
}

/// The managedFields of an object once `manager` has applied all that earlier tools wrote, and all that it created or
/// replaced itself; none when there is nothing of that.
///
/// Server-side apply removes a field that is no longer wanted only when the applier owns it, and nobody else
/// does. What kubectl or Helm wrote would stay for ever. The rule is that of client-go's
/// `util/csaupgrade`, for more managers; what belongs to subresources stays.
pub fn taken_over(metadata: &Value, manager: &str) -> Option<Value> {
    let entries = metadata["managedFields"].as_array()?;
    let is_theirs = |entry: &Value| {
        entry["subresource"].as_str().unwrap_or_default().is_empty()
            && entry["manager"].as_str().is_some_and(is_handed_over)
    };
    let is_ours = |entry: &Value| {
        entry["subresource"].as_str().unwrap_or_default().is_empty() && entry["manager"] == manager
    };
    if !entries.iter().any(|entry| is_theirs(entry) || (is_ours(entry) && entry["operation"] == "Update")) {
        return None;
    }
    let (taken, mut left): (Vec<&Value>, Vec<&Value>) =
        entries.iter().partition(|entry| is_theirs(entry) || is_ours(entry));
    let mut fields = Set::default();
    for entry in &taken {
        // What cannot be read is not thrown away.
        match Set::from_fields_v1(&entry["fieldsV1"]) {
            Ok(set) => fields = fields.union(set),
            Err(_) => left.push(entry),
        }
    }
    let model = taken.iter().find(|entry| is_ours(entry)).or(taken.first())?;
    let mut own = Map::new();
    own.insert("manager".to_owned(), json!(manager));
    own.insert("operation".to_owned(), json!("Apply"));
    for field in ["apiVersion", "time", "fieldsType"] {
        if let Some(value) = model.get(field) {
            own.insert(field.to_owned(), value.clone());
        }
    }
    own.insert("fieldsV1".to_owned(), fields.to_fields_v1());
    let all = std::iter::once(Value::Object(own)).chain(left.into_iter().cloned());
    Some(Value::Array(all.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_applied_a_label_is_in_the_managed_fields() {
        let of = |manager: &str, operation: &str, label: &str| {
            let labels = Map::from_iter([(format!("f:{label}"), json!({}))]);
            let entry = json!({
                "manager": manager, "operation": operation,
                "fieldsV1": {"f:metadata": {"f:labels": labels}},
            });
            applies_label(&json!({"managedFields": [{"manager": "x"}, entry]}), "a.io/b", "convoy")
        };
        assert!(of("convoy", "Apply", "a.io/b"));
        assert!(!of("kubectl-label", "Update", "a.io/b"));
        assert!(!of("convoy", "Update", "a.io/b"));
        assert!(!of("convoy", "Apply", "a.io/c"));
        assert!(!applies_label(&json!({}), "a.io/b", "convoy"));
    }

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    fn managers(fields: &Value) -> Vec<String> {
        let entries = fields.as_array().unwrap().iter();
        entries.map(|entry| format!("{} {}", entry["manager"], entry["operation"]).replace('"', "")).collect()
    }

    #[test]
    fn what_kubectl_and_helm_wrote_is_taken_over_and_what_others_wrote_is_not() {
        for (name, operation) in [
            ("kubectl-client-side-apply", "Update"),
            ("kubectl", "Apply"),
            ("kubectl-create", "Update"),
            ("helm", "Update"),
            ("helm", "Apply"),
            ("before-first-apply", "Update"),
        ] {
            let metadata = json!({"managedFields": [
                entry(name, operation, &json!({"f:data": {"f:keep": {}, "f:drop": {}}})),
                entry("autoscaler", "Update", &json!({"f:data": {"f:extra": {}}})),
            ]});
            let fields = taken_over(&metadata, "convoy").unwrap();
            assert_eq!(managers(&fields), ["convoy Apply", "autoscaler Update"], "{name}");
            assert_eq!(fields[0]["fieldsV1"], json!({"f:data": {"f:keep": {}, "f:drop": {}}}));
            assert_eq!(fields[0]["apiVersion"], "v1");
        }
    }

    #[test]
    fn what_convoy_applied_before_and_what_others_did_become_one() {
        let metadata = json!({"managedFields": [
            entry("convoy", "Apply", &json!({"f:data": {"f:a": {}}})),
            entry("convoy", "Update", &json!({"f:data": {"f:b": {}}})),
            entry("kubectl-edit", "Update", &json!({"f:data": {"f:c": {}}})),
        ]});
        let fields = taken_over(&metadata, "convoy").unwrap();
        assert_eq!(managers(&fields), ["convoy Apply"]);
        assert_eq!(fields[0]["fieldsV1"], json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}}));
    }

    #[test]
    fn what_convoy_created_is_as_if_it_had_applied_it() {
        let metadata = json!({"managedFields": [
            entry("convoy", "Update", &json!({"f:metadata": {"f:labels": {"f:a": {}}}})),
            entry("kubelet", "Update", &json!({"f:status": {}})),
        ]});
        let fields = taken_over(&metadata, "convoy").unwrap();
        assert_eq!(managers(&fields), ["convoy Apply", "kubelet Update"]);
        assert_eq!(fields[0]["fieldsV1"], json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
    }

    #[test]
    fn nothing_is_taken_over_where_nothing_is_handed_over() {
        let status = json!({
            "manager": "kubectl", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}},
        });
        for metadata in [
            json!({}),
            json!({"managedFields": []}),
            json!({"managedFields": [entry("convoy", "Apply", &json!({})), entry("argocd", "Apply", &json!({}))]}),
            json!({"managedFields": [status]}),
        ] {
            assert_eq!(taken_over(&metadata, "convoy"), None, "{metadata}");
        }
    }

    #[test]
    fn fields_that_cannot_be_read_stay_as_they_are() {
        let metadata = json!({"managedFields": [entry("helm", "Update", &json!({"nonsense": 3}))]});
        let fields = taken_over(&metadata, "convoy").unwrap();
        assert_eq!(managers(&fields), ["convoy Apply", "helm Update"]);
    }

    #[test]
    fn an_object_says_which_helm_release_it_belongs_to() {
        let metadata = json!({"annotations": {HELM_NAME: "web", HELM_NAMESPACE: "prod"}});
        let want = HelmRelease { namespace: "prod".to_owned(), name: "web".to_owned() };
        assert_eq!(HelmRelease::of(&metadata), Some(want));
        assert_eq!(HelmRelease::of(&json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}})), None);
    }
}
