//! What a template says, as a tree, and how Go prints its nodes in error texts.

use std::sync::Arc;

use crate::function::Function;
use crate::quote::quote;
use crate::text::Str;

/// A byte offset in the text.
pub(crate) type Pos = u32;

/// A list of nodes: a template's or a branch's body.
pub(crate) type Body = Box<[Node]>;

#[derive(Debug)]
pub(crate) enum Node {
    Text { start: Pos, end: Pos },
    Action { pos: Pos, pipe: Pipe },
    If(Box<Branch>),
    Range(Box<Branch>),
    With(Box<Branch>),
    Template(Box<Invocation>),
    Break(Pos),
    Continue(Pos),
}

/// `if`, `range` or `with`.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) body: Body,
    pub(crate) otherwise: Option<Body>,
}

/// `template` or the call that `block` makes.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) pos: Pos,
    pub(crate) name: Str,
    pub(crate) pipe: Option<Pipe>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) pos: Pos,
    pub(crate) assign: bool,
    pub(crate) declarations: Box<[Variable]>,
    /// Never empty.
    pub(crate) commands: Box<[Command]>,
}

/// A variable that a pipeline declares or assigns.
#[derive(Debug)]
pub(crate) struct Variable {
    /// The number of its name in the text; `$` is 0.
    pub(crate) id: u32,
    pub(crate) name: Str,
}

#[derive(Debug)]
pub(crate) struct Command {
    /// Never empty.
    pub(crate) args: Box<[Expr]>,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) pos: Pos,
    pub(crate) kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Bool(bool),
    Dot,
    Nil,
    Number(Box<Number>),
    /// A literal that takes so many bytes of the text.
    String {
        width: u32,
        text: Str,
    },
    Field(Box<[Str]>),
    Variable {
        id: u32,
        name: Str,
        fields: Box<[Str]>,
    },
    Function(Target),
    Chain {
        of: Box<Expr>,
        fields: Box<[Str]>,
    },
    Pipe(Box<Pipe>),
}

/// What a name means, resolved by the parser.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Builtin(Builtin),
    Host(Arc<Function>),
}

/// The functions of text/template itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    And,
    Call,
    Html,
    Index,
    Slice,
    Js,
    Len,
    Not,
    Or,
    Print,
    Printf,
    Println,
    UrlQuery,
    Eq,
    Ge,
    Gt,
    Le,
    Lt,
    Ne,
}

impl Target {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Builtin(builtin) => builtin.name(),
            Self::Host(function) => function.name,
        }
    }
}

impl Builtin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Call => "call",
            Self::Html => "html",
            Self::Index => "index",
            Self::Slice => "slice",
            Self::Js => "js",
            Self::Len => "len",
            Self::Not => "not",
            Self::Or => "or",
            Self::Print => "print",
            Self::Printf => "printf",
            Self::Println => "println",
            Self::UrlQuery => "urlquery",
            Self::Eq => "eq",
            Self::Ge => "ge",
            Self::Gt => "gt",
            Self::Le => "le",
            Self::Lt => "lt",
            Self::Ne => "ne",
        }
    }

    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"and" => Self::And,
            b"call" => Self::Call,
            b"html" => Self::Html,
            b"index" => Self::Index,
            b"slice" => Self::Slice,
            b"js" => Self::Js,
            b"len" => Self::Len,
            b"not" => Self::Not,
            b"or" => Self::Or,
            b"print" => Self::Print,
            b"printf" => Self::Printf,
            b"println" => Self::Println,
            b"urlquery" => Self::UrlQuery,
            b"eq" => Self::Eq,
            b"ge" => Self::Ge,
            b"gt" => Self::Gt,
            b"le" => Self::Le,
            b"lt" => Self::Lt,
            b"ne" => Self::Ne,
            _ => return None,
        })
    }
}

/// A numeric constant: what it can be read as, and what it is where any type will do.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) text: Str,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) ideal: Ideal,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ideal {
    Int(i64),
    Float(f64),
    Overflow,
}

/// The node that Go's executor would name in an error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'t> {
    Start,
    Node(&'t Node),
    Invocation(&'t Invocation),
    Pipe(&'t Pipe),
    Command(&'t Command),
    Expr(&'t Expr),
}

impl At<'_> {
    pub(crate) fn pos(self) -> Pos {
        match self {
            Self::Start => 0,
            Self::Node(node) => node.pos(),
            Self::Invocation(invocation) => invocation.pos,
            Self::Pipe(pipe) => pipe.pos,
            Self::Command(command) => command.args.first().map_or(0, |first| first.pos),
            Self::Expr(expr) => expr.pos,
        }
    }

    /// The node's source, written anew as Go does. `text` is the text it was parsed from.
    pub(crate) fn source(self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Start => {}
            Self::Node(node) => node.write(&mut out, text),
            Self::Invocation(invocation) => invocation.write(&mut out, text),
            Self::Pipe(pipe) => pipe.write(&mut out, text),
            Self::Command(command) => command.write(&mut out, text),
            Self::Expr(expr) => expr.write(&mut out, text),
        }
        out
    }
}

impl Node {
    pub(crate) fn pos(&self) -> Pos {
        match self {
            Self::Text { start, .. } => *start,
            Self::Action { pos, .. } | Self::Break(pos) | Self::Continue(pos) => *pos,
            Self::If(branch) | Self::Range(branch) | Self::With(branch) => branch.pipe.pos,
            Self::Template(invocation) => invocation.pos,
        }
    }

    fn write(&self, out: &mut Vec<u8>, text: &[u8]) {
        match self {
            Self::Text { start, end } => {
                out.extend_from_slice(text.get(*start as usize..*end as usize).unwrap_or_default());
            }
            Self::Action { pipe, .. } => {
                out.extend_from_slice(b"{{");
                pipe.write(out, text);
                out.extend_from_slice(b"}}");
            }
            Self::If(branch) => branch.write(out, b"if", text),
            Self::Range(branch) => branch.write(out, b"range", text),
            Self::With(branch) => branch.write(out, b"with", text),
            Self::Template(invocation) => invocation.write(out, text),
            Self::Break(_) => out.extend_from_slice(b"{{break}}"),
            Self::Continue(_) => out.extend_from_slice(b"{{continue}}"),
        }
    }
}

impl Branch {
    fn write(&self, out: &mut Vec<u8>, word: &[u8], text: &[u8]) {
        out.extend_from_slice(b"{{");
        out.extend_from_slice(word);
        out.push(b' ');
        self.pipe.write(out, text);
        out.extend_from_slice(b"}}");
        for node in &self.body {
            node.write(out, text);
        }
        if let Some(otherwise) = &self.otherwise {
            out.extend_from_slice(b"{{else}}");
            for node in otherwise {
                node.write(out, text);
            }
        }
        out.extend_from_slice(b"{{end}}");
    }
}

impl Invocation {
    fn write(&self, out: &mut Vec<u8>, text: &[u8]) {
        out.extend_from_slice(b"{{template ");
        out.extend_from_slice(&quote(&self.name));
        if let Some(pipe) = &self.pipe {
            out.push(b' ');
            pipe.write(out, text);
        }
        out.extend_from_slice(b"}}");
    }
}

impl Pipe {
    pub(crate) fn write(&self, out: &mut Vec<u8>, text: &[u8]) {
        for (index, variable) in self.declarations.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(&variable.name);
        }
        if !self.declarations.is_empty() {
            out.extend_from_slice(if self.assign { b" = " } else { b" := " });
        }
        for (index, command) in self.commands.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(b" | ");
            }
            command.write(out, text);
        }
    }
}

impl Command {
    fn write(&self, out: &mut Vec<u8>, text: &[u8]) {
        for (index, arg) in self.args.iter().enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            arg.write_operand(out, text);
        }
    }
}

impl Expr {
    fn write_operand(&self, out: &mut Vec<u8>, text: &[u8]) {
        if let ExprKind::Pipe(pipe) = &self.kind {
            out.push(b'(');
            pipe.write(out, text);
            out.push(b')');
        } else {
            self.write(out, text);
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, text: &[u8]) {
        match &self.kind {
            ExprKind::Bool(true) => out.extend_from_slice(b"true"),
            ExprKind::Bool(false) => out.extend_from_slice(b"false"),
            ExprKind::Dot => out.push(b'.'),
            ExprKind::Nil => out.extend_from_slice(b"nil"),
            ExprKind::Number(number) => out.extend_from_slice(&number.text),
            ExprKind::String { width, .. } => {
                let (start, width) = (self.pos as usize, *width as usize);
                out.extend_from_slice(text.get(start..start + width).unwrap_or_default());
            }
            ExprKind::Field(fields) => write_fields(out, fields),
            ExprKind::Variable { name, fields, .. } => {
                out.extend_from_slice(name);
                write_fields(out, fields);
            }
            ExprKind::Function(target) => out.extend_from_slice(target.name().as_bytes()),
            ExprKind::Chain { of, fields } => {
                of.write_operand(out, text);
                write_fields(out, fields);
            }
            ExprKind::Pipe(pipe) => pipe.write(out, text),
        }
    }

    /// The source as text. `text` is the text it was parsed from.
    pub(crate) fn source(&self, text: &[u8]) -> String {
        let mut out = Vec::new();
        self.write(&mut out, text);
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn write_fields(out: &mut Vec<u8>, fields: &[Str]) {
    for field in fields {
        out.push(b'.');
        out.extend_from_slice(field);
    }
}

/// Whether a body holds nothing but space (Go's `IsEmptyTree`).
pub(crate) fn is_empty(body: &[Node], text: &[u8]) -> bool {
    body.iter().all(|node| match node {
        Node::Text { start, end } => {
            let bytes = text.get(*start as usize..*end as usize).unwrap_or_default();
            String::from_utf8_lossy(bytes).trim().is_empty()
        }
        _ => false,
    })
}
