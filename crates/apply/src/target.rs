//! One target cluster.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use convoy_api::{annotation, field_manager, label};
use convoy_plan::{HelmRelease, Live, LiveObject, ObjectRef, applies_label, taken_over};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::scrub::{SecretsIn, about};
use crate::transport::{OverClient, Pace, Patience, Transport};
use crate::{Class, NotOwner, Ownership, RequestError};

/// How many requests are under way at a time.
const CONCURRENCY: usize = 16;
/// How many of those whose answers take long, and of those of work that has met such ones, beside these.
const SLOW_CONCURRENCY: usize = 48;

/// Asks for metadata alone: answers stay small, and the content of Secrets stays where it is.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A client of one target cluster. Every request that changes something asks its [`Ownership`] first.
#[derive(Clone)]
pub struct Target {
    transport: Arc<dyn Transport>,
    ownership: Arc<dyn Ownership>,
    slots: Arc<Semaphore>,
    slow_slots: Arc<Semaphore>,
    pace: Option<Arc<dyn Pace>>,
    patience: Option<Arc<dyn Patience>>,
    acts_as: Option<ServiceAccount>,
    secrets: SecretsIn,
    requests: Arc<Requests>,
}

/// A service account of the target as which requests are made, by impersonation: what it may not, convoy may not for
/// it. See <https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation>; the API server
/// adds a service account's groups by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAccount {
    /// Its namespace on the target.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ServiceAccount {
    /// The name of the user that it is.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// A request without effect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DryRun {
    /// Server-side apply.
    Apply {
        /// Whether fields of other managers are taken over.
        force: bool,
    },
    /// Creation of what must not exist.
    Create,
}

/// How many requests a target got, for metrics and tests.
#[derive(Debug, Default)]
pub struct Requests {
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Requests {
    /// Requests that read.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Requests that write.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

/// An object after it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// Whether the request created it.
    pub created: bool,
}

/// Helm's word for an object that stays when its release goes.
const HELM_RESOURCE_POLICY: &str = "helm.sh/resource-policy";
/// Helm's word for an object of a hook.
const HELM_HOOK: &str = "helm.sh/hook";

/// The metadata of a live object, as far as pruning needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveMeta {
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// The release-uid label.
    pub release_uid: Option<String>,
    /// Whether its deletion was begun.
    pub terminating: bool,
    /// Whether it asks to be kept when it leaves its bundle.
    pub prune_disabled: bool,
    /// The Helm release that it says it belongs to.
    pub helm_release: Option<HelmRelease>,
    /// The managedFields with which what earlier tools wrote is convoy's; none when they wrote nothing.
    pub taken_over: Option<Value>,
    /// Whether convoy applied the release-uid label.
    pub is_labelled_by_convoy: bool,
    /// The run of the hook that made it.
    pub hook_run: Option<String>,
    /// Whether it is of a chart's hook, whoever ran that.
    pub is_helm_hook: bool,
}

impl Target {
    /// A target that `client` reaches.
    pub fn new(client: kube::Client, ownership: Arc<dyn Ownership>) -> Self {
        Self::over(Arc::new(OverClient(client)), ownership)
    }

    /// A target that `transport` reaches; for what is no network.
    pub fn over(transport: Arc<dyn Transport>, ownership: Arc<dyn Ownership>) -> Self {
        Self {
            transport,
            ownership,
            slots: Arc::new(Semaphore::new(CONCURRENCY)),
            slow_slots: Arc::new(Semaphore::new(SLOW_CONCURRENCY)),
            pace: None,
            patience: None,
            acts_as: None,
            secrets: SecretsIn::None,
            requests: Arc::default(),
        }
    }

    /// The same target, each of whose requests waits for `pace`.
    #[must_use]
    pub fn paced(self, pace: Arc<dyn Pace>) -> Self {
        Self { pace: Some(pace), ..self }
    }

    /// The same target for one piece of work: of its requests those that wait long, and those that come after, leave
    /// their room to other work.
    #[must_use]
    pub fn with_patience(self, patience: Arc<dyn Patience>) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// The same target, each of whose requests is made as a service account; none: as who the client is.
    #[must_use]
    pub fn acting_as(self, acts_as: Option<ServiceAccount>) -> Self {
        Self { acts_as, ..self }
    }

    /// The same target, whose words about these objects are not passed on.
    #[must_use]
    pub fn with_secrets_in(self, secrets: SecretsIn) -> Self {
        Self { secrets, ..self }
    }

    async fn admitted(&self) {
        if let Some(pace) = &self.pace {
            pace.admitted().await;
        }
    }

    /// The same target for work that begins now: its writes ask `ownership`, the term in which the work
    /// began.
    #[must_use]
    pub fn under(&self, ownership: Arc<dyn Ownership>) -> Self {
        Self { ownership, ..self.clone() }
    }

    /// The count of requests so far; clones share it.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Applies an object with server-side apply, as field manager `convoy`. With `force` fields of
    /// other managers are taken over.
    ///
    /// # Errors
    /// See [`Class`].
    pub async fn apply(&self, at: &ObjectRef, object: &Value, force: bool) -> Result<Applied, RequestError> {
        let query = format!("fieldManager={}&force={force}", field_manager::TARGET);
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(format!("{}?{query}", at.path()))
            .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
            .header(header::ACCEPT, METADATA_ONLY)
            .body(Body::from(object.to_string().into_bytes()));
        self.written(request, at).await.map_err(|error| about(error, object, &self.secrets))
    }

    /// Creates an object, as field manager `convoy`.
    ///
    /// # Errors
    /// [`Class::Precondition`] when it exists; else see [`Class`].
    pub async fn create(&self, at: &ObjectRef, object: &Value) -> Result<Applied, RequestError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}?fieldManager={}", at.collection_path(), field_manager::TARGET))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, METADATA_ONLY)
            .body(Body::from(object.to_string().into_bytes()));
        self.written(request, at).await.map_err(|error| about(error, object, &self.secrets))
    }

    /// Replaces an object, as field manager `convoy`.
    ///
    /// # Errors
    /// [`Class::Precondition`] when it is not of the resourceVersion that it names; else see [`Class`].
    pub async fn replace(&self, at: &ObjectRef, object: &Value) -> Result<Applied, RequestError> {
        let request = Request::builder()
            .method(Method::PUT)
            .uri(format!("{}?fieldManager={}", at.path(), field_manager::TARGET))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, METADATA_ONLY)
            .body(Body::from(object.to_string().into_bytes()));
        self.written(request, at).await.map_err(|error| about(error, object, &self.secrets))
    }

    /// Says who owns the fields of an object of a resourceVersion.
    ///
    /// # Errors
    /// [`Class::Precondition`] when it has changed since; else see [`Class`].
    pub async fn set_managed_fields(
        &self,
        at: &ObjectRef,
        resource_version: &str,
        managed_fields: &Value,
    ) -> Result<(), RequestError> {
        let patch = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": managed_fields},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version},
        ]);
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(format!("{}?fieldManager={}", at.path(), field_manager::TARGET))
            .header(header::CONTENT_TYPE, "application/json-patch+json")
            .header(header::ACCEPT, METADATA_ONLY)
            .body(Body::from(patch.to_string().into_bytes()));
        self.write(request, Some(at)).await.map(|_| ())
    }

    /// What the target would make of a request, which has no effect: it asks for no ownership.
    pub(crate) async fn dry_run(
        &self,
        at: &ObjectRef,
        object: &Value,
        how: DryRun,
    ) -> Result<Value, RequestError> {
        const DRY: &str = "dryRun=All";
        let manager = field_manager::TARGET;
        let (method, uri, content_type) = match how {
            DryRun::Apply { force } => (
                Method::PATCH,
                format!("{}?{DRY}&fieldManager={manager}&force={force}", at.path()),
                "application/apply-patch+yaml",
            ),
            DryRun::Create => (
                Method::POST,
                format!("{}?{DRY}&fieldManager={manager}", at.collection_path()),
                "application/json",
            ),
        };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, "application/json")
            .body(Body::from(object.to_string().into_bytes()));
        let slot = self.slot().await;
        self.requests.reads.fetch_add(1, Ordering::Relaxed);
        let sent = self.send(request, Some(at), slot).await;
        sent.map(|(_, answer)| answer).map_err(|error| about(error, object, &self.secrets))
    }

    async fn written(
        &self,
        request: http::Result<Request<Body>>,
        at: &ObjectRef,
    ) -> Result<Applied, RequestError> {
        let (code, answer) = self.write(request, Some(at)).await?;
        let metadata = &answer["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        Ok(Applied {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            created: code == StatusCode::CREATED,
        })
    }

    /// Deletes an object, in the background, if it still is the one that was seen.
    ///
    /// # Errors
    /// [`Class::Precondition`] when it is not; else see [`Class`].
    pub async fn delete(&self, at: &ObjectRef, seen: &LiveMeta) -> Result<(), RequestError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": { "uid": seen.uid, "resourceVersion": seen.resource_version },
        });
        let request = Request::builder()
            .method(Method::DELETE)
            .uri(at.path())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, METADATA_ONLY)
            .body(Body::from(options.to_string().into_bytes()));
        self.write(request, Some(at)).await.map(|_| ())
    }

    /// The metadata of an object; none when it does not exist.
    ///
    /// # Errors
    /// See [`Class`]; a kind that is not served is [`Class::KindUnknown`].
    pub async fn metadata(&self, at: &ObjectRef) -> Result<Option<LiveMeta>, RequestError> {
        let answer = match self.get_as(&at.path(), METADATA_ONLY, Some(at)).await {
            Ok(answer) => answer,
            Err(error) if matches!(error.class, Class::NotFound | Class::NamespaceMissing) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let metadata = &answer["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        Ok(Some(LiveMeta {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            release_uid: metadata["labels"][label::RELEASE_UID].as_str().map(str::to_owned),
            terminating: metadata["deletionTimestamp"].is_string(),
            prune_disabled: metadata["annotations"][annotation::PRUNE] == annotation::PRUNE_DISABLED
                || metadata["annotations"][HELM_RESOURCE_POLICY] == "keep",
            hook_run: metadata["annotations"][annotation::HOOK_RUN].as_str().map(str::to_owned),
            is_helm_hook: metadata["annotations"][HELM_HOOK].is_string(),
            helm_release: HelmRelease::of(metadata),
            taken_over: taken_over(metadata, field_manager::TARGET),
            is_labelled_by_convoy: applies_label(metadata, label::RELEASE_UID, field_manager::TARGET),
        }))
    }

    /// What a plan needs to know of an object. The owner is left for the caller to name.
    ///
    /// # Errors
    /// See [`Class`].
    pub async fn look(&self, at: &ObjectRef) -> Result<Live, RequestError> {
        match self.metadata(at).await {
            Ok(Some(found)) => Ok(Live::Present(LiveObject {
                uid: found.uid,
                release_uid: found.release_uid,
                owner: None,
                helm_release: found.helm_release,
                is_handed_over: found.taken_over.is_some(),
                is_labelled_by_convoy: found.is_labelled_by_convoy,
            })),
            Ok(None) => Ok(Live::Absent),
            // Discovery may be older than the deletion of a CustomResourceDefinition.
            Err(error) if error.class == Class::KindUnknown => Ok(Live::Absent),
            Err(error) => Err(error),
        }
    }

    /// Reads a list of what objects have made, to explain these. It is not for Secrets: nothing of it is scrubbed.
    ///
    /// # Errors
    /// See [`Class`].
    pub async fn read(&self, path: &str) -> Result<Value, RequestError> {
        self.get(path, None).await
    }

    /// Reads a path.
    pub(crate) async fn get(&self, path: &str, at: Option<&ObjectRef>) -> Result<Value, RequestError> {
        self.get_as(path, "application/json", at).await
    }

    pub(crate) async fn get_as(
        &self,
        path: &str,
        accept: &str,
        at: Option<&ObjectRef>,
    ) -> Result<Value, RequestError> {
        let request = Request::builder()
            .method(Method::GET)
            .uri(path)
            .header(header::ACCEPT, accept)
            .body(Body::empty());
        self.admitted().await;
        self.requests.reads.fetch_add(1, Ordering::Relaxed);
        self.send(request, at, None).await.map(|(_, answer)| answer)
    }

    async fn write(
        &self,
        request: http::Result<Request<Body>>,
        at: Option<&ObjectRef>,
    ) -> Result<(StatusCode, Value), RequestError> {
        let not_owner = |error: NotOwner| RequestError::new(Class::NotOwner, error.to_string());
        // Waiting for a slot and for its turn may take long: ownership is asked after it, right before the request.
        let slot = self.slot().await;
        self.admitted().await;
        let _permit = self.ownership.begin().map_err(not_owner)?;
        self.requests.writes.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            // First, so that a process that hung after the check gives up before it sends.
            biased;
            () = self.ownership.lost() => Err(not_owner(NotOwner { shard: self.ownership.shard() })),
            answer = self.send(request, at, slot) => answer,
        }
    }

    /// A slot for a request: of the slow ones for work that is slow.
    async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        let is_slow = self.patience.as_ref().is_some_and(|patience| patience.is_exhausted());
        let slots = if is_slow { &self.slow_slots } else { &self.slots };
        // Nobody closes them.
        Arc::clone(slots).acquire_owned().await.ok()
    }

    /// The answer to a request; one that waits long gives its slot up as long as there is one for slow ones.
    async fn answer(
        &self,
        request: Request<Body>,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Result<Response<Bytes>, RequestError> {
        let mut answer = self.transport.send(request);
        let Some(patience) = &self.patience else { return answer.await };
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = patience.exhausted() => {}
        }
        let _slot = slot.map(|slot| Arc::clone(&self.slow_slots).try_acquire_owned().unwrap_or(slot));
        answer.await
    }

    async fn send(
        &self,
        request: http::Result<Request<Body>>,
        at: Option<&ObjectRef>,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Result<(StatusCode, Value), RequestError> {
        let unfit = |error: &dyn fmt::Display| {
            RequestError::new(Class::Invalid { immutable: false }, error.to_string())
        };
        let mut request = request.map_err(|error| unfit(&error))?;
        if let Some(account) = &self.acts_as {
            let user = HeaderValue::try_from(account.user()).map_err(|error| unfit(&error))?;
            request.headers_mut().insert(IMPERSONATE_USER, user);
        }
        let response = self.answer(request, slot).await?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            return Err(RequestError::of_answer(parts.status, &parts.headers, &body, at.map(|at| &at.key)));
        }
        let answer = serde_json::from_slice(&body).map_err(|_| {
            RequestError::new(
                Class::Transient,
                "the target answered with something that is no JSON".to_owned(),
            )
        })?;
        Ok((parts.status, answer))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("requests", &self.requests).finish_non_exhaustive()
    }
}
