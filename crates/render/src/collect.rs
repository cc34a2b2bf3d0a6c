//! Garbage collection: what nothing references, and what becomes of it.
//!
//! Who is about to reference an object [touches](crate::RenderStore::touch_bundle) it first. But a collection acts on
//! what it listed some time ago, and no backend deletes an object only if it is still as old as it was listed. So
//! an unreferenced object is not deleted but set aside, where every reader still finds it and puts it back; it is
//! deleted a whole grace later, when there is still no reference.

use std::collections::HashSet;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use object_store::path::Path;

use crate::blob;
use crate::digest::{hex_of, text};
use crate::kept::Kept;
use crate::shelf::{Shelf, aside, find};
use crate::store::{ARTIFACTS, BUNDLES, MAX_PAYLOAD_BYTES, RENDERS, SOURCES};

/// Requests of a collection that are under way at once.
const CONCURRENT: usize = 8;
/// What one collection changes at most; the next one goes on.
const MOST_CHANGES: usize = 10_000;

type Digest = [u8; 32];

/// What is referenced.
#[derive(Debug, Default)]
pub struct References {
    objects: HashSet<Digest>,
    sources: HashSet<Digest>,
}

impl References {
    /// An artifact or a bundle; text that is no digest is left out.
    pub fn add(&mut self, digest: &str) {
        self.objects.extend(parse(digest));
    }

    /// What somebody asks a registry for, by the key of [`RenderStore::put_kept`](crate::RenderStore::put_kept).
    pub fn add_source(&mut self, key: &str) {
        self.sources.extend(parse(key));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len() + self.sources.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn has(&self, folder: &str, digest: &Digest) -> bool {
        if folder == SOURCES { self.sources.contains(digest) } else { self.objects.contains(digest) }
    }
}

fn parse(digest: &str) -> Option<Digest> {
    let hex = hex_of(digest)?.as_bytes();
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(hex.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

fn digest_in(name: &Path) -> Option<Digest> {
    parse(&format!("sha256:{}", name.filename()?))
}

/// What a collection did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Objects that were deleted.
    pub deleted: usize,
    /// Their bytes.
    pub deleted_bytes: u64,
    /// Objects that were set aside.
    pub set_aside: usize,
    /// Objects that were set aside before and are referenced again.
    pub put_back: usize,
    /// Objects that stay, but for notes of what was rendered.
    pub kept: usize,
    /// Whether something was left for the next collection.
    pub is_partial: bool,
}

/// Where an object lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where it was written; `also_aside` when a copy is set aside.
    Live { also_aside: bool },
    /// Where a collection put it.
    Aside,
}

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    SetAside,
    PutBack,
    Delete,
}

/// Decides about one object.
fn verdict(place: Place, is_referenced: bool, age: Duration, grace: Duration) -> Verdict {
    match (place, is_referenced) {
        (Place::Live { .. }, true) => Verdict::Keep,
        (Place::Aside, true) => Verdict::PutBack,
        _ if age < grace => Verdict::Keep,
        // Its copy goes in this collection: were both moved at once, the later deletion could hit the newer copy.
        (Place::Live { also_aside: true }, false) => Verdict::Keep,
        (Place::Live { also_aside: false }, false) => Verdict::SetAside,
        (Place::Aside, false) => Verdict::Delete,
    }
}

/// How a collection goes about it.
pub(crate) struct Terms<'a> {
    /// How long an object that is not referenced stays where it is, and then aside.
    pub(crate) grace: Duration,
    /// Asked before each change.
    pub(crate) may_go_on: &'a (dyn Fn() -> bool + Sync),
}

/// One change that was decided.
struct Change {
    name: Path,
    size: u64,
    verdict: Verdict,
}

/// Collects what `references`, which were listed before, do not hold.
pub(crate) async fn collect<S: Shelf>(
    shelf: &S,
    mut references: References,
    terms: &Terms<'_>,
) -> Result<Collected, object_store::Error> {
    follow_sources(shelf, &mut references).await?;
    let now = shelf.now().await?;
    let mut collected = Collected::default();
    let mut changes = Vec::new();
    for folder in [ARTIFACTS, SOURCES, BUNDLES] {
        let folder_path = Path::from(folder);
        let mut lying_aside = HashSet::new();
        for (place, path) in [(Place::Aside, aside(&folder_path)), (LIVE, folder_path.clone())] {
            let mut listed = shelf.list(&path);
            while let Some(object) = listed.try_next().await? {
                if !(terms.may_go_on)() {
                    // Nothing may be changed any more; a long list is not read on for nothing.
                    collected.is_partial = true;
                    return Ok(collected);
                }
                let Some(digest) = digest_in(&object.name) else { continue };
                let place = match place {
                    Place::Aside => {
                        lying_aside.insert(digest);
                        place
                    }
                    Place::Live { .. } => Place::Live { also_aside: lying_aside.contains(&digest) },
                };
                let age = age(now, object.written);
                let verdict = verdict(place, references.has(folder, &digest), age, terms.grace);
                let name: Path = folder_path.parts().chain(object.name.parts().next_back()).collect();
                match verdict {
                    Verdict::Keep => collected.kept += 1,
                    _ if changes.len() >= MOST_CHANGES => collected.is_partial = true,
                    _ => changes.push(Change { name, size: object.size, verdict }),
                }
            }
        }
    }
    let made = futures::stream::iter(changes)
        .map(|change| async move { carry_out(shelf, &change, terms).await.map(|is_made| (change, is_made)) })
        .buffer_unordered(CONCURRENT);
    let made: Vec<(Change, bool)> = made.try_collect().await?;
    for (change, is_made) in made {
        match change.verdict {
            _ if !is_made => collected.is_partial = true,
            Verdict::SetAside => collected.set_aside += 1,
            Verdict::PutBack => collected.put_back += 1,
            Verdict::Delete => {
                collected.deleted += 1;
                collected.deleted_bytes += change.size;
            }
            Verdict::Keep => {}
        }
    }
    if collected.deleted > 0 {
        forget_renders(shelf, now, terms, &mut collected).await?;
    }
    Ok(collected)
}

const LIVE: Place = Place::Live { also_aside: false };

fn age(now: Timestamp, written: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(written)).unwrap_or_default()
}

/// Adds the artifacts that referenced requests to registries came to.
async fn follow_sources<S: Shelf>(shelf: &S, references: &mut References) -> Result<(), object_store::Error> {
    let sources: Vec<Digest> = references.sources.iter().copied().collect();
    let found = futures::stream::iter(sources)
        .map(|digest| async move {
            let key = text(&digest);
            let name = Path::from_iter([SOURCES, hex_of(&key).unwrap_or_default()]);
            find(shelf, &name).await
        })
        .buffer_unordered(CONCURRENT);
    let found: Vec<Option<bytes::Bytes>> = found.try_collect().await?;
    for blob in found.into_iter().flatten() {
        // One that cannot be read is made anew by who asks for it.
        let payload = blob::open(&blob, MAX_PAYLOAD_BYTES).ok();
        let kept = payload.and_then(|(payload, _)| serde_json::from_slice::<Kept>(&payload).ok());
        if let Some(kept) = kept {
            references.add(&kept.artifact.digest);
        }
    }
    Ok(())
}

/// Whether the change was made; when not, it is left for another collection.
async fn carry_out<S: Shelf>(
    shelf: &S,
    change: &Change,
    terms: &Terms<'_>,
) -> Result<bool, object_store::Error> {
    if !(terms.may_go_on)() {
        return Ok(false);
    }
    let (name, beside) = (&change.name, aside(&change.name));
    match change.verdict {
        Verdict::Keep => {}
        Verdict::SetAside => {
            if let Some(blob) = shelf.read(name).await? {
                shelf.write(&beside, blob).await?;
                if !(terms.may_go_on)() {
                    return Ok(false);
                }
                shelf.delete(name).await?;
            }
        }
        Verdict::PutBack => {
            find(shelf, name).await?;
            shelf.delete(&beside).await?;
        }
        Verdict::Delete => shelf.delete(&beside).await?,
    }
    Ok(true)
}

/// Deletes notes of what was rendered whose bundle is gone. They are only short cuts: nobody misses one.
async fn forget_renders<S: Shelf>(
    shelf: &S,
    now: Timestamp,
    terms: &Terms<'_>,
    collected: &mut Collected,
) -> Result<(), object_store::Error> {
    let folder = Path::from(RENDERS);
    let listed = shelf.list(&folder);
    let while_allowed = listed.take_while(|_| std::future::ready((terms.may_go_on)()));
    let old = while_allowed.try_filter(|object| std::future::ready(age(now, object.written) >= terms.grace));
    let gone = old
        .map_ok(|object| async move {
            let Some(blob) = shelf.read(&object.name).await? else { return Ok(0) };
            let bundle = blob::open(&blob, MAX_PAYLOAD_BYTES).ok();
            let bundle = bundle.map(|(payload, _)| String::from_utf8_lossy(&payload).into_owned());
            if let Some(hex) = bundle.as_deref().and_then(hex_of) {
                let bundle = Path::from_iter([BUNDLES, hex]);
                if shelf.has(&bundle).await? || shelf.has(&aside(&bundle)).await? {
                    return Ok(0);
                }
            }
            if !(terms.may_go_on)() {
                return Ok(0);
            }
            shelf.delete(&object.name).await.map(|()| 1)
        })
        .try_buffer_unordered(CONCURRENT);
    collected.deleted += gone.try_fold(0, |sum, gone| std::future::ready(Ok(sum + gone))).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
