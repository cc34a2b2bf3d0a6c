//! Reading fields of objects whose shape nobody checked.

use serde_json::Value;

/// A text by its JSON pointer; empty when it is not there.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A whole number by its JSON pointer.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// A number of the status; 0 when it is not there, as the API leaves out zeros.
pub(crate) fn count(object: &Value, pointer: &str) -> i64 {
    number(object, pointer).unwrap_or(0)
}

/// A boolean by its JSON pointer; false when it is not there.
pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// One entry of `status.conditions`.
#[derive(Clone, Copy)]
pub(crate) struct Condition<'a>(&'a Value);

impl<'a> Condition<'a> {
    pub(crate) fn new(value: &'a Value) -> Self {
        Self(value)
    }

    pub(crate) fn type_(self) -> &'a str {
        text(self.0, "/type")
    }

    pub(crate) fn status(self) -> &'a str {
        text(self.0, "/status")
    }

    pub(crate) fn is(self, status: &str) -> bool {
        text(self.0, "/status") == status
    }

    pub(crate) fn reason(self) -> &'a str {
        text(self.0, "/reason")
    }

    pub(crate) fn message(self) -> &'a str {
        text(self.0, "/message")
    }

    /// How bad it is, as Cluster API says.
    pub(crate) fn severity(self) -> &'a str {
        text(self.0, "/severity")
    }

    pub(crate) fn since(self) -> &'a str {
        text(self.0, "/lastTransitionTime")
    }

    pub(crate) fn observed_generation(self) -> Option<i64> {
        number(self.0, "/observedGeneration")
    }
}

/// The condition of a type, if the object has it.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> Option<Condition<'a>> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| text(condition, "/type") == type_).map(Condition)
}

/// The condition of a type, if it is `"True"`.
pub(crate) fn condition_true<'a>(object: &'a Value, type_: &str) -> Option<Condition<'a>> {
    condition(object, type_).filter(|condition| condition.is("True"))
}
