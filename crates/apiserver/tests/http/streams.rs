//! One HTTP/2 connection with as many streams as kube-aggregator may put on it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{CONFIGS, Fixture};

const PATIENCE: Duration = Duration::from_secs(60);

async fn connect(it: &Fixture) -> SendRequest<Full<Bytes>> {
    let mut tls = it.client.tls();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(it.plane.server.address()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn send(
    sender: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    body: &str,
) -> Response<Incoming> {
    let request = Request::builder()
        .method(method)
        .uri(format!("https://127.0.0.1{path}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .unwrap();
    sender.ready().await.unwrap();
    timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap()
}

#[test]
fn a_thousand_streams_of_one_connection_are_served_at_a_time() {
    let it = Fixture::start();
    it.runtime.block_on(async {
        let mut sender = connect(&it).await;
        let mut watches = Vec::new();
        for _ in 0..999 {
            let answer = send(&mut sender, "GET", &format!("{CONFIGS}?watch=true"), "").await;
            assert_eq!(answer.status(), StatusCode::OK);
            watches.push(answer.into_body());
        }
        let map = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen-by-all"}}"#;
        assert_eq!(send(&mut sender, "POST", CONFIGS, map).await.status(), StatusCode::CREATED);
        for watch in &mut watches {
            let mut text = Vec::new();
            while !String::from_utf8_lossy(&text).contains("seen-by-all") {
                let frame = timeout(PATIENCE, watch.frame()).await.unwrap().unwrap().unwrap();
                text.extend(frame.into_data().unwrap());
            }
        }
    });
}
