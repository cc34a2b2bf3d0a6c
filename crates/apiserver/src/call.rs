//! A request on its way to a handler.

use std::sync::Arc;

use bytes::Bytes;
use convoy_meta::{Query, Status};
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::authorization::{Attributes, Authorizer, Decision};
use crate::filters::{Now, attributes, refused};
use crate::request_info::{RequestInfo, ResourceRequest};
use crate::user::User;

/// Texts for `Warning` headers, collected while a request is handled.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

/// All warnings of one answer together, in bytes, and the longest one, as kube-apiserver bounds them.
const MAX_TOTAL: usize = 4 * 1024;

impl Warnings {
    /// Adds a text, unless it was given before.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut all = self.0.lock();
        if !all.contains(&text) {
            all.push(text);
        }
    }

    /// The values of the `Warning` headers.
    pub fn header_values(&self) -> Vec<String> {
        let mut total = 0;
        let quoted = self.0.lock().iter().map(|text| quote(text)).collect::<Vec<_>>();
        quoted
            .into_iter()
            .take_while(|text| {
                total += text.len();
                total <= MAX_TOTAL
            })
            .map(|text| format!("299 - {text}"))
            .collect()
    }
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A request that passed the filters: known user, allowed, body read.
#[derive(Clone)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// What it is about.
    pub info: RequestInfo,
    /// The query.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// Who makes it.
    pub user: User,
    /// The whole body; empty for reads.
    pub body: Bytes,
    /// When it came.
    pub now: jiff::Timestamp,
    /// Tells the time, for answers that take long.
    pub clock: Now,
    /// Becomes true when the server stops; watches end then.
    pub stopping: watch::Receiver<bool>,
    /// Warnings for the client.
    pub warnings: Warnings,
    /// Says what else the user may do.
    pub authorizer: Arc<dyn Authorizer>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("info", &self.info).field("user", &self.user).finish_non_exhaustive()
    }
}

impl Call {
    /// The resource asked for; empty when the path names none.
    pub fn resource(&self) -> ResourceRequest {
        self.info.resource.clone().unwrap_or_default()
    }

    /// Refuses what a handler finds out to be a creation, unless the user may create, too.
    ///
    /// # Errors
    /// 403, in the words of a creation that is refused.
    pub async fn authorize_creation(&self) -> Result<(), Status> {
        let attributes = Attributes { verb: "create".to_owned(), ..attributes(&self.user, &self.info) };
        match self.authorizer.authorize(&attributes).await {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(refused(&attributes, &reason)),
        }
    }

    /// The User-Agent up to the first slash: the field manager of clients that name none.
    pub fn default_field_manager(&self) -> String {
        let agent = self.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
        let agent = agent.unwrap_or_default();
        let prefix = agent.split('/').next().unwrap_or_default();
        let printable: String = prefix.chars().filter(|c| !c.is_control()).take(128).collect();
        if printable.is_empty() { "unknown".to_owned() } else { printable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_once_and_bounded() {
        let warnings = Warnings::default();
        warnings.add("unknown field \"spec.x\"");
        warnings.add("unknown field \"spec.x\"");
        assert_eq!(warnings.header_values(), ["299 - \"unknown field \\\"spec.x\\\"\""]);
        for index in 0..5000 {
            warnings.add(format!("warning {index}\n"));
        }
        assert!(warnings.header_values().iter().map(String::len).sum::<usize>() < 8 * 1024);
    }
}
