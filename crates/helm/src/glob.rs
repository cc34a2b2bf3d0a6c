//! The globs of `.Files.Glob`: `github.com/gobwas/glob` with the slash as separator.

/// A pattern. Text that cannot be read as one matches everything, as in Helm.
#[derive(Debug)]
pub(crate) struct Glob(Vec<Vec<Item>>);

#[derive(Debug, Clone)]
enum Item {
    Char(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `**`
    All,
    List {
        negated: bool,
        chars: Vec<char>,
    },
    Range {
        negated: bool,
        low: char,
        high: char,
    },
}

/// Alternatives multiply; more than this many are not read.
const MAX_ALTERNATIVES: usize = 1024;

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        let chars: Vec<char> = pattern.chars().collect();
        let mut at = 0;
        match alternatives(&chars, &mut at, 0) {
            Some(alternatives) if at == chars.len() => Self(alternatives),
            _ => Self(vec![vec![Item::All]]),
        }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        self.0.iter().any(|items| matches(items, &name))
    }
}

/// A sequence of items up to the end, or inside braces up to a comma or the closing brace.
fn alternatives(chars: &[char], at: &mut usize, depth: usize) -> Option<Vec<Vec<Item>>> {
    if depth > 16 {
        return None;
    }
    let mut all: Vec<Vec<Item>> = vec![Vec::new()];
    let mut add = |choices: Vec<Vec<Item>>| {
        if all.len() * choices.len() > MAX_ALTERNATIVES {
            return None;
        }
        all = all
            .iter()
            .flat_map(|head| choices.iter().map(move |tail| head.iter().chain(tail).cloned().collect()))
            .collect();
        Some(())
    };
    while let Some(&c) = chars.get(*at) {
        match c {
            ',' | '}' if depth > 0 => break,
            '{' => {
                *at += 1;
                let mut choices = Vec::new();
                loop {
                    choices.extend(alternatives(chars, at, depth + 1)?);
                    match chars.get(*at) {
                        Some(',') => *at += 1,
                        Some('}') => break,
                        _ => return None,
                    }
                }
                *at += 1;
                add(choices)?;
            }
            '[' => {
                *at += 1;
                let item = class(chars, at)?;
                add(vec![vec![item]])?;
            }
            '*' if chars.get(*at + 1) == Some(&'*') => {
                *at += 2;
                add(vec![vec![Item::All]])?;
            }
            '*' | '?' => {
                *at += 1;
                add(vec![vec![if c == '*' { Item::Many } else { Item::One }]])?;
            }
            '\\' => {
                let Some(&escaped) = chars.get(*at + 1) else {
                    *at += 1;
                    break;
                };
                *at += 2;
                add(vec![vec![Item::Char(escaped)]])?;
            }
            c => {
                *at += 1;
                add(vec![vec![Item::Char(c)]])?;
            }
        }
    }
    Some(all)
}

/// `[abc]`, `[a-z]` and both with `!`.
fn class(chars: &[char], at: &mut usize) -> Option<Item> {
    let negated = chars.get(*at) == Some(&'!');
    *at += usize::from(negated);
    if let (Some(&low), Some('-'), Some(&high)) = (chars.get(*at), chars.get(*at + 1), chars.get(*at + 2)) {
        *at += 3;
        if chars.get(*at) != Some(&']') || high < low {
            return None;
        }
        *at += 1;
        return Some(Item::Range { negated, low, high });
    }
    let mut list = Vec::new();
    loop {
        match chars.get(*at)? {
            ']' => break,
            '\\' => {
                list.push(*chars.get(*at + 1)?);
                *at += 2;
            }
            c => {
                list.push(*c);
                *at += 1;
            }
        }
    }
    *at += 1;
    (!list.is_empty()).then_some(Item::List { negated, chars: list })
}

/// Which items can be reached after each character: linear in pattern times name.
fn matches(items: &[Item], name: &[char]) -> bool {
    let mut reached = vec![false; items.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    skip_stars(items, &mut reached);
    for &c in name {
        let mut next = vec![false; items.len() + 1];
        for (i, item) in items.iter().enumerate() {
            if !reached.get(i).copied().unwrap_or(false) {
                continue;
            }
            let (stays, goes) = match item {
                Item::All => (true, false),
                Item::Many => (c != '/', false),
                Item::One => (false, c != '/'),
                Item::Char(wanted) => (false, c == *wanted),
                Item::List { negated, chars } => (false, chars.contains(&c) != *negated),
                Item::Range { negated, low, high } => (false, (*low..=*high).contains(&c) != *negated),
            };
            if stays && let Some(slot) = next.get_mut(i) {
                *slot = true;
            }
            if goes && let Some(slot) = next.get_mut(i + 1) {
                *slot = true;
            }
        }
        reached = next;
        skip_stars(items, &mut reached);
    }
    reached.last().copied().unwrap_or(false)
}

fn skip_stars(items: &[Item], reached: &mut [bool]) {
    for (i, item) in items.iter().enumerate() {
        if matches!(item, Item::Many | Item::All)
            && reached.get(i).copied().unwrap_or(false)
            && let Some(slot) = reached.get_mut(i + 1)
        {
            *slot = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of gobwas/glob v0.2.3.
    #[test]
    fn globs_match_as_in_helm() {
        let table = [
            ("data/*.txt", "data/a.txt", true),
            ("data/*.txt", "data/deep/a.txt", false),
            ("data/**.txt", "data/deep/a.txt", true),
            ("data/**", "data/deep/a.txt", true),
            ("**", "x/y", true),
            ("*", "x/y", false),
            ("{a,b}/*", "b/x", true),
            ("{a,b}/*", "c/x", false),
            ("[a-c]?", "bz", true),
            ("[!a-c]", "d", true),
            ("[!ab]", "a", false),
            ("a\\*", "a*", true),
            ("config/{dev,prod}-*.{yaml,yml}", "config/prod-1.yml", true),
            ("[", "anything", true),
            ("{a", "anything/at/all", true),
        ];
        for (pattern, name, wanted) in table {
            assert_eq!(Glob::new(pattern).matches(name), wanted, "{name} against {pattern}");
        }
    }
}
