//! What carries requests to a target.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;

use crate::{Class, RequestError};

/// How long one request may take, from its first byte to the last of its answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const LONGEST_ANSWER: usize = 32 * 1024 * 1024;

/// Carries a request to a target and brings the whole answer, in bounded time and size. What is no
/// network, such as a simulation, implements it too; it runs on any executor.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request. A future that is dropped gives the request up; it may still be carried out.
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Bytes>, RequestError>>;
}

/// Says when the next request may be made. It is asked before anything of a request counts: no deadline has begun and no
/// ownership was asked.
pub trait Pace: Send + Sync + 'static {
    /// Ends when it may.
    fn admitted(&self) -> BoxFuture<'_, ()>;
}

/// Is asked about requests that wait long for their answers, so that who makes them leaves room to others.
pub trait Patience: Send + Sync + 'static {
    /// Ends when a request that is sent now has waited long.
    fn exhausted(&self) -> BoxFuture<'_, ()>;
    /// Whether any request has waited long.
    fn is_exhausted(&self) -> bool;
}

/// Carries requests to the server of a client, over HTTP.
pub fn over_client(client: kube::Client) -> Arc<dyn Transport> {
    Arc::new(OverClient(client))
}

/// Over HTTP.
pub(crate) struct OverClient(pub(crate) kube::Client);

impl Transport for OverClient {
    #[expect(clippy::disallowed_methods, reason = "`Target` asks for ownership before it sends")]
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Bytes>, RequestError>> {
        let whole = async {
            let response = self.0.send(request).await.map_err(|error| RequestError::of_transport(&error))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LONGEST_ANSWER)
                .collect()
                .await
                .map_err(|error| {
                    RequestError::new(Class::Unreachable, format!("the target's answer broke off: {error}"))
                })?
                .to_bytes();
            Ok(Response::from_parts(parts, body))
        };
        Box::pin(async {
            tokio::time::timeout(DEADLINE, whole).await.unwrap_or_else(|_| {
                Err(RequestError::new(
                    Class::Unreachable,
                    format!("the target did not answer within {} s", DEADLINE.as_secs()),
                ))
            })
        })
    }
}
