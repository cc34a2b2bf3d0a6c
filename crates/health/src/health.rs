use std::fmt::Write as _;

/// How an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// As it should be.
    Healthy,
    /// Stopped on purpose.
    Suspended,
    /// It cannot be told.
    Unknown,
    /// On its way.
    Progressing,
    /// Not there although it was applied.
    Missing,
    /// Failed, and not likely to recover by itself.
    Degraded,
}

impl State {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Healthy, Self::Suspended, Self::Unknown, Self::Progressing, Self::Missing, Self::Degraded];

    /// The name, as messages and outputs spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Suspended => "Suspended",
            Self::Unknown => "Unknown",
            Self::Progressing => "Progressing",
            Self::Missing => "Missing",
            Self::Degraded => "Degraded",
        }
    }
}

/// The health of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// How it is.
    pub state: State,
    /// A word for why, in CamelCase: the object's own where it has one. Empty when there is nothing to say.
    pub reason: String,
    /// A sentence for people. Empty when there is nothing to say.
    pub message: String,
    /// Whether a set of objects with this one has to wait for it. False for what may rightly stay
    /// Progressing for ever.
    pub blocking: bool,
}

impl Health {
    pub(crate) fn new(state: State, reason: &str, message: impl Into<String>) -> Self {
        Self { state, reason: reason.to_owned(), message: message.into(), blocking: true }
    }

    pub(crate) fn healthy() -> Self {
        Self::new(State::Healthy, "", "")
    }

    pub(crate) fn progressing(reason: &str, message: impl Into<String>) -> Self {
        Self::new(State::Progressing, reason, message)
    }

    pub(crate) fn degraded(reason: &str, message: impl Into<String>) -> Self {
        Self::new(State::Degraded, reason, message)
    }

    /// An object that was applied and is not there.
    pub fn missing() -> Self {
        Self::new(State::Missing, "Missing", "it is not there")
    }

    /// An object that cannot be looked at, for a reason given in words.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(State::Unknown, "Unknown", message)
    }
}

/// How a set of objects is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The worst state of all, objects that do not block left aside. Suspended counts as Healthy, for it is
    /// what the user asked for.
    pub state: State,
    /// Which objects are not Healthy and why; the worst first, the first few by name.
    pub message: String,
    /// How many objects are Healthy.
    pub healthy: usize,
    /// How many there are.
    pub total: usize,
}

/// Objects that a summary names.
const NAMED: usize = 5;

/// Sums up the health of named objects. A set without objects is Healthy.
pub fn summarize<'a>(objects: impl IntoIterator<Item = (&'a str, &'a Health)>) -> Summary {
    let (mut total, mut healthy, mut state) = (0, 0, State::Healthy);
    let mut others = Vec::new();
    for (name, health) in objects {
        total += 1;
        let counts =
            if health.blocking && health.state != State::Suspended { health.state } else { State::Healthy };
        state = state.max(counts);
        match health.state {
            State::Healthy => healthy += 1,
            _ => others.push((name, health)),
        }
    }
    others.sort_by(|(a_name, a), (b_name, b)| b.state.cmp(&a.state).then_with(|| a_name.cmp(b_name)));
    let mut message = format!("{healthy} of {total} objects are healthy");
    for (index, (name, health)) in others.iter().take(NAMED).enumerate() {
        let separator = if index == 0 { ": " } else { "; " };
        let why = [&health.message, &health.reason].into_iter().find(|text| !text.is_empty());
        let colon = if why.is_some() { ": " } else { "" };
        let _ = write!(
            message,
            "{separator}{name} is {}{colon}{}",
            health.state.as_str(),
            why.map_or("", |why| why)
        );
    }
    if let Some(more) = others.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let _ = write!(message, "; and {more} more");
    }
    Summary { state, message, healthy, total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_object_decides_and_is_named_first() {
        let [good, slow, bad] = [
            Health::healthy(),
            Health::progressing("Rolling", "1 of 2"),
            Health::degraded("Failed", "broken"),
        ];
        let summary = summarize([("Job a", &slow), ("Pod b", &good), ("Pod c", &bad)]);
        assert_eq!((summary.state, summary.healthy, summary.total), (State::Degraded, 1, 3));
        assert_eq!(
            summary.message,
            "1 of 3 objects are healthy: Pod c is Degraded: broken; Job a is Progressing: 1 of 2"
        );
    }

    #[test]
    fn suspended_and_waiting_objects_hold_nobody_back() {
        let suspended = Health::new(State::Suspended, "Suspended", "");
        let waiting = Health { blocking: false, ..Health::progressing("Pending", "") };
        let summary = summarize([("a", &suspended), ("b", &waiting)]);
        assert_eq!(summary.state, State::Healthy);
        assert_eq!(
            summary.message,
            "0 of 2 objects are healthy: b is Progressing: Pending; a is Suspended: Suspended"
        );
        assert_eq!(summarize([]).state, State::Healthy);
    }

    #[test]
    fn a_long_list_is_cut_with_its_count() {
        let missing = Health::missing();
        let names: Vec<String> = (0..9).map(|n| format!("Pod {n}")).collect();
        let summary = summarize(names.iter().map(|name| (name.as_str(), &missing)));
        assert!(
            summary.message.ends_with("Pod 4 is Missing: it is not there; and 4 more"),
            "{}",
            summary.message
        );
    }
}
