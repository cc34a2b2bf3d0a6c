//! Validation, with the paths and texts of kube-apiserver's OpenAPI validation.
//!
//! Its oddities are kept where they can be seen in a message: a field is named `<path> in body`, the
//! value of a type error is the name of the type that was found, and what concerns a combination of
//! schemas (`anyOf`, `oneOf`, `allOf`, `not`) or a number's range has no field.

use convoy_meta::FieldError;
use convoy_meta::field_error::{go_float, go_quote};
use serde_json::{Map, Number, Value};

use crate::node::{Additional, Bound, Constraints, Node, NodeId, Slot, Type};
use crate::structural::{MAX_DEPTH, Structural};

/// The field of an error that names none.
const NO_FIELD: &str = "<nil>";

pub(crate) fn check(schema: &Structural, value: &Value) -> Vec<FieldError> {
    Validator { schema }.node(schema.root, value, "", 0).errors
}

/// What came of one schema. When several alternatives fail, the one that got furthest, with the most
/// checks behind it, explains the failure.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    checks: usize,
}

impl Outcome {
    /// What was said once is not said again.
    fn merge(&mut self, other: Self) {
        for error in other.errors {
            if !self.errors.contains(&error) {
                self.errors.push(error);
            }
        }
        self.checks += other.checks;
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn of(error: Option<FieldError>) -> Self {
        Self { errors: error.into_iter().collect(), checks: 0 }
    }
}

struct Validator<'a> {
    schema: &'a Structural,
}

impl Validator<'_> {
    fn node(&self, id: NodeId, value: &Value, path: &str, depth: usize) -> Outcome {
        if depth > MAX_DEPTH {
            let detail = format!("must not be nested deeper than {MAX_DEPTH} levels");
            return Outcome::of(Some(FieldError::invalid(field(path), "", detail)));
        }
        let node = self.schema.node(id);
        let mut outcome = Outcome::default();

        let constraints = node.constraints.as_deref();
        if value.is_null() {
            outcome.merge(check_null(node, path));
            outcome.merge(constraints.map_or_else(Outcome::default, |it| check_enum(it, value, path)));
            return outcome;
        }

        if node.kind.is_some() || node.int_or_string || effective_format(node).is_some() {
            outcome.merge(check_type(node, value, path));
            outcome.checks += 1;
        }
        // Each kind of check counts, also where the schema asks for nothing.
        outcome.checks += match value {
            Value::String(_) => 3,
            Value::Number(_) => 4,
            _ => 2,
        };
        if let Value::Number(number) = value {
            outcome.merge(Outcome::of(check_range(node, number, path)));
        }
        if let Some(constraints) = constraints {
            outcome.merge(self.combinations(constraints, value, path, depth));
            match value {
                Value::String(text) => {
                    outcome.merge(Outcome::of(check_string(constraints, text, path)));
                    if let Some(format) =
                        constraints.known_format.filter(|_| effective_format(node).is_some())
                    {
                        outcome.checks += 1;
                        if !format.matches(text) {
                            let name = constraints.format.as_deref().unwrap_or_default();
                            let detail = format!("{path} in body must be of type {name}: {}", go_quote(text));
                            outcome.errors.push(FieldError::type_invalid(field(path), value.clone(), detail));
                        }
                    }
                }
                Value::Number(number) => outcome.merge(check_number(constraints, number, path)),
                _ => {}
            }
        }
        if let Value::Array(items) = value {
            outcome.merge(self.items(node, items, path, depth));
            outcome.checks += 1;
        }
        outcome.merge(constraints.map_or_else(Outcome::default, |it| check_enum(it, value, path)));
        outcome.checks += 1;
        if let Value::Object(fields) = value {
            outcome.merge(self.fields(node, fields, path, depth));
            outcome.checks += 1;
        }
        outcome.checks += 1;
        outcome
    }

    fn combinations(&self, constraints: &Constraints, value: &Value, path: &str, depth: usize) -> Outcome {
        let mut outcome = Outcome::default();
        let quoted = || go_quote(path);
        let complain = |outcome: &mut Outcome, text: String| {
            outcome.errors.push(FieldError::invalid(NO_FIELD, "", text));
        };
        let run = |id: NodeId| self.node(id, value, path, depth + 1);

        if !constraints.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            let mut success = None;
            for id in &constraints.any_of {
                let branch = run(*id);
                if branch.is_valid() {
                    success = Some(branch);
                    break;
                }
                keep_furthest(&mut best, branch);
            }
            if success.is_none() {
                complain(&mut outcome, format!("{} must validate at least one schema (anyOf)", quoted()));
            }
            outcome.merge(success.or(best).unwrap_or_default());
        }
        if !constraints.one_of.is_empty() {
            let mut best: Option<Outcome> = None;
            let mut success: Option<Outcome> = None;
            let mut valid = 0_usize;
            for id in &constraints.one_of {
                let branch = run(*id);
                if branch.is_valid() {
                    valid += 1;
                    best = None;
                    success.get_or_insert(branch);
                } else if valid == 0 {
                    keep_furthest(&mut best, branch);
                }
            }
            if valid == 1 {
                outcome.merge(success.unwrap_or_default());
            } else {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    many => format!("Found {many} valid alternatives"),
                };
                let text = format!("{} must validate one and only one schema (oneOf). {found}", quoted());
                complain(&mut outcome, text);
                outcome.merge(best.unwrap_or_default());
            }
        }
        if !constraints.all_of.is_empty() {
            let mut valid = 0;
            for id in &constraints.all_of {
                let branch = run(*id);
                valid += usize::from(branch.is_valid());
                outcome.merge(branch);
            }
            if valid != constraints.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                complain(&mut outcome, format!("{} must validate all the schemas (allOf){none}", quoted()));
            }
        }
        if let Some(id) = constraints.not
            && run(id).is_valid()
        {
            complain(&mut outcome, format!("{} must not validate the schema (not)", quoted()));
        }
        outcome
    }

    fn items(&self, node: &Node, items: &[Value], path: &str, depth: usize) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(Slot { node: id, .. }) = node.items {
            for (index, item) in items.iter().enumerate() {
                outcome.merge(self.node(id, item, &format!("{path}[{index}]"), depth + 1));
            }
        }
        if let Some(constraints) = node.constraints.as_deref() {
            let size = items.len() as u64;
            if let Some(min) = constraints.min_items.filter(|min| size < *min) {
                let detail = format!("{path} in body should have at least {min} items");
                outcome.errors.push(FieldError::invalid(field(path), size, detail));
            }
            if let Some(max) = constraints.max_items.filter(|max| size > *max) {
                outcome.errors.push(FieldError::too_many(field(path), items.len(), as_size(max)));
            }
            if constraints.unique_items && has_duplicates(items) {
                let detail = format!("{path} in body shouldn't contain duplicates");
                outcome.errors.push(FieldError::invalid(field(path), "", detail));
            }
        }
        outcome.checks += 1;
        outcome
    }

    fn fields(&self, node: &Node, fields: &Map<String, Value>, path: &str, depth: usize) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(constraints) = node.constraints.as_deref() {
            let size = fields.len() as u64;
            if let Some(min) = constraints.min_properties.filter(|min| size < *min) {
                let detail = format!("{path} in body should have at least {min} properties");
                outcome.errors.push(FieldError::invalid(field(path), size, detail));
            }
            if let Some(max) = constraints.max_properties.filter(|max| size > *max) {
                outcome.errors.push(FieldError::too_many(field(path), fields.len(), as_size(max)));
            }
        }
        for (name, value) in fields {
            if let Some(slot) = node.properties.get(name) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                outcome.merge(self.node(slot.node, value, &path, depth + 1));
                continue;
            }
            match &node.additional {
                Additional::Schema(slot) => {
                    outcome.merge(self.node(slot.node, value, &format!("{path}.{name}"), depth + 1));
                }
                Additional::Denied => {
                    let detail = format!("{path}.{name} in body is a forbidden property");
                    outcome.errors.push(FieldError::invalid(field(path), name.as_str(), detail));
                }
                Additional::Allowed | Additional::Absent => {}
            }
        }
        let required = node.constraints.as_deref().map(|it| it.required.as_slice()).unwrap_or_default();
        for name in required.iter().filter(|name| !fields.contains_key(*name)) {
            outcome.errors.push(FieldError::required(field(&format!("{path}.{name}")), ""));
        }
        outcome
    }
}

fn as_size(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// The root is `<nil>`; a path through additionalProperties of the root begins with a dot.
fn field(path: &str) -> String {
    match path.strip_prefix('.').unwrap_or(path) {
        "" => NO_FIELD.to_owned(),
        path => path.to_owned(),
    }
}

fn keep_furthest(best: &mut Option<Outcome>, branch: Outcome) {
    if best.as_ref().is_none_or(|best| branch.checks > best.checks) {
        *best = Some(branch);
    }
}

/// The names of the types that a schema allows.
fn type_names(node: &Node) -> &'static str {
    if node.int_or_string { "integer,string" } else { node.kind.map_or("", Type::name) }
}

/// The format, unless kube-apiserver ignores it.
fn effective_format(node: &Node) -> Option<&str> {
    let constraints = node.constraints.as_deref()?;
    let format = constraints.format.as_deref()?;
    let heeded = match node.kind {
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        None | Some(Type::String) => constraints.known_format.is_some(),
        Some(Type::Object | Type::Array | Type::Boolean) => false,
    };
    heeded.then_some(format)
}

fn type_error(path: &str, wanted: &str, found: &str) -> FieldError {
    let detail = format!("{path} in body must be of type {wanted}: {}", go_quote(found));
    FieldError::type_invalid(field(path), found, detail)
}

fn check_null(node: &Node, path: &str) -> Outcome {
    if !type_names(node).is_empty() && !node.nullable {
        return Outcome::of(Some(type_error(path, type_names(node), "null")));
    }
    Outcome { errors: Vec::new(), checks: 1 }
}

fn check_type(node: &Node, value: &Value, path: &str) -> Outcome {
    let passed = Outcome { errors: Vec::new(), checks: 1 };
    let (found, found_format) = match value {
        Value::Null => return passed,
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if is_integer(number) => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let allows = |name: &str| match name {
        "integer" | "string" if node.int_or_string => true,
        _ => node.kind.is_some_and(|kind| kind.name() == name),
    };
    let matches = allows(found)
        || (found == "number" && allows("integer") && is_whole(value))
        || (found == "integer" && allows("number"));
    let format = effective_format(node);
    if let Some(format) = format {
        let textual = matches!(value, Value::String(_) | Value::Array(_));
        if !textual && !matches && format != found_format {
            return Outcome::of(Some(type_error(path, format, found_format)));
        }
        if textual && !allows("number") && !allows("integer") {
            return passed;
        }
    }
    if matches { passed } else { Outcome::of(Some(type_error(path, type_names(node), found))) }
}

fn check_enum(constraints: &Constraints, value: &Value, path: &str) -> Outcome {
    let allowed = &constraints.one_of_values;
    if allowed.is_empty() || allowed.iter().any(|one| is_allowed(one, value)) {
        return Outcome::default();
    }
    let supported: Vec<String> = allowed
        .iter()
        .map(|one| match one {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
    Outcome::of(Some(FieldError::not_supported(field(path), value.clone(), &supported)))
}

/// Only the first violation is reported.
fn check_string(constraints: &Constraints, text: &str, path: &str) -> Option<FieldError> {
    let length = text.chars().count() as u64;
    if let Some(max) = constraints.max_length.filter(|max| length > *max) {
        return Some(FieldError::too_long(field(path), as_size(max)));
    }
    if let Some(min) = constraints.min_length.filter(|min| length < *min) {
        let detail = format!("{path} in body should be at least {min} chars long");
        return Some(FieldError::invalid(field(path), text, detail));
    }
    let pattern = constraints.pattern.as_ref()?;
    if pattern.regex.is_match(text) {
        return None;
    }
    let detail = format!("{path} in body should match '{}'", pattern.source);
    Some(FieldError::invalid(field(path), text, detail))
}

/// Whether an integer fits into its format.
fn check_range(node: &Node, number: &Number, path: &str) -> Option<FieldError> {
    if node.kind != Some(Type::Integer) {
        return None;
    }
    let format = effective_format(node);
    let float = number.as_f64().unwrap_or_default();
    let fits = match (format, number.as_i64()) {
        (Some("int32"), Some(integer)) => i32::try_from(integer).is_ok(),
        (_, Some(_)) => true,
        (_, None) => number.is_f64() && float.fract() == 0.0 && float.abs() < I64_LIMIT,
    };
    let format = match format {
        Some(format) => format!(" with format {format}"),
        None => " (default format)".to_owned(),
    };
    let text = format!("Checked value must be of type integer{format} in {path}");
    (!fits).then(|| FieldError::invalid(NO_FIELD, "", text))
}

fn check_number(constraints: &Constraints, number: &Number, path: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let invalid = |detail: String| FieldError::invalid(field(path), Value::Number(number.clone()), detail);
    let float = number.as_f64().unwrap_or_default();

    if let Some(factor) = &constraints.multiple_of {
        outcome.errors.extend(check_multiple(number, factor.as_f64().unwrap_or(1.0), path));
    }
    let beyond = |bound: &Bound, outside: fn(f64, f64) -> bool| {
        outside(float, bound.value) || (bound.exclusive && float == bound.value)
    };
    if let Some(bound) = constraints.maximum.as_ref().filter(|bound| beyond(bound, |value, max| value > max))
    {
        let words = if bound.exclusive { "less than" } else { "less than or equal to" };
        let max = show_bound(bound, number);
        outcome.errors.push(invalid(format!("{path} in body should be {words} {max}")));
    }
    if let Some(bound) = constraints.minimum.as_ref().filter(|bound| beyond(bound, |value, min| value < min))
    {
        let words = if bound.exclusive { "greater than" } else { "greater than or equal to" };
        let min = show_bound(bound, number);
        outcome.errors.push(invalid(format!("{path} in body should be {words} {min}")));
    }
    outcome
}

/// Beside an integer the factor is cut to one, so that 0.5 is 0 there, and wrong.
fn check_multiple(number: &Number, factor: f64, path: &str) -> Option<FieldError> {
    let factor = if is_integer(number) { factor.trunc() } else { factor };
    if factor <= 0.0 {
        let detail = format!("factor MultipleOf declared for {path} must be positive: {}", go_float(factor));
        let value = Number::from_f64(factor).map_or(Value::Null, Value::Number);
        return Some(FieldError::invalid(field(path), value, detail));
    }
    let holds = match number.as_i64() {
        // Cut to an integer above, and no larger than what it divides.
        Some(value) if factor < I64_LIMIT => value % (factor as i64) == 0,
        _ => {
            let value = number.as_f64().unwrap_or_default();
            let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
            quotient.abs() <= LARGEST_SAFE_INTEGER && (quotient - quotient.round()).abs() < 1e-9
        }
    };
    let detail = || format!("{path} in body should be a multiple of {}", go_float(factor));
    (!holds).then(|| FieldError::invalid(field(path), Value::Number(number.clone()), detail()))
}

/// 2^63.
const I64_LIMIT: f64 = 9_223_372_036_854_775_808.0;
/// 2^53 - 1, the largest integer that JSON programs agree on.
const LARGEST_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Beside an integer the bound is printed as one.
fn show_bound(bound: &Bound, beside: &Number) -> String {
    if is_integer(beside) { format!("{:.0}", bound.value.trunc()) } else { go_float(bound.value) }
}

fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64()
}

fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() <= LARGEST_SAFE_INTEGER)
}

/// Whether an allowed value is the one found. The value found is converted to the type of the allowed
/// one before, so that 1.5 is found among 1, 2 and 3.
fn is_allowed(allowed: &Value, found: &Value) -> bool {
    match (allowed, found) {
        (Value::Number(allowed), Value::Number(found)) if is_integer(allowed) && !is_integer(found) => {
            found.as_f64().map(f64::trunc) == allowed.as_f64()
        }
        (Value::Number(allowed), Value::Number(found)) => allowed.as_f64() == found.as_f64(),
        _ => allowed == found,
    }
}

fn has_duplicates(items: &[Value]) -> bool {
    let mut seen = std::collections::HashSet::new();
    items.iter().any(|item| !seen.insert(item.to_string()))
}
