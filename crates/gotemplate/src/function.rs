//! Functions and methods that templates call, and what the executor lends them.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Limit, ParseError};
use crate::exec;
use crate::format::Budget;
use crate::session::{Scope, Session};
use crate::templates::Parsed;
use crate::value::{List, Map, Value};

/// A Go type as it stands in a function's signature.
///
/// Arguments are checked against it before the function runs, with Go's error texts, so a body may
/// rely on what it gets. `Value::Nil` is passed where Go passes a nil map, slice or interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `interface {}`: anything, nil too.
    Any,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `uint8`.
    Uint8,
    /// `uint32`.
    Uint32,
    /// `uint64`.
    Uint64,
    /// `float64`.
    Float64,
    /// `string`.
    String,
    /// `[]uint8`.
    Bytes,
    /// `[]interface {}`, or nil.
    List,
    /// `[]string`, or nil.
    Strings,
    /// `map[string]interface {}`, or nil; named types over it fit too.
    Map,
    /// `map[string]string`, or nil.
    StringMap,
    /// An object of the host with exactly this type name; never nil.
    Object(&'static str),
}

impl Type {
    /// Go's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::Bytes => "[]uint8",
            Self::List => "[]interface {}",
            Self::Strings => "[]string",
            Self::Map => "map[string]interface {}",
            Self::StringMap => "map[string]string",
            Self::Object(name) => name,
        }
    }
}

/// What a function takes and gives.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// The fixed parameters.
    pub params: &'static [Type],
    /// The element type of the last, `...` parameter.
    pub variadic: Option<Type>,
    /// The declared result. [`Type::Any`] matters: Go words errors about fields of such a result
    /// with `interface {}`, and of others with their own type.
    pub result: Type,
}

impl Signature {
    /// `func(params) result`.
    pub const fn new(params: &'static [Type], result: Type) -> Self {
        Self { params, variadic: None, result }
    }

    /// `func(params, ...rest) result`.
    pub const fn variadic(params: &'static [Type], rest: Type, result: Type) -> Self {
        Self { params, variadic: Some(rest), result }
    }
}

/// The body of a function. It may not keep state: what a render needs is in [`Call::host`].
pub type Body = fn(&mut Call<'_, '_>, &[Value]) -> Result<Value, FuncError>;

/// A function that templates can call by name.
#[derive(Clone)]
pub struct Function {
    /// What templates call it.
    pub name: &'static str,
    /// Its signature.
    pub signature: Signature,
    /// Its body.
    pub body: Body,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("signature", &self.signature).finish_non_exhaustive()
    }
}

/// The functions that templates may name, besides the built-in ones of text/template.
///
/// Names are resolved when a template is parsed; a function added here shadows a built-in one.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    by_name: HashMap<&'static str, Arc<Function>>,
}

impl Functions {
    /// Only the built-in functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a function.
    pub fn add(&mut self, name: &'static str, signature: Signature, body: Body) {
        self.by_name.insert(name, Arc::new(Function { name, signature, body }));
    }

    /// Takes a function away.
    pub fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// The function of that name, unless it is a built-in one.
    pub fn get(&self, name: &str) -> Option<&Arc<Function>> {
        self.by_name.get(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.by_name.keys().copied().collect();
        names.sort_unstable();
        names
    }
}

/// Why a function failed: Go's `error` that it would return. Displays its text.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct FuncError {
    message: String,
    limit: Option<Limit>,
}

impl FuncError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), limit: None }
    }

    /// A limit of the render was reached.
    pub fn limit(limit: Limit) -> Self {
        Self { message: limit.to_string(), limit: Some(limit) }
    }

    /// The limit that was reached, when one was.
    pub fn reached_limit(&self) -> Option<Limit> {
        self.limit
    }

    /// The same error with other text around it (Go's `fmt.Errorf("…: %w", err)`).
    #[must_use]
    pub fn wrap(self, message: impl FnOnce(&str) -> String) -> Self {
        Self { message: message(&self.message), limit: self.limit }
    }

    pub(crate) fn from_parts(message: String, limit: Option<Limit>) -> Self {
        Self { message, limit }
    }
}

/// What the executor lends to a function while it runs.
#[derive(Debug)]
pub struct Call<'c, 'r> {
    pub(crate) session: &'c mut Session<'r>,
    pub(crate) scope: &'c Scope<'c>,
}

impl Call<'_, '_> {
    /// The host's state of this render, when it is a `T`.
    pub fn host<T: Any>(&mut self) -> Option<&mut T> {
        self.session.host.as_mut()?.downcast_mut()
    }

    /// Runs the associated template `name` with `data` as dot and gives its output (Helm's `include`).
    ///
    /// # Errors
    /// Go's error text of the run, or `template: no template "x" associated with template "y"`.
    pub fn execute(&mut self, name: &[u8], data: &Value) -> Result<Vec<u8>, FuncError> {
        self.session.execute_in(self.scope, name, data).map_err(FuncError::from)
    }

    /// Whether a template of that name is associated.
    pub fn is_defined(&self, name: &[u8]) -> bool {
        self.scope.lookup(name).is_some()
    }

    /// Runs the main template of `parsed` with its definitions on top of the associated templates of
    /// the caller, which stay as they are (Helm's `tpl`).
    ///
    /// # Errors
    /// Go's error text of the run.
    pub fn execute_parsed(&mut self, parsed: &Parsed, data: &Value) -> Result<Vec<u8>, FuncError> {
        let scope = Scope::over(self.scope, parsed);
        // The text itself runs even when it is empty and a template has its name.
        match parsed.trees.get(parsed.name()) {
            Some(tree) => exec::execute(self.session, &scope, tree, data).map_err(FuncError::from),
            None => Ok(Vec::new()),
        }
    }

    /// Counts bytes that a function is about to make, such as the elements of a list. Strings that a function returns are counted by the executor.
    ///
    /// # Errors
    /// The limit of [`crate::Limits::max_allocated`] is reached.
    pub fn charge(&mut self, bytes: usize) -> Result<(), FuncError> {
        self.session.charge(bytes).map_err(FuncError::limit)
    }

    /// A `[]interface {}` whose elements count as so many bytes each for as long as the list is held: lists that grow
    /// by one element at a time are copied each time, and only the last is kept.
    ///
    /// # Errors
    /// The limit of [`crate::Limits::max_allocated`] is reached.
    pub fn list_of(&mut self, items: Vec<Value>, each: usize) -> Result<List, FuncError> {
        let bytes = items.len().saturating_mul(each);
        self.charge(bytes)?;
        Ok(List::counted(items, self.session.refund(bytes)))
    }

    /// Bytes that may still be made.
    pub fn allocation_left(&self) -> usize {
        self.session.allocation_left()
    }

    /// Bytes that one text may have now, and the limit that it reaches with one more.
    pub fn text_left(&self) -> (usize, Limit) {
        self.session.text_left()
    }

    /// Fails when a text of so many bytes is larger than is allowed.
    ///
    /// # Errors
    /// The limit of [`crate::Limits::max_text`], or of all that is made, is reached.
    pub fn check_text(&self, bytes: usize) -> Result<(), FuncError> {
        let (left, limit) = self.session.text_left();
        if bytes > left { Err(FuncError::limit(limit)) } else { Ok(()) }
    }

    /// So many bytes of print, unless the render is stopped meanwhile.
    pub fn budget(&self, bytes: usize) -> Budget<'_> {
        self.session.budget(bytes)
    }

    /// Whether the render's time has run out: for work that cannot be counted in steps.
    pub fn is_stopped(&self) -> bool {
        self.session.is_stopped()
    }

    /// Counts steps of work that is not visible to the executor.
    ///
    /// # Errors
    /// The limit of [`crate::Limits::max_steps`] or the deadline is reached.
    pub fn steps(&mut self, steps: u64) -> Result<(), FuncError> {
        self.session.count_steps(steps).map_err(FuncError::limit)
    }

    /// Tells that a list or map was put into `map` after its making. A cycle of shared maps would
    /// never be freed; the session therefore empties these maps when it ends.
    pub fn mutated(&mut self, map: &Map) {
        self.session.mutated(map);
    }
}

impl From<ParseError> for FuncError {
    fn from(error: ParseError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<&str> for FuncError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<String> for FuncError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}
