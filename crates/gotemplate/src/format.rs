//! Go's fmt: `Sprint`, `Sprintln` and `Sprintf` over [`Value`].
//!
//! Long because every verb works on the same buffer and flags, as fmt's one printer does.

use std::fmt;

use crate::error::Limit;
use crate::number::format_float;
use crate::quote::{can_backquote, quote, quote_ascii, quote_rune};
use crate::rune::decode_rune;
use crate::value::{Elem, Kind, Value};

/// Values may nest this deep when printed; deeper ones are taken for cycles.
use crate::MAX_NESTING;

// Widths and precisions beyond this are refused, as in Go.
const LARGEST_NUMBER: i64 = 1_000_000;

/// `fmt.Sprint`: spaces only between operands when neither is a string.
///
/// # Errors
/// Nesting, or more than `budget` bytes.
pub fn sprint<'b>(args: &[Value], budget: impl Into<Budget<'b>>) -> Result<Vec<u8>, Limit> {
    let mut printer = Printer::new(budget.into());
    let mut previous_string = false;
    for (index, arg) in args.iter().enumerate() {
        let string = arg.kind() == Kind::String;
        if index > 0 && !string && !previous_string {
            printer.push(b" ");
        }
        printer.print_arg(arg, 'v');
        previous_string = string;
    }
    printer.finish()
}

/// `fmt.Sprintln`.
///
/// # Errors
/// Nesting, or more than `budget` bytes.
pub fn sprintln<'b>(args: &[Value], budget: impl Into<Budget<'b>>) -> Result<Vec<u8>, Limit> {
    let mut printer = Printer::new(budget.into());
    for (index, arg) in args.iter().enumerate() {
        if index > 0 {
            printer.push(b" ");
        }
        printer.print_arg(arg, 'v');
    }
    printer.push(b"\n");
    printer.finish()
}

/// `fmt.Sprintf`, with its marks for verbs that do not fit (`%!d(string=x)`).
///
/// # Errors
/// Nesting, or more than `budget` bytes.
pub fn sprintf<'b>(format: &[u8], args: &[Value], budget: impl Into<Budget<'b>>) -> Result<Vec<u8>, Limit> {
    let mut printer = Printer::new(budget.into());
    printer.printf(format, args);
    printer.finish()
}

#[derive(Clone, Copy, Default)]
struct Flags {
    width: Option<usize>,
    precision: Option<usize>,
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    plus_v: bool,
    sharp_v: bool,
}

/// How much may be printed, and whether anyone still wants it. A number of bytes is one that nobody stops.
#[derive(Clone, Copy)]
pub struct Budget<'b> {
    bytes: usize,
    is_stopped: Option<&'b dyn Fn() -> bool>,
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl From<usize> for Budget<'_> {
    fn from(bytes: usize) -> Self {
        Self { bytes, is_stopped: None }
    }
}

impl<'b> Budget<'b> {
    pub(crate) fn new(bytes: usize, is_stopped: Option<&'b dyn Fn() -> bool>) -> Self {
        Self { bytes, is_stopped }
    }
}

/// Values that are printed between two looks at whether anyone still wants them.
const ASKED_AFTER: u32 = 1 << 10;

struct Printer<'b> {
    out: Vec<u8>,
    flags: Flags,
    budget: Budget<'b>,
    printed: u32,
    failure: Option<Limit>,
    erroring: bool,
    reordered: bool,
    good_arg_num: bool,
}

impl<'b> Printer<'b> {
    fn new(budget: Budget<'b>) -> Self {
        Self {
            out: Vec::new(),
            flags: Flags::default(),
            budget,
            printed: 0,
            failure: None,
            erroring: false,
            reordered: false,
            good_arg_num: true,
        }
    }

    fn finish(self) -> Result<Vec<u8>, Limit> {
        match self.failure {
            Some(limit) => Err(limit),
            None => Ok(self.out),
        }
    }

    fn fits(&mut self, more: usize) -> bool {
        if self.failure.is_none() && self.out.len().saturating_add(more) > self.budget.bytes {
            self.failure = Some(Limit::Allocated);
        }
        self.failure.is_none()
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.fits(bytes.len()) {
            self.out.extend_from_slice(bytes);
        }
    }

    fn padding(&mut self, count: usize) {
        if self.fits(count) {
            let fill = if self.flags.zero && !self.flags.minus { b'0' } else { b' ' };
            self.out.resize(self.out.len() + count, fill);
        }
    }

    fn pad(&mut self, bytes: &[u8]) {
        let Some(width) = self.flags.width.filter(|w| *w > 0) else {
            self.push(bytes);
            return;
        };
        let missing = width.saturating_sub(count_runes(bytes));
        if self.flags.minus {
            self.push(bytes);
            self.padding(missing);
        } else {
            self.padding(missing);
            self.push(bytes);
        }
    }

    fn pad_without_zeros(&mut self, bytes: &[u8]) {
        let zero = std::mem::take(&mut self.flags.zero);
        self.pad(bytes);
        self.flags.zero = zero;
    }

    fn bad_verb(&mut self, verb: char, value: &Value) {
        self.erroring = true;
        self.push(b"%!");
        self.push_char(verb);
        self.push(b"(");
        if value.is_nil() {
            self.push(b"<nil>");
        } else {
            let name = value.type_name().into_owned();
            self.push(name.as_bytes());
            self.push(b"=");
            self.print_value(value, 'v', 0);
        }
        self.push(b")");
        self.erroring = false;
    }

    fn push_char(&mut self, rune: char) {
        self.push(rune.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn print_arg(&mut self, value: &Value, verb: char) {
        match (value, verb) {
            (Value::Nil, 'T' | 'v') => self.pad(b"<nil>"),
            (Value::Nil, _) => self.bad_verb(verb, value),
            (_, 'T') => {
                let name = value.type_name().into_owned();
                self.string_verb(name.as_bytes(), 's', value);
            }
            (_, 'p') => match value.kind() {
                // Addresses differ from run to run, so there is nothing to be compatible with.
                Kind::Slice | Kind::Map | Kind::Ptr | Kind::Func => self.push(b"0xc000000000"),
                _ => self.bad_verb(verb, value),
            },
            _ => self.print_value(value, verb, 0),
        }
    }

    fn print_value(&mut self, value: &Value, verb: char, depth: usize) {
        if depth > MAX_NESTING {
            self.failure = Some(Limit::Nesting);
        }
        self.printed = self.printed.wrapping_add(1);
        let is_asked = self.printed.is_multiple_of(ASKED_AFTER);
        if is_asked && self.budget.is_stopped.is_some_and(|is_stopped| is_stopped()) {
            self.failure = Some(Limit::Deadline);
        }
        if self.failure.is_some() {
            return;
        }
        match value {
            Value::Nil => self.push(b"<nil>"),
            Value::Bool(truth) => match verb {
                't' | 'v' => self.pad(if *truth { b"true" } else { b"false" }),
                _ => self.bad_verb(verb, value),
            },
            Value::Int(i) | Value::Int64(i) => self.integer(i.unsigned_abs(), *i < 0, true, verb, value),
            Value::Int32(i) => self.integer(u64::from(i.unsigned_abs()), *i < 0, true, verb, value),
            Value::Uint8(u) => self.integer(u64::from(*u), false, false, verb, value),
            Value::Uint32(u) => self.integer(u64::from(*u), false, false, verb, value),
            Value::Uint64(u) => self.integer(*u, false, false, verb, value),
            Value::Float64(f) => self.float_verb(*f, verb, value),
            Value::String(s) => self.string_verb(s, verb, value),
            Value::Bytes(b) => self.bytes_verb(b, verb, value),
            Value::List(_) | Value::Map(_) if self.flags.sharp_v && value.is_any_nil() => {
                let name = value.type_name().into_owned();
                self.push(name.as_bytes());
                self.push(b"(nil)");
            }
            Value::List(list) => {
                let items = list.to_vec();
                self.open(value, b"[");
                for (index, item) in items.iter().enumerate() {
                    self.separate(index);
                    self.element(item, list.elem(), verb, depth);
                }
                self.close();
            }
            Value::Map(map) => {
                let entries = map.entries();
                self.open(value, b"map[");
                for (index, (key, item)) in entries.iter().enumerate() {
                    self.separate(index);
                    self.string_verb(key, verb, &Value::String(key.clone()));
                    self.push(b":");
                    self.element(item, map.elem(), verb, depth);
                }
                self.close();
            }
            Value::Object(object) => {
                if !self.erroring
                    && !self.flags.sharp_v
                    && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
                    && let Some(text) = object.display()
                {
                    self.string_verb(&text, verb, value);
                    return;
                }
                match object.kind() {
                    Kind::Map => {
                        let entries = object.entries().unwrap_or_default();
                        self.open(value, b"map[");
                        for (index, (key, item)) in entries.iter().enumerate() {
                            self.separate(index);
                            self.string_verb(key, verb, &Value::String(key.clone()));
                            self.push(b":");
                            self.print_value(item, verb, depth + 1);
                        }
                        self.close();
                    }
                    Kind::Int | Kind::Int32 | Kind::Int64 => {
                        let number = object.as_int().unwrap_or_default();
                        self.integer(number.unsigned_abs(), number < 0, true, verb, value);
                    }
                    kind => {
                        if kind == Kind::Ptr {
                            if depth > 0 {
                                self.push(b"0xc000000000");
                                return;
                            }
                            self.push(b"&");
                        }
                        if self.flags.sharp_v {
                            let name = value.type_name().into_owned();
                            self.push(name.trim_start_matches('*').as_bytes());
                        }
                        self.push(b"{");
                        for (index, (name, item)) in object.fields().iter().enumerate() {
                            self.separate(index);
                            if self.flags.plus_v || self.flags.sharp_v {
                                self.push(name.as_bytes());
                                self.push(b":");
                            }
                            self.print_value(item, verb, depth + 1);
                        }
                        self.push(b"}");
                    }
                }
            }
        }
    }

    fn element(&mut self, item: &Value, elem: Elem, verb: char, depth: usize) {
        if item.is_nil() && elem == Elem::Any && self.flags.sharp_v {
            self.push(b"interface {}(nil)");
        } else {
            self.print_value(item, verb, depth + 1);
        }
    }

    fn open(&mut self, value: &Value, plain: &[u8]) {
        if self.flags.sharp_v {
            let name = value.type_name().into_owned();
            self.push(name.as_bytes());
            self.push(b"{");
        } else {
            self.push(plain);
        }
    }

    fn close(&mut self) {
        self.push(if self.flags.sharp_v { b"}" } else { b"]" });
    }

    fn separate(&mut self, index: usize) {
        if index > 0 {
            self.push(if self.flags.sharp_v { b", " } else { b" " });
        }
    }

    fn integer(&mut self, magnitude: u64, negative: bool, signed: bool, verb: char, value: &Value) {
        match verb {
            'v' if self.flags.sharp_v && !signed => self.hex_with_prefix(magnitude),
            'v' | 'd' => self.digits(magnitude, negative, 10, verb),
            'b' => self.digits(magnitude, negative, 2, verb),
            'o' | 'O' => self.digits(magnitude, negative, 8, verb),
            'x' | 'X' => self.digits(magnitude, negative, 16, verb),
            'c' | 'q' | 'U' => {
                // A negative number wraps to one that is no rune.
                let code = if negative { magnitude.wrapping_neg() } else { magnitude };
                let rune = u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{FFFD}');
                match verb {
                    'c' => self.pad(rune.encode_utf8(&mut [0; 4]).as_bytes()),
                    'q' => {
                        let quoted = quote_rune(rune, self.flags.plus);
                        self.pad(&quoted);
                    }
                    _ => self.unicode(code),
                }
            }
            _ => self.bad_verb(verb, value),
        }
    }

    fn unicode(&mut self, code: u64) {
        let precision = self.flags.precision.unwrap_or(4).max(4);
        let mut text = format!("U+{code:0precision$X}");
        if self.flags.sharp
            && let Some(rune) = u32::try_from(code).ok().and_then(char::from_u32)
            && crate::rune::is_print(rune)
        {
            text.push_str(&format!(" '{rune}'"));
        }
        self.pad_without_zeros(text.as_bytes());
    }

    fn hex_with_prefix(&mut self, number: u64) {
        let sharp = std::mem::replace(&mut self.flags.sharp, true);
        self.digits(number, false, 16, 'v');
        self.flags.sharp = sharp;
    }

    fn digits(&mut self, magnitude: u64, negative: bool, base: u32, verb: char) {
        let mut precision = 0;
        if let Some(wanted) = self.flags.precision {
            precision = wanted;
            if wanted == 0 && magnitude == 0 {
                let zero = std::mem::take(&mut self.flags.zero);
                self.padding(self.flags.width.unwrap_or(0));
                self.flags.zero = zero;
                return;
            }
        } else if self.flags.zero
            && !self.flags.minus
            && let Some(width) = self.flags.width
        {
            precision = width;
            if negative || self.flags.plus || self.flags.space {
                precision = precision.saturating_sub(1);
            }
        }
        if base == 10 && self.flags.width.is_none() && precision == 0 {
            // The common case allocates nothing.
            if negative {
                self.push(b"-");
            } else if self.flags.plus {
                self.push(b"+");
            } else if self.flags.space {
                self.push(b" ");
            }
            let mut buffer = [0u8; 20];
            let mut start = buffer.len();
            let mut rest = magnitude;
            loop {
                start -= 1;
                if let Some(slot) = buffer.get_mut(start) {
                    *slot = b'0' + u8::try_from(rest % 10).unwrap_or(0);
                }
                rest /= 10;
                if rest == 0 {
                    break;
                }
            }
            let text = buffer.get(start..).unwrap_or_default().to_owned();
            self.push(&text);
            return;
        }
        let mut text = match base {
            2 => format!("{magnitude:b}"),
            8 => format!("{magnitude:o}"),
            16 if verb == 'X' => format!("{magnitude:X}"),
            16 => format!("{magnitude:x}"),
            _ => magnitude.to_string(),
        };
        if !self.fits(precision) {
            return;
        }
        if text.len() < precision {
            text = format!("{text:0>precision$}");
        }
        if self.flags.sharp {
            match base {
                2 => text.insert_str(0, "0b"),
                8 if !text.starts_with('0') => text.insert(0, '0'),
                16 => text.insert_str(0, if verb == 'X' { "0X" } else { "0x" }),
                _ => {}
            }
        }
        if verb == 'O' {
            text.insert_str(0, "0o");
        }
        if negative {
            text.insert(0, '-');
        } else if self.flags.plus {
            text.insert(0, '+');
        } else if self.flags.space {
            text.insert(0, ' ');
        }
        self.pad_without_zeros(text.as_bytes());
    }

    fn float_verb(&mut self, number: f64, verb: char, value: &Value) {
        match verb {
            'v' => self.float(number, 'g', -1),
            'g' | 'G' => self.float(number, verb, -1),
            'f' | 'e' | 'E' => self.float(number, verb, 6),
            'F' => self.float(number, 'f', 6),
            'x' | 'X' | 'b' => self.float(number, verb, -1),
            _ => self.bad_verb(verb, value),
        }
    }

    fn float(&mut self, number: f64, verb: char, default_precision: i32) {
        let precision =
            self.flags.precision.map_or(default_precision, |p| i32::try_from(p).unwrap_or(default_precision));
        if !self.fits(usize::try_from(precision).unwrap_or(0)) {
            return;
        }
        let mut text = match verb {
            'x' | 'X' | 'b' => hex_float(number, verb),
            _ => format_float(number, verb, precision),
        };
        if !text.starts_with(['+', '-']) {
            text.insert(0, '+');
        }
        if self.flags.space && text.starts_with('+') && !self.flags.plus {
            text.replace_range(..1, " ");
        }
        if text.get(1..).is_some_and(|t| t.starts_with(['I', 'N'])) {
            let shown =
                if text.get(1..).is_some_and(|t| t.starts_with('N')) && !self.flags.space && !self.flags.plus
                {
                    text.get(1..).unwrap_or_default()
                } else {
                    &text
                };
            let shown = shown.to_owned();
            self.pad_without_zeros(shown.as_bytes());
            return;
        }
        if self.flags.sharp && matches!(verb, 'e' | 'E' | 'f' | 'g' | 'G') {
            text = with_sharp(&text, verb, precision);
        }
        if self.flags.plus || !text.starts_with('+') {
            if self.flags.zero
                && !self.flags.minus
                && let Some(width) = self.flags.width
                && width > text.len()
            {
                let (sign, rest) = text.split_at(1);
                self.push(sign.as_bytes());
                self.padding(width - text.len());
                self.push(rest.as_bytes());
                return;
            }
            self.pad(text.as_bytes());
            return;
        }
        self.pad(text.get(1..).unwrap_or_default().as_bytes());
    }

    fn truncate<'t>(&self, bytes: &'t [u8]) -> &'t [u8] {
        let Some(limit) = self.flags.precision else { return bytes };
        let mut at = 0;
        for _ in 0..limit {
            match bytes.get(at..).and_then(decode_rune) {
                Some((_, width)) => at += width,
                None => break,
            }
        }
        bytes.get(..at).unwrap_or(bytes)
    }

    fn string_verb(&mut self, text: &[u8], verb: char, value: &Value) {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(text),
            'v' | 's' => {
                let text = self.truncate(text);
                self.pad(text);
            }
            'x' | 'X' => self.hex(text, verb == 'X'),
            'q' => self.quoted(text),
            _ => self.bad_verb(verb, value),
        }
    }

    fn quoted(&mut self, text: &[u8]) {
        let text = self.truncate(text);
        if self.flags.sharp && can_backquote(text) {
            let raw = [b"`", text, b"`"].concat();
            self.pad(&raw);
            return;
        }
        let quoted = if self.flags.plus { quote_ascii(text) } else { quote(text) };
        self.pad(&quoted);
    }

    fn hex(&mut self, bytes: &[u8], upper: bool) {
        let length = self.flags.precision.map_or(bytes.len(), |p| p.min(bytes.len()));
        if length == 0 {
            self.padding(self.flags.width.unwrap_or(0));
            return;
        }
        let mut text = Vec::with_capacity(length * 2);
        let prefix: &[u8] = match (self.flags.sharp, upper) {
            (false, _) => b"",
            (true, false) => b"0x",
            (true, true) => b"0X",
        };
        text.extend_from_slice(prefix);
        for (index, byte) in bytes.iter().take(length).enumerate() {
            if self.flags.space && index > 0 {
                text.push(b' ');
                text.extend_from_slice(prefix);
            }
            let pair = if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
            text.extend_from_slice(pair.as_bytes());
        }
        self.pad(&text);
    }

    fn bytes_verb(&mut self, bytes: &[u8], verb: char, value: &Value) {
        match verb {
            'v' | 'd' => {
                self.push(if self.flags.sharp_v { b"[]byte{" } else { b"[" });
                for (index, byte) in bytes.iter().enumerate() {
                    self.separate(index);
                    if self.flags.sharp_v {
                        self.hex_with_prefix(u64::from(*byte));
                    } else {
                        self.digits(u64::from(*byte), false, 10, verb);
                    }
                }
                self.close();
            }
            's' => {
                let text = self.truncate(bytes);
                self.pad(text);
            }
            'x' | 'X' => self.hex(bytes, verb == 'X'),
            'q' => self.quoted(bytes),
            _ => {
                let _ = value;
                self.push(b"[");
                for (index, byte) in bytes.iter().enumerate() {
                    self.separate(index);
                    self.print_value(&Value::Uint8(*byte), verb, 1);
                }
                self.push(b"]");
            }
        }
    }

    fn printf(&mut self, format: &[u8], args: &[Value]) {
        let end = format.len();
        let byte = |at: usize| format.get(at).copied();
        let mut arg_num = 0;
        let mut i = 0;
        'format: while i < end {
            if self.failure.is_some() {
                return;
            }
            self.good_arg_num = true;
            let start = i;
            while i < end && byte(i) != Some(b'%') {
                i += 1;
            }
            self.push(format.get(start..i).unwrap_or_default());
            if i >= end {
                break;
            }
            i += 1;
            self.flags = Flags::default();
            while let Some(c) = byte(i) {
                match c {
                    b'#' => self.flags.sharp = true,
                    b'0' => self.flags.zero = true,
                    b'+' => self.flags.plus = true,
                    b'-' => self.flags.minus = true,
                    b' ' => self.flags.space = true,
                    b'a'..=b'z' => {
                        if let Some(arg) = args.get(arg_num) {
                            self.verb(arg, c as char);
                            arg_num += 1;
                            i += 1;
                            continue 'format;
                        }
                        break;
                    }
                    _ => break,
                }
                i += 1;
            }

            let mut after_index;
            (arg_num, i, after_index) = self.arg_number(arg_num, format, i, args.len());
            if byte(i) == Some(b'*') {
                i += 1;
                let (number, next) = int_from_arg(args, arg_num);
                arg_num = next;
                match number {
                    Some(width) => {
                        self.flags.width = usize::try_from(width.unsigned_abs()).ok();
                        if width < 0 {
                            self.flags.minus = true;
                            self.flags.zero = false;
                        }
                    }
                    None => self.push(b"%!(BADWIDTH)"),
                }
                after_index = false;
            } else {
                (self.flags.width, i) = parse_number(format, i, end);
                if after_index && self.flags.width.is_some() {
                    self.good_arg_num = false;
                }
            }

            if i + 1 < end && byte(i) == Some(b'.') {
                i += 1;
                if after_index {
                    self.good_arg_num = false;
                }
                (arg_num, i, after_index) = self.arg_number(arg_num, format, i, args.len());
                if byte(i) == Some(b'*') {
                    i += 1;
                    let (number, next) = int_from_arg(args, arg_num);
                    arg_num = next;
                    self.flags.precision = number.and_then(|n| usize::try_from(n).ok());
                    if self.flags.precision.is_none() {
                        self.push(b"%!(BADPREC)");
                    }
                    after_index = false;
                } else {
                    (self.flags.precision, i) = parse_number(format, i, end);
                    self.flags.precision = Some(self.flags.precision.unwrap_or(0));
                }
            }

            if !after_index {
                (arg_num, i, _) = self.arg_number(arg_num, format, i, args.len());
            }
            let Some((verb, width)) = format.get(i..).and_then(decode_rune) else {
                self.push(b"%!(NOVERB)");
                break;
            };
            i += width;
            if verb == '%' {
                self.push(b"%");
            } else if !self.good_arg_num {
                self.mark(verb, b"(BADINDEX)");
            } else if let Some(arg) = args.get(arg_num) {
                self.verb(arg, verb);
                arg_num += 1;
            } else {
                self.mark(verb, b"(MISSING)");
            }
        }

        if !self.reordered && arg_num < args.len() {
            self.flags = Flags::default();
            self.push(b"%!(EXTRA ");
            for (index, arg) in args.get(arg_num..).unwrap_or_default().iter().enumerate() {
                if index > 0 {
                    self.push(b", ");
                }
                if arg.is_nil() {
                    self.push(b"<nil>");
                } else {
                    let name = arg.type_name().into_owned();
                    self.push(name.as_bytes());
                    self.push(b"=");
                    self.print_arg(arg, 'v');
                }
            }
            self.push(b")");
        }
    }

    fn verb(&mut self, arg: &Value, verb: char) {
        match verb {
            'v' => {
                self.flags.sharp_v = std::mem::take(&mut self.flags.sharp);
                self.flags.plus_v = std::mem::take(&mut self.flags.plus);
                self.print_arg(arg, 'v');
            }
            // `%w` is for errors alone.
            'w' => self.bad_verb('w', arg),
            _ => self.print_arg(arg, verb),
        }
    }

    fn mark(&mut self, verb: char, what: &[u8]) {
        self.push(b"%!");
        self.push_char(verb);
        self.push(what);
    }

    fn arg_number(&mut self, arg_num: usize, format: &[u8], i: usize, count: usize) -> (usize, usize, bool) {
        if format.get(i) != Some(&b'[') {
            return (arg_num, i, false);
        }
        self.reordered = true;
        let rest = format.get(i..).unwrap_or_default();
        let (index, width, ok) = parse_arg_number(rest);
        match index {
            Some(index) if ok && index < count => (index, i + width, true),
            _ => {
                self.good_arg_num = false;
                (arg_num, i + width, ok)
            }
        }
    }
}

fn parse_arg_number(rest: &[u8]) -> (Option<usize>, usize, bool) {
    if rest.len() < 3 {
        return (None, 1, false);
    }
    let Some(close) = rest.iter().position(|b| *b == b']').filter(|at| *at > 0) else {
        return (None, 1, false);
    };
    match parse_number(rest, 1, close) {
        (Some(number), end) if end == close => (number.checked_sub(1), close + 1, true),
        _ => (None, close + 1, false),
    }
}

fn parse_number(bytes: &[u8], start: usize, end: usize) -> (Option<usize>, usize) {
    let mut number: i64 = 0;
    let mut found = false;
    let mut at = start;
    while at < end
        && let Some(digit) = bytes.get(at).filter(|b| b.is_ascii_digit())
    {
        if number > LARGEST_NUMBER {
            return (None, end);
        }
        number = number * 10 + i64::from(digit - b'0');
        found = true;
        at += 1;
    }
    (if found { usize::try_from(number).ok() } else { None }, at)
}

fn int_from_arg(args: &[Value], arg_num: usize) -> (Option<i64>, usize) {
    let Some(arg) = args.get(arg_num) else { return (None, arg_num) };
    let number = match arg {
        Value::Int(i) | Value::Int64(i) => Some(*i),
        Value::Int32(i) => Some(i64::from(*i)),
        Value::Uint8(u) => Some(i64::from(*u)),
        Value::Uint32(u) => Some(i64::from(*u)),
        Value::Uint64(u) => i64::try_from(*u).ok(),
        _ => None,
    };
    (number.filter(|n| n.abs() <= LARGEST_NUMBER), arg_num + 1)
}

fn count_runes(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.chars().count(),
        Err(_) => crate::rune::runes(bytes).count(),
    }
}

// The `#` flag of floats: a decimal point always, and zeros kept for `%g`.
fn with_sharp(text: &str, verb: char, precision: i32) -> String {
    let mut digits = match verb {
        'g' | 'G' => {
            if precision == -1 {
                6
            } else {
                precision
            }
        }
        _ => 0,
    };
    let (head, tail) = match text.find(['e', 'E']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let mut out = head.to_owned();
    let mut saw_nonzero = false;
    for c in head.chars().skip(1).filter(char::is_ascii_digit) {
        saw_nonzero |= c != '0';
        if saw_nonzero {
            digits -= 1;
        }
    }
    if !head.contains('.') {
        if head.len() == 2 && head.ends_with('0') {
            digits -= 1;
        }
        out.push('.');
    }
    for _ in 0..digits.max(0) {
        out.push('0');
    }
    out.push_str(tail);
    out
}

fn hex_float(number: f64, verb: char) -> String {
    let bits = number.to_bits();
    let sign = if bits >> 63 == 1 { "-" } else { "" };
    let biased = i64::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
    let fraction = bits & ((1 << 52) - 1);
    if biased == 0x7ff {
        return format_float(number, 'g', -1);
    }
    if verb == 'b' {
        let (mantissa, exponent) =
            if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
        return format!("{sign}{mantissa}p{exponent:+}");
    }
    let (lead, fraction, exponent) = if number == 0.0 {
        (0, 0, 0)
    } else if biased == 0 {
        let shift = fraction.leading_zeros() - 11;
        (1, (fraction << shift) & ((1 << 52) - 1), -1022 - i64::from(shift))
    } else {
        (1, fraction, biased - 1023)
    };
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let mark = if exponent < 0 { '-' } else { '+' };
    let text = format!("{sign}0x{lead}{point}{digits}p{mark}{:02}", exponent.abs());
    if verb == 'X' { text.to_uppercase() } else { text }
}

/// Appends what an action prints: `fmt.Fprint` of one value.
pub(crate) fn print_into(out: &mut Vec<u8>, value: &Value, budget: Budget<'_>) -> Result<(), Limit> {
    match value {
        Value::String(s) => {
            if s.len() > budget.bytes {
                return Err(Limit::Output);
            }
            out.extend_from_slice(s);
        }
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Object(object) => match object.printed() {
            Some(text) => return print_into(out, &Value::String(text), budget),
            None => {
                let mut printer = Printer::new(budget);
                printer.print_arg(value, 'v');
                let text = printer.finish()?;
                // It is what a pointer leads to that is printed.
                let text =
                    if object.kind() == Kind::Ptr { text.strip_prefix(b"&") } else { None }.unwrap_or(&text);
                out.extend_from_slice(text);
            }
        },
        _ => {
            let mut printer = Printer::new(budget);
            printer.print_arg(value, 'v');
            out.extend_from_slice(&printer.finish()?);
        }
    }
    Ok(())
}
