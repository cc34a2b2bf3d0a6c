//! Functions on strings. Positions and lengths are bytes, as in Go.

use std::collections::BTreeMap;

use convoy_gotemplate::{
    Call, Elem, FuncError, List, Map, Str, Value, decode_rune, is_digit, is_letter, runes,
};
use memchr::memmem;

use super::arguments::{ENTRY, Outcome, TEXT, int, string, text};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

/// Go's `unicode.IsSpace`.
pub(super) fn is_space(rune: char) -> bool {
    rune.is_whitespace()
}

/// Go's `strings.TrimSpace`.
pub(super) fn trim_space(text: &[u8]) -> &[u8] {
    let text = trim_start(text, is_space);
    trim_end(text, is_space)
}

fn trim_start(mut text: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    while let Some((rune, width)) = decode_rune(text) {
        if !cut(rune) {
            break;
        }
        text = text.get(width..).unwrap_or_default();
    }
    text
}

fn trim_end(mut text: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    while !text.is_empty() {
        let mut start = text.len() - 1;
        while start > 0 && text.len() - start < 4 && text.get(start).is_some_and(|b| b & 0xC0 == 0x80) {
            start -= 1;
        }
        let tail = text.get(start..).unwrap_or_default();
        let (rune, start) = match decode_rune(tail) {
            Some((rune, width)) if width == tail.len() => (rune, start),
            _ => ('\u{FFFD}', text.len() - 1),
        };
        if !cut(rune) {
            break;
        }
        text = text.get(..start).unwrap_or_default();
    }
    text
}

pub(super) fn trim(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(trim_space(&text(args, 0)))
}

pub(super) fn trim_all(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let cutset: Vec<char> = runes(&text(args, 0)).collect();
    let subject = text(args, 1);
    string(trim_end(trim_start(&subject, |r| cutset.contains(&r)), |r| cutset.contains(&r)))
}

pub(super) fn trim_suffix(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let subject = text(args, 1);
    string(subject.strip_suffix(&text(args, 0)[..]).unwrap_or(&subject))
}

pub(super) fn trim_prefix(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let subject = text(args, 1);
    string(subject.strip_prefix(&text(args, 0)[..]).unwrap_or(&subject))
}

/// Go's `unicode.ToUpper` of one rune: only what maps to one rune maps at all.
pub(super) fn upper_rune(rune: char) -> char {
    let mut mapped = rune.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(upper), None) => upper,
        _ => rune,
    }
}

/// Go's `unicode.ToLower` of one rune.
pub(super) fn lower_rune(rune: char) -> char {
    if rune == '\u{130}' {
        return 'i';
    }
    let mut mapped = rune.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(lower), None) => lower,
        _ => rune,
    }
}

/// Go's `unicode.ToTitle` of one rune.
pub(super) fn title_rune(rune: char) -> char {
    match rune {
        '\u{1C4}'..='\u{1C6}' => '\u{1C5}',
        '\u{1C7}'..='\u{1C9}' => '\u{1C8}',
        '\u{1CA}'..='\u{1CC}' => '\u{1CB}',
        '\u{1F1}'..='\u{1F3}' => '\u{1F2}',
        _ => upper_rune(rune),
    }
}

fn map_runes(text: &[u8], map: impl Fn(char) -> char) -> String {
    runes(text).map(map).collect()
}

pub(super) fn upper(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let subject = text(args, 0);
    if subject.is_ascii() {
        string(subject.to_ascii_uppercase())
    } else {
        string(map_runes(&subject, upper_rune))
    }
}

pub(super) fn lower(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let subject = text(args, 0);
    if subject.is_ascii() {
        string(subject.to_ascii_lowercase())
    } else {
        string(map_runes(&subject, lower_rune))
    }
}

// Go's strings.Title: the first letter of each word, where letters, digits and underscores make words.
pub(super) fn title(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut previous = ' ';
    string(
        runes(&text(args, 0))
            .map(|rune| {
                let starts = separates(previous);
                previous = rune;
                if starts { title_rune(rune) } else { rune }
            })
            .collect::<String>(),
    )
}

fn separates(rune: char) -> bool {
    if rune.is_ascii() {
        return !(rune.is_ascii_alphanumeric() || rune == '_');
    }
    !is_letter(rune) && !is_digit(rune) && is_space(rune)
}

pub(super) fn untitle(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut first = true;
    string(
        runes(&text(args, 0))
            .map(|rune| {
                if is_space(rune) {
                    first = true;
                    return rune;
                }
                if std::mem::take(&mut first) { lower_rune(rune) } else { rune }
            })
            .collect::<String>(),
    )
}

pub(super) fn swapcase(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut after_space = true;
    string(
        runes(&text(args, 0))
            .map(|rune| {
                let title_case =
                    title_rune(rune) == rune && lower_rune(rune) != rune && upper_rune(rune) != rune;
                if rune.is_uppercase() || title_case {
                    after_space = false;
                    lower_rune(rune)
                } else if rune.is_lowercase() {
                    if std::mem::take(&mut after_space) { title_rune(rune) } else { upper_rune(rune) }
                } else {
                    after_space = is_space(rune);
                    rune
                }
            })
            .collect::<String>(),
    )
}

// The library behind these two looks at bytes as if each were a rune.
fn latin1(text: &[u8]) -> impl Iterator<Item = char> + '_ {
    text.iter().map(|b| *b as char)
}

pub(super) fn initials(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut gap = true;
    let mut out = String::new();
    for rune in latin1(&text(args, 0)) {
        if is_space(rune) {
            gap = true;
        } else if std::mem::take(&mut gap) {
            out.push(rune);
        }
    }
    string(out)
}

pub(super) fn nospace(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let subject = text(args, 0);
    if !latin1(&subject).any(is_space) {
        return string(subject);
    }
    string(latin1(&subject).filter(|r| !is_space(*r)).collect::<String>())
}

// A byte range of Go: out of it is Go's panic.
fn part(subject: &[u8], from: i64, to: i64) -> Result<&[u8], FuncError> {
    let length = i64::try_from(subject.len()).unwrap_or(i64::MAX);
    if to < 0 || to > length {
        let to_text = if to < 0 { format!("[:{to}]") } else { format!("[:{to}] with length {length}") };
        return Err(FuncError::new(format!("runtime error: slice bounds out of range {to_text}")));
    }
    if from < 0 {
        return Err(FuncError::new(format!("runtime error: slice bounds out of range [{from}:]")));
    }
    if from > to {
        return Err(FuncError::new(format!("runtime error: slice bounds out of range [{from}:{to}]")));
    }
    let range = usize::try_from(from).unwrap_or(0)..usize::try_from(to).unwrap_or(0);
    Ok(subject.get(range).unwrap_or_default())
}

pub(super) fn substr(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let (start, end, subject) = (int(args, 0), int(args, 1), text(args, 2));
    let length = i64::try_from(subject.len()).unwrap_or(i64::MAX);
    if start < 0 {
        return string(part(&subject, 0, end)?);
    }
    if end < 0 || end > length {
        if start > length {
            return Err(FuncError::new(format!(
                "runtime error: slice bounds out of range [{start}:{length}]"
            )));
        }
        return string(part(&subject, start, length)?);
    }
    string(part(&subject, start, end)?)
}

pub(super) fn trunc(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let (count, subject) = (int(args, 0), text(args, 1));
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    string(if count < 0 && subject.len() > size {
        subject.get(subject.len() - size..).unwrap_or_default()
    } else if count >= 0 && subject.len() > size {
        subject.get(..size).unwrap_or_default()
    } else {
        &subject
    })
}

pub(super) fn abbrev(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let (width, subject) = (int(args, 0), text(args, 1));
    if width < 4 {
        return string(subject);
    }
    string(abbreviate(&subject, 0, width))
}

pub(super) fn abbrevboth(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let (left, right, subject) = (int(args, 0), int(args, 1), text(args, 2));
    if right < 4 || left > 0 && right < 7 {
        return string(subject);
    }
    string(abbreviate(&subject, left, right))
}

fn abbreviate(subject: &[u8], offset: i64, width: i64) -> Vec<u8> {
    let length = i64::try_from(subject.len()).unwrap_or(i64::MAX);
    if width < 4 {
        return Vec::new();
    }
    if length <= width {
        return subject.to_vec();
    }
    let cut = |from: i64, to: i64| part(subject, from, to).unwrap_or_default();
    let mut offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    if offset <= 4 {
        return [cut(0, width - 3), b"..."].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if offset + width - 3 < length {
        return [&b"..."[..], &abbreviate(cut(offset, length), 0, width - 3)].concat();
    }
    [b"...", cut(length - (width - 3), length)].concat()
}

pub(super) fn repeat(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let (count, subject) = (int(args, 0), text(args, 1));
    let count = usize::try_from(count).map_err(|_| FuncError::new("strings: negative Repeat count"))?;
    let size = subject
        .len()
        .checked_mul(count)
        .ok_or_else(|| FuncError::new("strings: Repeat output length overflow"))?;
    call.check_text(size)?;
    string(subject.repeat(count))
}

pub(super) fn replace_all(subject: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    if old.is_empty() {
        // Before every rune, and at the end.
        let mut out = Vec::with_capacity(subject.len() + new.len());
        let mut rest = subject;
        out.extend_from_slice(new);
        while let Some((_, width)) = decode_rune(rest) {
            let (head, tail) = rest.split_at_checked(width).unwrap_or((rest, &[]));
            out.extend_from_slice(head);
            out.extend_from_slice(new);
            rest = tail;
        }
        return out;
    }
    let mut out = Vec::with_capacity(subject.len());
    let mut done = 0;
    for found in memmem::find_iter(subject, old) {
        out.extend_from_slice(subject.get(done..found).unwrap_or_default());
        out.extend_from_slice(new);
        done = found + old.len();
    }
    out.extend_from_slice(subject.get(done..).unwrap_or_default());
    out
}

pub(super) fn replace(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let (old, new, subject) = (text(args, 0), text(args, 1), text(args, 2));
    let times =
        if old.is_empty() { subject.len() + 1 } else { memmem::find_iter(&subject, &old[..]).count() };
    if times == 0 {
        return string(subject);
    }
    call.check_text(new.len().saturating_mul(times).saturating_add(subject.len()))?;
    string(replace_all(&subject, &old, &new))
}

/// Sprig's `indent`.
pub(super) fn indented(call: &mut Call<'_, '_>, spaces: i64, subject: &[u8]) -> Result<Vec<u8>, FuncError> {
    let spaces = usize::try_from(spaces).map_err(|_| FuncError::new("strings: negative Repeat count"))?;
    let lines = memchr::memchr_iter(b'\n', subject).count() + 1;
    let size = spaces.saturating_mul(lines).saturating_add(subject.len());
    call.check_text(size)?;
    let mut out = Vec::with_capacity(size + 1);
    for line in subject.split_inclusive(|b| *b == b'\n') {
        out.resize(out.len() + spaces, b' ');
        out.extend_from_slice(line);
    }
    if subject.is_empty() || subject.last() == Some(&b'\n') {
        out.resize(out.len() + spaces, b' ');
    }
    Ok(out)
}

pub(super) fn indent(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(indented(call, int(args, 0), &text(args, 1))?)
}

pub(super) fn nindent(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut out = indented(call, int(args, 0), &text(args, 1))?;
    out.insert(0, b'\n');
    string(out)
}

pub(super) fn contains(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(memmem::find(&text(args, 1), &text(args, 0)[..]).is_some()))
}

pub(super) fn has_prefix(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(text(args, 1).starts_with(&text(args, 0))))
}

pub(super) fn has_suffix(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(text(args, 1).ends_with(&text(args, 0))))
}

pub(super) fn plural(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(if int(args, 2) == 1 { text(args, 0) } else { text(args, 1) })
}

/// What the parts of a text take at most, before they are made.
fn charge_parts(
    call: &mut Call<'_, '_>,
    subject: &[u8],
    separator: &[u8],
    each: usize,
) -> Result<(), FuncError> {
    let most =
        if separator.is_empty() { subject.len() } else { memmem::find_iter(subject, separator).count() + 1 };
    call.charge(most.saturating_mul(each).saturating_add(subject.len()))
}

/// Go's `strings.SplitN`.
fn split_n(subject: &[u8], separator: &[u8], count: i64) -> Vec<Str> {
    if count == 0 {
        return Vec::new();
    }
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut rest = subject;
    if separator.is_empty() {
        while let Some((_, width)) = decode_rune(rest) {
            if parts.len() + 1 >= most {
                parts.push(Str::from(rest));
                return parts;
            }
            let (head, tail) = rest.split_at_checked(width).unwrap_or((rest, &[]));
            parts.push(Str::from(head));
            rest = tail;
        }
        return parts;
    }
    while parts.len() + 1 < most
        && let Some(found) = memmem::find(rest, separator)
    {
        parts.push(Str::from(rest.get(..found).unwrap_or_default()));
        rest = rest.get(found + separator.len()..).unwrap_or_default();
    }
    parts.push(Str::from(rest));
    parts
}

pub(super) fn split_list(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    charge_parts(call, &text(args, 1), &text(args, 0), TEXT)?;
    let parts = split_n(&text(args, 1), &text(args, 0), -1);
    Ok(Value::List(List::strings(parts)))
}

fn numbered(parts: Vec<Str>) -> Outcome {
    let entries: BTreeMap<Str, Value> = parts
        .into_iter()
        .enumerate()
        .map(|(i, part)| (Str::from(format!("_{i}")), Value::String(part)))
        .collect();
    Ok(Value::Map(Map::with_elem(Elem::String, entries)))
}

pub(super) fn split(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    charge_parts(call, &text(args, 1), &text(args, 0), TEXT + ENTRY)?;
    let parts = split_n(&text(args, 1), &text(args, 0), -1);
    numbered(parts)
}

pub(super) fn splitn(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    charge_parts(call, &text(args, 2), &text(args, 0), TEXT + ENTRY)?;
    let parts = split_n(&text(args, 2), &text(args, 0), int(args, 1));
    numbered(parts)
}

pub(super) fn wrap(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let wrapped = wrapped(&text(args, 1), int(args, 0), b"\n", false);
    call.charge(wrapped.len())?;
    string(wrapped)
}

pub(super) fn wrap_with(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let (separator, subject) = (text(args, 1), text(args, 2));
    let breaks = subject.len() / usize::try_from(int(args, 0).max(1)).unwrap_or(1);
    call.check_text(breaks.saturating_mul(separator.len()))?;
    let separator = if separator.is_empty() { b"\n" } else { &separator[..] };
    string(wrapped(&subject, int(args, 0), separator, true))
}

// Words are separated by spaces; a line holds `length` bytes; long words are cut or not.
fn wrapped(subject: &[u8], length: i64, separator: &[u8], cut_words: bool) -> Vec<u8> {
    let length = usize::try_from(length.max(1)).unwrap_or(usize::MAX);
    let mut out = Vec::with_capacity(subject.len());
    let mut rest = subject;
    while rest.len() > length {
        if rest.first() == Some(&b' ') {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        let window = rest.get(..length.saturating_add(1)).unwrap_or(rest);
        let (line, skip) = match memchr::memrchr(b' ', window) {
            Some(space) => (space, space + 1),
            None if cut_words => (length, length),
            None => match rest.get(length..).and_then(|tail| memchr::memchr(b' ', tail)) {
                Some(space) => (length + space, length + space + 1),
                None => break,
            },
        };
        out.extend_from_slice(rest.get(..line).unwrap_or_default());
        out.extend_from_slice(separator);
        rest = rest.get(skip..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}
