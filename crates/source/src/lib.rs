//! Sources: from a URL and a reference to an [`Artifact`](convoy_api::Artifact) in memory.
//!
//! | source | module | what is fetched |
//! |---|---|---|
//! | Git repository | `remote`, `local` | one commit's tree |
//! | Helm repository | `helm` | its index, and the archive of one chart |
//! | OCI registry | `oci` | a chart, or one layer of manifests |
//!
//! [`Fetcher::fetch`] asks the server where the reference stands; when the caller has that revision,
//! nothing is downloaded. Otherwise one pack with a single commit is fetched, and its tree is read
//! straight from the object database: there is no checkout, and no program is run.
//!
//! A repository is not trusted. Names that mean something to Git or to a file system are refused,
//! symbolic links are resolved inside the tree and refused when they leave it, and everything that a
//! server sends has a limit ([`Limits`]). Credentials go to the host that they are for and to no other
//! ([`Credentials`]); the addresses that a name may resolve to are restricted ([`AddressRules`]).
//!
//! `https://`, `http://` and `ssh://` (`user@host:path`) speak Git's smart protocol; `file://` reads a folder,
//! where the caller allows it.

mod address;
mod credentials;
mod error;
mod exchange;
mod fetcher;
mod helm;
mod http;
mod index;
mod job;
mod limits;
mod links;
mod local;
mod oci;
mod reference;
mod remote;
mod resolver;
mod ssh;
mod submodules;
mod tree;
mod unpack;
mod url;
mod web;

pub use address::AddressRules;
pub use credentials::{Credentials, CredentialsError};
pub use error::{Class, Failure, FetchError, Origin};
pub use fetcher::{FetchRequest, Fetched, Fetcher, FetcherOptions};
pub use helm::{FetchedIndex, HelmRepository, Validators, digest_of};
pub use index::{ChartIndex, ChartVersion};
pub use limits::Limits;
pub use oci::{FetchedOci, OciReference, OciRepository};
pub use reference::{CommitId, GitRef, RefError, RefName, VersionRange};
pub use submodules::SubmoduleError;
pub use tree::TreeError;
pub use unpack::{pack_archive, unpack_archive};
pub use url::{GitUrl, UrlError};
