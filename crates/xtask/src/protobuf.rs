//! `cargo xtask protobuf`: the table by which the API server reads protobuf bodies, from Kubernetes' Go modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Write the table of Kubernetes' protobuf messages from its Go modules.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the module k8s.io/api; k8s.io/apimachinery of the same version lies beside it.
    #[arg(long)]
    api_module: PathBuf,
    /// Where to write the table.
    #[arg(long, default_value = "crates/apiserver/data/protobuf.txt")]
    output: PathBuf,
}

/// Groups and versions of k8s.io/api whose messages are left out: nobody creates them with kubectl.
const LEFT_OUT: [&str; 3] = ["alpha", "imagepolicy", "extensions"];

#[derive(Debug)]
struct Field {
    tag: u32,
    name: String,
    type_: String,
    /// How zero values are treated: `?` for a Go pointer, `!` for a value that is always written.
    mark: &'static str,
}

type Messages = BTreeMap<String, Vec<Field>>;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let api = &arguments.api_module;
    let folder = api.file_name().and_then(|name| name.to_str()).context("the module's folder has no name")?;
    let version = folder.strip_prefix("api@").context("the module's folder is not called api@<version>")?;
    let machinery = api.with_file_name(format!("apimachinery@{version}")).join("pkg");
    let mut messages = Messages::new();
    let packages = ["apis/meta/v1", "api/resource", "runtime", "util/intstr"];
    for package in packages {
        read(&machinery.join(package), &mut messages)?;
    }
    let mut roots = BTreeSet::from(["k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions".to_owned()]);
    for group in folders(api)? {
        for folder in folders(&group)? {
            let path = folder.to_string_lossy().into_owned();
            if LEFT_OUT.iter().any(|word| path.contains(word)) || !folder.join("generated.proto").exists() {
                continue;
            }
            let before: BTreeSet<String> = messages.keys().cloned().collect();
            read(&folder, &mut messages)?;
            let new = messages.iter().filter(|(name, _)| !before.contains(*name));
            roots.extend(new.filter(|(_, fields)| is_kind(fields)).map(|(name, _)| name.clone()));
        }
    }
    let text = write(&messages, &roots, version);
    std::fs::write(&arguments.output, text).with_context(|| arguments.output.display().to_string())
}

fn folders(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| path.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a message is an object: it has metadata that is an ObjectMeta.
fn is_kind(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.name == "metadata" && field.type_.ends_with(".ObjectMeta"))
}

/// Reads one Go package: types from its generated.proto, pointers and omitempty from its Go structs.
fn read(folder: &Path, messages: &mut Messages) -> anyhow::Result<()> {
    let proto = folder.join("generated.proto");
    let text = std::fs::read_to_string(&proto).with_context(|| proto.display().to_string())?;
    let marks = go_marks(folder)?;
    let mut package = String::new();
    let mut current: Option<(String, Vec<Field>)> = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name.trim_end_matches(';').to_owned();
        } else if let Some(name) = line.strip_prefix("message ") {
            current = Some((name.trim_end_matches(" {").trim().to_owned(), Vec::new()));
        } else if line == "}" {
            if let Some((name, fields)) = current.take() {
                messages.insert(format!("{package}.{name}"), fields);
            }
        } else if let Some((message, fields)) = &mut current
            && let Some(mut field) = field(line, &package)
        {
            field.mark = marks.get(&(message.clone(), field.tag)).copied().unwrap_or_default();
            fields.push(field);
        }
    }
    Ok(())
}

fn field(line: &str, package: &str) -> Option<Field> {
    let line = line.strip_suffix(';')?;
    let (declaration, tag) = line.rsplit_once('=')?;
    let tag = tag.split('[').next()?.trim().parse().ok()?;
    let (type_, name) = declaration.trim().rsplit_once(' ')?;
    let full = |type_: &str| match type_ {
        "string" => "s".to_owned(),
        "bytes" => "y".to_owned(),
        "bool" => "b".to_owned(),
        "double" => "d".to_owned(),
        "float" => "f".to_owned(),
        "int32" | "int64" | "uint32" | "uint64" => "i".to_owned(),
        other => match other.strip_prefix('.') {
            Some(absolute) => absolute.to_owned(),
            None => format!("{package}.{other}"),
        },
    };
    let type_ = if let Some(value) = type_.strip_prefix("map<string, ") {
        format!("%{}", full(value.trim_end_matches('>')))
    } else if let Some(item) = type_.strip_prefix("repeated ") {
        format!("*{}", full(item))
    } else {
        full(type_.strip_prefix("optional ")?)
    };
    Some(Field { tag, name: name.to_owned(), type_, mark: "" })
}

/// By struct and tag: `?` for pointers, `!` for values without omitempty, `^` for embedded structs.
fn go_marks(folder: &Path) -> anyhow::Result<BTreeMap<(String, u32), &'static str>> {
    let mut marks = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !name.ends_with(".go") || name.starts_with("generated") || name.ends_with("_test.go") {
            continue;
        }
        let mut current = String::new();
        for line in std::fs::read_to_string(&path)?.lines() {
            if let Some(rest) = line.strip_prefix("type ") {
                rest.split(' ').next().unwrap_or_default().clone_into(&mut current);
            }
            let Some((declaration, tags)) = line.split_once('`') else { continue };
            let protobuf = tags.split("protobuf:\"").nth(1).and_then(|rest| rest.split('"').next());
            let tag = protobuf.and_then(|text| text.split(',').nth(1)).and_then(|tag| tag.parse().ok());
            let Some(tag) = tag else { continue };
            let pointer = declaration.split_whitespace().nth(1).is_some_and(|type_| type_.starts_with('*'));
            let json =
                tags.split("json:\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            // A struct embedded in another: its fields are the other's in JSON, but not in protobuf.
            let inline = json.split(',').any(|word| word == "inline");
            let mark = match (pointer, json.contains("omitempty")) {
                _ if inline => "^",
                (true, _) => "?",
                (false, false) => "!",
                (false, true) => continue,
            };
            marks.insert((current.clone(), tag), mark);
        }
    }
    Ok(marks)
}

fn target(type_: &str) -> &str {
    type_.trim_start_matches(['*', '%'])
}

fn write(messages: &Messages, roots: &BTreeSet<String>, version: &str) -> String {
    let mut needed = BTreeSet::new();
    let mut queue: Vec<&str> = roots.iter().map(String::as_str).collect();
    while let Some(name) = queue.pop() {
        if needed.insert(name) {
            let fields = messages.get(name).map(Vec::as_slice).unwrap_or_default();
            queue.extend(fields.iter().map(|field| target(&field.type_)).filter(|name| name.contains('.')));
        }
    }
    let numbers: BTreeMap<&str, usize> = needed.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let mut out =
        format!("# Kubernetes {version}: message, then tag name:type; made by cargo xtask protobuf\n");
    for name in &needed {
        let _ = write!(out, "{name}");
        for field in messages.get(*name).map(Vec::as_slice).unwrap_or_default() {
            let kind = target(&field.type_);
            let prefix = field.type_.strip_suffix(kind).unwrap_or_default();
            let kind = numbers.get(kind).map_or_else(|| kind.to_owned(), ToString::to_string);
            let _ = write!(out, " {}{}:{prefix}{kind}{}", field.tag, field.name, field.mark);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_a_proto_file_is_read() {
        let read = |line| field(line, "p").map(|field| (field.tag, field.name, field.type_));
        assert_eq!(read("optional int32 replicas = 1;"), Some((1, "replicas".into(), "i".into())));
        assert_eq!(read("map<string, bytes> data = 2;"), Some((2, "data".into(), "%y".into())));
        assert_eq!(
            read("repeated Container containers = 3;"),
            Some((3, "containers".into(), "*p.Container".into()))
        );
        assert_eq!(read("optional .a.b.C meta = 4;"), Some((4, "meta".into(), "a.b.C".into())));
        assert_eq!(read("// optional int32 replicas = 1;"), None);
    }
}
