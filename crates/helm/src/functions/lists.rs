//! Functions on lists. None but `sortAlpha` changes a list in place.

use convoy_gotemplate::{Call, Elem, FuncError, List, Str, Value};

use super::arguments::{COPY, ITEM, Outcome, TEXT, any, elements, int, list, text};
use super::equal::deep_equal;
use super::numbers::to_int64;
use super::text::{strings, strval};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

// Empty results of `rest` and `initial` are nil slices.
fn nil_list() -> Outcome {
    Ok(Value::List(List::nil(Elem::Any)))
}

pub(super) fn make(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    call.charge(args.len() * ITEM)?;
    list(args.to_vec())
}

pub(super) fn append(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut items = elements(&any(args, 0), "push on")?;
    items.push(any(args, 1));
    Ok(Value::List(call.list_of(items, COPY)?))
}

pub(super) fn prepend(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut items = elements(&any(args, 0), "prepend on")?;
    items.insert(0, any(args, 1));
    Ok(Value::List(call.list_of(items, COPY)?))
}

pub(super) fn first(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    if let Some(Value::List(list)) = args.first() {
        return Ok(list.get(0).unwrap_or_default());
    }
    Ok(elements(&any(args, 0), "find first on")?.into_iter().next().unwrap_or_default())
}

pub(super) fn last(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    if let Some(Value::List(list)) = args.first() {
        return Ok(list.len().checked_sub(1).and_then(|last| list.get(last)).unwrap_or_default());
    }
    Ok(elements(&any(args, 0), "find last on")?.pop().unwrap_or_default())
}

pub(super) fn rest(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut items = elements(&any(args, 0), "find rest on")?;
    call.charge(items.len() * COPY)?;
    if items.is_empty() {
        return nil_list();
    }
    items.remove(0);
    list(items)
}

pub(super) fn initial(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut items = elements(&any(args, 0), "find initial on")?;
    call.charge(items.len() * COPY)?;
    if items.pop().is_none() {
        return nil_list();
    }
    list(items)
}

pub(super) fn reverse(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut items = elements(&any(args, 0), "find reverse on")?;
    call.charge(items.len() * COPY)?;
    items.reverse();
    list(items)
}

pub(super) fn compact(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut items = elements(&any(args, 0), "compact on")?;
    call.charge(items.len() * COPY)?;
    items.retain(Value::truth);
    list(items)
}

fn among(call: &mut Call<'_, '_>, haystack: &[Value], needle: &Value) -> Result<bool, FuncError> {
    call.steps(haystack.len() as u64)?;
    for item in haystack {
        if deep_equal(call, needle, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn uniq(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let items = elements(&any(args, 0), "find uniq on")?;
    call.charge(items.len() * COPY)?;
    let mut kept = Vec::new();
    for item in items {
        if !among(call, &kept, &item)? {
            kept.push(item);
        }
    }
    list(kept)
}

pub(super) fn without(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let items = elements(&any(args, 0), "find without on")?;
    call.charge(items.len() * COPY)?;
    let omitted = args.get(1..).unwrap_or_default();
    let mut kept = Vec::new();
    for item in items {
        if !among(call, omitted, &item)? {
            kept.push(item);
        }
    }
    list(kept)
}

pub(super) fn has(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let haystack = any(args, 1);
    if haystack.is_nil() {
        return Ok(Value::Bool(false));
    }
    let items = elements(&haystack, "find has on")?;
    Ok(Value::Bool(among(call, &items, &any(args, 0))?))
}

pub(super) fn slice(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let value = any(args, 0);
    let items = match &value {
        Value::List(_) | Value::Bytes(_) => elements(&value, "")?,
        Value::Nil => return Err(super::arguments::nil_pointer()),
        other => {
            return Err(FuncError::new(format!(
                "list should be type of slice or array but {}",
                other.kind().name()
            )));
        }
    };
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from = args.get(1).map_or(0, to_int64);
    let to = args.get(2).map_or(length, to_int64);
    if from < 0 || to < from || to > length {
        return Err(FuncError::new("reflect.Value.Slice: slice index out of bounds"));
    }
    let range = usize::try_from(from).unwrap_or(0)..usize::try_from(to).unwrap_or(0);
    let part = items.get(range).unwrap_or_default().to_vec();
    call.charge(part.len() * COPY)?;
    Ok(match &value {
        Value::List(whole) => Value::List(List::with_elem(whole.elem(), part)),
        _ => Value::Bytes(
            part.iter()
                .filter_map(|v| if let Value::Uint8(b) = v { Some(*b) } else { None })
                .collect::<Vec<u8>>()
                .into(),
        ),
    })
}

pub(super) fn concat(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut all = Vec::new();
    for value in args {
        match value {
            Value::List(list) => {
                call.charge(list.len() * COPY)?;
                all.extend(list.to_vec());
            }
            Value::Bytes(_) => all.extend(elements(value, "")?),
            Value::Nil => return Err(super::arguments::nil_pointer()),
            other => {
                return Err(FuncError::new(format!("Cannot concat type {} as list", other.kind().name())));
            }
        }
    }
    call.charge(all.len() * ITEM)?;
    if all.is_empty() { nil_list() } else { list(all) }
}

pub(super) fn chunk(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let size = int(args, 0);
    let items = elements(&any(args, 1), "chunk")?;
    call.charge(items.len() * COPY)?;
    let Some(size) = usize::try_from(size).ok().filter(|s| *s > 0) else {
        return Err(FuncError::new("runtime error: makeslice: len out of range"));
    };
    call.charge(items.len().div_ceil(size) * TEXT)?;
    let chunks = items.chunks(size).map(|part| Value::List(List::new(part.to_vec()))).collect();
    Ok(Value::List(List::with_elem(Elem::List, chunks)))
}

pub(super) fn sort_alpha(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let value = any(args, 0);
    match &value {
        Value::Bytes(_) => {
            let mut sorted = strings(call, &value)?;
            sorted.sort_unstable();
            Ok(Value::List(List::strings(sorted)))
        }
        Value::List(items) => {
            let mut sorted = strings(call, &value)?;
            sorted.sort_unstable();
            let sorted: Vec<Value> = sorted.into_iter().map(Value::String).collect();
            if items.elem() == Elem::String {
                // Go sorts a []string where it lies.
                items.replace(sorted);
                return Ok(value);
            }
            Ok(Value::List(List::with_elem(Elem::String, sorted)))
        }
        other => Ok(Value::List(List::strings([strval(call, other)?]))),
    }
}

/// Reads `text` at `index` out of arguments for the functions that count up.
pub(super) fn until(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let count = int(args, 0);
    steps(call, 0, count, if count < 0 { -1 } else { 1 }).map(int_list)
}

pub(super) fn until_step(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    steps(call, int(args, 0), int(args, 1), int(args, 2)).map(int_list)
}

fn int_list(numbers: Vec<i64>) -> Value {
    Value::List(List::with_elem(Elem::Int, numbers.into_iter().map(Value::Int).collect()))
}

fn steps(call: &mut Call<'_, '_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, FuncError> {
    if stop < start && step >= 0 || stop >= start && step <= 0 {
        return Ok(Vec::new());
    }
    let count = start.abs_diff(stop).div_ceil(step.unsigned_abs());
    let size = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(ITEM);
    call.charge(size)?;
    call.steps(count)?;
    let mut numbers = Vec::new();
    let mut next = Some(start);
    for _ in 0..count {
        let Some(number) = next else { break };
        numbers.push(number);
        next = number.checked_add(step);
    }
    Ok(numbers)
}

pub(super) fn seq(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let numbers = match args.len() {
        1 => {
            let end = int(args, 0);
            let step = if end < 1 { -1 } else { 1 };
            steps(call, 1, end.saturating_add(step), step)?
        }
        2 => {
            let (start, end) = (int(args, 0), int(args, 1));
            let step = if end < start { -1 } else { 1 };
            steps(call, start, end.saturating_add(step), step)?
        }
        3 => {
            let (start, step, end) = (int(args, 0), int(args, 1), int(args, 2));
            if end < start && step > 0 {
                return super::arguments::string("");
            }
            steps(call, start, end.saturating_add(if end < start { -1 } else { 1 }), step)?
        }
        _ => Vec::new(),
    };
    call.charge(numbers.len() * TEXT)?;
    let parts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    super::arguments::string(parts.join(" "))
}

/// The text of argument `index` when it is a string, for lists of names.
pub(super) fn names(args: &[Value], from: usize) -> Vec<Str> {
    (from..args.len()).map(|index| text(args, index)).collect()
}
