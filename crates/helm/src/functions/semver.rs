//! `semver` and `semverCompare`, and the methods of a version.

use std::any::Any;
use std::cmp::Ordering;

use convoy_gotemplate::{Call, FuncError, Kind, Object, Signature, Str, Type, Value};

use super::arguments::{Outcome, string, text};
use crate::semver::{Constraints, Version};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

pub(super) fn compare(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let constraint =
        Constraints::parse(&text(args, 0).to_text()).map_err(|e| FuncError::new(e.to_string()))?;
    let version = Version::parse(&text(args, 1).to_text()).map_err(|e| FuncError::new(e.to_string()))?;
    Ok(Value::Bool(constraint.check(&version)))
}

pub(super) fn make(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::object(Version::parse(&text(args, 0).to_text()).map_err(|e| FuncError::new(e.to_string()))?))
}

const VERSION: &str = "*semver.Version";
static NUMBER: Signature = Signature::new(&[], Type::Uint64);
static TEXT: Signature = Signature::new(&[], Type::String);
static NEXT: Signature = Signature::new(&[], Type::Object(VERSION));
static RELATION: Signature = Signature::new(&[Type::Object(VERSION)], Type::Bool);
static ORDER: Signature = Signature::new(&[Type::Object(VERSION)], Type::Int);

impl Object for Version {
    fn type_name(&self) -> &str {
        VERSION
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn display(&self) -> Option<Str> {
        Some(self.to_string().into())
    }

    fn json(&self) -> Option<Str> {
        self.display()
    }

    fn method(&self, name: &str) -> Option<&'static Signature> {
        Some(match name {
            "Major" | "Minor" | "Patch" => &NUMBER,
            "Prerelease" | "Metadata" | "Original" | "String" => &TEXT,
            "IncMajor" | "IncMinor" | "IncPatch" => &NEXT,
            "Equal" | "LessThan" | "GreaterThan" | "LessThanEqual" | "GreaterThanEqual" => &RELATION,
            "Compare" => &ORDER,
            _ => return None,
        })
    }

    fn call(&self, name: &str, _: &mut Call<'_, '_>, args: &[Value]) -> Result<Value, FuncError> {
        let other = match args.first() {
            Some(Value::Object(object)) => object.as_any().downcast_ref::<Self>(),
            _ => None,
        };
        let ordering = other.map_or(Ordering::Equal, |other| self.compare(other));
        let next = |major, minor, patch| {
            let mut next = Self { major, minor, patch, ..self.clone() };
            next.prerelease.clear();
            next.metadata.clear();
            next.original =
                if self.original.starts_with('v') { format!("v{next}") } else { next.to_string() };
            Ok(Value::object(next))
        };
        match name {
            "Major" => Ok(Value::Uint64(self.major)),
            "Minor" => Ok(Value::Uint64(self.minor)),
            "Patch" => Ok(Value::Uint64(self.patch)),
            "Prerelease" => string(self.prerelease.as_str()),
            "Metadata" => string(self.metadata.as_str()),
            "Original" => string(self.original.as_str()),
            "IncMajor" => next(self.major.saturating_add(1), 0, 0),
            "IncMinor" => next(self.major, self.minor.saturating_add(1), 0),
            "IncPatch" if !self.prerelease.is_empty() => next(self.major, self.minor, self.patch),
            "IncPatch" => next(self.major, self.minor, self.patch.saturating_add(1)),
            "Equal" => Ok(Value::Bool(ordering == Ordering::Equal)),
            "LessThan" => Ok(Value::Bool(ordering == Ordering::Less)),
            "GreaterThan" => Ok(Value::Bool(ordering == Ordering::Greater)),
            "LessThanEqual" => Ok(Value::Bool(ordering != Ordering::Greater)),
            "GreaterThanEqual" => Ok(Value::Bool(ordering != Ordering::Less)),
            "Compare" => Ok(Value::Int(ordering as i64)),
            _ => string(self.to_string()),
        }
    }
}
