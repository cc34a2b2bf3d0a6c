use convoy_api::reason;

use crate::credentials::CredentialsError;
use crate::reference::RefError;
use crate::submodules::SubmoduleError;
use crate::tree::TreeError;
use crate::url::UrlError;

/// A fetch that failed: what was wanted from where; the [`Failure`] is its source.
#[derive(Debug, thiserror::Error)]
#[error("cannot fetch {wanted} from {url}")]
pub struct FetchError {
    /// The reference, for example `branch "main"`.
    pub wanted: String,
    /// The URL without credentials and query, or a placeholder when it could not be read.
    pub url: String,
    /// What sort of source it is.
    pub origin: Origin,
    /// What went wrong.
    #[source]
    pub failure: Failure,
}

/// The sorts of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A Git repository.
    Git,
    /// A Helm repository.
    Helm,
    /// An OCI registry.
    Oci,
}

/// What went wrong in a fetch, and what to do about it. No variant holds a credential.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The URL of the GitRepository.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The reference of the GitRepository.
    #[error(transparent)]
    Reference(#[from] RefError),
    /// More than one way to name a revision.
    #[error(
        "spec.ref names more than one of branch, tag, semver, name and commit: keep one (a commit may name its branch)"
    )]
    AmbiguousReference,
    /// A glob of `spec.include` or `spec.ignore`.
    #[error("spec.{field} has a glob that means nothing")]
    Glob {
        /// The field.
        field: &'static str,
        /// What is wrong.
        #[source]
        source: convoy_api::GlobError,
    },
    /// The Secret of the source.
    #[error("the Secret of spec.secretRef cannot be used")]
    Credentials(#[from] CredentialsError),
    /// `file://` outside of standalone.
    #[error("file:// URLs are allowed in standalone only: use https://")]
    FileUrl,
    /// Credentials would cross the network in clear text.
    #[error("credentials would be sent in clear text: use https://")]
    ClearTextCredentials,
    /// An SSH URL without a Secret.
    #[error("Git over SSH needs a key: name a Secret with identity and known_hosts in spec.secretRef")]
    SshKeyMissing,
    /// A host that known_hosts does not name.
    #[error(
        "{host} shows the host key {key}, which known_hosts of the Secret does not have: check the fingerprint with whoever runs the server, then add the host's line to known_hosts"
    )]
    HostKeyUnknown {
        /// The host as known_hosts would name it.
        host: Box<str>,
        /// SHA-256 and sort of the key.
        key: Box<str>,
    },
    /// A host that shows another key than known_hosts has.
    #[error(
        "{host} shows the host key {key}, but known_hosts of the Secret has {known} for it: either the server has a new key, or another machine answers in its place; check with whoever runs it before known_hosts is changed"
    )]
    HostKeyChanged {
        /// The host as known_hosts names it.
        host: Box<str>,
        /// SHA-256 and sort of the key.
        key: Box<str>,
        /// SHA-256 of the keys that were expected.
        known: Box<str>,
    },
    /// A host key that known_hosts revokes.
    #[error("{host} shows the host key {key}, which known_hosts of the Secret revokes")]
    HostKeyRevoked {
        /// The host as known_hosts names it.
        host: Box<str>,
        /// SHA-256 and sort of the key.
        key: Box<str>,
    },
    /// The server does not take our key.
    #[error(
        "the server refuses the key {fingerprint} of spec.secretRef for the user {user:?}: add its public key to those that may read the repository"
    )]
    SshKeyRefused {
        /// Who wanted in.
        user: String,
        /// SHA-256 of the public key.
        fingerprint: String,
    },
    /// The server runs nothing for us.
    #[error(
        "the server does not hand out the repository, {detail}: check the URL and the key's right to read it"
    )]
    SshRefused {
        /// What it says.
        detail: String,
    },
    /// Old or strange servers.
    #[error("the server and convoy have no {kind} algorithm in common; it offers {theirs}")]
    SshAlgorithms {
        /// What the algorithm is for.
        kind: String,
        /// What the server offers.
        theirs: String,
    },
    /// TLS wants a certificate of the client.
    #[error(
        "the server wants a client certificate, or refuses the one it got ({detail}): put tls.crt and tls.key into the Secret of spec.secretRef"
    )]
    ClientCertificate {
        /// What TLS says.
        detail: String,
    },
    /// The host's address may not be connected to.
    #[error("the host's address {address} is {kind}, which convoy does not connect to")]
    AddressRefused {
        /// The address that the name resolved to.
        address: std::net::IpAddr,
        /// What sort of address it is.
        kind: &'static str,
    },
    /// A redirect that is not followed.
    #[error("the server redirects to {to}, which is not followed {why}: put the final URL into spec.url")]
    Redirect {
        /// Scheme and host of the target, without credentials.
        to: String,
        /// Why not.
        why: &'static str,
    },
    /// No connection, or it broke.
    #[error("the server cannot be reached: {detail}; check spec.url and the network")]
    Unreachable {
        /// What the system says.
        detail: String,
    },
    /// The server's certificate is not trusted.
    #[error(
        "the server's certificate is not trusted ({detail}): if a private CA signed it, put the CA's certificate into key ca.crt of the Secret"
    )]
    Certificate {
        /// What TLS says.
        detail: String,
    },
    /// 401 or 403 without credentials.
    #[error(
        "the server wants credentials (HTTP {status}): name a Secret with username and password, or bearerToken, in spec.secretRef"
    )]
    CredentialsMissing {
        /// 401 or 403.
        status: u16,
    },
    /// 401 or 403 despite credentials.
    #[error(
        "the server refuses the credentials of spec.secretRef (HTTP {status}): check them and their right to read this repository"
    )]
    CredentialsRefused {
        /// 401 or 403.
        status: u16,
    },
    /// 404.
    #[error(
        "there is no such repository (HTTP 404): check the URL; some servers answer so when credentials are missing"
    )]
    RepositoryNotFound,
    /// Another HTTP status.
    #[error("the server answers HTTP {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// Not a Git server, or the "dumb" protocol of plain file servers.
    #[error("the server does not speak Git's smart HTTP protocol here: check the URL")]
    NotGit,
    /// Something broke in the protocol.
    #[error("the server's answer cannot be understood: {detail}")]
    Protocol {
        /// What was wrong.
        detail: String,
    },
    /// 404 or 410 of something that an index or a manifest names.
    #[error("the server has no such file (HTTP {status}); some answer so when credentials are missing")]
    NotFound {
        /// 404 or 410.
        status: u16,
    },
    /// An index that cannot be read.
    #[error("the index cannot be read: {detail}")]
    Index {
        /// What is wrong with it.
        detail: String,
    },
    /// No chart of the name.
    #[error("the index has no chart {chart:?}: check spec.source.helm.chart{similar}")]
    ChartNotFound {
        /// The name.
        chart: String,
        /// What else there is, for the message.
        similar: String,
    },
    /// No version in the range.
    #[error("the index has no version of the chart that matches {version:?}; it has {there}")]
    VersionNotFound {
        /// What was asked for.
        version: String,
        /// The newest versions.
        there: String,
    },
    /// Not a version and not a range.
    #[error("{version:?} is neither a version nor a range of versions: {detail}")]
    VersionRange {
        /// What was asked for.
        version: String,
        /// Why not.
        detail: String,
    },
    /// A download that is not what it should be.
    #[error("the server sent something else than what was asked for: its digest is {got}, not {want}")]
    Digest {
        /// What was promised.
        want: String,
        /// What came.
        got: String,
    },
    /// An archive that is none, or that breaks a rule.
    #[error("the archive is refused: {detail}")]
    Archive {
        /// Why.
        detail: String,
    },
    /// No tag in the range.
    #[error("the repository has no tag that matches {version:?}; it has {there}")]
    TagNotFound {
        /// What was asked for.
        version: String,
        /// The newest tags.
        there: String,
    },
    /// Not a way to name an artifact.
    #[error("spec.source.oci: {detail}")]
    OciReference {
        /// Why not.
        detail: String,
    },
    /// A manifest from which nothing can be taken.
    #[error("the manifest cannot be used: {detail}")]
    Manifest {
        /// Why not.
        detail: String,
    },
    /// A registry that would have our credentials sent to strangers.
    #[error(
        "the registry sends for a token to {host}, which is not of its own domain: the credentials are not sent there"
    )]
    TokenRealm {
        /// Where it sends.
        host: String,
    },
    /// Not an OCI registry.
    #[error("the server does not speak the protocol of OCI registries here: check spec.url")]
    NotRegistry,
    /// No folder, or no repository in it.
    #[error("there is no readable Git repository in this folder: {detail}")]
    NotARepository {
        /// What was wrong.
        detail: String,
    },
    /// No commit yet.
    #[error("the repository is empty: push a first commit")]
    Empty,
    /// No such branch or tag.
    #[error("it does not exist there: check spec.ref, or push it")]
    ReferenceNotFound,
    /// No such commit.
    #[error("the server has no such commit, or does not hand it out by id: name a branch or a tag")]
    CommitNotFound,
    /// A tag of a tree or a blob.
    #[error("it names a {kind}, not a commit")]
    NotACommit {
        /// `tree` or `blob`.
        kind: String,
    },
    /// SHA-256 repositories.
    #[error("the repository uses the object format {format:?}; only sha1 is supported yet")]
    ObjectFormat {
        /// What the server names.
        format: String,
    },
    /// More was sent than is allowed.
    #[error("the server sends more than {limit} bytes of {what}")]
    TooMuch {
        /// `references` or `objects`.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// An object that is not even unpacked.
    #[error("the repository holds an object of more than {limit} bytes")]
    ObjectTooLarge {
        /// The limit.
        limit: u64,
    },
    /// One submodule, and why it is not fetched.
    #[error("submodule {path:?}")]
    Submodule {
        /// Its path in the tree.
        path: Box<str>,
        /// What is wrong.
        #[source]
        problem: Box<SubmoduleError>,
    },
    /// The tree breaks a limit or a rule.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The time of `spec.timeout` is over.
    #[error("not done within {seconds} s (spec.timeout)")]
    Timeout {
        /// The time it had.
        seconds: u64,
    },
    /// The caller gave up, or the process stops.
    #[error("the fetch was cancelled")]
    Cancelled,
    /// The folder for downloads.
    #[error("cannot write to the folder for downloads")]
    Scratch(#[source] std::io::Error),
}

impl Failure {
    /// What went wrong in the fetch of a submodule, and else what it is itself.
    fn of_submodule(&self) -> &Self {
        match self {
            Self::Submodule { problem, .. } => match &**problem {
                SubmoduleError::Fetch { failure, .. } => failure,
                _ => self,
            },
            failure => failure,
        }
    }
}

/// Whether trying again soon can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It can pass by itself: retry with back-off.
    Transient,
    /// It stays until the spec, the Secret or the repository changes: look again at the next interval.
    Terminal,
}

impl FetchError {
    /// Whether trying again soon can help.
    pub fn class(&self) -> Class {
        match self.failure.of_submodule() {
            Failure::Unreachable { .. }
            | Failure::Protocol { .. }
            | Failure::Timeout { .. }
            | Failure::Cancelled
            | Failure::Scratch(_) => Class::Transient,
            Failure::Status { status } if *status == 429 || *status >= 500 => Class::Transient,
            _ => Class::Terminal,
        }
    }

    /// The reason for the condition Ready of the source; one of [`convoy_api::reason`].
    pub fn reason(&self) -> &'static str {
        let is_git = self.origin == Origin::Git;
        match self.failure.of_submodule() {
            Failure::Url(_)
            | Failure::Reference(_)
            | Failure::AmbiguousReference
            | Failure::Glob { .. }
            | Failure::Credentials(_)
            | Failure::FileUrl
            | Failure::SshKeyMissing
            | Failure::ClearTextCredentials
            | Failure::VersionRange { .. }
            | Failure::OciReference { .. }
            | Failure::AddressRefused { .. } => reason::INVALID_SPEC,
            Failure::HostKeyUnknown { .. }
            | Failure::HostKeyChanged { .. }
            | Failure::HostKeyRevoked { .. } => reason::HOST_KEY_REFUSED,
            Failure::CredentialsMissing { .. }
            | Failure::CredentialsRefused { .. }
            | Failure::ClientCertificate { .. }
            | Failure::SshKeyRefused { .. } => match is_git {
                true => reason::GIT_AUTHENTICATION_FAILED,
                false => reason::REGISTRY_AUTHENTICATION_FAILED,
            },
            Failure::TagNotFound { .. } if is_git => reason::GIT_REFERENCE_NOT_FOUND,
            Failure::ChartNotFound { .. }
            | Failure::VersionNotFound { .. }
            | Failure::TagNotFound { .. }
            | Failure::NotFound { .. } => reason::VERSION_NOT_FOUND,
            Failure::Empty
            | Failure::ReferenceNotFound
            | Failure::CommitNotFound
            | Failure::NotACommit { .. } => reason::GIT_REFERENCE_NOT_FOUND,
            Failure::TooMuch { .. }
            | Failure::Digest { .. }
            | Failure::Archive { .. }
            | Failure::Manifest { .. }
            | Failure::ObjectTooLarge { .. }
            | Failure::Tree(_)
            | Failure::Submodule { .. }
            | Failure::ObjectFormat { .. } => reason::ARTIFACT_REFUSED,

            Failure::Redirect { .. }
            | Failure::Index { .. }
            | Failure::TokenRealm { .. }
            | Failure::NotRegistry
            | Failure::Unreachable { .. }
            | Failure::Certificate { .. }
            | Failure::RepositoryNotFound
            | Failure::Status { .. }
            | Failure::NotGit
            | Failure::SshRefused { .. }
            | Failure::SshAlgorithms { .. }
            | Failure::Protocol { .. }
            | Failure::NotARepository { .. }
            | Failure::Timeout { .. }
            | Failure::Cancelled
            | Failure::Scratch(_) => match is_git {
                true => reason::GIT_UNREACHABLE,
                false => reason::REGISTRY_UNREACHABLE,
            },
        }
    }
}
