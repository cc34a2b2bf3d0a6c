//! Parsed texts and sets of associated templates.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast;
use crate::error::ParseError;
use crate::function::Functions;
use crate::parser::parse_trees;
use crate::text::Str;

/// One named template: the main text or a `define`.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: Str,
    /// The name of the text it stands in.
    pub(crate) parse_name: Str,
    pub(crate) text: Str,
    pub(crate) body: ast::Body,
    /// Whether there is only space in it.
    pub(crate) empty: bool,
}

/// A parsed text: its main template and what it defines. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Parsed {
    name: Str,
    pub(crate) trees: Arc<HashMap<Str, Arc<Tree>>>,
}

impl Parsed {
    /// The name it was parsed under.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The names it defines, its own among them, sorted.
    pub fn names(&self) -> Vec<&Str> {
        let mut names: Vec<_> = self.trees.keys().collect();
        names.sort_unstable();
        names
    }
}

/// Parses a text. `functions` are those that it may name, besides the built-in ones; they are bound
/// now, so a render needs no table.
///
/// # Errors
/// Go's text with the line.
pub fn parse(
    name: impl Into<Str>,
    text: impl Into<Str>,
    functions: &Functions,
) -> Result<Parsed, ParseError> {
    let name: Str = name.into();
    let trees = parse_trees(&name, &text.into(), functions)?;
    Ok(Parsed { name, trees: Arc::new(trees) })
}

/// Templates that can call each other by name.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    pub(crate) trees: HashMap<Str, Arc<Tree>>,
}

impl Templates {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what a text defines, as Go's `(*Template).Parse` does: a later definition replaces an
    /// earlier one, but an empty one (only space and comments) does not.
    pub fn add(&mut self, parsed: &Parsed) {
        for (name, tree) in parsed.trees.iter() {
            if tree.empty && self.trees.contains_key(name) {
                continue;
            }
            self.trees.insert(name.clone(), Arc::clone(tree));
        }
    }

    /// Whether a template of that name is there.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.trees.contains_key(name)
    }
}
