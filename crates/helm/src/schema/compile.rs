//! Schemas made ready: references resolved, patterns compiled, each checked against its metaschema.
//! Long because it is one table of keywords with what each needs.

use super::format::Format;
use super::uri::{decode, encode, escape, join, scheme, split, unescape};
use super::{instance, validate};
use crate::functions::{SizedRegex, compile_pattern};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

/// A schema in [`Compiled::schemas`].
pub(super) type Id = usize;

/// More schemas than this in one document and what it refers to are refused.
const MAX_SCHEMAS: usize = 200_000;
/// What all patterns of a schema may take, compiled.
const MAX_REGEX_BYTES: usize = 16 << 20;

/// A schema with everything that it leads to.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) schemas: Vec<Schema>,
    pub(super) root: Id,
}

/// What `additionalProperties` and `additionalItems` say.
#[derive(Clone, Copy, Debug)]
pub(super) enum Additional {
    Allowed(bool),
    Schema(Id),
}

/// What `items` says before draft 2020-12.
#[derive(Clone, Debug)]
pub(super) enum Items {
    All(Id),
    Each(Vec<Id>),
}

/// What `dependencies` says of a property.
#[derive(Clone, Debug)]
pub(super) enum Dependency {
    Required(Vec<String>),
    Schema(Id),
}

/// One schema; absent keywords are empty.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) draft: u16,
    /// Address and pointer.
    pub(super) location: String,
    pub(super) resource: Id,
    pub(super) dynamic_anchors: BTreeMap<String, Id>,
    pub(super) all_properties_evaluated: bool,
    pub(super) all_items_evaluated: bool,
    pub(super) items_evaluated: usize,
    /// `true`, `false` or `{}`.
    pub(super) always: Option<bool>,
    pub(super) reference: Option<Id>,
    pub(super) recursive_ref: Option<Id>,
    pub(super) recursive_anchor: bool,
    pub(super) dynamic_ref: Option<(Id, String)>,
    pub(super) dynamic_anchor: String,
    pub(super) types: u8,
    pub(super) options: Option<(Vec<Json>, u8)>,
    pub(super) constant: Option<Json>,
    pub(super) not: Option<Id>,
    pub(super) all_of: Vec<Id>,
    pub(super) any_of: Vec<Id>,
    pub(super) one_of: Vec<Id>,
    pub(super) condition: Option<(Id, Option<Id>, Option<Id>)>,
    pub(super) format: Option<Format>,
    pub(super) max_properties: Option<usize>,
    pub(super) min_properties: Option<usize>,
    pub(super) required: Vec<String>,
    pub(super) property_names: Option<Id>,
    pub(super) properties: BTreeMap<String, Id>,
    pub(super) pattern_properties: Vec<(SizedRegex, Id)>,
    pub(super) additional_properties: Option<Additional>,
    pub(super) dependencies: BTreeMap<String, Dependency>,
    pub(super) dependent_required: BTreeMap<String, Vec<String>>,
    pub(super) dependent_schemas: BTreeMap<String, Id>,
    pub(super) unevaluated_properties: Option<Id>,
    pub(super) min_items: Option<usize>,
    pub(super) max_items: Option<usize>,
    pub(super) unique_items: bool,
    pub(super) contains: Option<Id>,
    pub(super) min_contains: Option<usize>,
    pub(super) max_contains: Option<usize>,
    pub(super) items: Option<Items>,
    pub(super) additional_items: Option<Additional>,
    pub(super) prefix_items: Vec<Id>,
    /// `items` of draft 2020-12.
    pub(super) other_items: Option<Id>,
    pub(super) unevaluated_items: Option<Id>,
    pub(super) min_length: Option<usize>,
    pub(super) max_length: Option<usize>,
    pub(super) pattern: Option<(SizedRegex, String)>,
    pub(super) maximum: Option<Json>,
    pub(super) minimum: Option<Json>,
    pub(super) exclusive_maximum: Option<Json>,
    pub(super) exclusive_minimum: Option<Json>,
    pub(super) multiple_of: Option<Json>,
}

static METASCHEMAS: LazyLock<BTreeMap<u16, Result<Compiled, String>>> = LazyLock::new(|| {
    let compile = |(draft, address): (u16, &str)| {
        let json = metaschema(address).ok_or_else(|| format!("{address} is not known"));
        (draft, json.and_then(|json| Compiler::compile(address, &json, true, &|| false)))
    };
    [
        (4, "http://json-schema.org/draft-04/schema"),
        (6, "http://json-schema.org/draft-06/schema"),
        (7, "http://json-schema.org/draft-07/schema"),
        (2019, "https://json-schema.org/draft/2019-09/schema"),
        (2020, "https://json-schema.org/draft/2020-12/schema"),
    ]
    .into_iter()
    .map(compile)
    .collect()
});

fn metaschema(address: &str) -> Option<Arc<Json>> {
    use referencing::meta;
    let path = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"))?;
    Some(Arc::clone(match path.strip_prefix("json-schema.org/")? {
        "draft-04/schema" => &meta::DRAFT4,
        "draft-06/schema" => &meta::DRAFT6,
        "draft-07/schema" => &meta::DRAFT7,
        "draft/2019-09/schema" => &meta::DRAFT201909,
        "draft/2019-09/meta/core" => &meta::DRAFT201909_CORE,
        "draft/2019-09/meta/applicator" => &meta::DRAFT201909_APPLICATOR,
        "draft/2019-09/meta/validation" => &meta::DRAFT201909_VALIDATION,
        "draft/2019-09/meta/meta-data" => &meta::DRAFT201909_META_DATA,
        "draft/2019-09/meta/format" => &meta::DRAFT201909_FORMAT,
        "draft/2019-09/meta/content" => &meta::DRAFT201909_CONTENT,
        "schema" | "draft/2020-12/schema" => &meta::DRAFT202012,
        "draft/2020-12/meta/core" => &meta::DRAFT202012_CORE,
        "draft/2020-12/meta/applicator" => &meta::DRAFT202012_APPLICATOR,
        "draft/2020-12/meta/unevaluated" => &meta::DRAFT202012_UNEVALUATED,
        "draft/2020-12/meta/validation" => &meta::DRAFT202012_VALIDATION,
        "draft/2020-12/meta/meta-data" => &meta::DRAFT202012_META_DATA,
        "draft/2020-12/meta/format-annotation" => &meta::DRAFT202012_FORMAT_ANNOTATION,
        "draft/2020-12/meta/content" => &meta::DRAFT202012_CONTENT,
        _ => return None,
    }))
}

fn draft_of(address: &str) -> Option<u16> {
    let (address, fragment) = split(address);
    if !fragment.is_empty() {
        return None;
    }
    let path =
        address.strip_prefix("http://").or_else(|| address.strip_prefix("https://")).unwrap_or(address);
    Some(match path.strip_prefix("json-schema.org/")? {
        "schema" | "draft/2020-12/schema" => 2020,
        "draft/2019-09/schema" => 2019,
        "draft-07/schema" => 7,
        "draft-06/schema" => 6,
        "draft-04/schema" => 4,
        _ => return None,
    })
}

/// A document of schemas.
struct Document {
    json: Arc<Json>,
    resources: BTreeMap<String, Resource>,
    processed: BTreeSet<String>,
}

/// A schema with an address of its own.
#[derive(Clone)]
struct Resource {
    pointer: String,
    id: String,
    draft: u16,
    anchors: BTreeMap<String, String>,
    dynamic: Vec<String>,
}

impl Document {
    fn resource(&self, pointer: &str) -> Option<&Resource> {
        let mut pointer = pointer;
        loop {
            if let Some(resource) = self.resources.get(pointer) {
                return Some(resource);
            }
            pointer = pointer.rfind('/').and_then(|slash| pointer.get(..slash))?;
        }
    }
}

/// Where in an object schemas stand: by name, in a map, in a list.
fn places(draft: u16) -> impl Iterator<Item = (&'static str, Place)> {
    use Place::{List, Map, One};
    const ALL: [(u16, &str, Place); 24] = [
        (4, "definitions", Map),
        (4, "not", One),
        (4, "allOf", List),
        (4, "anyOf", List),
        (4, "oneOf", List),
        (4, "properties", Map),
        (4, "additionalProperties", One),
        (4, "patternProperties", Map),
        (4, "items", One),
        (4, "items", List),
        (4, "additionalItems", One),
        (4, "dependencies", Map),
        (6, "propertyNames", One),
        (6, "contains", One),
        (7, "if", One),
        (7, "then", One),
        (7, "else", One),
        (2019, "$defs", Map),
        (2019, "dependentSchemas", Map),
        (2019, "unevaluatedProperties", One),
        (2019, "unevaluatedItems", One),
        (2019, "contentSchema", One),
        (2020, "prefixItems", List),
        (2020, "items", One),
    ];
    ALL.into_iter().filter(move |(since, ..)| draft >= *since).map(|(_, name, place)| (name, place))
}

#[derive(Clone, Copy)]
enum Place {
    One,
    Map,
    List,
}

struct Compiler<'s> {
    /// Whether anyone waits for the answer; when nobody does, what comes is not looked at.
    is_stopped: &'s dyn Fn() -> bool,
    documents: BTreeMap<String, Document>,
    schemas: Vec<Schema>,
    /// Document and pointer of each schema.
    places: Vec<(String, String)>,
    ids: HashMap<(String, String), Id>,
    /// Metaschemas hold strings to their formats in every draft.
    assert_format: bool,
    regex_bytes: usize,
}

impl Compiled {
    /// The schema at `address`.
    ///
    /// # Errors
    /// Helm's text.
    pub(super) fn root(address: &str, json: Json, is_stopped: &dyn Fn() -> bool) -> Result<Self, String> {
        Compiler::compile(address, &Arc::new(json), false, is_stopped)
    }
}

impl<'s> Compiler<'s> {
    fn compile(
        address: &str,
        json: &Arc<Json>,
        assert_format: bool,
        is_stopped: &'s dyn Fn() -> bool,
    ) -> Result<Compiled, String> {
        let mut compiler = Self {
            is_stopped,
            documents: BTreeMap::new(),
            schemas: Vec::new(),
            places: Vec::new(),
            ids: HashMap::new(),
            assert_format,
            regex_bytes: 0,
        };
        compiler.add(address, json)?;
        let root = compiler.enqueue(address, "");
        let mut next = 0;
        while let Some((document, pointer)) = compiler.places.get(next).cloned() {
            if next > MAX_SCHEMAS {
                return Err(format!("more than {MAX_SCHEMAS} schemas"));
            }
            if next % 64 == 0 {
                compiler.ask()?;
            }
            compiler.ensure(&document, &pointer)?;
            let schema = compiler.one(&document, &pointer)?;
            if let Some(place) = compiler.schemas.get_mut(next) {
                *place = schema;
            }
            next += 1;
        }
        Ok(Compiled { schemas: compiler.schemas, root })
    }

    fn ask(&self) -> Result<(), String> {
        if (self.is_stopped)() { Err("nobody waits for it".to_owned()) } else { Ok(()) }
    }

    fn add(&mut self, address: &str, json: &Arc<Json>) -> Result<(), String> {
        let mut document =
            Document { json: Arc::clone(json), resources: BTreeMap::new(), processed: BTreeSet::new() };
        self.collect(address, &mut document, json, address, "", 2020)?;
        let is_meta =
            address.starts_with("http://json-schema.org/") || address.starts_with("https://json-schema.org/");
        if !is_meta {
            hold_to_metaschema(address, &document, json, "", self.is_stopped)?;
        }
        self.documents.insert(address.to_owned(), document);
        Ok(())
    }

    fn load(&mut self, address: &str) -> Result<(), String> {
        if self.documents.contains_key(address) {
            return Ok(());
        }
        let json = match metaschema(address) {
            Some(json) => json,
            None => Arc::new(load(address)?),
        };
        self.add(address, &json)
    }

    /// Notes the resources and anchors of a schema and of those in it.
    fn collect(
        &self,
        address: &str,
        document: &mut Document,
        schema: &Json,
        base: &str,
        pointer: &str,
        fallback: u16,
    ) -> Result<(), String> {
        if document.processed.contains(pointer) {
            return Ok(());
        }
        let resource = |id: &str, draft| Resource {
            pointer: pointer.to_owned(),
            id: id.to_owned(),
            draft,
            anchors: BTreeMap::new(),
            dynamic: Vec::new(),
        };
        let Json::Object(object) = schema else {
            if pointer.is_empty() {
                document.resources.insert(String::new(), resource(base, fallback));
            }
            document.processed.insert(pointer.to_owned());
            return Ok(());
        };
        let mut draft = draft_of_schema(object, address, pointer, fallback)?;
        let mut has_schema = object.get("$schema").is_some_and(Json::is_string);
        let mut id = own_id(object, draft);
        if id.is_empty() && !pointer.is_empty() {
            draft = fallback;
            has_schema = false;
            id = own_id(object, draft);
        }
        let mut base = base.to_owned();
        if !id.is_empty() {
            base = join(&base, id);
        }
        if !id.is_empty() || pointer.is_empty() {
            match document.resources.values().find(|known| known.id == base) {
                Some(known) if known.pointer != pointer => {
                    return Err(format!(
                        "duplicate id {base:?} in {address:?} at {pointer:?} and {:?}",
                        known.pointer
                    ));
                }
                Some(_) => {}
                None => {
                    let draft = if has_schema { draft } else { fallback };
                    document.resources.insert(pointer.to_owned(), resource(&base, draft));
                }
            }
        }
        let Some(own) = document.resources.values().find(|known| known.id == base) else {
            return Err("the schema has no base".to_owned());
        };
        let (own, own_draft) = (own.pointer.clone(), own.draft);
        collect_anchors(address, document, object, pointer, &own)?;
        document.processed.insert(pointer.to_owned());
        for (name, place) in places(draft) {
            let Some(value) = object.get(name) else { continue };
            let below = format!("{pointer}/{}", escape(name));
            match (place, value) {
                (Place::One, value) => self.collect(address, document, value, &base, &below, own_draft)?,
                (Place::Map, Json::Object(entries)) => {
                    for (key, value) in entries {
                        let below = format!("{below}/{}", escape(key));
                        self.collect(address, document, value, &base, &below, own_draft)?;
                    }
                }
                (Place::List, Json::Array(items)) => {
                    for (at, value) in items.iter().enumerate() {
                        let below = format!("{below}/{at}");
                        self.collect(address, document, value, &base, &below, own_draft)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A pointer may lead to where schemas do not usually stand.
    fn ensure(&mut self, address: &str, pointer: &str) -> Result<(), String> {
        self.load(address)?;
        let Some(mut document) = self.documents.remove(address) else { return Ok(()) };
        let result = self.ensure_in(address, &mut document, pointer);
        self.documents.insert(address.to_owned(), document);
        result
    }

    fn ensure_in(&self, address: &str, document: &mut Document, pointer: &str) -> Result<(), String> {
        if document.processed.contains(pointer) {
            return Ok(());
        }
        let json = Arc::clone(&document.json);
        let schema = look_up(address, &json, pointer)?;
        if let Some(base) = document.resource(pointer).cloned() {
            self.collect(address, document, schema, &base.id, pointer, base.draft)?;
        }
        hold_to_metaschema(address, document, schema, pointer, self.is_stopped)
    }

    fn enqueue(&mut self, address: &str, pointer: &str) -> Id {
        let place = (address.to_owned(), pointer.to_owned());
        if let Some(id) = self.ids.get(&place) {
            return *id;
        }
        let id = self.schemas.len();
        self.schemas.push(Schema::default());
        self.places.push(place.clone());
        self.ids.insert(place, id);
        id
    }

    fn one(&mut self, address: &str, pointer: &str) -> Result<Schema, String> {
        let Some(document) = self.documents.get(address) else { return Ok(Schema::default()) };
        let json = Arc::clone(&document.json);
        let value = look_up(address, &json, pointer)?;
        let Some(resource) = document.resource(pointer).cloned() else { return Ok(Schema::default()) };
        let mut schema = Schema {
            draft: resource.draft,
            location: location(address, pointer),
            resource: self.enqueue(address, &resource.pointer),
            ..Schema::default()
        };
        if schema.draft >= 2020 && pointer == resource.pointer {
            for anchor in &resource.dynamic {
                if let Some(pointer) = resource.anchors.get(anchor) {
                    let id = self.enqueue(address, pointer);
                    schema.dynamic_anchors.insert(anchor.clone(), id);
                }
            }
        }
        match value {
            Json::Bool(always) => schema.always = Some(*always),
            Json::Object(object) if object.is_empty() => schema.always = Some(true),
            Json::Object(object) => {
                let mut reader = Reader { compiler: self, address, pointer, object, resource: &resource };
                reader.read(&mut schema)?;
            }
            _ => {}
        }
        schema.all_properties_evaluated = schema.additional_properties.is_some();
        if schema.draft < 2020 {
            schema.all_items_evaluated = schema.additional_items.is_some();
            match &schema.items {
                Some(Items::All(_)) => schema.all_items_evaluated = true,
                Some(Items::Each(items)) => schema.items_evaluated = items.len(),
                None => {}
            }
        } else {
            schema.all_items_evaluated = schema.other_items.is_some();
            schema.items_evaluated = schema.prefix_items.len();
        }
        Ok(schema)
    }
}

fn location(address: &str, pointer: &str) -> String {
    format!("{address}#{}", encode(pointer))
}

fn load(address: &str) -> Result<Json, String> {
    let failed = |cause: String| Err(format!("failing loading {address:?}: {cause}"));
    match scheme(address) {
        // Helm takes names that nobody resolves for "anything goes".
        Some("urn") => Ok(Json::Bool(true)),
        Some("http" | "https" | "file") => {
            failed("references outside of the schema are not followed".to_owned())
        }
        _ => failed(format!("no URLLoader registered for {address:?}")),
    }
}

fn draft_of_schema(
    object: &Map<String, Json>,
    address: &str,
    pointer: &str,
    fallback: u16,
) -> Result<u16, String> {
    let Some(wanted) = object.get("$schema").and_then(Json::as_str) else { return Ok(fallback) };
    if let Some(draft) = draft_of(wanted) {
        return Ok(draft);
    }
    let (wanted, _) = split(wanted);
    if pointer.is_empty() && wanted == address {
        return Err(format!("draft {wanted:?} is not supported"));
    }
    load(wanted).map(|_| fallback)
}

fn own_id(object: &Map<String, Json>, draft: u16) -> &str {
    if draft < 2019 && object.contains_key("$ref") {
        return "";
    }
    let name = if draft == 4 { "id" } else { "$id" };
    split(object.get(name).and_then(Json::as_str).unwrap_or_default()).0
}

fn collect_anchors(
    address: &str,
    document: &mut Document,
    object: &Map<String, Json>,
    pointer: &str,
    resource: &str,
) -> Result<(), String> {
    let Some(resource) = document.resources.get_mut(resource) else { return Ok(()) };
    let text = |name: &str| object.get(name).and_then(Json::as_str);
    let mut found = Vec::new();
    if resource.draft < 2019 {
        if object.contains_key("$ref") {
            return Ok(());
        }
        if let Some(id) = text(if resource.draft == 4 { "id" } else { "$id" }) {
            let anchor = decode(split(id).1)
                .ok_or_else(|| format!("error in parsing anchor at {:?}", location(address, pointer)))?;
            if !anchor.is_empty() && !anchor.starts_with('/') {
                found.push(anchor);
            }
        }
    } else {
        found.extend(text("$anchor").map(str::to_owned));
        if resource.draft >= 2020
            && let Some(anchor) = text("$dynamicAnchor")
        {
            found.push(anchor.to_owned());
            resource.dynamic.push(anchor.to_owned());
        }
    }
    for anchor in found {
        match resource.anchors.get(&anchor) {
            Some(known) if known != pointer => {
                return Err(format!(
                    "duplicate anchor {anchor:?} in {address:?} at {known:?} and {pointer:?}"
                ));
            }
            _ => {
                resource.anchors.insert(anchor, pointer.to_owned());
            }
        }
    }
    Ok(())
}

fn look_up<'j>(address: &str, json: &'j Json, pointer: &str) -> Result<&'j Json, String> {
    let mut value = json;
    for part in pointer.split('/').skip(1) {
        let key =
            unescape(part).ok_or_else(|| format!("invalid json-pointer {:?}", location(address, pointer)))?;
        let next = match value {
            Json::Object(entries) => entries.get(&key),
            Json::Array(items) => key.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => None,
        };
        value = next.ok_or_else(|| format!("json-pointer in {:?} not found", location(address, pointer)))?;
    }
    Ok(value)
}

fn hold_to_metaschema(
    address: &str,
    document: &Document,
    schema: &Json,
    pointer: &str,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), String> {
    let draft = document.resource(pointer).map_or(2020, |resource| resource.draft);
    match METASCHEMAS.get(&draft) {
        Some(Ok(meta)) => validate::validate(meta, schema, is_stopped).map_err(|text| {
            format!("{:?} is not valid against metaschema: {text}", location(address, pointer))
        }),
        Some(Err(error)) => Err(error.clone()),
        None => Ok(()),
    }
}

/// Reads the keywords of one schema.
struct Reader<'r, 's> {
    compiler: &'r mut Compiler<'s>,
    address: &'r str,
    pointer: &'r str,
    object: &'r Map<String, Json>,
    resource: &'r Resource,
}

impl Reader<'_, '_> {
    fn read(&mut self, s: &mut Schema) -> Result<(), String> {
        s.reference = self.reference("$ref")?;
        if s.draft < 2019 && s.reference.is_some() {
            return Ok(());
        }
        self.applicators(s)?;
        self.validation(s)?;
        if s.draft < 2019 || self.compiler.assert_format {
            s.format = self.text("format").and_then(Format::parse);
        }
        if s.draft >= 6 {
            s.contains = self.property("contains");
            s.property_names = self.property("propertyNames");
            s.constant = self.object.get("const").cloned();
        }
        if s.draft >= 7
            && let Some(condition) = self.property("if")
        {
            let fixed = self.object.get("if").and_then(Json::as_bool);
            let then = if fixed == Some(false) { None } else { self.property("then") };
            let otherwise = if fixed == Some(true) { None } else { self.property("else") };
            s.condition = Some((condition, then, otherwise));
        }
        if s.draft >= 2019 {
            s.recursive_ref = self.reference("$recursiveRef")?;
            s.recursive_anchor = self.flag("$recursiveAnchor");
            if s.contains.is_some() {
                s.min_contains = self.count("minContains");
                s.max_contains = self.count("maxContains");
            }
            if let Some(Json::Object(entries)) = self.object.get("dependentRequired") {
                let lists = entries.iter().filter_map(|(key, value)| Some((key, value.as_array()?)));
                s.dependent_required = lists.map(|(key, list)| (key.clone(), strings(list))).collect();
            }
            s.dependent_schemas = self.map("dependentSchemas");
            s.unevaluated_items = self.property("unevaluatedItems");
            s.unevaluated_properties = self.property("unevaluatedProperties");
        }
        if s.draft >= 2020 {
            if let Some(id) = self.reference("$dynamicRef")? {
                let fragment = decode(split(self.text("$dynamicRef").unwrap_or_default()).1);
                let anchor = fragment.filter(|fragment| !fragment.starts_with('/')).unwrap_or_default();
                s.dynamic_ref = Some((id, anchor));
            }
            self.text("$dynamicAnchor").unwrap_or_default().clone_into(&mut s.dynamic_anchor);
            s.prefix_items = self.list("prefixItems");
            s.other_items = self.property("items");
        }
        Ok(())
    }

    fn applicators(&mut self, s: &mut Schema) -> Result<(), String> {
        s.all_of = self.list("allOf");
        s.any_of = self.list("anyOf");
        s.one_of = self.list("oneOf");
        s.not = self.property("not");
        if s.draft < 2020 {
            if self.object.get("items").is_some_and(Json::is_array) {
                s.items = Some(Items::Each(self.list("items")));
                s.additional_items = self.additional("additionalItems");
            } else {
                s.items = self.property("items").map(Items::All);
            }
        }
        s.properties = self.map("properties");
        for (pattern, id) in self.map("patternProperties") {
            s.pattern_properties.push((self.regex(&pattern, "patternProperties")?, id));
        }
        s.additional_properties = self.additional("additionalProperties");
        if let Some(Json::Object(entries)) = self.object.get("dependencies") {
            for (key, value) in entries {
                let dependency = match value {
                    Json::Array(list) => Dependency::Required(strings(list)),
                    _ => Dependency::Schema(self.below(&format!("dependencies/{}", escape(key)))),
                };
                s.dependencies.insert(key.clone(), dependency);
            }
        }
        Ok(())
    }

    fn validation(&mut self, s: &mut Schema) -> Result<(), String> {
        s.types = match self.object.get("type") {
            Some(Json::String(name)) => instance::bit_of(name),
            Some(Json::Array(names)) => {
                strings(names).iter().fold(0, |bits, name| bits | instance::bit_of(name))
            }
            _ => 0,
        };
        if let Some(Json::Array(options)) = self.object.get("enum") {
            let bits = options.iter().fold(0, |bits, option| bits | instance::type_bit(option));
            s.options = Some((options.clone(), bits));
        }
        let number = |name: &str| self.object.get(name).filter(|value| value.is_number()).cloned();
        s.multiple_of = number("multipleOf");
        s.maximum = number("maximum");
        s.minimum = number("minimum");
        if self.flag("exclusiveMaximum") {
            s.exclusive_maximum = s.maximum.take();
        } else {
            s.exclusive_maximum = number("exclusiveMaximum");
        }
        if self.flag("exclusiveMinimum") {
            s.exclusive_minimum = s.minimum.take();
        } else {
            s.exclusive_minimum = number("exclusiveMinimum");
        }
        s.min_length = self.count("minLength");
        s.max_length = self.count("maxLength");
        if let Some(pattern) = self.text("pattern").map(str::to_owned) {
            s.pattern = Some((self.regex(&pattern, "pattern")?, pattern));
        }
        s.min_items = self.count("minItems");
        s.max_items = self.count("maxItems");
        s.unique_items = self.flag("uniqueItems");
        s.max_properties = self.count("maxProperties");
        s.min_properties = self.count("minProperties");
        s.required = self
            .object
            .get("required")
            .and_then(Json::as_array)
            .map(|list| strings(list))
            .unwrap_or_default();
        Ok(())
    }

    fn regex(&mut self, pattern: &str, keyword: &str) -> Result<SizedRegex, String> {
        self.compiler.ask()?;
        let regex = compile_pattern(pattern).map_err(|error| {
            let place = format!("{}/{keyword}", location(self.address, self.pointer));
            format!("invalid regex {pattern:?} at {place:?}: {error}")
        })?;
        self.compiler.regex_bytes += regex.size;
        if self.compiler.regex_bytes > MAX_REGEX_BYTES {
            return Err(format!(
                "its patterns take more than {MAX_REGEX_BYTES} bytes: make them shorter or fewer"
            ));
        }
        Ok(regex)
    }

    fn below(&mut self, path: &str) -> Id {
        let pointer = format!("{}/{path}", self.pointer);
        self.compiler.enqueue(self.address, &pointer)
    }

    fn property(&mut self, name: &str) -> Option<Id> {
        self.object.contains_key(name).then(|| self.below(name))
    }

    fn list(&mut self, name: &str) -> Vec<Id> {
        let length = self.object.get(name).and_then(Json::as_array).map_or(0, Vec::len);
        (0..length).map(|at| self.below(&format!("{name}/{at}"))).collect()
    }

    fn map(&mut self, name: &str) -> BTreeMap<String, Id> {
        let Some(Json::Object(entries)) = self.object.get(name) else { return BTreeMap::new() };
        entries
            .keys()
            .map(|key| {
                let pointer = format!("{}/{name}/{}", self.pointer, escape(key));
                (key.clone(), self.compiler.enqueue(self.address, &pointer))
            })
            .collect()
    }

    fn additional(&mut self, name: &str) -> Option<Additional> {
        match self.object.get(name)? {
            Json::Bool(allowed) => Some(Additional::Allowed(*allowed)),
            _ => Some(Additional::Schema(self.below(name))),
        }
    }

    fn reference(&mut self, name: &str) -> Result<Option<Id>, String> {
        let Some(reference) = self.text(name).map(str::to_owned) else { return Ok(None) };
        let (address, fragment) = split(&reference);
        let fragment =
            decode(fragment).ok_or_else(|| format!("error in parsing {reference:?}: invalid URL escape"))?;
        let target = join(&self.resource.id, address);
        let document = self.compiler.documents.get(self.address);
        let own = document.and_then(|document| {
            if target == self.address {
                return document.resources.get("");
            }
            document.resources.values().find(|known| known.id == target)
        });
        if let Some(own) = own {
            let pointer = resolve(self.address, own, &fragment)?;
            return Ok(Some(self.compiler.enqueue(self.address, &pointer)));
        }
        self.compiler.load(&target)?;
        let root = self.compiler.documents.get(&target).and_then(|document| document.resources.get(""));
        let Some(root) = root else { return Ok(None) };
        let pointer = resolve(&target, root, &fragment)?;
        Ok(Some(self.compiler.enqueue(&target, &pointer)))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.object.get(name).and_then(Json::as_str)
    }

    fn flag(&self, name: &str) -> bool {
        self.object.get(name).and_then(Json::as_bool).unwrap_or_default()
    }

    fn count(&self, name: &str) -> Option<usize> {
        let number = self.object.get(name).filter(|value| value.is_number() && instance::is_whole(value))?;
        Some(instance::float(number).max(0.0) as usize)
    }
}

fn resolve(address: &str, resource: &Resource, fragment: &str) -> Result<String, String> {
    if fragment.is_empty() || fragment.starts_with('/') {
        return Ok(format!("{}{fragment}", resource.pointer));
    }
    resource.anchors.get(fragment).cloned().ok_or_else(|| {
        format!("anchor in {:?} not found in schema {address:?}", location(&resource.id, fragment))
    })
}

fn strings(list: &[Json]) -> Vec<String> {
    list.iter().filter_map(Json::as_str).map(str::to_owned).collect()
}
