//! A list and then a watch, for ever.

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
/// The stream never ends. After an error whoever reads it waits before the next, longer each time that no event
/// [is an answer](is_answer) in between.
pub fn watch_events<K>(
    api: Api<K>,
    config: watcher::Config,
) -> BoxStream<'static, Result<Event<K>, watcher::Error>>
where
    K: kube::Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
{
    #[allow(clippy::disallowed_methods, reason = "here it is wrapped")]
    let begin = move || watcher::watcher(api.clone(), config.clone()).boxed();
    let events = begin();
    unfold((begin, events), |(begin, mut events)| async move {
        let event = events.next().await?;
        if event.as_ref().is_err_and(has_lost_its_place) {
            events = begin();
        }
        Some((event, (begin, events)))
    })
    .boxed()
}

/// Whether the server has answered something. `Init` comes when a list is about to be asked for: a server that
/// answers no list would end the back-off of its readers with it.
pub fn is_answer<K>(event: &Event<K>) -> bool {
    !matches!(event, Event::Init)
}

fn has_lost_its_place(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}
