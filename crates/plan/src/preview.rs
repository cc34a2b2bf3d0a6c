//! A plan as people read it before anything is done.

use std::collections::BTreeMap;

use convoy_api::{
    DeliveryProgress, HookEvent, HookState, PreviewAction, PreviewChange, PreviewCounts, PreviewObject,
    PreviewStep,
};

use crate::{
    Apply, ApplyReason, Changes, Keep, KeepReason, Masked, ObjectKey, ObjectRef, Plan, Prune, PruneReason,
    Stage,
};

/// What asking the target without effect told of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It would be taken, with these changes.
    Taken(Changes),
    /// It is not there any more: it would be made.
    Gone,
    /// A field that cannot change was changed: it would be deleted and made anew.
    Recreated(String),
    /// The target would refuse it.
    Refused(String),
    /// It would not be deleted.
    Stays(String),
}

/// What a plan would do, object by object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanPreview {
    /// The objects in the order in which they would be worked on; those that stay as they are come last.
    pub objects: Vec<PreviewObject>,
    /// The steps.
    pub steps: Vec<PreviewStep>,
    /// How many objects meet which end.
    pub counts: PreviewCounts,
}

impl PlanPreview {
    /// Tells a plan. `progress` is how far the delivery of its bundle has come, as for
    /// [`next_step`](crate::next_step); `waits` tells whether waves wait for health; `tried` is what the target said
    /// of its objects; `anew` is why all objects are applied, when they are.
    pub fn of(
        plan: &Plan,
        progress: Option<&DeliveryProgress>,
        waits: bool,
        tried: &BTreeMap<ObjectKey, Tried>,
        anew: &str,
    ) -> Self {
        let mut telling = Telling { preview: Self::default(), tried, anew, last: None };
        let early = plan.waves.iter().take_while(|wave| wave.early).count();
        let (first, rest) = plan.waves.split_at(early);
        if !first.is_empty() {
            let has_definitions = first.iter().any(|wave| wave.stage == Stage::Definitions);
            telling.step("namespaces and definitions", String::new());
            first.iter().flat_map(|wave| &wave.applies).for_each(|apply| telling.apply(apply));
            telling.last = has_definitions.then(|| "the definitions are Established".to_owned());
        }
        telling.hooks(plan, progress, |progress| progress.operation.events().0);
        let mut numbers: Vec<i32> = rest.iter().map(|wave| wave.number).collect();
        numbers.dedup();
        let members = plan.numbers();
        for (index, number) in numbers.iter().enumerate() {
            let is_first = members.iter().all(|member| member >= number);
            if waits && !is_first {
                let below = members.iter().rfind(|member| *member < number);
                let below = below.map_or_else(String::new, ToString::to_string);
                telling.wait(format!("the objects up to wave {below} are healthy"));
            }
            let has_one = members.len() == 1 && numbers.len() == 1;
            let name = if has_one && index == 0 { "objects".to_owned() } else { format!("wave {number}") };
            telling.step(&name, String::new());
            let waves = rest.iter().filter(|wave| wave.number == *number);
            waves.flat_map(|wave| &wave.applies).for_each(|apply| telling.apply(apply));
        }
        if !plan.prunes.is_empty() {
            telling.step("prune", String::new());
            plan.prunes.iter().for_each(|prune| telling.prune(prune));
        }
        if waits {
            telling.wait("all objects are healthy".to_owned());
        }
        telling.hooks(plan, progress, |progress| progress.operation.events().1);
        plan.keeps.iter().for_each(|keep| telling.keep(plan, keep));
        let mut preview = telling.preview;
        preview.steps.retain(|step| step.objects > 0);
        // What stays as it is belongs to no step.
        preview.objects.sort_by_key(|object| object.step.is_none());
        preview
    }
}

struct Telling<'a> {
    preview: PlanPreview,
    tried: &'a BTreeMap<ObjectKey, Tried>,
    anew: &'a str,
    /// What the next step waits for.
    last: Option<String>,
}

impl Telling<'_> {
    fn step(&mut self, name: &str, waits_for: String) {
        // An empty step is none: what it waited for goes on to the next.
        if self.preview.steps.last().is_some_and(|step| step.objects == 0)
            && let Some(empty) = self.preview.steps.pop()
            && self.last.is_none()
        {
            self.last = Some(empty.waits_for).filter(|waits| !waits.is_empty());
        }
        let waits_for = self.last.take().unwrap_or(waits_for);
        self.preview.steps.push(PreviewStep { name: name.to_owned(), objects: 0, waits_for });
    }

    fn wait(&mut self, what: String) {
        self.last = Some(match self.last.take() {
            Some(earlier) => format!("{earlier}; {what}"),
            None => what,
        });
    }

    fn add(&mut self, mut object: PreviewObject) {
        self.preview.counts.add(object.action);
        if object.action != PreviewAction::Keep
            && let Some(step) = self.preview.steps.last_mut()
        {
            step.objects += 1;
            object.step = i64::try_from(self.preview.steps.len()).ok();
        }
        self.preview.objects.push(object);
    }

    fn hooks(
        &mut self,
        plan: &Plan,
        progress: Option<&DeliveryProgress>,
        event: impl Fn(&DeliveryProgress) -> HookEvent,
    ) {
        let Some(progress) = progress else { return };
        let event = event(progress);
        let has_run = |index: usize| {
            let mut runs = progress.hooks.iter().filter(|run| run.event == event);
            runs.any(|run| usize::try_from(run.index) == Ok(index) && run.state == HookState::Succeeded)
        };
        let hooks = plan.hooks.iter().enumerate();
        let hooks: Vec<_> =
            hooks.filter(|(index, hook)| hook.events.contains(&event) && !has_run(*index)).collect();
        if hooks.is_empty() {
            return;
        }
        self.step(&format!("{} hooks", event.as_str()), String::new());
        for (_, hook) in hooks {
            let mut object = named(&hook.apply.target, PreviewAction::RunHook);
            object.reason = match hook.ends {
                true => format!("a {} hook, which is waited for until it ends", event.as_str()),
                false => format!("a {} hook", event.as_str()),
            };
            object.source.clone_from(&hook.apply.source);
            if let Some(Tried::Refused(why)) = self.tried.get(&hook.apply.target.key) {
                object.problem.clone_from(why);
            }
            self.add(object);
        }
        self.wait(format!("the {} hooks have ended well", event.as_str()));
    }

    fn apply(&mut self, apply: &Apply) {
        let (action, reason) = match apply.reason {
            ApplyReason::Create => (PreviewAction::Create, "it is new in the bundle"),
            ApplyReason::Adopt => (PreviewAction::Adopt, "it exists, and becomes this Release's"),
            ApplyReason::Changed => (PreviewAction::Change, "the bundle has other content for it"),
            ApplyReason::Unconfirmed => (PreviewAction::Change, "an earlier apply of it was not confirmed"),
            ApplyReason::Drifted => (PreviewAction::Change, "it was changed on the target"),
            ApplyReason::Requested => (PreviewAction::Change, self.anew),
        };
        let mut object = named(&apply.target, action);
        object.source.clone_from(&apply.source);
        reason.clone_into(&mut object.reason);
        if apply.take_over {
            object.reason.push_str("; the fields that earlier tools wrote become convoy's");
        }
        match self.tried.get(&apply.target.key) {
            Some(Tried::Refused(why)) => object.problem.clone_from(why),
            Some(Tried::Recreated(why)) => {
                object.action = PreviewAction::Recreate;
                object.reason = format!("a field that cannot change was changed: {why}");
            }
            Some(Tried::Gone) => {
                object.action = PreviewAction::Create;
                "it is not on the target any more".clone_into(&mut object.reason);
            }
            Some(Tried::Taken(changes)) => {
                if changes.is_empty() && action == PreviewAction::Change {
                    object.reason.push_str("; no field of it would change");
                    if apply.reason == ApplyReason::Requested {
                        object.action = PreviewAction::Keep;
                    }
                }
                object.omitted_changes = i64::try_from(changes.omitted).unwrap_or(i64::MAX);
                object.changes = changes.fields.iter().cloned().map(change).collect();
            }
            Some(Tried::Stays(_)) | None => {}
        }
        self.add(object);
    }

    fn prune(&mut self, prune: &Prune) {
        let mut object = named(&prune.target, PreviewAction::Delete);
        match prune.reason {
            PruneReason::LeftBundle => "it left the bundle",
            PruneReason::ReleaseDeleted => "its Release is deleted",
            PruneReason::KindGone => "it left the bundle, and the target does not serve its kind any more",
            PruneReason::HookEnded => "its hook has ended",
        }
        .clone_into(&mut object.reason);
        match self.tried.get(&prune.target.key) {
            Some(Tried::Stays(why)) => {
                object.action = PreviewAction::Keep;
                object.reason = format!("it left the bundle, but {why}");
            }
            Some(Tried::Gone) => object.reason.push_str("; it is gone already"),
            Some(Tried::Refused(why)) => object.problem.clone_from(why),
            Some(Tried::Taken(_) | Tried::Recreated(_)) | None => {}
        }
        self.add(object);
    }

    fn keep(&mut self, plan: &Plan, keep: &Keep) {
        let reason = match keep.reason {
            KeepReason::Unchanged => "what was applied is what is wanted",
            KeepReason::Ignored => "its manifest asks to ignore it",
            KeepReason::NamespaceExists => "the namespace exists",
            KeepReason::Exists => "it is only wanted to exist, and does",
            KeepReason::PruneOff => "it left the bundle, but spec.apply.prune is false",
            KeepReason::Protected => "it left the bundle, but a cluster cannot be without it",
            // It is not on the target; and hooks' objects are told with their hooks.
            KeepReason::MayComeLate | KeepReason::Hook => return,
        };
        let ObjectKey { kind, namespace, name, .. } = keep.key.clone();
        let member = plan.members.iter().find(|member| member.target.key == keep.key);
        let object = PreviewObject {
            action: PreviewAction::Keep,
            api_version: member.map_or_else(|| keep.key.group.clone(), |member| member.target.api_version()),
            kind,
            namespace,
            name,
            reason: reason.to_owned(),
            ..PreviewObject::default()
        };
        self.add(object);
    }
}

fn named(at: &ObjectRef, action: PreviewAction) -> PreviewObject {
    PreviewObject {
        action,
        api_version: at.api_version(),
        kind: at.key.kind.clone(),
        namespace: at.key.namespace.clone(),
        name: at.key.name.clone(),
        ..PreviewObject::default()
    }
}

fn change(change: crate::FieldChange) -> PreviewChange {
    let text = |masked: Option<Masked>| masked.map(Masked::into_text).unwrap_or_default();
    PreviewChange { path: change.path, before: text(change.before), after: text(change.after) }
}
