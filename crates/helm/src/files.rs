//! `.Files`: the files of a chart that are no templates.

use crate::archive::clean;
use crate::chart::File;
use crate::content::Content;
use crate::glob::Glob;
use crate::version::HelmVersion;
use convoy_gotemplate::{Call, Elem, FuncError, Kind, List, Object, Signature, Str, Type, Value};
use convoy_yaml::{Emitter, sort_naturally};
use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Helm's `files`: a map from names to bytes, with methods.
#[derive(Debug)]
pub(crate) struct Files {
    files: BTreeMap<Str, Content>,
    helm: HelmVersion,
}

const TYPE: &str = "engine.files";

impl Files {
    pub(crate) fn of(files: &[File], helm: HelmVersion) -> Value {
        let files = files.iter().map(|file| (Str::from(file.name.as_str()), file.data.clone())).collect();
        Value::Object(Rc::new(Self { files, helm }))
    }

    fn get(&self, args: &[Value]) -> Str {
        match args.first() {
            Some(Value::String(name)) => {
                self.files.get(&**name).map(|data| data.bytes().clone()).unwrap_or_default()
            }
            _ => Str::default(),
        }
    }

    fn glob(&self, args: &[Value]) -> Self {
        let pattern = match args.first() {
            Some(Value::String(pattern)) => pattern.to_text().into_owned(),
            _ => String::new(),
        };
        let glob = Glob::new(&pattern);
        let matches = |name: &Str| glob.matches(&name.to_text());
        let files = self.files.iter().filter(|(name, _)| matches(name));
        Self { files: files.map(|(name, data)| (name.clone(), data.clone())).collect(), helm: self.helm }
    }

    fn lines(&self, args: &[Value]) -> Result<List, FuncError> {
        let Some(Value::String(name)) = args.first() else { return Ok(List::strings::<Str>([])) };
        let Some(text) = self.files.get(&**name).map(Content::bytes) else {
            return Ok(List::strings::<Str>([]));
        };
        if text.is_empty() {
            if self.helm == HelmVersion::V3 {
                return Ok(List::strings::<Str>([]));
            }
            return Err(FuncError::new("runtime error: index out of range [-1]"));
        }
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        Ok(List::strings(text.split(|byte| *byte == b'\n')))
    }

    /// A mapping of the files' last names to what `content` makes of their bytes; nothing when the mapping
    /// cannot be written.
    fn to_yaml(&self, content: impl Fn(&[u8]) -> String) -> Value {
        let mut entries = BTreeMap::new();
        for (name, data) in &self.files {
            let name = clean(&name.to_text());
            let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
            entries.insert(name, content(data.bytes()));
        }
        let entries = sort_naturally(entries.into_iter().collect(), |(name, _): &(String, String)| name);
        let mut emitter = Emitter::new();
        emitter.mapping(entries.is_empty());
        for (name, text) in &entries {
            if emitter.json_key(name).is_err() || emitter.json_string(text).is_err() {
                return Value::string("");
            }
        }
        if !entries.is_empty() {
            emitter.end();
        }
        let yaml = emitter.finish();
        Value::string(yaml.strip_suffix('\n').unwrap_or(&yaml))
    }
}

/// Go's way of making bytes text: U+FFFD for each byte that is no part of a character.
pub(crate) fn go_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    text
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for i in 0..4 {
            let symbol = ALPHABET.get((bits >> (18 - 6 * i) & 63) as usize).copied().unwrap_or(b'=');
            text.push(if i > chunk.len() { '=' } else { char::from(symbol) });
        }
    }
    text
}

impl Object for Files {
    fn type_name(&self) -> &str {
        TYPE
    }

    fn kind(&self) -> Kind {
        Kind::Map
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn elem(&self) -> Elem {
        Elem::Bytes
    }

    fn method(&self, name: &str) -> Option<&'static Signature> {
        static GET: Signature = Signature::new(&[Type::String], Type::String);
        static GET_BYTES: Signature = Signature::new(&[Type::String], Type::Bytes);
        static GLOB: Signature = Signature::new(&[Type::String], Type::Object(TYPE));
        static TEXT: Signature = Signature::new(&[], Type::String);
        static LINES: Signature = Signature::new(&[Type::String], Type::Strings);
        match name {
            "Get" => Some(&GET),
            "GetBytes" => Some(&GET_BYTES),
            "Glob" => Some(&GLOB),
            "AsConfig" | "AsSecrets" => Some(&TEXT),
            "Lines" => Some(&LINES),
            _ => None,
        }
    }

    fn call(&self, name: &str, _: &mut Call<'_, '_>, args: &[Value]) -> Result<Value, FuncError> {
        Ok(match name {
            "Get" => Value::String(self.get(args)),
            "GetBytes" => Value::Bytes(self.get(args)),
            "Glob" => Value::object(self.glob(args)),
            "AsConfig" => self.to_yaml(go_text),
            "AsSecrets" => self.to_yaml(base64),
            "Lines" => Value::List(self.lines(args)?),
            _ => return Err(FuncError::new(format!("no method {name}"))),
        })
    }

    fn entries(&self) -> Option<Vec<(Str, Value)>> {
        Some(
            self.files
                .iter()
                .map(|(name, data)| (name.clone(), Value::Bytes(data.bytes().clone())))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads() {
        for (bytes, text) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("abcd", "YWJjZA==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
