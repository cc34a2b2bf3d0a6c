//! The `--set` family: `a.b[0]=x,c={1,2}`, laid into values.

use crate::values::{Data, Values};
use convoy_gotemplate::{Str, quote};
use std::num::{IntErrorKind, ParseIntError};

const MAX_INDEX: i64 = 65_536;
const MAX_NESTING: usize = 30;

/// What is wrong with a `--set` argument; the texts are Helm's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The text ends inside a key.
    #[error("key {0} has no value")]
    NoValue(String),
    /// A key is followed by a comma.
    #[error("key {0} has no value (cannot end with ,)")]
    EndsWithComma(String),
    /// Nothing came of the keys below a key.
    #[error("key map {0} has no value")]
    EmptyMap(String),
    /// Too many dots.
    #[error("value name nested level is greater than maximum supported nested level of {MAX_NESTING}")]
    TooDeep,
    /// What stands between brackets is no number.
    #[error("error parsing index: {0}")]
    Index(String),
    /// An index below zero.
    #[error("negative {0} index not allowed")]
    NegativeIndex(i64),
    /// An index that would make a huge list.
    #[error("index of {0} is greater than maximum supported index of {MAX_INDEX}")]
    IndexTooLarge(i64),
    /// Text between a bracket and what may follow it.
    #[error("unexpected data at end of array index: {0}")]
    AfterIndex(String),
    /// A value of another kind stands where a map or list is wanted.
    #[error("unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}")]
    Conversion {
        /// Go's name of what stands there.
        found: &'static str,
        /// Go's name of what is wanted.
        wanted: &'static str,
    },
    /// No closing brace.
    #[error("list must terminate with '}}'")]
    OpenList,
    /// A value of `--set-json` is no JSON.
    #[error("invalid JSON value")]
    Json,
    /// A path that names no place.
    #[error("no path such as a.b[0].c: {0}")]
    NotAPath(&'static str),
    /// A file of `--set-file` cannot be read.
    #[error("{0}")]
    File(String),
}

/// What the values of an argument are.
pub(crate) enum Mode<'f> {
    /// `--set`: booleans, whole numbers and null are recognised.
    Typed,
    /// `--set-string`.
    Text,
    /// `--set-file`: names of files.
    File(&'f mut dyn FnMut(&str) -> Result<Vec<u8>, String>),
    /// `--set-json`.
    Json,
    /// `--set-literal`: everything after the equals sign.
    Literal,
}

/// Lays an argument into values.
///
/// # Errors
///
/// In Helm's words; what stands before the error may already be laid in, as in Helm.
pub(crate) fn set(text: &str, values: &mut Values, mode: Mode<'_>) -> Result<(), SetError> {
    let mut parser = Parser { rest: text, mode };
    while parser.key(values, 0)? {}
    Ok(())
}

/// Lays a text into values at a path such as `a.b[0].c`, as it is, whatever it holds. The path is that of `--set`: a
/// backslash takes the next character of a key as it is.
///
/// # Errors
///
/// When the path is none, or leads through what is no map or list. The values may be changed then.
pub fn set_text(path: &str, text: &str, values: &mut Values) -> Result<(), SetError> {
    check_path(path)?;
    let mut read = |_: &str| Ok(text.as_bytes().to_vec());
    set(&format!("{path}=x"), values, Mode::File(&mut read))
}

/// Whether a path names one place: other than in an argument of `--set` nothing may stand in it that Helm steps over.
fn check_path(path: &str) -> Result<(), SetError> {
    let mut part = String::new();
    // After an index there is no key.
    let mut may_end = false;
    let mut rest = path.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(next) => part.push(next),
                None => return Err(SetError::NotAPath("it ends with a backslash")),
            },
            '=' | ',' => return Err(SetError::NotAPath("a key holds = or ,; put a backslash before it")),
            '.' | '[' if part.is_empty() && !may_end => return Err(SetError::NotAPath("a key is empty")),
            '.' => {
                part.clear();
                may_end = false;
            }
            '[' => {
                let index = rest.as_str().split_once(']');
                let index = index.filter(|(index, _)| index.parse::<u32>().is_ok());
                let Some((_, after)) = index else { return Err(SetError::NotAPath("an index is no number")) };
                rest = after.chars();
                part.clear();
                may_end = true;
            }
            _ if may_end => return Err(SetError::NotAPath("after an index comes a dot or another index")),
            c => part.push(c),
        }
    }
    if part.is_empty() && !may_end {
        return Err(SetError::NotAPath("a key is empty"));
    }
    Ok(())
}

struct Parser<'t, 'f> {
    rest: &'t str,
    mode: Mode<'f>,
}

impl Parser<'_, '_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        Some(c)
    }

    /// Text up to one of the characters, and which; `None` at the end. A backslash takes the next character
    /// as it is.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let literal = matches!(self.mode, Mode::Literal);
        let mut text = String::new();
        loop {
            match self.next() {
                None => return (text, None),
                Some(c) if stops.contains(&c) => return (text, Some(c)),
                Some('\\') if !literal => match self.next() {
                    Some(c) => text.push(c),
                    None => return (text, None),
                },
                Some(c) => text.push(c),
            }
        }
    }

    /// One key with its value; false at the end of the text.
    fn key(&mut self, values: &mut Values, nesting: usize) -> Result<bool, SetError> {
        let literal = matches!(self.mode, Mode::Literal);
        let stops: &[char] = if literal { &['=', '[', '.'] } else { &['=', '[', ',', '.'] };
        let (key, stop) = self.until(stops);
        match stop {
            None if key.is_empty() => Ok(false),
            None => Err(SetError::NoValue(quoted(&key))),
            Some('[') => {
                let Some(index) = self.index()? else { return Ok(false) };
                let mut list = match values.get(key.as_bytes()) {
                    None => Vec::new(),
                    Some(Data::List(list)) => list.clone(),
                    Some(other) => return Err(conversion(other, "[]interface {}")),
                };
                let result = self.list_item(&mut list, index, nesting);
                insert(values, &key, Data::List(list));
                result
            }
            Some('=') => self.value_of(&key, values),
            Some(',') => {
                insert(values, &key, Data::String(Str::default()));
                Err(SetError::EndsWithComma(quoted(&key)))
            }
            Some(_) => {
                if nesting + 1 > MAX_NESTING {
                    return Err(SetError::TooDeep);
                }
                let is_there = values.contains_key(key.as_bytes());
                let mut inner = match values.remove(key.as_bytes()) {
                    None => Values::new(),
                    Some(Data::Map(inner)) => inner,
                    Some(other) => {
                        let error = conversion(&other, "map[string]interface {}");
                        insert(values, &key, other);
                        return Err(error);
                    }
                };
                let result = self.key(&mut inner, nesting + 1);
                if inner.is_empty() && matches!(result, Ok(true)) {
                    return Err(SetError::EmptyMap(quoted(&key)));
                }
                if !inner.is_empty() || is_there {
                    insert(values, &key, Data::Map(inner));
                }
                result
            }
        }
    }

    fn value_of(&mut self, key: &str, values: &mut Values) -> Result<bool, SetError> {
        if matches!(self.mode, Mode::Literal) {
            let text = std::mem::take(&mut self.rest);
            insert(values, key, Data::String(text.into()));
            return Ok(true);
        }
        let (value, more) = self.value()?;
        insert(values, key, value);
        Ok(more)
    }

    /// A value after its equals sign, and whether the text may go on.
    fn value(&mut self) -> Result<(Data, bool), SetError> {
        match &self.mode {
            Mode::Json => {
                if self.skip_to_next() {
                    return Ok((Data::Null, true));
                }
                let mut stream = serde_json::Deserializer::from_str(self.rest).into_iter();
                let value: serde_json::Value = match stream.next() {
                    Some(Ok(value)) => value,
                    _ => return Err(SetError::Json),
                };
                self.rest = self.rest.get(stream.byte_offset()..).unwrap_or_default();
                self.skip_to_next();
                Ok((Data::from(&value), true))
            }
            Mode::Literal => {
                let text = std::mem::take(&mut self.rest);
                Ok((Data::String(text.into()), true))
            }
            Mode::Typed | Mode::Text | Mode::File(_) => {
                if self.rest.is_empty() {
                    return Ok((Data::String(Str::default()), false));
                }
                if self.rest.starts_with('{') {
                    return Ok((self.list()?, true));
                }
                let (text, _) = self.until(&[',']);
                Ok((self.read(&text)?, true))
            }
        }
    }

    /// Steps over space and a comma; true when there is nothing else before one of them ends.
    fn skip_to_next(&mut self) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => {
                self.rest = after;
                true
            }
            None => {
                self.rest = rest;
                rest.is_empty()
            }
        }
    }

    fn list(&mut self) -> Result<Data, SetError> {
        self.next();
        let mut items = Vec::new();
        loop {
            let (text, stop) = self.until(&[',', '}']);
            match stop {
                None => return Err(SetError::OpenList),
                Some(stop) => {
                    if stop == '}' {
                        self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
                    }
                    items.push(self.read(&text)?);
                    if stop == '}' {
                        return Ok(Data::List(items));
                    }
                }
            }
        }
    }

    fn read(&mut self, text: &str) -> Result<Data, SetError> {
        match &mut self.mode {
            Mode::Typed => Ok(typed(text)),
            Mode::File(read) => Ok(Data::String(read(text).map_err(SetError::File)?.into())),
            Mode::Text | Mode::Json | Mode::Literal => Ok(Data::String(text.into())),
        }
    }

    /// The number before a closing bracket; `None` at the end of the text, which ends it without an error.
    fn index(&mut self) -> Result<Option<i64>, SetError> {
        let (text, stop) = self.until(&[']']);
        if stop.is_none() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|error: ParseIntError| {
            let problem = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            SetError::Index(format!("strconv.Atoi: parsing {}: {problem}", quoted(&text)))
        })
    }

    /// What follows an index; false at the end of the text.
    fn list_item(&mut self, list: &mut Vec<Data>, index: i64, nesting: usize) -> Result<bool, SetError> {
        if index < 0 {
            return Err(SetError::NegativeIndex(index));
        }
        let (text, stop) = self.until(&['[', '.', '=']);
        if !text.is_empty() {
            return Err(SetError::AfterIndex(quoted_runes(&text)));
        }
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match stop {
            None => Ok(false),
            Some('=') => {
                let (value, _) = self.value()?;
                *slot(list, index)? = value;
                Ok(true)
            }
            Some('[') => {
                let Some(next) = self.index()? else { return Ok(false) };
                let mut inner = match list.get(at) {
                    None | Some(Data::Null) => Vec::new(),
                    Some(Data::List(inner)) => inner.clone(),
                    Some(other) => return Err(conversion(other, "[]interface {}")),
                };
                let more = self.list_item(&mut inner, next, nesting)?;
                if more {
                    *slot(list, index)? = Data::List(inner);
                }
                Ok(more)
            }
            Some(_) => {
                if nesting > MAX_NESTING {
                    return Err(SetError::TooDeep);
                }
                let mut inner = match list.get(at) {
                    Some(Data::Map(inner)) => inner.clone(),
                    _ => Values::new(),
                };
                let more = self.key(&mut inner, nesting)?;
                if more {
                    *slot(list, index)? = Data::Map(inner);
                }
                Ok(more)
            }
        }
    }
}

fn slot(list: &mut Vec<Data>, index: i64) -> Result<&mut Data, SetError> {
    if index > MAX_INDEX {
        return Err(SetError::IndexTooLarge(index));
    }
    let at = usize::try_from(index).map_err(|_| SetError::NegativeIndex(index))?;
    if list.len() <= at {
        list.resize(at + 1, Data::Null);
    }
    list.get_mut(at).ok_or(SetError::IndexTooLarge(index))
}

fn insert(values: &mut Values, key: &str, value: Data) {
    if !key.is_empty() {
        values.insert(key.into(), value);
    }
}

fn quoted(text: &str) -> String {
    String::from_utf8_lossy(&quote(text.as_bytes())).into_owned()
}

/// Go's `%q` of a slice of characters.
fn quoted_runes(text: &str) -> String {
    let rune = |c: char| match c {
        '\'' => "'\\''".to_owned(),
        '"' => "'\"'".to_owned(),
        c => format!("'{}'", quoted(c.encode_utf8(&mut [0; 4])).trim_matches('"')),
    };
    format!("[{}]", text.chars().map(rune).collect::<Vec<_>>().join(" "))
}

fn conversion(found: &Data, wanted: &'static str) -> SetError {
    let found = match found {
        Data::Null => "nil",
        Data::Bool(_) => "bool",
        Data::Int(_) => "int64",
        Data::Float(_) => "float64",
        Data::String(_) => "string",
        Data::List(_) => "[]interface {}",
        Data::Map(_) => "map[string]interface {}",
    };
    SetError::Conversion { found, wanted }
}

fn typed(text: &str) -> Data {
    if text.eq_ignore_ascii_case("true") {
        return Data::Bool(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Data::Bool(false);
    }
    if text.eq_ignore_ascii_case("null") {
        return Data::Null;
    }
    // Leading zeros mean text: they are codes, not numbers.
    match text.parse() {
        Ok(number) if text == "0" || !text.starts_with('0') => Data::Int(number),
        _ => Data::String(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_laid_in_as_it_is() {
        let mut values = Values::from([("a".into(), Data::from(&json!({"b": 1, "l": [1]})))]);
        for (path, text) in [
            ("a.c", "x,y=z\n: {no yaml"),
            ("a.l[2].k", "true"),
            ("m[1][0]", "5"),
            (r"labels.example\.com/a", "v"),
            (r"odd\=\,\[x", "w"),
            ("empty", ""),
        ] {
            set_text(path, text, &mut values).unwrap();
        }
        let want = json!({
            "a": {"b": 1, "c": "x,y=z\n: {no yaml", "l": [1, null, {"k": "true"}]},
            "m": [null, ["5"]], "labels": {"example.com/a": "v"}, "odd=,[x": "w", "empty": "",
        });
        assert_eq!(Data::Map(values), Data::from(&want));
    }

    #[test]
    fn a_path_names_one_place() {
        for path in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a=b",
            "a,b",
            "a[",
            "a[]",
            "a[x]",
            "a[-1]",
            "a[1",
            "a[1]b",
            "[0]",
            "a.[0]",
            "a\\",
            "a[99999999]",
            &"a.".repeat(40),
        ] {
            let mut values = Values::new();
            assert!(set_text(path, "x", &mut values).is_err(), "{path:?} gave {values:?}");
        }
        let through = Values::from([("a".into(), Data::from(&json!("text")))]);
        for path in ["a.b", "a[0]"] {
            assert!(set_text(path, "x", &mut through.clone()).is_err(), "{path:?}");
        }
    }
}
