//! Go's text/template: the lexer, the parser and the executor, with Go's values and Go's error texts.
//!
//! ```no_run
//! use convoy_gotemplate::{Functions, Session, Templates, Value, parse};
//!
//! let functions = Functions::new();
//! let mut templates = Templates::new();
//! templates.add(&parse("greet", b"Hello {{ .name | printf \"%q\" }}", &functions)?);
//! let data = Value::map([("name", Value::from("World"))]);
//! let output = Session::new().execute(&templates, b"greet", &data)?;
//! assert_eq!(output, b"Hello \"World\"");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Parsed`] text and a set of [`Templates`] are immutable to the executor, `Send` and `Sync`:
//! parse once, run many times. A [`Session`] is one render on one thread, with its [`Limits`].

mod error;
mod function;
mod session;
mod templates;
mod text;
mod value;

pub use error::{ExecError, Limit, Location, ParseError};
pub use function::{Body, Call, FuncError, Function, Functions, Signature, Type};
pub use session::{Limits, MissingKey, Session};
pub use templates::{Parsed, Templates, parse};
pub use text::Str;
pub use value::{Elem, Kind, List, Map, Object, Value};
