//! The functions of text/template itself.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::ast::Builtin;
use crate::escape::{html_escape, js_escape, query_escape};
use crate::exec::Reflected;
use crate::format::{Budget, sprint, sprintf, sprintln};
use crate::function::FuncError;
use crate::text::Str;
use crate::value::{Elem, Kind, List, Value};

type Outcome = Result<Reflected, FuncError>;

/// How many fixed parameters it has, and whether more may follow.
pub(crate) fn arity(builtin: Builtin) -> (usize, bool) {
    match builtin {
        Builtin::Print | Builtin::Println | Builtin::Html | Builtin::Js | Builtin::UrlQuery => (0, true),
        Builtin::And
        | Builtin::Or
        | Builtin::Call
        | Builtin::Index
        | Builtin::Slice
        | Builtin::Printf
        | Builtin::Eq => (1, true),
        Builtin::Len | Builtin::Not => (1, false),
        Builtin::Ge | Builtin::Gt | Builtin::Le | Builtin::Lt | Builtin::Ne => (2, false),
    }
}

/// Calls one with arguments whose number fits. `callee` is how the template spells what `call` calls.
pub(crate) fn call(builtin: Builtin, args: Vec<Reflected>, callee: &str, budget: Budget<'_>) -> Outcome {
    match (builtin, args.as_slice()) {
        (Builtin::Not, [value, ..]) => boolean(!value.truth()),
        (Builtin::Eq, [first, rest @ ..]) => boolean(equal(first, rest)?),
        (Builtin::Ne, [first, rest @ ..]) => boolean(!equal(first, rest)?),
        (Builtin::Lt, [a, b, ..]) => boolean(less(a, b)?),
        (Builtin::Le, [a, b, ..]) => boolean(less_or_equal(a, b)?),
        (Builtin::Gt, [a, b, ..]) => boolean(!less_or_equal(a, b)?),
        (Builtin::Ge, [a, b, ..]) => boolean(!less(a, b)?),
        (Builtin::Len, [value, ..]) => length(value),
        (Builtin::Index, [item, indexes @ ..]) => index(item, indexes),
        (Builtin::Slice, [item, indexes @ ..]) => slice(item, indexes),
        (Builtin::Call, [function, ..]) => Err(match function.concrete() {
            None => FuncError::new("call of nil"),
            Some(value) => FuncError::new(format!("non-function {callee} of type {}", value.type_name())),
        }),
        _ => text(builtin, args, budget),
    }
}

fn boolean(truth: bool) -> Outcome {
    Ok(Reflected::Plain(Value::Bool(truth)))
}

fn text(builtin: Builtin, args: Vec<Reflected>, budget: Budget<'_>) -> Outcome {
    let mut values: Vec<Value> = args.into_iter().map(Reflected::into_value).collect();
    let printed = match builtin {
        Builtin::Print => sprint(&values, budget),
        Builtin::Println => sprintln(&values, budget),
        Builtin::Printf => match values.split_first() {
            Some((Value::String(format), rest)) => sprintf(format, rest, budget),
            _ => Ok(Vec::new()),
        },
        _ => {
            for value in &mut values {
                if value.is_nil() {
                    *value = Value::from("<no value>");
                }
            }
            sprint(&values, budget).map(|plain| match builtin {
                Builtin::Html => html_escape(&plain),
                Builtin::Js => js_escape(&plain),
                _ => query_escape(&plain),
            })
        }
    };
    Ok(Reflected::Plain(Value::String(Str::from(printed.map_err(FuncError::limit)?))))
}

// The kinds that can be compared, as Go groups them.
#[derive(Clone, Copy, PartialEq)]
enum Basic {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    String,
}

fn basic(value: Option<&Value>) -> Option<Basic> {
    Some(match value? {
        Value::Bool(b) => Basic::Bool(*b),
        Value::Int(i) | Value::Int64(i) => Basic::Int(*i),
        Value::Int32(i) => Basic::Int(i64::from(*i)),
        Value::Uint8(u) => Basic::Uint(u64::from(*u)),
        Value::Uint32(u) => Basic::Uint(u64::from(*u)),
        Value::Uint64(u) => Basic::Uint(*u),
        Value::Float64(f) => Basic::Float(*f),
        Value::String(_) => Basic::String,
        Value::Object(object) => Basic::Int(object.as_int()?),
        Value::Nil | Value::Bytes(_) | Value::List(_) | Value::Map(_) => return None,
    })
}

fn string(value: Option<&Value>) -> &[u8] {
    match value {
        Some(Value::String(text)) => text,
        _ => &[],
    }
}

// Compares two values of basic kinds; `None` when their kinds differ. Floats may be unordered.
fn compare(a: Option<&Value>, b: Option<&Value>) -> Option<Option<Ordering>> {
    Some(match (basic(a)?, basic(b)?) {
        (Basic::Bool(x), Basic::Bool(y)) => Some(x.cmp(&y)),
        (Basic::Int(x), Basic::Int(y)) => Some(x.cmp(&y)),
        (Basic::Uint(x), Basic::Uint(y)) => Some(x.cmp(&y)),
        (Basic::Int(x), Basic::Uint(y)) => Some(u64::try_from(x).map_or(Ordering::Less, |x| x.cmp(&y))),
        (Basic::Uint(x), Basic::Int(y)) => Some(u64::try_from(y).map_or(Ordering::Greater, |y| x.cmp(&y))),
        (Basic::Float(x), Basic::Float(y)) => x.partial_cmp(&y),
        (Basic::String, Basic::String) => Some(string(a).cmp(string(b))),
        _ => return None,
    })
}

fn type_of(value: Option<&Value>) -> String {
    value.map_or_else(|| "<nil>".to_owned(), |v| v.type_name().into_owned())
}

fn shown(value: Option<&Value>) -> Value {
    value.cloned().unwrap_or_default()
}

fn equal(first: &Reflected, rest: &[Reflected]) -> Result<bool, FuncError> {
    const LONGEST: usize = 1 << 16;
    let message = |format: &[u8], args: &[Value]| match sprintf(format, args, LONGEST) {
        Ok(text) => FuncError::new(String::from_utf8_lossy(&text)),
        Err(_) => FuncError::new("non-comparable types"),
    };
    if rest.is_empty() {
        return Err(FuncError::new("missing argument for comparison"));
    }
    let a = first.concrete();
    for other in rest {
        let b = other.concrete();
        let truth = match (basic(a), basic(b)) {
            (Some(_), Some(_)) => match compare(a, b) {
                Some(ordering) => ordering == Some(Ordering::Equal),
                None => return Err(incompatible(a, b)),
            },
            (Some(_), None) | (None, Some(_)) => {
                if a.is_some() && b.is_some() {
                    return Err(incompatible(a, b));
                }
                false
            }
            (None, None) => match (a, b) {
                (None, None) => true,
                (None, Some(x)) | (Some(x), None) => x.is_any_nil(),
                (Some(x), Some(y)) if x.kind() != y.kind() => {
                    return Err(message(
                        b"non-comparable types %s: %s, %s: %v",
                        &[shown(a), type_of(a).into(), type_of(b).into(), shown(b)],
                    ));
                }
                (Some(x), Some(y)) if x.is_any_nil() || y.is_any_nil() => x.is_any_nil() == y.is_any_nil(),
                (Some(Value::Object(x)), Some(Value::Object(y))) if y.kind() != Kind::Map => {
                    Rc::ptr_eq(x, y) || x.kind() == Kind::Struct && x.display() == y.display()
                }
                (Some(_), Some(_)) => {
                    return Err(message(b"non-comparable type %s: %s", &[shown(b), type_of(b).into()]));
                }
            },
        };
        if truth {
            return Ok(true);
        }
    }
    Ok(false)
}

fn incompatible(a: Option<&Value>, b: Option<&Value>) -> FuncError {
    FuncError::new(format!("incompatible types for comparison: {} and {}", type_of(a), type_of(b)))
}

fn less(a: &Reflected, b: &Reflected) -> Result<bool, FuncError> {
    let bad = || FuncError::new("invalid type for comparison");
    let (a, b) = (a.concrete(), b.concrete());
    let kind = basic(a).ok_or_else(bad)?;
    basic(b).ok_or_else(bad)?;
    let ordering = compare(a, b).ok_or_else(|| incompatible(a, b))?;
    if matches!(kind, Basic::Bool(_)) {
        return Err(bad());
    }
    Ok(ordering == Some(Ordering::Less))
}

fn less_or_equal(a: &Reflected, b: &Reflected) -> Result<bool, FuncError> {
    Ok(less(a, b)? || equal(a, std::slice::from_ref(b))?)
}

fn int(value: usize) -> Reflected {
    Reflected::Plain(Value::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn length(value: &Reflected) -> Outcome {
    match value {
        Reflected::Interface(Value::Nil) => Err(FuncError::new("len of nil pointer")),
        Reflected::Missing | Reflected::Invalid => {
            Err(FuncError::new("reflect: call of reflect.Value.Type on zero Value"))
        }
        Reflected::Interface(value) | Reflected::Plain(value) => match value {
            Value::String(text) | Value::Bytes(text) => Ok(int(text.len())),
            Value::List(list) => Ok(int(list.len())),
            Value::Map(map) => Ok(int(map.len())),
            Value::Object(object) if object.kind() == Kind::Map => {
                Ok(int(object.entries().unwrap_or_default().len()))
            }
            other => Err(FuncError::new(format!("len of type {}", other.type_name()))),
        },
    }
}

// A valid index in 0..=cap.
fn index_arg(value: &Reflected, cap: usize) -> Result<usize, FuncError> {
    let index = match value.concrete() {
        None => return Err(FuncError::new("cannot index slice/array with nil")),
        Some(value) => match basic(Some(value)) {
            Some(Basic::Int(i)) => i,
            Some(Basic::Uint(u)) => i64::try_from(u).unwrap_or(-1),
            _ => {
                return Err(FuncError::new(format!(
                    "cannot index slice/array with type {}",
                    value.type_name()
                )));
            }
        },
    };
    usize::try_from(index)
        .ok()
        .filter(|i| *i <= cap)
        .ok_or_else(|| FuncError::new(format!("index out of range: {index}")))
}

fn index(item: &Reflected, indexes: &[Reflected]) -> Outcome {
    let Some(first) = item.concrete() else {
        return Err(FuncError::new("index of untyped nil"));
    };
    let mut item = Reflected::Plain(first.clone());
    for wanted in indexes {
        let Some(value) = item.concrete() else {
            return Err(FuncError::new("index of nil pointer"));
        };
        item = match value {
            Value::String(bytes) | Value::Bytes(bytes) => {
                let at = index_arg(wanted, bytes.len())?;
                let kind = if matches!(value, Value::String(_)) { "string" } else { "slice" };
                let byte = bytes.get(at).ok_or_else(|| out_of_range(kind))?;
                Reflected::Plain(Value::Uint8(*byte))
            }
            Value::List(list) => {
                let at = index_arg(wanted, list.len())?;
                let found = list.get(at).ok_or_else(|| out_of_range("slice"))?;
                Reflected::typed(list.elem(), found)
            }
            Value::Map(map) => {
                let key = map_key(wanted)?;
                Reflected::typed(map.elem(), map.get(&key).unwrap_or_else(|| map.elem().zero()))
            }
            Value::Object(object) if object.kind() == Kind::Map => {
                let key = map_key(wanted)?;
                let entries = object.entries().unwrap_or_default();
                let found = entries.into_iter().find(|(k, _)| *k == key).map(|(_, v)| v);
                Reflected::typed(object.elem(), found.unwrap_or_else(|| object.elem().zero()))
            }
            other => return Err(FuncError::new(format!("can't index item of type {}", other.type_name()))),
        };
    }
    // Go gives the item back as it holds it: an element of an `[]interface {}` is an interface.
    Ok(item)
}

fn out_of_range(kind: &str) -> FuncError {
    FuncError::new(format!("reflect: {kind} index out of range"))
}

fn map_key(value: &Reflected) -> Result<Str, FuncError> {
    match value.concrete() {
        None => Err(FuncError::new("value is nil; should be of type string")),
        Some(Value::String(key)) => Ok(key.clone()),
        Some(other) => Err(FuncError::new(format!("value has type {}; should be string", other.type_name()))),
    }
}

fn slice(item: &Reflected, indexes: &[Reflected]) -> Outcome {
    let Some(value) = item.concrete() else {
        return Err(FuncError::new("slice of untyped nil"));
    };
    if indexes.len() > 3 {
        return Err(FuncError::new(format!("too many slice indexes: {}", indexes.len())));
    }
    let length = match value {
        Value::String(_) if indexes.len() == 3 => {
            return Err(FuncError::new("cannot 3-index slice a string"));
        }
        Value::String(bytes) | Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        other => return Err(FuncError::new(format!("can't slice item of type {}", other.type_name()))),
    };
    let mut bounds = [0, length, length];
    for (slot, wanted) in bounds.iter_mut().zip(indexes) {
        // Unlike `index`, Go's `slice` does not look into interfaces.
        if matches!(wanted, Reflected::Interface(_)) {
            return Err(FuncError::new("cannot index slice/array with type interface {}"));
        }
        *slot = index_arg(wanted, length)?;
    }
    let [from, to, cap] = bounds;
    if from > to {
        return Err(FuncError::new(format!("invalid slice index: {from} > {to}")));
    }
    if indexes.len() == 3 && to > cap {
        return Err(FuncError::new(format!("invalid slice index: {to} > {cap}")));
    }
    Ok(Reflected::Plain(match value {
        Value::List(list) => {
            let items = list.borrow().get(from..to).unwrap_or_default().to_vec();
            Value::List(List::with_elem(list.elem(), items))
        }
        Value::Bytes(bytes) => Value::Bytes(bytes.get(from..to).unwrap_or_default().into()),
        Value::String(bytes) => Value::String(bytes.get(from..to).unwrap_or_default().into()),
        _ => Elem::Any.zero(),
    }))
}
