//! Get, list and watch.

use std::sync::Arc;

use convoy_meta::resource_version::parse_resource_version;
use convoy_meta::{ContinueToken, GetOptions, ListOptions, ResourceVersionMatch, Status};
use convoy_storage::watch_cache::{At, CacheError, Entry, From, Selector, Start, WatchCache, Watcher};

use crate::failure::{fault_status, list_status, storage_status, watch_status};
use crate::{Listing, Registry, Resource};

impl Registry {
    /// Reads one object. `namespace` is empty for cluster-scoped resources, here and below.
    ///
    /// # Errors
    /// 404; 500 for an object whose stored bytes cannot be read.
    pub async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &GetOptions,
    ) -> Result<Arc<Entry>, Status> {
        let key = resource.key(namespace, name);
        let found = match parse_resource_version(&options.resource_version)? {
            None => self.current(resource, &key).await?,
            Some(0) => self.cache(resource).await?.get(&key, At::Any).await.map_err(|e| watch_status(&e))?,
            Some(revision) => {
                let cache = self.cache(resource).await?;
                cache.get(&key, At::NotOlderThan(revision)).await.map_err(|error| watch_status(&error))?
            }
        };
        let entry = found.ok_or_else(|| Status::not_found(&resource.group_resource(), name))?;
        if entry.fault().is_some() {
            return Err(fault_status(&entry));
        }
        Ok(entry)
    }

    /// Lists objects of one namespace, or of all if `namespace` is `None`.
    ///
    /// # Errors
    /// 400 for selectors of unknown fields, 410 for revisions that are gone, 504 for ones to come.
    pub async fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Listing, Status> {
        let selector = selector(resource, namespace, options)?;
        let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
        let token = match options.continue_token.as_str() {
            "" => None,
            text => Some(ContinueToken::decode(text)?),
        };
        let at = match &token {
            Some(ContinueToken { revision: Some(revision), .. }) => At::Exact(*revision),
            Some(ContinueToken { revision: None, .. }) => At::Latest,
            None => match parse_resource_version(&options.resource_version).map_err(invalid_version)? {
                None => At::Latest,
                Some(0) => At::Any,
                Some(revision) => match options.resource_version_match {
                    Some(ResourceVersionMatch::Exact) => At::Exact(revision),
                    Some(ResourceVersionMatch::NotOlderThan) => At::NotOlderThan(revision),
                    // A page without a word on how the version is meant is of exactly that version.
                    None if limit > 0 => At::Exact(revision),
                    None => At::NotOlderThan(revision),
                },
            },
        };
        let start_key = token.as_ref().map(|token| token.start_key.as_str());
        // A token names the first key of the page: the last one before it and a zero byte.
        let after = start_key.map(|key| key.trim_end_matches('\0'));
        let cache = self.cache(resource).await?;
        let list =
            cache.list(at, &selector, limit, after).await.map_err(|error| list_status(&error, start_key))?;
        let continue_token = list.more_after.map(|last| {
            let start_key = format!("{last}\0");
            ContinueToken { revision: Some(list.revision), start_key }.encode()
        });
        Ok(Listing {
            entries: list.entries,
            revision: list.revision,
            continue_token: continue_token.unwrap_or_default(),
            remaining: list.remaining,
        })
    }

    /// Watches objects of one namespace, or of all if `namespace` is `None`. Bookmarks come in between
    /// if the options allow them. An error of [`Watcher::next`] is sent as an `ERROR` event with the
    /// Status that [`watch_status`] makes of it.
    ///
    /// # Errors
    /// As [`Registry::list`].
    pub async fn watch(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watcher, Status> {
        let selector = selector(resource, namespace, options)?;
        let revision = parse_resource_version(&options.resource_version)?;
        let initial_at = match revision {
            None => At::Latest,
            Some(0) => At::Any,
            Some(revision) => At::NotOlderThan(revision),
        };
        let from = match (options.send_initial_events, revision) {
            (Some(true), _) => From::Initial { at: initial_at, end_bookmark: options.allow_watch_bookmarks },
            (None, None) => From::Initial { at: initial_at, end_bookmark: false },
            // As kube-apiserver does, although nobody asked.
            (None, Some(0)) => From::Initial { at: initial_at, end_bookmark: options.allow_watch_bookmarks },
            (Some(false), None | Some(0)) => From::Now,
            (None | Some(false), Some(revision)) => From::Revision(revision),
        };
        let bookmark_every = options.allow_watch_bookmarks.then_some(self.options.bookmark_every);
        let cache = self.cache(resource).await?;
        cache.watch(Start { from, bookmark_every }, selector).await.map_err(|error| watch_status(&error))
    }

    /// How many objects of the resource there are and how many of them cannot be read; 0 for a resource
    /// that nobody has listed yet.
    pub fn count(&self, resource: &Resource) -> (usize, usize) {
        resource.cache.get().map_or((0, 0), WatchCache::count)
    }

    /// The object as the storage has it now.
    pub(crate) async fn current(&self, resource: &Resource, key: &str) -> Result<Option<Arc<Entry>>, Status> {
        let read = self.storage.get(key).await.map_err(|error| storage_status(&error))?;
        Ok(read.found.map(|found| {
            let cached = resource.cache.get().and_then(|cache| cache.peek(key));
            match cached.filter(|entry| entry.revision() == found.revision) {
                Some(entry) => entry,
                None => Arc::new(Entry::read(resource.format(), &found.key, found.revision, &found.value)),
            }
        }))
    }

    /// The cache of a resource, filled by the first who reads it.
    pub(crate) async fn cache<'a>(&self, resource: &'a Resource) -> Result<&'a WatchCache, Status> {
        let start =
            || WatchCache::start(Arc::clone(&self.storage), resource.format().clone(), self.options.cache);
        let started: Result<_, CacheError> = resource.cache.get_or_try_init(start).await;
        started.map_err(|error| watch_status(&error))
    }
}

/// As kube-apiserver words it for a list.
fn invalid_version(mut status: Status) -> Status {
    status.message = format!("invalid resource version: {}", status.message);
    status
}

fn selector(resource: &Resource, namespace: Option<&str>, options: &ListOptions) -> Result<Selector, Status> {
    for requirement in options.field_selector.requirements() {
        let field = requirement.field.as_str();
        let known = field == "metadata.name"
            || (field == "metadata.namespace")
            || resource.selectable_fields.iter().any(|selectable| selectable == field);
        if !known {
            let text = if resource.selectable_fields.is_empty() {
                format!(
                    "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )
            } else {
                format!("field label not supported: {field}")
            };
            return Err(Status::bad_request(text));
        }
    }
    Ok(Selector {
        namespace: namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned),
        labels: options.label_selector.clone(),
        fields: options.field_selector.clone(),
    })
}

impl Registry {
    /// How many objects of a namespace are stored, whether they can be decoded or not. Needs no cache.
    pub(crate) async fn stored(&self, resource: &Resource, namespace: &str) -> Result<usize, Status> {
        let prefix = format!("{}{namespace}/", resource.format().prefix);
        let options = convoy_storage::ListOptions { limit: 1, ..convoy_storage::ListOptions::default() };
        let list = self.storage.list(&prefix, options).await.map_err(|error| storage_status(&error))?;
        Ok(list.items.len() + usize::try_from(list.remaining).unwrap_or(usize::MAX))
    }

    /// Removes objects of a namespace that cannot be decoded.
    pub(crate) async fn delete_broken(&self, resource: &Resource, namespace: &str) -> Result<(), Status> {
        let prefix = format!("{}{namespace}/", resource.format().prefix);
        let list = self.storage.list(&prefix, convoy_storage::ListOptions::default()).await;
        for item in list.map_err(|error| storage_status(&error))?.items {
            if Entry::read(resource.format(), &item.key, item.revision, &item.value).fault().is_some() {
                // Lost races are met again in the next round.
                let _ = self.storage.delete(&item.key, item.revision).await;
            }
        }
        Ok(())
    }
}
