//! One render: its limits and its use of templates.

use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::{ExecError, Limit};
use crate::exec;
use crate::format::Budget;
use crate::quote::quote;
use crate::templates::{Parsed, Templates, Tree};
use crate::text::Str;
use crate::value::{Map, Refund, Value};

/// What a render may use. The defaults fit the largest public charts several times over.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Actions, commands, loop turns and what functions do, in units of about a tenth of a microsecond.
    pub max_steps: u64,
    /// Bytes printed, in all templates of the session: what `include` and `tpl` give counts each time.
    pub max_output: usize,
    /// Bytes of strings, lists and maps that functions made, whether still held or not, but for lists that one
    /// element was added to and that were let go: so much memory values can take at most, and whether a render is within it does not depend on the machine.
    pub max_allocated: usize,
    /// Bytes of one text that a function makes or reads.
    pub max_text: usize,
    /// Templates that call each other: `template`, `include` and `tpl`.
    pub max_depth: usize,
    /// Blocks and parentheses that are open at a time, in all templates that call each other.
    pub max_blocks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 20_000_000,
            max_output: 64 << 20,
            max_allocated: 96 << 20,
            max_text: 10 << 20,
            max_depth: 2_000,
            max_blocks: 10_000,
        }
    }
}

impl Limits {
    /// The value of a limit, and what to do when it is reached: for the end of its error's text.
    pub fn advice(&self, limit: Limit) -> String {
        const LOOPS: &str = "look for a loop that does not end, or split the chart";
        match limit {
            Limit::Steps => format!("at most {} steps a render; {LOOPS}", self.max_steps),
            Limit::Output => {
                format!("at most {} bytes a render, with what include and tpl give; {LOOPS}", self.max_output)
            }
            Limit::Allocated => format!(
                "at most {} bytes a render; make fewer or smaller texts, lists and dicts",
                self.max_allocated
            ),
            Limit::Text => format!("at most {} bytes each; split what is that large", self.max_text),
            Limit::Depth => {
                format!("at most {}; look for a template that calls itself without end", self.max_depth)
            }
            Limit::Blocks => {
                format!("at most {}; look for a template that calls itself without end", self.max_blocks)
            }
            Limit::Nesting => format!(
                "at most {} deep; look for a dict or list that was put into itself",
                crate::MAX_NESTING
            ),
            Limit::Regex => {
                "at most 33554432 states times bytes; make the pattern or the text shorter".to_owned()
            }
            Limit::Deadline => {
                "make it do less, or ask for it again when the machine is less busy".to_owned()
            }
        }
    }
}

/// What a session used of its [`Limits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Of [`Limits::max_steps`].
    pub steps: u64,
    /// Of [`Limits::max_output`].
    pub output: usize,
    /// Of [`Limits::max_allocated`].
    pub allocated: usize,
}

/// What a field of a map gives when there is no such key (Go's option `missingkey`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// An invalid value: prints `<no value>`. Go's default.
    #[default]
    Invalid,
    /// The zero of the map's element type. Helm's choice.
    Zero,
    /// An error. Helm's choice under `--strict`.
    Error,
}

/// One render on one thread. It counts towards its limits over all its runs.
pub struct Session<'r> {
    pub(crate) limits: Limits,
    pub(crate) missing_key: MissingKey,
    pub(crate) host: Option<&'r mut dyn Any>,
    deadline: Option<&'r dyn Fn() -> bool>,
    steps: u64,
    allocated: usize,
    /// What lists that were let go give back.
    returned: Rc<Cell<usize>>,
    printed: usize,
    depth: usize,
    blocks: usize,
    mutated: Vec<Map>,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("limits", &self.limits)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

impl Default for Session<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'r> Session<'r> {
    /// With the default limits.
    pub fn new() -> Self {
        Self {
            limits: Limits::default(),
            missing_key: MissingKey::default(),
            host: None,
            deadline: None,
            steps: 0,
            allocated: 0,
            returned: Rc::default(),
            printed: 0,
            depth: 0,
            blocks: 0,
            mutated: Vec::new(),
        }
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With another answer to missing keys.
    #[must_use]
    pub fn with_missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// With state for the host's functions, see [`crate::Call::host`].
    #[must_use]
    pub fn with_host(mut self, host: &'r mut dyn Any) -> Self {
        self.host = Some(host);
        self
    }

    /// With a question that is asked every thousand steps or so: has the time run out?
    #[must_use]
    pub fn with_deadline(mut self, passed: &'r dyn Fn() -> bool) -> Self {
        self.deadline = Some(passed);
        self
    }

    /// What was used so far.
    pub fn used(&self) -> Used {
        Used { steps: self.steps, output: self.printed, allocated: self.allocated }
    }

    /// Runs template `name` with `data` as dot (`$` too) and gives its output.
    ///
    /// # Errors
    /// Go's text with the place, or a limit.
    pub fn execute(
        &mut self,
        templates: &Templates,
        name: &[u8],
        data: &Value,
    ) -> Result<Vec<u8>, ExecError> {
        let scope = Scope::root(templates);
        self.execute_in(&scope, name, data)
    }

    pub(crate) fn execute_in(
        &mut self,
        scope: &Scope<'_>,
        name: &[u8],
        data: &Value,
    ) -> Result<Vec<u8>, ExecError> {
        let Some(tree) = scope.lookup(name) else {
            let quoted = quote(name);
            return Err(ExecError {
                message: format!(
                    "template: no template {} associated with template \"gotpl\"",
                    String::from_utf8_lossy(&quoted)
                ),
                location: None,
                limit: None,
            });
        };
        exec::execute(self, scope, tree, data)
    }

    /// One template more calls another.
    pub(crate) fn enter(&mut self) -> Result<(), Limit> {
        if self.depth >= self.limits.max_depth {
            return Err(Limit::Depth);
        }
        self.depth += 1;
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// One block or parenthesis more is open.
    pub(crate) fn open(&mut self) -> Result<(), Limit> {
        if self.blocks >= self.limits.max_blocks {
            return Err(Limit::Blocks);
        }
        self.blocks += 1;
        Ok(())
    }

    pub(crate) fn close(&mut self) {
        self.blocks = self.blocks.saturating_sub(1);
    }

    pub(crate) fn count_output(&mut self, bytes: usize) -> Result<(), Limit> {
        self.printed = self.printed.saturating_add(bytes);
        if self.printed > self.limits.max_output {
            return Err(Limit::Output);
        }
        self.count_steps(in_steps(bytes))
    }

    pub(crate) fn output_left(&self) -> usize {
        self.limits.max_output.saturating_sub(self.printed)
    }

    pub(crate) fn allocation_left(&self) -> usize {
        self.limits.max_allocated.saturating_sub(self.allocated)
    }

    /// So many bytes of print, unless the render is stopped.
    pub(crate) fn budget(&self, bytes: usize) -> Budget<'r> {
        Budget::new(bytes, self.deadline)
    }

    /// Bytes that one text may have, and the limit that says so.
    pub(crate) fn text_left(&self) -> (usize, Limit) {
        let left = self.allocation_left();
        if left < self.limits.max_text {
            (left, Limit::Allocated)
        } else {
            (self.limits.max_text, Limit::Text)
        }
    }

    pub(crate) fn refund(&self, bytes: usize) -> Refund {
        Refund { account: Rc::clone(&self.returned), bytes }
    }

    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Limit> {
        self.allocated = self.allocated.saturating_sub(self.returned.take()).saturating_add(bytes);
        if self.allocated > self.limits.max_allocated {
            return Err(Limit::Allocated);
        }
        // Also many small ones take their time.
        self.count_steps(in_steps(bytes).max(1))
    }

    pub(crate) fn count_steps(&mut self, steps: u64) -> Result<(), Limit> {
        let before = self.steps;
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.limits.max_steps {
            return Err(Limit::Steps);
        }
        if before >> 10 != self.steps >> 10 && self.is_stopped() {
            return Err(Limit::Deadline);
        }
        Ok(())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.deadline.is_some_and(|passed| passed())
    }

    pub(crate) fn mutated(&mut self, map: &Map) {
        self.mutated.push(map.clone());
    }
}

/// What it costs to go through so many bytes.
pub(crate) fn in_steps(bytes: usize) -> u64 {
    (bytes / 128) as u64
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for map in self.mutated.drain(..) {
            map.clear();
        }
    }
}

/// The templates that a run can reach: those of the session and, inside `tpl`, those of its text.
#[derive(Debug)]
pub(crate) struct Scope<'p> {
    own: &'p HashMap<Str, Arc<Tree>>,
    parent: Option<&'p Scope<'p>>,
}

impl<'p> Scope<'p> {
    fn root(templates: &'p Templates) -> Self {
        Self { own: &templates.trees, parent: None }
    }

    pub(crate) fn over(parent: &'p Scope<'p>, parsed: &'p Parsed) -> Self {
        Self { own: &parsed.trees, parent: Some(parent) }
    }

    pub(crate) fn lookup(&self, name: &[u8]) -> Option<&'p Arc<Tree>> {
        let parent = || self.parent.and_then(|parent| parent.lookup(name));
        match self.own.get(name) {
            // An empty definition does not replace another.
            Some(own) if own.empty => parent().or(Some(own)),
            Some(own) => Some(own),
            None => parent(),
        }
    }
}
