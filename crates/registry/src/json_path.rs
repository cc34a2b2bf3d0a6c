//! The part of JSONPath that printer columns use.

use serde_json::Value;

/// Longest path and most steps that are read.
const MAX_BYTES: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// `?(@.a.b == value)`, or `!=`.
    Filter {
        path: Vec<String>,
        equal: bool,
        value: Value,
    },
}

impl JsonPath {
    /// Reads `.a.b[0]`, `.a['b.c']`, `.a.b\.c`, `.a[*].b`, `.a[?(@.type=="Ready")].status`, with or without
    /// `$` or braces around it. `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let (step, after) = bracket(inner)?;
                steps.push(step);
                rest = after;
            } else {
                let (name, after) = name(rest.strip_prefix('.')?)?;
                if !name.is_empty() {
                    steps.push(if name == "*" { Step::All } else { Step::Field(name) });
                } else if !after.starts_with('[') && !after.is_empty() {
                    return None;
                }
                rest = after;
            }
        }
        Some(Self { steps })
    }

    /// The first value at the path.
    pub(crate) fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let mut found = vec![object];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                step.walk(value, &mut next);
            }
            found = next;
        }
        found.first().copied()
    }
}

impl Step {
    fn walk<'a>(&self, value: &'a Value, next: &mut Vec<&'a Value>) {
        match (self, value) {
            (Self::Field(name), Value::Object(map)) => next.extend(map.get(name)),
            (Self::Index(at), Value::Array(items)) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let at = if *at < 0 { length.saturating_add(*at) } else { *at };
                next.extend(usize::try_from(at).ok().and_then(|at| items.get(at)));
            }
            (Self::All, Value::Array(items)) => next.extend(items),
            (Self::All, Value::Object(map)) => next.extend(map.values()),
            (Self::Filter { path, equal, value: wanted }, Value::Array(items)) => {
                next.extend(items.iter().filter(|item| {
                    let mut at = Some(*item);
                    for name in path {
                        at = at.and_then(|value| value.get(name));
                    }
                    at.is_some_and(|found| (found == wanted) == *equal)
                }));
            }
            _ => {}
        }
    }
}

/// A field name up to the next dot or bracket; a backslash takes the next character as it is.
fn name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '.' | '[' => return Some((name, text.get(at..)?)),
            '\\' => name.push(characters.next()?.1),
            '{' | '}' | ']' | '(' | ')' => return None,
            _ => name.push(character),
        }
    }
    Some((name, ""))
}

/// What stands in brackets, and what follows them.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let end = filter.find(")]")?;
        let (condition, after) = filter.split_at_checked(end)?;
        return Some((condition_step(condition)?, after.get(2..)?));
    }
    if let Some(quote) = text.chars().next().filter(|c| ['\'', '"'].contains(c)) {
        let inner = text.get(1..)?;
        let end = inner.find(quote)?;
        let (name, after) = inner.split_at_checked(end)?;
        return Some((Step::Field(name.to_owned()), after.get(1..)?.strip_prefix(']')?));
    }
    let (inner, after) = text.split_once(']')?;
    match inner.trim() {
        "*" => Some((Step::All, after)),
        number => Some((Step::Index(number.parse().ok()?), after)),
    }
}

fn condition_step(text: &str) -> Option<Step> {
    let (operator, equal) = if text.contains("==") { ("==", true) } else { ("!=", false) };
    let (left, right) = text.split_once(operator)?;
    let path = left.trim().strip_prefix("@.")?.split('.').map(str::to_owned).collect();
    let right = right.trim();
    let quoted = |quote: char| right.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    let value = match quoted('"').or_else(|| quoted('\'')) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(right).ok()?,
    };
    Some(Step::Filter { path, equal, value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_printer_columns_find_their_values() {
        let object = json!({
            "status": {"conditions": [{"type": "A", "status": "x"}, {"type": "Ready", "status": "True", "n": 2}]},
            "metadata": {"annotations": {"a.b/c": "v"}}, "list": [1, 2, 3], "map": {"k": "w"},
        });
        for (path, expected) in [
            (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("True"))),
            (".status.conditions[?(@.type == 'Ready')].status", Some(json!("True"))),
            (".status.conditions[?(@.type!=\"A\")].type", Some(json!("Ready"))),
            (".status.conditions[?(@.n==2)].type", Some(json!("Ready"))),
            (".status.conditions[?(@.type==\"No\")].status", None),
            (".metadata.annotations.a\\.b/c", Some(json!("v"))),
            (".metadata.annotations['a.b/c']", Some(json!("v"))),
            ("{.list[0]}", Some(json!(1))),
            ("$.list[-1]", Some(json!(3))),
            (".list[9]", None),
            (".list[*]", Some(json!(1))),
            (".map.*", Some(json!("w"))),
            (".none.at.all", None),
        ] {
            let found = JsonPath::parse(path).unwrap_or_else(|| panic!("{path}")).find(&object).cloned();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_simple_path_is_not_read() {
        for path in ["a", ".a[", ".a[x]", ".a[?(@.b)]", ".a..b", ".a}", ".a[?(b==1)]"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[.\\[\\]?(@='\"*$a1{}\\\\)]{0,24}") {
            if let Some(path) = JsonPath::parse(&text) {
                path.find(&json!({"a": [{"a": 1}], "1": "x"}));
            }
        }
    }
}
