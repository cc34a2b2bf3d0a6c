//! A value held to a schema, keyword by keyword in Helm's order.

use crate::functions::SizedRegex;

use super::compile::{Additional, Compiled, Dependency, Id, Items, Schema};
use super::instance::{self, INTEGER};
use super::uri::escape;
use super::violation::{Kind, Violation, all_quoted, count, display, number, quoted};
use serde_json::{Map, Value as Json};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Schemas can refer to one another in ways that take exponential time: after so many steps the values count as
/// refused.
const MAX_STEPS: u64 = 1_000_000;
/// Steps between two looks at whether anyone waits for the answer.
const ASKED_AFTER: u64 = 512;
/// Looks at a state that one search may take: it cannot be left on its way.
const MAX_SEARCH: usize = 1 << 25;
/// References in references; deeper ones are refused.
const MAX_DEPTH: usize = 600;

impl Compiled {
    /// Holds a value to the schema.
    ///
    /// # Errors
    /// The list of violations.
    pub(super) fn validate(&self, value: &Json, is_stopped: &dyn Fn() -> bool) -> Result<(), String> {
        validate(self, value, is_stopped)
    }
}

/// Holds a value to a schema.
///
/// # Errors
/// The list of violations.
pub(super) fn validate(
    compiled: &Compiled,
    value: &Json,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), String> {
    let run = Run { compiled, is_stopped, steps: Cell::new(0), is_exhausted: Cell::new(false) };
    let Some(root) = run.schema(compiled.root) else { return Ok(()) };
    let scope = Scope { schema: compiled.root, keyword: "", value: 0, depth: 0, parent: None };
    let result = run.check(&Place { value, path: &Path::Root, scope: &scope, is_quiet: false }, false);
    if run.is_exhausted.get() {
        return Err(format!(
            "the schema takes too many steps to check: at most {MAX_STEPS}, and references at most {MAX_DEPTH} deep; make it simpler"
        ));
    }
    match result {
        Ok(_) => Ok(()),
        Err(violation) => Err(Violation::list(&parts(violation), &root.location)),
    }
}

fn parts(violation: Violation) -> Vec<Violation> {
    match violation.kind {
        Kind::Group => violation.causes,
        _ => vec![violation],
    }
}

struct Run<'c> {
    compiled: &'c Compiled,
    is_stopped: &'c dyn Fn() -> bool,
    steps: Cell<u64>,
    is_exhausted: Cell<bool>,
}

/// The way to a value.
enum Path<'p> {
    Root,
    Below(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Below(parent, key) => format!("{}/{}", parent.pointer(), escape(key)),
            Self::Item(parent, at) => format!("{}/{at}", parent.pointer()),
        }
    }
}

/// The schemas on the way, innermost first.
struct Scope<'s> {
    schema: Id,
    /// The reference that led here.
    keyword: &'static str,
    /// Number of the value: those of one value have the same.
    value: usize,
    depth: usize,
    parent: Option<&'s Scope<'s>>,
}

/// A value to be held to the schema of its scope.
struct Place<'p> {
    value: &'p Json,
    path: &'p Path<'p>,
    scope: &'p Scope<'p>,
    /// Only whether it is valid matters.
    is_quiet: bool,
}

/// What no keyword has looked at yet.
#[derive(Default)]
struct Unevaluated {
    properties: BTreeSet<String>,
    items: BTreeSet<usize>,
}

impl Unevaluated {
    fn of(value: &Json, schema: &Schema, is_wanted: bool) -> Self {
        let mut own = Self::default();
        match value {
            Json::Object(entries)
                if !schema.all_properties_evaluated
                    && (is_wanted || schema.unevaluated_properties.is_some()) =>
            {
                own.properties = entries.keys().cloned().collect();
            }
            Json::Array(items)
                if !schema.all_items_evaluated && (is_wanted || schema.unevaluated_items.is_some()) =>
            {
                own.items = (schema.items_evaluated..items.len()).collect();
            }
            _ => {}
        }
        own
    }

    fn merge(&mut self, other: &Self) {
        self.properties.retain(|name| other.properties.contains(name));
        self.items.retain(|at| other.items.contains(at));
    }

    fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.items.is_empty()
    }
}

/// The violations of one schema so far.
struct State<'p, 's> {
    place: &'p Place<'p>,
    schema: &'s Schema,
    unevaluated: Unevaluated,
    violations: Vec<Violation>,
}

impl State<'_, '_> {
    fn violation(&self, text: impl FnOnce() -> String) -> Violation {
        self.with_causes(Kind::Text(if self.place.is_quiet { String::new() } else { text() }), Vec::new())
    }

    fn with_causes(&self, kind: Kind, causes: Vec<Violation>) -> Violation {
        let at = if self.place.is_quiet { String::new() } else { self.place.path.pointer() };
        Violation { at, kind, causes }
    }

    fn add(&mut self, text: impl FnOnce() -> String) {
        let violation = self.violation(text);
        self.violations.push(violation);
    }

    fn add_all(&mut self, text: &str, causes: Vec<Violation>) {
        let violation = self.with_causes(Kind::Text(text.to_owned()), causes);
        self.violations.push(violation);
    }

    fn is_decided(&self) -> bool {
        self.place.is_quiet && !self.violations.is_empty()
    }
}

impl<'c> Run<'c> {
    fn schema(&self, id: Id) -> Option<&'c Schema> {
        self.compiled.schemas.get(id)
    }

    /// Counts steps; false when they are too many or nobody wants the answer any more, from then on always.
    fn count(&self, steps: u64) -> bool {
        let before = self.steps.get();
        self.steps.set(before.saturating_add(steps));
        let is_asked = before / ASKED_AFTER != self.steps.get() / ASKED_AFTER;
        if self.steps.get() > MAX_STEPS || is_asked && (self.is_stopped)() {
            self.is_exhausted.set(true);
        }
        !self.is_exhausted.get()
    }

    fn check(&self, place: &Place<'_>, is_wanted: bool) -> Result<Unevaluated, Violation> {
        let Some(schema) = self.schema(place.scope.schema) else { return Ok(Unevaluated::default()) };
        let mut state = State {
            place,
            schema,
            unevaluated: Unevaluated::of(place.value, schema, is_wanted),
            violations: Vec::new(),
        };
        // To look for cycles costs the more the deeper it is.
        if !self.count(1 + place.scope.depth as u64 / 64) || place.scope.depth > MAX_DEPTH {
            self.is_exhausted.set(true);
            return Err(state.violation(String::new));
        }
        if let Some(always) = schema.always {
            return if always {
                Ok(state.unevaluated)
            } else {
                Err(state.violation(|| "false schema".to_owned()))
            };
        }
        if let Some(text) = self.cycle(place.scope, schema) {
            return Err(state.violation(|| text));
        }
        if let Some(violation) = whole_value(&state) {
            return Err(violation);
        }
        if let Some(target) = schema.reference {
            let result = self.follow(&mut state, target, "$ref");
            if schema.draft < 2019 {
                return result.map(|()| state.unevaluated);
            }
            state.violations.extend(result.err());
        }
        match place.value {
            Json::Object(entries) => self.object(&mut state, entries),
            Json::Array(items) => self.array(&mut state, items),
            Json::String(text) => string(self, &mut state, text),
            Json::Number(_) => numeric(&mut state),
            Json::Null | Json::Bool(_) => {}
        }
        if !state.is_decided() {
            if schema.draft >= 2019 {
                self.dynamic_references(&mut state);
            }
            self.conditions(&mut state);
            if schema.draft >= 2019 {
                self.unevaluated(&mut state);
            }
        }
        let mut violations = std::mem::take(&mut state.violations);
        match violations.len() {
            0 => Ok(state.unevaluated),
            1 => Err(violations.swap_remove(0)),
            _ => Err(state.with_causes(Kind::Group, violations)),
        }
    }

    /// Another schema on the same value.
    fn same(
        &self,
        state: &mut State<'_, '_>,
        schema: Id,
        keyword: &'static str,
        is_quiet: bool,
    ) -> Result<(), Violation> {
        let outer = state.place.scope;
        let scope =
            Scope { schema, keyword, value: outer.value, depth: outer.depth + 1, parent: Some(outer) };
        let place = Place {
            value: state.place.value,
            path: state.place.path,
            scope: &scope,
            is_quiet: state.place.is_quiet || is_quiet,
        };
        let is_wanted = !state.unevaluated.is_empty();
        let rest = convoy_gotemplate::with_stack(|| self.check(&place, is_wanted))?;
        state.unevaluated.merge(&rest);
        Ok(())
    }

    /// A schema on a value in this one.
    fn inner(
        &self,
        state: &State<'_, '_>,
        schema: Id,
        value: &Json,
        path: &Path<'_>,
    ) -> Result<(), Violation> {
        let outer = state.place.scope;
        let scope = Scope {
            schema,
            keyword: "",
            value: outer.value + 1,
            depth: outer.depth + 1,
            parent: Some(outer),
        };
        let place = Place { value, path, scope: &scope, is_quiet: state.place.is_quiet };
        convoy_gotemplate::with_stack(|| self.check(&place, false)).map(|_| ())
    }

    fn key(&self, state: &State<'_, '_>, schema: Id, value: &Json, key: &str) -> Result<(), Violation> {
        self.inner(state, schema, value, &Path::Below(state.place.path, key))
    }

    fn item(&self, state: &State<'_, '_>, schema: Id, value: &Json, at: usize) -> Result<(), Violation> {
        self.inner(state, schema, value, &Path::Item(state.place.path, at))
    }

    fn follow(&self, state: &mut State<'_, '_>, target: Id, keyword: &'static str) -> Result<(), Violation> {
        self.same(state, target, keyword, false)
            .map_err(|violation| state.with_causes(Kind::Reference, parts(violation)))
    }

    fn cycle(&self, scope: &Scope<'_>, schema: &Schema) -> Option<String> {
        let mut outer = scope.parent;
        while let Some(known) = outer.filter(|known| known.value == scope.value) {
            if known.schema == scope.schema {
                return Some(format!(
                    "both {} and {} resolve to {:?} causing reference cycle",
                    self.keyword_path(scope),
                    self.keyword_path(known),
                    schema.location
                ));
            }
            outer = known.parent;
        }
        None
    }

    fn keyword_path(&self, scope: &Scope<'_>) -> String {
        let mut path = String::new();
        let mut scope = scope;
        while let Some(parent) = scope.parent {
            if scope.keyword.is_empty() {
                let location = |id| self.schema(id).map_or("", |schema| schema.location.as_str());
                let own = location(scope.schema);
                let below = own.get(location(parent.schema).len()..).unwrap_or_default();
                path.insert_str(0, below);
            } else {
                path.insert_str(0, &format!("/{}", scope.keyword));
            }
            scope = parent;
        }
        path
    }

    fn object(&self, state: &mut State<'_, '_>, entries: &Map<String, Json>) {
        let s = state.schema;
        if let Some(least) = s.min_properties.filter(|least| entries.len() < *least) {
            state.add(|| format!("minProperties: got {}, want {}", count(entries.len()), count(least)));
        }
        if let Some(most) = s.max_properties.filter(|most| entries.len() > *most) {
            state.add(|| format!("maxProperties: got {}, want {}", count(entries.len()), count(most)));
        }
        let missing = missing(entries, &s.required);
        if !missing.is_empty() {
            let noun = if missing.len() == 1 { "property" } else { "properties" };
            state.add(|| format!("missing {noun} {}", all_quoted(missing)));
        }
        if state.is_decided() {
            return;
        }
        for (name, dependency) in &s.dependencies {
            if !entries.contains_key(name) {
                continue;
            }
            match dependency {
                Dependency::Required(names) => depends(state, entries, name, names),
                Dependency::Schema(schema) => {
                    let result = self.same(state, *schema, "", false);
                    state.violations.extend(result.err());
                }
            }
        }
        self.properties(state, entries);
        if s.draft == 4 {
            return;
        }
        if let Some(schema) = s.property_names {
            for name in entries.keys() {
                let scope =
                    Scope { schema, keyword: "", value: 0, depth: state.place.scope.depth + 1, parent: None };
                let value = Json::String(name.clone());
                let place =
                    Place { value: &value, path: &Path::Root, scope: &scope, is_quiet: state.place.is_quiet };
                if let Err(violation) = convoy_gotemplate::with_stack(|| self.check(&place, false)) {
                    let kind = Kind::Text(format!("invalid propertyName {}", quoted(name)));
                    state.violations.push(Violation { at: String::new(), kind, causes: parts(violation) });
                }
            }
        }
        if s.draft == 6 {
            return;
        }
        for (name, schema) in &s.dependent_schemas {
            if entries.contains_key(name) {
                let result = self.same(state, *schema, "", false);
                state.violations.extend(result.err());
            }
        }
        for (name, names) in &s.dependent_required {
            if entries.contains_key(name) {
                depends(state, entries, name, names);
            }
        }
    }

    fn properties(&self, state: &mut State<'_, '_>, entries: &Map<String, Json>) {
        let s = state.schema;
        let mut unexpected = Vec::new();
        for (name, value) in entries {
            if state.is_decided() {
                return;
            }
            let mut is_evaluated = false;
            if let Some(schema) = s.properties.get(name) {
                is_evaluated = true;
                let result = self.key(state, *schema, value, name);
                state.violations.extend(result.err());
            }
            for (pattern, schema) in &s.pattern_properties {
                if self.matches(pattern, name) {
                    is_evaluated = true;
                    let result = self.key(state, *schema, value, name);
                    state.violations.extend(result.err());
                }
            }
            if !is_evaluated && let Some(additional) = s.additional_properties {
                is_evaluated = true;
                match additional {
                    Additional::Allowed(true) => {}
                    Additional::Allowed(false) => unexpected.push(name),
                    Additional::Schema(schema) => {
                        let result = self.key(state, schema, value, name);
                        state.violations.extend(result.err());
                    }
                }
            }
            if is_evaluated {
                state.unevaluated.properties.remove(name);
            }
        }
        if !unexpected.is_empty() {
            state.add(|| format!("additional properties {} not allowed", all_quoted(unexpected)));
        }
    }

    fn array(&self, state: &mut State<'_, '_>, items: &[Json]) {
        let s = state.schema;
        if let Some(least) = s.min_items.filter(|least| items.len() < *least) {
            state.add(|| format!("minItems: got {}, want {}", count(items.len()), count(least)));
        }
        if let Some(most) = s.max_items.filter(|most| items.len() > *most) {
            state.add(|| format!("maxItems: got {}, want {}", count(items.len()), count(most)));
        }
        if s.unique_items
            && let Some((earlier, later)) = self.duplicates(items)
        {
            state.add(|| format!("items at {} and {} are equal", count(earlier), count(later)));
        }
        let mut evaluated = 0;
        if s.draft < 2020 {
            match &s.items {
                Some(Items::All(schema)) => {
                    self.items(state, std::iter::repeat(schema).zip(items.iter().enumerate()));
                    evaluated = items.len();
                }
                Some(Items::Each(schemas)) => {
                    self.items(state, schemas.iter().zip(items.iter().enumerate()));
                    evaluated = schemas.len().min(items.len());
                }
                None => {}
            }
            let rest = items.get(evaluated..).unwrap_or_default();
            match s.additional_items {
                Some(Additional::Allowed(false)) if !rest.is_empty() => {
                    state.add(|| format!("last {} additionalItem(s) not allowed", count(rest.len())));
                }
                Some(Additional::Schema(schema)) => {
                    self.items(state, std::iter::repeat(&schema).zip(rest.iter().enumerate()));
                }
                _ => {}
            }
        } else {
            evaluated = s.prefix_items.len().min(items.len());
            self.items(state, s.prefix_items.iter().zip(items.iter().enumerate()));
            if let Some(schema) = s.other_items {
                let rest = items.get(evaluated..).unwrap_or_default();
                // Counted from the first of these, as Helm does.
                self.items(state, std::iter::repeat(&schema).zip(rest.iter().enumerate()));
            }
        }
        if let Some(schema) = s.contains {
            self.contains(state, schema, items);
        }
    }

    fn items<'i>(&self, state: &mut State<'_, '_>, items: impl Iterator<Item = (&'i Id, (usize, &'i Json))>) {
        for (schema, (at, item)) in items {
            let result = self.item(state, *schema, item, at);
            state.violations.extend(result.err());
        }
    }

    fn contains(&self, state: &mut State<'_, '_>, schema: Id, items: &[Json]) {
        let s = state.schema;
        let (mut causes, mut matched) = (Vec::new(), Vec::new());
        for (at, item) in items.iter().enumerate() {
            match self.item(state, schema, item, at) {
                Err(violation) => causes.push(violation),
                Ok(()) => {
                    matched.push(at.to_string());
                    if s.draft >= 2020 {
                        state.unevaluated.items.remove(&at);
                    }
                }
            }
        }
        let found = format!("matched {} items at {}", count(matched.len()), matched.join(" "));
        match s.min_contains {
            Some(least) if matched.len() < least => {
                let found = if matched.is_empty() { "none matched" } else { &found };
                let least = count(least);
                state.add_all(
                    &format!("min {least} items required to match contains schema, but {found}"),
                    causes,
                );
            }
            None if matched.is_empty() => state.add_all("no items match contains schema", causes),
            _ => {}
        }
        if let Some(most) = s.max_contains.filter(|most| matched.len() > *most) {
            let most = count(most);
            state.add(|| format!("max {most} items required to match contains schema, but {found}"));
        }
    }

    /// Whether a pattern is in a text, unless that takes too long.
    fn matches(&self, pattern: &SizedRegex, text: &str) -> bool {
        let work = pattern.work(text.len());
        if work > MAX_SEARCH {
            self.is_exhausted.set(true);
        }
        if !self.count(work as u64 / 64) {
            return true;
        }
        pattern.is_match(text.as_bytes())
    }

    /// The first item that was there before.
    fn duplicates(&self, items: &[Json]) -> Option<(usize, usize)> {
        for (later, item) in items.iter().enumerate() {
            if !self.count(later as u64 / 8) {
                return None;
            }
            let earlier = items.iter().take(later).position(|earlier| instance::equal(earlier, item));
            if let Some(earlier) = earlier {
                return Some((earlier, later));
            }
        }
        None
    }

    fn conditions(&self, state: &mut State<'_, '_>) {
        let s = state.schema;
        if let Some(schema) = s.not
            && self.same(state, schema, "", true).is_ok()
        {
            state.add(|| "'not' failed".to_owned());
        }
        let mut causes = Vec::new();
        for schema in &s.all_of {
            if let Err(violation) = self.same(state, *schema, "", false) {
                causes.push(violation);
                if state.place.is_quiet {
                    break;
                }
            }
        }
        if !causes.is_empty() {
            state.add_all("'allOf' failed", causes);
        }
        if !s.any_of.is_empty() {
            let (mut is_matched, mut causes) = (false, Vec::new());
            for schema in &s.any_of {
                match self.same(state, *schema, "", false) {
                    Err(violation) => causes.push(violation),
                    Ok(()) => {
                        is_matched = true;
                        // What nobody looked at is only known when all were asked.
                        if state.unevaluated.is_empty() {
                            break;
                        }
                    }
                }
            }
            if !is_matched {
                state.add_all("'anyOf' failed", causes);
            }
        }
        if !s.one_of.is_empty() {
            self.one_of(state);
        }
        if let Some((condition, then, otherwise)) = s.condition {
            let branch = if self.same(state, condition, "", true).is_ok() { then } else { otherwise };
            if let Some(schema) = branch {
                let result = self.same(state, schema, "", false);
                state.violations.extend(result.err());
            }
        }
    }

    fn one_of(&self, state: &mut State<'_, '_>) {
        let (mut matched, mut causes) = (None, Vec::new());
        for (at, schema) in state.schema.one_of.iter().enumerate() {
            match (self.same(state, *schema, "", matched.is_some()), matched) {
                (Err(violation), None) => causes.push(violation),
                (Err(_), Some(_)) => {}
                (Ok(()), None) => matched = Some(at),
                (Ok(()), Some(first)) => {
                    state.add(|| {
                        let (first, second) = (count(first), count(at));
                        format!("'oneOf' failed, subschemas {first}, {second} matched")
                    });
                    break;
                }
            }
        }
        if matched.is_none() {
            state.add_all("'oneOf' failed, none matched", causes);
        }
    }

    fn unevaluated(&self, state: &mut State<'_, '_>) {
        if let (Json::Object(entries), Some(schema)) =
            (state.place.value, state.schema.unevaluated_properties)
        {
            for name in std::mem::take(&mut state.unevaluated.properties) {
                if let Some(value) = entries.get(&name) {
                    let result = self.key(state, schema, value, &name);
                    state.violations.extend(result.err());
                }
            }
        }
        if let (Json::Array(items), Some(schema)) = (state.place.value, state.schema.unevaluated_items) {
            for at in std::mem::take(&mut state.unevaluated.items) {
                if let Some(value) = items.get(at) {
                    let result = self.item(state, schema, value, at);
                    state.violations.extend(result.err());
                }
            }
        }
    }

    fn dynamic_references(&self, state: &mut State<'_, '_>) {
        let s = state.schema;
        if let Some(fallback) = s.recursive_ref {
            let mut target = fallback;
            if self.schema(fallback).is_some_and(|schema| schema.recursive_anchor) {
                let mut scope = Some(state.place.scope);
                while let Some(known) = scope {
                    let resource = self.schema(known.schema).and_then(|schema| self.schema(schema.resource));
                    if resource.is_some_and(|resource| resource.recursive_anchor) {
                        target = known.schema;
                    }
                    scope = known.parent;
                }
            }
            let result = self.follow(state, target, "$recursiveRef");
            state.violations.extend(result.err());
        }
        if let Some((fallback, anchor)) = &s.dynamic_ref {
            let mut target = *fallback;
            if !anchor.is_empty()
                && self.schema(target).is_some_and(|schema| schema.dynamic_anchor == *anchor)
            {
                let mut scope = Some(state.place.scope);
                while let Some(known) = scope {
                    let resource = self.schema(known.schema).and_then(|schema| self.schema(schema.resource));
                    if let Some(found) = resource.and_then(|resource| resource.dynamic_anchors.get(anchor)) {
                        target = *found;
                    }
                    scope = known.parent;
                }
            }
            let result = self.follow(state, target, "$dynamicRef");
            state.violations.extend(result.err());
        }
    }
}

fn missing<'n>(entries: &Map<String, Json>, names: &'n [String]) -> Vec<&'n String> {
    names.iter().filter(|name| !entries.contains_key(*name)).collect()
}

fn depends(state: &mut State<'_, '_>, entries: &Map<String, Json>, name: &str, names: &[String]) {
    let missing = missing(entries, names);
    if !missing.is_empty() {
        state.add(|| format!("properties {} required, if {} exists", all_quoted(missing), quoted(name)));
    }
}

/// The keywords that end the look at a value: type, const, enum, format.
fn whole_value(state: &State<'_, '_>) -> Option<Violation> {
    let (s, value) = (state.schema, state.place.value);
    let bit = instance::type_bit(value);
    if s.types != 0 {
        let is_integer = s.types & INTEGER != 0 && value.is_number() && instance::is_whole(value);
        if s.types & bit == 0 && !is_integer {
            let found = instance::type_names(bit).join("");
            let wanted = instance::type_names(s.types).join(" or ");
            return Some(state.violation(|| format!("got {found}, want {wanted}")));
        }
    }
    if let Some(wanted) = &s.constant
        && !instance::equal(value, wanted)
    {
        return Some(state.violation(|| match wanted {
            Json::Array(_) | Json::Object(_) => "'const' failed".to_owned(),
            wanted => format!("value must be {}", display(wanted)),
        }));
    }
    if let Some((options, bits)) = &s.options
        && (bits & bit == 0 || !options.iter().any(|option| instance::equal(value, option)))
    {
        return Some(state.violation(|| {
            if options.iter().any(|option| option.is_array() || option.is_object()) {
                return "'enum' failed".to_owned();
            }
            let shown: Vec<String> = options.iter().map(display).collect();
            match shown.as_slice() {
                [only] => format!("value must be {only}"),
                _ => format!("value must be one of {}", shown.join(", ")),
            }
        }));
    }
    if let (Some(format), Json::String(text)) = (s.format, value)
        && let Err(problem) = format.check(text)
    {
        let name = format.name();
        return Some(state.violation(|| format!("{} is not valid {name}: {problem}", quoted(text))));
    }
    None
}

fn string(run: &Run<'_>, state: &mut State<'_, '_>, text: &str) {
    let s = state.schema;
    let length = if s.min_length.is_some() || s.max_length.is_some() { text.chars().count() } else { 0 };
    if let Some(least) = s.min_length.filter(|least| length < *least) {
        state.add(|| format!("minLength: got {}, want {}", count(length), count(least)));
    }
    if let Some(most) = s.max_length.filter(|most| length > *most) {
        state.add(|| format!("maxLength: got {}, want {}", count(length), count(most)));
    }
    if let Some((regex, pattern)) = &s.pattern
        && !run.matches(regex, text)
    {
        state.add(|| format!("{} does not match pattern {}", quoted(text), quoted(pattern)));
    }
}

fn numeric(state: &mut State<'_, '_>) {
    let (s, value) = (state.schema, state.place.value);
    let mut hold = |name: &str, limit: &Option<Json>, is_broken: fn(Ordering) -> bool| {
        if let Some(limit) = limit
            && is_broken(instance::compare(value, limit))
        {
            state.add(|| format!("{name}: got {}, want {}", number(value), number(limit)));
        }
    };
    hold("minimum", &s.minimum, Ordering::is_lt);
    hold("maximum", &s.maximum, Ordering::is_gt);
    hold("exclusiveMinimum", &s.exclusive_minimum, Ordering::is_le);
    hold("exclusiveMaximum", &s.exclusive_maximum, Ordering::is_ge);
    if let Some(of) = &s.multiple_of
        && !instance::is_multiple(of, value)
    {
        state.add(|| format!("multipleOf: got {}, want {}", number(value), number(of)));
    }
}
