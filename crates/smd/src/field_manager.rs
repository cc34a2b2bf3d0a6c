//! Apply and update with the bookkeeping of `metadata.managedFields`.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Schema;
use crate::last_applied;
use crate::managed::{self, ManagerId, Managers, Operation, Owned};
use crate::path::PathElement;
use crate::set::Set;
use crate::typed;
use crate::value;

/// Owner of what an object had before anybody applied it, when nothing was recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Carries out applies and updates of one kind through one endpoint (the resource or a subresource).
#[derive(Clone, Debug)]
pub struct FieldManager {
    /// The merge schema of the kind.
    pub schema: Schema,
    /// `apiVersion` of the endpoint, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The subresource, such as `status`; empty for the resource itself.
    pub subresource: String,
    /// Fields that this endpoint resets, as paths of field names: the resource resets `status` when
    /// there is a status subresource, which itself resets `spec` and `metadata` but for
    /// `managedFields`. Such fields are neither owned nor in conflict.
    pub reset_fields: Vec<Vec<String>>,
}

/// Why an apply was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Other managers own fields that would change: 409 `Conflict` with these causes.
    #[error("{0}")]
    Conflict(Conflicts),
    /// The applied object may not be applied here: 400 `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// The applied object does not fit the schema, or the live object is broken: 500 as
    /// kube-apiserver answers it.
    #[error("{0}")]
    Failed(String),
}

/// The conflicts of one apply, at least one. Its `Display` is the message of the Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// One per field: the causes of the Status, with reason `FieldManagerConflict`. Those of one
    /// owner stand together.
    pub causes: Vec<Conflict>,
}

/// One field in conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner as messages name it, such as `"kubectl" using apps/v1`.
    pub owner: String,
    /// The path of the field, such as `.spec.replicas`.
    pub field: String,
}

impl Conflict {
    /// The message of the cause, such as `conflict with "kubectl" using apps/v1`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.owner)
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.causes.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {}: {}", only.owner, only.field);
        }
        write!(f, "Apply failed with {} conflicts: ", self.causes.len())?;
        let mut owner = "";
        for cause in &self.causes {
            if cause.owner != owner {
                if !owner.is_empty() {
                    f.write_str("\n")?;
                }
                write!(f, "conflicts with {}:", cause.owner)?;
                owner = &cause.owner;
            }
            write!(f, "\n- {}", cause.field)?;
        }
        Ok(())
    }
}

/// The fields in conflict by their owner.
type ConflictSets<'a> = BTreeMap<ManagerId, Set<'a>>;

enum Failure<'a> {
    Conflict(ConflictSets<'a>),
    Error(String),
}

/// What an apply comes to: the new object without its entries, and who owns what.
struct Outcome<'a> {
    object: Value,
    changed: bool,
    managers: Managers<'a>,
}

impl FieldManager {
    /// Applies `applied` for `manager` to the live object, or creates it when there is none.
    ///
    /// The answer holds the merged object with new `managedFields`; the caller defaults, validates
    /// and stores it. When nothing but ownership changed, the rest of it equals the live object.
    /// `applied` is the object as the client sent it.
    ///
    /// # Errors
    /// [`ApplyError`]; a conflict only when not forced.
    pub fn apply(
        &self,
        live: Option<&Value>,
        applied: &Value,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<Value, ApplyError> {
        self.check_applied(applied)?;
        let empty = self.empty();
        let live = live.unwrap_or(&empty);
        let mut managers = Managers::decode(managed::parse(managed::entries(live)).as_deref())
            .map_err(|error| ApplyError::Failed(format!("failed to decode managed fields: {error}")))?;
        if managers.owned.is_empty() {
            self.record(&empty, live, &mut managers, BEFORE_FIRST_APPLY, now).map_err(|error| {
                ApplyError::Failed(format!("failed to create manager for existing fields: {error}"))
            })?;
        }
        if managed::parse(managed::entries(applied)).is_some() {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        self.valid(applied, false, "failed to create typed patch object").map_err(ApplyError::Failed)?;
        self.valid(live, true, "failed to create typed live object").map_err(ApplyError::Failed)?;

        // `kubectl apply --server-side` takes over what `kubectl apply` set before.
        let kubectl = manager == last_applied::KUBECTL;
        let retry = (kubectl && !force).then(|| managers.clone());
        let outcome = match (self.merge(live, applied, managers, manager, force), retry) {
            (Err(Failure::Conflict(mut conflicts)), Some(managers)) => {
                match last_applied::allowed(&self.schema, &self.api_version, live) {
                    None => Err(Failure::Conflict(conflicts)),
                    Some(allowed) => {
                        for fields in conflicts.values_mut() {
                            fields.subtract(&allowed);
                        }
                        conflicts.retain(|_, fields| !fields.is_empty());
                        if conflicts.is_empty() {
                            self.merge(live, applied, managers, manager, true)
                        } else {
                            Err(Failure::Conflict(conflicts))
                        }
                    }
                }
            }
            (outcome, _) => outcome,
        };
        let Outcome { mut object, changed, mut managers } = outcome.map_err(|failure| match failure {
            Failure::Conflict(conflicts) => ApplyError::Conflict(causes(&conflicts)),
            Failure::Error(error) => ApplyError::Failed(error),
        })?;
        if changed {
            managers.times.insert(self.id(manager, Operation::Apply), Some(now));
        }
        if kubectl {
            last_applied::refresh(&mut object, applied);
        }
        managed::set_entries(&mut object, managers.encode());
        Ok(object)
    }

    /// Records in `new.metadata.managedFields` what `manager` changed against the live object by a
    /// create (no live object), update or patch, and answers `new`.
    ///
    /// `managedFields` of `new` that are well-formed are taken as the state before; an empty list or
    /// a list of one empty entry resets them. Through a subresource, the live object's are taken.
    /// When the fields cannot be worked out, `managedFields` is removed: an update never fails here.
    pub fn update(&self, live: Option<&Value>, mut new: Value, manager: &str, now: Timestamp) -> Value {
        let taken = new
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .and_then(|metadata| metadata.remove("managedFields"));
        let entries = self.recorded(live, &new, taken.as_ref(), manager, now);
        managed::set_entries(&mut new, entries);
        new
    }

    fn recorded(
        &self,
        live: Option<&Value>,
        new: &Value,
        taken: Option<&Value>,
        manager: &str,
        now: Timestamp,
    ) -> Option<Value> {
        let empty = self.empty();
        let live = live.unwrap_or(&empty);
        let taken = managed::parse(taken);
        let taken = taken.as_deref();
        let of_live =
            || Managers::decode(managed::parse(managed::entries(live)).as_deref()).unwrap_or_default();
        let mut managers = if !self.subresource.is_empty() {
            of_live()
        } else if managed::is_reset(taken) {
            Managers::default()
        } else {
            match Managers::decode(taken) {
                Ok(managers) if !managers.owned.is_empty() => managers,
                _ => of_live(),
            }
        };
        // What exists and is not tracked stays so until somebody applies it.
        let exists = live.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(Value::as_str);
        if managers.owned.is_empty() && exists.is_some_and(|uid| !uid.is_empty()) {
            return None;
        }
        self.record(live, new, &mut managers, manager, now).ok()?;
        managers.encode()
    }

    /// The object that a create starts from.
    fn empty(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind})
    }

    fn id(&self, manager: &str, operation: Operation) -> ManagerId {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        ManagerId::new(manager, operation, &self.api_version, &self.subresource)
    }

    fn gvk(&self) -> String {
        gvk(&self.api_version, &self.kind)
    }

    fn check_applied(&self, applied: &Value) -> Result<(), ApplyError> {
        let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version != self.api_version || kind != self.kind {
            return Err(ApplyError::BadRequest(format!("invalid object type: {}", gvk(api_version, kind))));
        }
        Ok(())
    }

    fn valid(&self, object: &Value, allow_duplicates: bool, what: &str) -> Result<(), String> {
        typed::validate(&self.schema, object, allow_duplicates)
            .map_err(|errors| format!("{what} ({}): {errors}", self.describe(object)))
    }

    fn describe(&self, object: &Value) -> String {
        let text = |name: &str| {
            object.get("metadata").and_then(|m| m.get(name)).and_then(Value::as_str).unwrap_or_default()
        };
        format!("{}/{}; {}", text("namespace"), text("name"), self.gvk())
    }

    fn reset_set(&self) -> Set<'_> {
        let mut set = Set::default();
        for path in &self.reset_fields {
            let path: Vec<_> = path.iter().map(|name| PathElement::Field(name.as_str().into())).collect();
            set.insert(&path);
        }
        set
    }

    /// Drops entries of versions that are not served, and follows the schema where it has changed.
    fn reconcile(&self, managers: &mut Managers<'_>) -> Result<(), String> {
        managers.owned.retain(|_, owned| owned.api_version == self.api_version);
        for owned in managers.owned.values_mut() {
            typed::reconcile(&self.schema, &mut owned.fields)
                .map_err(|error| format!("errors reconciling field set with schema: {error}"))?;
        }
        Ok(())
    }

    fn compare<'a>(
        &'a self,
        live: &'a Value,
        new: &'a Value,
        reset: &Set<'_>,
    ) -> Result<typed::Comparison<'a>, String> {
        let mut comparison = typed::compare(&self.schema, live, new)
            .map_err(|errors| format!("failed to compare objects: {errors}"))?;
        for set in [&mut comparison.removed, &mut comparison.modified, &mut comparison.added] {
            set.subtract_recursively(reset);
        }
        Ok(comparison)
    }

    /// Gives to `manager` what differs between the live and the new object, and takes it from others.
    fn record<'a>(
        &'a self,
        live: &'a Value,
        new: &'a Value,
        managers: &mut Managers<'a>,
        manager: &str,
        now: Timestamp,
    ) -> Result<(), String> {
        self.valid(new, true, "failed to convert new object")?;
        self.valid(live, true, "failed to convert live object")?;
        self.reconcile(managers)
            .and_then(|()| {
                let comparison = self.compare(live, new, &self.reset_set())?;
                let changed = comparison.modified.union(comparison.added);
                for owned in managers.owned.values_mut() {
                    owned.fields.subtract(&changed);
                    owned.fields.subtract(&comparison.removed);
                }
                managers.owned.retain(|_, owned| !owned.fields.is_empty());
                let mut fields = changed;
                fields.subtract(&managed::STRIPPED);
                if !fields.is_empty() {
                    let id = self.id(manager, Operation::Update);
                    managers.times.insert(id.clone(), Some(now));
                    let owned = managers.owned.entry(id).or_insert_with(|| Owned {
                        fields: Set::default(),
                        api_version: self.api_version.clone(),
                        applied: false,
                    });
                    owned.fields = std::mem::take(&mut owned.fields).union(fields);
                }
                Ok(())
            })
            .map_err(|error| format!("failed to update ManagedFields ({}): {error}", self.describe(new)))?;
        managers.cap();
        Ok(())
    }

    /// Merges, prunes what the manager gave up, and looks for conflicts.
    fn merge<'a>(
        &'a self,
        live: &'a Value,
        applied: &'a Value,
        mut managers: Managers<'a>,
        manager: &str,
        force: bool,
    ) -> Result<Outcome<'a>, Failure<'a>> {
        let fail = Failure::Error;
        self.reconcile(&mut managers).map_err(fail)?;
        let mut new = managed::clone_without_entries(live);
        typed::merge(&self.schema, &mut new, applied)
            .map_err(|errors| fail(format!("failed to merge config: {errors}")))?;
        let reset = self.reset_set();
        let mut fields = typed::field_set(&self.schema, applied);
        fields.subtract_recursively(&reset);

        let id = self.id(manager, Operation::Apply);
        let last = managers.owned.remove(&id).map(|owned| owned.fields).unwrap_or_default();
        // What is still applied stays, and with it all that it stands in.
        let gave_up = !last.is_subset(&fields);
        let owned = Owned { fields, api_version: self.api_version.clone(), applied: true };
        managers.owned.insert(id.clone(), owned);
        if gave_up {
            self.prune(&mut new, &managers, last);
        }

        let comparison = self.compare(live, &new, &reset).map_err(fail)?;
        let typed::Comparison { mut removed, modified, added } = comparison;
        removed.subtract(&managed::ENTRIES);
        let changed = modified.union(added);
        let mut conflicts = ConflictSets::new();
        for (other, owned) in managers.owned.iter_mut().filter(|(other, _)| **other != id) {
            let conflict = owned.fields.intersection(&changed);
            if !conflict.is_empty() {
                owned.fields.subtract(&conflict);
                conflicts.insert(other.clone(), conflict);
            }
            owned.fields.subtract(&removed);
        }
        if !force && !conflicts.is_empty() {
            return Err(Failure::Conflict(conflicts));
        }
        managers.owned.retain(|_, owned| !owned.fields.is_empty());
        managers.strip(&id);
        let changed = !managed::equal_without_entries(live, &new, value::equal);
        // Numbers may be equal and yet be written in another way: then the live object stays.
        let object = if changed || managed::equal_without_entries(live, &new, Value::eq) {
            new
        } else {
            managed::clone_without_entries(live)
        };
        Ok(Outcome { object, changed, managers })
    }

    /// Removes from the merged object what the manager applied last time, applies no more, and nobody
    /// else owns.
    fn prune(&self, merged: &mut Value, managers: &Managers<'_>, mut last: Set<'_>) {
        if last.is_empty() {
            return;
        }
        let (schema, arena, root) = (&self.schema, self.schema.arena(), self.schema.root());
        last.ensure_named_fields(arena, root);
        let given_up = {
            let merged_set = named_fields(schema, merged);
            // Without all that was applied last time.
            let mut pruned = merged.clone();
            typed::remove(schema, &mut pruned, &last);
            let mut gone = merged_set.difference(&named_fields(schema, &pruned));
            // Back with what somebody owns.
            for owned in managers.owned.values() {
                let mut fields = owned.fields.clone();
                fields.ensure_named_fields(arena, root);
                gone.subtract(&fields);
            }
            let mut pruned = merged.clone();
            typed::remove(schema, &mut pruned, &gone);
            // Back with what was taken along and was not of the last apply.
            last.intersection(&merged_set.difference(&named_fields(schema, &pruned)))
        };
        if !given_up.is_empty() {
            typed::remove(schema, merged, &given_up);
        }
    }
}

/// The fields that an object sets with all named fields above them.
fn named_fields<'a>(schema: &'a Schema, object: &'a Value) -> Set<'a> {
    let mut set = typed::field_set(schema, object);
    set.ensure_named_fields(schema.arena(), schema.root());
    set
}

fn gvk(api_version: &str, kind: &str) -> String {
    match api_version.split_once('/') {
        Some(_) => format!("{api_version}, Kind={kind}"),
        None => format!("/{api_version}, Kind={kind}"),
    }
}

fn causes(conflicts: &ConflictSets<'_>) -> Conflicts {
    let mut managers: Vec<_> = conflicts.iter().map(|(id, fields)| (id.identifier(), id, fields)).collect();
    managers.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let mut causes = Vec::new();
    for (_, id, fields) in managers {
        let owner = id.in_conflict();
        causes.extend(fields.paths().into_iter().map(|field| Conflict { owner: owner.clone(), field }));
    }
    Conflicts { causes }
}
