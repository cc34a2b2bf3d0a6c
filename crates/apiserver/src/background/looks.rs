//! Which Releases say something that nobody has looked at for too long. Pure.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Condition, ReleaseSpec, WriterStatus, condition_type, reason};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// What is granted on top of a Release's interval: the time in which another replica takes over, 40 s with the
/// default flags.
pub const SLACK: Duration = Duration::from_secs(40);

/// Whose looks are meant, and whose word of a Release ends without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looker {
    /// Says Ready.
    ControllerManager,
    /// Says Healthy and Drifted.
    Observer,
}

impl Looker {
    /// The conditions that end.
    pub fn conditions(self) -> &'static [&'static str] {
        match self {
            Self::ControllerManager => &[condition_type::READY],
            Self::Observer => &[condition_type::HEALTHY, condition_type::DRIFTED],
        }
    }

    /// The reason of conditions that ended.
    pub fn reason(self) -> &'static str {
        match self {
            Self::ControllerManager => reason::CONTROLLER_MISSING,
            Self::Observer => reason::OBSERVER_MISSING,
        }
    }

    /// In messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::ControllerManager => "controller-manager",
            Self::Observer => "observer",
        }
    }

    /// Whether a condition is a word that ends. What is not Ready does not become so by itself, and what is known not to
    /// be known may stay.
    pub fn is_word(self, condition: &Condition) -> bool {
        self.conditions().contains(&condition.type_.as_str())
            && match self {
                Self::ControllerManager => condition.status == "True",
                Self::Observer => condition.status != "Unknown",
            }
    }
}

/// What a Release says of itself, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Whose look it is.
    pub by: Looker,
    /// The replica that looked last.
    pub replica: String,
    /// When, by its clock.
    pub at: Timestamp,
    /// How often it wants to be looked at.
    pub interval: convoy_api::Duration,
    /// Whether it says what the look vouches for, and is looked at: others are left alone.
    pub is_vouched_for: bool,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    interval: Option<convoy_api::Duration>,
    suspend: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    controller: Option<WriterStatus>,
    observer: Option<WriterStatus>,
}

impl Look {
    /// Reads a Release; `None` for one that nobody has looked at, or that cannot be read.
    pub fn read(json: &[u8], by: Looker) -> Option<Self> {
        let head: Head = serde_json::from_slice(json).ok()?;
        let has_word = head.status.conditions.iter().any(|condition| by.is_word(condition));
        let (writer, is_worked_on) = match by {
            Looker::ControllerManager => (head.status.controller?, head.spec.suspend != Some(true)),
            // What is suspended is observed none the less.
            Looker::Observer => (head.status.observer?, true),
        };
        Some(Self {
            by,
            at: writer.last_look_time?.0,
            replica: writer.replica,
            interval: ReleaseSpec { interval: head.spec.interval, ..ReleaseSpec::default() }.interval(),
            is_vouched_for: has_word && is_worked_on,
        })
    }

    /// What to tell people once it is over.
    pub fn overdue(&self, now: Timestamp) -> String {
        let age = now.duration_since(self.at).as_secs().max(0);
        format!(
            "no {} looks at this Release: {} did last, {} ago, and the interval is {}; what is on the target may have changed. Start one, with the --shards of the apiserver",
            self.by.name(),
            self.replica,
            convoy_api::Duration::from_secs(age.unsigned_abs()),
            self.interval,
        )
    }
}

#[derive(Debug)]
struct Watched {
    at: Timestamp,
    /// When the look counts from: by our own clock where we saw it come.
    since: Timestamp,
    is_vouched_for: bool,
    due: Option<Timestamp>,
}

/// For each Release the instant at which its word ends. Work is done per change and per expiry only.
#[derive(Debug)]
pub struct Looks {
    /// Nothing ends before: when the API server was away, nobody could say that they looked.
    grace: Timestamp,
    releases: HashMap<Arc<str>, Watched>,
    /// With entries that hold no more, which are dropped when their time comes.
    heap: BinaryHeap<Reverse<(Timestamp, Arc<str>)>>,
}

fn after(start: Timestamp, span: Duration) -> Timestamp {
    start
        .saturating_add(SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX))
        .unwrap_or(Timestamp::MAX)
}

impl Looks {
    /// For an API server that starts now.
    pub fn new(now: Timestamp) -> Self {
        Self { grace: after(now, SLACK), releases: HashMap::new(), heap: BinaryHeap::new() }
    }

    /// The API server hung: meanwhile nobody could say that they looked.
    pub fn was_away(&mut self, now: Timestamp) {
        self.grace = self.grace.max(after(now, SLACK));
    }

    /// Takes note of a Release as it is now; `None` when it is gone or was never looked at.
    pub fn observe(&mut self, key: &Arc<str>, look: Option<&Look>, now: Timestamp) {
        let Some(look) = look else {
            self.releases.remove(key);
            return;
        };
        let since = match self.releases.get(key) {
            // Who says anew what had ended has looked, whatever its clock says.
            Some(known) if known.at == look.at && (known.is_vouched_for || !look.is_vouched_for) => {
                known.since
            }
            // It came while we watched: our clock says when, and how far the other's is off does no harm.
            Some(_) => now,
            None => look.at.min(now),
        };
        let due =
            look.is_vouched_for.then(|| after(after(since, look.interval.as_std()), SLACK).max(self.grace));
        let known = self.releases.insert(
            Arc::clone(key),
            Watched { at: look.at, since, is_vouched_for: look.is_vouched_for, due },
        );
        if let Some(due) = due
            && known.and_then(|known| known.due) != Some(due)
        {
            self.heap.push(Reverse((due, Arc::clone(key))));
        }
    }

    /// When the next word ends.
    pub fn next_due(&mut self) -> Option<Timestamp> {
        while let Some(Reverse((due, key))) = self.heap.peek() {
            if self.releases.get(key).and_then(|known| known.due) == Some(*due) {
                return Some((*due).max(self.grace));
            }
            self.heap.pop();
        }
        None
    }

    /// The Releases whose word has ended, at most `limit`. Each is answered once.
    pub fn take_due(&mut self, now: Timestamp, limit: usize) -> Vec<Arc<str>> {
        let mut taken = Vec::new();
        while taken.len() < limit && self.next_due().is_some_and(|due| due <= now) {
            let Some(Reverse((_, key))) = self.heap.pop() else { break };
            if let Some(known) = self.releases.get_mut(&key) {
                known.due = None;
            }
            taken.push(key);
        }
        taken
    }

    /// Whether the look that a Release shows is the one that was taken as over.
    pub fn is_known(&self, key: &str, look: &Look) -> bool {
        self.releases.get(key).is_some_and(|known| known.at == look.at)
    }

    /// Asks for a Release once more, later.
    pub fn again(&mut self, key: &Arc<str>, at: Timestamp) {
        if let Some(known) = self.releases.get_mut(key)
            && known.due.is_none()
        {
            known.due = Some(at);
            self.heap.push(Reverse((at, Arc::clone(key))));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn release(look: i64, ready: &str) -> Value {
        json!({
            "metadata": {"name": "web"},
            "spec": {"clusterRef": {"name": "c"}, "source": {}, "interval": "1m"},
            "status": {
                "conditions": [{"type": "Ready", "status": ready, "reason": "Succeeded", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "controller": {"replica": "cm-1", "shard": 3, "epoch": 2, "lastLookTime": at(look).to_string()},
            },
        })
    }

    fn look(release: &Value) -> Option<Look> {
        Look::read(release.to_string().as_bytes(), Looker::ControllerManager)
    }

    fn key(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn i12_what_is_suspended_not_ready_or_never_looked_at_is_left_alone() {
        assert!(look(&release(0, "True")).unwrap().is_vouched_for);
        assert!(!look(&release(0, "False")).unwrap().is_vouched_for);
        let mut suspended = release(0, "True");
        suspended["spec"]["suspend"] = json!(true);
        assert!(!look(&suspended).unwrap().is_vouched_for);
        let mut deleted = release(0, "True");
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(look(&deleted).unwrap().is_vouched_for, "who deletes it waits for somebody, too");
        let mut unseen = release(0, "True");
        unseen["status"]["controller"].as_object_mut().unwrap().remove("lastLookTime");
        assert_eq!(look(&unseen), None);
        assert_eq!(look(&json!({"metadata": {}, "spec": {}})), None);
    }

    #[test]
    fn i12_a_word_ends_after_interval_and_slack_and_each_look_prolongs_it() {
        let mut looks = Looks::new(at(0));
        looks.observe(&key("a"), look(&release(0, "True")).as_ref(), at(0));
        assert_eq!(looks.next_due(), Some(at(100)));
        // The same status again changes nothing; a new look does, by our own clock.
        looks.observe(&key("a"), look(&release(0, "True")).as_ref(), at(30));
        looks.observe(&key("a"), look(&release(55, "True")).as_ref(), at(60));
        assert_eq!(looks.next_due(), Some(at(160)));
        assert!(looks.take_due(at(159), 10).is_empty());
        assert_eq!(looks.take_due(at(160), 10), [key("a")]);
        assert!(looks.take_due(at(999), 10).is_empty());
        // Ready taken back and said again, without a new time: that is a look, too.
        looks.observe(&key("a"), look(&release(55, "Unknown")).as_ref(), at(999));
        looks.observe(&key("a"), look(&release(55, "True")).as_ref(), at(1000));
        assert_eq!(looks.take_due(at(1100), 10), [key("a")]);
        looks.again(&key("a"), at(1000));
        assert_eq!(looks.take_due(at(1000), 10), [key("a")]);
    }

    #[test]
    fn i12_an_api_server_that_was_away_gives_time_to_look_first() {
        let mut looks = Looks::new(at(10_000));
        looks.observe(&key("a"), look(&release(0, "True")).as_ref(), at(10_000));
        assert_eq!(looks.next_due(), Some(at(10_040)));
        // A clock that is ahead is no reason to believe longer.
        looks.observe(&key("b"), look(&release(50_000, "True")).as_ref(), at(10_000));
        assert_eq!(looks.take_due(at(10_100), 10), [key("a"), key("b")]);
    }

    #[test]
    fn i12_an_api_server_that_hung_gives_time_to_look_first() {
        let mut looks = Looks::new(at(0));
        looks.observe(&key("a"), look(&release(0, "True")).as_ref(), at(0));
        looks.was_away(at(90));
        assert_eq!(looks.next_due(), Some(at(130)));
        assert!(looks.take_due(at(129), 10).is_empty());
        assert_eq!(looks.take_due(at(130), 10), [key("a")]);
    }

    #[test]
    fn i12_what_is_gone_or_says_something_else_is_not_due() {
        let mut looks = Looks::new(at(0));
        for name in ["gone", "failed", "left"] {
            looks.observe(&key(name), look(&release(0, "True")).as_ref(), at(0));
        }
        looks.observe(&key("gone"), None, at(1));
        looks.observe(&key("failed"), look(&release(0, "False")).as_ref(), at(1));
        assert_eq!(looks.take_due(at(100), 10), [key("left")]);
        assert_eq!(looks.next_due(), None);
        // A limit leaves the rest for the next call.
        for name in ["x", "y"] {
            looks.observe(&key(name), look(&release(0, "True")).as_ref(), at(100));
        }
        assert_eq!((looks.take_due(at(200), 1).len(), looks.take_due(at(200), 9).len()), (1, 1));
    }

    #[test]
    fn i12_an_observers_word_is_all_that_it_says_to_know_also_of_what_is_suspended() {
        let of = |healthy: &str, drifted: &str| {
            let condition = |type_: &str, status: &str| {
                json!({"type": type_, "status": status, "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            };
            let mut release = release(500, "True");
            release["spec"]["suspend"] = json!(true);
            release["status"]["conditions"] = json!([
                condition("Ready", "True"),
                condition("Healthy", healthy),
                condition("Drifted", drifted)
            ]);
            release["status"]["observer"] =
                json!({"replica": "obs-1", "shard": 3, "epoch": 2, "lastLookTime": at(0).to_string()});
            Look::read(release.to_string().as_bytes(), Looker::Observer).unwrap()
        };
        for (healthy, drifted, is_word) in [
            ("True", "False", true),
            ("False", "Unknown", true),
            ("Unknown", "True", true),
            ("Unknown", "Unknown", false),
        ] {
            assert_eq!(of(healthy, drifted).is_vouched_for, is_word, "{healthy} {drifted}");
        }
        let said = of("True", "False");
        assert_eq!((said.at, said.replica.as_str()), (at(0), "obs-1"));
        assert!(said.overdue(at(101)).starts_with("no observer looks at this Release: obs-1 did last"));
        assert_eq!(Look::read(release(0, "True").to_string().as_bytes(), Looker::Observer), None);
    }

    #[test]
    fn the_message_names_replica_and_age() {
        let text = look(&release(0, "True")).unwrap().overdue(at(3725));
        assert!(text.contains("cm-1 did last, 1h2m5s ago, and the interval is 1m"), "{text}");
    }
}
