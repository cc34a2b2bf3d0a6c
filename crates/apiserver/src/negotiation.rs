//! Content negotiation: what a client accepts, and what it sends.

use convoy_meta::{Query, Status};
use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};

/// A text format that answers are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    #[default]
    Json,
    /// YAML.
    Yaml,
}

impl Format {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// Another shape of the answer that a client asks for with `as=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// meta.k8s.io Table.
    Table,
    /// meta.k8s.io PartialObjectMetadata.
    PartialObjectMetadata,
    /// meta.k8s.io PartialObjectMetadataList.
    PartialObjectMetadataList,
}

/// How an answer is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The format.
    pub format: Format,
    /// Another shape than the object itself.
    pub transform: Option<Transform>,
    /// Whether to indent JSON for people.
    pub pretty: bool,
    /// Whether the client takes gzip.
    pub gzip: bool,
}

/// Media types in which objects are written.
const SERVED: [&str; 2] = ["application/json", "application/yaml"];
/// Media types that are understood in bodies.
const UNDERSTOOD: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const MAX_CLAUSES: usize = 64;

struct Clause<'a> {
    type_: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header
        .split(',')
        .take(MAX_CLAUSES)
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let type_ = parts.next().unwrap_or_default();
            let parameters: Vec<_> = parts
                .filter_map(|p| p.split_once('='))
                .map(|(k, v)| (k.trim(), v.trim().trim_matches('"')))
                .collect();
            let quality = parameters.iter().find(|(name, _)| *name == "q").and_then(|(_, q)| q.parse().ok());
            Clause { type_, parameters, quality: quality.unwrap_or(1.0) }
        })
        .filter(|clause| !clause.type_.is_empty())
        .collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

/// The header's values, joined as HTTP joins them.
fn joined(headers: &HeaderMap, name: http::header::HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// Finds the first way of writing an answer that the client accepts; `transforms` are the shapes that
/// the resource and verb can take. Protobuf and CBOR are passed over, so that a client which also
/// accepts JSON gets JSON. No Accept header accepts JSON.
///
/// # Errors
/// 406 when nothing that the client accepts is served.
pub fn accept(headers: &HeaderMap, query: &Query, transforms: &[Transform]) -> Result<Accepted, Status> {
    let header = joined(headers, ACCEPT);
    let gzip = joined(headers, ACCEPT_ENCODING).split(',').any(|one| {
        let one = one.trim();
        one == "gzip" || one.starts_with("gzip;") && !one.ends_with("q=0")
    });
    let mut accepted = Accepted { gzip, pretty: is_pretty(headers, query), ..Accepted::default() };
    if header.trim().is_empty() {
        return Ok(accepted);
    }
    for clause in clauses(&header) {
        let format = match clause.type_ {
            "application/json" | "*/*" | "application/*" => Format::Json,
            "application/yaml" => Format::Yaml,
            _ => continue,
        };
        let parameter = |name: &str| clause.parameters.iter().find(|(key, _)| *key == name).map(|(_, v)| *v);
        let transform = match parameter("as") {
            None => None,
            Some(kind) => {
                let group = parameter("g").unwrap_or_default();
                let version = parameter("v").unwrap_or_default();
                if group != "meta.k8s.io" || !["v1", "v1beta1"].contains(&version) {
                    continue;
                }
                let transform = match kind {
                    "Table" => Transform::Table,
                    "PartialObjectMetadata" => Transform::PartialObjectMetadata,
                    "PartialObjectMetadataList" => Transform::PartialObjectMetadataList,
                    _ => continue,
                };
                if !transforms.contains(&transform) {
                    continue;
                }
                Some(transform)
            }
        };
        accepted.format = format;
        accepted.transform = transform;
        return Ok(accepted);
    }
    Err(Status::not_acceptable(&SERVED))
}

/// Whether the Accept header asks for `kind` of a group's version, among the first that are served:
/// how clients ask for aggregated discovery.
pub fn accepts_kind(headers: &HeaderMap, group: &str, version: &str, kind: &str) -> bool {
    clauses(&joined(headers, ACCEPT)).iter().any(|clause| {
        let has = |name: &str, value: &str| clause.parameters.contains(&(name, value));
        clause.type_ == "application/json" && has("g", group) && has("v", version) && has("as", kind)
    })
}

fn is_pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.optional_flag("pretty") {
        Some(pretty) => pretty,
        None => {
            let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
        }
    }
}

/// What a request's body is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf envelope.
    Protobuf,
}

/// The media type of a request's body without its parameters, empty when there is none.
pub fn media_type(headers: &HeaderMap) -> &str {
    let header = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim()
}

/// What an object in a body is written in; JSON when the client does not say.
///
/// # Errors
/// 415 for any other media type.
pub fn content_type(headers: &HeaderMap) -> Result<ContentType, Status> {
    match media_type(headers) {
        "" | "application/json" => Ok(ContentType::Json),
        "application/yaml" => Ok(ContentType::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(ContentType::Protobuf),
        _ => Err(Status::unsupported_media_type(&UNDERSTOOD)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept_header: &str, transforms: &[Transform]) -> Result<Accepted, Status> {
        let mut headers = HeaderMap::new();
        if !accept_header.is_empty() {
            headers.insert(ACCEPT, accept_header.parse().unwrap());
        }
        accept(&headers, &Query::default(), transforms)
    }

    #[test]
    fn the_first_acceptable_clause_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let cases = [
            ("", Format::Json, None),
            ("*/*", Format::Json, None),
            ("application/vnd.kubernetes.protobuf,application/json", Format::Json, None),
            ("application/yaml", Format::Yaml, None),
            ("application/json;q=0.5, application/yaml", Format::Yaml, None),
            ("application/cbor;q=1, application/json;q=0.9", Format::Json, None),
            (table, Format::Json, Some(Transform::Table)),
            ("application/json;as=Unheard;v=v1;g=meta.k8s.io,application/json", Format::Json, None),
        ];
        for (header, format, transform) in cases {
            let got = asked(header, &[Transform::Table]).unwrap();
            assert_eq!((got.format, got.transform), (format, transform), "{header}");
        }
        assert_eq!(asked(table, &[]).unwrap().transform, None);
    }

    #[test]
    fn only_unserved_types_are_not_acceptable() {
        let only = [
            "application/vnd.kubernetes.protobuf",
            "text/html",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
        ];
        for header in only {
            let status = asked(header, &[]).unwrap_err();
            assert_eq!((status.code, status.reason_text.as_str()), (406, "NotAcceptable"), "{header}");
        }
    }

    #[test]
    fn a_body_of_an_unknown_type_is_unsupported() {
        let mut headers = HeaderMap::new();
        assert_eq!(content_type(&headers), Ok(ContentType::Json));
        headers.insert(CONTENT_TYPE, "application/yaml; charset=utf-8".parse().unwrap());
        assert_eq!(content_type(&headers), Ok(ContentType::Yaml));
        headers.insert(CONTENT_TYPE, "text/plain".parse().unwrap());
        assert_eq!(content_type(&headers).unwrap_err().code, 415);
    }
}
