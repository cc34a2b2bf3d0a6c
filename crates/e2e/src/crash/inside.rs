//! API servers in this process, without addresses: what a controller-manager asks of them is a call.
//!
//! Nothing here waits for a socket, so that all of a world can live on a clock that goes on by itself as soon as nobody
//! has anything to do.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use convoy_apiserver::authorization::Masters;
use convoy_apiserver::call::Warnings;
use convoy_apiserver::kinds::{convoy, core};
use convoy_apiserver::metrics::Metrics;
use convoy_apiserver::request_info::RequestInfo;
use convoy_apiserver::user::{SYSTEM_MASTERS, User};
use convoy_apiserver::{Api, Call, Handler as _, Now, Version};
use convoy_meta::Query;
use convoy_registry::garbage::GarbageCollector;
use convoy_registry::namespace::{NamespaceController, NamespaceLifecycle, StoredNamespaces};
use convoy_registry::{Registry, RegistryOptions, RequestContext, ResourceTable};
use convoy_sandbox::Unserved;
use convoy_storage::HistoryLimits;
use convoy_storage::memory::MemoryStorage;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;

use super::proxy::{Broken, Passed, spoiled, step_of};
use super::script::{Script, Side};

/// How many changes a server remembers for watches.
const HISTORY: HistoryLimits = HistoryLimits { events: 10_000, bytes: 16 << 20 };

type Error = Box<dyn std::error::Error + Send + Sync>;
type AnyBody = UnsyncBoxBody<Bytes, Error>;

/// Both API servers.
pub struct Servers {
    host: Arc<Api>,
    target: Arc<Api>,
    now: Now,
    /// Never true: the servers end with the runtime.
    stopping: watch::Sender<bool>,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Who calls an API server.
#[derive(Clone)]
struct Caller {
    api: Arc<Api>,
    now: Now,
    stopping: watch::Receiver<bool>,
}

impl Servers {
    /// Starts both, with a store in memory each.
    ///
    /// # Errors
    /// When their first objects cannot be made.
    pub async fn start(now: Now, ready_after: Duration, namespace: &str) -> anyhow::Result<Self> {
        let host = host(&now, namespace).await?;
        let target = Unserved::start(&now, ready_after).await?.api();
        Ok(Self { host, target, now, stopping: watch::Sender::new(false) })
    }

    fn caller(&self, side: Side) -> Caller {
        let api = if side == Side::Target { &self.target } else { &self.host };
        Caller { api: Arc::clone(api), now: Arc::clone(&self.now), stopping: self.stopping.subscribe() }
    }

    /// A client of one of them.
    pub fn client(&self, side: Side) -> Client {
        let caller = self.caller(side);
        let service = tower::service_fn(move |request: Request<Body>| {
            let caller = caller.clone();
            async move { Ok::<_, Error>(caller.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// A client for the process that begins now, whose writes go by a script. When that process is dead it hears no answer;
    /// what it had asked of the target may still arrive.
    pub fn client_of_process(&self, side: Side, script: &Script) -> Client {
        let (caller, script, life) = (self.caller(side), script.clone(), script.deaths());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (caller, script) = (caller.clone(), script.clone());
            async move {
                if script.deaths() != life {
                    return std::future::pending().await;
                }
                let until = script.clone();
                let passing = tokio::spawn(async move { caller.pass(side, request, &script, life).await });
                let answer = tokio::select! {
                    biased;
                    () = until.killed() => return std::future::pending().await,
                    answer = passing => answer.map_err(Error::from)?.map_err(Error::from)?,
                };
                takes(until.lag()).await;
                if until.deaths() != life {
                    return std::future::pending().await;
                }
                Ok::<_, Error>(answer)
            }
        });
        Client::new(service, "default")
    }
}

impl Caller {
    async fn answer(&self, request: Request<Body>) -> Response<AnyBody> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let Some(info) = RequestInfo::parse(&parts.method, parts.uri.path(), &query) else {
            let mut refused = Response::new(whole(Bytes::new()));
            *refused.status_mut() = http::StatusCode::NOT_FOUND;
            return refused;
        };
        let call = Call {
            method: parts.method,
            info,
            query,
            headers: parts.headers,
            user: User::new("admin", [SYSTEM_MASTERS]),
            body,
            now: (self.now)(),
            clock: Arc::clone(&self.now),
            stopping: self.stopping.clone(),
            warnings: Warnings::default(),
            authorizer: Arc::new(Masters),
        };
        self.api.handle(call).await.map(|body| body.map_err(|never| match never {}).boxed_unsync())
    }

    async fn pass(
        &self,
        side: Side,
        request: Request<Body>,
        script: &Script,
        life: usize,
    ) -> Result<Response<AnyBody>, Broken> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
        let step = step_of(side, &parts, &body);
        let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        let request = Request::from_parts(parts, Body::from(body.to_vec()));
        takes(script.lag()).await;
        // Who asks without a pause keeps the clock from going on, and would not be seen.
        if step.is_some() && script.len().is_multiple_of(16) {
            takes(Duration::from_millis(1)).await;
        }
        if script.deaths() != life {
            let Some(step) = step.filter(|_| side == Side::Target && script.arrives()) else {
                return Err(Broken);
            };
            let place = script.note(step);
            script.answered(place, self.answer(request).await.status());
            return Err(Broken);
        }
        let forward = || -> BoxFuture<'_, Result<Response<AnyBody>, Broken>> {
            Box::pin(async { Ok(self.answer(request).await) })
        };
        match spoiled(step, script, forward).await? {
            Passed::Through(response) if is_watch => {
                let script = script.clone();
                Ok(response.map(|body| lagging(body, script)))
            }
            Passed::Through(response) => Ok(response),
            Passed::Instead(response) => {
                let (parts, body) = response.into_parts();
                let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
                Ok(Response::from_parts(parts, whole(body)))
            }
        }
    }
}

async fn takes(lag: Duration) {
    if !lag.is_zero() {
        tokio::time::sleep(lag).await;
    }
}

/// News one after the other, each of which takes its time.
fn lagging(body: AnyBody, script: Script) -> AnyBody {
    let frames = BodyStream::new(body).then(move |frame| {
        let lag = script.lag();
        async move {
            takes(lag).await;
            frame
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn whole(bytes: Bytes) -> AnyBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// convoy's own API server, as standalone makes it.
async fn host(now: &Now, namespace: &str) -> anyhow::Result<Arc<Api>> {
    let storage = Arc::new(MemoryStorage::new(HISTORY));
    let table = Arc::new(ResourceTable::default());
    table.install(convoy::definitions(convoy_shard::DEFAULT_SHARD_COUNT)?);
    table.install(core());
    let lookup = Arc::new(StoredNamespaces::new(storage.clone()));
    let options = RegistryOptions {
        admission: vec![Arc::new(NamespaceLifecycle::new(lookup))],
        ..RegistryOptions::default()
    };
    let registry = Arc::new(Registry::new(storage, table, options));
    if let Some(namespaces) = registry.table().find("", "v1", "namespaces") {
        let context = RequestContext::internal("system:apiserver", now());
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        Box::pin(registry.create(&context, &namespaces, "", object.into())).await?;
    }
    tokio::spawn(GarbageCollector::new(Arc::clone(&registry), Arc::clone(now)).run());
    tokio::spawn(NamespaceController::new(Arc::clone(&registry), Arc::clone(now)).run());
    let version =
        Version { kubernetes: convoy_schema::catalogue().kubernetes_version.clone(), commit: String::new() };
    Ok(Arc::new(Api::new(registry, version, Arc::new(Metrics::default()))))
}
