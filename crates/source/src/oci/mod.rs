//! OCI registries: charts that `helm push` put there, and artifacts of plain manifests.
//!
//! | module | what it is |
//! |---|---|
//! | `repository` | where something is, and how to log in there |
//! | `session` | requests to one registry, with its ways of logging in |
//! | `manifest` | manifests, indexes, and which layer is meant |
//! | `docker` | the logins of a dockerconfigjson |

mod docker;
mod manifest;
mod repository;
mod session;

use convoy_api::Artifact;
use url::Url;

use crate::error::{Failure, FetchError};
use crate::fetcher::{Fetcher, FetcherOptions};
use crate::helm::{digest_of, unpack};
use crate::index::{newest, order};
use crate::job::Job;
use crate::limits::Limits;
use crate::unpack;
use crate::web::Most;
use manifest::{Descriptor, Layer, Manifest};
pub use repository::{OciReference, OciRepository};
use session::Session;

/// Bytes of a manifest; registries take no larger ones.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// Bytes of one page of tags, pages, and tags of all pages.
const MAX_TAGS_BYTES: u64 = 4 << 20;
const MAX_PAGES: usize = 50;
const MAX_TAGS: usize = 100_000;

/// What a fetch from a registry found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchedOci {
    /// The reference is where the caller saw it last.
    Unchanged,
    /// The reference is somewhere else.
    New {
        /// Its files.
        artifact: Artifact,
        /// Tag and digest, to ask whether it is still the same.
        upstream: String,
    },
}

impl Fetcher {
    /// Asks whether a registry answers, and takes our login; says in words what it answered.
    pub async fn oci_ping(&self, registry: &OciRepository) -> Result<&'static str, FetchError> {
        let (at, error) = (registry.clone(), registry.error("an answer".to_owned()));
        self.run(registry.timeout, move |options, job| Session::new(&at, options, job).ping())
            .await
            .map_err(error)
    }

    /// Fetches what a reference names, unless it is what `known` says.
    pub async fn oci(
        &self,
        repository: &OciRepository,
        reference: &OciReference,
        known: Option<String>,
    ) -> Result<FetchedOci, FetchError> {
        let error = repository.error(format!("{reference} of {}", repository.name));
        let (at, reference) = (repository.clone(), reference.clone());
        self.run(repository.timeout, move |options, job| {
            fetch(options, &at, &reference, known.as_deref(), job)
        })
        .await
        .map_err(error)
    }
}

fn fetch(
    options: &FetcherOptions,
    repository: &OciRepository,
    reference: &OciReference,
    known: Option<&str>,
    job: &Job,
) -> Result<FetchedOci, Failure> {
    let session = Session::new(repository, options, job);
    let (tag, named) = match reference {
        OciReference::Tag(tag) => (Some(tag.clone()), tag.clone()),
        OciReference::Digest(digest) => (None, digest.clone()),
        OciReference::Semver(range) => {
            let tag = tag_in_range(&session, range)?;
            (Some(tag.clone()), tag)
        }
    };
    let upstream = |digest: &str| match &tag {
        Some(tag) => format!("{tag}@{digest}"),
        None => digest.to_owned(),
    };
    if let Some(known) = known
        && session.digest_of(&named)?.is_some_and(|digest| upstream(&digest) == known)
    {
        return Ok(FetchedOci::Unchanged);
    }
    let body = session.manifest(&named, tag.is_none().then_some(named.as_str()))?;
    let upstream = upstream(&digest_of(&body));
    if known == Some(upstream.as_str()) {
        return Ok(FetchedOci::Unchanged);
    }
    let manifest = match Manifest::parse(&body)? {
        Manifest::Index(manifests) => {
            let child = manifest::only(&manifests)?;
            let digest = child.checked_digest()?;
            Manifest::parse(&session.manifest(digest, Some(digest))?)?
        }
        image @ Manifest::Image { .. } => image,
    };
    let files = match manifest.layer()? {
        Layer::Chart(layer) => unpack(&blob(&session, &layer, options.limits)?)?,
        Layer::Files(layer) => {
            let blob = blob(&session, &layer, options.limits)?;
            unpack::files(&blob, options.limits, job)?
        }
    };
    job.left()?;
    Ok(FetchedOci::New { artifact: Artifact::new(upstream.as_str(), files), upstream })
}

fn blob(session: &Session<'_>, layer: &Descriptor, limits: Limits) -> Result<Vec<u8>, Failure> {
    let want = layer.checked_digest()?;
    let size = layer.size;
    let limit = limits.max_archive_bytes;
    if size > limit {
        return Err(Failure::TooMuch { what: "the layer", limit });
    }
    let body = session.blob(want, Most { what: "the layer", bytes: size })?;
    let got = digest_of(&body);
    if got != want {
        return Err(Failure::Digest { want: want.to_owned(), got });
    }
    Ok(body)
}

/// The tag whose version is the newest in a range. Of a tag, `_` stands for the `+` that a tag cannot have.
fn tag_in_range(session: &Session<'_>, range: &str) -> Result<String, Failure> {
    let mut tags: Vec<(String, String)> = Vec::new();
    let mut next = Some(session.tags_url());
    for _ in 0..MAX_PAGES {
        let Some(url) = next.take() else { break };
        let (page, following) = session.tags(&url)?;
        tags.extend(page.into_iter().map(|tag| (tag.replace('_', "+"), tag)));
        if tags.len() > MAX_TAGS {
            return Err(Failure::Protocol {
                detail: format!("the repository has more than {MAX_TAGS} tags"),
            });
        }
        next = following;
    }
    if next.is_some() {
        return Err(Failure::Protocol { detail: format!("the tags come on more than {MAX_PAGES} pages") });
    }
    tags.sort_by(|a, b| order(&a.0, &b.0));
    match newest(range, tags.iter(), |(version, _)| version)? {
        Some((_, tag)) => Ok(tag.clone()),
        None => {
            const SHOWN: usize = 5;
            let there: Vec<&str> = tags.iter().take(SHOWN).map(|(_, tag)| tag.as_str()).collect();
            let there = if there.is_empty() { "no tags".to_owned() } else { there.join(", ") };
            Err(Failure::TagNotFound { version: range.to_owned(), there })
        }
    }
}

/// The URL of a page of tags, when the server names one on its own origin.
fn following(url: &Url, link: &str) -> Option<Url> {
    let (target, parameters) = link.split_once('>')?;
    let is_next = parameters.split(';').any(|parameter| {
        let parameter = parameter.trim().replace('"', "");
        parameter.eq_ignore_ascii_case("rel=next")
    });
    let next = url.join(target.trim().strip_prefix('<')?).ok()?;
    (is_next && next.origin() == url.origin() && next != *url).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_next_page_is_on_the_same_origin() {
        let url = Url::parse("https://r.example/v2/a/tags/list?n=2").unwrap();
        let next = |link| following(&url, link).map(String::from);
        assert_eq!(
            next("</v2/a/tags/list?n=2&last=b>; rel=\"next\"").as_deref(),
            Some("https://r.example/v2/a/tags/list?n=2&last=b")
        );
        for bad in [
            "<https://evil.example/x>; rel=\"next\"",
            "</x>; rel=\"prev\"",
            "</v2/a/tags/list?n=2>; rel=next",
            "junk",
            "",
        ] {
            assert_eq!(next(bad), None, "{bad}");
        }
    }
}
