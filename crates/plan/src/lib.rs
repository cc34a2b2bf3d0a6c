//! What a Release does to its target cluster, as data.
//!
//! [`plan`] takes the objects that rendering produced, the inventory of what was applied before and
//! what is known of the target, and answers with a [`Plan`]: which objects are applied in which
//! [`Wave`], which are kept because they are already right, which are pruned and which are left
//! alone, each with its reason. When something is wrong with the input it answers with all
//! [`Problem`]s instead, and then nothing may be applied or pruned.
//!
//! The inventory moves in two steps: [`Plan::write_ahead`] is stored before the first write to the
//! target, [`Plan::settle`] after the last one. Between the two a crash loses nothing: every object that
//! may exist on the target is named. [`LateWrites`] says what is done about requests that got no answer.

#![warn(missing_docs)]

mod adoption;
mod changes;
mod desired;
mod digest;
mod hooks;
mod inventory;
mod key;
mod kinds;
mod late;
mod left_alone;
mod order;
mod planner;
mod preview;
mod problem;
mod report;
mod steps;

pub use adoption::{HelmRelease, applies_label, taken_over};
pub use changes::{Changes, FieldChange, Mask, Masked, Sides, manifest};
pub use desired::{Desired, How, Rendered, normalize};
pub use digest::digest_of;
pub use hooks::{DeletePolicies, Hook, RenderedHook, runs_to_an_end};
pub use inventory::{Entry, Fate};
pub use key::{ObjectKey, ObjectRef};
pub use kinds::{KindFact, Kinds};
pub use late::{LATEST_ARRIVAL, LateWrites};
pub use left_alone::{LeftAlone, field_of, names_item, remove_field};
pub use order::{Stage, is_guarded, is_protected_namespace, stage_of};
pub use planner::{
    Apply, ApplyReason, Input, Keep, KeepReason, Live, LiveObject, Member, Plan, Policy, Prune, PruneReason,
    Reapply, ReleaseId, Wave, keys_to_look_at, plan,
};
pub use preview::{PlanPreview, Tried};
pub use problem::{Problem, Problems};
pub use report::Counts;
pub use steps::{HookStep, Step, next_hook_step, next_step};
