//! JSON as Go's encoding/json reads it, with its error texts.

use std::collections::BTreeMap;

use convoy_gotemplate::{Elem, List, Map, Str, Value, quote};

use super::json::utf8;

const MAX_NESTING: usize = 1_000;

/// What Go unmarshals into.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// `interface {}`.
    Any,
    /// `map[string]interface {}`.
    Map,
    /// `[]interface {}`.
    List,
}

/// Reads one JSON value.
///
/// # Errors
/// Go's text.
pub(super) fn read(text: &[u8], shape: Shape) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    if let Some(byte) = reader.peek() {
        return Err(invalid(byte, "after top-level value"));
    }
    fit(value, shape)
}

/// Reads a schema as Go's `json.Decoder` does: of the first value that is no JSON it says the same as above, but at the
/// end of the text.
///
/// # Errors
/// Go's text.
pub(crate) fn read_schema_json(text: &[u8]) -> Result<serde_json::Value, String> {
    let text = String::from_utf8_lossy(text);
    if text.trim().is_empty() {
        return Err("EOF".to_owned());
    }
    serde_json::from_str(&text).map_err(|error| match read(text.as_bytes(), Shape::Any) {
        _ if error.is_eof() => "unexpected EOF".to_owned(),
        Err(text) if text.ends_with("after top-level value") => {
            "invalid character after top-level value".to_owned()
        }
        Err(text) => text,
        Ok(_) => error.to_string(),
    })
}

/// Why a text does not begin with a JSON value, as `k8s.io/apimachinery`'s decoder says it; nothing when it does.
pub(crate) fn json_error(text: &[u8]) -> Option<String> {
    let mut reader = Reader { text, at: 0 };
    let error = reader.value(0).err()?;
    if reader.at >= text.len() {
        return Some("unexpected EOF".to_owned());
    }
    Some(format!("json: offset {}: {error}", reader.at + 1))
}

/// Go's conversion of what was read into the wanted type.
pub(super) fn fit(value: Value, shape: Shape) -> Result<Value, String> {
    let found = match (&value, shape) {
        (_, Shape::Any) | (Value::Map(_), Shape::Map) | (Value::List(_), Shape::List) => return Ok(value),
        (Value::Nil, Shape::Map) => return Ok(Value::Map(Map::nil())),
        (Value::Nil, Shape::List) => return Ok(Value::List(List::nil(Elem::Any))),
        (Value::Map(_), _) => "object",
        (Value::List(_), _) => "array",
        (Value::String(_), _) => "string",
        (Value::Bool(_), _) => "bool",
        _ => "number",
    };
    let wanted = if shape == Shape::Map { "map[string]interface {}" } else { "[]interface {}" };
    Err(format!("json: cannot unmarshal {found} into Go value of type {wanted}"))
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

fn invalid(byte: u8, place: &str) -> String {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = quote(utf8_of(byte).as_bytes());
            let quoted = String::from_utf8_lossy(&quoted).into_owned();
            format!("'{}'", quoted.get(1..quoted.len() - 1).unwrap_or_default())
        }
    };
    format!("invalid character {shown} {place}")
}

// Go shows a byte as the rune of that number.
fn utf8_of(byte: u8) -> String {
    char::from(byte).to_string()
}

// At the end of input Go's scanner takes a space, which a word or a number cannot hold.
fn cut_off(place: &str) -> String {
    invalid(b' ', place)
}

fn end() -> String {
    "unexpected end of JSON input".to_owned()
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_NESTING {
            return Err("exceeded max depth".into());
        }
        self.space();
        match self.peek().ok_or_else(end)? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(Value::from),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Nil),
            b'-' | b'0'..=b'9' => self.number(),
            other => Err(invalid(other, "looking for beginning of value")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, String> {
        self.at += 1;
        for expected in word.bytes().skip(1) {
            match self.next() {
                Some(byte) if byte == expected => {}
                Some(byte) => {
                    let place = format!("in literal {word} (expecting '{}')", char::from(expected));
                    return Err(invalid(byte, &place));
                }
                None => {
                    return Err(cut_off(&format!(
                        "in literal {word} (expecting '{}')",
                        char::from(expected)
                    )));
                }
            }
        }
        Ok(value)
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > start
    }

    fn some_digits(&mut self, place: &str) -> Result<(), String> {
        if self.digits() {
            return Ok(());
        }
        Err(invalid(self.peek().unwrap_or(b' '), place))
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.some_digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = utf8(self.text.get(start..self.at).unwrap_or_default());
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float64(number)),
            _ => Err(format!("json: cannot unmarshal number {text} into Go value of type float64")),
        }
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let byte = self.next().unwrap_or(b' ');
            let digit = char::from(byte)
                .to_digit(16)
                .ok_or_else(|| invalid(byte, "in \\u hexadecimal character escape"))?;
            code = code * 16 + digit;
        }
        Ok(code)
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let byte = self.next().ok_or_else(end)?;
            match byte {
                b'"' => return Ok(utf8(&out)),
                b'\\' => {
                    let escape = self.next().unwrap_or(b' ');
                    match escape {
                        b'"' | b'\\' | b'/' => out.push(escape),
                        b'b' => out.push(8),
                        b'f' => out.push(12),
                        b'n' => out.push(b'\n'),
                        b'r' => out.push(b'\r'),
                        b't' => out.push(b'\t'),
                        b'u' => {
                            let code = self.hex4()?;
                            let rune = self.surrogate(code)?;
                            out.extend_from_slice(rune.encode_utf8(&mut [0; 4]).as_bytes());
                        }
                        other => return Err(invalid(other, "in string escape code")),
                    }
                }
                0..0x20 => return Err(invalid(byte, "in string literal")),
                _ => out.push(byte),
            }
        }
    }

    // The second half of a pair is taken only when it fits; a lone half is U+FFFD.
    fn surrogate(&mut self, code: u32) -> Result<char, String> {
        if (0xD800..0xDC00).contains(&code) && self.text.get(self.at..self.at + 2) == Some(b"\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.hex4()?;
            if (0xDC00..0xE000).contains(&low) {
                let pair = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(pair).unwrap_or('\u{FFFD}'));
            }
            self.at = before;
        }
        Ok(char::from_u32(code).unwrap_or('\u{FFFD}'))
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::list(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.next().ok_or_else(end)? {
                b',' => {}
                b']' => return Ok(Value::list(items)),
                other => return Err(invalid(other, "after array element")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut entries = BTreeMap::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(Map::new(entries)));
        }
        loop {
            self.space();
            match self.peek().ok_or_else(end)? {
                b'"' => {}
                other => return Err(invalid(other, "looking for beginning of object key string")),
            }
            let key = self.string()?;
            self.space();
            match self.next().ok_or_else(end)? {
                b':' => {}
                other => return Err(invalid(other, "after object key")),
            }
            let value = self.value(depth + 1)?;
            entries.insert(Str::from(key), value);
            self.space();
            match self.next().ok_or_else(end)? {
                b',' => {}
                b'}' => return Ok(Value::Map(Map::new(entries))),
                other => return Err(invalid(other, "after object key:value pair")),
            }
        }
    }
}
