//! Values to text: `go.yaml.in/yaml/v2`'s block style.

use crate::emit_scalar::{Analysis, Style};
use crate::number::format_g;
use crate::resolve::{Plain, resolve};

/// Writes one document as Go's `yaml.v2` does: two spaces, sequences in mappings not indented, lines folded
/// after 80 columns.
///
/// The caller walks its value: collections are opened with what they will hold (empty ones are written in
/// flow style at once and must not be closed), and in a mapping each value follows its [`Emitter::key`].
/// Keys are written in the order they come; Go sorts them by [`crate::natural_order`].
#[derive(Debug)]
pub struct Emitter {
    pub(super) out: String,
    pub(super) column: usize,
    pub(super) indent: Option<usize>,
    /// The last thing written was a space or an indicator that needs none after it.
    pub(super) whitespace: bool,
    /// Only indentation and indicators stand on this line.
    pub(super) indention: bool,
    stack: Vec<Open>,
    /// Lines are broken at the first space after this column.
    pub(super) width: usize,
    /// Sequences in mappings are indented, too.
    indented: bool,
    /// What kind of place the next node stands in.
    context: Context,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    mapping: bool,
    outer_indent: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Root,
    Item,
    Key,
    /// After a key, and whether it was one that fits before its colon.
    Value {
        simple: bool,
    },
}

pub(super) const INDENT: usize = 2;

impl Default for Emitter {
    fn default() -> Self {
        Self {
            out: String::new(),
            column: 0,
            indent: None,
            whitespace: true,
            indention: true,
            stack: Vec::new(),
            width: 80,
            indented: false,
            context: Context::Root,
        }
    }
}

impl Emitter {
    /// An emitter that has written nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An emitter that indents sequences in mappings and does not fold lines, as Go's `yaml.v3` does when it is
    /// told to indent by two.
    pub fn pretty() -> Self {
        Self { width: usize::MAX, indented: true, ..Self::default() }
    }

    /// Bytes written so far.
    pub fn written(&self) -> usize {
        self.out.len()
    }

    /// Ends the document and hands out its text, with a line feed at its end.
    pub fn finish(mut self) -> String {
        self.indent = None;
        self.write_indent();
        self.out
    }

    /// Opens a sequence; an empty one is complete.
    pub fn sequence(&mut self, empty: bool) {
        self.before_node();
        if empty {
            self.write_indicator("[", true, true, false);
            self.write_indicator("]", false, false, false);
            self.after_node();
            return;
        }
        let outer_indent = self.indent;
        let in_mapping = matches!(self.context, Context::Value { .. });
        if !in_mapping || self.indention || self.indented || self.indent.is_none() {
            self.increase_indent(false);
        }
        self.stack.push(Open { mapping: false, outer_indent });
        self.context = Context::Item;
    }

    /// Opens a mapping; an empty one is complete.
    pub fn mapping(&mut self, empty: bool) {
        self.before_node();
        if empty {
            self.write_indicator("{", true, true, false);
            self.write_indicator("}", false, false, false);
            self.after_node();
            return;
        }
        let outer_indent = self.indent;
        self.increase_indent(false);
        self.stack.push(Open { mapping: true, outer_indent });
        self.context = Context::Key;
    }

    /// Closes the innermost collection.
    pub fn end(&mut self) {
        if let Some(open) = self.stack.pop() {
            self.indent = open.outer_indent;
        }
        self.after_node();
    }

    /// The key of the next value.
    pub fn key(&mut self, key: &str) {
        self.context = Context::Key;
        self.write_indent();
        let (analysis, style) = self.choose(key);
        let simple = !analysis.multiline && key.len() <= 128;
        if !simple {
            self.write_indicator("?", true, false, true);
        }
        self.write_scalar(key, &analysis, style, simple);
        self.context = Context::Value { simple };
    }

    /// `null`.
    pub fn null(&mut self) {
        self.plain("null");
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, value: bool) {
        self.plain(if value { "true" } else { "false" });
    }

    /// A whole number.
    pub fn integer(&mut self, value: i64) {
        self.plain(&value.to_string());
    }

    /// A whole number beyond 63 bits.
    pub fn unsigned(&mut self, value: u64) {
        self.plain(&value.to_string());
    }

    /// A number with a fraction or an exponent.
    pub fn float(&mut self, value: f64) {
        self.plain(match format_g(value).as_str() {
            "+Inf" => ".inf",
            "-Inf" => "-.inf",
            "NaN" => ".nan",
            text => text,
        });
    }

    /// A string, quoted when its text would read as something else.
    pub fn string(&mut self, value: &str) {
        self.before_node();
        let (analysis, style) = self.choose(value);
        self.write_scalar(value, &analysis, style, false);
        self.after_node();
    }

    fn choose(&self, value: &str) -> (Analysis, Style) {
        let style = if value.contains('\n') {
            Style::Literal
        } else if resolve(value, true) == Plain::Str && !is_base_60(value) {
            Style::Plain
        } else {
            Style::DoubleQuoted
        };
        (Analysis::of(value), style)
    }

    fn plain(&mut self, text: &str) {
        self.before_node();
        self.write_scalar(text, &Analysis::of(text), Style::Plain, false);
        self.after_node();
    }

    fn before_node(&mut self) {
        match self.context {
            Context::Root | Context::Key => {}
            Context::Item => {
                self.write_indent();
                self.write_indicator("-", true, false, true);
            }
            Context::Value { simple: true } => self.write_indicator(":", false, false, false),
            Context::Value { simple: false } => {
                self.write_indent();
                self.write_indicator(":", true, false, true);
            }
        }
    }

    fn after_node(&mut self) {
        self.context = match self.stack.last() {
            None => Context::Root,
            Some(Open { mapping: true, .. }) => Context::Key,
            Some(Open { mapping: false, .. }) => Context::Item,
        };
    }

    pub(super) fn increase_indent(&mut self, flow: bool) {
        self.indent = Some(match self.indent {
            None if flow => INDENT,
            None => 0,
            Some(indent) => indent + INDENT,
        });
    }

    pub(super) fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    pub(super) fn put_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    pub(super) fn write_indent(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    pub(super) fn write_indicator(
        &mut self,
        indicator: &str,
        need_whitespace: bool,
        is_whitespace: bool,
        is_indention: bool,
    ) {
        if need_whitespace && !self.whitespace {
            self.put(' ');
        }
        self.out.push_str(indicator);
        self.column += indicator.len();
        self.whitespace = is_whitespace;
        self.indention = self.indention && is_indention;
    }
}

/// `^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`: a number in base 60 to other readers of YAML 1.1.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (sixties, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut places = sixties.split(':');
    let first = places.next().unwrap_or_default();
    let digits = |s: &str| s.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let mut count = 0;
    let all = places.all(|place| {
        count += 1;
        matches!(place.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'])
    });
    first.starts_with(|c: char| c.is_ascii_digit()) && digits(first) && all && count > 0 && digits(fraction)
}
