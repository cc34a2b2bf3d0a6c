//! A breaker for each target, and requests that go through it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use convoy_apply::{Class, RequestError, Transport};
use convoy_runtime::{Breaker, Clock, Heard, Metrics, StoreKey, Turn};
use futures::future::BoxFuture;
use http::{Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;

use super::Contacts;

/// Why a target is not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    since: Timestamp,
    error: String,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = Timestamp::from_second(self.since.as_second()).unwrap_or(self.since);
        write!(f, "no contact since {since}: {}", self.error)
    }
}

/// The breaker of one target.
pub(crate) struct Circuit {
    breaker: Mutex<Breaker<Timestamp, String>>,
    is_open: watch::Sender<bool>,
}

impl Circuit {
    fn silence(&self) -> Option<Silence> {
        let breaker = self.breaker.lock();
        breaker.open().map(|(since, error)| Silence { since: *since, error: error.clone() })
    }
}

/// The breakers of all targets of this replica. Clones share them.
#[derive(Clone)]
pub(crate) struct Circuits {
    all: Arc<Mutex<HashMap<StoreKey, Arc<Circuit>>>>,
    clock: Arc<dyn Clock>,
    open: Gauge,
}

impl Circuits {
    pub(crate) fn new(clock: Arc<dyn Clock>, metrics: &Metrics) -> Self {
        let open = Gauge::default();
        metrics.register(|registry| {
            registry.register(
                "convoy_clusters_not_asked",
                "Clusters of this replica whose target does not answer, so that no request is made but a probe",
                open.clone(),
            );
        });
        Self { all: Arc::default(), clock, open }
    }

    fn of(&self, cluster: &StoreKey) -> Arc<Circuit> {
        let new = || Arc::new(Circuit { breaker: Mutex::default(), is_open: watch::Sender::new(false) });
        Arc::clone(self.all.lock().entry(cluster.clone()).or_insert_with(new))
    }

    /// Why a target is not asked now; none when it is.
    pub(crate) fn silence(&self, cluster: &StoreKey) -> Option<Silence> {
        let circuit = self.all.lock().get(cluster).cloned();
        circuit.and_then(|circuit| circuit.silence())
    }

    pub(crate) fn remove(&self, cluster: &StoreKey) {
        self.all.lock().remove(cluster);
        self.count();
    }

    pub(crate) fn retain(&self, keep: impl Fn(&StoreKey) -> bool) {
        self.all.lock().retain(|cluster, _| keep(cluster));
        self.count();
    }

    fn count(&self) {
        let open = self.all.lock().values().filter(|circuit| *circuit.is_open.borrow()).count();
        self.open.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    /// Begins a probe of a target; none when one is under way.
    pub(crate) fn probe(&self, cluster: &StoreKey) -> Option<Probe> {
        let circuit = self.of(cluster);
        let begun = circuit.breaker.lock().begin_probe();
        begun.then(|| Probe { circuits: self.clone(), cluster: cluster.clone(), circuit })
    }

    /// Tells of a turn: once, whatever the number of Releases.
    fn tell(&self, cluster: &StoreKey, circuit: &Circuit, turn: Option<Turn>) {
        match turn {
            None | Some(Turn::Doubt) => return,
            Some(Turn::Opened) => {
                circuit.is_open.send_replace(true);
                if let Some(silence) = circuit.silence() {
                    tracing::warn!(cluster = %cluster, error = silence.error, "no contact; only a probe asks from now on");
                }
            }
            Some(Turn::Closed) => {
                circuit.is_open.send_replace(false);
                tracing::info!(cluster = %cluster, "in contact again");
            }
        }
        self.count();
    }
}

impl fmt::Debug for Circuits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Circuits").field("clusters", &self.all.lock().len()).finish_non_exhaustive()
    }
}

/// A look at a target that decides whether it is asked. One that is dropped says nothing.
pub(crate) struct Probe {
    circuits: Circuits,
    cluster: StoreKey,
    circuit: Arc<Circuit>,
}

impl Probe {
    /// The target answered. Says whether it was not asked before.
    pub(crate) fn answered(self) -> bool {
        let turn = self.circuit.breaker.lock().probe_answered();
        self.circuits.tell(&self.cluster, &self.circuit, turn);
        turn.is_some()
    }

    /// It did not. `since` is when that began, when an earlier process has seen it.
    pub(crate) fn failed(self, error: String, since: Option<Timestamp>) {
        let since = since.unwrap_or_else(|| self.circuits.clock.now());
        let turn = self.circuit.breaker.lock().probe_failed(since, error);
        self.circuits.tell(&self.cluster, &self.circuit, turn);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.circuit.breaker.lock().probe_ended();
    }
}

/// Requests to a target through its breaker: while it is open they fail at once, and when it opens those
/// under way are given up, so that nothing hangs on a target that is known not to answer.
pub(crate) struct ThroughCircuit {
    inner: Arc<dyn Transport>,
    cluster: StoreKey,
    circuit: Arc<Circuit>,
    contacts: Contacts,
}

impl ThroughCircuit {
    pub(crate) fn new(inner: Arc<dyn Transport>, cluster: StoreKey, contacts: Contacts) -> Self {
        Self { inner, circuit: contacts.circuits().of(&cluster), cluster, contacts }
    }

    fn refusal(&self) -> Option<RequestError> {
        let silence = self.circuit.silence()?;
        let message = format!("the target is not asked, {silence}");
        Some(RequestError { class: Class::Unreachable, code: 0, message, fields: Vec::new() })
    }

    fn hear(&self, answer: &Result<Response<Bytes>, RequestError>) {
        let (heard, error) = match answer {
            Ok(response) if response.status().is_server_error() => (Heard::Fault, None),
            Err(error) if error.class == Class::Unreachable => (Heard::Nothing, Some(error)),
            _ => (Heard::Answer, None),
        };
        let in_words = || error.map(ToString::to_string).unwrap_or_default();
        let circuits = self.contacts.circuits();
        let turn = self.circuit.breaker.lock().heard(heard, circuits.clock.now(), in_words);
        circuits.tell(&self.cluster, &self.circuit, turn);
        if turn.is_some() {
            self.contacts.doubt(self.cluster.clone());
        }
    }
}

impl Transport for ThroughCircuit {
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Bytes>, RequestError>> {
        Box::pin(async {
            let mut is_open = self.circuit.is_open.subscribe();
            if let Some(refusal) = self.refusal() {
                return Err(refusal);
            }
            let opened = async {
                // The sender lives as long as the circuit.
                let _ = is_open.wait_for(|is_open| *is_open).await;
                self.refusal()
            };
            tokio::select! {
                biased;
                answer = self.inner.send(request) => {
                    self.hear(&answer);
                    answer
                }
                Some(refusal) = opened => Err(refusal),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use convoy_runtime::{Backoff, ManualClock, WorkQueue};

    use super::*;

    /// A target that gives the first answers at once and never gives another.
    struct Dying {
        answers: Mutex<Vec<Result<u16, Class>>>,
        asked: AtomicUsize,
    }

    impl Transport for Dying {
        fn send(&self, _: Request<Body>) -> BoxFuture<'_, Result<Response<Bytes>, RequestError>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let next = self.answers.lock().pop();
            Box::pin(async move {
                match next {
                    Some(Ok(status)) => {
                        let mut response = Response::new(Bytes::new());
                        *response.status_mut() = status.try_into().unwrap();
                        Ok(response)
                    }
                    Some(Err(class)) => Err(RequestError {
                        class,
                        code: 0,
                        message: "no route".to_owned(),
                        fields: Vec::new(),
                    }),
                    None => std::future::pending().await,
                }
            })
        }
    }

    struct Case {
        inner: Arc<Dying>,
        through: ThroughCircuit,
        contacts: Contacts,
        queue: Arc<WorkQueue<StoreKey>>,
        metrics: Metrics,
        clock: ManualClock,
    }

    impl Case {
        /// The answers come last first.
        fn new(answers: Vec<Result<u16, Class>>) -> Self {
            let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
            let queue = WorkQueue::new(Backoff::default(), Arc::new(clock.clone()));
            let metrics = Metrics::default();
            let circuits = Circuits::new(Arc::new(clock.clone()), &metrics);
            let contacts = Contacts::new(Arc::clone(&queue), circuits);
            let inner = Arc::new(Dying { answers: Mutex::new(answers), asked: AtomicUsize::new(0) });
            let cluster = StoreKey::new("team", "prod");
            let through = ThroughCircuit::new(Arc::clone(&inner) as _, cluster, contacts.clone());
            Self { inner, through, contacts, queue, metrics, clock }
        }

        async fn ask(&self) -> Result<u16, String> {
            let answer = self.through.send(Request::new(Body::empty())).await;
            answer.map(|response| response.status().as_u16()).map_err(|error| error.to_string())
        }

        fn counts(&self, open: u32) -> bool {
            self.metrics.encode().contains(&format!("convoy_clusters_not_asked {open}\n"))
        }
    }

    #[tokio::test]
    async fn a_target_that_dies_is_not_asked_and_what_hangs_on_it_is_given_up() {
        let case = Case::new(vec![Err(Class::Unreachable); 3]);
        let key = StoreKey::new("team", "prod");
        assert!(case.counts(0), "{}", case.metrics.encode());
        case.clock.advance(std::time::Duration::from_secs(3600));
        for _ in 0..2 {
            assert_eq!(case.ask().await, Err("no route".to_owned()));
        }
        assert_eq!((case.contacts.silence(&key), case.queue.depth().0), (None, 1), "a doubt brings a probe");
        assert_eq!(case.ask().await, Err("no route".to_owned()));
        let refusal = "the target is not asked, no contact since 1970-01-01T01:00:00Z: no route".to_owned();
        assert_eq!((case.ask().await, case.inner.asked.load(Ordering::SeqCst)), (Err(refusal), 3));
        assert!(case.counts(1), "{}", case.metrics.encode());

        let probe = case.contacts.circuits().probe(&key).unwrap();
        assert!(case.contacts.circuits().probe(&key).is_none(), "one at a time");
        assert!(probe.answered() && case.counts(0));
        // Two requests hang until a probe finds out.
        let (one, other) = (case.ask(), case.ask());
        let fail = async {
            case.contacts.circuits().probe(&key).unwrap().failed("dripping".to_owned(), None);
        };
        let (one, other, ()) = futures::join!(one, other, fail);
        assert!(one.clone().unwrap_err().ends_with("dripping") && one == other, "{one:?} {other:?}");
        case.contacts.remove(&key);
        assert!(case.counts(0), "a Cluster that is gone does not count");
    }

    #[tokio::test]
    async fn refusals_and_faults_leave_it_closed() {
        let case =
            Case::new(vec![Ok(500), Ok(500), Ok(500), Ok(403), Err(Class::NotOwner), Ok(409), Ok(404)]);
        let key = StoreKey::new("team", "prod");
        for _ in 0..4 {
            let _ = case.ask().await;
        }
        assert_eq!(case.queue.depth().0, 0);
        for _ in 0..3 {
            assert_eq!(case.ask().await, Ok(500));
        }
        assert_eq!(
            (case.contacts.silence(&key), case.queue.depth().0),
            (None, 1),
            "only a probe is asked for"
        );
    }
}
