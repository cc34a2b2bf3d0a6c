//! A repository in a folder of this machine, read without any transport.

use gix::bstr::ByteSlice;
use gix::refs::TargetRef;

use crate::error::Failure;
use crate::fetcher::{Found, Tip, Work};
use crate::reference::{GitRef, TAGS, VersionRange};
use crate::tree;

/// Symbolic references that are followed; Git's own limit is 5.
const MAX_SYMBOLIC: usize = 5;

pub(crate) fn fetch_tree(work: Work<'_>) -> Result<Found, Failure> {
    let Work { options, request, job, at, spent } = work;
    if !options.allow_file_urls {
        return Err(Failure::FileUrl);
    }
    let path = request.url.file_path().ok_or(Failure::FileUrl)?;
    // Isolated: neither the environment nor any configuration outside of the repository is read.
    let repository = gix::open_opts(path, gix::open::Options::isolated())
        .map_err(|error| Failure::NotARepository { detail: error.to_string() })?;
    if repository.object_hash() != gix::hash::Kind::Sha1 {
        return Err(Failure::ObjectFormat { format: repository.object_hash().to_string() });
    }
    let tip = match &request.reference {
        GitRef::Semver(range) => newest_tag(&repository, range)?,
        reference => {
            let mut tip = resolve(&repository, reference)?;
            tip.object = tree::peeled(&repository.objects, tip.object)?;
            tip
        }
    };
    if request.is_known(&tip) {
        return Ok(Found::Unchanged(tip));
    }
    let root = tree::root_of(&repository.objects, tip.object)?;
    let tree = tree::read(&repository.objects, root, at, (options.limits, spent), job.cancelled())?;
    Ok(Found::New { tip, tree })
}

/// The newest version in a range of those tags that name commits.
fn newest_tag(repository: &gix::Repository, range: &VersionRange) -> Result<Tip, Failure> {
    let unreadable = |error: String| Failure::NotARepository { detail: error };
    let all = repository.references().map_err(|error| unreadable(error.to_string()))?;
    let tags = all.tags().map_err(|error| unreadable(error.to_string()))?;
    let tags = tags.filter_map(Result::ok).filter_map(|tag| {
        let name = tag.name().as_bstr().to_str().ok()?.strip_prefix(TAGS)?.to_owned();
        let object = tag.target().try_id()?.to_owned();
        Some((name, object))
    });
    for (name, want) in range.newest_first(tags.collect()) {
        let object = tree::peeled(&repository.objects, want)?;
        match tree::root_of(&repository.objects, object) {
            Ok(_) => return Ok(Tip { name: Some(name), object, want }),
            Err(Failure::NotACommit { .. }) => {}
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::TagNotFound {
        version: range.as_str().to_owned(),
        there: "none that is a version in this range and names a commit".to_owned(),
    })
}

fn resolve(repository: &gix::Repository, reference: &GitRef) -> Result<Tip, Failure> {
    let mut name = match (reference, reference.full_name()) {
        (GitRef::Commit(id) | GitRef::CommitOn(id, _), _) => return Ok(Tip::of_commit(id.0)),
        (_, name) => name.ok_or(Failure::ReferenceNotFound)?,
    };
    for _ in 0..MAX_SYMBOLIC {
        let found = repository
            .refs
            .try_find(name.as_str())
            .map_err(|error| Failure::NotARepository { detail: error.to_string() })?;
        // `try_find` also tries other folders for a name that is not there.
        let Some(found) = found.filter(|found| found.name.as_bstr() == name.as_bytes().as_bstr()) else {
            let is_unborn = *reference == GitRef::DefaultBranch;
            return Err(if is_unborn { Failure::Empty } else { Failure::ReferenceNotFound });
        };
        match found.target.to_ref() {
            TargetRef::Object(id) => {
                let shown = reference.shown_name(&name);
                return Ok(Tip { name: Some(shown), object: id.to_owned(), want: id.to_owned() });
            }
            TargetRef::Symbolic(next) => name = next.as_bstr().to_str_lossy().into_owned(),
        }
    }
    Err(Failure::NotARepository { detail: "too many symbolic references".to_owned() })
}
