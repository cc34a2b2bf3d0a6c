//! Whether a server is asked at all, as a pure state machine.

/// Requests in a row that failed, after which a server is not asked any more.
const FAILURES: u32 = 3;

/// What a request came to, as far as the server's life goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An answer, a refusal too: the server lives.
    Answer,
    /// An answer that says that the server has a fault (5xx).
    Fault,
    /// No answer: no connection, or none in time.
    Nothing,
}

/// What changed, or is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something is wrong: the server is to be probed soon.
    Doubt,
    /// From now on the server is not asked.
    Opened,
    /// The server answers again.
    Closed,
}

/// A breaker of one server.
///
/// It opens when several requests in a row got no answer, or when a probe failed. While it is open no request
/// is made, but for one probe at a time; when a probe succeeds it closes. A late answer to a request from
/// before does not close it: it may be the last one.
///
/// `W` is when it opened, in any measure; `E` is what was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker<W, E> {
    state: State<W, E>,
    is_probing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State<W, E> {
    Closed { nothing: u32, faults: u32 },
    Open { since: W, error: E },
}

impl<W, E> Default for Breaker<W, E> {
    fn default() -> Self {
        Self { state: State::Closed { nothing: 0, faults: 0 }, is_probing: false }
    }
}

impl<W, E> Breaker<W, E> {
    /// Since when the server is not asked, and the last error; none when it is asked.
    pub fn open(&self) -> Option<(&W, &E)> {
        match &self.state {
            State::Open { since, error } => Some((since, error)),
            State::Closed { .. } => None,
        }
    }

    /// Takes note of a request that was no probe. `error` is called when it opens.
    pub fn heard(&mut self, heard: Heard, now: W, error: impl FnOnce() -> E) -> Option<Turn> {
        let State::Closed { nothing, faults } = &mut self.state else { return None };
        match heard {
            Heard::Answer => {
                (*nothing, *faults) = (0, 0);
                None
            }
            Heard::Fault => {
                *nothing = 0;
                *faults += 1;
                // One object may bring a server to fail; whether all of it does, a probe tells.
                (*faults % FAILURES == 0).then_some(Turn::Doubt)
            }
            Heard::Nothing if *nothing + 1 >= FAILURES => {
                self.state = State::Open { since: now, error: error() };
                Some(Turn::Opened)
            }
            Heard::Nothing => {
                *nothing += 1;
                (*nothing == 1).then_some(Turn::Doubt)
            }
        }
    }

    /// Whether a probe may begin; it has begun when the answer is true.
    pub fn begin_probe(&mut self) -> bool {
        !std::mem::replace(&mut self.is_probing, true)
    }

    /// A probe was given up.
    pub fn probe_ended(&mut self) {
        self.is_probing = false;
    }

    /// A probe succeeded.
    pub fn probe_answered(&mut self) -> Option<Turn> {
        self.is_probing = false;
        let before = std::mem::replace(&mut self.state, State::Closed { nothing: 0, faults: 0 });
        matches!(before, State::Open { .. }).then_some(Turn::Closed)
    }

    /// A probe failed.
    pub fn probe_failed(&mut self, now: W, error: E) -> Option<Turn> {
        self.is_probing = false;
        match &mut self.state {
            State::Open { error: last, .. } => {
                *last = error;
                None
            }
            State::Closed { .. } => {
                self.state = State::Open { since: now, error };
                Some(Turn::Opened)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::{Clock as _, ManualClock};

    struct Case {
        breaker: Breaker<Timestamp, &'static str>,
        clock: ManualClock,
    }

    impl Case {
        fn new() -> Self {
            Self { breaker: Breaker::default(), clock: ManualClock::at(Timestamp::UNIX_EPOCH) }
        }

        fn hear(&mut self, heard: Heard) -> Option<Turn> {
            self.clock.advance(Duration::from_secs(1));
            self.breaker.heard(heard, self.clock.now(), || "no route")
        }
    }

    #[test]
    fn requests_without_an_answer_bring_a_doubt_and_then_open_it() {
        let mut case = Case::new();
        let turns = [(); 3].map(|()| case.hear(Heard::Nothing));
        assert_eq!(turns, [Some(Turn::Doubt), None, Some(Turn::Opened)]);
        assert_eq!(case.breaker.open(), Some((&Timestamp::from_second(3).unwrap(), &"no route")));
        assert_eq!(case.hear(Heard::Nothing), None, "what was under way fails later");
        assert_eq!(case.hear(Heard::Answer), None);
        assert!(case.breaker.open().is_some(), "a late answer does not close it");
    }

    #[test]
    fn any_answer_in_between_keeps_it_closed() {
        let mut case = Case::new();
        for _ in 0..5 {
            assert_eq!(case.hear(Heard::Nothing), Some(Turn::Doubt));
            assert_eq!(case.hear(Heard::Nothing), None);
            assert_eq!(case.hear(Heard::Answer), None);
        }
        assert_eq!(case.breaker.open(), None);
    }

    #[test]
    fn faults_never_open_it_but_bring_a_probe_again_and_again() {
        let mut case = Case::new();
        let turns = [(); 6].map(|()| case.hear(Heard::Fault));
        assert_eq!(turns, [None, None, Some(Turn::Doubt), None, None, Some(Turn::Doubt)]);
        assert_eq!(case.breaker.open(), None);
        assert_eq!(case.breaker.probe_failed(case.clock.now(), "500"), Some(Turn::Opened));
    }

    #[test]
    fn one_probe_at_a_time_decides_and_the_time_of_opening_stays() {
        let mut case = Case::new();
        assert_eq!(case.breaker.probe_failed(case.clock.now(), "hangs"), Some(Turn::Opened));
        for error in ["hangs", "refuses"] {
            case.clock.advance(Duration::from_secs(60));
            assert!(case.breaker.begin_probe() && !case.breaker.begin_probe());
            assert_eq!(case.breaker.probe_failed(case.clock.now(), error), None);
        }
        assert_eq!(case.breaker.open(), Some((&Timestamp::UNIX_EPOCH, &"refuses")));
        assert!(case.breaker.begin_probe());
        case.breaker.probe_ended();
        assert!(case.breaker.open().is_some(), "a probe that was given up says nothing");
        assert!(case.breaker.begin_probe());
        assert_eq!(case.breaker.probe_answered(), Some(Turn::Closed));
        assert_eq!(case.breaker.open(), None);
        assert_eq!(case.breaker.probe_answered(), None);
        assert_eq!(case.hear(Heard::Nothing), Some(Turn::Doubt), "it begins anew");
    }
}
