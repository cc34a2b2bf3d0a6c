//! From Go's regular expression syntax to the regex crate's.
//!
//! Both come from RE2. They differ in what `\w`, `\d`, `\s` and `\b` cover (ASCII in Go), in braces and
//! brackets that Go takes literally, in escapes, and in the set operators that Go does not have.

const MAX_REPEAT: u32 = 1_000;
const MAX_NESTING: usize = 1_000;

/// Rewrites a pattern.
///
/// # Errors
/// Go's text after `error parsing regexp: `.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut translator =
        Translator { rest: pattern, pattern, out: String::with_capacity(pattern.len() * 2), depth: 0 };
    translator.run()?;
    Ok(translator.out)
}

struct Translator<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    depth: usize,
}

fn error<T>(message: &str, what: &str) -> Result<T, String> {
    Err(format!("{message}: `{what}`"))
}

fn literal(out: &mut String, c: char) {
    if c.is_ascii() && !c.is_ascii_alphanumeric() {
        out.push_str(&format!("\\x{{{:x}}}", u32::from(c)));
    } else {
        out.push(c);
    }
}

// Perl classes as members of a bracket expression.
fn perl_members(c: char) -> Option<&'static str> {
    Some(match c.to_ascii_lowercase() {
        'd' => "0-9",
        's' => "\\t\\n\\x0c\\r\\x20",
        'w' => "0-9A-Za-z_",
        _ => return None,
    })
}

impl<'p> Translator<'p> {
    fn bump(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn run(&mut self) -> Result<(), String> {
        // Whether something stands here that can be repeated, and where the last repetition began.
        let mut operand = false;
        let mut repetition: Option<&'p str> = None;
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            match c {
                '(' => {
                    self.depth += 1;
                    if self.depth > MAX_NESTING {
                        return error("expression nests too deeply", self.pattern);
                    }
                    self.open()?;
                    operand = self.out.ends_with("\u{0}");
                    if operand {
                        self.out.pop();
                        self.depth -= 1;
                    }
                    operand = false;
                    repetition = None;
                }
                ')' => {
                    if self.depth == 0 {
                        return error("unexpected )", self.pattern);
                    }
                    self.depth -= 1;
                    self.bump();
                    self.out.push(')');
                    operand = true;
                    repetition = None;
                }
                '|' => {
                    self.bump();
                    self.out.push('|');
                    operand = false;
                    repetition = None;
                }
                '*' | '+' | '?' => {
                    self.bump();
                    self.eat("?");
                    let length = before.len() - self.rest.len();
                    let written = before.get(..length).unwrap_or_default();
                    self.repeat(written, before, operand, &mut repetition)?;
                }
                '{' => match self.counted()? {
                    Some(written) => self.repeat(written, before, operand, &mut repetition)?,
                    None => {
                        self.bump();
                        literal(&mut self.out, '{');
                        operand = true;
                        repetition = None;
                    }
                },
                '[' => {
                    self.class()?;
                    operand = true;
                    repetition = None;
                }
                '\\' => {
                    operand = self.escape()? || operand;
                    repetition = None;
                }
                '^' | '$' => {
                    self.bump();
                    self.out.push(c);
                    operand = true;
                    repetition = None;
                }
                '.' => {
                    self.bump();
                    self.out.push('.');
                    operand = true;
                    repetition = None;
                }
                _ => {
                    self.bump();
                    literal(&mut self.out, c);
                    operand = true;
                    repetition = None;
                }
            }
        }
        if self.depth > 0 { error("missing closing )", self.pattern) } else { Ok(()) }
    }

    fn repeat(
        &mut self,
        written: &str,
        before: &'p str,
        operand: bool,
        repetition: &mut Option<&'p str>,
    ) -> Result<(), String> {
        if let Some(first) = repetition {
            let length = first.len() - self.rest.len();
            return error("invalid nested repetition operator", first.get(..length).unwrap_or_default());
        }
        if !operand {
            return error("missing argument to repetition operator", written);
        }
        self.out.push_str(written);
        *repetition = Some(before);
        Ok(())
    }

    // `{2}`, `{2,}` or `{2,5}` with what makes it lazy; anything else is a literal brace.
    fn counted(&mut self) -> Result<Option<&'p str>, String> {
        let before = self.rest;
        let Some(close) = before.find('}') else { return Ok(None) };
        let body = before.get(1..close).unwrap_or_default();
        let (low, high) = match body.split_once(',') {
            Some((low, high)) => (low, Some(high)),
            None => (body, None),
        };
        let digits = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_digit())
                && !(text.len() > 1 && text.starts_with('0'))
        };
        if !digits(low) || high.is_some_and(|high| !high.is_empty() && !digits(high)) {
            return Ok(None);
        }
        let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        let bad = number(low) > MAX_REPEAT
            || high
                .filter(|h| !h.is_empty())
                .is_some_and(|h| number(h) > MAX_REPEAT || number(h) < number(low));
        self.rest = before.get(close + 1..).unwrap_or_default();
        self.eat("?");
        let written = before.get(..before.len() - self.rest.len()).unwrap_or_default();
        if bad {
            return error("invalid repeat count", written.trim_end_matches('?'));
        }
        Ok(Some(written))
    }

    // An opening parenthesis with its flags or name. Flags alone leave a mark for `run`.
    fn open(&mut self) -> Result<(), String> {
        let before = self.rest;
        self.bump();
        if !self.eat("?") {
            self.out.push('(');
            return Ok(());
        }
        if self.eat("P<")
            || self.rest.starts_with('<')
                && !self.rest.starts_with("<=")
                && !self.rest.starts_with("<!")
                && self.eat("<")
        {
            let Some(end) = self.rest.find('>') else { return error("invalid named capture", before) };
            let name = self.rest.get(..end).unwrap_or_default();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            let valid = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !valid {
                let written = before.get(..before.len() - self.rest.len()).unwrap_or_default();
                return error("invalid named capture", written);
            }
            // The regex crate wants a name to start with a letter.
            self.out.push_str(&format!("(?P<{name}>"));
            return Ok(());
        }
        let mut flags = String::from("(?");
        let mut seen = false;
        loop {
            let Some(c) = self.bump() else { return error("missing closing )", self.pattern) };
            match c {
                'i' | 'm' | 's' | 'U' => {
                    seen = true;
                    flags.push(c);
                }
                '-' if !flags.contains('-') => {
                    seen = false;
                    flags.push(c);
                }
                ':' | ')' if seen || flags == "(?" && c == ':' => {
                    flags.push(c);
                    self.out.push_str(&flags);
                    if c == ')' {
                        self.out.push('\u{0}');
                    }
                    return Ok(());
                }
                _ => {
                    let written = before.get(..before.len() - self.rest.len()).unwrap_or_default();
                    return error("invalid or unsupported Perl syntax", written);
                }
            }
        }
    }

    // An escape outside brackets. Gives whether it can be repeated.
    fn escape(&mut self) -> Result<bool, String> {
        let before = self.rest;
        self.bump();
        let Some(c) = self.rest.chars().next() else {
            return Err("trailing backslash at end of expression: ``".into());
        };
        match c {
            'A' | 'z' => {
                self.bump();
                self.out.push('\\');
                self.out.push(c);
                Ok(true)
            }
            'b' | 'B' => {
                self.bump();
                self.out.push_str(if c == 'b' { "(?-u:\\b)" } else { "(?-u:\\B)" });
                Ok(true)
            }
            'Q' => {
                self.bump();
                let (quoted, after) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                self.rest = after;
                for c in quoted.chars() {
                    literal(&mut self.out, c);
                }
                Ok(!quoted.is_empty())
            }
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                self.bump();
                let negated = if c.is_ascii_uppercase() { "^" } else { "" };
                self.out.push_str(&format!("[{negated}{}]", perl_members(c).unwrap_or_default()));
                Ok(true)
            }
            'p' | 'P' => {
                let class = self.unicode_class(before)?;
                self.out.push_str(&class);
                Ok(true)
            }
            _ => {
                let c = self.escaped_char(before)?;
                literal(&mut self.out, c);
                Ok(true)
            }
        }
    }

    fn unicode_class(&mut self, before: &'p str) -> Result<String, String> {
        let letter = self.bump().unwrap_or('p');
        let name = if self.eat("{") {
            let Some((name, after)) = self.rest.split_once('}') else {
                return error("invalid character class range", before);
            };
            self.rest = after;
            name.to_owned()
        } else {
            self.bump().map(String::from).unwrap_or_default()
        };
        let (negated, name) = match name.strip_prefix('^') {
            Some(name) => (letter == 'p', name),
            None => (letter == 'P', name.as_str()),
        };
        if name == "Any" {
            return Ok(if negated { "[^\\x{0}-\\x{10FFFF}]" } else { "[\\x{0}-\\x{10FFFF}]" }.into());
        }
        Ok(format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' }))
    }

    // The character that an escape stands for; the backslash is read.
    fn escaped_char(&mut self, before: &'p str) -> Result<char, String> {
        let bad = |after: &str| {
            let written = before.get(..before.len() - after.len()).unwrap_or_default();
            Err(format!("invalid escape sequence: `{written}`"))
        };
        let Some(c) = self.bump() else {
            return Err("trailing backslash at end of expression: ``".into());
        };
        match c {
            '0'..='7' => {
                let next_octal = self.rest.starts_with(|c: char| ('0'..='7').contains(&c));
                if c != '0' && !next_octal {
                    return bad(self.rest);
                }
                let mut code = c.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
                    self.bump();
                    code = code * 8 + digit;
                }
                Ok(char::from_u32(code).unwrap_or('\0'))
            }
            'x' => {
                if self.eat("{") {
                    let Some((hex, after)) = self.rest.split_once('}') else { return bad("") };
                    self.rest = after;
                    let code = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
                    return match code {
                        Some(c) => Ok(c),
                        None => bad(self.rest),
                    };
                }
                let hex = self.rest.get(..2).unwrap_or_default();
                match u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 2).and_then(char::from_u32) {
                    Some(c) => {
                        self.rest = self.rest.get(2..).unwrap_or_default();
                        Ok(c)
                    }
                    None => bad(self.rest.get(2..).unwrap_or_default()),
                }
            }
            'a' => Ok('\x07'),
            'f' => Ok('\x0c'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\x0b'),
            _ if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(c),
            _ => bad(self.rest),
        }
    }

    fn class(&mut self) -> Result<(), String> {
        let before = self.rest;
        let unclosed = || Err(format!("missing closing ]: `{before}`"));
        self.bump();
        let mut out = String::from("[");
        if self.eat("^") {
            out.push('^');
        }
        let mut first = true;
        loop {
            if self.rest.is_empty() {
                return unclosed();
            }
            if self.rest.starts_with(']') && !first {
                self.bump();
                break;
            }
            first = false;
            if let Some(body) = self.rest.strip_prefix("[:")
                && let Some((name, after)) = body.split_once(":]")
            {
                let known = [
                    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
                    "space", "upper", "word", "xdigit",
                ];
                if !known.contains(&name.trim_start_matches('^')) {
                    return error("invalid character class range", &format!("[:{name}:]"));
                }
                out.push_str(&format!("[:{name}:]"));
                self.rest = after;
                continue;
            }
            let start = self.rest;
            if start.starts_with('\\') {
                let escape = start.chars().nth(1);
                if let Some(c @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) = escape {
                    self.rest = start.get(2..).unwrap_or_default();
                    let members = perl_members(c).unwrap_or_default();
                    if c.is_ascii_uppercase() {
                        out.push_str(&format!("[^{members}]"));
                    } else {
                        out.push_str(members);
                    }
                    continue;
                }
                if matches!(escape, Some('p' | 'P')) {
                    self.bump();
                    let class = self.unicode_class(start)?;
                    out.push_str(&class);
                    continue;
                }
            }
            let low = self.class_char(before)?;
            let mut high = low;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1 {
                self.bump();
                high = self.class_char(before)?;
                if high < low {
                    let written = start.get(..start.len() - self.rest.len()).unwrap_or_default();
                    return error("invalid character class range", written);
                }
            }
            out.push_str(&format!("\\x{{{:x}}}", u32::from(low)));
            if high != low {
                out.push_str(&format!("-\\x{{{:x}}}", u32::from(high)));
            }
        }
        out.push(']');
        self.out.push_str(&out);
        Ok(())
    }

    fn class_char(&mut self, class: &'p str) -> Result<char, String> {
        let before = self.rest;
        match self.bump() {
            None => error("missing closing ]", class),
            Some('\\') => self.escaped_char(before),
            Some(c) => Ok(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads_as_literal_or_ascii_is_rewritten() {
        let cases = [
            (r"\d+", "[0-9]+"),
            (r"[\w-\.]", r"[0-9A-Za-z_\x{2d}\x{2e}]"),
            (r"a{,2}", r"a\x{7b}\x{2c}2\x{7d}"),
            (r"[a&&b]", r"[\x{61}\x{26}\x{26}\x{62}]"),
            (r"(?i)x|\bq", r"(?i)x|(?-u:\b)q"),
            (r"\Qa.b\E+", r"a\x{2e}b+"),
        ];
        for (go, rust) in cases {
            assert_eq!(translate(go).as_deref(), Ok(rust), "{go}");
        }
    }

    #[test]
    fn faults_are_named_as_go_names_them() {
        let cases = [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("*", "missing argument to repetition operator: `*`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("(?=x)", "invalid or unsupported Perl syntax: `(?=`"),
            ("\\", "trailing backslash at end of expression: ``"),
        ];
        for (go, want) in cases {
            assert_eq!(translate(go), Err(want.to_owned()), "{go}");
        }
    }
}
