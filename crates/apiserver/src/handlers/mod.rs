//! The handlers: every verb of every resource of a registry, and the paths around them.

mod read;
mod table;
mod watch;
mod write;

pub(crate) use read::{list, single};

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use convoy_meta::{GroupResource, Status};
use convoy_registry::{Registry, RequestContext, Resource, Scope, UserInfo, Verb};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::call::Call;
use crate::discovery::Discovery;
use crate::filters::{Handler, not_found};
use crate::metrics::Metrics;
use crate::negotiation::{Accepted, accept};
use crate::request_info::{RequestInfo, ResourceRequest};
use crate::response::{self, Response};

/// A path below an object, or a resource of which nothing is stored: reviews, tokens, previews.
#[async_trait]
pub trait Connect: Send + Sync + fmt::Debug {
    /// Answers a request that authorisation let through.
    async fn connect(&self, call: &Call, resource: &Resource) -> Response;
}

/// Documents that describe the resources, by path: `/openapi/v2`, `/openapi/v3` and below.
pub trait Documents: Send + Sync + fmt::Debug {
    /// Answers a path, or `None` when there is no such document.
    fn answer(&self, call: &Call) -> Option<Response>;
}

/// What `/version` says.
#[derive(Clone, Debug)]
pub struct Version {
    /// The Kubernetes version whose behaviour is served, such as `v1.36.3`.
    pub kubernetes: String,
    /// The commit the program was built from.
    pub commit: String,
}

impl Version {
    fn document(&self) -> Value {
        let mut parts = self.kubernetes.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        json!({
            "major": major, "minor": minor, "gitVersion": self.kubernetes, "gitCommit": self.commit,
            "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
            "platform": format!("{}/{}", std::env::consts::OS, platform()),
        })
    }
}

fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Serves the resources of a registry.
#[derive(Debug)]
pub struct Api {
    registry: Arc<Registry>,
    discovery: Discovery,
    version: Version,
    metrics: Arc<Metrics>,
    documents: Option<Arc<dyn Documents>>,
    /// By group resource and subresource; an empty subresource is a resource that is not stored.
    connects: HashMap<(GroupResource, String), Arc<dyn Connect>>,
    /// The shortest time after which a watch without `timeoutSeconds` ends.
    watch_timeout: Duration,
}

impl Api {
    /// Serves these resources.
    pub fn new(registry: Arc<Registry>, version: Version, metrics: Arc<Metrics>) -> Self {
        let discovery = Discovery::new(registry.table().clone());
        Self {
            registry,
            discovery,
            version,
            metrics,
            documents: None,
            connects: HashMap::new(),
            watch_timeout: Duration::from_secs(1800),
        }
    }

    /// Serves documents that describe the resources.
    #[must_use]
    pub fn documents(mut self, documents: Arc<dyn Documents>) -> Self {
        self.documents = Some(documents);
        self
    }

    /// Serves a subresource, or with an empty `subresource` a resource of which nothing is stored. The
    /// resource's definition has to name it, so that discovery does.
    #[must_use]
    pub fn connect(mut self, resource: GroupResource, subresource: &str, connect: Arc<dyn Connect>) -> Self {
        self.connects.insert((resource, subresource.to_owned()), connect);
        self
    }

    /// The registry.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The resource a path names, when it names one that is served in that scope.
    fn find(&self, request: &ResourceRequest) -> Option<Arc<Resource>> {
        let resource = self.registry.table().find(&request.group, &request.version, &request.resource)?;
        let fits = match resource.scope {
            Scope::Namespaced => request.in_namespace || !request.named,
            Scope::Cluster => !request.in_namespace,
        };
        fits.then_some(resource)
    }

    async fn resource(&self, call: &Call, request: &ResourceRequest) -> Response {
        let accepted = accept(&call.headers, &call.query, &[]).unwrap_or_default();
        let unknown = || {
            let resources = self.registry.table().load();
            let mut served = resources.iter();
            if served.any(|one| one.group == request.group && one.version == request.version) {
                response::status(&Status::unknown_resource(), &accepted)
            } else {
                not_found()
            }
        };
        let Some(resource) = self.find(request) else { return unknown() };
        let key = (request.group_resource(), request.subresource.clone());
        if let Some(connect) = self.connects.get(&key) {
            let answers = |verb: &Verb| verb.as_str() == call.info.verb;
            if request.subresource.is_empty() && !resource.verbs.iter().any(answers) {
                return response::status(&Status::method_not_allowed(), &accepted);
            }
            return connect.connect(call, &resource).await;
        }
        let served = matches!(request.subresource.as_str(), "" | "status" | "finalize")
            && (request.subresource.is_empty() || resource.subresource(&request.subresource).is_some());
        if !served || !request.rest.is_empty() {
            return unknown();
        }
        match self.verb(call, request, &resource).await {
            Ok(answer) => answer,
            Err(status) => response::status(&status, &accepted),
        }
    }

    async fn verb(
        &self,
        call: &Call,
        request: &ResourceRequest,
        resource: &Resource,
    ) -> Result<Response, Status> {
        let subresource = request.subresource.as_str();
        let allows = |verb| match subresource {
            "" => resource.allows(verb),
            name => resource.subresource(name).is_some_and(|sub| sub.verbs.contains(&verb)),
        };
        let verb = match call.info.verb.as_str() {
            "get" => Verb::Get,
            "list" => Verb::List,
            "watch" => Verb::Watch,
            "create" => Verb::Create,
            "update" => Verb::Update,
            "patch" => Verb::Patch,
            "delete" => Verb::Delete,
            "deletecollection" => Verb::DeleteCollection,
            _ => return Err(Status::method_not_allowed()),
        };
        // An object of a namespaced resource is written through its namespace.
        let misplaced = resource.namespaced()
            && !request.in_namespace
            && !matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let by_name = matches!(verb, Verb::Update | Verb::Patch);
        let misnamed =
            verb == Verb::Create && request.named || by_name && !request.named || call.method == Method::HEAD;
        if !allows(verb) || misplaced || misnamed {
            return Err(Status::method_not_allowed());
        }
        match verb {
            Verb::Get => self.get(call, request, resource).await,
            Verb::List => self.list(call, request, resource).await,
            Verb::Watch => self.watch(call, request, resource).await,
            Verb::Create => self.create(call, request, resource).await,
            Verb::Update => self.update(call, request, resource).await,
            Verb::Patch => self.patch(call, request, resource).await,
            Verb::Delete => self.delete(call, request, resource).await,
            Verb::DeleteCollection => self.delete_collection(call, request, resource).await,
        }
    }

    fn paths(&self) -> Value {
        let resources = self.registry.table().load();
        let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
        for resource in resources.iter() {
            let (group, version) = (&resource.group, &resource.version);
            if group.is_empty() {
                paths.push(format!("/api/{version}"));
            } else {
                paths.push(format!("/apis/{group}"));
                paths.push(format!("/apis/{group}/{version}"));
            }
        }
        for path in ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"] {
            paths.push(path.to_owned());
        }
        paths.sort();
        paths.dedup();
        json!({ "paths": paths })
    }

    fn path(&self, call: &Call) -> Option<Response> {
        let accepted = accept(&call.headers, &call.query, &[]).unwrap_or_default();
        if call.method != Method::GET && call.method != Method::HEAD {
            return None;
        }
        match call.info.path.as_str() {
            "/" => Some(response::value(StatusCode::OK, &self.paths(), &accepted)),
            "/version" => {
                let pretty = Accepted { pretty: true, ..accepted };
                Some(response::value(StatusCode::OK, &self.version.document(), &pretty))
            }
            "/metrics" => {
                let text = self.metrics.render();
                Some(response::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
            }
            path if path.starts_with("/openapi/") => {
                self.documents.as_ref().and_then(|documents| documents.answer(call))
            }
            path => self.discovery.answer(path, &call.headers, &accepted),
        }
    }
}

#[async_trait]
impl Handler for Api {
    async fn handle(&self, call: Call) -> Response {
        match &call.info.resource {
            Some(request) => self.resource(&call, request).await,
            None => self.path(&call).unwrap_or_else(not_found),
        }
    }

    fn is_open(&self, info: &RequestInfo) -> bool {
        info.resource.is_none() && info.verb == "get" && info.path == "/version"
    }

    fn serves(&self, info: &RequestInfo) -> bool {
        match &info.resource {
            Some(request) => self.find(request).is_some_and(|resource| {
                request.subresource.is_empty() || resource.subresource(&request.subresource).is_some()
            }),
            None => matches!(info.verb.as_str(), "get" | "head"),
        }
    }
}

/// What the registry has to know of a call.
pub(crate) fn context(call: &Call, manager: Option<&String>) -> RequestContext {
    RequestContext {
        user: UserInfo {
            name: call.user.name.clone(),
            uid: call.user.uid.clone(),
            groups: call.user.groups.clone(),
            extra: call.user.extra.clone().into_iter().collect(),
        },
        field_manager: manager.cloned().unwrap_or_else(|| call.default_field_manager()),
        dry_run: false,
        field_validation: convoy_meta::FieldValidation::default(),
        may_create: true,
        now: call.now,
    }
}

/// The namespace that a list, a watch or a deletion of a collection is limited to.
fn namespace(request: &ResourceRequest) -> Option<&str> {
    request.in_namespace.then_some(request.namespace.as_str())
}

/// The namespace that an object lives in: none for a Namespace itself.
fn home(request: &ResourceRequest) -> &str {
    namespace(request).unwrap_or_default()
}
