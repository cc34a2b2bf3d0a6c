//! The host's namespaces, in which convoy's objects live.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use convoy_meta::Status;
use convoy_registry::namespace::{NamespaceLookup, NamespaceState};
use convoy_runtime::watch_events;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use parking_lot::RwLock;

use super::WATCH_AGAIN;
use crate::health::Check;

/// How long the host may take to say whether there is a namespace.
const LOOK: Duration = Duration::from_secs(5);

/// Watches the host's namespaces, and asks about one that it does not know: it may be new.
#[derive(Debug)]
pub struct HostNamespaces {
    namespaces: Api<Namespace>,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    states: HashMap<String, NamespaceState>,
    /// The namespaces of a list that is under way.
    listing: HashMap<String, NamespaceState>,
    is_listed: bool,
}

impl HostNamespaces {
    pub fn new(host: kube::Client) -> Self {
        Self { namespaces: Api::all(host), known: RwLock::default() }
    }

    /// Follows the host until it is dropped.
    pub async fn follow(&self) {
        let mut events = watch_events(self.namespaces.clone(), watcher::Config::default());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.known.write().take(event),
                Err(error) => {
                    tracing::warn!(%error, "the host's namespaces cannot be watched");
                    tokio::time::sleep(WATCH_AGAIN).await;
                }
            }
        }
    }
}

fn state(namespace: &Namespace) -> NamespaceState {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    match namespace.metadata.deletion_timestamp.is_some() || phase == Some("Terminating") {
        true => NamespaceState::Terminating,
        false => NamespaceState::Active,
    }
}

impl Known {
    fn take(&mut self, event: Event<Namespace>) {
        let name = |namespace: &Namespace| namespace.metadata.name.clone().unwrap_or_default();
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(namespace) => {
                self.listing.insert(name(&namespace), state(&namespace));
            }
            Event::InitDone => {
                self.states = std::mem::take(&mut self.listing);
                self.is_listed = true;
            }
            Event::Apply(namespace) => {
                self.states.insert(name(&namespace), state(&namespace));
            }
            Event::Delete(namespace) => {
                self.states.remove(&name(&namespace));
            }
        }
    }
}

#[async_trait]
impl NamespaceLookup for HostNamespaces {
    async fn state(&self, name: &str) -> Result<NamespaceState, Status> {
        if let Some(state) = self.known.read().states.get(name) {
            return Ok(*state);
        }
        match tokio::time::timeout(LOOK, self.namespaces.get_opt(name)).await {
            Ok(Ok(Some(namespace))) => Ok(state(&namespace)),
            Ok(Ok(None)) => Ok(NamespaceState::Missing),
            Ok(Err(error)) => {
                tracing::warn!(%error, namespace = name, "the host cannot be asked about a namespace");
                Err(Status::service_unavailable("the host cannot be asked whether the namespace exists"))
            }
            Err(_) => {
                Err(Status::service_unavailable("the host did not say in time whether the namespace exists"))
            }
        }
    }
}

#[async_trait]
impl Check for HostNamespaces {
    async fn check(&self) -> Result<(), String> {
        match self.known.read().is_listed {
            true => Ok(()),
            false => Err("the host's namespaces were not listed yet".to_owned()),
        }
    }
}
