//! Go's text/template: the lexer, the parser and the executor, with Go's values and Go's error texts.
//!
//! ```
//! use convoy_gotemplate::{Functions, Session, Templates, Value, parse};
//!
//! let functions = Functions::new();
//! let mut templates = Templates::new();
//! templates.add(&parse("greet", "Hello {{ .name | printf \"%q\" }}", &functions)?);
//! let data = Value::map([("name", Value::from("World"))]);
//! let output = Session::new().execute(&templates, b"greet", &data)?;
//! assert_eq!(output, b"Hello \"World\"");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Parsed`] text and a set of [`Templates`] are immutable to the executor, `Send` and `Sync`:
//! parse once, run many times. A [`Session`] is one render on one thread, with its [`Limits`].

#![warn(missing_docs)]

/// Deepest nesting of a value that is printed, written, copied, compared or merged.
pub const MAX_NESTING: usize = 1_000;

mod ast;
mod builtins;
mod error;
mod escape;
mod exec;
mod format;
mod function;
mod known;
mod lexer;
mod number;
mod parser;
mod quote;
mod rune;
mod session;
mod stack;
mod templates;
mod text;
mod value;

pub use error::{ExecError, Limit, Location, ParseError};
pub use escape::{html_escape, query_escape};
pub use format::{Budget, sprint, sprintf, sprintln};
pub use function::{Body, Call, FuncError, Function, Functions, Signature, Type};
pub use number::{format_float, parse_float, parse_int};
pub use quote::{quote, quote_ascii};
pub use rune::{decode_rune, is_digit, is_letter, is_print, runes};
pub use session::{Limits, MissingKey, Session, Used};
pub use stack::with_stack;
pub use templates::{Parsed, Templates, parse};
pub use text::Str;
pub use value::{Elem, Kind, List, Map, Object, Value};
