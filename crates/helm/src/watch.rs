//! Whether a render is still wanted, for work outside of templates.

use std::cell::Cell;
use std::fmt;

/// After so many turns it is asked again.
const ASKED_AFTER: u32 = 1 << 10;

/// Asks now and then; once it was told to stop, everything that it watches ends at once with what it has so far.
pub(crate) struct Watch<'w> {
    is_stopped: &'w dyn Fn() -> bool,
    turns: Cell<u32>,
    is_over: Cell<bool>,
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl<'w> Watch<'w> {
    pub(crate) fn new(is_stopped: &'w dyn Fn() -> bool) -> Self {
        Self { is_stopped, turns: Cell::new(0), is_over: Cell::new(false) }
    }

    /// For what nobody stops.
    pub(crate) fn endless() -> Self {
        Self::new(&|| false)
    }

    /// One value more; whether to stop instead.
    pub(crate) fn turn(&self) -> bool {
        self.turns.set(self.turns.get().wrapping_add(1));
        if self.turns.get().is_multiple_of(ASKED_AFTER) && (self.is_stopped)() {
            self.is_over.set(true);
        }
        self.is_over.get()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }
}
