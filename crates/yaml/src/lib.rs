//! YAML as Go's libraries read and write it, bounded.
//!
//! Helm and kubectl read YAML with `go.yaml.in/yaml/v2` under `sigs.k8s.io/yaml`: what they accept, what
//! type a scalar gets and how bytes are written back follows those libraries (and libyaml, from which they
//! come), not YAML 1.2. This crate does the same, with the same error texts, and in addition says line and
//! column of every error.
//!
//! - [`to_json`] reads the first document of a text, as `sigs.k8s.io/yaml.Unmarshal` does.
//! - [`read`] does so into any value that implements [`Build`].
//! - [`documents`] splits a stream as Kubernetes' own reader does.
//! - [`to_yaml`] writes a value as `sigs.k8s.io/yaml.Marshal` does; [`Emitter`] writes other values.

#![warn(missing_docs)]

mod base64;
mod build;
mod chars;
mod decode;
mod documents;
mod emit;
mod emit_scalar;
mod error;
mod go_syntax;
mod input;
mod number;
mod order;
mod parser;
mod resolve;
mod scan_scalar;
mod scan_tag;
mod scanner;
mod timestamp;
mod token;
mod tree;
mod write;

pub use build::Build;
pub use decode::Options;
pub use documents::{SeparatorError, documents};
pub use emit::Emitter;
pub use error::{DuplicateKey, Error};
pub use number::format_g;
pub use order::{natural_order, sort_naturally};
pub use write::{WriteError, to_yaml};

/// Largest text that is read.
pub const MAX_BYTES: usize = 256 << 20;

/// Deepest nesting of collections that is read, with aliases expanded. (Go's libraries stop at 10,000.)
pub const MAX_DEPTH: usize = 1000;

/// Reads the first document of a text; text without one is null.
///
/// # Errors
///
/// When the text is not YAML, when a value in it has no JSON form, or when a limit is passed.
pub fn read<V: Build>(bytes: &[u8], options: Options) -> Result<V, Error> {
    read_unless(bytes, options, &|| false)
}

/// [`read`], which ends when `stopped` says so; it is asked now and then.
///
/// # Errors
///
/// As for [`read`], and [`Error::Stopped`].
pub fn read_unless<V: Build>(bytes: &[u8], options: Options, stopped: &dyn Fn() -> bool) -> Result<V, Error> {
    let input = input::Input::new(bytes)?;
    let mut parser = parser::Parser::new(&input.text, input.bad);
    match tree::Tree::read(&mut parser, stopped)? {
        Some((tree, root)) => decode::Decoder::decode(&tree, root, options, stopped),
        None => Ok(V::null()),
    }
}

/// Reads the first document of a text as `sigs.k8s.io/yaml.Unmarshal` does: keys become strings, YAML 1.1
/// booleans are booleans, timestamps stay strings, and the last of two equal keys wins.
///
/// # Errors
///
/// As for [`read`].
pub fn to_json(bytes: &[u8]) -> Result<serde_json::Value, Error> {
    read(bytes, Options::default())
}

/// [`to_json`], but two equal keys in one mapping are an error.
///
/// # Errors
///
/// As for [`read`], and [`Error::Duplicates`].
pub fn to_json_strict(bytes: &[u8]) -> Result<serde_json::Value, Error> {
    read(bytes, Options { strict: true })
}
