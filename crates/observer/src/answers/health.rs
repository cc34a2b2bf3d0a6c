//! How the objects of a Release are, as the watches last said.

use convoy_api::{HealthObject, ReleaseHealth};
use convoy_health::{Health, State, summarize};
use convoy_prepare::{acts_as, may_use, names_own_cluster};
use convoy_render::SecretValues;
use convoy_runtime::Sharded as _;

use super::Answering;
use super::bounded::{MOST_BYTES, MOST_OBJECTS, size};
use super::children::{Explained, explain};
use super::gather::Gathered;
use crate::verdict::health_of_each;
use crate::watches::describe;

impl Answering {
    /// How each object is, and of those that are not well, what they have made.
    pub(super) async fn health(&self, gathered: Gathered<'_>) -> ReleaseHealth {
        let release = gathered.release;
        let cluster = release.shard_key();
        let mut told =
            ReleaseHealth { cluster: release.spec.cluster_ref.name.clone(), ..ReleaseHealth::default() };
        let model = self.clusters_seen.model(&cluster);
        let now = self.clock.monotonic();
        let seen = model.map(|model| {
            let model = model.lock();
            (model.unreachable.clone(), health_of_each(&model, gathered.key, now))
        });
        let (unreachable, each) = seen.unwrap_or_default();
        let Some(mut each) = each else {
            State::Unknown.as_str().clone_into(&mut told.state);
            "nothing of it is on its Cluster".clone_into(&mut told.summary);
            return told;
        };
        if let Some(why) = unreachable {
            State::Unknown.as_str().clone_into(&mut told.state);
            told.summary = format!("the cluster cannot be watched: {why}");
            told.remarks.push("the states are what was last seen".to_owned());
        } else {
            let names: Vec<(String, &Health)> = each
                .iter()
                .map(|(kind, (_, name), health)| (format!("{} {name}", kind.kind), health))
                .collect();
            let summary = summarize(names.iter().map(|(name, health)| (name.as_str(), *health)));
            let state = if summary.state == State::Suspended { State::Healthy } else { summary.state };
            state.as_str().clone_into(&mut told.state);
            let healthy = each.iter().filter(|(_, _, health)| health.state == State::Healthy).count();
            told.summary = format!("{healthy} of {} objects are healthy", each.len());
        }
        each.sort_by(|a, b| b.2.state.cmp(&a.2.state).then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1))));
        told.objects = each
            .into_iter()
            .map(|(kind, (namespace, name), health)| HealthObject {
                api_version: match kind.group.as_str() {
                    "" => kind.version.clone(),
                    group => format!("{group}/{}", kind.version),
                },
                kind: kind.kind.clone(),
                namespace,
                name,
                state: health.state.as_str().to_owned(),
                reason: health.reason,
                message: health.message,
                children: Vec::new(),
            })
            .collect();
        self.explain(gathered, &mut told).await;
        // Events and conditions may quote anything.
        match self.preparer.values(release).await {
            Ok(values) => {
                let secrets = SecretValues::of(&values);
                told.texts().for_each(|text| *text = secrets.masked(text));
            }
            Err(_) if convoy_prepare::takes_secret_values(release) => {
                told.texts().for_each(|text| "(hidden)".clone_into(text));
                told.remarks.push(
                    "messages are hidden, for the Secrets that the Release takes values from cannot be read"
                        .to_owned(),
                );
            }
            Err(_) => {}
        }
        bounded(told)
    }

    /// Reads what unhealthy objects have made.
    async fn explain(&self, gathered: Gathered<'_>, told: &mut ReleaseHealth) {
        let release = gathered.release;
        if !told.objects.iter().any(Explained::is_one) {
            return;
        }
        let key = release.shard_key();
        let Some(cluster) = self.clusters.get(&key) else { return };
        if !names_own_cluster(release) {
            // Who may not deliver there does not read there either.
            let labels = self.reader.namespace_labels(&gathered.key.namespace).await.ok().flatten();
            if !may_use(release, Some(&cluster), labels.as_ref()) {
                told.remarks
                    .push("the Cluster does not let the Release: nothing more is read there".to_owned());
                return;
            }
        }
        match self.targets.look(&key, &cluster, gathered.ownership).await {
            Ok(seen) => {
                let target = seen.target.acting_as(acts_as(release, &cluster.spec));
                let rules = self.clusters_seen.health.rules();
                explain(&target, &seen.turns, &rules, told, self.clock.now()).await;
            }
            Err(error) => {
                let why = describe(&error);
                told.remarks.push(format!("what the objects have made could not be read: {why}"));
            }
        }
    }
}

fn bounded(mut told: ReleaseHealth) -> ReleaseHealth {
    let mut most = MOST_OBJECTS;
    while told.objects.len() > most || size(&told) > MOST_BYTES {
        most = most.min(told.objects.len() / 2);
        let omitted = told.objects.len().saturating_sub(most);
        told.objects.truncate(most);
        told.omitted_objects += i64::try_from(omitted).unwrap_or(i64::MAX);
    }
    told
}
