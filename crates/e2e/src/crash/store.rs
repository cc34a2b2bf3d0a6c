//! A render store in which one read or write goes wrong.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use http::Method;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::script::{Fault, Script, Side, Step};
use super::source::damaged;

/// What one process sees of the store: nothing, once it is dead.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    script: Script,
    /// How many processes had died when this one began.
    life: usize,
}

impl FaultyStore {
    /// A view of a store for the process that begins now.
    pub fn new(inner: Arc<dyn ObjectStore>, script: Script) -> Self {
        let life = script.deaths();
        Self { inner, script, life }
    }

    fn is_dead(&self) -> bool {
        self.script.deaths() != self.life
    }

    async fn notice(&self, method: Method, name: &Path) -> Result<Option<Fault>> {
        if self.is_dead() {
            return Err(broken());
        }
        let step = Step::new(Side::Store, method, name.as_ref());
        let (_, fault) = self.script.notice(step).await;
        if self.is_dead() {
            return Err(broken());
        }
        match fault {
            Some(Fault::KillBefore) => self.script.kill(),
            Some(Fault::Refused) => {}
            Some(Fault::Missing) => {
                return Err(Error::NotFound { path: name.to_string(), source: "it is lost".into() });
            }
            fault => return Ok(fault),
        }
        Err(broken())
    }

    /// What becomes of a step that was carried out.
    fn end<T>(&self, fault: Option<Fault>, outcome: Result<T>) -> Result<T> {
        match fault {
            Some(fault) if fault.kills() => self.script.kill(),
            Some(Fault::LostResponse) => {}
            _ if self.is_dead() => {}
            _ => return outcome,
        }
        Err(broken())
    }
}

fn broken() -> Error {
    Error::Generic { store: "faulty", source: "the connection is broken".into() }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with faults", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, name: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let fault = self.notice(Method::PUT, name).await?;
        let payload = match fault {
            Some(Fault::Damaged) => damaged(&payload.iter().flatten().copied().collect::<Vec<u8>>()).into(),
            _ => payload,
        };
        let outcome = self.inner.put_opts(name, payload, options).await;
        self.end(fault, outcome)
    }

    async fn put_multipart_opts(
        &self,
        name: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(name, options).await
    }

    async fn get_opts(&self, name: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let fault = self.notice(if is_head { Method::HEAD } else { Method::GET }, name).await?;
        let outcome = self.inner.get_opts(name, options).await;
        let outcome = match (fault, outcome) {
            (Some(Fault::Damaged), Ok(found)) if !is_head => {
                let (meta, range) = (found.meta.clone(), found.range.clone());
                let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
                let bytes = damaged(&found.bytes().await?);
                let stream = futures::stream::iter([Ok(bytes.into())]);
                let payload = GetResultPayload::Stream(Box::pin(stream));
                Ok(GetResult { payload, meta, range, attributes, extensions })
            }
            (_, outcome) => outcome,
        };
        self.end(fault, outcome)
    }

    fn delete_stream(&self, names: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.is_dead() {
            return Box::pin(futures::stream::iter([Err(broken())]));
        }
        self.inner.delete_stream(names)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;

    use super::*;
    use crate::crash::script::Spoil;

    #[tokio::test]
    async fn a_process_that_died_in_the_store_reads_and_writes_nothing_more_and_the_next_one_does() {
        let (inner, script): (Arc<dyn ObjectStore>, _) = (Arc::new(InMemory::new()), Script::default());
        let name = Path::from("bundles/a");
        let first = FaultyStore::new(Arc::clone(&inner), script.clone());
        script.arm(Spoil { at: 0, fault: Fault::KillAfter, times: 1, after: Duration::ZERO });
        assert!(first.put(&name, "one".into()).await.is_err());
        assert!(script.is_killed());
        script.revive();
        assert!(first.put(&name, "two".into()).await.is_err());
        assert!(first.get(&name).await.is_err());
        let next = FaultyStore::new(inner, script);
        assert_eq!(&*next.get(&name).await.unwrap().bytes().await.unwrap(), b"one");
    }

    #[tokio::test]
    async fn what_is_read_can_be_damaged_or_missing() {
        let script = Script::default();
        let store = FaultyStore::new(Arc::new(InMemory::new()), script.clone());
        let name = Path::from("bundles/a");
        store.put(&name, "one".into()).await.unwrap();
        let spoil = |fault| script.arm(Spoil { at: 0, fault, times: 1, after: Duration::ZERO });
        spoil(Fault::Damaged);
        assert_ne!(&*store.get(&name).await.unwrap().bytes().await.unwrap(), b"one");
        spoil(Fault::Missing);
        assert!(matches!(store.get(&name).await, Err(Error::NotFound { .. })));
        assert_eq!(&*store.get(&name).await.unwrap().bytes().await.unwrap(), b"one");
    }
}
