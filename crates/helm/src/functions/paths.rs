//! Slash-separated paths, as Go's path package takes them apart.

use convoy_gotemplate::{Call, Value};

use super::arguments::{Outcome, string, text};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

/// Go's `path.Clean`.
pub fn clean(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return b".".to_vec();
    }
    let rooted = path.first() == Some(&b'/');
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match kept.last() {
                Some(last) if *last != b".." => {
                    kept.pop();
                }
                _ if rooted => {}
                _ => kept.push(part),
            },
            _ => kept.push(part),
        }
    }
    let joined = kept.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", &joined[..]].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

pub(super) fn clean_function(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(clean(&text(args, 0)))
}

pub(super) fn base(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let path = text(args, 0);
    if path.is_empty() {
        return string(".");
    }
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let trimmed = path.get(..end).unwrap_or_default();
    let last = trimmed.rsplit(|b| *b == b'/').next().unwrap_or_default();
    string(if last.is_empty() { b"/" } else { last })
}

pub(super) fn dir(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let path = text(args, 0);
    let end = memchr::memrchr(b'/', &path).map_or(0, |at| at + 1);
    string(clean(path.get(..end).unwrap_or_default()))
}

pub(super) fn ext(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let path = text(args, 0);
    let last = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    string(memchr::memrchr(b'.', last).and_then(|at| last.get(at..)).unwrap_or_default())
}

pub(super) fn is_abs(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(text(args, 0).first() == Some(&b'/')))
}
