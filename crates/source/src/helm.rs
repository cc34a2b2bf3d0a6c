//! A Helm repository: its index, and the archives of its charts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use convoy_api::{Artifact, HelmRegistrySpec};
use ureq::http::header;
use url::Url;

use crate::address::AddressRules;
use crate::credentials::Credentials;
use crate::error::{Failure, FetchError, Origin};
use crate::fetcher::{DEFAULT_TIMEOUT, Fetcher, FetcherOptions};
use crate::index::{ChartIndex, ChartVersion};
use crate::job::Job;
use crate::url::UrlError;
use crate::web::{self, Answer, Method, Most, Web};

/// A Helm repository, checked: where it is, and how to log in there.
#[derive(Debug, Clone)]
pub struct HelmRepository {
    /// The folder of the index, with a slash at the end.
    base: Url,
    credentials: Credentials,
    pass_credentials: bool,
    timeout: Duration,
}

/// What a server said of an index, to ask whether it is still the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    url: String,
    etag: Option<String>,
    last_modified: Option<String>,
}

/// What a look at an index found.
#[derive(Debug, Clone)]
pub enum FetchedIndex {
    /// The same as when the [`Validators`] were given.
    Unchanged,
    /// An index.
    New {
        /// What it says.
        index: ChartIndex,
        /// `sha256:<hex>` of its text.
        digest: String,
        /// For the next look.
        validators: Validators,
    },
}

impl HelmRepository {
    /// Reads a HelmRegistry's spec and the data of the Secret that it names.
    pub fn from_spec(
        spec: &HelmRegistrySpec,
        secret: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Result<Self, FetchError> {
        let url = parse(&spec.url);
        let failed = |failure: Failure| FetchError {
            wanted: "the index".to_owned(),
            url: url.as_ref().map_or_else(|_| "the URL in spec.url".to_owned(), web::shown),
            origin: Origin::Helm,
            failure,
        };
        let base = url.clone().map_err(|error| failed(error.into()))?;
        let credentials =
            secret.map(Credentials::from_secret).transpose().map_err(|error| failed(error.into()))?;
        Ok(Self {
            base,
            credentials: credentials.unwrap_or_default(),
            pass_credentials: spec.pass_credentials == Some(true),
            timeout: spec.timeout.map_or(DEFAULT_TIMEOUT, convoy_api::Duration::as_std),
        })
    }

    /// Where it is, for messages and keys.
    pub fn url(&self) -> &str {
        self.base.as_str()
    }

    fn error(&self, wanted: &str) -> impl Fn(Failure) -> FetchError + use<> {
        let (wanted, url) = (wanted.to_owned(), web::shown(&self.base));
        move |failure| FetchError { wanted: wanted.clone(), url: url.clone(), origin: Origin::Helm, failure }
    }

    /// The credentials for a URL: those of the repository for its own origin, and for others when the spec
    /// says so.
    fn authorization(&self, url: &Url, rules: AddressRules) -> Result<Option<&str>, Failure> {
        let Some(authorization) = self.credentials.authorization() else { return Ok(None) };
        if url.origin() != self.base.origin() && !self.pass_credentials {
            return Ok(None);
        }
        let stays_here = rules.allow_loopback && web::is_this_machine(url);
        if url.scheme() == "https" || stays_here {
            Ok(Some(authorization))
        } else {
            Err(Failure::ClearTextCredentials)
        }
    }

    /// The credentials of a client certificate hold for the connection, so that it is not shown to others.
    fn for_origin_of(&self, url: &Url) -> Credentials {
        if url.origin() == self.base.origin() || self.pass_credentials {
            self.credentials.clone()
        } else {
            self.credentials.without_identity()
        }
    }

    fn web(&self, url: &Url, options: &FetcherOptions, job: &Job) -> Web {
        Web::new(&self.for_origin_of(url), options.addresses, &options.user_agent, job)
    }
}

fn parse(text: &str) -> Result<Url, UrlError> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(UrlError::Malformed);
    }
    let mut url = Url::parse(text).map_err(|_| UrlError::HttpScheme)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlError::HttpScheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlError::Credentials);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(UrlError::Query);
    }
    if !url.path().ends_with('/') {
        let folder = format!("{}/", url.path());
        url.set_path(&folder);
    }
    Ok(url)
}

impl Fetcher {
    /// Reads the index of a repository, unless it is still what it was.
    pub async fn helm_index(
        &self,
        repository: &HelmRepository,
        known: Option<Validators>,
    ) -> Result<FetchedIndex, FetchError> {
        let (at, error) = (repository.clone(), repository.error("the index"));
        self.run(repository.timeout, move |options, job| index(options, &at, known.as_ref(), job))
            .await
            .map_err(error)
    }

    /// Downloads a chart of a version that [`ChartIndex::select`] chose.
    pub async fn helm_chart(
        &self,
        repository: &HelmRepository,
        chart: &str,
        version: &ChartVersion,
    ) -> Result<Artifact, FetchError> {
        let error = repository.error(&format!("chart {chart:?} {}", version.version));
        let (at, version) = (repository.clone(), version.clone());
        self.run(repository.timeout, move |options, job| archive(options, &at, &version, job))
            .await
            .map_err(error)
    }
}

impl ChartIndex {
    /// The version of a chart that is meant: the very one, else the newest in the range.
    pub fn version(
        &self,
        repository: &HelmRepository,
        chart: &str,
        version: Option<&str>,
    ) -> Result<&ChartVersion, FetchError> {
        let wanted = match version {
            Some(version) => format!("chart {chart:?} {version:?}"),
            None => format!("chart {chart:?}"),
        };
        self.select(chart, version).map_err(repository.error(&wanted))
    }
}

fn index(
    options: &FetcherOptions,
    repository: &HelmRepository,
    known: Option<&Validators>,
    job: &Job,
) -> Result<FetchedIndex, Failure> {
    // Never fails: the base ends with a slash.
    let url = repository.base.join("index.yaml").map_err(|_| UrlError::Malformed)?;
    let authorization = repository.authorization(&url, options.addresses)?;
    let known = known.filter(|known| known.url == url.as_str());
    let mut headers = Vec::new();
    if let Some(known) = known {
        headers.extend(known.etag.as_deref().map(|etag| ("If-None-Match", etag)));
        headers.extend(known.last_modified.as_deref().map(|time| ("If-Modified-Since", time)));
    }
    let most = Most { what: "the index", bytes: options.limits.max_index_bytes };
    let web = repository.web(&url, options, job);
    let answer = web.send(Method::Get, &url, authorization, &headers, most)?;
    match answer.status.as_u16() {
        304 if !headers.is_empty() => return Ok(FetchedIndex::Unchanged),
        404 | 410 => {
            let detail = format!("there is none (HTTP {}): check spec.url", answer.status.as_u16());
            return Err(Failure::Index { detail });
        }
        status => check(status, authorization.is_some())?,
    }
    let said = |name| answer.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let validators =
        Validators { url: url.into(), etag: said(header::ETAG), last_modified: said(header::LAST_MODIFIED) };
    let index = ChartIndex::parse(&answer.body, options.limits)?;
    job.left()?;
    Ok(FetchedIndex::New { index, digest: digest_of(&answer.body), validators })
}

fn archive(
    options: &FetcherOptions,
    repository: &HelmRepository,
    version: &ChartVersion,
    job: &Job,
) -> Result<Artifact, Failure> {
    let given = version.urls.first().map(String::as_str).unwrap_or_default();
    let bad = || Failure::Index { detail: "the chart's URL in it is none of http or https".to_owned() };
    let url = repository.base.join(given).ok().and_then(web::checked).ok_or_else(bad)?;
    if repository.base.scheme() == "https" && url.scheme() == "http" && version.digest.is_none() {
        let detail = "the chart's URL in it is not https, and it says no digest of the chart".to_owned();
        return Err(Failure::Index { detail });
    }
    let authorization = repository.authorization(&url, options.addresses)?;
    let most = Most { what: "the chart's archive", bytes: options.limits.max_archive_bytes };
    let web = repository.web(&url, options, job);
    let Answer { status, body, .. } = web.send(Method::Get, &url, authorization, &[], most)?;
    match status.as_u16() {
        status @ (404 | 410) => return Err(Failure::NotFound { status }),
        status => check(status, authorization.is_some())?,
    }
    if let Some(want) = &version.digest {
        let (want, got) = (want.trim_start_matches("sha256:").to_ascii_lowercase(), sha256(&body));
        if want != got {
            return Err(Failure::Digest { want, got });
        }
    }
    let files = unpack(&body)?;
    job.left()?;
    Ok(Artifact::new(version.version.as_str(), files))
}

/// The files of a chart's archive, without the folder that they stand in.
pub(crate) fn unpack(archive: &[u8]) -> Result<BTreeMap<String, Bytes>, Failure> {
    let files = convoy_helm::read_archive(archive).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
        Failure::Archive { detail: format!("{error}{cause}") }
    })?;
    let files: BTreeMap<String, Bytes> =
        files.into_iter().map(|file| (file.name, Bytes::copy_from_slice(file.data.bytes()))).collect();
    if files.contains_key("Chart.yaml") {
        Ok(files)
    } else {
        Err(Failure::Archive { detail: "there is no Chart.yaml in its folder".to_owned() })
    }
}

/// The status of an answer that should be a file.
fn check(status: u16, with_credentials: bool) -> Result<(), Failure> {
    match status {
        200 => Ok(()),
        401 | 403 if with_credentials => Err(Failure::CredentialsRefused { status }),
        401 | 403 => Err(Failure::CredentialsMissing { status }),
        status => Err(Failure::Status { status }),
    }
}

/// `sha256:<hex>` of some bytes.
pub fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
