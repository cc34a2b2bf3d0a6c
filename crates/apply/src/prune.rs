//! Deleting what a Release no longer wants.

use std::collections::BTreeMap;

use convoy_plan::{Fate, ObjectKey, Prune, PruneReason};
use futures::StreamExt as _;

use crate::{Capabilities, Class, Failure, Report, RequestError, Target};

/// How often an object that changes while it is looked at is looked at again.
const TRIES: u32 = 4;
const CONCURRENCY: usize = 8;

/// What pruning needs beside the plan.
#[derive(Clone, Copy, Debug)]
pub struct PruneOptions<'a> {
    /// The uid of the Release; only objects that carry it are deleted.
    pub release_uid: &'a str,
}

/// Why an object that a plan wanted to prune stayed on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneNote {
    /// It carries no mark of the Release any more, or another's.
    NotOurs,
    /// It was deleted and made anew by someone else.
    MadeAnew,
    /// Its annotation asks to keep it.
    Disabled,
    /// It is of a kind that takes others' objects or data along, and convoy did not create it or
    /// cannot tell that it is empty.
    Guarded,
}

impl std::fmt::Display for PruneNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PruneNote::NotOurs => "stays, for it does not carry the Release's label any more",
            PruneNote::MadeAnew => "stays, for it was deleted and made anew by someone else",
            PruneNote::Disabled => "stays, for its annotation asks for it",
            PruneNote::Guarded => "stays, for deleting it could delete what is not the Release's",
        })
    }
}

/// Deletes the objects of a plan's prune list, against the order of application: objects of one kind
/// together, the kinds one after another. Every delete names the uid and the resourceVersion that
/// were just seen. Answers with what became of each, and why objects stayed.
pub async fn prune(
    target: &Target,
    prunes: &[Prune],
    options: &PruneOptions<'_>,
) -> (Report, Vec<(ObjectKey, PruneNote)>) {
    let mut report = Report::default();
    let mut notes = Vec::new();
    let mut discovery = Discovery::default();
    let mut rest = prunes;
    while let Some(first) = rest.first() {
        let kind = |prune: &Prune| (prune.target.key.group.clone(), prune.target.key.kind.clone());
        let same = rest.iter().take_while(|prune| kind(prune) == kind(first)).count();
        let (group, later) = rest.split_at(same);
        rest = later;
        if group.iter().any(|prune| prune.reason == PruneReason::KindGone) {
            discovery.load(target).await;
        }
        let known = &discovery;
        let work: Vec<_> = group
            .iter()
            .map(|prune| async move { (prune, prune_one(target, prune, options, known, false).await) })
            .collect();
        let mut outcomes = futures::stream::iter(work).buffered(CONCURRENCY);
        let mut stop = false;
        while let Some((prune, outcome)) = outcomes.next().await {
            let key = prune.target.key.clone();
            match outcome {
                Ok(Outcome::Pruned) => {
                    report.fates.insert(key, Fate::Pruned);
                }
                Ok(Outcome::Stays(note)) => {
                    report.fates.insert(key.clone(), Fate::Forgotten);
                    notes.push((key, note));
                }
                Err(error) => {
                    stop |= error.class.concerns_the_whole_target();
                    report.fates.insert(key.clone(), Fate::Failed);
                    report.failures.push(Failure { key, source: String::new(), error });
                }
            }
        }
        if stop {
            report.not_tried = rest.len();
            break;
        }
    }
    (report, notes)
}

/// Whether each object would be deleted, or why it would stay. Only reads.
pub(crate) async fn would_prune(
    target: &Target,
    prunes: &[Prune],
    options: &PruneOptions<'_>,
) -> Vec<(ObjectKey, Result<Option<PruneNote>, RequestError>)> {
    let mut discovery = Discovery::default();
    if prunes.iter().any(|prune| prune.reason == PruneReason::KindGone) {
        discovery.load(target).await;
    }
    let known = &discovery;
    let work: Vec<_> = prunes
        .iter()
        .map(|prune| async move {
            let outcome = prune_one(target, prune, options, known, true).await;
            let note = outcome.map(|outcome| match outcome {
                Outcome::Pruned => None,
                Outcome::Stays(note) => Some(note),
            });
            (prune.target.key.clone(), note)
        })
        .collect();
    futures::stream::iter(work).buffered(CONCURRENCY).collect().await
}

enum Outcome {
    Pruned,
    Stays(PruneNote),
}

/// Discovery that is asked at most once in a prune.
#[derive(Default)]
struct Discovery {
    answer: Option<Result<Capabilities, RequestError>>,
}

impl Discovery {
    async fn load(&mut self, target: &Target) {
        if self.answer.is_none() {
            self.answer = Some(target.discover().await);
        }
    }
}

async fn prune_one(
    target: &Target,
    prune: &Prune,
    options: &PruneOptions<'_>,
    discovery: &Discovery,
    is_dry: bool,
) -> Result<Outcome, RequestError> {
    let mut at = prune.target.clone();
    if prune.reason == PruneReason::KindGone {
        let capabilities = match &discovery.answer {
            Some(Ok(capabilities)) => capabilities,
            Some(Err(error)) => return Err(error.clone()),
            None => return Err(RequestError::new(Class::Transient, "discovery was not asked".to_owned())),
        };
        if capabilities.incomplete_groups.contains(&at.key.group) {
            let message = format!("the target cannot say now whether it serves {}", at.key.kind);
            return Err(RequestError::new(Class::Transient, message));
        }
        match capabilities.kinds.any_version(&at.key.group, &at.key.kind, &at.version) {
            Some((version, fact)) => {
                at.version = version.to_owned();
                at.plural.clone_from(&fact.plural);
            }
            // With the kind all its objects are gone.
            None => return Ok(Outcome::Pruned),
        }
    }
    if prune.guarded && !prune.created {
        return Ok(Outcome::Stays(PruneNote::Guarded));
    }
    let mut last = RequestError::new(Class::Precondition, "it changes all the time".to_owned());
    for _ in 0..TRIES {
        let live = match target.metadata(&at).await {
            Ok(Some(live)) => live,
            Ok(None) => return Ok(Outcome::Pruned),
            // The definition went between discovery and now.
            Err(error) if error.class == Class::KindUnknown => return Ok(Outcome::Pruned),
            Err(error) => return Err(error),
        };
        if live.release_uid.as_deref() != Some(options.release_uid) {
            return Ok(Outcome::Stays(PruneNote::NotOurs));
        }
        if !prune.uid.is_empty() && live.uid != prune.uid {
            return Ok(Outcome::Stays(PruneNote::MadeAnew));
        }
        if live.prune_disabled {
            return Ok(Outcome::Stays(PruneNote::Disabled));
        }
        if live.terminating {
            // It goes when its finalizers let it; that is not ours to wait for.
            return Ok(Outcome::Pruned);
        }
        if prune.guarded && !target.is_empty_of_others(&at, options.release_uid).await? {
            return Ok(Outcome::Stays(PruneNote::Guarded));
        }
        if is_dry {
            return Ok(Outcome::Pruned);
        }
        match target.delete(&at, &live).await {
            Ok(()) => return Ok(Outcome::Pruned),
            Err(error) if matches!(error.class, Class::NotFound | Class::NamespaceMissing) => {
                return Ok(Outcome::Pruned);
            }
            // Not the object that was seen: look again.
            Err(error) if error.class == Class::Precondition => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// The notes in one text, with the count of those left out.
impl PruneNote {
    /// One sentence for each note, at most `shown`.
    pub fn in_words(notes: &[(ObjectKey, PruneNote)], shown: usize) -> String {
        let mut by_note: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, note) in notes {
            by_note.entry(note.to_string()).or_default().push(key.to_string());
        }
        let sentences: Vec<String> = by_note
            .into_iter()
            .map(|(note, keys)| {
                let more = keys.len().saturating_sub(shown);
                let named = keys.into_iter().take(shown).collect::<Vec<_>>().join(", ");
                if more > 0 { format!("{named} and {more} more {note}") } else { format!("{named} {note}") }
            })
            .collect();
        sentences.join("; ")
    }
}
