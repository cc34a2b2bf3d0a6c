//! Which expressions may run. Pure, on the parsed expression.

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use serde_json::Value;

/// Why an expression may not run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is nested too deeply.
    #[error("it is nested deeper than {DEEPEST} brackets and choices")]
    Depth,
    /// There is no such variable.
    #[error("there is no variable {0:?}; the only one is object")]
    Variable(String),
    /// There is no such function.
    #[error("the function {0:?} is not available")]
    Function(String),
    /// A macro that loops is in the body of another one.
    #[error("a loop inside a loop is not allowed")]
    NestedLoop,
    /// A loop makes something of several values.
    #[error("a loop may only pick values, not make larger ones of them")]
    Growth,
    /// Messages of types are not known.
    #[error("values of message types are not available")]
    Message,
}

/// Functions beside the operators; none can take longer than its arguments are large.
const FUNCTIONS: [&str; 9] =
    ["size", "contains", "startsWith", "endsWith", "string", "int", "uint", "double", "bool"];

const OPERATORS: [&str; 19] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
    operators::ADD,
    operators::SUBSTRACT,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
    operators::NOT_STRICTLY_FALSE,
];

/// Deepest nesting of a text. The parser recurses as deep as the text is nested, before it counts how deep that is.
const DEEPEST: usize = 24;

/// Refuses a text that is nested so deeply that reading it could take the whole stack. What stands in quotes counts
/// as well: it is the parser that knows where they end.
pub(crate) fn check_nesting(text: &str) -> Result<(), Refused> {
    let mut depth = 0_usize;
    let mut choices = 0_usize;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            // What follows a choice is nested in it.
            '?' => choices += 1,
            _ => {}
        }
        if depth + choices > DEEPEST {
            return Err(Refused::Depth);
        }
    }
    Ok(())
}

/// What an expression costs, by its form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Its parts.
    parts: usize,
    /// Whether a loop looks at the variable again for each value.
    is_quadratic: bool,
}

impl Cost {
    /// The most steps that it takes on an object.
    pub(crate) fn steps(self, object: &Value) -> usize {
        let size = size_of(object);
        let times = if self.is_quadratic { size } else { 1 };
        self.parts.saturating_mul(size).saturating_mul(times)
    }
}

/// Values in an object, long texts as several.
fn size_of(object: &Value) -> usize {
    const TEXT: usize = 64;
    match object {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() / TEXT,
        Value::Array(values) => 1 + values.iter().map(size_of).sum::<usize>(),
        Value::Object(fields) => {
            1 + fields.iter().map(|(name, value)| name.len() / TEXT + size_of(value)).sum::<usize>()
        }
    }
}

/// Checks an expression whose only variable is `variable`.
pub(crate) fn check(expression: &IdedExpr, variable: &str) -> Result<Cost, Refused> {
    let mut walk = Walk { variable, known: vec![variable], loops: false, cost: Cost::default() };
    walk.expression(expression)?;
    Ok(walk.cost)
}

struct Walk<'a> {
    variable: &'a str,
    cost: Cost,
    /// Variables in scope.
    known: Vec<&'a str>,
    /// Whether this is what a loop does with each value.
    loops: bool,
}

impl<'a> Walk<'a> {
    fn expression(&mut self, expression: &'a IdedExpr) -> Result<(), Refused> {
        self.cost.parts += 1;
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) if self.loops && name == self.variable => {
                self.cost.is_quadratic = true;
                Ok(())
            }
            Expr::Ident(name) if self.known.contains(&name.as_str()) => Ok(()),
            Expr::Ident(name) => Err(Refused::Variable(name.clone())),
            Expr::Select(select) => self.expression(&select.operand),
            Expr::Call(call) => self.call(call),
            Expr::List(_) | Expr::Map(_) if self.loops && !is_constant(expression) => Err(Refused::Growth),
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.expression(element)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key)?;
                    self.expression(&entry.value)
                }
                EntryExpr::StructField(_) => Err(Refused::Message),
            }),
            Expr::Struct(_) => Err(Refused::Message),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> Result<(), Refused> {
        let name = call.func_name.as_str();
        if !FUNCTIONS.contains(&name) && !OPERATORS.contains(&name) {
            return Err(Refused::Function(name.to_owned()));
        }
        if self.loops && name == operators::ADD {
            return Err(Refused::Growth);
        }
        if let Some(target) = &call.target {
            self.expression(target)?;
        }
        call.args.iter().try_for_each(|argument| self.expression(argument))
    }

    /// What a macro became: `range.exists(x, …)` and the like.
    fn comprehension(&mut self, comprehension: &'a ComprehensionExpr) -> Result<(), Refused> {
        if self.loops {
            return Err(Refused::NestedLoop);
        }
        self.expression(&comprehension.iter_range)?;
        self.expression(&comprehension.accu_init)?;
        let outside = self.known.len();
        self.known.push(&comprehension.accu_var);
        self.expression(&comprehension.result)?;
        self.known.push(&comprehension.iter_var);
        self.known.extend(comprehension.iter_var2.as_deref());
        self.loops = true;
        self.expression(&comprehension.loop_cond)?;
        self.step(&comprehension.loop_step, &comprehension.accu_var)?;
        self.loops = false;
        self.known.truncate(outside);
        Ok(())
    }

    /// What is done with each value. The macros themselves add one value, or a one, to what they gathered; nothing
    /// else may grow.
    fn step(&mut self, step: &'a IdedExpr, gathered: &str) -> Result<(), Refused> {
        if let Expr::Call(call) = &step.expr {
            if call.func_name == operators::CONDITIONAL
                && let [condition, then, otherwise] = call.args.as_slice()
            {
                self.expression(condition)?;
                self.step(then, gathered)?;
                return self.step(otherwise, gathered);
            }
            if call.func_name == operators::ADD
                && let [Expr::Ident(name), added] =
                    [&call.args.first().unwrap_or(step).expr, &call.args.last().unwrap_or(step).expr]
                && name == gathered
            {
                return match added {
                    Expr::List(list) => list.elements.iter().try_for_each(|element| self.expression(element)),
                    Expr::Literal(_) => Ok(()),
                    _ => Err(Refused::Growth),
                };
            }
        }
        self.expression(step)
    }
}

/// Whether an expression names nothing, so that its size is that of its text.
fn is_constant(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Literal(_) => true,
        Expr::List(list) => list.elements.iter().all(is_constant),
        _ => false,
    }
}
