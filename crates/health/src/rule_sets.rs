//! Rules that users write, in HealthRuleSets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoy_api::{HealthRule, HealthRuleSetSpec};
use convoy_cel::{EvaluateError, Expression};
use jiff::Timestamp;
use serde_json::Value;

use crate::health::{Health, State};
use crate::{generic, health_of};

/// Longest message that a rule makes, in characters.
const LONGEST_MESSAGE: usize = 1024;
/// The reason of what a rule says.
const REASON: &str = "HealthRule";

/// Group and kind.
pub type GroupKind = (String, String);

/// The rules of all HealthRuleSets, as they are now. Without any, objects are judged by the built-in rules.
#[derive(Debug, Default)]
pub struct HealthRules {
    by_kind: BTreeMap<GroupKind, Vec<Compiled>>,
}

/// A rule whose expressions can be evaluated.
#[derive(Debug)]
struct Compiled {
    /// The HealthRuleSet.
    set: String,
    versions: Vec<String>,
    healthy: Option<Expression>,
    progressing: Option<Expression>,
    degraded: Option<Expression>,
    suspended: Option<Expression>,
    message: Option<Expression>,
}

/// An expression that cannot be evaluated, with where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFault {
    /// The path of the field.
    pub field: String,
    /// Why.
    pub why: String,
}

/// What of a spec cannot be evaluated. The apiserver refuses such a spec, but one may be older than its rules.
pub fn rule_faults(spec: &HealthRuleSetSpec) -> Vec<RuleFault> {
    let of = |(index, rule): (usize, &HealthRule)| -> Vec<RuleFault> {
        let faults = rule.expressions().filter_map(|(field, text)| {
            let why = Expression::compile(text).err()?.to_string();
            Some(RuleFault { field: format!("spec.rules[{index}].{field}"), why })
        });
        faults.collect()
    };
    spec.rules.iter().enumerate().flat_map(of).collect()
}

impl HealthRules {
    /// The rules of some sets; a rule that cannot be evaluated is left out.
    pub fn of<'a>(sets: impl IntoIterator<Item = (&'a str, &'a HealthRuleSetSpec)>) -> Self {
        let mut sorted: Vec<_> = sets.into_iter().collect();
        sorted.sort_by_key(|(name, _)| *name);
        let mut by_kind: BTreeMap<GroupKind, Vec<Compiled>> = BTreeMap::new();
        for (set, rule) in
            sorted.iter().flat_map(|(set, spec)| spec.rules.iter().map(move |rule| (set, rule)))
        {
            if let Some(compiled) = Compiled::of(set, rule) {
                by_kind.entry((rule.group.clone(), rule.kind.clone())).or_default().push(compiled);
            }
        }
        Self { by_kind }
    }

    /// The health of an object at a time, by the rule for its kind, or else as [`health_of`] says.
    pub fn health_of(&self, object: &Value, now: Timestamp) -> Health {
        match self.rule_for(object) {
            None => health_of(object, now),
            Some(rule) => generic::before_all(object).unwrap_or_else(|| rule.of_object(object)),
        }
    }

    /// Whether a rule is for the kind and version of an object.
    pub fn names(&self, object: &Value) -> bool {
        self.rule_for(object).is_some()
    }

    fn rule_for(&self, object: &Value) -> Option<&Compiled> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let rules = match self.by_kind.is_empty() {
            true => None,
            false => self.by_kind.get(&(group.to_owned(), text("kind").to_owned())),
        };
        let is_for =
            |rule: &&Compiled| rule.versions.is_empty() || rule.versions.iter().any(|named| named == version);
        rules.into_iter().flatten().find(is_for)
    }
}

impl Compiled {
    fn of(set: &str, rule: &HealthRule) -> Option<Self> {
        let compile = |text: &Option<String>| text.as_deref().map(Expression::compile).transpose().ok();
        Some(Self {
            set: set.to_owned(),
            versions: rule.versions.clone(),
            healthy: compile(&rule.healthy)?,
            progressing: compile(&rule.progressing)?,
            degraded: compile(&rule.degraded)?,
            suspended: compile(&rule.suspended)?,
            message: compile(&rule.message)?,
        })
    }

    fn of_object(&self, object: &Value) -> Health {
        let without_secrets = without_secrets(object);
        let object = without_secrets.as_ref().unwrap_or(object);
        let checks = [
            (&self.degraded, State::Degraded),
            (&self.suspended, State::Suspended),
            (&self.progressing, State::Progressing),
            (&self.healthy, State::Healthy),
        ];
        for (expression, state) in checks {
            let Some(expression) = expression else { continue };
            match expression.is_true(object) {
                Ok(true) if state == State::Healthy => return Health::healthy(),
                Ok(true) => return self.says(state, object),
                // A field is not there, for one.
                Ok(false) | Err(EvaluateError::Failed(_)) => {}
                Err(error) => {
                    let word = state.as_str().to_lowercase();
                    let message = format!("{word} of the HealthRuleSet {}: {error}", self.set);
                    return Health::new(State::Unknown, REASON, message);
                }
            }
        }
        match self.healthy {
            Some(_) => self.says(State::Progressing, object),
            None => Health::healthy(),
        }
    }

    fn says(&self, state: State, object: &Value) -> Health {
        let text = self.message.as_ref().and_then(|message| message.text(object, LONGEST_MESSAGE).ok());
        let message = text.filter(|text| !text.is_empty()).unwrap_or_else(|| {
            format!("by the HealthRuleSet {} it is {}", self.set, state.as_str().to_lowercase())
        });
        Health::new(state, REASON, message)
    }
}

/// A Secret as rules may see it, since what they say ends up in statuses.
fn without_secrets(object: &Value) -> Option<Value> {
    let is_secret = object.get("kind").is_some_and(|kind| kind == "Secret")
        && object.get("apiVersion").is_some_and(|version| version == "v1");
    is_secret.then(|| {
        let mut seen = object.clone();
        if let Some(fields) = seen.as_object_mut() {
            fields.retain(|name, _| !matches!(name.as_str(), "data" | "stringData"));
        }
        if let Some(metadata) = seen.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("annotations");
        }
        seen
    })
}

/// The HealthRuleSets that there are, and the rules that they make.
#[derive(Debug, Default)]
pub struct RuleSets {
    state: Mutex<RuleSetsState>,
}

#[derive(Debug, Default)]
struct RuleSetsState {
    sets: BTreeMap<String, HealthRuleSetSpec>,
    rules: Arc<HealthRules>,
}

impl RuleSets {
    /// The rules as they are now.
    pub fn rules(&self) -> Arc<HealthRules> {
        Arc::clone(&self.state().rules)
    }

    /// Takes in a HealthRuleSet, or that it is gone. Answers with the kinds whose rules may be other ones now.
    pub fn set(&self, name: &str, spec: Option<&HealthRuleSetSpec>) -> BTreeSet<GroupKind> {
        let mut state = self.state();
        if state.sets.get(name) == spec {
            return BTreeSet::new();
        }
        let old = match spec {
            Some(spec) => state.sets.insert(name.to_owned(), spec.clone()),
            None => state.sets.remove(name),
        };
        state.rules = Arc::new(HealthRules::of(state.sets.iter().map(|(name, spec)| (name.as_str(), spec))));
        let rules =
            |spec: Option<&HealthRuleSetSpec>| spec.map(|spec| spec.rules.clone()).unwrap_or_default();
        let (old, new) = (rules(old.as_ref()), rules(spec));
        let is_in = |all: &[HealthRule], rule: &HealthRule| all.contains(rule);
        let changed =
            old.iter().filter(|rule| !is_in(&new, rule)).chain(new.iter().filter(|rule| !is_in(&old, rule)));
        changed.map(|rule| (rule.group.clone(), rule.kind.clone())).collect()
    }

    fn state(&self) -> MutexGuard<'_, RuleSetsState> {
        // What panicked did so before it changed anything.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
