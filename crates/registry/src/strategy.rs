//! What is special about a resource.

use convoy_meta::{FieldError, GroupResource, Status, TableColumn};
use serde_json::Value;

use crate::RequestContext;

/// What a resource does with its objects beyond what its schema says. Every method has a default
/// that does nothing, so a strategy names only what is special.
///
/// Order of a create: defaults of the schema, [`default`](Self::default_object),
/// [`prepare_for_create`](Self::prepare_for_create), validation of the metadata and by the schema,
/// [`validate`](Self::validate), [`canonicalise`](Self::canonicalise). An update is alike, with
/// [`prepare_for_update`](Self::prepare_for_update) and [`validate_update`](Self::validate_update).
pub trait Strategy: Send + Sync + std::fmt::Debug {
    /// Sets defaults that a schema cannot express.
    fn default_object(&self, object: &mut Value) {
        let _ = object;
    }

    /// Sets and clears what clients may not decide on creation. The status is dropped before if it is a
    /// subresource.
    fn prepare_for_create(&self, context: &RequestContext, object: &mut Value) {
        let _ = (context, object);
    }

    /// Sets and clears what clients may not decide on an update through `subresource`, which is empty
    /// for the main resource.
    fn prepare_for_update(
        &self,
        context: &RequestContext,
        subresource: &str,
        object: &mut Value,
        old: &Value,
    ) {
        let _ = (context, subresource, object, old);
    }

    /// Says whether `object` may be stored in place of `old`, which it is compared with anew whenever the
    /// write lost a race. For refusals that are about who is first rather than about what is wrong.
    ///
    /// # Errors
    /// The answer that refuses the write, a 409 as a rule.
    fn may_replace(&self, resource: &GroupResource, object: &Value, old: &Value) -> Result<(), Status> {
        let _ = (resource, object, old);
        Ok(())
    }

    /// What a client asks for that is not served, by the fields as the client sent them: a field that changes nothing must not
    /// look as if it did. Others that are not known are dropped.
    fn unserved(&self, object: &Value) -> Vec<FieldError> {
        let _ = object;
        Vec::new()
    }

    /// All that is wrong with a new object beyond its schema.
    fn validate(&self, context: &RequestContext, object: &Value) -> Vec<FieldError> {
        let _ = (context, object);
        Vec::new()
    }

    /// All that is wrong with a change. Does not call [`validate`](Self::validate): the registry does.
    fn validate_update(
        &self,
        context: &RequestContext,
        subresource: &str,
        object: &Value,
        old: &Value,
    ) -> Vec<FieldError> {
        let _ = (context, subresource, object, old);
        Vec::new()
    }

    /// Brings equal objects to equal form, after validation.
    fn canonicalise(&self, object: &mut Value) {
        let _ = object;
    }

    /// What to tell the client although the object is taken.
    fn warnings(&self, context: &RequestContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (context, object, old);
        Vec::new()
    }

    /// Columns of the Table with their cells made by [`cells`](Self::cells), NAME included; `None` takes
    /// the columns of the definition.
    fn table_columns(&self) -> Option<Vec<TableColumn>> {
        None
    }

    /// The cells of one row, as many as there are columns.
    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let _ = (object, now);
        Vec::new()
    }

    /// Marks an object whose deletion begins, such as a Namespace that becomes `Terminating`.
    fn begin_deletion(&self, context: &RequestContext, object: &mut Value) {
        let _ = (context, object);
    }

    /// Whether an object that is to be deleted and has no finalizers may go: a Namespace has
    /// `spec.finalizers`, too.
    fn may_be_removed(&self, object: &Value) -> bool {
        let _ = object;
        true
    }
}

/// A resource about which nothing is special.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultStrategy;

impl Strategy for DefaultStrategy {}
