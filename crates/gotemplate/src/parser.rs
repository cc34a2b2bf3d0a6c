//! Builds the tree of a template from its tokens, with the grammar and the error texts of Go's
//! text/template/parse.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{
    Body, Branch, Builtin, Command, Expr, ExprKind, Ideal, Invocation, Node, Number, Pipe, Target, Variable,
    is_empty,
};
use crate::error::ParseError;
use crate::function::Functions;
use crate::known::Known;
use crate::lexer::{Kind, Lexer, Token};
use crate::number::{parse_float, parse_int, parse_uint};
use crate::quote::{quote, unquote, unquote_char};
use crate::stack;
use crate::templates::Tree;
use crate::text::Str;

// Go allows 10 000 nested parentheses and any depth of blocks; nobody writes a tenth of this.
const MAX_DEPTH: usize = 1_000;

/// Parses `text` into its named trees; the main one has the name `name`.
pub(crate) fn parse_trees(
    name: &Str,
    text: &Str,
    functions: &Functions,
) -> Result<HashMap<Str, Arc<Tree>>, ParseError> {
    if u32::try_from(text.len()).is_err() {
        return Err(ParseError { message: format!("template: {name}: text is larger than 4 GiB"), line: 1 });
    }
    let mut lexer = Lexer::new(text);
    lexer.break_ok = functions.get("break").is_none();
    lexer.continue_ok = functions.get("continue").is_none();
    let mut parser = Parser {
        name,
        text,
        functions,
        lexer,
        token: [Token { kind: Kind::Eof, start: 0, end: 0 }; 3],
        peek_count: 0,
        variables: vec![0],
        variable_ids: HashMap::from([(Str::from("$"), 0)]),
        range_depth: 0,
        depth: 0,
        action_line: None,
        operands: Vec::new(),
        commands: Vec::new(),
        nodes: Vec::new(),
        known: Known::default(),
        trees: HashMap::new(),
    };
    let root = parser.main()?;
    parser.add(name.clone(), root)?;
    Ok(parser.trees)
}

struct Parser<'p> {
    name: &'p Str,
    text: &'p Str,
    functions: &'p Functions,
    lexer: Lexer<'p>,
    token: [Token; 3],
    peek_count: usize,
    /// Names in scope, by id.
    variables: Vec<u32>,
    variable_ids: HashMap<Str, u32>,
    range_depth: usize,
    depth: usize,
    action_line: Option<usize>,
    /// Operands, commands and nodes of what is read now, until their number is known.
    operands: Vec<Expr>,
    commands: Vec<Command>,
    nodes: Vec<Node>,
    /// Names and short texts, which templates repeat.
    known: Known,
    trees: HashMap<Str, Arc<Tree>>,
}

/// What ends a list of nodes.
enum Stop {
    End,
    Else,
}

/// A node, or the `end` or `else` in its place.
enum Item {
    Node(Node),
    Stop(Stop),
}

impl Stop {
    fn source(&self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else => "{{else}}",
        }
    }
}

type Parse<T> = Result<T, ParseError>;

impl Parser<'_> {
    // Tokens.

    fn next(&mut self) -> Token {
        if self.peek_count > 0 {
            self.peek_count -= 1;
        } else {
            self.token[0] = self.lexer.next_token();
        }
        self.token.get(self.peek_count).copied().unwrap_or(self.token[0])
    }

    fn backup(&mut self) {
        self.peek_count += 1;
    }

    fn peek(&mut self) -> Token {
        if self.peek_count > 0 {
            return self.token.get(self.peek_count - 1).copied().unwrap_or(self.token[0]);
        }
        self.peek_count = 1;
        self.token[0] = self.lexer.next_token();
        self.token[0]
    }

    fn next_non_space(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token {
        let token = self.next_non_space();
        self.backup();
        token
    }

    // Errors.

    fn error(&self, message: impl AsRef<str>) -> ParseError {
        let line = self.lexer.line(self.token[0].start);
        ParseError { message: format!("template: {}:{line}: {}", self.name, message.as_ref()), line }
    }

    fn unexpected(&self, token: Token, context: &str) -> ParseError {
        let shown = self.lexer.describe(token);
        if token.kind != Kind::Error {
            return self.error(format!("unexpected {shown} in {context}"));
        }
        let mut extra = String::new();
        if let Some(started) = self.action_line.map(|pos| self.lexer.line(pos))
            && started != self.lexer.line(token.start)
        {
            extra = format!(" in action started at {}:{started}", self.name);
            if shown.ends_with(" action") {
                extra = extra.replacen(" in action", "", 1);
            }
        }
        self.error(format!("{shown}{extra}"))
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parse<Token> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { Err(self.unexpected(token, context)) }
    }

    fn descend<T>(&mut self, run: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error("max expression depth exceeded"));
        }
        self.depth += 1;
        let result = stack::with_stack(|| run(self));
        self.depth -= 1;
        result
    }

    // Lists.

    fn main(&mut self) -> Parse<Body> {
        loop {
            match self.peek().kind {
                Kind::Eof => return Ok(self.nodes.drain(..).collect()),
                Kind::LeftDelim => {
                    let delim = self.next();
                    if self.next_non_space().kind == Kind::Define {
                        self.definition()?;
                        continue;
                    }
                    self.token[1] = delim;
                    self.peek_count = 2;
                }
                _ => {}
            }
            match self.text_or_action()? {
                Item::Node(node) => self.nodes.push(node),
                Item::Stop(stop) => return Err(self.error(format!("unexpected {}", stop.source()))),
            }
        }
    }

    fn definition(&mut self) -> Parse<()> {
        const CONTEXT: &str = "define clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        let body = self.own_scope(CONTEXT)?;
        self.add(name, body)
    }

    // The body of a `define` or `block`, which sees no variables of the text around it.
    fn own_scope(&mut self, context: &str) -> Parse<Body> {
        let outer_variables = std::mem::replace(&mut self.variables, vec![0]);
        let outer_ranges = std::mem::take(&mut self.range_depth);
        let outer_action = self.action_line.take();
        let (body, stop) = self.items()?;
        if !matches!(stop, Stop::End) {
            return Err(self.error(format!("unexpected {} in {context}", stop.source())));
        }
        self.variables = outer_variables;
        self.range_depth = outer_ranges;
        self.action_line = outer_action;
        Ok(body)
    }

    fn add(&mut self, name: Str, body: Body) -> Parse<()> {
        let empty = is_empty(&body, self.text);
        match self.trees.get(&name) {
            Some(existing) if !existing.empty => {
                if empty {
                    return Ok(());
                }
                let quoted = quote(&name);
                return Err(self.error(format!(
                    "template: multiple definition of template {}",
                    String::from_utf8_lossy(&quoted)
                )));
            }
            _ => {}
        }
        let tree =
            Tree { name: name.clone(), parse_name: self.name.clone(), text: self.text.clone(), body, empty };
        self.trees.insert(name, Arc::new(tree));
        Ok(())
    }

    fn items(&mut self) -> Parse<(Body, Stop)> {
        self.descend(|parser| {
            let first = parser.nodes.len();
            while parser.peek_non_space().kind != Kind::Eof {
                match parser.text_or_action()? {
                    Item::Node(node) => parser.nodes.push(node),
                    Item::Stop(stop) => return Ok((parser.nodes.drain(first..).collect(), stop)),
                }
            }
            Err(parser.error("unexpected EOF"))
        })
    }

    fn text_or_action(&mut self) -> Parse<Item> {
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text { start: pos(token.start), end: pos(token.end) })),
            Kind::LeftDelim => {
                self.action_line = Some(token.start);
                let item = self.action()?;
                self.action_line = None;
                Ok(item)
            }
            _ => Err(self.unexpected(token, "input")),
        }
    }

    fn action(&mut self) -> Parse<Item> {
        let token = self.next_non_space();
        Ok(match token.kind {
            Kind::Block => Item::Node(self.block()?),
            Kind::Break => {
                self.loop_exit("{{break}}")?;
                Item::Node(Node::Break(pos(token.start)))
            }
            Kind::Continue => {
                self.loop_exit("{{continue}}")?;
                Item::Node(Node::Continue(pos(token.start)))
            }
            Kind::Else => {
                self.else_control()?;
                Item::Stop(Stop::Else)
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                Item::Stop(Stop::End)
            }
            Kind::If => Item::Node(Node::If(self.branch("if")?)),
            Kind::Range => Item::Node(Node::Range(self.branch("range")?)),
            Kind::With => Item::Node(Node::With(self.branch("with")?)),
            Kind::Template => Item::Node(self.template()?),
            _ => {
                self.backup();
                let first = self.peek();
                let pipe = self.pipeline("command", Kind::RightDelim)?;
                Item::Node(Node::Action { pos: pos(first.start), pipe })
            }
        })
    }

    fn loop_exit(&mut self, source: &str) -> Parse<()> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return Err(self.unexpected(token, source));
        }
        if self.range_depth == 0 {
            return Err(self.error(format!("{source} outside {{{{range}}}}")));
        }
        Ok(())
    }

    fn else_control(&mut self) -> Parse<()> {
        // `else if` and `else with`: the word stays for the branch that reads this.
        if matches!(self.peek_non_space().kind, Kind::If | Kind::With) {
            return Ok(());
        }
        self.expect(Kind::RightDelim, "else").map(|_| ())
    }

    fn branch(&mut self, context: &'static str) -> Parse<Box<Branch>> {
        self.descend(|parser| {
            let in_scope = parser.variables.len();
            let pipe = parser.pipeline(context, Kind::RightDelim)?;
            let ranging = usize::from(context == "range");
            parser.range_depth += ranging;
            let (body, stop) = parser.items()?;
            parser.range_depth -= ranging;
            let mut otherwise = None;
            if matches!(stop, Stop::Else) {
                let word = parser.peek().kind;
                otherwise = Some(if context == "if" && word == Kind::If {
                    parser.next();
                    Box::new([Node::If(parser.branch("if")?)])
                } else if context == "with" && word == Kind::With {
                    parser.next();
                    Box::new([Node::With(parser.branch("with")?)])
                } else {
                    let (body, stop) = parser.items()?;
                    if !matches!(stop, Stop::End) {
                        return Err(parser.error(format!("expected end; found {}", stop.source())));
                    }
                    body
                });
            }
            parser.variables.truncate(in_scope);
            Ok(Box::new(Branch { pipe, body, otherwise }))
        })
    }

    fn block(&mut self) -> Parse<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        let body = self.own_scope(CONTEXT)?;
        self.add(name.clone(), body)?;
        Ok(Node::Template(Box::new(Invocation { pos: pos(token.start), name, pipe: Some(pipe) })))
    }

    fn template(&mut self) -> Parse<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let mut pipe = None;
        if self.next_non_space().kind != Kind::RightDelim {
            self.backup();
            pipe = Some(self.pipeline(CONTEXT, Kind::RightDelim)?);
        }
        Ok(Node::Template(Box::new(Invocation { pos: pos(token.start), name, pipe })))
    }

    fn template_name(&mut self, token: Token, context: &str) -> Parse<Str> {
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return Err(self.unexpected(token, context));
        }
        unquote(self.lexer.bytes(token))
            .map(|name| Str::from(&*name))
            .ok_or_else(|| self.error("invalid syntax"))
    }

    // Pipelines.

    fn pipeline(&mut self, context: &'static str, end: Kind) -> Parse<Pipe> {
        let first = self.peek_non_space();
        let first_command = self.commands.len();
        let (mut assign, mut declarations) = (false, Vec::new());
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                break;
            }
            self.next();
            // Space is a token: in `$x foo` the word must be read before it is known that `$x` is
            // an operand and not declared here, and then all goes back.
            let after = self.peek();
            let next = self.peek_non_space();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    assign = next.kind == Kind::Assign;
                    self.next_non_space();
                    declarations.push(self.declare(variable));
                }
                Kind::Char if self.lexer.bytes(next) == b"," => {
                    self.next_non_space();
                    declarations.push(self.declare(variable));
                    if context == "range" && declarations.len() < 2 {
                        match self.peek_non_space().kind {
                            Kind::Variable | Kind::RightDelim | Kind::RightParen => continue,
                            _ => return Err(self.error("range can only initialize variables")),
                        }
                    }
                    return Err(self.error(format!("too many declarations in {context}")));
                }
                _ if after.kind == Kind::Space => {
                    self.token[1] = after;
                    self.token[2] = variable;
                    self.peek_count = 3;
                }
                _ => {
                    self.token[1] = variable;
                    self.peek_count = 2;
                }
            }
            break;
        }
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => {
                    let commands = self.commands.drain(first_command..).collect();
                    let pipe =
                        Pipe { pos: pos(first.start), assign, declarations: declarations.into(), commands };
                    self.check_pipeline(&pipe, context)?;
                    return Ok(pipe);
                }
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    self.backup();
                    let command = self.command()?;
                    self.commands.push(command);
                }
                _ => return Err(self.unexpected(token, context)),
            }
        }
    }

    fn declare(&mut self, token: Token) -> Variable {
        let name = self.lexer.bytes(token);
        let (name, id) = match self.variable_ids.get_key_value(name) {
            Some((name, id)) => (name.clone(), *id),
            None => {
                let id = u32::try_from(self.variable_ids.len()).unwrap_or(u32::MAX);
                let name = Str::from(name);
                self.variable_ids.insert(name.clone(), id);
                (name, id)
            }
        };
        self.variables.push(id);
        Variable { id, name }
    }

    fn check_pipeline(&self, pipe: &Pipe, context: &str) -> Parse<()> {
        if pipe.commands.is_empty() {
            return Err(self.error(format!("missing value for {context}")));
        }
        for (index, command) in pipe.commands.iter().enumerate().skip(1) {
            if let Some(first) = command.args.first()
                && matches!(
                    first.kind,
                    ExprKind::Bool(_)
                        | ExprKind::Dot
                        | ExprKind::Nil
                        | ExprKind::Number(_)
                        | ExprKind::String { .. }
                )
            {
                return Err(self.error(format!("non executable command in pipeline stage {}", index + 1)));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parse<Command> {
        self.peek_non_space();
        let first = self.operands.len();
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                self.operands.push(operand);
            }
            let token = self.next();
            match token.kind {
                Kind::Space => {}
                Kind::RightDelim | Kind::RightParen => {
                    self.backup();
                    break;
                }
                Kind::Pipe => break,
                _ => return Err(self.unexpected(token, "operand")),
            }
        }
        let args: Box<[Expr]> = self.operands.drain(first..).collect();
        if args.is_empty() {
            return Err(self.error("empty command"));
        }
        Ok(Command { args })
    }

    fn operand(&mut self) -> Parse<Option<Expr>> {
        let Some(term) = self.term()? else { return Ok(None) };
        let chained = self.peek();
        if chained.kind != Kind::Field {
            return Ok(Some(term));
        }
        // Go gives a chain the place of its first field.
        let at = pos(chained.start);
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            let token = self.next();
            fields.push(self.field_name(token));
        }
        let kind = match term.kind {
            ExprKind::Field(first) => ExprKind::Field(first.into_iter().chain(fields).collect()),
            ExprKind::Variable { id, name, .. } => ExprKind::Variable { id, name, fields: fields.into() },
            ExprKind::Bool(_)
            | ExprKind::String { .. }
            | ExprKind::Number(_)
            | ExprKind::Nil
            | ExprKind::Dot => {
                let quoted = quote(term.source(self.text).as_bytes());
                return Err(
                    self.error(format!("unexpected . after term {}", String::from_utf8_lossy(&quoted)))
                );
            }
            _ => ExprKind::Chain { of: Box::new(term), fields: fields.into() },
        };
        Ok(Some(Expr { pos: at, kind }))
    }

    fn field_name(&mut self, token: Token) -> Str {
        self.known.share(self.lexer.bytes(token).get(1..).unwrap_or_default())
    }

    fn term(&mut self) -> Parse<Option<Expr>> {
        let token = self.next_non_space();
        let bytes = self.lexer.bytes(token);
        let kind = match token.kind {
            Kind::Identifier => {
                let target = self.resolve(bytes)?;
                ExprKind::Function(target)
            }
            Kind::Dot => ExprKind::Dot,
            Kind::Nil => ExprKind::Nil,
            Kind::Variable => {
                let known = self.variable_ids.get_key_value(bytes);
                let Some((name, id)) = known.filter(|(_, id)| self.variables.contains(id)) else {
                    let quoted = quote(bytes);
                    return Err(
                        self.error(format!("undefined variable {}", String::from_utf8_lossy(&quoted)))
                    );
                };
                ExprKind::Variable { id: *id, name: name.clone(), fields: Box::new([]) }
            }
            Kind::Field => ExprKind::Field(Box::new([self.field_name(token)])),
            Kind::Bool => ExprKind::Bool(bytes == b"true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => {
                let number = number(token.kind, bytes).map_err(|message| self.error(message))?;
                ExprKind::Number(Box::new(number))
            }
            Kind::LeftParen => {
                let pipe =
                    self.descend(|parser| parser.pipeline("parenthesized pipeline", Kind::RightParen))?;
                // Like every pipeline, it stands where its first token is.
                return Ok(Some(Expr { pos: pipe.pos, kind: ExprKind::Pipe(Box::new(pipe)) }));
            }
            Kind::String | Kind::RawString => {
                let text = unquote(bytes).ok_or_else(|| self.error("invalid syntax"))?;
                ExprKind::String { width: pos(bytes.len()), text: self.known.share(&text) }
            }
            _ => {
                self.backup();
                return Ok(None);
            }
        };
        Ok(Some(Expr { pos: pos(token.start), kind }))
    }

    fn resolve(&self, name: &[u8]) -> Parse<Target> {
        if let Some(function) = std::str::from_utf8(name).ok().and_then(|name| self.functions.get(name)) {
            return Ok(Target::Host(Arc::clone(function)));
        }
        Builtin::named(name).map(Target::Builtin).ok_or_else(|| {
            let quoted = quote(name);
            self.error(format!("function {} not defined", String::from_utf8_lossy(&quoted)))
        })
    }
}

fn pos(offset: usize) -> u32 {
    // The text is checked to be shorter than this.
    u32::try_from(offset).unwrap_or(u32::MAX)
}

fn number(kind: Kind, bytes: &[u8]) -> Result<Number, String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let quoted = || String::from_utf8_lossy(&quote(text.as_bytes())).into_owned();
    if kind == Kind::CharConstant {
        let rune = unquote_char(bytes)?;
        #[allow(clippy::cast_precision_loss)]
        let float = rune as f64;
        return Ok(Number {
            text: bytes.into(),
            int: Some(rune),
            uint: u64::try_from(rune).ok(),
            float: Some(float),
            ideal: Ideal::Int(rune),
        });
    }
    if kind == Kind::Complex || text.ends_with('i') {
        return Err(format!("complex numbers are not supported: {}", quoted()));
    }
    let mut uint = parse_uint(&text);
    let mut int = parse_int(&text);
    if int == Some(0) {
        uint = Some(0);
    }
    #[allow(clippy::cast_precision_loss)]
    let mut float = int.map(|i| i as f64).or(uint.map(|u| u as f64));
    if float.is_none() {
        float = parse_float(&text);
        if let Some(f) = float {
            if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {}", quoted()));
            }
            int = whole(f);
            uint = int.and_then(|i| u64::try_from(i).ok());
        }
    }
    if int.is_none() && uint.is_none() && float.is_none() {
        return Err(format!("illegal number syntax: {}", quoted()));
    }
    let hex = matches!(bytes, [b'0', b'x' | b'X', _, ..]) && !text.contains(['p', 'P']);
    let ideal = match (int, float) {
        (_, Some(f)) if !hex && text.contains(['.', 'e', 'E', 'p', 'P']) => Ideal::Float(f),
        (Some(i), _) => Ideal::Int(i),
        _ => Ideal::Overflow,
    };
    Ok(Number { text: bytes.into(), int, uint, float, ideal })
}

// The integer that a float is, when it is one.
fn whole(f: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    #[allow(clippy::cast_possible_truncation)]
    (f.trunc() == f && (-LIMIT..LIMIT).contains(&f)).then_some(f as i64)
}
