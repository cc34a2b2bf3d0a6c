//! How requests to an S3 server are sent: on the TLS and the HTTP client of the rest of convoy, without redirects or
//! proxies, and with a bound for whatever the server does. `object_store` signs them and decides what is repeated.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use tokio::time::{Instant, Sleep};

use crate::store::MAX_PAYLOAD_BYTES;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection may be silent.
const SILENT_FOR: Duration = Duration::from_secs(20);
/// How long a request or an answer may take, beyond what its size allows at `SLOWEST`.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Bytes a second.
const SLOWEST: u64 = 256 << 10;
/// Connections that stay open while nothing is asked, and how long.
const IDLE_CONNECTIONS: usize = 4;
const IDLE_FOR: Duration = Duration::from_secs(15);
/// What the answer to a refused request, a page of a listing or a set of credentials may have.
const MOST_WORDS: usize = 8 << 20;
/// What is told of a refusal.
const MOST_TOLD: usize = 300;

/// What went wrong on the way. Says no header and no query: those hold signatures and tokens.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("cannot reach {host}: {why}")]
    Unreachable { host: String, why: String },
    #[error("{host} did not answer in time")]
    Slow { host: String },
    #[error("the connection to {host} broke off: {why}")]
    BrokenOff { host: String, why: String },
    #[error("{host} is asked with https:// only; --render-store-s3-allow-http lets it be asked without TLS")]
    ClearText { host: String },
    #[error("the server says 404 and {words}")]
    NotThere { words: String },
}

/// Makes clients with one TLS configuration.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) tls: Arc<rustls::ClientConfig>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let mut plain = TcpConnector::new();
        plain.enforce_http(false);
        plain.set_connect_timeout(Some(CONNECT_WITHIN));
        plain.set_nodelay(true);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(rustls::ClientConfig::clone(&self.tls))
            .https_or_http()
            .enable_http1()
            .wrap_connector(plain);
        let mut connector = TimeoutConnector::new(https);
        connector.set_connect_timeout(Some(CONNECT_WITHIN));
        connector.set_read_timeout(Some(SILENT_FOR));
        connector.set_write_timeout(Some(SILENT_FOR));
        // While a large body goes out, nothing has to come in.
        connector.set_reset_reader_on_write(true);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(connector);
        Ok(HttpClient::new(Service { client, allows_http }))
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Connections = legacy::Client<TimeoutConnector<HttpsConnector<TcpConnector>>, HttpRequestBody>;

#[derive(Debug)]
struct Service {
    client: Connections,
    allows_http: bool,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().authority().map(|host| host.as_str().to_owned()).unwrap_or_default();
        if request.uri().scheme_str() != Some("https") && !self.allows_http {
            return Err(HttpError::new(HttpErrorKind::Unknown, Trouble::ClearText { host }));
        }
        let is_object = request.method() == http::Method::GET && request.uri().query().is_none();
        let within = time_for(request.body().content_length() as u64);
        let response = match tokio::time::timeout(within, self.client.request(request)).await {
            Err(_) => return Err(HttpError::new(HttpErrorKind::Timeout, Trouble::Slow { host })),
            Ok(Err(error)) => return Err(failed(host, &error)),
            Ok(Ok(response)) => response,
        };
        let (parts, body) = response.into_parts();
        let most = if is_object && parts.status.is_success() {
            usize::try_from(MAX_PAYLOAD_BYTES).unwrap_or(usize::MAX)
        } else {
            MOST_WORDS
        };
        let size = body.size_hint().exact().unwrap_or(most as u64);
        let body = Timed { inner: body, until: Box::pin(tokio::time::sleep(time_for(size))) };
        let body = Limited::new(body, most).map_err(move |error: BoxError| {
            let (host, why) = (host.clone(), innermost(&*error));
            HttpError::new(HttpErrorKind::Interrupted, Trouble::BrokenOff { host, why })
        });
        if parts.status.is_success() || parts.status.is_redirection() {
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
        }
        // A refusal whose words do not arrive is a refusal all the same.
        let words = HttpResponseBody::new(body).bytes().await.unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        // That a bucket or a user is not there does not say that an object is not.
        let is_of_object = element(&words, "Code").is_none_or(|code| code == "NoSuchKey");
        if parts.status == StatusCode::NOT_FOUND && !is_of_object {
            return Err(HttpError::new(HttpErrorKind::Unknown, Trouble::NotThere { words: told(&words) }));
        }
        Ok(HttpResponse::from_parts(parts, told(&words).into()))
    }
}

fn time_for(bytes: u64) -> Duration {
    ANSWER_WITHIN + Duration::from_secs(bytes.min(MAX_PAYLOAD_BYTES) / SLOWEST)
}

fn failed(host: String, error: &legacy::Error) -> HttpError {
    let why = innermost(error);
    if error.is_connect() {
        return HttpError::new(HttpErrorKind::Connect, Trouble::Unreachable { host, why });
    }
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        let timed_out = found.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if timed_out == Some(std::io::ErrorKind::TimedOut) {
            return HttpError::new(HttpErrorKind::Timeout, Trouble::Slow { host });
        }
        cause = found.source();
    }
    HttpError::new(HttpErrorKind::Interrupted, Trouble::BrokenOff { host, why })
}

/// What the error at the bottom says: those above it say the same with times and counts.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut bottom = error;
    while let Some(source) = bottom.source() {
        bottom = source;
    }
    bottom.to_string()
}

/// What a refusal says, without what it repeats of the request, such as the token in its canonical form.
fn told(words: &str) -> String {
    let parts = ["Code", "Message"].into_iter().filter_map(|name| element(words, name));
    parts.collect::<Vec<_>>().join(": ").chars().filter(|c| !c.is_control()).take(MOST_TOLD).collect()
}

fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

/// A body that has to be there in time.
struct Timed<B> {
    inner: B,
    until: Pin<Box<Sleep>>,
}

#[derive(Debug, thiserror::Error)]
enum TimedError<E> {
    #[error("it was not whole in time")]
    Late,
    #[error(transparent)]
    Inner(E),
}

impl<B> Body for Timed<B>
where
    B: Body<Data = Bytes, Error: std::error::Error + 'static> + Unpin,
{
    type Data = Bytes;
    type Error = TimedError<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // What is there already is taken, however late.
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(TimedError::Inner)));
        }
        if self.until.deadline() > Instant::now() && self.until.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(TimedError::Late)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_its_code_and_message_and_nothing_that_it_repeats_of_the_request() {
        let words = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>The request signature\n we calculated does not match</Message><CanonicalRequest>x-amz-security-token:CANARY</CanonicalRequest></Error>";
        assert_eq!(told(words), "SignatureDoesNotMatch: The request signature we calculated does not match");
        assert_eq!(told("<html>CANARY</html>"), "");
        assert_eq!(told(&format!("<Code>{}</Code>", "x".repeat(1000))).len(), MOST_TOLD);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_ends() {
        #[derive(Debug)]
        struct Endless;
        impl Body for Endless {
            type Data = Bytes;
            type Error = std::convert::Infallible;
            fn poll_frame(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
                Poll::Pending
            }
        }
        let body = Timed { inner: Endless, until: Box::pin(tokio::time::sleep(time_for(0))) };
        assert!(matches!(body.collect().await, Err(TimedError::Late)));
    }
}
