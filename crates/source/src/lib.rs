//! Sources: from a Git URL and a reference to an [`Artifact`](convoy_api::Artifact) in memory.
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
//! `https://` and `http://` speak Git's smart protocol; `file://` reads a folder, where the caller
//! allows it.

mod address;
mod credentials;
mod error;
mod exchange;
mod fetcher;
mod http;
mod job;
mod limits;
mod links;
mod local;
mod reference;
mod remote;
mod resolver;
mod tree;
mod url;

pub use address::AddressRules;
pub use credentials::{Credentials, CredentialsError};
pub use error::{Class, Failure, FetchError};
pub use fetcher::{FetchRequest, Fetched, Fetcher, FetcherOptions};
pub use limits::Limits;
pub use reference::{CommitId, GitRef, RefError, RefName};
pub use tree::TreeError;
pub use url::{GitUrl, UrlError};
