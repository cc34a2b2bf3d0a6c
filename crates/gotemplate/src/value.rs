//! What templates compute with: Go's values as `reflect` shows them to text/template.
//!
//! Lists and maps are shared by reference and may be changed in place, as a Go `map[string]any` is:
//! what `set` does to a map is seen by everyone who holds it. They are counted without atomics
//! (`Rc`), because one render runs on one thread and counting dominates a render's cost; parsed
//! templates, which threads do share, hold no `Value`.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::rc::Rc;

use crate::function::{Call, FuncError, Signature};
use crate::text::Str;

/// A Go value.
///
/// `Nil` is the untyped nil (a nil `interface {}`); functions also get it for a nil map or slice.
#[derive(Clone, Default)]
pub enum Value {
    /// `nil`.
    #[default]
    Nil,
    /// `bool`.
    Bool(bool),
    /// `int`: literals of templates, lengths, results of Sprig's `int`.
    Int(i64),
    /// `int32`, also a rune.
    Int32(i32),
    /// `int64`: numbers of `--set`, Sprig's arithmetic.
    Int64(i64),
    /// `uint8`: an element of a string or of `[]uint8`.
    Uint8(u8),
    /// `uint32`.
    Uint32(u32),
    /// `uint64`.
    Uint64(u64),
    /// `float64`: every number that came through YAML or JSON.
    Float64(f64),
    /// `string`.
    String(Str),
    /// `[]uint8`.
    Bytes(Str),
    /// A slice: `[]interface {}`, `[]string`, …
    List(List),
    /// A map with string keys: `map[string]interface {}`, `map[string]string`, …
    Map(Map),
    /// Something of the host with fields or methods.
    Object(Rc<dyn Object>),
}

/// The element type of a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elem {
    /// `interface {}`.
    Any,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `int64`.
    Int64,
    /// `float64`.
    Float64,
    /// `string`.
    String,
    /// `[]uint8`.
    Bytes,
    /// `[]string`.
    Strings,
    /// `[]interface {}`.
    List,
    /// `map[string]interface {}`.
    Map,
}

impl Elem {
    /// Go's name of the type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::Bytes => "[]uint8",
            Self::Strings => "[]string",
            Self::List => "[]interface {}",
            Self::Map => "map[string]interface {}",
        }
    }

    /// The zero value of the type.
    pub fn zero(self) -> Value {
        match self {
            Self::Any => Value::Nil,
            Self::Bool => Value::Bool(false),
            Self::Int => Value::Int(0),
            Self::Int64 => Value::Int64(0),
            Self::Float64 => Value::Float64(0.0),
            Self::String => Value::String(Str::default()),
            Self::Bytes => Value::Bytes(Str::default()),
            Self::Strings => Value::List(List::with_elem(Self::String, Vec::new())),
            Self::List => Value::List(List::default()),
            Self::Map => Value::Map(Map::default()),
        }
    }
}

/// Go's `reflect.Kind`, as far as values here have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The zero `reflect.Value`.
    Invalid,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `uint8`.
    Uint8,
    /// `uint32`.
    Uint32,
    /// `uint64`.
    Uint64,
    /// `float64`.
    Float64,
    /// `string`.
    String,
    /// Any slice.
    Slice,
    /// Any map.
    Map,
    /// A pointer to a struct.
    Ptr,
    /// A struct.
    Struct,
    /// A function.
    Func,
}

impl Kind {
    /// Go's word, as Sprig's `kindOf` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::Slice => "slice",
            Self::Map => "map",
            Self::Ptr => "ptr",
            Self::Struct => "struct",
            Self::Func => "func",
        }
    }
}

/// A Go slice. Clones share the elements.
#[derive(Clone)]
pub struct List(Rc<ListBody>);

struct ListBody {
    elem: Elem,
    nil: bool,
    items: RefCell<Vec<Value>>,
    /// The name and the methods of a type of its own.
    face: Option<Rc<dyn Object>>,
    /// What is given back when it is let go.
    _refund: Option<Refund>,
}

/// Bytes that count as made for as long as it is held.
pub(crate) struct Refund {
    pub(crate) account: Rc<Cell<usize>>,
    pub(crate) bytes: usize,
}

impl Drop for Refund {
    fn drop(&mut self) {
        self.account.set(self.account.get().saturating_add(self.bytes));
    }
}

impl Default for List {
    fn default() -> Self {
        Self::with_elem(Elem::Any, Vec::new())
    }
}

impl List {
    /// A `[]interface {}` of these elements.
    pub fn new(items: Vec<Value>) -> Self {
        Self::with_elem(Elem::Any, items)
    }

    /// A slice of another element type; the elements must be of it.
    pub fn with_elem(elem: Elem, items: Vec<Value>) -> Self {
        Self(Rc::new(ListBody { elem, nil: false, items: RefCell::new(items), face: None, _refund: None }))
    }

    /// A nil slice, which differs from an empty one in JSON and YAML only: there it is `null`.
    pub fn nil(elem: Elem) -> Self {
        Self(Rc::new(ListBody {
            elem,
            nil: true,
            items: RefCell::new(Vec::new()),
            face: None,
            _refund: None,
        }))
    }

    /// A slice of a named type, whose name and methods are those of `face`; nil without items.
    pub fn named(face: Rc<dyn Object>, elem: Elem, items: Option<Vec<Value>>) -> Self {
        let nil = items.is_none();
        Self(Rc::new(ListBody {
            elem,
            nil,
            items: RefCell::new(items.unwrap_or_default()),
            face: Some(face),
            _refund: None,
        }))
    }

    pub(crate) fn counted(items: Vec<Value>, refund: Refund) -> Self {
        let (elem, items, refund) = (Elem::Any, RefCell::new(items), Some(refund));
        Self(Rc::new(ListBody { elem, nil: false, items, face: None, _refund: refund }))
    }

    /// See [`List::named`].
    pub(crate) fn face(&self) -> Option<&Rc<dyn Object>> {
        self.0.face.as_ref()
    }

    /// Whether it is a nil slice.
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// A `[]string`.
    pub fn strings<S: Into<Str>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::with_elem(Elem::String, items.into_iter().map(|s| Value::String(s.into())).collect())
    }

    /// The element type.
    pub fn elem(&self) -> Elem {
        self.0.elem
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.0.items.borrow().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Value> {
        self.0.items.borrow().get(index).cloned()
    }

    /// The elements, to be read before anything else runs.
    pub fn borrow(&self) -> Ref<'_, Vec<Value>> {
        self.0.items.borrow()
    }

    /// A copy of the elements.
    pub fn to_vec(&self) -> Vec<Value> {
        self.0.items.borrow().clone()
    }

    /// Puts other elements in place, for everyone who shares the list (Go's in-place sort).
    pub fn replace(&self, items: Vec<Value>) {
        let old = self.0.items.replace(items);
        drop(old);
    }

    /// Whether both are the same slice, not only equal.
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

/// A Go map with string keys. Clones share the entries.
#[derive(Clone)]
pub struct Map(Rc<MapBody>);

struct MapBody {
    elem: Elem,
    nil: bool,
    name: Option<&'static str>,
    entries: RefCell<BTreeMap<Str, Value>>,
}

impl Default for Map {
    fn default() -> Self {
        Self::new(BTreeMap::new())
    }
}

impl Map {
    /// A `map[string]interface {}`.
    pub fn new(entries: BTreeMap<Str, Value>) -> Self {
        Self::with_elem(Elem::Any, entries)
    }

    /// A map of another element type; the values must be of it.
    pub fn with_elem(elem: Elem, entries: BTreeMap<Str, Value>) -> Self {
        Self(Rc::new(MapBody { elem, nil: false, name: None, entries: RefCell::new(entries) }))
    }

    /// A named type over `map[string]interface {}`, such as Helm's `common.Values`.
    pub fn named(name: &'static str, entries: BTreeMap<Str, Value>) -> Self {
        Self(Rc::new(MapBody {
            elem: Elem::Any,
            nil: false,
            name: Some(name),
            entries: RefCell::new(entries),
        }))
    }

    /// The element type.
    pub fn elem(&self) -> Elem {
        self.0.elem
    }

    /// A nil `map[string]interface {}`: it reads as an empty one, is `null` in JSON and YAML, and nothing
    /// can be set in it (which callers of [`Map::insert`] must check).
    pub fn nil() -> Self {
        Self::nil_of(Elem::Any)
    }

    /// A nil map of another element type.
    pub fn nil_of(elem: Elem) -> Self {
        Self(Rc::new(MapBody { elem, nil: true, name: None, entries: RefCell::new(BTreeMap::new()) }))
    }

    /// Whether it is a nil map.
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// The name of the type when it has one.
    pub fn name(&self) -> Option<&'static str> {
        self.0.name
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        self.0.entries.borrow().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at `key`.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.0.entries.borrow().get(key).cloned()
    }

    /// Whether `key` is there.
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.0.entries.borrow().contains_key(key)
    }

    /// Sets `key`, for everyone who shares the map. A function that puts a list or map into a map
    /// that templates can reach must also tell [`Call::mutated`], or a cycle may leak.
    pub fn insert(&self, key: Str, value: Value) {
        let old = self.0.entries.borrow_mut().insert(key, value);
        drop(old);
    }

    /// Removes `key`, for everyone who shares the map.
    pub fn remove(&self, key: &[u8]) -> Option<Value> {
        self.0.entries.borrow_mut().remove(key)
    }

    /// Removes all entries, for everyone who shares the map.
    pub fn clear(&self) {
        let old = mem::take(&mut *self.0.entries.borrow_mut());
        drop(old);
    }

    /// The keys, sorted by byte.
    pub fn keys(&self) -> Vec<Str> {
        self.0.entries.borrow().keys().cloned().collect()
    }

    /// The entries, sorted by key, as they are now.
    pub fn entries(&self) -> Vec<(Str, Value)> {
        self.0.entries.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// The entries, to be read before anything else runs.
    pub fn borrow(&self) -> Ref<'_, BTreeMap<Str, Value>> {
        self.0.entries.borrow()
    }

    /// Whether both are the same map, not only equal.
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl<K: Into<Str>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(iter: I) -> Self {
        Self::new(iter.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }
}

// Values nest as deep as a template likes, so they are taken apart with a list, not by recursion.
fn take_apart(mut pending: Vec<Value>) {
    while let Some(value) = pending.pop() {
        match value {
            Value::List(List(mut body)) => {
                if let Some(body) = Rc::get_mut(&mut body) {
                    pending.extend(mem::take(body.items.get_mut()).into_iter().filter(Value::is_container));
                }
            }
            Value::Map(Map(mut body)) => {
                if let Some(body) = Rc::get_mut(&mut body) {
                    pending
                        .extend(mem::take(body.entries.get_mut()).into_values().filter(Value::is_container));
                }
            }
            _ => {}
        }
    }
}

impl Drop for ListBody {
    fn drop(&mut self) {
        if self.items.get_mut().iter().any(Value::is_container) {
            take_apart(mem::take(self.items.get_mut()));
        }
    }
}

impl Drop for MapBody {
    fn drop(&mut self) {
        if self.entries.get_mut().values().any(Value::is_container) {
            take_apart(mem::take(self.entries.get_mut()).into_values().collect());
        }
    }
}

/// A value of the host that templates use through fields and methods, such as `.Files` or a time.
pub trait Object {
    /// Go's name of its type, such as `*common.Capabilities`.
    fn type_name(&self) -> &str;

    /// Its `reflect.Kind`.
    fn kind(&self) -> Kind;

    /// For downcasting in host functions.
    fn as_any(&self) -> &dyn Any;

    /// The exported field `name`.
    fn field(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// The signature of method `name`, when there is one.
    fn method(&self, name: &str) -> Option<&'static Signature> {
        let _ = name;
        None
    }

    /// Calls a method that [`Object::method`] named; the arguments fit its signature.
    ///
    /// # Errors
    /// What the method reports; the executor adds the place.
    fn call(&self, name: &str, call: &mut Call<'_, '_>, args: &[Value]) -> Result<Value, FuncError> {
        let _ = (call, args);
        Err(FuncError::new(format!("no method {name}")))
    }

    /// The entries when it is a map ([`Kind::Map`]), sorted by key.
    fn entries(&self) -> Option<Vec<(Str, Value)>> {
        None
    }

    /// The element type when it is a map: its zero is what a missing key gives.
    fn elem(&self) -> Elem {
        Elem::Any
    }

    /// What its `String()` or `Error()` method gives; `None` when it has neither.
    fn display(&self) -> Option<Str> {
        None
    }

    /// What a template prints for the value itself. That is [`Object::display`], unless the method is a pointer's: functions
    /// such as `printf` do not find it then, but a template does.
    fn printed(&self) -> Option<Str> {
        self.display()
    }

    /// Its text in JSON and YAML when it has one there (a `MarshalJSON` or `MarshalText` method).
    fn json(&self) -> Option<Str> {
        None
    }

    /// Exported fields in order, for `%v` of a struct without a `String` method.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Fields in order as JSON and YAML have them, which is where tags count.
    fn json_fields(&self) -> Vec<(&'static str, Value)> {
        self.fields()
    }

    /// The number behind a kind such as `int64` (`time.Duration`).
    fn as_int(&self) -> Option<i64> {
        None
    }
}

impl Value {
    /// A string.
    pub fn string(text: impl Into<Str>) -> Self {
        Self::String(text.into())
    }

    /// A `[]interface {}`.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(items))
    }

    /// A `map[string]interface {}`.
    pub fn map<K: Into<Str>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Map(entries.into_iter().collect())
    }

    /// An object of the host.
    pub fn object(object: impl Object + 'static) -> Self {
        Self::Object(Rc::new(object))
    }

    /// Whether it is nil, typed or not.
    pub fn is_any_nil(&self) -> bool {
        match self {
            Self::Nil => true,
            Self::List(list) => list.is_nil(),
            Self::Map(map) => map.is_nil(),
            _ => false,
        }
    }

    fn is_container(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_))
    }

    /// Whether it is the untyped nil.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// Its `reflect.Kind`.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Nil => Kind::Invalid,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) => Kind::Int,
            Self::Int32(_) => Kind::Int32,
            Self::Int64(_) => Kind::Int64,
            Self::Uint8(_) => Kind::Uint8,
            Self::Uint32(_) => Kind::Uint32,
            Self::Uint64(_) => Kind::Uint64,
            Self::Float64(_) => Kind::Float64,
            Self::String(_) => Kind::String,
            Self::Bytes(_) | Self::List(_) => Kind::Slice,
            Self::Map(_) => Kind::Map,
            Self::Object(object) => object.kind(),
        }
    }

    /// Go's name of its dynamic type, as `%T` prints it (`<nil>` for nil).
    pub fn type_name(&self) -> Cow<'_, str> {
        match self {
            Self::Nil => "<nil>".into(),
            Self::Bool(_) => "bool".into(),
            Self::Int(_) => "int".into(),
            Self::Int32(_) => "int32".into(),
            Self::Int64(_) => "int64".into(),
            Self::Uint8(_) => "uint8".into(),
            Self::Uint32(_) => "uint32".into(),
            Self::Uint64(_) => "uint64".into(),
            Self::Float64(_) => "float64".into(),
            Self::String(_) => "string".into(),
            Self::Bytes(_) => "[]uint8".into(),
            Self::List(list) if list.face().is_some() => {
                list.face().map_or_else(Cow::default, |face| face.type_name().into())
            }
            Self::List(list) => match list.elem() {
                Elem::Any => "[]interface {}".into(),
                Elem::String => "[]string".into(),
                elem => format!("[]{}", elem.type_name()).into(),
            },
            Self::Map(map) => match (map.name(), map.elem()) {
                (Some(name), _) => name.into(),
                (None, Elem::Any) => "map[string]interface {}".into(),
                (None, elem) => format!("map[string]{}", elem.type_name()).into(),
            },
            Self::Object(object) => object.type_name().into(),
        }
    }

    /// Go's truth: what `if`, `and`, `not` and `default` look at. False are `false`, 0, `""`, nil and
    /// empty lists and maps.
    pub fn truth(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(b) => *b,
            Self::Int(i) | Self::Int64(i) => *i != 0,
            Self::Int32(i) => *i != 0,
            Self::Uint8(u) => *u != 0,
            Self::Uint32(u) => *u != 0,
            Self::Uint64(u) => *u != 0,
            Self::Float64(f) => *f != 0.0,
            Self::String(s) | Self::Bytes(s) => !s.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Object(object) => match object.kind() {
                Kind::Map | Kind::Slice => object.entries().is_some_and(|e| !e.is_empty()),
                _ => object.as_int() != Some(0),
            },
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The content may be a secret or a cycle: tests that want it print it with `print`.
        write!(f, "Value({})", self.type_name())
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List(len {})", self.len())
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map(len {})", self.len())
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Value {
            fn from(from: $from) -> Self {
                Self::$variant(from.into())
            }
        }
    )*};
}

value_from! {
    bool => Bool, f64 => Float64, &str => String, String => String, Str => String, List => List, Map => Map,
}
