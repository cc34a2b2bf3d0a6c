//! Regular expressions of schemas. They are Go's: the same language as that of the `regex` crate,
//! but `\d`, `\s` and `\w` mean ASCII only.

use regex::{Regex, RegexBuilder};

/// A compiled pattern may take this much memory.
const SIZE_LIMIT: usize = 4 << 20;

pub(crate) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&ascii_classes(pattern)).size_limit(SIZE_LIMIT).build()
}

/// Replaces the Perl classes by what Go means by them.
fn ascii_classes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                let Some(escaped) = characters.next() else {
                    out.push('\\');
                    break;
                };
                let class = match escaped.to_ascii_lowercase() {
                    'd' => "0-9",
                    's' => r"\t\n\x0C\r ",
                    'w' => "0-9A-Za-z_",
                    _ => {
                        out.push('\\');
                        out.push(escaped);
                        continue;
                    }
                };
                match (in_class, escaped.is_ascii_uppercase()) {
                    (true, false) => out.push_str(class),
                    (_, true) => out.push_str(&format!("[^{class}]")),
                    (false, false) => out.push_str(&format!("[{class}]")),
                }
            }
            '[' if in_class => out.push_str(if characters.as_str().starts_with(':') { "[" } else { r"\[" }),
            '[' => {
                in_class = true;
                out.push('[');
                // A bracket right after the opening (or its negation) stands for itself.
                for first in ['^', ']'] {
                    if characters.as_str().starts_with(first) {
                        characters.next();
                        out.push_str(if first == ']' { r"\]" } else { "^" });
                    }
                }
            }
            ']' => {
                // The end of a named class such as [:alpha:] does not end the brackets around it.
                in_class = in_class && out.ends_with(':');
                out.push(']');
            }
            // Go has no set operations in brackets.
            '&' | '~' | '-' if in_class && characters.as_str().starts_with(character) => {
                out.push('\\');
                out.push(character);
            }
            plain => out.push(plain),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perl_classes_are_ascii() {
        let table = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١", false),
            (r"^[\w.-]+$", "a_b.c-1", true),
            (r"^\W$", "é", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^[[:alpha:]1]+$", "ab1", true),
            (r"^[]a]+$", "]a", true),
            (r"^[a[]+$", "[a", true),
            (r"^[a&&b]+$", "&", true),
            (r"^\p{L}+$", "é", true),
        ];
        for (pattern, text, want) in table {
            assert_eq!(compile(pattern).unwrap().is_match(text), want, "{pattern} on {text}");
        }
    }
}
