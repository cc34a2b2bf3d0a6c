//! Regular expressions in Go's syntax, run by the regex crate, which has RE2's guarantees too.

use std::collections::HashMap;
use std::rc::Rc;

use convoy_gotemplate::{Call, FuncError, Limit, List, Str, Value};
use regex::bytes::Regex;

use super::arguments::{Outcome, TEXT, int, string, text};
use super::context;
use super::regex_syntax::translate;

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

/// Sizes of compiled patterns as powers of two: a pattern is of the first that it fits in, and of none when it is
/// too large.
const SIZES: std::ops::RangeInclusive<u32> = 10..=21;
/// About the bytes of one state of a compiled pattern.
const STATE: usize = 32;
/// What a search may keep of what it found out, for one pattern.
const CACHE: usize = 1 << 18;
/// Most bytes of compiled patterns that are kept for a render.
const KEPT: usize = 8 << 20;
/// At worst a search looks at each state for each byte, and nothing can stop it meanwhile.
const MOST_WORK: usize = 1 << 25;

/// A compiled pattern.
#[derive(Clone, Debug)]
struct Pattern {
    regex: Rc<Regex>,
    size: usize,
}

/// The patterns that a render used last.
#[derive(Debug, Default)]
pub(super) struct Known {
    patterns: HashMap<Str, Pattern>,
    bytes: usize,
}

fn compile(call: &mut Call<'_, '_>, pattern: &Str, subject: &Str) -> Result<Rc<Regex>, FuncError> {
    let known = context(call)?.regexes.patterns.get(pattern).cloned();
    let found = match known {
        Some(known) => known,
        None => {
            let (regex, size) = compile_sized(&pattern.to_text()).map_err(FuncError::new)?;
            call.charge(size)?;
            let found = Pattern { regex: Rc::new(regex), size };
            let all = &mut context(call)?.regexes;
            all.bytes += size + CACHE;
            if all.bytes > KEPT {
                *all = Known { bytes: size + CACHE, ..Known::default() };
            }
            all.patterns.insert(pattern.clone(), found.clone());
            found
        }
    };
    let work = subject.len().saturating_mul(found.size / STATE);
    if work > MOST_WORK {
        return Err(FuncError::limit(Limit::Regex));
    }
    call.steps(work as u64 / 1024)?;
    Ok(found.regex)
}

fn compile_sized(pattern: &str) -> Result<(Regex, usize), String> {
    let source = translate(pattern).map_err(|error| format!("error parsing regexp: {error}"))?;
    for size in SIZES.map(|power| 1 << power) {
        let builder = regex::bytes::RegexBuilder::new(&source).size_limit(size).dfa_size_limit(CACHE).build();
        match builder {
            Ok(regex) => return Ok((regex, size)),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => break,
        }
    }
    Err(format!("error parsing regexp: expression too large or not supported: `{pattern}`"))
}

/// A pattern in Go's syntax.
#[derive(Clone, Debug)]
pub(crate) struct SizedRegex {
    regex: Regex,
    /// Bytes that it takes at most.
    pub(crate) size: usize,
}

impl SizedRegex {
    /// What a search in a text of so many bytes takes at most, in looks at a state.
    pub(crate) fn work(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.size / STATE)
    }

    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }
}

/// A pattern in Go's syntax.
///
/// # Errors
/// Go's text.
pub(crate) fn compile_pattern(pattern: &str) -> Result<SizedRegex, String> {
    compile_sized(pattern).map(|(regex, size)| SizedRegex { regex, size })
}

fn compiled(call: &mut Call<'_, '_>, args: &[Value], must: bool) -> Result<Rc<Regex>, FuncError> {
    let pattern = text(args, 0);
    // Go's MustCompile panics with a text of its own.
    compile(call, &pattern, &text(args, 1)).map_err(|error| {
        if must || error.reached_limit().is_some() {
            error
        } else {
            let quoted = if pattern.contains(&b'`') {
                String::from_utf8_lossy(&convoy_gotemplate::quote(&pattern)).into_owned()
            } else {
                format!("`{pattern}`")
            };
            error.wrap(|text| format!("regexp: Compile({quoted}): {text}"))
        }
    })
}

pub(super) fn matches(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(match compile(call, &text(args, 0), &text(args, 1)) {
        Err(error) if error.reached_limit().is_some() => return Err(error),
        regex => regex.is_ok_and(|regex| regex.is_match(&text(args, 1))),
    }))
}

pub(super) fn must_match(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(compile(call, &text(args, 0), &text(args, 1))?.is_match(&text(args, 1))))
}

fn found(call: &mut Call<'_, '_>, args: &[Value], must: bool) -> Outcome {
    let regex = compiled(call, args, must)?;
    let subject = text(args, 1);
    string(regex.find(&subject).map(|m| m.as_bytes()).unwrap_or_default())
}

pub(super) fn find(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    found(call, args, false)
}

pub(super) fn must_find(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    found(call, args, true)
}

// Go finds nothing inside a rune; the regex crate, which looks at bytes, finds empty matches there.
fn at_rune(subject: &[u8], found: &regex::bytes::Match<'_>) -> bool {
    let start = found.start();
    if !found.is_empty() || subject.get(start).is_none_or(|b| b & 0xC0 != 0x80) {
        return true;
    }
    (1..4).all(|back| {
        let Some(from) = start.checked_sub(back) else { return true };
        let width =
            subject.get(from..).and_then(convoy_gotemplate::decode_rune).map_or(1, |(_, width)| width);
        width <= back
    })
}

fn limit(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn found_all(call: &mut Call<'_, '_>, args: &[Value], must: bool) -> Outcome {
    let regex = compiled(call, args, must)?;
    let subject = text(args, 1);
    let mut all: Vec<Str> = Vec::new();
    let found = regex.find_iter(&subject).filter(|m| at_rune(&subject, m)).take(limit(int(args, 2)));
    for found in found {
        call.charge(TEXT + found.len())?;
        all.push(found.as_bytes().into());
    }
    Ok(Value::List(if all.is_empty() {
        List::nil(convoy_gotemplate::Elem::String)
    } else {
        List::strings(all)
    }))
}

pub(super) fn find_all(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    found_all(call, args, false)
}

pub(super) fn must_find_all(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    found_all(call, args, true)
}

fn replaced(call: &mut Call<'_, '_>, args: &[Value], must: bool, literal: bool) -> Outcome {
    let regex = compiled(call, args, must)?;
    let (subject, template) = (text(args, 1), text(args, 2));
    let mut out = Vec::with_capacity(subject.len());
    let mut done = 0;
    for captures in regex.captures_iter(&subject) {
        let Some(whole) = captures.get(0).filter(|m| at_rune(&subject, m)) else { continue };
        out.extend_from_slice(subject.get(done..whole.start()).unwrap_or_default());
        if literal {
            out.extend_from_slice(&template);
        } else {
            expand(&mut out, &template, &captures);
        }
        done = whole.end();
        call.check_text(out.len())?;
        call.steps(1)?;
    }
    out.extend_from_slice(subject.get(done..).unwrap_or_default());
    string(out)
}

// Go's `Expand`: `$1`, `$name`, `${name}`; the longest name counts, `$$` is a dollar.
fn expand(out: &mut Vec<u8>, template: &[u8], captures: &regex::bytes::Captures<'_>) {
    let mut rest = template;
    while let Some(dollar) = memchr::memchr(b'$', rest) {
        out.extend_from_slice(rest.get(..dollar).unwrap_or_default());
        rest = rest.get(dollar + 1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix(b"$") {
            out.push(b'$');
            rest = after;
            continue;
        }
        let braced = rest.strip_prefix(b"{");
        let body = braced.unwrap_or(rest);
        let mut end = 0;
        while let Some((rune, width)) = body.get(end..).and_then(convoy_gotemplate::decode_rune) {
            if rune != '_' && !convoy_gotemplate::is_letter(rune) && !convoy_gotemplate::is_digit(rune) {
                break;
            }
            end += width;
        }
        let (name, after) = body.split_at_checked(end).unwrap_or((body, &[]));
        let after = match braced {
            Some(_) => after.strip_prefix(b"}"),
            None => Some(after),
        };
        let Some(after) = after.filter(|_| !name.is_empty()) else {
            out.push(b'$');
            continue;
        };
        let name = String::from_utf8_lossy(name);
        let group = match name.parse::<usize>() {
            Ok(number) if name.len() == 1 || !name.starts_with('0') => captures.get(number),
            _ => captures.name(&name),
        };
        out.extend_from_slice(group.map(|m| m.as_bytes()).unwrap_or_default());
        rest = after;
    }
    out.extend_from_slice(rest);
}

pub(super) fn replace_all(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    replaced(call, args, false, false)
}

pub(super) fn must_replace_all(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    replaced(call, args, true, false)
}

pub(super) fn replace_all_literal(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    replaced(call, args, false, true)
}

pub(super) fn must_replace_all_literal(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    replaced(call, args, true, true)
}

fn split_by(call: &mut Call<'_, '_>, args: &[Value], must: bool) -> Outcome {
    let regex = compiled(call, args, must)?;
    let (subject, count) = (text(args, 1), int(args, 2));
    if count == 0 {
        return Ok(Value::List(List::nil(convoy_gotemplate::Elem::String)));
    }
    let empty_pattern = text(args, 0).is_empty();
    if subject.is_empty() && !empty_pattern {
        return Ok(Value::List(List::strings([""])));
    }
    let mut parts: Vec<Str> = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for found in regex.find_iter(&subject).filter(|m| at_rune(&subject, m)).take(limit(count)) {
        if count > 0 && parts.len() + 1 == limit(count) {
            break;
        }
        end = found.start();
        call.charge(TEXT + end.saturating_sub(begin))?;
        if found.end() != 0 {
            parts.push(subject.get(begin..end).unwrap_or_default().into());
        }
        begin = found.end();
    }
    if end != subject.len() {
        parts.push(subject.get(begin..).unwrap_or_default().into());
    }
    Ok(Value::List(List::strings(parts)))
}

pub(super) fn split(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    split_by(call, args, false)
}

pub(super) fn must_split(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    split_by(call, args, true)
}

pub(super) fn quote_meta(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut out = Vec::new();
    for byte in text(args, 0).iter() {
        if br"\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    string(out)
}
