//! /healthz, /livez, /readyz: named checks, `verbose`, `exclude`, and single checks by path.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use convoy_meta::Query;
use http::StatusCode;

use crate::response::{Response, text};

/// One thing that must be well.
#[async_trait]
pub trait Check: Send + Sync + fmt::Debug {
    /// Says what is wrong. The text is for the log; clients only see that the check failed.
    async fn check(&self) -> Result<(), String>;
}

/// The checks of a server.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    live: Vec<(String, Arc<dyn Check>)>,
    ready: Vec<(String, Arc<dyn Check>)>,
}

#[derive(Debug)]
struct Ping;

#[async_trait]
impl Check for Ping {
    async fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The name of the check that fails first when the server stops.
pub const SHUTDOWN: &str = "shutdown";

impl Checks {
    /// Only `ping`.
    pub fn new() -> Self {
        let ping: (String, Arc<dyn Check>) = ("ping".into(), Arc::new(Ping));
        Self { live: vec![ping.clone()], ready: vec![ping] }
    }

    /// Adds a check that decides whether the process is restarted, and whether it gets requests.
    pub fn add_live(&mut self, name: impl Into<String>, check: Arc<dyn Check>) {
        let name = name.into();
        self.live.push((name.clone(), check.clone()));
        self.ready.push((name, check));
    }

    /// Adds a check that decides whether the process gets requests.
    pub fn add_ready(&mut self, name: impl Into<String>, check: Arc<dyn Check>) {
        self.ready.push((name.into(), check));
    }

    /// Answers a health path, or `None` when the path is no such.
    pub async fn answer(&self, path: &str, query: &Query, stopping: bool) -> Option<Response> {
        let mut parts = path.trim_start_matches('/').split('/');
        let kind = parts.next()?;
        let single = parts.next();
        if parts.next().is_some() {
            return None;
        }
        let checks = match kind {
            "livez" | "healthz" => &self.live,
            "readyz" => &self.ready,
            _ => return None,
        };
        let excluded = query.all("exclude");
        let mut lines = String::new();
        let mut failed = Vec::new();
        let mut found = false;
        for (name, check) in checks {
            if single.is_some_and(|single| single != name) {
                continue;
            }
            found = true;
            if excluded.contains(&name.as_str()) {
                lines.push_str(&format!("[+]{name} excluded: ok\n"));
                continue;
            }
            match check.check().await {
                Ok(()) => lines.push_str(&format!("[+]{name} ok\n")),
                Err(why) => {
                    tracing::warn!(check = name, why, "health check failed");
                    lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
                    failed.push(name.as_str());
                }
            }
        }
        if kind == "readyz" && single.is_none_or(|single| single == SHUTDOWN) {
            found = true;
            if stopping && !excluded.contains(&SHUTDOWN) {
                lines.push_str(&format!("[-]{SHUTDOWN} failed: reason withheld\n"));
                failed.push(SHUTDOWN);
            } else {
                lines.push_str(&format!("[+]{SHUTDOWN} ok\n"));
            }
        }
        if !found {
            return None;
        }
        Some(if failed.is_empty() {
            let verbose = query.get("verbose").is_some() && single.is_none();
            let body = if verbose { format!("{lines}{kind} check passed\n") } else { "ok".to_owned() };
            text(StatusCode::OK, body)
        } else if single.is_some() {
            text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error: reason withheld\n")
        } else {
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{kind} check failed\n"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn code(checks: &Checks, path: &str, stopping: bool) -> Option<u16> {
        checks.answer(path, &Query::default(), stopping).await.map(|response| response.status().as_u16())
    }

    #[tokio::test]
    async fn readiness_fails_first_when_the_server_stops() {
        let checks = Checks::new();
        assert_eq!(code(&checks, "/readyz", false).await, Some(200));
        assert_eq!(code(&checks, "/readyz", true).await, Some(500));
        assert_eq!(code(&checks, "/livez", true).await, Some(200));
        assert_eq!(code(&checks, "/readyz/ping", true).await, Some(200));
        assert_eq!(code(&checks, "/readyz/unheard", false).await, None);
        assert_eq!(code(&checks, "/other", false).await, None);
    }
}
