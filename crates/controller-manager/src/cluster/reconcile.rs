use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use convoy_api::{Cluster, SecretKeyReference, condition_type, find_condition, reason};
use convoy_apply::{Capabilities, Class, Ownership, RequestError, Target, over_client};
use convoy_runtime::{ConnectError, Next, Pacer, Sharded as _, StoreKey, store_key};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::circuits::ThroughCircuit;
use super::contacts::{Cause, Contact};
use super::status::{Outcome, patch};
use super::{AFTER_FAILURES, Clusters, LOOK_DEADLINE, LOOK_INTERVAL};
use crate::duties::Duties;
use crate::host::{HostError, in_words};
use crate::release::index::{cluster_of, release_of};
use crate::targets::{AtPace, Connected};

/// Where a client is made of.
enum Source {
    InCluster,
    Kubeconfig(Vec<u8>),
}

impl Clusters {
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let ownership = match self.duties.begin(self.duties.shard_of(&key)) {
            Ok(ownership) => ownership,
            Err(next) => return next,
        };
        let Some(cluster) = self.clusters.get(&key) else {
            self.targets.remove(&key);
            self.contacts.remove(&key);
            return Next::Done;
        };
        if cluster.metadata.deletion_timestamp.is_some() {
            return Next::Done;
        }
        tokio::select! {
            biased;
            () = ownership.lost() => Duties::given_up(),
            next = self.look_at(&key, &cluster, &ownership) => next,
        }
    }

    /// Looks at the target when it is time to, and brings the status up to date; that alone, such as to count
    /// Releases, asks nothing of the target.
    async fn look_at(&self, key: &StoreKey, cluster: &Cluster, ownership: &Arc<dyn Ownership>) -> Next {
        let (cause, now) = (Cause::of(cluster), self.clock.monotonic());
        let last = self.contacts.last(key, &**ownership);
        let is_first = last.is_none();
        let (contact, is_fresh) = match last.filter(|last| last.cause == cause) {
            Some(last) if now < last.until => (last, false),
            last => {
                let (outcome, failures) = match self.contact(key, cluster, ownership).await {
                    Ok(Ok(capabilities)) => (Outcome::InContact(capabilities), 0),
                    Ok(Err(failed)) => (failed, last.map_or(0, |last| last.failures).saturating_add(1)),
                    Err(error) => {
                        tracing::warn!(cluster = %key, error = in_words(&error), "cannot read the Secret of a Cluster");
                        return Next::Retry;
                    }
                };
                let wait = match outcome {
                    Outcome::InContact(_) | Outcome::Suspended => LOOK_INTERVAL,
                    _ => AFTER_FAILURES.wait(failures, spread(key)),
                };
                let contact = Contact { cause, outcome, until: now.saturating_add(wait), failures };
                self.contacts.put(key, contact.clone(), &**ownership);
                (contact, true)
            }
        };
        if is_first {
            // Releases wait for the first look, whatever it came to.
            self.wake_releases(key);
        }
        let next = Next::After(contact.until.saturating_sub(now));
        self.write_status(key, cluster, (&contact.outcome, is_fresh), ownership, next).await
    }

    async fn write_status(
        &self,
        key: &StoreKey,
        cluster: &Cluster,
        outcome: (&Outcome, bool),
        ownership: &Arc<dyn Ownership>,
        next: Next,
    ) -> Next {
        let releases = self.releases.filter(|release| release.shard_key() == *key).len();
        let Some(status) = patch(cluster, outcome, releases, self.clock.now()) else { return next };
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        match self.host.writer.apply_status::<Cluster>(&**ownership, key, uid, &status).await {
            Ok(_) => next,
            Err(error) if error.is_not_owner() => Duties::given_up(),
            Err(error) if error.is_stale() => Duties::look_again(),
            Err(error) => {
                tracing::warn!(cluster = %key, error = in_words(&error), "cannot write the status of a Cluster");
                Next::Retry
            }
        }
    }

    /// Looks at a target, with a new client when it has none or its kubeconfig changed.
    async fn contact(
        &self,
        key: &StoreKey,
        cluster: &Cluster,
        ownership: &Arc<dyn Ownership>,
    ) -> Result<Result<Arc<Capabilities>, Outcome>, HostError> {
        if cluster.spec.suspend == Some(true) {
            self.targets.remove(key);
            return Ok(Err(Outcome::Suspended));
        }
        let source = match self.source(key, cluster).await? {
            Ok(source) => source,
            Err(outcome) => {
                self.targets.remove(key);
                return Ok(Err(outcome));
            }
        };
        let made_of = (cluster.metadata.uid.clone().unwrap_or_default(), source.digest());
        let known = self.targets.get(key, ownership).filter(|known| known.made_of == made_of);
        let (target, bare, pacer) = match &known {
            Some(known) => (known.target.clone(), known.bare.clone(), known.pacer.clone()),
            None => match self.client(&source).await {
                Ok(client) => {
                    let bare = over_client(client);
                    let through = ThroughCircuit::new(Arc::clone(&bare), key.clone(), self.contacts.clone());
                    let target = |transport| Target::over(transport, Arc::clone(ownership));
                    let pacer = Pacer::unlimited(Arc::clone(&self.clock));
                    let at_pace = Arc::new(AtPace(pacer.clone()));
                    (target(Arc::new(through)).paced(at_pace), target(bare), pacer)
                }
                Err(error) => {
                    self.targets.remove(key);
                    return Ok(Err(Outcome::Refused { message: in_words(&error) }));
                }
            },
        };
        pacer.set(cluster.spec.rate());
        let Some(probe) = self.contacts.circuits().probe(key) else {
            // A key is worked on by one task at a time.
            return Ok(Err(Outcome::NoContact {
                reason: reason::CLUSTER_UNREACHABLE,
                message: "another look at the target has not ended".to_owned(),
            }));
        };
        match discover(&bare).await {
            Ok(capabilities) => {
                let is_back = probe.answered();
                let capabilities = Arc::new(capabilities);
                let is_news =
                    is_back || known.is_none_or(|known| known.capabilities.digest != capabilities.digest);
                let connected = Connected { target, bare, pacer, capabilities, made_of };
                let capabilities = self.targets.put(key.clone(), &connected, ownership);
                if is_news {
                    tracing::info!(cluster = %key, version = capabilities.version, "in contact");
                    self.wake_releases(key);
                }
                Ok(Ok(capabilities))
            }
            Err(error) => {
                self.targets.remove(key);
                let (reason, message) = failure(&error);
                if reason == reason::CLUSTER_UNREACHABLE {
                    probe.failed(message.clone(), unreachable_since(cluster));
                } else {
                    // It answers, only not to us.
                    probe.answered();
                    tracing::warn!(cluster = %key, error = message, "no contact");
                }
                Ok(Err(Outcome::NoContact { reason, message }))
            }
        }
    }

    async fn source(&self, key: &StoreKey, cluster: &Cluster) -> Result<Result<Source, Outcome>, HostError> {
        let secret_ref: &SecretKeyReference = match (&cluster.spec.kubeconfig, cluster.spec.in_cluster) {
            (None, Some(true)) => return Ok(Ok(Source::InCluster)),
            (Some(kubeconfig), None | Some(false)) => &kubeconfig.secret_ref,
            _ => {
                return Ok(Err(Outcome::NotFound {
                    reason: reason::INVALID_SPEC,
                    message: "exactly one of spec.kubeconfig and spec.inCluster: true must be set".to_owned(),
                }));
            }
        };
        let secret_key = StoreKey::new(key.namespace.as_str(), secret_ref.name.as_str());
        let Some(mut data) = self.host.reader.secret(&secret_key).await? else {
            return Ok(Err(Outcome::NotFound {
                reason: reason::DEPENDENCY_NOT_FOUND,
                message: format!(
                    "there is no Secret {secret_key}, which spec.kubeconfig.secretRef names; create it"
                ),
            }));
        };
        match data.remove(secret_ref.key()) {
            Some(kubeconfig) => Ok(Ok(Source::Kubeconfig(kubeconfig))),
            None => Ok(Err(Outcome::NotFound {
                reason: reason::DEPENDENCY_NOT_FOUND,
                message: format!(
                    "the Secret {secret_key} has no key {:?}; add it, or set spec.kubeconfig.secretRef.key",
                    secret_ref.key()
                ),
            })),
        }
    }

    async fn client(&self, source: &Source) -> Result<kube::Client, ConnectError> {
        match source {
            Source::InCluster => self.reach.client(None, None).await,
            Source::Kubeconfig(bytes) => self.reach.client(Some(bytes), None).await,
        }
    }

    /// Queues the Releases that name a Cluster, and those that left it and may have objects on it.
    fn wake_releases(&self, cluster: &StoreKey) {
        let named = self.releases.filter(|release| release.shard_key() == *cluster);
        let left = self.inventories.filter(|inventory| cluster_of(inventory) == *cluster);
        let named = named.iter().map(|release| store_key(&**release));
        for release in named.chain(left.iter().map(|inventory| release_of(inventory))) {
            self.release_queue.add(release);
        }
    }
}

/// A number of its own for each key, so that what failed together does not come back together.
fn spread(key: &StoreKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl Source {
    fn digest(&self) -> String {
        match self {
            Source::InCluster => "in-cluster".to_owned(),
            Source::Kubeconfig(bytes) => {
                Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
            }
        }
    }
}

/// What a target serves, in bounded time.
async fn discover(target: &Target) -> Result<Capabilities, RequestError> {
    tokio::time::timeout(LOOK_DEADLINE, target.discover()).await.unwrap_or_else(|_| {
        Err(RequestError {
            class: Class::Unreachable,
            code: 0,
            message: format!(
                "the target did not say within {} s what it serves; check the network, and the server in the \
                 Cluster's kubeconfig",
                LOOK_DEADLINE.as_secs()
            ),
            fields: Vec::new(),
        })
    })
}

/// Since when a Cluster's status says that the target does not answer.
fn unreachable_since(cluster: &Cluster) -> Option<Timestamp> {
    let conditions = cluster.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
    let ready = find_condition(conditions, condition_type::READY)?;
    let is_unreachable = ready.status == "False" && ready.reason == reason::CLUSTER_UNREACHABLE;
    is_unreachable.then_some(ready.last_transition_time.0)
}

fn failure(error: &RequestError) -> (&'static str, String) {
    let reason = match error.class {
        Class::Unauthorized | Class::Forbidden => reason::CLUSTER_UNAUTHORIZED,
        _ => reason::CLUSTER_UNREACHABLE,
    };
    (reason, error.to_string())
}
