//! A repository in a folder of this machine, read without any transport.

use gix::bstr::ByteSlice;
use gix::refs::TargetRef;

use crate::error::Failure;
use crate::fetcher::{FetchRequest, FetcherOptions, Found, Tip};
use crate::job::Job;
use crate::reference::GitRef;
use crate::tree;

/// Symbolic references that are followed; Git's own limit is 5.
const MAX_SYMBOLIC: usize = 5;

pub(crate) fn fetch_tree(
    options: &FetcherOptions,
    request: &FetchRequest,
    job: &Job,
) -> Result<Found, Failure> {
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
    let mut tip = resolve(&repository, &request.reference)?;
    tip.object = tree::peeled(&repository.objects, tip.object)?;
    if request.is_known(&tip) {
        return Ok(Found::Unchanged(tip));
    }
    let root = tree::root_of(&repository.objects, tip.object)?;
    let (folder, notes) = tree::read(&repository.objects, root, options.limits, job.cancelled())?;
    Ok(Found::New { tip, folder, notes })
}

fn resolve(repository: &gix::Repository, reference: &GitRef) -> Result<Tip, Failure> {
    let mut name = match (reference, reference.full_name()) {
        (GitRef::Commit(id), _) => return Ok(Tip { name: None, object: id.0 }),
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
                let short = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/"));
                let short = short.unwrap_or(&name).to_owned();
                return Ok(Tip { name: Some(short), object: id.to_owned() });
            }
            TargetRef::Symbolic(next) => name = next.as_bstr().to_str_lossy().into_owned(),
        }
    }
    Err(Failure::NotARepository { detail: "too many symbolic references".to_owned() })
}
