//! Go's `reflect.DeepEqual`.

use std::rc::Rc;

use convoy_gotemplate::{Call, FuncError, Limit, MAX_NESTING, Value};

use super::arguments::{Outcome, any};

/// Whether two values are of the same types and equal all the way down.
///
/// # Errors
/// They are nested too deeply, contain themselves, or take too many steps to compare.
pub(super) fn deep_equal(call: &mut Call<'_, '_>, a: &Value, b: &Value) -> Result<bool, FuncError> {
    equal(call, a, b, 0)
}

fn equal(call: &mut Call<'_, '_>, a: &Value, b: &Value, depth: usize) -> Result<bool, FuncError> {
    if depth > MAX_NESTING {
        return Err(FuncError::limit(Limit::Nesting));
    }
    Ok(match (a, b) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(x), Value::Bool(y)) => x == y,
        (Value::Int(x), Value::Int(y)) | (Value::Int64(x), Value::Int64(y)) => x == y,
        (Value::Int32(x), Value::Int32(y)) => x == y,
        (Value::Uint8(x), Value::Uint8(y)) => x == y,
        (Value::Uint32(x), Value::Uint32(y)) => x == y,
        (Value::Uint64(x), Value::Uint64(y)) => x == y,
        (Value::Float64(x), Value::Float64(y)) => x == y,
        (Value::String(x), Value::String(y)) | (Value::Bytes(x), Value::Bytes(y)) => x == y,
        (Value::List(x), Value::List(y)) => {
            if x.same(y) {
                return Ok(true);
            }
            if x.elem() != y.elem() || x.is_nil() != y.is_nil() || x.len() != y.len() {
                return Ok(false);
            }
            call.steps(1 + x.len() as u64)?;
            for (x, y) in x.to_vec().iter().zip(y.to_vec().iter()) {
                if !equal(call, x, y, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(x), Value::Map(y)) => {
            if x.elem() != y.elem() || x.name() != y.name() {
                return Ok(false);
            }
            if x.same(y) {
                return Ok(true);
            }
            if x.is_nil() != y.is_nil() || x.len() != y.len() {
                return Ok(false);
            }
            call.steps(1 + x.len() as u64)?;
            for ((key, x), (other, y)) in x.entries().iter().zip(y.entries().iter()) {
                if key != other || !equal(call, x, y, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(x), Value::Object(y)) => {
            Rc::ptr_eq(x, y)
                || x.type_name() == y.type_name() && x.display().is_some() && x.display() == y.display()
        }
        _ => false,
    })
}

pub(super) fn deep_equal_function(call: &mut Call<'_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(deep_equal(call, &any(args, 0), &any(args, 1))?))
}
