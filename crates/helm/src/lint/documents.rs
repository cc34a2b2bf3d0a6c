//! The documents of a rendered template, as `k8s.io/apimachinery`'s decoder for YAML or JSON reads them.

use crate::functions::json_error;
use crate::loose::{self, Fields, Loose};

/// What the rules look at.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// The heads of a stream's documents; a document that is null has none. The first error ends it.
pub(super) fn documents(stream: &[u8]) -> Vec<Result<Option<Head>, String>> {
    let mut heads = Vec::new();
    let from = if starts_as_json(stream) { read_json(stream, &mut heads) } else { 0 };
    // What is no JSON may be YAML; when it is neither, the error of JSON is told.
    let rest = stream.get(from..).unwrap_or_default();
    let mut json_error = starts_as_json(rest).then(|| json_error(rest)).flatten();
    for document in convoy_yaml::documents(rest) {
        let head = document
            .map_err(|error| error.to_string())
            .and_then(|document| loose::read(&document).map_err(|error| error.go_text()))
            .and_then(|value| head_of(&value))
            .map_err(|error| json_error.take().unwrap_or(error));
        json_error = None;
        let failed = head.is_err();
        heads.push(head);
        if failed {
            break;
        }
    }
    heads
}

fn starts_as_json(stream: &[u8]) -> bool {
    stream.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// Reads objects of JSON one after the other, and answers with where YAML goes on.
fn read_json(stream: &[u8], heads: &mut Vec<Result<Option<Head>, String>>) -> usize {
    let mut objects = serde_json::Deserializer::from_slice(stream).into_iter::<serde_json::Value>();
    let mut read = 0;
    while let Some(Ok(object)) = objects.next() {
        read = objects.byte_offset();
        // JSON is YAML, and so has the same types.
        let value = loose::read(object.to_string().as_bytes()).map_err(|error| error.go_text());
        heads.push(value.and_then(|value| head_of(&value)));
    }
    let after = stream.get(read..).unwrap_or_default();
    let spaces = after.iter().take_while(|byte| byte.is_ascii_whitespace() && **byte != b'\n').count();
    read + spaces + usize::from(after.get(spaces) == Some(&b'\n'))
}

fn head_of(value: &Loose) -> Result<Option<Head>, String> {
    if *value == Loose::Null {
        return Ok(None);
    }
    let read = || {
        let fields = Fields::of(value, "rules.k8sYamlStruct")?;
        let (api_version, kind) = (fields.string("apiVersion")?, fields.string("Kind")?);
        let mut head = Head { api_version, kind, ..Head::default() };
        if let Some(metadata) = fields.inner("Metadata", "rules.k8sYamlMetadata")? {
            metadata.string("Namespace")?;
            head.name = metadata.string("Name")?;
        }
        Ok(Some(head))
    };
    read().map_err(|error: loose::TypedError| error.go_text())
}

/// Whether the first document is a list with an object whose resource policy would be ignored.
pub(super) fn is_list_with_policy(content: &[u8]) -> Result<bool, String> {
    const METADATA: &str = "struct { Annotations map[string]string }";
    let read = || {
        let value = loose::read(content)?;
        let items = Fields::of(
            &value,
            "struct { Items []struct { Metadata struct { Annotations map[string]string } } }",
        )?
        .values("Items", "struct { Metadata struct { Annotations map[string]string } }")?;
        for item in items.into_iter().flatten() {
            let Some(metadata) = item.inner("Metadata", METADATA)? else { continue };
            if metadata.string_map("Annotations")?.contains_key("helm.sh/resource-policy") {
                return Ok(true);
            }
        }
        Ok(false)
    };
    read().map_err(|error: loose::TypedError| error.go_text())
}
