//! CEL expressions over one Kubernetes object, as `spec.dependsOn[].readyWhen` and HealthRuleSets hold them.
//!
//! An expression comes from a user and runs in a process that serves all. So its cost is bounded when it is compiled,
//! by its form: it is short, it does not loop inside a loop, nothing that it makes in a loop can be larger than what it
//! loops over, and it knows no regular expressions. The steps that are left are counted for each object before it runs.

#![warn(missing_docs)]

mod bounds;

use std::sync::Arc;

use cel::{Context, Env, Program, Value as CelValue};
use serde_json::Value;

pub use bounds::Refused;

/// Longest expression, in bytes.
pub const LONGEST: usize = 1024;

/// Most steps of one evaluation: well below a second.
pub const MOST_STEPS: usize = 5_000_000;

/// Stack for the parser, of whose recursion each bracket takes tens of kilobytes.
const STACK: usize = 32 << 20;

/// The variable that holds the object.
const OBJECT: &str = "object";

/// Why a text is no expression that may run.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// It is too long.
    #[error("it has {0} bytes, more than {LONGEST}")]
    TooLong(usize),
    /// It is no CEL.
    #[error("it is no CEL expression: {0}")]
    Syntax(String),
    /// It is CEL, but not allowed.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Why an expression has no answer for an object.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// A field is missing, or has another type than the expression takes.
    #[error("{0}")]
    Failed(String),
    /// The object is too large for the expression.
    #[error("the object is too large for it: it would take up to {0} steps, more than {MOST_STEPS}")]
    TooLarge(usize),
    /// Its value is neither true nor false.
    #[error("its value is neither true nor false")]
    NotABoolean,
    /// Its value is no text.
    #[error("its value is no text")]
    NotAText,
}

/// A compiled expression.
pub struct Expression {
    environment: Arc<Env>,
    program: Program,
    cost: bounds::Cost,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expression").finish_non_exhaustive()
    }
}

impl Expression {
    /// Compiles a text whose only variable is `object`.
    ///
    /// # Errors
    /// See [`CompileError`].
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        if text.len() > LONGEST {
            return Err(CompileError::TooLong(text.len()));
        }
        bounds::check_nesting(text)?;
        stacker::grow(STACK, || Self::compile_shallow(text))
    }

    fn compile_shallow(text: &str) -> Result<Self, CompileError> {
        let environment = Arc::new(Env::stdlib());
        let program = environment.compile(text).map_err(|errors| {
            let text = errors.to_string();
            // The library draws the place in further lines.
            let first = text.lines().next().unwrap_or_default();
            CompileError::Syntax(first.trim_start_matches("ERROR: <input>:").to_owned())
        })?;
        let cost = bounds::check(program.expression(), OBJECT)?;
        Ok(Self { environment, program, cost })
    }

    /// The answer for an object.
    ///
    /// # Errors
    /// See [`EvaluateError`].
    pub fn is_true(&self, object: &Value) -> Result<bool, EvaluateError> {
        match self.value(object)? {
            CelValue::Bool(answer) => Ok(answer),
            _ => Err(EvaluateError::NotABoolean),
        }
    }

    /// The text for an object, cut after `longest` characters.
    ///
    /// # Errors
    /// See [`EvaluateError`].
    pub fn text(&self, object: &Value, longest: usize) -> Result<String, EvaluateError> {
        match self.value(object)? {
            CelValue::String(text) => Ok(text.chars().take(longest).collect()),
            _ => Err(EvaluateError::NotAText),
        }
    }

    fn value(&self, object: &Value) -> Result<CelValue, EvaluateError> {
        let steps = self.cost.steps(object);
        if steps > MOST_STEPS {
            return Err(EvaluateError::TooLarge(steps));
        }
        stacker::grow(STACK, || self.evaluate(object))
    }

    fn evaluate(&self, object: &Value) -> Result<CelValue, EvaluateError> {
        let mut context = Context::with_env(Arc::clone(&self.environment));
        context.add_variable(OBJECT, object).map_err(|error| EvaluateError::Failed(error.to_string()))?;
        let value = self.program.execute(&context);
        // Errors may repeat whole values.
        value.map_err(|error| EvaluateError::Failed(error.to_string().chars().take(256).collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(expression: &str) -> Result<bool, String> {
        let object = json!({
            "metadata": {"generation": 3, "labels": {"tier": "db"}},
            "status": {
                "observedGeneration": 3, "sourceRevision": "main@sha1:abc",
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Healthy", "status": "False"}],
                "history": [],
            },
        });
        Expression::compile(expression)
            .map_err(|error| error.to_string())?
            .is_true(&object)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn expressions_over_an_object_have_the_answers_that_cel_gives() {
        for (expression, expected) in [
            ("object.status.observedGeneration == object.metadata.generation", true),
            ("object.status.sourceRevision.startsWith('main@')", true),
            ("object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", true),
            ("object.status.conditions.all(c, c.status == 'True')", false),
            ("object.status.conditions.filter(c, c.status == 'True').map(c, c.type) == ['Ready']", true),
            ("has(object.status.rollback) || size(object.status.history) > 0", false),
            ("object.metadata.labels['tier'] in ['db', 'cache']", true),
            ("'a' + 'b' == 'ab' && 1 + 2 * 3 == 7", true),
        ] {
            assert_eq!(answer(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn texts_are_cut() {
        let text = |expression: &str| {
            let object = json!({"status": {"message": "no quota", "count": 3}});
            Expression::compile(expression).unwrap().text(&object, 12).map_err(|error| error.to_string())
        };
        assert_eq!(text("'because ' + object.status.message").as_deref(), Ok("because no q"));
        assert_eq!(text("object.status.count").unwrap_err(), "its value is no text");
    }

    #[test]
    fn what_has_no_answer_says_why() {
        assert!(answer("object.status.nothing == 1").unwrap_err().contains("nothing"));
        assert!(answer("object.status.sourceRevision").unwrap_err().contains("neither true nor false"));
        assert!(answer("object.status.sourceRevision > 3").is_err());
    }

    #[test]
    fn what_could_cost_more_than_its_object_is_large_is_refused() {
        let long = format!("'{}' == ''", "x".repeat(LONGEST));
        for (expression, why) in [
            ("object.status.", "no CEL expression"),
            ("thing.status == 1", "thing"),
            ("object.name.matches('a')", "matches"),
            ("object.a.exists(x, object.b.exists(y, x == y))", "inside"),
            ("object.a.map(x, x + x) == []", "larger"),
            ("object.a.map(x, [x, x]) == []", "larger"),
            ("object.a.all(x, x + x + x == 'b')", "larger"),
            (long.as_str(), "bytes"),
        ] {
            let refused = answer(expression).unwrap_err();
            assert!(refused.contains(why), "{expression}: {refused}");
        }
        let many = json!({"a": (0..5000).collect::<Vec<_>>()});
        let linear = Expression::compile("object.a.all(x, x >= 0)").unwrap();
        assert!(linear.is_true(&many).unwrap());
        let quadratic = Expression::compile("object.a.all(x, x in object.a)").unwrap();
        assert!(matches!(quadratic.is_true(&many), Err(EvaluateError::TooLarge(_))));
        assert!(quadratic.is_true(&json!({"a": [1, 2]})).unwrap());
    }

    /// With a quarter of the stack of a thread of tokio.
    #[test]
    fn no_text_takes_the_whole_stack() {
        let nested = |open: &str, close: &str, times: usize| {
            format!("{}true{}", open.repeat(times), close.repeat(times))
        };
        let many = |piece: &str, end: &str| format!("{}{end}", piece.repeat((LONGEST - 10) / piece.len()));
        let texts = [
            nested("(", ")", 24),
            nested("(", ")", 400),
            nested("[", "]", 400),
            nested("{1:", "}", 250),
            nested("!(", ")", 24),
            many("!", "true"),
            many("-", "1 == 1"),
            many("1+", "1 == 1"),
            many("true||", "true"),
            many("true&&", "true"),
            many("true?true:", "true"),
            many("object.", "a == 1"),
            format!("object{} == 1", many("[0]", "")),
            many("(", ""),
            many("object.a.filter(x,true).", "size() == 0"),
            many("1==", "1"),
        ];
        let run = move || {
            for text in &texts {
                if let Ok(expression) = Expression::compile(text) {
                    let _ = expression.is_true(&json!({"a": [1]}));
                }
            }
        };
        std::thread::Builder::new().stack_size(1 << 19).spawn(run).unwrap().join().unwrap();
        assert!(matches!(
            Expression::compile(&nested("(", ")", 25)),
            Err(CompileError::Refused(Refused::Depth))
        ));
    }
}
