//! The options of each verb, read from the query (and for deletion the body) and checked as
//! Kubernetes checks them.

use serde_json::Value;

use crate::field_error::FieldError;
use crate::fields::FieldSelector;
use crate::gvk::GroupKind;
use crate::labels::LabelSelector;
use crate::query::Query;
use crate::status::Status;

/// How `resourceVersion` of a list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// Exactly that revision.
    Exact,
    /// That revision or any later one.
    NotOlderThan,
}

/// Options of list and watch. Both verbs read the same query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Which labels; everything when absent.
    pub label_selector: LabelSelector,
    /// Which fields; everything when absent.
    pub field_selector: FieldSelector,
    /// Whether to watch rather than list.
    pub watch: bool,
    /// Whether a watch may be sent bookmarks.
    pub allow_watch_bookmarks: bool,
    /// As given; empty is the most recent, "0" is any.
    pub resource_version: String,
    /// How the version is meant; only in a list, or with `send_initial_events`.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// After how many seconds the server ends the request.
    pub timeout_seconds: Option<u64>,
    /// How many objects a page has at most; 0 is all.
    pub limit: u64,
    /// Where a list in pages goes on.
    pub continue_token: String,
    /// Whether a watch starts with the objects there are, and a bookmark after them.
    pub send_initial_events: Option<bool>,
}

/// Options of get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// As given; empty is the most recent, "0" is any.
    pub resource_version: String,
}

/// What to do with fields that the schema does not know, and with duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and warn.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// Options of create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Do everything but store.
    pub dry_run: bool,
    /// Who changes the fields; `None` is derived from the User-Agent.
    pub field_manager: Option<String>,
    /// What to do with unknown fields.
    pub field_validation: FieldValidation,
}

/// Options of update: those of create.
pub type UpdateOptions = CreateOptions;

/// Options of patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// Do everything but store.
    pub dry_run: bool,
    /// Who changes the fields; required for apply.
    pub field_manager: Option<String>,
    /// What to do with unknown fields.
    pub field_validation: FieldValidation,
    /// Whether an apply takes fields from other managers.
    pub force: bool,
}

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    /// They lose their owner and stay.
    Orphan,
    /// They are deleted after the object.
    Background,
    /// They are deleted before the object.
    Foreground,
}

/// What must hold of the stored object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its resource version.
    pub resource_version: Option<String>,
}

/// Options of delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Do everything but store.
    pub dry_run: bool,
    /// Seconds to end gracefully; not negative.
    pub grace_period_seconds: Option<i64>,
    /// What must hold of the object.
    pub preconditions: Preconditions,
    /// What happens to dependents; `None` is the kind's default.
    pub propagation_policy: Option<PropagationPolicy>,
}

const META_GROUP: &str = "meta.k8s.io";

fn checked(kind: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(&GroupKind::new(META_GROUP, kind), "", errors))
    }
}

fn number(query: &Query, name: &str) -> Result<Option<u64>, Status> {
    let number = query.number(name).map_err(Status::bad_request)?;
    Ok(number.map(|number| u64::try_from(number).unwrap_or(0)))
}

impl ListOptions {
    /// Reads and checks the query of a list or watch.
    ///
    /// # Errors
    /// 400 for what cannot be read, 422 for combinations that are not allowed.
    pub fn parse(query: &Query) -> Result<Self, Status> {
        let label_selector = LabelSelector::parse(query.text("labelSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let field_selector = FieldSelector::parse(query.text("fieldSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let options = Self {
            label_selector,
            field_selector,
            watch: query.flag("watch"),
            allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion").into(),
            resource_version_match: None,
            timeout_seconds: number(query, "timeoutSeconds")?,
            limit: number(query, "limit")?.unwrap_or(0),
            continue_token: query.text("continue").into(),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        };
        options.with_match(query.text("resourceVersionMatch"))
    }

    fn with_match(mut self, text: &str) -> Result<Self, Status> {
        const FIELD: &str = "resourceVersionMatch";
        let mut errors = Vec::new();
        self.resource_version_match = match text {
            "Exact" => Some(ResourceVersionMatch::Exact),
            "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
            _ => None,
        };
        let newer = self.resource_version_match == Some(ResourceVersionMatch::NotOlderThan);
        if self.watch {
            if self.send_initial_events.is_some() && !newer {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            if !text.is_empty() {
                if self.send_initial_events.is_none() {
                    let detail =
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                    errors.push(FieldError::forbidden(FIELD, detail));
                }
                if !newer {
                    errors.push(FieldError::not_supported(FIELD, text, &["NotOlderThan"]));
                }
                if !self.continue_token.is_empty() {
                    let detail = "resourceVersionMatch is forbidden when continue is provided";
                    errors.push(FieldError::forbidden(FIELD, detail));
                }
            }
        } else {
            if !text.is_empty() {
                if self.resource_version.is_empty() {
                    let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                    errors.push(FieldError::forbidden(FIELD, detail));
                }
                if !self.continue_token.is_empty() {
                    let detail = "resourceVersionMatch is forbidden when continue is provided";
                    errors.push(FieldError::forbidden(FIELD, detail));
                }
                if self.resource_version_match.is_none() {
                    errors.push(FieldError::not_supported(FIELD, text, &["Exact", "NotOlderThan", ""]));
                }
                if text == "Exact" && self.resource_version == "0" {
                    let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                    errors.push(FieldError::forbidden(FIELD, detail));
                }
            }
            if self.send_initial_events.is_some() {
                let detail = "sendInitialEvents is forbidden for list";
                errors.push(FieldError::forbidden("sendInitialEvents", detail));
            }
        }
        checked("ListOptions", &errors)?;
        let continues = !self.watch && !self.continue_token.is_empty();
        if continues && !["", "0"].contains(&self.resource_version.as_str()) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(self)
    }
}

impl GetOptions {
    /// Reads the query of a get.
    pub fn parse(query: &Query) -> Self {
        Self { resource_version: query.text("resourceVersion").into() }
    }
}

fn dry_run(values: &[&str], errors: &mut Vec<FieldError>) -> bool {
    if values.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported("dryRun", Value::from(values.to_vec()), &["All"]));
    }
    !values.is_empty()
}

fn field_manager(query: &Query, errors: &mut Vec<FieldError>) -> Option<String> {
    let name = query.get("fieldManager").filter(|name| !name.is_empty())?;
    errors.extend(field_manager_errors(name));
    Some(name.to_owned())
}

/// What is wrong with the name of a field manager: more than 128 bytes, or not printable.
pub fn field_manager_errors(name: &str) -> Vec<FieldError> {
    const MAX: usize = 128;
    let mut errors = Vec::new();
    if name.len() > MAX {
        errors.push(FieldError::too_long("fieldManager", MAX));
    }
    for (index, c) in name.chars().enumerate() {
        if c.is_control() {
            let detail = format!("invalid character U+{:04X} (at position {index})", u32::from(c));
            errors.push(FieldError::invalid("fieldManager", name, detail));
        }
    }
    errors
}

fn field_validation(query: &Query, errors: &mut Vec<FieldError>) -> FieldValidation {
    match query.text("fieldValidation") {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            errors.push(FieldError::not_supported(
                "fieldValidation",
                other,
                &["", "Ignore", "Strict", "Warn"],
            ));
            FieldValidation::Warn
        }
    }
}

impl CreateOptions {
    /// Reads and checks the query of a create.
    ///
    /// # Errors
    /// 422 for values that are not allowed.
    pub fn parse(query: &Query) -> Result<Self, Status> {
        Self::parse_as(query, "CreateOptions")
    }

    /// Reads and checks the query of an update.
    ///
    /// # Errors
    /// 422 for values that are not allowed.
    pub fn parse_update(query: &Query) -> Result<Self, Status> {
        Self::parse_as(query, "UpdateOptions")
    }

    fn parse_as(query: &Query, kind: &str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let options = Self {
            field_manager: field_manager(query, &mut errors),
            dry_run: dry_run(&query.all("dryRun"), &mut errors),
            field_validation: field_validation(query, &mut errors),
        };
        checked(kind, &errors)?;
        Ok(options)
    }
}

impl PatchOptions {
    /// Reads and checks the query of a patch; `apply` for server-side apply.
    ///
    /// # Errors
    /// 422 for values that are not allowed: an apply needs a field manager, only it takes `force`.
    pub fn parse(query: &Query, apply: bool) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let force = query.optional_flag("force");
        let manager = field_manager(query, &mut Vec::new());
        if !apply && force.is_some() {
            errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
        }
        if apply && manager.is_none() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        errors.extend(manager.as_deref().map(field_manager_errors).unwrap_or_default());
        let options = Self {
            field_manager: manager,
            dry_run: dry_run(&query.all("dryRun"), &mut errors),
            field_validation: field_validation(query, &mut errors),
            force: force.unwrap_or(false),
        };
        checked("PatchOptions", &errors)?;
        Ok(options)
    }
}

impl DeleteOptions {
    /// Reads and checks the query of a delete without a body.
    ///
    /// # Errors
    /// 400 for what cannot be read, 422 for values that are not allowed.
    pub fn parse(query: &Query) -> Result<Self, Status> {
        let grace = query.number("gracePeriodSeconds").map_err(Status::bad_request)?;
        let policy = query.get("propagationPolicy");
        Self::check(
            grace,
            policy,
            query.optional_flag("orphanDependents"),
            &query.all("dryRun"),
            Preconditions::default(),
        )
    }

    /// Reads and checks a body. `dryRun` of the query counts, too, when the body has none.
    ///
    /// # Errors
    /// 400 for what is no DeleteOptions, 422 for values that are not allowed.
    pub fn from_body(body: &Value, query: &Query) -> Result<Self, Status> {
        let refused =
            |field: &str| Status::bad_request(format!("DeleteOptions: field {field} has the wrong type"));
        let text = |value: &Value, field: &str| match value.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(refused(field)),
        };
        if !body.is_object() {
            return Err(Status::bad_request("the body of a deletion must be a DeleteOptions object"));
        }
        let kind = text(body, "kind")?.unwrap_or_default();
        if !["", "DeleteOptions"].contains(&kind.as_str()) {
            return Err(Status::bad_request(format!(
                "the body of a deletion must be a DeleteOptions object, not of kind {}",
                crate::field_error::go_quote(&kind)
            )));
        }
        let grace = match body.get("gracePeriodSeconds") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_i64().ok_or_else(|| refused("gracePeriodSeconds"))?),
        };
        let orphan = match body.get("orphanDependents") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_bool().ok_or_else(|| refused("orphanDependents"))?),
        };
        let preconditions = match body.get("preconditions") {
            None | Some(Value::Null) => Preconditions::default(),
            Some(value) => {
                Preconditions { uid: text(value, "uid")?, resource_version: text(value, "resourceVersion")? }
            }
        };
        let in_body = body.get("dryRun").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut dry: Vec<&str> = in_body.iter().filter_map(Value::as_str).collect();
        if dry.is_empty() {
            dry = query.all("dryRun");
        }
        Self::check(grace, text(body, "propagationPolicy")?.as_deref(), orphan, &dry, preconditions)
    }

    fn check(
        grace: Option<i64>,
        policy: Option<&str>,
        orphan: Option<bool>,
        dry: &[&str],
        preconditions: Preconditions,
    ) -> Result<Self, Status> {
        let mut errors = Vec::new();
        if let (Some(policy), Some(_)) = (policy, orphan) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", policy, detail));
        }
        let propagation_policy = match policy {
            None => orphan
                .map(|orphan| if orphan { PropagationPolicy::Orphan } else { PropagationPolicy::Background }),
            Some("Orphan") => Some(PropagationPolicy::Orphan),
            Some("Background") => Some(PropagationPolicy::Background),
            Some("Foreground") => Some(PropagationPolicy::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", other, &supported));
                None
            }
        };
        let dry_run = dry_run(dry, &mut errors);
        checked("DeleteOptions", &errors)?;
        // The real server also treats a negative period as one second.
        let grace_period_seconds = grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
        Ok(Self { dry_run, grace_period_seconds, preconditions, propagation_policy })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(query: &str) -> Result<ListOptions, Status> {
        ListOptions::parse(&Query::parse(query))
    }

    /// Codes and texts of kube-apiserver's own answers.
    #[test]
    fn list_and_watch_options_that_contradict_each_other_are_refused() {
        let invalid = "ListOptions.meta.k8s.io \"\" is invalid: ";
        let table = [
            (
                "resourceVersionMatch=Exact",
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersion=0&resourceVersionMatch=Exact",
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (
                "sendInitialEvents=true",
                422,
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                "watch=1&resourceVersionMatch=NotOlderThan",
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            (
                "watch=1&sendInitialEvents=true",
                422,
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
        ];
        for (query, code, text) in table {
            let status = list(query).unwrap_err();
            assert_eq!((status.code, status.message), (code, format!("{invalid}{text}")), "{query}");
        }
        for (query, code) in
            [("limit=x", 400), ("labelSelector=a%20b", 400), ("continue=x&resourceVersion=5", 400)]
        {
            assert_eq!(list(query).unwrap_err().code, code, "{query}");
        }
    }

    #[test]
    fn the_query_of_a_watch_list_is_read() {
        let options = list("watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=359&resourceVersion=").unwrap();
        assert!(options.watch && options.allow_watch_bookmarks);
        assert_eq!(options.send_initial_events, Some(true));
        assert_eq!(options.timeout_seconds, Some(359));
        assert_eq!(options.resource_version_match, Some(ResourceVersionMatch::NotOlderThan));
    }

    #[test]
    fn an_apply_needs_a_manager_and_only_an_apply_takes_force() {
        let parse = |query: &str, apply| PatchOptions::parse(&Query::parse(query), apply);
        assert_eq!(
            parse("", true).unwrap_err().message,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        );
        assert_eq!(
            parse("force=true", false).unwrap_err().message,
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
        );
        assert!(parse("fieldManager=a&force=true", true).unwrap().force);
    }

    #[test]
    fn create_options_are_checked() {
        let parse = |query: &str| CreateOptions::parse(&Query::parse(query));
        assert!(parse("dryRun=All").unwrap().dry_run);
        assert_eq!(
            parse("dryRun=Some").unwrap_err().message,
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""
        );
        assert_eq!(parse("fieldValidation=x").unwrap_err().code, 422);
        assert_eq!(parse(&format!("fieldManager={}", "a".repeat(129))).unwrap_err().code, 422);
        assert_eq!(parse("fieldValidation=Strict").unwrap().field_validation, FieldValidation::Strict);
    }

    #[test]
    fn delete_options_come_from_the_body_or_the_query() {
        let query = Query::parse("dryRun=All");
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground",
            "preconditions": {"uid": "u", "resourceVersion": "5"}, "gracePeriodSeconds": 0});
        let options = DeleteOptions::from_body(&body, &query).unwrap();
        assert!(options.dry_run);
        assert_eq!(options.propagation_policy, Some(PropagationPolicy::Foreground));
        assert_eq!(options.preconditions.uid.as_deref(), Some("u"));
        assert_eq!(options.grace_period_seconds, Some(0));
        let orphan = DeleteOptions::parse(&Query::parse("orphanDependents=true")).unwrap();
        assert_eq!(orphan.propagation_policy, Some(PropagationPolicy::Orphan));
        for bad in [
            json!([]),
            json!({"kind": "Pod"}),
            json!({"preconditions": {"uid": 5}}),
            json!({"propagationPolicy": "x"}),
        ] {
            assert!(DeleteOptions::from_body(&bad, &query).is_err(), "{bad}");
        }
    }
}
