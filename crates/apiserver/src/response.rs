//! Answers and their bodies.

use std::convert::Infallible;
use std::io::Write as _;

use bytes::Bytes;
use convoy_meta::Status;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY};
use http::{HeaderValue, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::Value;

use crate::negotiation::{Accepted, Format};

/// The body of an answer: whole, or a stream of frames.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;
/// An answer.
pub type Response = http::Response<Body>;

/// Bodies from this size on are compressed for clients that accept it, as kube-apiserver does.
const GZIP_FROM: usize = 128 * 1024;

/// A whole body.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// A body that is sent piece by piece.
pub fn stream(frames: impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static) -> Body {
    StreamBody::new(frames).boxed_unsync()
}

/// An answer of bytes.
pub fn bytes(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = http::Response::new(full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// An answer of plain text.
pub fn text(code: StatusCode, body: impl Into<String>) -> Response {
    let body: String = body.into();
    let mut response = bytes(code, "text/plain; charset=utf-8", body);
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A value, as the client accepts it.
pub fn value(code: StatusCode, value: &Value, accepted: &Accepted) -> Response {
    encoded(code, encode(value, accepted), accepted)
}

/// A Status, as the client accepts it; a Status is never turned into a Table.
pub fn status(status: &Status, accepted: &Accepted) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::OK);
    let written = serde_json::to_value(status).unwrap_or_default();
    let plain = Accepted { transform: None, ..accepted.clone() };
    let mut response = encoded(code, encode(&written, &plain), &plain);
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry));
    }
    response
}

/// JSON that is already written, as the client accepts it.
pub fn json(code: StatusCode, json: Bytes, accepted: &Accepted) -> Response {
    if accepted.format == Format::Json && !accepted.pretty {
        return encoded(code, json, accepted);
    }
    match serde_json::from_slice(&json) {
        Ok(read) => encoded(code, encode(&read, accepted), accepted),
        Err(_) => encoded(code, json, accepted),
    }
}

/// Sets the headers that say how the body is written.
pub fn describe(answer: &mut Response, accepted: &Accepted) {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(accepted.format.media_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
}

/// The bytes of a value in the accepted format, with the line end that kube-apiserver writes.
pub fn encode(value: &Value, accepted: &Accepted) -> Bytes {
    let written = match accepted.format {
        Format::Json if accepted.pretty => serde_json::to_vec_pretty(value),
        Format::Json => serde_json::to_vec(value).map(|mut bytes| {
            bytes.push(b'\n');
            bytes
        }),
        Format::Yaml => match convoy_yaml::to_yaml(value) {
            Ok(text) => return Bytes::from(text),
            Err(_) => serde_json::to_vec(value),
        },
    };
    written.unwrap_or_default().into()
}

fn encoded(code: StatusCode, body: Bytes, accepted: &Accepted) -> Response {
    let compressed = (accepted.gzip && body.len() >= GZIP_FROM).then(|| gzip(&body)).flatten();
    let is_compressed = compressed.is_some();
    let mut response = http::Response::new(full(compressed.unwrap_or(body)));
    *response.status_mut() = code;
    describe(&mut response, accepted);
    if is_compressed {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

fn gzip(body: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok().map(Bytes::from)
}
