//! A proxy in front of a Git server: the steps of a fetch, of which one goes wrong.

use std::net::SocketAddr;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::net::{TcpListener, TcpStream};

use super::script::{Fault, Script, Side, Step};

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is broken")]
struct Broken;

/// Starts a proxy in front of what a URL names, on the same address; answers with the URL of the proxy. It serves until
/// the runtime ends.
///
/// # Errors
/// When the URL has no address, or there is no port.
pub async fn start(url: &str, script: Script) -> anyhow::Result<String> {
    let rest = url.strip_prefix("http://").context("the URL is not of a plain server")?;
    let (address, path) = rest.split_once('/').context("the URL has no path")?;
    let upstream: SocketAddr = address.parse().context("the URL has no address")?;
    let listener = TcpListener::bind((upstream.ip(), 0)).await.context("no port")?;
    let own = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, upstream, script.clone()));
        }
    });
    Ok(format!("http://{own}/{path}"))
}

async fn serve(stream: TcpStream, upstream: SocketAddr, script: Script) {
    let service = hyper::service::service_fn(|request| {
        let script = script.clone();
        async move { pass(request, upstream, &script).await }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        // What the dead process had asked for is heard no more.
        () = script.killed() => {}
    }
}

async fn pass(
    request: Request<Incoming>,
    upstream: SocketAddr,
    script: &Script,
) -> Result<Response<Body>, Broken> {
    if script.is_killed() {
        return Err(Broken);
    }
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let step = Step::new(Side::Source, parts.method.clone(), parts.uri.path());
    let (place, fault) = script.notice(step).await;
    let request = Request::from_parts(parts, Full::new(body));
    if let Some(response) = fault.and_then(Fault::response) {
        return Ok(response);
    }
    if fault.is_none_or(|fault| fault.is_after() || fault == Fault::Damaged) {
        let (mut parts, body) = forward(request, upstream).await.map_err(|_| Broken)?;
        script.answered(place, parts.status);
        match fault {
            None => return Ok(Response::from_parts(parts, Body::from(body.to_vec()))),
            Some(Fault::Damaged) => {
                parts.headers.remove(CONTENT_LENGTH);
                return Ok(Response::from_parts(parts, Body::from(damaged(&body))));
            }
            Some(_) => {}
        }
    }
    if fault.is_some_and(Fault::kills) {
        script.kill();
    }
    Err(Broken)
}

/// The same bytes but for one near the end: of a pack that is in the last object or in the checksum.
pub(super) fn damaged(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let place = bytes.len().saturating_sub(24);
    if let Some(byte) = bytes.get_mut(place) {
        *byte ^= 0x55;
    }
    bytes
}

async fn forward(
    request: Request<Full<Bytes>>,
    upstream: SocketAddr,
) -> anyhow::Result<(http::response::Parts, Bytes)> {
    let stream = TcpStream::connect(upstream).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    connection.abort();
    Ok((parts, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_has_as_many_bytes_and_not_the_same() {
        for length in [0, 1, 24, 100] {
            let bytes = vec![7; length];
            let spoilt = damaged(&bytes);
            assert_eq!((spoilt.len(), spoilt == bytes), (length, length == 0));
        }
    }
}
