//! Runs a template: Go's text/template executor over [`Value`].
//!
//! Go works on `reflect.Value`s and words its errors by their static type: what comes out of a
//! `map[string]interface {}` is an `interface {}` until a pipeline unwraps it. [`Reflected`] keeps
//! that difference.
//!
//! Long because pipelines, commands, fields and calls recurse into each other.

use crate::ast::{
    At, Branch, Builtin, Command, Expr, ExprKind, Ideal, Invocation, Node, Number, Pipe, Target,
};
use crate::builtins;
use crate::error::{ExecError, Limit, Location};
use crate::format::{self, print_into};
use crate::function::{Call, FuncError, Function, Signature, Type};
use crate::quote::quote;
use crate::session::{MissingKey, Scope, Session, in_steps};
use crate::stack;
use crate::templates::Tree;
use crate::text::Str;
use crate::value::{Elem, Kind, Value};
use std::borrow::Cow;

/// A `reflect.Value`.
#[derive(Clone, Debug)]
pub(crate) enum Reflected {
    /// No value came through the pipeline.
    Missing,
    /// The zero `reflect.Value`.
    Invalid,
    /// A value whose static type is `interface {}`, perhaps nil.
    Interface(Value),
    /// A value of its own type.
    Plain(Value),
}

impl Reflected {
    /// A value of a static type.
    pub(crate) fn typed(elem: Elem, value: Value) -> Self {
        if elem == Elem::Any { Self::Interface(value) } else { Self::Plain(value) }
    }

    /// Go's `indirectInterface`: `None` for what is nil or invalid.
    pub(crate) fn concrete(&self) -> Option<&Value> {
        match self {
            Self::Missing | Self::Invalid | Self::Interface(Value::Nil) => None,
            Self::Interface(value) | Self::Plain(value) => Some(value),
        }
    }

    pub(crate) fn truth(&self) -> bool {
        self.concrete().is_some_and(Value::truth)
    }

    /// The value with Go's nil for none.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Missing | Self::Invalid => Value::Nil,
            Self::Interface(value) | Self::Plain(value) => value,
        }
    }

    fn unwrapped(self) -> Self {
        match self {
            Self::Interface(Value::Nil) => Self::Invalid,
            Self::Interface(value) => Self::Plain(value),
            other => other,
        }
    }

    fn type_name(&self) -> Cow<'_, str> {
        match self {
            Self::Missing | Self::Invalid => "<nil>".into(),
            Self::Interface(_) => "interface {}".into(),
            Self::Plain(value) => value.type_name(),
        }
    }
}

enum Flow {
    Next,
    Break,
    Continue,
}

pub(crate) type Run<T> = Result<T, Box<ExecError>>;

/// The run of one template: its variables and the node it is at.
struct Frame<'t> {
    tree: &'t Tree,
    variables: Vec<(u32, Reflected)>,
    at: At<'t>,
}

impl<'t> Frame<'t> {
    fn new(tree: &'t Tree, dot: Reflected) -> Self {
        let mut variables = Vec::with_capacity(8);
        variables.push((0, dot));
        Self { tree, variables, at: At::Start }
    }

    fn text(&self) -> &'t [u8] {
        &self.tree.text
    }

    fn fail(&self, message: impl AsRef<str>) -> Box<ExecError> {
        self.fail_with(message.as_ref(), None)
    }

    fn limit(&self, limit: Limit) -> Box<ExecError> {
        self.fail_with(&limit.to_string(), Some(limit))
    }

    fn fail_with(&self, message: &str, limit: Option<Limit>) -> Box<ExecError> {
        let text = &self.tree.text;
        let before = text.get(..self.at.pos() as usize).unwrap_or(text);
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let context = self.at.source(text);
        let name = quote(&self.tree.name);
        let location = Location {
            template: self.tree.parse_name.to_string(),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        };
        Box::new(ExecError {
            message: format!(
                "template: {}:{line}:{column}: executing {} at <{}>: {message}",
                location.template,
                String::from_utf8_lossy(&name),
                String::from_utf8_lossy(&context)
            ),
            location: Some(location),
            limit,
        })
    }
}

/// Steps that it takes to call a template and to copy what it prints.
const CALL: u64 = 16;

/// Runs `tree` and gives what it prints.
pub(crate) fn execute(
    session: &mut Session<'_>,
    scope: &Scope<'_>,
    tree: &Tree,
    data: &Value,
) -> Result<Vec<u8>, ExecError> {
    let dot = if data.is_nil() { Reflected::Invalid } else { Reflected::Plain(data.clone()) };
    let mut frame = Frame::new(tree, dot.clone());
    let mut exec = Exec { session, scope, out: Vec::with_capacity(tree.text.len().min(1 << 16)) };
    exec.session.enter().map_err(|limit| *frame.limit(limit))?;
    exec.session.count_steps(CALL).map_err(|limit| *frame.limit(limit))?;
    let result = exec.walk_all(&mut frame, &dot, &tree.body);
    exec.session.leave();
    result.map_err(|error| *error)?;
    Ok(exec.out)
}

struct Exec<'e, 'r> {
    session: &'e mut Session<'r>,
    scope: &'e Scope<'e>,
    out: Vec<u8>,
}

impl<'e> Exec<'e, '_> {
    fn walk_all(&mut self, frame: &mut Frame<'e>, dot: &Reflected, body: &'e [Node]) -> Run<Flow> {
        self.session.open().map_err(|limit| frame.limit(limit))?;
        let flow = stack::with_stack(|| {
            for node in body {
                match self.walk(frame, dot, node)? {
                    Flow::Next => {}
                    other => return Ok(other),
                }
            }
            Ok(Flow::Next)
        });
        self.session.close();
        flow
    }

    fn variable(&mut self, frame: &Frame<'e>, id: u32, name: &Str) -> Run<Reflected> {
        let mut looked = 0;
        let found = frame.variables.iter().rev().inspect(|_| looked += 1).find(|(known, _)| *known == id);
        let value = match found {
            Some((_, value)) => value.clone(),
            None => return Err(frame.fail(format!("undefined variable: {name}"))),
        };
        self.session.count_steps(looked / 64).map_err(|limit| frame.limit(limit))?;
        Ok(value)
    }

    fn parenthesis(&mut self, frame: &mut Frame<'e>, dot: &Reflected, pipe: &'e Pipe) -> Run<Reflected> {
        self.session.open().map_err(|limit| frame.limit(limit))?;
        let value = stack::with_stack(|| self.pipeline(frame, dot, pipe));
        self.session.close();
        value
    }

    fn walk(&mut self, frame: &mut Frame<'e>, dot: &Reflected, node: &'e Node) -> Run<Flow> {
        frame.at = At::Node(node);
        match node {
            Node::Text { start, end } => {
                let text = frame.tree.text.get(*start as usize..*end as usize).unwrap_or_default();
                self.session.count_output(text.len()).map_err(|limit| frame.limit(limit))?;
                self.out.extend_from_slice(text);
            }
            Node::Action { pipe, .. } => {
                let value = self.pipeline(frame, dot, pipe)?;
                if pipe.declarations.is_empty() {
                    frame.at = At::Node(node);
                    self.print(frame, &value)?;
                }
            }
            Node::If(branch) | Node::With(branch) => {
                let mark = frame.variables.len();
                let value = self.pipeline(frame, dot, &branch.pipe)?;
                let flow = if value.truth() {
                    let inner = if matches!(node, Node::With(_)) { &value } else { dot };
                    self.walk_all(frame, inner, &branch.body)?
                } else if let Some(otherwise) = &branch.otherwise {
                    self.walk_all(frame, dot, otherwise)?
                } else {
                    Flow::Next
                };
                frame.variables.truncate(mark);
                return Ok(flow);
            }
            Node::Range(branch) => {
                let mark = frame.variables.len();
                let flow = self.range(frame, dot, branch)?;
                frame.variables.truncate(mark);
                return Ok(flow);
            }
            Node::Template(invocation) => self.invoke(frame, dot, invocation)?,
            Node::Break(_) => return Ok(Flow::Break),
            Node::Continue(_) => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, frame: &Frame<'e>, value: &Reflected) -> Run<()> {
        let before = self.out.len();
        match value {
            Reflected::Missing | Reflected::Invalid => self.out.extend_from_slice(b"<no value>"),
            Reflected::Interface(value) | Reflected::Plain(value) => {
                let budget = self.session.output_left().min(self.session.limits.max_text);
                let fits = budget < self.session.limits.max_text;
                print_into(&mut self.out, value, self.session.budget(budget)).map_err(|limit| {
                    let own = if fits { Limit::Output } else { Limit::Text };
                    frame.limit(if limit == Limit::Allocated { own } else { limit })
                })?;
            }
        }
        self.session.count_output(self.out.len() - before).map_err(|limit| frame.limit(limit))
    }

    fn invoke(&mut self, frame: &mut Frame<'e>, dot: &Reflected, invocation: &'e Invocation) -> Run<()> {
        frame.at = At::Invocation(invocation);
        let scope = self.scope;
        let Some(tree) = scope.lookup(&invocation.name) else {
            let name = quote(&invocation.name);
            return Err(frame.fail(format!("template {} not defined", String::from_utf8_lossy(&name))));
        };
        let deepest = self.session.limits.max_depth;
        self.session.enter().map_err(|limit| {
            frame.fail_with(&format!("exceeded maximum template depth ({deepest})"), Some(limit))
        })?;
        let inner = match &invocation.pipe {
            Some(pipe) => self.pipeline(frame, dot, pipe)?,
            None => Reflected::Invalid,
        };
        let mut callee = Frame::new(tree, inner.clone());
        let result = self.walk_all(&mut callee, &inner, &tree.body);
        self.session.leave();
        result.map(|_| ())
    }

    fn range(&mut self, frame: &mut Frame<'e>, dot: &Reflected, branch: &'e Branch) -> Run<Flow> {
        let value = self.pipeline(frame, dot, &branch.pipe)?;
        let mark = frame.variables.len();
        let two = branch.pipe.declarations.len() > 1;
        let mut turns = 0usize;
        let mut turn = |exec: &mut Self, frame: &mut Frame<'e>, key: Reflected, element: Reflected| {
            turns += 1;
            exec.session.count_steps(1).map_err(|limit| frame.limit(limit))?;
            set_loop_variables(frame, branch, key, &element)?;
            let flow = exec.walk_all(frame, &element, &branch.body)?;
            frame.variables.truncate(mark);
            Run::Ok(matches!(flow, Flow::Break))
        };
        match value.concrete() {
            None => {}
            Some(number) if int_of(number).is_some() => {
                if two {
                    let shown = shown(number);
                    return Err(
                        frame.fail(format!("can't use {shown} to iterate over more than one variable"))
                    );
                }
                let end = int_of(number).unwrap_or_default();
                for i in 0..end {
                    let element = like(number, i);
                    if turn(self, frame, Reflected::Invalid, Reflected::Plain(element))? {
                        break;
                    }
                }
            }
            Some(Value::List(list)) => {
                for index in 0..list.len() {
                    let Some(item) = list.get(index) else { break };
                    let element = Reflected::typed(list.elem(), item);
                    if turn(self, frame, index_value(index), element)? {
                        break;
                    }
                }
            }
            Some(Value::Bytes(bytes)) => {
                for (index, byte) in bytes.iter().enumerate() {
                    if turn(self, frame, index_value(index), Reflected::Plain(Value::Uint8(*byte)))? {
                        break;
                    }
                }
            }
            Some(Value::Map(map)) => {
                self.session.count_steps(map.len() as u64 / 8).map_err(|limit| frame.limit(limit))?;
                let elem = map.elem();
                for (key, item) in map.entries() {
                    let key = Reflected::Plain(Value::String(key));
                    if turn(self, frame, key, Reflected::typed(elem, item))? {
                        break;
                    }
                }
            }
            Some(Value::Object(object)) if object.kind() == Kind::Map => {
                for (key, item) in object.entries().unwrap_or_default() {
                    let key = Reflected::Plain(Value::String(key));
                    if turn(self, frame, key, Reflected::typed(object.elem(), item))? {
                        break;
                    }
                }
            }
            Some(other) => {
                let shown = shown(other);
                return Err(frame.fail(format!("range can't iterate over {shown}")));
            }
        }
        if turns == 0
            && let Some(otherwise) = &branch.otherwise
        {
            return self.walk_all(frame, dot, otherwise);
        }
        Ok(Flow::Next)
    }

    fn pipeline(&mut self, frame: &mut Frame<'e>, dot: &Reflected, pipe: &'e Pipe) -> Run<Reflected> {
        frame.at = At::Pipe(pipe);
        let mut value = Reflected::Missing;
        for command in &pipe.commands {
            value = self.command(frame, dot, command, value)?.unwrapped();
        }
        for variable in &pipe.declarations {
            if pipe.assign {
                set_variable(frame, variable.id, &variable.name, value.clone())?;
            } else {
                frame.variables.push((variable.id, value.clone()));
            }
        }
        Ok(value)
    }

    fn command(
        &mut self,
        frame: &mut Frame<'e>,
        dot: &Reflected,
        command: &'e Command,
        last: Reflected,
    ) -> Run<Reflected> {
        self.session.count_steps(1).map_err(|limit| frame.limit(limit))?;
        let Some(first) = command.args.first() else { return Ok(Reflected::Invalid) };
        let args = &command.args;
        match &first.kind {
            ExprKind::Field(fields) => {
                frame.at = At::Expr(first);
                self.field_chain(frame, dot, dot, first, fields, args, last)
            }
            ExprKind::Chain { of, fields } => {
                let receiver = self.chain_receiver(frame, dot, first, of)?;
                self.field_chain(frame, dot, &receiver, first, fields, args, last)
            }
            ExprKind::Function(target) => {
                self.function(frame, dot, first, target, At::Command(command), args, last)
            }
            ExprKind::Pipe(pipe) => {
                not_a_function(frame, args, &last)?;
                self.parenthesis(frame, dot, pipe)
            }
            ExprKind::Variable { id, name, fields } => {
                frame.at = At::Expr(first);
                let value = self.variable(frame, *id, name)?;
                if fields.is_empty() {
                    not_a_function(frame, args, &last)?;
                    return Ok(value);
                }
                self.field_chain(frame, dot, &value, first, fields, args, last)
            }
            constant => {
                frame.at = At::Expr(first);
                not_a_function(frame, args, &last)?;
                Ok(match constant {
                    ExprKind::Bool(truth) => Reflected::Plain(Value::Bool(*truth)),
                    ExprKind::Dot => dot.clone(),
                    ExprKind::Number(number) => ideal(frame, number)?,
                    ExprKind::String { text, .. } => Reflected::Plain(Value::String(text.clone())),
                    _ => return Err(frame.fail("nil is not a command")),
                })
            }
        }
    }

    fn chain_receiver(
        &mut self,
        frame: &mut Frame<'e>,
        dot: &Reflected,
        chain: &'e Expr,
        of: &'e Expr,
    ) -> Run<Reflected> {
        frame.at = At::Expr(chain);
        if matches!(of.kind, ExprKind::Nil) {
            let source = chain.source(frame.text());
            return Err(frame.fail(format!("indirection through explicit nil in {source}")));
        }
        frame.at = At::Expr(of);
        self.operand(frame, dot, of)
    }

    // The value of an operand that is no constant; constants too where any type will do.
    fn operand(&mut self, frame: &mut Frame<'e>, dot: &Reflected, expr: &'e Expr) -> Run<Reflected> {
        match &expr.kind {
            ExprKind::Dot => Ok(dot.clone()),
            ExprKind::Field(fields) => {
                frame.at = At::Expr(expr);
                self.field_chain(frame, dot, dot, expr, fields, &[], Reflected::Missing)
            }
            ExprKind::Variable { id, name, fields } => {
                frame.at = At::Expr(expr);
                let value = self.variable(frame, *id, name)?;
                if fields.is_empty() {
                    return Ok(value);
                }
                self.field_chain(frame, dot, &value, expr, fields, &[], Reflected::Missing)
            }
            ExprKind::Pipe(pipe) => self.parenthesis(frame, dot, pipe),
            ExprKind::Function(target) => {
                self.function(frame, dot, expr, target, At::Expr(expr), &[], Reflected::Missing)
            }
            ExprKind::Chain { of, fields } => {
                let receiver = self.chain_receiver(frame, dot, expr, of)?;
                self.field_chain(frame, dot, &receiver, expr, fields, &[], Reflected::Missing)
            }
            ExprKind::Bool(truth) => Ok(Reflected::Plain(Value::Bool(*truth))),
            ExprKind::Number(number) => ideal(frame, number),
            ExprKind::String { text, .. } => Ok(Reflected::Plain(Value::String(text.clone()))),
            ExprKind::Nil => Ok(Reflected::Invalid),
        }
    }

    // `.X.Y.Z`, the last of which may be a method with arguments. `args` holds the operand itself
    // first, or nothing at all.
    #[allow(clippy::too_many_arguments)]
    fn field_chain(
        &mut self,
        frame: &mut Frame<'e>,
        dot: &Reflected,
        receiver: &Reflected,
        node: &'e Expr,
        fields: &'e [Str],
        args: &'e [Expr],
        last: Reflected,
    ) -> Run<Reflected> {
        let Some((final_field, first_fields)) = fields.split_last() else { return Ok(receiver.clone()) };
        let mut held;
        let mut at = receiver;
        for field in first_fields {
            held = self.field(frame, dot, field, node, &[], Reflected::Missing, at)?;
            at = &held;
        }
        let at = at.clone();
        self.field(frame, dot, final_field, node, args, last, &at)
    }

    #[allow(clippy::too_many_arguments)]
    fn field(
        &mut self,
        frame: &mut Frame<'e>,
        dot: &Reflected,
        name: &'e Str,
        node: &'e Expr,
        args: &'e [Expr],
        last: Reflected,
        receiver: &Reflected,
    ) -> Run<Reflected> {
        let value = match receiver {
            Reflected::Missing | Reflected::Invalid => {
                if self.session.missing_key == MissingKey::Error {
                    let name = quote(name);
                    return Err(
                        frame.fail(format!("nil data; no entry for key {}", String::from_utf8_lossy(&name)))
                    );
                }
                return Ok(Reflected::Invalid);
            }
            Reflected::Interface(Value::Nil) => {
                return Err(frame.fail(format!("nil pointer evaluating interface {{}}.{name}")));
            }
            Reflected::Interface(value) | Reflected::Plain(value) => value,
        };
        let has_args = args.len() > 1 || !matches!(last, Reflected::Missing);
        match value {
            Value::Map(map) => {
                if has_args {
                    return Err(frame.fail(format!("{name} is not a method but has arguments")));
                }
                if let Some(found) = map.get(name) {
                    return Ok(Reflected::typed(map.elem(), found));
                }
                return self.missing(frame, name, map.elem());
            }
            Value::List(list) => {
                let text = name.to_text();
                if let Some(face) = list.face()
                    && let Some(signature) = face.method(&text)
                {
                    let face = face.clone();
                    let arguments = self.arguments(frame, dot, &text, signature, args, last)?;
                    let mut call = Call { session: &mut *self.session, scope: self.scope };
                    let result = face.call(&text, &mut call, &arguments);
                    return self.called(frame, &text, At::Expr(node), signature, result);
                }
            }
            Value::Object(object) => {
                let text = name.to_text();
                if let Some(signature) = object.method(&text) {
                    let object = object.clone();
                    let arguments = self.arguments(frame, dot, &text, signature, args, last)?;
                    let mut call = Call { session: &mut *self.session, scope: self.scope };
                    let result = object.call(&text, &mut call, &arguments);
                    return self.called(frame, &text, At::Expr(node), signature, result);
                }
                match object.kind() {
                    Kind::Map => {
                        if has_args {
                            return Err(frame.fail(format!("{name} is not a method but has arguments")));
                        }
                        let entries = object.entries().unwrap_or_default();
                        return match entries.into_iter().find(|(key, _)| key == name) {
                            Some((_, found)) => Ok(Reflected::typed(object.elem(), found)),
                            None => self.missing(frame, name, object.elem()),
                        };
                    }
                    _ => {
                        if let Some(found) = object.field(&text) {
                            if has_args {
                                return Err(frame.fail(format!(
                                    "{name} has arguments but cannot be invoked as function"
                                )));
                            }
                            return Ok(if found.is_nil() {
                                Reflected::Interface(found)
                            } else {
                                Reflected::Plain(found)
                            });
                        }
                    }
                }
            }
            _ => {}
        }
        let type_name = receiver.type_name();
        Err(frame.fail(format!("can't evaluate field {name} in type {type_name}")))
    }

    fn missing(&self, frame: &Frame<'e>, name: &Str, elem: Elem) -> Run<Reflected> {
        match self.session.missing_key {
            MissingKey::Invalid => Ok(Reflected::Invalid),
            MissingKey::Zero => Ok(Reflected::typed(elem, elem.zero())),
            MissingKey::Error => {
                let name = quote(name);
                Err(frame.fail(format!("map has no entry for key {}", String::from_utf8_lossy(&name))))
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn function(
        &mut self,
        frame: &mut Frame<'e>,
        dot: &Reflected,
        ident: &'e Expr,
        target: &'e Target,
        node: At<'e>,
        args: &'e [Expr],
        last: Reflected,
    ) -> Run<Reflected> {
        frame.at = At::Expr(ident);
        match target {
            Target::Host(function) => self.host_function(frame, dot, function, node, args, last),
            Target::Builtin(builtin) => self.builtin(frame, dot, *builtin, node, args, last),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn host_function(
        &mut self,
        frame: &mut Frame<'e>,
        dot: &Reflected,
        function: &'e Function,
        node: At<'e>,
        args: &'e [Expr],
        last: Reflected,
    ) -> Run<Reflected> {
        let name = function.name;
        let arguments = self.arguments(frame, dot, name, &function.signature, args, last)?;
        self.session.count_steps(work(&arguments)).map_err(|limit| frame.limit(limit))?;
        let mut call = Call { session: &mut *self.session, scope: self.scope };
        let result = (function.body)(&mut call, &arguments);
        self.called(frame, name, node, &function.signature, result)
    }

    fn called(
        &mut self,
        frame: &mut Frame<'e>,
        name: &str,
        node: At<'e>,
        signature: &Signature,
        result: Result<Value, FuncError>,
    ) -> Run<Reflected> {
        let value = match result {
            Ok(value) => value,
            Err(error) => {
                frame.at = node;
                return Err(frame.fail_with(&format!("error calling {name}: {error}"), error.reached_limit()));
            }
        };
        if let Value::String(text) = &value {
            self.session.charge(text.len()).map_err(|limit| frame.limit(limit))?;
        }
        Ok(if signature.result == Type::Any || value.is_nil() {
            Reflected::Interface(value)
        } else {
            Reflected::Plain(value)
        })
    }

    // Evaluates and checks the arguments of a host's function or method.
    fn arguments(
        &mut self,
        frame: &mut Frame<'e>,
        dot: &Reflected,
        name: &str,
        signature: &Signature,
        args: &'e [Expr],
        last: Reflected,
    ) -> Run<Vec<Value>> {
        let args = args.get(1..).unwrap_or_default();
        let piped = !matches!(last, Reflected::Missing);
        let given = args.len() + usize::from(piped);
        let fixed = signature.params.len();
        check_count(frame, name, fixed, signature.variadic.is_some(), args.len(), given)?;
        let rest = signature.variadic.unwrap_or(Type::Any);
        let param = |index: usize| signature.params.get(index).copied().unwrap_or(rest);
        let mut arguments = Vec::with_capacity(given);
        for (index, arg) in args.iter().enumerate() {
            arguments.push(self.argument(frame, dot, arg, param(index))?);
        }
        if piped {
            arguments.push(checked(frame, last, param(args.len()))?);
        }
        Ok(arguments)
    }

    fn argument(&mut self, frame: &mut Frame<'e>, dot: &Reflected, expr: &'e Expr, ty: Type) -> Run<Value> {
        frame.at = At::Expr(expr);
        match &expr.kind {
            ExprKind::Nil => {
                if can_be_nil(ty) {
                    return Ok(Value::Nil);
                }
                Err(frame.fail(format!("cannot assign nil to {}", ty.name())))
            }
            ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::String { .. } => constant(frame, expr, ty),
            _ => {
                let value = self.operand(frame, dot, expr)?;
                checked(frame, value, ty)
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn builtin(
        &mut self,
        frame: &mut Frame<'e>,
        dot: &Reflected,
        builtin: Builtin,
        node: At<'e>,
        args: &'e [Expr],
        last: Reflected,
    ) -> Run<Reflected> {
        let args = args.get(1..).unwrap_or_default();
        let piped = !matches!(last, Reflected::Missing);
        let given = args.len() + usize::from(piped);
        let (fixed, variadic) = builtins::arity(builtin);
        let name = builtin.name();
        check_count(frame, name, fixed, variadic, args.len(), given)?;

        if matches!(builtin, Builtin::And | Builtin::Or) {
            let mut value = Reflected::Invalid;
            for arg in args {
                frame.at = At::Expr(arg);
                value = self.operand(frame, dot, arg)?;
                if value.truth() == (builtin == Builtin::Or) {
                    return Ok(value);
                }
            }
            return Ok(if piped { last } else { value });
        }

        let mut values = Vec::with_capacity(given);
        for (index, arg) in args.iter().enumerate() {
            frame.at = At::Expr(arg);
            values.push(if index == 0 && builtin == Builtin::Printf {
                Reflected::Plain(self.argument(frame, dot, arg, Type::String)?)
            } else {
                self.operand(frame, dot, arg)?
            });
        }
        if piped {
            values.push(if values.is_empty() && builtin == Builtin::Printf {
                Reflected::Plain(checked(frame, last, Type::String)?)
            } else {
                last
            });
        }
        let callee = match args.first() {
            _ if builtin != Builtin::Call => String::new(),
            Some(first) => first.source(frame.text()),
            None => values.first().map(reflect_string).unwrap_or_default(),
        };
        let work = values.iter().filter_map(Reflected::concrete).map(size_in_steps).sum();
        self.session.count_steps(work).map_err(|limit| frame.limit(limit))?;
        let (budget, full) = self.session.text_left();
        match builtins::call(builtin, values, &callee, self.session.budget(budget)) {
            Ok(value) => {
                if let Reflected::Plain(Value::String(text)) = &value {
                    self.session.charge(text.len()).map_err(|limit| frame.limit(limit))?;
                }
                Ok(value)
            }
            Err(error) => {
                frame.at = node;
                let error = match error.reached_limit() {
                    Some(Limit::Allocated) => FuncError::limit(full),
                    _ => error,
                };
                Err(frame.fail_with(&format!("error calling {name}: {error}"), error.reached_limit()))
            }
        }
    }
}

/// Go's `reflect.Value.String`.
fn reflect_string(value: &Reflected) -> String {
    match value {
        Reflected::Missing | Reflected::Invalid => "<invalid Value>".to_owned(),
        Reflected::Plain(Value::String(text)) => text.to_text().into_owned(),
        other => format!("<{} Value>", other.type_name()),
    }
}

/// What a function may do with its arguments: it may look at all of each text.
fn work(arguments: &[Value]) -> u64 {
    arguments.iter().map(size_in_steps).sum()
}

fn size_in_steps(value: &Value) -> u64 {
    match value {
        Value::String(text) | Value::Bytes(text) => in_steps(text.len()),
        // Functions that go through lists and maps count it themselves: most look at one element.
        _ => 0,
    }
}

fn check_count(
    frame: &Frame<'_>,
    name: &str,
    fixed: usize,
    variadic: bool,
    written: usize,
    given: usize,
) -> Run<()> {
    if variadic {
        if given < fixed {
            return Err(
                frame.fail(format!("wrong number of args for {name}: want at least {fixed} got {written}"))
            );
        }
    } else if given != fixed {
        return Err(frame.fail(format!("wrong number of args for {name}: want {fixed} got {given}")));
    }
    Ok(())
}

fn not_a_function(frame: &Frame<'_>, args: &[Expr], last: &Reflected) -> Run<()> {
    if args.len() > 1 || !matches!(last, Reflected::Missing) {
        let source = args.first().map(|first| first.source(frame.text())).unwrap_or_default();
        return Err(frame.fail(format!("can't give argument to non-function {source}")));
    }
    Ok(())
}

fn set_variable(frame: &mut Frame<'_>, id: u32, name: &Str, value: Reflected) -> Run<()> {
    match frame.variables.iter_mut().rev().find(|(known, _)| *known == id) {
        Some((_, slot)) => {
            *slot = value;
            Ok(())
        }
        None => Err(frame.fail(format!("undefined variable: {name}"))),
    }
}

fn set_loop_variables(
    frame: &mut Frame<'_>,
    branch: &Branch,
    key: Reflected,
    element: &Reflected,
) -> Run<()> {
    match &*branch.pipe.declarations {
        [] => Ok(()),
        [only] if branch.pipe.assign => set_variable(frame, only.id, &only.name, element.clone()),
        [first, second, ..] if branch.pipe.assign => {
            set_variable(frame, first.id, &first.name, key)?;
            set_variable(frame, second.id, &second.name, element.clone())
        }
        declared => {
            // The pipeline pushed the variables last, the element's on top.
            let mut top = frame.variables.iter_mut().rev();
            if let Some((_, slot)) = top.next() {
                *slot = element.clone();
            }
            if declared.len() > 1
                && let Some((_, slot)) = top.next()
            {
                *slot = key;
            }
            Ok(())
        }
    }
}

fn ideal(frame: &mut Frame<'_>, number: &Number) -> Run<Reflected> {
    match number.ideal {
        Ideal::Int(i) => Ok(Reflected::Plain(Value::Int(i))),
        Ideal::Float(f) => Ok(Reflected::Plain(Value::Float64(f))),
        Ideal::Overflow => Err(frame.fail(format!("{} overflows int", number.text))),
    }
}

fn can_be_nil(ty: Type) -> bool {
    matches!(ty, Type::Any | Type::Map | Type::StringMap | Type::List | Type::Strings | Type::Bytes)
}

fn assignable(value: &Value, ty: Type) -> bool {
    match (ty, value) {
        (Type::Any, _)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Int32, Value::Int32(_))
        | (Type::Int64, Value::Int64(_))
        | (Type::Uint8, Value::Uint8(_))
        | (Type::Uint32, Value::Uint32(_))
        | (Type::Uint64, Value::Uint64(_))
        | (Type::Float64, Value::Float64(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_)) => true,
        (Type::Map, Value::Map(map)) => map.elem() == Elem::Any,
        (Type::StringMap, Value::Map(map)) => map.elem() == Elem::String,
        (Type::List, Value::List(list)) => list.elem() == Elem::Any,
        (Type::Strings, Value::List(list)) => list.elem() == Elem::String,
        (Type::Object(name), Value::Object(object)) => object.type_name() == name,
        _ => false,
    }
}

// Go's `validateType`.
fn checked(frame: &Frame<'_>, value: Reflected, ty: Type) -> Run<Value> {
    match value {
        Reflected::Missing | Reflected::Invalid => {
            if can_be_nil(ty) {
                return Ok(Value::Nil);
            }
            Err(frame.fail(format!("invalid value; expected {}", ty.name())))
        }
        Reflected::Interface(Value::Nil) if ty != Type::Any => {
            Err(frame.fail(format!("wrong type for value; expected {}; got interface {{}}", ty.name())))
        }
        Reflected::Interface(value) | Reflected::Plain(value) => {
            if value.is_nil() || assignable(&value, ty) {
                return Ok(value);
            }
            Err(frame.fail(format!(
                "wrong type for value; expected {}; got {}",
                ty.name(),
                value.type_name()
            )))
        }
    }
}

fn constant(frame: &mut Frame<'_>, expr: &Expr, ty: Type) -> Run<Value> {
    let number = match &expr.kind {
        ExprKind::Number(number) => Some(number),
        _ => None,
    };
    let int = number.and_then(|n| n.int);
    let uint = number.and_then(|n| n.uint);
    // Go's SetInt and SetUint cut what does not fit.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let (found, wanted) = match ty {
        Type::Any => {
            return Ok(match &expr.kind {
                ExprKind::Bool(truth) => Value::Bool(*truth),
                ExprKind::String { text, .. } => Value::String(text.clone()),
                ExprKind::Number(number) => ideal(frame, number)?.into_value(),
                _ => Value::Nil,
            });
        }
        Type::Bool => (if let ExprKind::Bool(b) = expr.kind { Some(Value::Bool(b)) } else { None }, "bool"),
        Type::String => (
            if let ExprKind::String { text, .. } = &expr.kind {
                Some(Value::String(text.clone()))
            } else {
                None
            },
            "string",
        ),
        Type::Int => (int.map(Value::Int), "integer"),
        Type::Int32 => (int.map(|i| Value::Int32(i as i32)), "integer"),
        Type::Int64 => (int.map(Value::Int64), "integer"),
        Type::Uint8 => (uint.map(|u| Value::Uint8(u as u8)), "unsigned integer"),
        Type::Uint32 => (uint.map(|u| Value::Uint32(u as u32)), "unsigned integer"),
        Type::Uint64 => (uint.map(Value::Uint64), "unsigned integer"),
        Type::Float64 => (number.and_then(|n| n.float).map(Value::Float64), "float"),
        Type::Bytes | Type::List | Type::Strings | Type::Map | Type::StringMap | Type::Object(_) => {
            let source = expr.source(frame.text());
            return Err(frame.fail(format!("can't handle {source} for arg of type {}", ty.name())));
        }
    };
    found.ok_or_else(|| frame.fail(format!("expected {wanted}; found {}", expr.source(frame.text()))))
}

fn index_value(index: usize) -> Reflected {
    Reflected::Plain(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)))
}

fn int_of(value: &Value) -> Option<i64> {
    Some(match value {
        Value::Int(i) | Value::Int64(i) => *i,
        Value::Int32(i) => i64::from(*i),
        Value::Uint8(u) => i64::from(*u),
        Value::Uint32(u) => i64::from(*u),
        Value::Uint64(u) => i64::try_from(*u).unwrap_or(i64::MAX),
        _ => return None,
    })
}

// The number `i` in the type of `model`, which is larger.
fn like(model: &Value, i: i64) -> Value {
    match model {
        Value::Int64(_) => Value::Int64(i),
        Value::Int32(_) => Value::Int32(i32::try_from(i).unwrap_or(i32::MAX)),
        Value::Uint8(_) => Value::Uint8(u8::try_from(i).unwrap_or(u8::MAX)),
        Value::Uint32(_) => Value::Uint32(u32::try_from(i).unwrap_or(u32::MAX)),
        Value::Uint64(_) => Value::Uint64(u64::try_from(i).unwrap_or(u64::MAX)),
        _ => Value::Int(i),
    }
}

// A value inside an error text, which stays short.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 1 << 16;
    match format::sprint(std::slice::from_ref(value), LONGEST) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => format!("a large {}", value.type_name()),
    }
}
