//! Requests that reach a target long after they were sent.
//!
//! A request that got no answer may lie in a queue of the network, and an apply that arrives late creates its
//! object, wanted or not. Applies of objects whose uid is known carry it, and then the target refuses to create
//! anything; but the first apply of an object cannot. So an entry of which such an apply was not answered
//! ([`Entry::unanswered`](crate::Entry)) is not dropped as soon as its object is absent. It is kept as a tombstone
//! ([`Entry::gone`](crate::Entry)) and looked at again, until no such request can arrive any more.

use std::time::Duration;

/// The longest time from the sending of a request to its arrival at the target.
///
/// It is the network that has to keep to it: with its default of `net.ipv4.tcp_retries2` Linux goes on sending what
/// was not acknowledged for 924.6 s. It counts from when nobody can send such a request any more: from the end of
/// the own attempt, or from the first look in a term, as what the predecessor sent is older than that.
pub const LATEST_ARRIVAL: Duration = Duration::from_secs(16 * 60);

/// From the end of the attempt to the first look whether it arrived.
const FIRST_LOOK: Duration = Duration::from_secs(15);

/// Whether unanswered requests may still arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LateWrites {
    /// They may; it is not time yet to look for what they created.
    Possible,
    /// They may; it is time to look.
    Due,
    /// None can arrive any more, or there are none.
    #[default]
    Over,
}

impl LateWrites {
    /// Judges by when the last such request may have been sent and when it was last looked for what it created, all
    /// in monotonic time. Looks are made after 15 s and then each time as long after the request again.
    pub fn judge(sent: Duration, looked: Option<Duration>, now: Duration) -> LateWrites {
        if now.saturating_sub(sent) >= LATEST_ARRIVAL {
            LateWrites::Over
        } else if now >= next_look(sent, looked) {
            LateWrites::Due
        } else {
            LateWrites::Possible
        }
    }

    /// From now to the time of the next look.
    pub fn until_look(sent: Duration, looked: Option<Duration>, now: Duration) -> Duration {
        next_look(sent, looked).saturating_sub(now)
    }
}

fn next_look(sent: Duration, looked: Option<Duration>) -> Duration {
    let next = match looked {
        Some(looked) if looked >= sent => looked.saturating_add(looked.saturating_sub(sent).max(FIRST_LOOK)),
        Some(_) | None => sent.saturating_add(FIRST_LOOK),
    };
    next.min(sent.saturating_add(LATEST_ARRIVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_get_rarer_and_the_last_is_made_when_nothing_can_arrive() {
        let sent = Duration::from_secs(1000);
        let (mut looked, mut now, mut looks) = (None, sent, Vec::new());
        loop {
            now += LateWrites::until_look(sent, looked, now);
            let judged = LateWrites::judge(sent, looked, now);
            looks.push((now - sent).as_secs());
            if judged == LateWrites::Over {
                break;
            }
            assert_eq!(judged, LateWrites::Due);
            looked = Some(now);
            assert_eq!(LateWrites::judge(sent, looked, now), LateWrites::Possible);
        }
        assert_eq!(looks, [15, 30, 60, 120, 240, 480, 960]);
    }

    #[test]
    fn a_request_that_is_sent_after_a_look_begins_the_time_anew() {
        let seconds = Duration::from_secs;
        let judge = |now| LateWrites::judge(seconds(500), Some(seconds(400)), seconds(now));
        assert_eq!(judge(514), LateWrites::Possible);
        assert_eq!(judge(515), LateWrites::Due);
        assert_eq!(judge(500 + 959), LateWrites::Due);
        assert_eq!(judge(500 + 960), LateWrites::Over);
    }
}
