//! Defaults, choices and what a value is.

use convoy_gotemplate::{Call, Value};

use super::arguments::{Outcome, any, boolean, string, text};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

pub(super) fn default(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(match args.get(1) {
        Some(given) if given.truth() => given.clone(),
        _ => any(args, 0),
    })
}

pub(super) fn empty(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(!any(args, 0).truth()))
}

pub(super) fn coalesce(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(args.iter().find(|value| value.truth()).cloned().unwrap_or_default())
}

pub(super) fn all(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(args.iter().all(Value::truth)))
}

pub(super) fn some(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(args.iter().any(Value::truth)))
}

pub(super) fn ternary(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(any(args, if boolean(args, 2) { 0 } else { 1 }))
}

pub(super) fn type_of(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(any(args, 0).type_name())
}

pub(super) fn type_is(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(any(args, 1).type_name().as_bytes() == &text(args, 0)[..]))
}

pub(super) fn type_is_like(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let value = any(args, 1);
    let name = value.type_name();
    let wanted = text(args, 0);
    Ok(Value::Bool(
        name.as_bytes() == &wanted[..] || name.strip_prefix('*').is_some_and(|n| n.as_bytes() == &wanted[..]),
    ))
}

pub(super) fn kind_of(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(any(args, 0).kind().name())
}

pub(super) fn kind_is(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(any(args, 1).kind().name().as_bytes() == &text(args, 0)[..]))
}
