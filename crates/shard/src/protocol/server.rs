//! What the API server says of the number of shards, and what a replica that counts others does.

use std::num::NonZeroU32;

use super::state::{Phase, Protocol, Purpose};
use super::{Action, Note};
use crate::{LeaseKey, MemberState, Moment};

/// How many shards the API server counts: the answer to [`Action::AskApiServer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiServerShards {
    /// So many.
    Count(NonZeroU32),
    /// It does not say: it is of an earlier version, or this replica may not ask it.
    Unsaid,
    /// There was no answer.
    NoAnswer,
}

impl Protocol {
    /// Asks anew when an interval begins, and soon again when there never was an answer.
    pub(super) fn ask_when_due(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let is_due = self.next_ask.is_some_and(|at| at <= now.monotonic);
        if !is_due || self.is_asking || self.phase == Phase::Stopping {
            return;
        }
        self.next_ask = None;
        self.is_asking = true;
        actions.push(Action::AskApiServer);
    }

    pub(super) fn take_in_count(&mut self, answer: ApiServerShards, now: Moment, actions: &mut Vec<Action>) {
        self.is_asking = false;
        match answer {
            // What it said last counts until it says something else.
            ApiServerShards::NoAnswer => {
                if self.api_server == ApiServerShards::NoAnswer {
                    self.next_ask = Some(now.monotonic + self.settings.retry_interval());
                }
            }
            answer if answer == self.api_server => {}
            answer => {
                self.api_server = answer;
                let shards = match answer {
                    ApiServerShards::Count(shards) => Some(shards),
                    ApiServerShards::Unsaid | ApiServerShards::NoAnswer => None,
                };
                let disagreement = self.disagreement_with_api_server();
                actions.push(Action::Note(Note::ApiServerCounts { shards, disagreement }));
            }
        }
    }

    /// Whether it is known what the API server counts, or that it does not say.
    pub(super) fn has_api_server_answered(&self) -> bool {
        self.api_server != ApiServerShards::NoAnswer
    }

    /// Why this replica must own nothing whoever its peers are: the label that the API server writes on an
    /// object is not the shard that this replica would work on it in.
    pub(super) fn disagreement_with_api_server(&self) -> Option<String> {
        #[cfg(feature = "mutants")]
        if self.settings.has(crate::Mutant::ShardCountUnchecked) {
            return None;
        }
        let ApiServerShards::Count(counted) = self.api_server else { return None };
        (counted != self.settings.shards).then(|| {
            format!(
                "the API server counts {counted} shards, this replica {}; start it with --shards {counted}",
                self.settings.shards
            )
        })
    }

    /// Gives up all shards in good order, as when they went to others, then says on the member lease that it
    /// waits. Until then it counts as acting, so that no peer with the right count begins before its writes
    /// have ended.
    pub(super) fn withdraw(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.want_none();
        for shard in self.held.keys().copied().collect::<Vec<_>>() {
            self.give_up(shard, now, actions);
        }
        self.keep_what_is_held(now, actions);
        let is_acquiring = self.writing.keys().any(|key| matches!(key, LeaseKey::Shard(_)));
        if !self.held.is_empty() || is_acquiring {
            return;
        }
        if self.phase == Phase::Acting {
            self.rejoin();
        }
        self.announced = None;
        let says_so = self
            .seen
            .get(&self.own_key)
            .and_then(|seen| seen.lease.member.as_ref())
            .is_some_and(|member| member.state == MemberState::Waiting);
        if self.may_write(&self.own_key, now) && (!says_so || now.monotonic >= self.renewal_of_waiting_due())
        {
            self.write_own(MemberState::Waiting, Purpose::Announce, now, actions);
        }
    }
}
