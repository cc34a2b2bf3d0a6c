//! Label selectors: the full grammar of Kubernetes, as text and as metav1.LabelSelector.

use std::fmt;

use serde_json::Value;

use crate::field_error::go_quote;
use crate::object::Object;
use crate::validation;

/// How one requirement judges a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Present with one of the values.
    In,
    /// Absent, or present with none of the values.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Present and, as a number, greater than the value.
    GreaterThan,
    /// Present and, as a number, less than the value.
    LessThan,
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// How it is judged.
    pub operator: Operator,
    /// The values, sorted; one for the comparisons, none for existence.
    pub values: Vec<String>,
}

/// Requirements that must all hold; none selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// A selector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorError {
    /// The text breaks the grammar.
    #[error("unable to parse requirement: {0}")]
    Syntax(String),
    /// A key, an operator or a value that is not allowed.
    #[error("{0}")]
    Requirement(String),
    /// The text is longer, or has more requirements, than any honest selector.
    #[error(
        "the label selector is too long: at most {MAX_BYTES} bytes and {MAX_REQUIREMENTS} requirements are read"
    )]
    TooLong,
}

const MAX_BYTES: usize = 64 * 1024;
const MAX_REQUIREMENTS: usize = 1024;

impl Requirement {
    /// A requirement, checked.
    ///
    /// # Errors
    /// For a key that is no qualified name, a value that is no label value, or values that the
    /// operator does not take.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, LabelSelectorError> {
        let refused = |text: String| Err(LabelSelectorError::Requirement(text));
        if let Some(fault) = validation::qualified_name(key).first() {
            return refused(format!("key: Invalid value: {}: {fault}", go_quote(key)));
        }
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return refused(
                    "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
                        .into(),
                );
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                return refused(
                    "values: Invalid value: values set must be empty for exists and does not exist".into(),
                );
            }
            Operator::GreaterThan | Operator::LessThan => {
                let [value] = values.as_slice() else {
                    return refused(
                        "values: Invalid value: for 'Gt', 'Lt' operators, exactly one value is required"
                            .into(),
                    );
                };
                if value.parse::<i64>().is_err() {
                    return refused(format!(
                        "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                        go_quote(value)
                    ));
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            if let Some(fault) = validation::label_value(value).first() {
                return refused(format!(
                    "values[{index}][{key}]: Invalid value: {}: {fault}",
                    go_quote(value)
                ));
            }
        }
        values.sort();
        values.dedup();
        Ok(Self { key: key.into(), operator, values })
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|one| one == value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let have = value.and_then(|value| value.parse::<i64>().ok());
                let want = self.values.first().and_then(|value| value.parse::<i64>().ok());
                match (have, want) {
                    (Some(have), Some(want)) if self.operator == Operator::GreaterThan => have > want,
                    (Some(have), Some(want)) => have < want,
                    _ => false,
                }
            }
        }
    }
}

impl LabelSelector {
    /// The selector that selects everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Of requirements.
    pub fn new(requirements: Vec<Requirement>) -> Self {
        let mut selector = Self { requirements };
        selector.requirements.sort_by(|a, b| a.key.cmp(&b.key));
        selector
    }

    /// Reads `a=b,c!=d,e in (f,g),h,!i,j>1`.
    ///
    /// # Errors
    /// When the text breaks the grammar, or a key or value is not allowed.
    pub fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        if text.len() > MAX_BYTES {
            return Err(LabelSelectorError::TooLong);
        }
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let requirements = parser.requirements()?;
        Ok(Self::new(requirements))
    }

    /// Reads a metav1.LabelSelector (`matchLabels`, `matchExpressions`). An empty one selects
    /// everything.
    ///
    /// # Errors
    /// When a key, an operator or a value is not allowed.
    pub fn from_json(selector: &Value) -> Result<Self, LabelSelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::In, vec![value])?);
        }
        for entry in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(LabelSelectorError::Requirement(format!(
                        "{} is not a valid label selector operator",
                        go_quote(other)
                    )));
                }
            };
            let values = entry.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement::new(text("key"), operator, values)?);
        }
        if requirements.len() > MAX_REQUIREMENTS {
            return Err(LabelSelectorError::TooLong);
        }
        Ok(Self::new(requirements))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, in order of the keys.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether labels, looked up by key, satisfy every requirement.
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(lookup(&requirement.key)))
    }

    /// Whether an object's labels satisfy every requirement.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_with(|key| object.label(key))
    }

    /// The one value that `key` must have, when the selector says so.
    pub fn exact(&self, key: &str) -> Option<&str> {
        let mut found = self.requirements.iter().filter(|r| r.key == key && r.operator == Operator::In);
        found.find(|r| r.values.len() == 1).and_then(|r| r.values.first()).map(String::as_str)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let Requirement { key, operator, values } = requirement;
            let first = values.first().map_or("", String::as_str);
            match operator {
                Operator::In if values.len() == 1 => write!(f, "{key}={first}")?,
                Operator::NotIn if values.len() == 1 => write!(f, "{key}!={first}")?,
                Operator::In => write!(f, "{key} in ({})", values.join(","))?,
                Operator::NotIn => write!(f, "{key} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
                Operator::GreaterThan => write!(f, "{key}>{first}")?,
                Operator::LessThan => write!(f, "{key}<{first}")?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", "(", ")", ","];

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
        let length = match symbol {
            Some(symbol) => {
                tokens.push(Token::Symbol(symbol));
                symbol.len()
            }
            None => {
                let end =
                    rest.find(|c: char| c.is_whitespace() || "=!<>(),".contains(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest.get(..end).unwrap_or_default().to_owned()));
                end
            }
        };
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(s)) if *s == symbol);
        self.at += usize::from(found);
        found
    }

    fn unexpected(token: Option<&Token>, wanted: &str) -> LabelSelectorError {
        let found = match token {
            Some(Token::Word(word)) => word.as_str(),
            Some(Token::Symbol(symbol)) => symbol,
            None => "",
        };
        LabelSelectorError::Syntax(format!("found '{found}', expected: {wanted}"))
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, LabelSelectorError> {
        let mut out = Vec::new();
        if self.peek().is_none() {
            return Ok(out);
        }
        loop {
            out.push(self.requirement()?);
            if out.len() > MAX_REQUIREMENTS {
                return Err(LabelSelectorError::TooLong);
            }
            match self.next() {
                None => return Ok(out),
                Some(Token::Symbol(",")) => match self.peek() {
                    Some(Token::Word(_) | Token::Symbol("!")) => {}
                    other => return Err(Self::unexpected(other, "identifier after ','")),
                },
                other => return Err(Self::unexpected(other.as_ref(), "',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, LabelSelectorError> {
        let absent = self.eat("!");
        let key = match self.next() {
            Some(Token::Word(word)) => word,
            other => return Err(Self::unexpected(other.as_ref(), "!, identifier, or 'end of string'")),
        };
        let at_end = matches!(self.peek(), None | Some(Token::Symbol(",")));
        if absent {
            return Requirement::new(&key, Operator::DoesNotExist, Vec::new());
        }
        if at_end {
            return Requirement::new(&key, Operator::Exists, Vec::new());
        }
        let operator = self.next();
        let (operator, set) = match &operator {
            Some(Token::Symbol("=" | "==")) => (Operator::In, false),
            Some(Token::Symbol("!=")) => (Operator::NotIn, false),
            Some(Token::Symbol(">")) => (Operator::GreaterThan, false),
            Some(Token::Symbol("<")) => (Operator::LessThan, false),
            Some(Token::Word(word)) if word == "in" => (Operator::In, true),
            Some(Token::Word(word)) if word == "notin" => (Operator::NotIn, true),
            other => return Err(Self::unexpected(other.as_ref(), "in, notin, =, ==, !=, gt, lt")),
        };
        let values = if set { self.set()? } else { vec![self.exact_value()?] };
        Requirement::new(&key, operator, values)
    }

    fn exact_value(&mut self) -> Result<String, LabelSelectorError> {
        match self.peek() {
            None | Some(Token::Symbol(",")) => Ok(String::new()),
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            other => Err(Self::unexpected(other, "identifier")),
        }
    }

    fn set(&mut self) -> Result<Vec<String>, LabelSelectorError> {
        if !self.eat("(") {
            return Err(Self::unexpected(self.peek(), "'('"));
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                Some(Token::Word(word)) => {
                    let word = word.clone();
                    self.at += 1;
                    word
                }
                Some(Token::Symbol("," | ")")) => String::new(),
                other => return Err(Self::unexpected(other, "',', ')' or identifier")),
            };
            values.push(value);
            match self.next() {
                Some(Token::Symbol(",")) => {}
                Some(Token::Symbol(")")) => return Ok(values),
                other => return Err(Self::unexpected(other.as_ref(), "',' or ')'")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Columns: selector, labels, whether k8s.io/apimachinery/pkg/labels says they match.
    #[test]
    fn selectors_match_as_kubernetes_matches_them() {
        let table = [
            ("", json!({}), true),
            ("a=b", json!({"a": "b"}), true),
            ("a==b", json!({"a": "b"}), true),
            ("a=b", json!({"a": "c"}), false),
            ("a=", json!({"a": ""}), true),
            ("a!=b", json!({}), true),
            ("a!=b", json!({"a": "b"}), false),
            ("a", json!({"a": ""}), true),
            ("!a", json!({"a": ""}), false),
            ("! a", json!({}), true),
            ("a in (x, y)", json!({"a": "y"}), true),
            ("a in (x,y)", json!({}), false),
            ("a notin (x,y)", json!({}), true),
            ("a in (,x)", json!({"a": ""}), true),
            ("a>5", json!({"a": "6"}), true),
            ("a>5", json!({"a": "x"}), false),
            ("a<5", json!({"a": "4"}), true),
            ("a=b,c in (d),!e", json!({"a": "b", "c": "d"}), true),
            ("in in (in)", json!({"in": "in"}), true),
            ("x.io/a=b", json!({"x.io/a": "b"}), true),
        ];
        for (text, labels, want) in table {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.matches(&json!({"metadata": {"labels": labels}})), want, "{text} {labels}");
        }
    }

    #[test]
    fn broken_selectors_are_refused() {
        let long = "a,".repeat(40_000);
        for bad in [
            "a b", "a=b c", "a in", "a in b", "a in (b", ",a", "a,", "a=b,,c", "=a", "a>x", "-a", "a=-b",
            "a/b/c", "a in ()x", &long,
        ] {
            assert!(LabelSelector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_selector_prints_what_reads_back() {
        let text = "a=b,c in (d,e),!f,g,h!=i,j notin (k,l),m>3";
        let selector = LabelSelector::parse(text).unwrap();
        assert_eq!(selector.to_string(), text);
        assert_eq!(selector.exact("a"), Some("b"));
        assert_eq!(selector.exact("c"), None);
    }

    #[test]
    fn a_json_selector_means_the_same() {
        let selector = LabelSelector::from_json(&json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["d"]}, {"key": "e", "operator": "Exists"}]
        }))
        .unwrap();
        assert_eq!(selector.to_string(), "a=b,c!=d,e");
        assert!(LabelSelector::from_json(&json!({})).unwrap().is_empty());
        assert!(
            LabelSelector::from_json(&json!({"matchExpressions": [{"key": "c", "operator": "Like"}]}))
                .is_err()
        );
    }
}
