//! `include`, `tpl`, `required`, `fail` and `lookup`: the functions that Helm binds to a render.

use convoy_gotemplate::{Call, FuncError, Map, Str, Value, parse, quote};

use super::arguments::{Outcome, any, string, text};
use super::strings::replace_all;
use super::{context, functions_of};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

// Helm's bound on how often one name may be on the way at a time.
const MAX_INCLUDES: u32 = 1_000;
/// Texts of `tpl` that are kept parsed.
const MAX_PARSED: usize = 1_000;
/// Bytes of a parsed template for each byte of an action, at most.
const TREE: usize = 40;

pub(super) fn include(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let name = text(args, 0);
    let state = context(call)?;
    let depth = state.includes.entry(name.clone()).or_insert(0);
    if *depth > MAX_INCLUDES {
        return Err(FuncError::new(format!(
            "rendering template has a nested reference name: {name}: unable to execute template"
        )));
    }
    *depth += 1;
    let output = call.execute(&name, &any(args, 1));
    if let Some(depth) = context(call)?.includes.get_mut(&name) {
        *depth -= 1;
    }
    string(output?)
}

pub(super) fn tpl(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let source = text(args, 0);
    // Text without an action is its own output.
    if memchr::memmem::find(&source, b"{{").is_none() {
        return string(without_no_value(&source));
    }
    let known = context(call)?.parsed.get(&source).cloned();
    let parsed = match known {
        Some(parsed) => parsed,
        None => {
            // Its tree is larger than the text.
            call.charge(source.len() + actions(&source).saturating_mul(TREE))?;
            let functions = functions_of(context(call)?.helm);
            let parsed = parse("gotpl", &source, functions).map_err(|error| {
                FuncError::new(format!("cannot parse template {}: {error}", quoted(&source)))
            })?;
            let known = &mut context(call)?.parsed;
            if known.len() >= MAX_PARSED {
                known.clear();
            }
            known.insert(source.clone(), parsed.clone());
            parsed
        }
    };
    let output = call.execute_parsed(&parsed, &any(args, 1)).map_err(|error| {
        error.wrap(|error| format!("error during tpl function execution for {}: {error}", quoted(&source)))
    })?;
    string(without_no_value(&output))
}

/// Bytes that stand between `{{` and `}}`, about.
fn actions(source: &[u8]) -> usize {
    let mut rest = source;
    let mut bytes = 0;
    while let Some(at) = memchr::memmem::find(rest, b"{{") {
        rest = rest.get(at..).unwrap_or_default();
        let end = memchr::memmem::find(rest, b"}}").map_or(rest.len(), |end| end + 2);
        bytes += end;
        rest = rest.get(end..).unwrap_or_default();
    }
    bytes
}

fn quoted(text: &[u8]) -> String {
    String::from_utf8_lossy(&quote(text)).into_owned()
}

/// Helm takes away what text/template prints for a missing value.
pub fn without_no_value(output: &[u8]) -> Str {
    const NO_VALUE: &[u8] = b"<no value>";
    if memchr::memmem::find(output, NO_VALUE).is_none() {
        return Str::from(output);
    }
    Str::from(replace_all(output, NO_VALUE, b""))
}

fn warning(message: &str) -> FuncError {
    // Helm finds its own messages again by these marks and prints them without the place.
    FuncError::new(format!("HELM_ERR_START{message}HELM_ERR_END"))
}

pub(super) fn required(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let value = any(args, 1);
    let missing = match &value {
        Value::Nil => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if missing { missed(call, args) } else { Ok(value) }
}

pub(super) fn fail(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    missed(call, args)
}

fn missed(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    if context(call).is_ok_and(|environment| environment.lints) {
        return string("");
    }
    Err(warning(&text(args, 0).to_text()))
}

// There is no cluster to look into: Helm gives an empty map then.
pub(super) fn lookup(_: Ctx<'_, '_, '_>, _: &[Value]) -> Outcome {
    Ok(Value::Map(Map::default()))
}

pub(super) fn get_host_by_name(_: Ctx<'_, '_, '_>, _: &[Value]) -> Outcome {
    string("")
}

pub(super) fn hello(_: Ctx<'_, '_, '_>, _: &[Value]) -> Outcome {
    string("Hello!")
}
