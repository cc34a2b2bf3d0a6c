//! Go's `path/filepath.Match`, as .helmignore and `--show-only` use it.

/// A pattern that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub(crate) struct BadPattern;

/// Whether the whole name matches: `*` and `?` do not match a slash, `[a-z]` and `[^a-z]` match one character,
/// a backslash takes the next character as it is.
pub(crate) fn path_match(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    Ok(Pattern::parse(pattern)?.matches(name))
}

/// A pattern that was read.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// It matches only itself.
    Literal(String),
    Items {
        items: Vec<Item>,
        /// What every name ends with that it matches: most patterns are like `*.bak`, and most names end otherwise.
        end: String,
    },
}

impl Pattern {
    pub(crate) fn parse(pattern: &str) -> Result<Self, BadPattern> {
        if !pattern.contains(['*', '?', '[', '\\']) {
            return Ok(Self::Literal(pattern.to_owned()));
        }
        let items = parse(pattern)?;
        let mut end: Vec<char> = items.iter().rev().map_while(Item::only).collect();
        end.reverse();
        Ok(Self::Items { items, end: end.into_iter().collect() })
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == name,
            Self::Items { items, end } => name.ends_with(end.as_str()) && matches(items, name),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Item {
    Char(char),
    Any,
    Many,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

fn parse(pattern: &str) -> Result<Vec<Item>, BadPattern> {
    let mut chars = pattern.chars().peekable();
    let mut items = Vec::new();
    while let Some(c) = chars.next() {
        items.push(match c {
            '*' => Item::Many,
            '?' => Item::Any,
            '\\' => Item::Char(chars.next().ok_or(BadPattern)?),
            '[' => {
                let negated = chars.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                loop {
                    if !ranges.is_empty() && chars.next_if_eq(&']').is_some() {
                        break;
                    }
                    let low = class_char(&mut chars)?;
                    let high = if chars.next_if_eq(&'-').is_some() { class_char(&mut chars)? } else { low };
                    ranges.push((low, high));
                }
                Item::Class { negated, ranges }
            }
            c => Item::Char(c),
        });
    }
    Ok(items)
}

fn class_char(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<char, BadPattern> {
    let c = match chars.next() {
        None | Some('-' | ']') => return Err(BadPattern),
        Some('\\') => chars.next().ok_or(BadPattern)?,
        Some(c) => c,
    };
    // The class must go on after a character.
    if chars.peek().is_none() { Err(BadPattern) } else { Ok(c) }
}

/// Greedy with one place to go back to: the last `*`. Linear in pattern times name.
fn matches(items: &[Item], name: &str) -> bool {
    let mut i = 0;
    let mut rest = name.chars();
    let mut back: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        let mut after = rest.clone();
        match (items.get(i), after.next()) {
            (Some(Item::Many), _) => {
                back = Some((i, rest.clone()));
                i += 1;
                continue;
            }
            (Some(item), Some(c)) if item.takes(c) => {
                i += 1;
                rest = after;
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((star, from)) = &mut back else { return false };
        if from.next().is_none_or(|c| c == '/') {
            return false;
        }
        i = *star + 1;
        rest = from.clone();
    }
}

impl Item {
    /// The character, when it takes no other.
    fn only(&self) -> Option<char> {
        match self {
            Self::Char(only) => Some(*only),
            _ => None,
        }
    }

    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(wanted) => c == *wanted,
            Self::Any => c != '/',
            Self::Many => false,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the documentation and the behaviour of Go 1.26's `filepath.Match` on Linux.
    #[test]
    fn patterns_match_as_in_go() {
        let table = [
            ("*.bak", "a.bak", Ok(true)),
            ("*.bak", "a/b.bak", Ok(false)),
            ("a/*/b", "a/x/b", Ok(true)),
            ("a/*/b", "a/x/y/b", Ok(false)),
            ("[a-c]?", "bz", Ok(true)),
            ("[^a-c]", "b", Ok(false)),
            ("[^a-c]", "/", Ok(true)),
            ("\\*", "*", Ok(true)),
            ("*a*b*c", "xaybzc", Ok(true)),
            ("*ab", "ab", Ok(true)),
            ("?ab", "ab", Ok(false)),
            ("*\\?é", "a?é", Ok(true)),
            ("*\\?é", "aé", Ok(false)),
            ("[", "a", Err(BadPattern)),
            ("[]a]", "]", Err(BadPattern)),
            ("[a-", "a", Err(BadPattern)),
            ("a\\", "a", Err(BadPattern)),
            ("", "", Ok(true)),
            ("*", "", Ok(true)),
        ];
        for (pattern, name, wanted) in table {
            assert_eq!(path_match(pattern, name), wanted, "{name} against {pattern}");
        }
    }
}
