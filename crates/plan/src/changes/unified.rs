//! An object, and how it would change, as lines of YAML.

use std::fmt::Write as _;

use serde_json::Value;

use super::HIDDEN;
use super::compare::{Node, Pair};
use super::hidden::{Hiding, Side};

/// Lines around a change.
const CONTEXT: usize = 3;
/// Lines of one object.
const MOST_LINES: usize = 4000;
/// Products of numbers of lines up to which the fewest changed lines are looked for.
const MOST_WORK: usize = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Both,
    Before,
    After,
}

impl Mark {
    const fn sign(self) -> char {
        match self {
            Self::Both => ' ',
            Self::Before => '-',
            Self::After => '+',
        }
    }

    fn is_on(self, side: Self) -> bool {
        self == Self::Both || self == side
    }
}

struct Line {
    mark: Mark,
    text: String,
}

/// The whole object, without marks.
pub(super) fn whole(object: &Value, hiding: &Hiding<'_>) -> String {
    let shown = hiding.shown(object, &Pair::root(), Side::After);
    let lines = written(&shown, 0, None);
    let mut text: String = lines.iter().take(MOST_LINES).fold(String::new(), |mut text, line| {
        text.push_str(line);
        text.push('\n');
        text
    });
    if lines.len() > MOST_LINES {
        _ = writeln!(text, "# {} more lines", lines.len() - MOST_LINES);
    }
    text
}

/// The changed lines and some around them; empty when none changed.
pub(super) fn unified(node: &Node<'_>, hiding: &Hiding<'_>) -> String {
    let mut lines = Vec::new();
    told(node, &Pair::root(), 0, None, hiding, &mut lines);
    hunks(&lines)
}

/// The lines of a node, `indent` deep, behind the name of its field.
fn told(
    node: &Node<'_>,
    at: &Pair,
    indent: usize,
    name: Option<&str>,
    hiding: &Hiding<'_>,
    out: &mut Vec<Line>,
) {
    let write = |value: &Value, side| written(&hiding.shown(value, at, side), indent, name);
    let head = |out: &mut Vec<Line>| {
        if let Some(name) = name {
            out.push(Line { mark: Mark::Both, text: headed(name, indent, hiding) });
        }
    };
    let below = if name.is_some() { indent + 2 } else { indent };
    match node {
        _ if hiding.hides_node(node, at) => {
            let lines = || scalar(&HIDDEN.into(), indent, name);
            mark(out, Mark::Before, told_apart(lines(), "before"));
            mark(out, Mark::After, told_apart(lines(), "after"));
        }
        Node::Same(value) => mark(out, Mark::Both, write(value, Side::Both)),
        Node::Changed(Some(before), Some(after)) => {
            let (old, new) = (write(before, Side::Before), write(after, Side::After));
            if old == new {
                // Both are hidden, or masked to the same words.
                mark(out, Mark::Before, told_apart(old, "before"));
                mark(out, Mark::After, told_apart(new, "after"));
            } else {
                aligned(out, &old, &new);
            }
        }
        Node::Changed(before, after) => {
            if let Some(before) = before {
                mark(out, Mark::Before, write(before, Side::Before));
            }
            if let Some(after) = after {
                mark(out, Mark::After, write(after, Side::After));
            }
        }
        Node::Map(fields) => {
            head(out);
            for (name, node) in fields {
                told(node, &at.field(name), below, Some(name), hiding, out);
            }
        }
        Node::List(items) => {
            head(out);
            // As kubectl writes lists: the dashes stand below the name.
            let dashes = below.saturating_sub(2);
            for (label, node) in items {
                let start = out.len();
                told(node, &at.item(label), dashes + 2, None, hiding, out);
                for side in [Mark::Before, Mark::After] {
                    let first = out.iter_mut().skip(start).find(|line| line.mark.is_on(side));
                    if let Some(line) = first {
                        dash(&mut line.text, dashes);
                    }
                }
            }
        }
    }
}

fn mark(out: &mut Vec<Line>, mark: Mark, lines: Vec<String>) {
    out.extend(lines.into_iter().map(|text| Line { mark, text }));
}

/// Says in the last line which side it is of: it reads the same on both.
fn told_apart(mut lines: Vec<String>, which: &str) -> Vec<String> {
    if let Some(last) = lines.last_mut() {
        _ = write!(last, " # {which}");
    }
    lines
}

fn dash(line: &mut String, indent: usize) {
    if line.get(indent..indent + 2) == Some("  ") {
        line.replace_range(indent..indent + 2, "- ");
    }
}

fn headed(name: &str, indent: usize, hiding: &Hiding<'_>) -> String {
    format!("{}{}:", " ".repeat(indent), key(&(hiding.mask.text)(name)))
}

fn key(name: &str) -> String {
    plain(&name.into())
}

/// A scalar in YAML.
fn plain(value: &Value) -> String {
    if value == HIDDEN {
        return HIDDEN.to_owned();
    }
    match convoy_yaml::to_yaml(value) {
        Ok(text) => text.trim_end_matches('\n').to_owned(),
        Err(_) => value.to_string(),
    }
}

/// A value that is fit to be shown as lines of YAML.
fn written(value: &Value, indent: usize, name: Option<&str>) -> Vec<String> {
    let pad = " ".repeat(indent);
    let mut lines = Vec::new();
    let below = if name.is_some() { indent + 2 } else { indent };
    let head = |lines: &mut Vec<String>| {
        if let Some(name) = name {
            lines.push(format!("{pad}{}:", key(name)));
        }
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            head(&mut lines);
            for (name, value) in fields {
                lines.extend(written(value, below, Some(name)));
            }
        }
        Value::Array(items) if !items.is_empty() => {
            head(&mut lines);
            let dashes = below.saturating_sub(2);
            for item in items {
                let start = lines.len();
                lines.extend(written(item, dashes + 2, None));
                if let Some(first) = lines.get_mut(start) {
                    dash(first, dashes);
                }
            }
        }
        value => lines = scalar(value, indent, name),
    }
    lines
}

fn scalar(value: &Value, indent: usize, name: Option<&str>) -> Vec<String> {
    let pad = " ".repeat(indent);
    let text = plain(value);
    let mut parts = text.lines();
    let first = parts.next().unwrap_or_default();
    let head = name.map(|name| format!("{}: ", key(name))).unwrap_or_default();
    let mut lines = vec![format!("{pad}{head}{first}")];
    lines.extend(parts.map(|part| if part.is_empty() { String::new() } else { format!("{pad}{part}") }));
    lines
}

/// Two texts with the lines that both have told once.
fn aligned(out: &mut Vec<Line>, old: &[String], new: &[String]) {
    let same = |(a, b): &(&String, &String)| a == b;
    let start = old.iter().zip(new).take_while(same).count();
    let room = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(room).take_while(same).count();
    let (old_end, new_end) = (old.len() - end, new.len() - end);
    let (olds, news) =
        (old.get(start..old_end).unwrap_or_default(), new.get(start..new_end).unwrap_or_default());
    mark(out, Mark::Both, old.get(..start).unwrap_or_default().to_vec());
    let (mut a, mut b) = (0, 0);
    for (x, y) in common(olds, news) {
        mark(out, Mark::Before, olds.get(a..x).unwrap_or_default().to_vec());
        mark(out, Mark::After, news.get(b..y).unwrap_or_default().to_vec());
        mark(out, Mark::Both, olds.get(x..=x).unwrap_or_default().to_vec());
        (a, b) = (x + 1, y + 1);
    }
    mark(out, Mark::Before, olds.get(a..).unwrap_or_default().to_vec());
    mark(out, Mark::After, news.get(b..).unwrap_or_default().to_vec());
    mark(out, Mark::Both, old.get(old_end..).unwrap_or_default().to_vec());
}

/// The longest common subsequence as pairs of indexes; none when the texts are too long to look for one.
fn common(old: &[String], new: &[String]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    if old.is_empty() || new.is_empty() || old.len().saturating_mul(new.len()) > MOST_WORK {
        return Vec::new();
    }
    // How many lines the rests have in common.
    let mut rest = vec![0_u32; (old.len() + 1) * width];
    let at = |rest: &[u32], x: usize, y: usize| rest.get(x * width + y).copied().unwrap_or(0);
    for (x, line) in old.iter().enumerate().rev() {
        for (y, other) in new.iter().enumerate().rev() {
            let best = match line == other {
                true => at(&rest, x + 1, y + 1) + 1,
                false => at(&rest, x + 1, y).max(at(&rest, x, y + 1)),
            };
            if let Some(cell) = rest.get_mut(x * width + y) {
                *cell = best;
            }
        }
    }
    let (mut pairs, mut x, mut y) = (Vec::new(), 0, 0);
    while let (Some(line), Some(other)) = (old.get(x), new.get(y)) {
        if line == other {
            pairs.push((x, y));
            (x, y) = (x + 1, y + 1);
        } else if at(&rest, x + 1, y) >= at(&rest, x, y + 1) {
            x += 1;
        } else {
            y += 1;
        }
    }
    pairs
}

fn hunks(lines: &[Line]) -> String {
    let mut text = String::new();
    let changed: Vec<usize> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.mark != Mark::Both)
        .map(|(index, _)| index)
        .collect();
    let mut told = 0;
    let (mut before, mut after, mut next) = (1, 1, 0);
    let mut changes = changed.iter().copied().peekable();
    while let Some(first) = changes.next() {
        let mut last = first;
        while let Some(following) = changes.next_if(|index| *index <= last + 2 * CONTEXT) {
            last = following;
        }
        let start = first.saturating_sub(CONTEXT).max(next);
        let end = (last + CONTEXT + 1).min(lines.len());
        let count = |from: usize, to: usize, side| {
            lines.get(from..to).unwrap_or_default().iter().filter(|line| line.mark.is_on(side)).count()
        };
        before += count(next, start, Mark::Before);
        after += count(next, start, Mark::After);
        let (olds, news) = (count(start, end, Mark::Before), count(start, end, Mark::After));
        // A side without lines begins before its first, as diff has it.
        let (from, to) = (before - usize::from(olds == 0), after - usize::from(news == 0));
        _ = writeln!(text, "@@ -{from},{olds} +{to},{news} @@");
        for line in lines.get(start..end).unwrap_or_default() {
            if told == MOST_LINES {
                _ = writeln!(text, "\\ more lines were left out");
                return text;
            }
            told += 1;
            _ = writeln!(text, "{}{}", line.mark.sign(), line.text);
        }
        before += olds;
        after += news;
        next = end;
    }
    text
}
