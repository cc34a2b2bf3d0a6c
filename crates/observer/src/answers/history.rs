//! What was delivered of a Release, from its status and the render store. The target is not asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use convoy_api::{
    GROUP, HistoryEntry, HistoryManifest, PreviewAction, PreviewChange, PreviewCounts, PreviewObject,
    Release, ReleaseDiff, ReleaseHistory,
};
use convoy_meta::{Query, Reason, Status, StatusDetails};
use convoy_plan::{FieldChange, Mask, Masked, Sides, manifest};
use convoy_prepare::Ready;
use convoy_render::{SecretPlaces, SecretValues};
use serde_json::Value;

use super::Answering;
use super::bounded::{MOST_BYTES, MOST_OBJECTS, bounded};
use super::gather::Gathered;
use crate::watches::describe;
use convoy_prepare::takes_secret_values;

impl Answering {
    /// The revisions, the manifests of one, or how two differ.
    pub(super) async fn history(&self, gathered: Gathered<'_>, query: &Query) -> Result<Value, Status> {
        let release = gathered.release;
        let number = |name: &str| match query.get(name).map(str::parse::<i64>) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(Status::bad_request(format!("{name} has to be the number of a revision"))),
        };
        let (revision, to) = (number("revision")?, number("to")?);
        let (namespace, name) = (gathered.key.namespace.as_str(), gathered.key.name.as_str());
        let secrets = match self.preparer.values(release).await {
            Ok(values) => Some(SecretValues::of(&values)),
            // What cannot be read cannot be masked.
            Err(_) => (!takes_secret_values(release)).then(SecretValues::default),
        };
        let mask_text = |text: &str| match &secrets {
            Some(secrets) => secrets.masked(text),
            None => "(hidden)".to_owned(),
        };
        let all = release.status.as_ref().map(|status| status.history.as_slice()).unwrap_or_default();
        match (revision, to) {
            (None, Some(_)) => Err(Status::bad_request("to needs revision, which it is compared with")),
            (None, None) => {
                let mut told = ReleaseHistory {
                    current: all.first().map(|entry| entry.revision),
                    revisions: all.to_vec(),
                    ..ReleaseHistory::default()
                };
                told.texts().for_each(|text| *text = mask_text(text));
                Ok(told.body(namespace, name))
            }
            (Some(revision), None) => {
                let (entry, bundle) = self.revision(gathered, all, revision).await?;
                let hides = is_untold(release, &bundle);
                let places = bundle.secret_places.clone().unwrap_or_default();
                let mask =
                    Mask { text: &mask_text, hides_before: hides, hides_after: hides, places: &places };
                let mut told = manifests(&bundle, mask);
                told.current = all.first().map(|entry| entry.revision);
                told.revisions = vec![entry.clone()];
                if hides {
                    told.remarks.push(HIDDEN_VALUES.to_owned());
                }
                told.texts().for_each(|text| *text = mask_text(text));
                Ok(told.body(namespace, name))
            }
            (Some(revision), Some(to)) => {
                let (_, before) = self.revision(gathered, all, revision).await?;
                let (entry, after) = self.revision(gathered, all, to).await?;
                let hides = is_untold(release, &before) || is_untold(release, &after);
                let places = joined(&[&before, &after]);
                let mask =
                    Mask { text: &mask_text, hides_before: hides, hides_after: hides, places: &places };
                let mut told = differing(&documents(&before), &documents(&after), mask);
                told.cluster.clone_from(&release.spec.cluster_ref.name);
                told.source_revision.clone_from(&entry.source_revision);
                told.bundle_digest.clone_from(&entry.bundle_digest);
                (told.revision, told.to_revision) = (Some(revision), Some(to));
                if hides {
                    told.remarks.push(HIDDEN_VALUES.to_owned());
                }
                told.texts().for_each(|text| *text = mask_text(text));
                Ok(bounded(told).body(namespace, name))
            }
        }
    }

    /// A revision with its bundle.
    async fn revision<'a>(
        &self,
        gathered: Gathered<'_>,
        all: &'a [HistoryEntry],
        revision: i64,
    ) -> Result<(&'a HistoryEntry, Arc<Ready>), Status> {
        let not_found = |message: String| {
            let details = StatusDetails {
                name: gathered.key.name.clone(),
                group: GROUP.to_owned(),
                kind: Release::PLURAL.to_owned(),
                ..StatusDetails::default()
            };
            // Not 404: that is the word of a replica that does not own the Release.
            Status::failure(Reason::Invalid, message).with_details(details)
        };
        let Some(entry) = all.iter().find(|entry| entry.revision == revision) else {
            let there: Vec<String> = all.iter().map(|entry| entry.revision.to_string()).collect();
            let there = if there.is_empty() { "nothing".to_owned() } else { there.join(", ") };
            return Err(not_found(format!("revision {revision} is not in the history, which holds {there}")));
        };
        let kept = self.preparer.kept_bundle(&entry.bundle_digest, &**gathered.ownership).await;
        let kept = kept.map_err(|error| {
            Status::service_unavailable(format!("the render store fails: {}", describe(&error)))
        })?;
        let gone =
            || not_found(format!("the bundle of revision {revision} is not in the render store any more"));
        Ok((entry, kept.ok_or_else(gone)?))
    }
}

const HIDDEN_VALUES: &str = "the Release takes values from Secrets, and the bundle does not say where these stand: all \
                             values are hidden";

/// Whether values of Secrets may stand anywhere in a bundle: it is of before it was written down where.
fn is_untold(release: &Release, bundle: &Ready) -> bool {
    bundle.secret_places.is_none() && takes_secret_values(release)
}

/// Where values of Secrets stand in any of these bundles.
pub(super) fn joined(bundles: &[&Ready]) -> SecretPlaces {
    let mut all = SecretPlaces::new();
    for (object, places) in bundles.iter().filter_map(|bundle| bundle.secret_places.as_ref()).flatten() {
        all.entry(object.clone()).or_default().extend(places.iter().cloned());
    }
    all
}

/// The objects of a bundle, hooks last.
fn manifests(bundle: &Ready, mask: Mask<'_>) -> ReleaseHistory {
    let mut told = ReleaseHistory::default();
    let objects = bundle.objects.iter().map(|object| (&object.source, false, &object.object));
    let hooks = bundle.hooks.iter().map(|hook| (&hook.source, true, &hook.object));
    let mut bytes = 0;
    for (source, hook, object) in objects.chain(hooks) {
        let text = manifest(object, mask).into_text();
        bytes += text.len() + source.len();
        if told.manifests.len() >= MOST_OBJECTS || bytes > MOST_BYTES {
            told.omitted_manifests += 1;
        } else {
            told.manifests.push(HistoryManifest { source: source.clone(), hook, text });
        }
    }
    told
}

/// Group, kind, namespace and name.
type Place = (String, String, String, String);

/// The documents of a bundle by what they name; items of lists are documents.
fn documents(bundle: &Ready) -> BTreeMap<Place, &Value> {
    let mut all = BTreeMap::new();
    let mut open: Vec<&Value> = bundle.objects.iter().map(|object| &object.object).collect();
    open.extend(bundle.hooks.iter().map(|hook| &hook.object));
    while let Some(object) = open.pop() {
        let kind = object["kind"].as_str().unwrap_or_default();
        if let Some(items) = object["items"].as_array().filter(|_| kind.ends_with("List")) {
            open.extend(items);
            continue;
        }
        let group = object["apiVersion"].as_str().and_then(|version| version.split_once('/'));
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let group = group.map(|(group, _)| group.to_owned()).unwrap_or_default();
        all.insert((group, kind.to_owned(), text("namespace"), text("name")), object);
    }
    all
}

/// How one revision differs from an earlier one.
fn differing(
    before: &BTreeMap<Place, &Value>,
    after: &BTreeMap<Place, &Value>,
    mask: Mask<'_>,
) -> ReleaseDiff {
    let mut told = ReleaseDiff::default();
    let mut counts = PreviewCounts::default();
    let places = after.keys().chain(before.keys().filter(|place| !after.contains_key(*place)));
    for place in places {
        let (old, new) = (before.get(place).copied(), after.get(place).copied());
        let (action, reason) = match (old, new) {
            (Some(old), Some(new)) if old == new => (PreviewAction::Keep, ""),
            (Some(_), Some(_)) => (PreviewAction::Change, "it has other content"),
            (None, _) => (PreviewAction::Create, "it is not in the earlier one"),
            (Some(_), None) => (PreviewAction::Delete, "it is not in the later one"),
        };
        counts.add(action);
        if action == PreviewAction::Keep {
            continue;
        }
        let sides = Sides { before: old, after: new, desired: new.or(old) };
        let changes = if action == PreviewAction::Change { sides.changes(mask) } else { Default::default() };
        let (_, kind, namespace, name) = place.clone();
        let shown = new.or(old).map(|object| &object["apiVersion"]).and_then(Value::as_str);
        told.objects.push(PreviewObject {
            action,
            api_version: shown.unwrap_or_default().to_owned(),
            kind,
            namespace,
            name,
            reason: reason.to_owned(),
            changes: changes.fields.into_iter().map(change).collect(),
            omitted_changes: i64::try_from(changes.omitted).unwrap_or(i64::MAX),
            diff: sides.unified(mask).into_text(),
            ..PreviewObject::default()
        });
    }
    told.counts = counts;
    told.summary = counts.to_string();
    told
}

fn change(change: FieldChange) -> PreviewChange {
    let text = |masked: Option<Masked>| masked.map(Masked::into_text).unwrap_or_default();
    PreviewChange { path: change.path, before: text(change.before), after: text(change.after) }
}
