//! A plan in short.

use std::fmt;

use crate::{ApplyReason, KeepReason, Plan};

/// How many objects meet which end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects that are new on the target.
    pub create: usize,
    /// Objects that exist, belong to no Release, and are taken over.
    pub adopt: usize,
    /// Objects that exist and are applied.
    pub change: usize,
    /// Objects that are right already.
    pub unchanged: usize,
    /// Objects that are deleted.
    pub prune: usize,
    /// Objects that are left alone for another reason.
    pub left: usize,
}

impl Plan {
    /// Counts the objects of the plan.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { prune: self.prunes.len(), ..Counts::default() };
        for (_, apply) in self.applies() {
            match apply.reason {
                ApplyReason::Create => counts.create += 1,
                ApplyReason::Adopt => counts.adopt += 1,
                ApplyReason::Changed
                | ApplyReason::Unconfirmed
                | ApplyReason::Drifted
                | ApplyReason::Requested => counts.change += 1,
            }
        }
        for keep in &self.keeps {
            match keep.reason {
                KeepReason::Unchanged => counts.unchanged += 1,
                KeepReason::Ignored
                | KeepReason::NamespaceExists
                | KeepReason::Exists
                | KeepReason::PruneOff
                | KeepReason::Protected => counts.left += 1,
                KeepReason::MayComeLate | KeepReason::Hook => {}
            }
        }
        counts
    }
}

impl Counts {
    /// So many of the objects that were to be changed were gone, and are created instead.
    pub fn made_anew(&mut self, gone: usize) {
        let changed = gone.min(self.change);
        let adopted = (gone - changed).min(self.adopt);
        self.change -= changed;
        self.adopt -= adopted;
        self.create += changed + adopted;
    }
}

impl fmt::Display for Counts {
    /// `2 to create, 1 to change, 3 unchanged`; what is zero is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.create, "to create"),
            (self.adopt, "to adopt"),
            (self.change, "to change"),
            (self.unchanged, "unchanged"),
            (self.prune, "to prune"),
            (self.left, "left alone"),
        ];
        let mut separator = "";
        for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}{count} {what}")?;
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("nothing to do") } else { Ok(()) }
    }
}
