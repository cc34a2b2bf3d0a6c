//! Scalars to text: which styles can hold a value, and how each writes it.

use crate::emit::{Emitter, INDENT};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// Which styles can hold a value.
#[derive(Debug)]
pub(super) struct Analysis {
    pub(super) multiline: bool,
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Without the characters beyond the basic plane: Go's package escapes them.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

impl Analysis {
    pub(super) fn of(value: &str) -> Self {
        if value.is_empty() {
            return Self { multiline: false, plain: true, single_quoted: true, literal: false };
        }
        let mut indicators = value.starts_with("---") || value.starts_with("...");
        let mut multiline = false;
        let mut special = false;
        let mut break_space = false;
        let mut space_break = false;
        let mut after_space = false;
        let mut after_break = false;
        let mut after_blank = true;
        let mut chars = value.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let before_blank = chars.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            indicators |= match c {
                '#' => first || after_blank,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    first
                }
                '?' | '-' => first && before_blank,
                ':' => before_blank,
                _ => false,
            };
            special |= !is_printable(c);
            if c == ' ' {
                break_space |= after_break;
            } else if is_break(c) {
                multiline = true;
                space_break |= after_space;
            }
            after_space = c == ' ';
            after_break = is_break(c);
            after_blank = matches!(c, ' ' | '\t') || is_break(c) || c == '\0';
            first = false;
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let on_edge = edge(value.chars().next()) || edge(value.chars().next_back());
        Self {
            multiline,
            plain: !(on_edge || break_space || space_break || special || multiline || indicators),
            single_quoted: !(break_space || space_break || special),
            literal: !(value.ends_with(' ') || space_break || special),
        }
    }
}

impl Emitter {
    /// `key`: a key before its colon, which must stay on its line.
    pub(super) fn write_scalar(&mut self, value: &str, analysis: &Analysis, style: Style, key: bool) {
        let mut style = style;
        if key && analysis.multiline {
            style = Style::DoubleQuoted;
        }
        if style == Style::Plain && (!analysis.plain || (key && value.is_empty())) {
            style = Style::SingleQuoted;
        }
        if style == Style::SingleQuoted && !analysis.single_quoted {
            style = Style::DoubleQuoted;
        }
        if style == Style::Literal && (!analysis.literal || key) {
            style = Style::DoubleQuoted;
        }
        let outer_indent = self.indent;
        self.increase_indent(true);
        match style {
            Style::Plain => self.write_plain(value, !key),
            Style::SingleQuoted => self.write_single_quoted(value, !key),
            Style::DoubleQuoted => self.write_double_quoted(value, !key),
            Style::Literal => self.write_literal(value),
        }
        self.indent = outer_indent;
    }

    fn write_plain(&mut self, value: &str, fold: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        self.write_words(value, fold, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn write_single_quoted(&mut self, value: &str, fold: bool) {
        self.write_indicator("'", true, false, false);
        self.write_words(value, fold, true);
        self.write_indicator("'", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn write_words(&mut self, value: &str, fold: bool, quoted: bool) {
        let mut spaces = false;
        let mut breaks = false;
        let mut chars = value.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            let inside = !quoted || (!first && next.is_some());
            first = false;
            if c == ' ' {
                if fold && !spaces && self.column > self.width && inside && next != Some(' ') {
                    self.write_indent();
                } else {
                    self.put(c);
                }
                spaces = true;
            } else if is_break(c) {
                if !breaks && c == '\n' {
                    self.put_break();
                }
                self.write_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if quoted && c == '\'' {
                    self.put('\'');
                }
                self.put(c);
                self.indention = false;
                spaces = false;
                breaks = false;
            }
        }
    }

    fn write_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }

    fn write_double_quoted(&mut self, value: &str, fold: bool) {
        // After a byte order mark at its start Go's package escapes every character of the value.
        let escape_all = value.starts_with('\u{feff}');
        self.write_indicator("\"", true, false, false);
        let mut spaces = false;
        let mut first = true;
        let mut chars = value.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            if escape_all || !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.write_escaped(c);
                spaces = false;
            } else if c == ' ' {
                if fold && !spaces && self.column > self.width && !first && next.is_some() {
                    self.write_indent();
                    if next == Some(' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                spaces = true;
            } else {
                self.put(c);
                spaces = false;
            }
            first = false;
        }
        self.write_indicator("\"", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn write_escaped(&mut self, c: char) {
        let code = u32::from(c);
        let escape = match c {
            '\0' => "0".to_owned(),
            '\x07' => "a".to_owned(),
            '\x08' => "b".to_owned(),
            '\t' => "t".to_owned(),
            '\n' => "n".to_owned(),
            '\x0b' => "v".to_owned(),
            '\x0c' => "f".to_owned(),
            '\r' => "r".to_owned(),
            '\x1b' => "e".to_owned(),
            '"' => "\"".to_owned(),
            '\\' => "\\".to_owned(),
            '\u{85}' => "N".to_owned(),
            '\u{a0}' => "_".to_owned(),
            '\u{2028}' => "L".to_owned(),
            '\u{2029}' => "P".to_owned(),
            _ if code <= 0xff => format!("x{code:02X}"),
            _ if code <= 0xffff => format!("u{code:04X}"),
            _ => format!("U{code:08X}"),
        };
        self.put('\\');
        self.column += escape.len();
        self.out.push_str(&escape);
    }

    fn write_literal(&mut self, value: &str) {
        self.write_indicator("|", true, false, false);
        if value.starts_with([' ', '\r', '\n', '\u{85}', '\u{2028}', '\u{2029}']) {
            self.write_indicator(&INDENT.to_string(), false, false, false);
        }
        let mut from_end = value.chars().rev();
        match (from_end.next(), from_end.next()) {
            (Some(last), before) if is_break(last) => {
                if before.is_none_or(is_break) {
                    self.write_indicator("+", false, false, false);
                }
            }
            _ => self.write_indicator("-", false, false, false),
        }
        self.put_break();
        self.indention = true;
        self.whitespace = true;
        let mut breaks = true;
        for c in value.chars() {
            if is_break(c) {
                self.write_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                self.put(c);
                self.indention = false;
                breaks = false;
            }
        }
    }
}
