//! watch: frames of JSON until the time is up.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use convoy_meta::{ListOptions, Reason, Status};
use convoy_registry::{Resource, watch_status};
use convoy_storage::watch_cache::{Delivery, DeliveryKind, Watcher};
use futures::Stream;
use http_body::Frame;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::table::{self, IncludeObject};
use super::{Api, namespace};
use crate::call::Call;
use crate::filters::Now;
use crate::negotiation::{Accepted, Transform, accept};
use crate::request_info::ResourceRequest;
use crate::response::{self, Response};
use crate::server::closed;

impl Api {
    pub(super) async fn watch(
        &self,
        call: &Call,
        request: &ResourceRequest,
        resource: &Resource,
    ) -> Result<Response, Status> {
        let transforms = [Transform::Table, Transform::PartialObjectMetadata];
        let accepted = accept(&call.headers, &call.query, &transforms)?;
        let options = ListOptions { watch: true, ..ListOptions::parse(&call.query)? };
        let resource = self
            .registry
            .table()
            .find(&resource.group, &resource.version, &resource.plural)
            .ok_or_else(Status::unknown_resource)?;
        let watcher = match self.registry.watch(&resource, namespace(request), &options).await {
            // As kube-apiserver does, whose watch cache tells it in the stream: there are clients that list anew
            // only then (staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go, Watch).
            Err(status) if status.reason() == Reason::Expired => {
                let frame = futures::stream::once(async move { Ok(Frame::data(error_frame(&status))) });
                let mut answer = http::Response::new(response::stream(frame));
                response::describe(&mut answer, &Accepted { gzip: false, pretty: false, ..accepted });
                return Ok(answer);
            }
            other => other?,
        };
        let timeout = options.timeout_seconds.filter(|seconds| *seconds > 0);
        let timeout = timeout.map_or_else(|| self.watch_lifetime(), Duration::from_secs);
        let plain = Accepted { gzip: false, pretty: false, ..accepted };
        let columns = table::columns(&resource);
        let running = Running {
            watcher,
            shape: Shape {
                resource,
                transform: plain.transform,
                include: IncludeObject::of(&call.query),
                columns: Some(columns),
                now: call.clock.clone(),
            },
            bookmarks: options.allow_watch_bookmarks,
            deadline: Instant::now() + timeout,
            stopping: call.stopping.clone(),
            ended: false,
        };
        let mut answer = http::Response::new(response::stream(running.frames()));
        response::describe(&mut answer, &plain);
        Ok(answer)
    }

    /// Between once and twice the shortest time, so that watches do not all end together.
    fn watch_lifetime(&self) -> Duration {
        let spread = u64::try_from(uuid::Uuid::new_v4().as_u128() & 0xffff).unwrap_or(0);
        self.watch_timeout + self.watch_timeout.mul_f64(spread as f64 / 65_536.0)
    }
}

struct Running {
    watcher: Watcher,
    shape: Shape,
    bookmarks: bool,
    deadline: Instant,
    stopping: watch::Receiver<bool>,
    ended: bool,
}

impl Running {
    fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
        futures::stream::unfold(self, |mut running| async move {
            let bytes = running.next().await?;
            Some((Ok(Frame::data(bytes)), running))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let events = tokio::select! {
            events = self.watcher.next() => events,
            () = sleep_until(self.deadline) => return self.last(),
            () = closed(&self.stopping) => return self.last(),
        };
        match events {
            Ok(events) => {
                if let ([event], None) = (events.as_slice(), self.shape.transform) {
                    return Some(event.frame());
                }
                let mut out = Vec::new();
                for event in &events {
                    self.shape.write(&mut out, event);
                }
                Some(out.into())
            }
            Err(error) => {
                self.ended = true;
                Some(error_frame(&watch_status(&error)))
            }
        }
    }

    /// The bookmark with which a watch ends in good order, so that its client can go on from there.
    fn last(&mut self) -> Option<Bytes> {
        self.ended = true;
        if !self.bookmarks || !self.watcher.is_past_initial_events() {
            return None;
        }
        let mut out = Vec::new();
        self.shape.write(&mut out, &self.watcher.bookmark());
        Some(out.into())
    }
}

fn error_frame(status: &Status) -> Bytes {
    let status = serde_json::to_string(status).unwrap_or_default();
    format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into()
}

/// How the events of one watch are written.
struct Shape {
    resource: std::sync::Arc<Resource>,
    transform: Option<Transform>,
    include: IncludeObject,
    /// Only the first Table of a watch has columns.
    columns: Option<String>,
    now: Now,
}

impl Shape {
    fn write(&mut self, out: &mut Vec<u8>, event: &Delivery) {
        let Some(transform) = self.transform else {
            out.extend_from_slice(&event.frame());
            return;
        };
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(event.kind().as_str().as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        let bookmark = event.kind() == DeliveryKind::Bookmark;
        match transform {
            Transform::Table => {
                let metadata = format!("{{\"resourceVersion\":\"{}\"}}", event.revision());
                let columns = self.columns.take().unwrap_or_else(|| "null".to_owned());
                table::start(out, &metadata, &columns);
                match event.entry() {
                    Some(entry) if !bookmark => {
                        table::row(out, &self.resource, entry, self.include, (self.now)());
                    }
                    _ => {
                        // Clients find the version in the row's object.
                        let count = self.resource.table_columns().len();
                        let cells = vec!["null"; count].join(",");
                        out.extend_from_slice(format!("{{\"cells\":[{cells}],\"object\":").as_bytes());
                        match self.include {
                            IncludeObject::Object => out.extend_from_slice(&event.object()),
                            IncludeObject::None | IncludeObject::Metadata => partial_bookmark(out, event),
                        }
                        out.push(b'}');
                    }
                }
                out.extend_from_slice(b"]}");
            }
            Transform::PartialObjectMetadata | Transform::PartialObjectMetadataList => match event.entry() {
                Some(entry) if !bookmark => table::partial(out, entry),
                _ => partial_bookmark(out, event),
            },
        }
        out.extend_from_slice(b"}\n");
    }
}

fn partial_bookmark(out: &mut Vec<u8>, event: &Delivery) {
    let object: serde_json::Value = serde_json::from_slice(&event.object()).unwrap_or_default();
    out.extend_from_slice(convoy_meta::table::partial_object_metadata(&object).to_string().as_bytes());
}
