//! A list and then a watch, for ever.

use std::collections::VecDeque;
use std::fmt;

use futures::stream::{BoxStream, StreamExt as _, unfold};
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;

/// Lists, watches from there on, and lists anew when the server has forgotten that far.
///
/// [`watcher::watcher`] alone does the last only when the server says so in the stream. A server may also
/// answer 410 instead of one, and then the watcher would ask for the same resourceVersion again and again: a
/// cache that never learns anything more. A client that was stopped for a minute meets that.
///
/// The stream never ends. After an error whoever reads it waits before the next; `Init` comes when the server
/// has answered the list that it begins.
pub fn watch_events<K>(
    api: Api<K>,
    config: watcher::Config,
) -> BoxStream<'static, Result<Event<K>, watcher::Error>>
where
    K: kube::Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
{
    #[allow(clippy::disallowed_methods, reason = "here it is wrapped")]
    let begin = move || watcher::watcher(api.clone(), config.clone()).boxed();
    unfold(Place { events: begin(), begin, ready: VecDeque::new() }, |mut place| async move {
        let event = place.next().await?;
        Some((event, place))
    })
    .boxed()
}

type Told<K> = Result<Event<K>, watcher::Error>;

/// Where in the stream its reader is.
struct Place<K: 'static, B> {
    begin: B,
    events: BoxStream<'static, Told<K>>,
    /// What is to be told before more is read.
    ready: VecDeque<Told<K>>,
}

impl<K, B: Fn() -> BoxStream<'static, Told<K>>> Place<K, B> {
    async fn next(&mut self) -> Option<Told<K>> {
        if let Some(event) = self.ready.pop_front() {
            return Some(event);
        }
        let mut event = self.events.next().await?;
        // The watcher tells that it will list before it has asked. To a reader that would look like an answer
        // of a server that answers nothing, and end its back-off.
        while matches!(event, Ok(Event::Init)) {
            let first = self.events.next().await?;
            if first.is_ok() && !matches!(first, Ok(Event::Init)) {
                self.ready.push_back(first);
                return Some(event);
            }
            event = first;
        }
        if event.as_ref().is_err_and(has_lost_its_place) {
            self.events = (self.begin)();
        }
        Some(event)
    }
}

fn has_lost_its_place(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;
    use crate::resource_of;

    fn answers(status: u16, body: serde_json::Value) -> Api<DynamicObject> {
        let service = tower::service_fn(move |_: Request<Body>| {
            let body = body.to_string();
            async move { Response::builder().status(status).body(Body::from(body.into_bytes())) }
        });
        Api::all_with(Client::new(service, "default"), &resource_of::<convoy_api::OCIRegistry>())
    }

    #[tokio::test]
    async fn a_list_that_fails_begins_nothing() {
        let status = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
        let mut events = watch_events(answers(404, status), watcher::Config::default());
        for _ in 0..3 {
            assert!(events.next().await.unwrap().is_err());
        }
    }

    #[tokio::test]
    async fn an_empty_list_begins_and_ends() {
        let list = json!({
            "kind": "OCIRegistryList", "apiVersion": "convoy.kumodo.io/v1alpha1",
            "metadata": {"resourceVersion": "7"}, "items": [],
        });
        let mut events = watch_events(answers(200, list), watcher::Config::default());
        assert!(matches!(events.next().await, Some(Ok(Event::Init))));
        assert!(matches!(events.next().await, Some(Ok(Event::InitDone))));
    }
}
