//! What goes wrong, when, and what came by.
//!
//! Everything that a controller-manager asks of the world outside goes past one [`Script`]: it gives each step a
//! number, and spoils the one that it was told to spoil.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Response, StatusCode};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

/// How long requests and news take, at most.
const LONGEST_LAG_MS: u64 = 9;

/// Where a step goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// convoy's own API server.
    Host,
    /// The target cluster's.
    Target,
    /// The server that a source is fetched from.
    Source,
    /// The render store.
    Store,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Host => "host",
            Side::Target => "target",
            Side::Source => "source",
            Side::Store => "store",
        }
    }
}

/// What happens to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The process is killed before the step begins.
    KillBefore,
    /// The step is carried out, and the process killed before it learns of it.
    KillAfter,
    /// As `KillAfter`, and another replica goes on.
    HandOver,
    /// The connection breaks before the request arrives.
    Refused,
    /// The request is carried out, and the connection breaks before the answer.
    LostResponse,
    /// 409: the object was changed.
    Conflict,
    /// 422: a field is wrong.
    Invalid,
    /// 403 by authorisation.
    Forbidden,
    /// 429 with a time to wait.
    TooManyRequests,
    /// 500.
    Internal,
    /// An admission webhook says no.
    WebhookDenied,
    /// An admission webhook does not answer.
    WebhookTimeout,
    /// 403: the namespace is going away.
    NamespaceTerminating,
    /// 403: a quota is used up.
    QuotaExceeded,
    /// What is read or kept has other bytes than it should.
    Damaged,
    /// What is read is not there any more.
    Missing,
}

impl Fault {
    /// Those that end the process.
    pub fn kills(self) -> bool {
        matches!(self, Fault::KillBefore | Fault::KillAfter | Fault::HandOver)
    }

    /// Those of which the step is carried out.
    pub fn is_after(self) -> bool {
        matches!(self, Fault::KillAfter | Fault::HandOver | Fault::LostResponse)
    }

    /// All that make sense for a step: convoy's own API has neither webhooks nor quotas of its own, and only what is
    /// kept outside can be damaged.
    pub fn all(side: Side, method: &Method) -> &'static [Fault] {
        const API: &[Fault] = &[
            Fault::KillBefore,
            Fault::KillAfter,
            Fault::HandOver,
            Fault::Refused,
            Fault::LostResponse,
            Fault::Conflict,
            Fault::Invalid,
            Fault::Forbidden,
            Fault::TooManyRequests,
            Fault::Internal,
            Fault::WebhookDenied,
            Fault::WebhookTimeout,
            Fault::NamespaceTerminating,
            Fault::QuotaExceeded,
        ];
        const SOURCE: &[Fault] = &[
            Fault::KillBefore,
            Fault::KillAfter,
            Fault::HandOver,
            Fault::Refused,
            Fault::LostResponse,
            Fault::Forbidden,
            Fault::TooManyRequests,
            Fault::Internal,
            Fault::Damaged,
        ];
        const STORE: &[Fault] = &[
            Fault::KillBefore,
            Fault::KillAfter,
            Fault::HandOver,
            Fault::Refused,
            Fault::LostResponse,
            Fault::Damaged,
            Fault::Missing,
        ];
        match side {
            Side::Host => API.split_at(10).0,
            Side::Target => API,
            Side::Source => SOURCE,
            Side::Store if *method == Method::PUT => STORE.split_at(6).0,
            Side::Store => STORE,
        }
    }

    fn answer(self) -> Option<(StatusCode, &'static str, &'static str)> {
        Some(match self {
            Fault::Conflict => (
                StatusCode::CONFLICT,
                "Conflict",
                "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
            ),
            Fault::Invalid => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                "spec.field: Invalid value: \"x\": field is immutable",
            ),
            Fault::Forbidden => (StatusCode::FORBIDDEN, "Forbidden", "User \"convoy\" cannot patch resource"),
            Fault::TooManyRequests => (
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                "Too many requests, please try again later.",
            ),
            Fault::Internal => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "Internal error occurred")
            }
            Fault::WebhookDenied => (
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "admission webhook \"deny.example.com\" denied the request: no",
            ),
            Fault::WebhookTimeout => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                "Internal error occurred: failed calling webhook \"slow.example.com\": failed to call webhook: context deadline exceeded",
            ),
            Fault::NamespaceTerminating => (
                StatusCode::FORBIDDEN,
                "Forbidden",
                "unable to create new content in namespace because it is being terminated",
            ),
            Fault::QuotaExceeded => (
                StatusCode::FORBIDDEN,
                "Forbidden",
                "exceeded quota: objects, requested: 1, used: 9, limited: 9",
            ),
            _ => return None,
        })
    }

    /// What a server answers, when the fault is an answer.
    pub fn response(self) -> Option<Response<Body>> {
        let (status, reason, message) = self.answer()?;
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status.as_u16(),
        });
        if self == Fault::NamespaceTerminating {
            body["details"] = json!({"causes": [{"reason": "NamespaceTerminating", "message": message}]});
        }
        let mut response = Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self == Fault::TooManyRequests {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Some(response)
    }
}

/// A step that came by: a write to an API server, a request to a source, a read or write of the render store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it went.
    pub side: Side,
    /// Its method; `GET`, `HEAD` and `PUT` for the render store.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// What the API server answered; none when it was not asked.
    pub status: Option<StatusCode>,
    /// Of an event what it says.
    pub note: String,
}

impl Step {
    /// A step that was not carried out yet.
    pub fn new(side: Side, method: Method, path: &str) -> Self {
        Self { side, method, path: path.to_owned(), status: None, note: String::new() }
    }

    /// Whether it is a write to an API server.
    pub fn is_write(&self) -> bool {
        matches!(self.side, Side::Host | Side::Target)
    }

    /// What it does, without the names: `host patch releases/status`.
    pub fn kind(&self) -> String {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        let what = match self.side {
            Side::Host | Side::Target => resource(&parts),
            // After the repository's name.
            Side::Source => parts.get(1..).unwrap_or_default().join("/"),
            Side::Store => parts.first().copied().unwrap_or_default().to_owned(),
        };
        format!("{} {} {what}", self.side.name(), self.method.as_str().to_lowercase())
    }
}

fn resource(parts: &[&str]) -> String {
    // After `api/v1` or `apis/<group>/<version>`, and the namespace of what has one.
    let mut rest = parts.get(if parts.first() == Some(&"api") { 2 } else { 3 }..).unwrap_or_default();
    if let ["namespaces", _, inner @ ..] = rest
        && !inner.is_empty()
    {
        rest = inner;
    }
    let resource = rest.first().copied().unwrap_or_default();
    let subresource = rest.get(2).map(|name| format!("/{name}")).unwrap_or_default();
    format!("{resource}{subresource}")
}

/// Which step goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spoil {
    /// Its number, counted from [`Script::arm`].
    pub at: usize,
    /// How.
    pub fault: Fault,
    /// How many steps from there on go wrong.
    pub times: usize,
    /// How long it takes until it does.
    pub after: Duration,
}

/// What the proxies do, and what they saw.
#[derive(Clone, Debug)]
pub struct Script {
    state: Arc<Mutex<State>>,
    killed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    steps: Vec<Step>,
    plan: Option<Spoil>,
    seen: usize,
    fired: usize,
    /// Draws how long requests and news take; 0 when they take no time.
    lag: u64,
    /// How many processes have died.
    deaths: usize,
}

impl Default for Script {
    fn default() -> Self {
        Self { state: Arc::default(), killed: watch::Sender::new(false) }
    }
}

impl Script {
    /// Spoils a step from here on.
    pub fn arm(&self, spoil: Spoil) {
        let mut state = self.state.lock();
        (state.plan, state.seen, state.fired) = (Some(spoil), 0, 0);
    }

    /// Lets everything pass from here on. Answers with whether the fault was met.
    pub fn disarm(&self) -> bool {
        let mut state = self.state.lock();
        state.plan = None;
        state.fired > 0
    }

    /// How many steps came by.
    pub fn len(&self) -> usize {
        self.state.lock().steps.len()
    }

    /// Whether none did.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The steps from a place on.
    pub fn steps(&self, from: usize) -> Vec<Step> {
        self.state.lock().steps.get(from..).unwrap_or_default().to_vec()
    }

    /// Waits until the process has to die.
    pub async fn killed(&self) {
        let _ = self.killed.subscribe().wait_for(|killed| *killed).await;
    }

    /// Whether the process has to die.
    pub fn is_killed(&self) -> bool {
        *self.killed.borrow()
    }

    /// The process has to die.
    pub fn kill(&self) {
        self.state.lock().deaths += 1;
        self.killed.send_replace(true);
    }

    /// The process is dead, another may begin.
    pub fn revive(&self) {
        self.killed.send_replace(false);
    }

    /// From here on requests and news take moments that are drawn from a seed; none with 0.
    pub fn lag_by(&self, seed: u64) {
        self.state.lock().lag = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// How long the next one takes.
    pub fn lag(&self) -> Duration {
        Duration::from_millis(self.draw() % LONGEST_LAG_MS)
    }

    /// Whether what the dead process had asked for is still carried out.
    pub fn arrives(&self) -> bool {
        self.draw() % 2 == 1
    }

    /// A number, by xorshift (Marsaglia 2003).
    fn draw(&self) -> u64 {
        let mut state = self.state.lock();
        let mut number = state.lag;
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        state.lag = number;
        number >> 16
    }

    /// Takes note of a step that nothing happens to; answers with its place.
    pub fn note(&self, step: Step) -> usize {
        let mut state = self.state.lock();
        state.steps.push(step);
        state.steps.len() - 1
    }

    /// How many processes have died: what belongs to an earlier one does nothing any more.
    pub fn deaths(&self) -> usize {
        self.state.lock().deaths
    }

    /// Gives a step its number; answers with its place, and what happens to it.
    pub async fn notice(&self, step: Step) -> (usize, Option<Fault>) {
        let (place, spoil) = {
            let mut state = self.state.lock();
            // The store is read in a thread of its own, for which a clock that goes on by itself stands still.
            let can_wait = state.lag == 0 || step.side != Side::Store;
            let number = state.seen;
            state.seen += 1;
            let spoil = state.plan.filter(|plan| {
                // A fault of one side is not met on another.
                number >= plan.at
                    && state.fired < plan.times
                    && Fault::all(step.side, &step.method).contains(&plan.fault)
            });
            state.fired += usize::from(spoil.is_some());
            state.steps.push(step);
            let spoil =
                spoil.map(|spoil| if can_wait { spoil } else { Spoil { after: Duration::ZERO, ..spoil } });
            (state.steps.len() - 1, spoil)
        };
        if let Some(spoil) = spoil.filter(|spoil| !spoil.after.is_zero()) {
            tokio::time::sleep(spoil.after).await;
        }
        (place, spoil.map(|spoil| spoil.fault))
    }

    /// Takes note of the answer to a step.
    pub fn answered(&self, place: usize, status: StatusCode) {
        if let Some(step) = self.state.lock().steps.get_mut(place) {
            step.status = Some(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(side: Side, method: Method, path: &str) -> String {
        Step::new(side, method, path).kind()
    }

    #[test]
    fn steps_of_one_kind_are_told_by_what_they_do_and_not_by_names() {
        let status = "/apis/convoy.kumodo.io/v1alpha1/namespaces/a/releases/web/status";
        assert_eq!(kind(Side::Host, Method::PATCH, status), "host patch releases/status");
        let map = "/api/v1/namespaces/a/configmaps/map-1";
        assert_eq!(kind(Side::Target, Method::PATCH, map), "target patch configmaps");
        assert_eq!(kind(Side::Target, Method::PATCH, "/api/v1/namespaces/a"), "target patch namespaces");
        let pack = "/apps/git-upload-pack";
        assert_eq!(kind(Side::Source, Method::POST, pack), "source post git-upload-pack");
        assert_eq!(kind(Side::Store, Method::GET, "bundles/0af3"), "store get bundles");
    }

    #[test]
    fn each_step_has_only_faults_that_can_happen_to_it() {
        let all = |side, method| Fault::all(side, &method);
        assert_eq!(all(Side::Target, Method::PATCH).len(), 14);
        assert!(!all(Side::Host, Method::PATCH).contains(&Fault::QuotaExceeded));
        assert!(all(Side::Store, Method::GET).contains(&Fault::Missing));
        assert!(!all(Side::Store, Method::PUT).contains(&Fault::Missing));
        assert!(!all(Side::Source, Method::POST).contains(&Fault::Conflict));
    }

    #[test]
    fn moments_are_drawn_from_a_seed_and_without_one_there_are_none() {
        let drawn = |seed| {
            let script = Script::default();
            script.lag_by(seed);
            (0..20).map(|_| script.lag()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(0), [Duration::ZERO; 20]);
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        let different: std::collections::BTreeSet<Duration> = drawn(7).into_iter().collect();
        assert!(different.len() > 4, "{different:?}");
    }

    #[tokio::test]
    async fn the_step_that_is_to_be_spoiled_is_spoiled_and_no_other() {
        let script = Script::default();
        let step = || Step::new(Side::Target, Method::PATCH, "/api/v1/namespaces/a");
        script.arm(Spoil { at: 1, fault: Fault::Conflict, times: 1, after: Duration::ZERO });
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(script.notice(step()).await.1);
        }
        assert_eq!(seen, [None, Some(Fault::Conflict), None]);
        assert!(script.disarm());
    }
}
