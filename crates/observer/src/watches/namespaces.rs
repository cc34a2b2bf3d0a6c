//! Watches of a kind in each namespace that inventories name, where the identity may not watch all.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use convoy_api::reason;
use futures::StreamExt as _;
use futures::future::{AbortHandle, abortable};
use futures::stream::FuturesUnordered;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};

use super::{KindWatch, ended_by_itself, pause, selector};
use crate::fault::Fault;

/// How often it is asked whether all namespaces may be listed by now.
const ASK_FOR_ALL: Duration = Duration::from_secs(60);

impl KindWatch {
    /// Watches the namespaces with objects of the kind, each by itself, until all may be listed.
    pub(super) async fn watch_namespaces(&self, resource: &ApiResource, refusal: &Fault) {
        tracing::info!(
            cluster = %self.cluster, kind = %self.kind, %refusal,
            "not all namespaces of a target may be watched; each with objects is by itself"
        );
        let mut objects_came = self.model.lock().objects_came.subscribe();
        let mut watches: BTreeMap<String, AbortHandle> = BTreeMap::new();
        let mut running = FuturesUnordered::new();
        let mut ask = self.clock.monotonic().saturating_add(ASK_FOR_ALL);
        loop {
            objects_came.mark_unchanged();
            let wanted = {
                let mut model = self.model.lock();
                let wanted = model.namespaces_of(&self.kind);
                model.watched_in(&self.kind, &wanted);
                wanted
            };
            watches.retain(|namespace, watch| {
                let is_wanted = wanted.contains(namespace);
                if !is_wanted {
                    watch.abort();
                }
                is_wanted
            });
            for namespace in wanted {
                if let Entry::Vacant(place) = watches.entry(namespace) {
                    let (watch, abort) = abortable(self.watch_namespace(place.key().clone(), resource));
                    running.push(watch);
                    place.insert(abort);
                }
            }
            tokio::select! {
                // Only those end that are not wanted any more.
                Some(_) = running.next() => {}
                Ok(()) = objects_came.changed() => {}
                () = self.clock.sleep_until(ask) => {
                    if self.may_list_all(resource).await {
                        return;
                    }
                    ask = self.clock.monotonic().saturating_add(ASK_FOR_ALL);
                }
            }
        }
    }

    async fn watch_namespace(&self, namespace: String, resource: &ApiResource) {
        let mut failures = 0;
        loop {
            let ended = self.watch_in(Some(&namespace), resource, &mut failures).await;
            let fault = ended.err().unwrap_or_else(ended_by_itself);
            let is_refused = fault.reason == reason::WATCH_FORBIDDEN;
            failures += 1;
            let wait = pause(failures, &(&self.cluster, &self.kind, &namespace));
            tracing::warn!(
                cluster = %self.cluster, kind = %self.kind, namespace, error = %fault, ?wait,
                "watch of a namespace of a target failed; trying again"
            );
            self.model.lock().failed_in(&self.kind, &namespace, fault, self.clock.monotonic());
            self.tell_all();
            (self.on_state)();
            if !is_refused {
                (self.on_failure)();
            }
            self.clock.sleep(wait).await;
        }
    }

    async fn may_list_all(&self, resource: &ApiResource) -> bool {
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        all.list(&ListParams::default().labels(&selector()).limit(1)).await.is_ok()
    }
}
