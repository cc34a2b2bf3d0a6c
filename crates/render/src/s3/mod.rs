//! A render store in a bucket: what is said of it on the command line and in the environment, and what becomes of that.

mod credentials;
mod http;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use url::Url;

use self::credentials::CredentialsFile;
use self::http::Connector;
pub(crate) use self::http::innermost;

/// A request is tried at most four times in half a minute; who asked for it tries again later, with its own back-off.
const RETRIES: usize = 3;
const RETRY_FOR: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Variables that say who asks, under the names that AWS's own tools have. No other variable counts.
const CREDENTIALS: [&str; 10] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// How the server of a store with an `s3://` URL is reached.
#[derive(Debug, Clone, Default)]
pub struct S3Options {
    /// `https://host[:port]`; that of AWS in the region when there is none.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` when there is none.
    pub region: Option<String>,
    /// Whether the bucket is a part of the host name, and not of the path.
    pub virtual_host: bool,
    /// Whether an `http://` endpoint may be asked.
    pub allow_http: bool,
    /// The CAs that are trusted instead of the public ones, in PEM.
    pub ca_file: Option<PathBuf>,
    /// Credentials as AWS's own tools keep them, which go before those of the environment.
    pub credentials_file: Option<PathBuf>,
    /// What [`Self::with_environment`] took.
    pub environment: S3Environment,
}

/// Credentials of the environment, which are printed nowhere.
#[derive(Clone, Default)]
pub struct S3Environment(Vec<(&'static str, String)>);

impl std::fmt::Debug for S3Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Environment").finish_non_exhaustive()
    }
}

/// Why the store of an `s3://` URL cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum S3Error {
    /// The endpoint is no URL of a server.
    #[error("{endpoint:?} is no endpoint: use https://host or https://host:port")]
    Endpoint {
        /// As given, up to 64 characters.
        endpoint: String,
    },
    /// The endpoint is one without TLS, and that was not allowed.
    #[error("{endpoint:?} is without TLS: use https://, or allow it with --render-store-s3-allow-http")]
    ClearText {
        /// As given, up to 64 characters.
        endpoint: String,
    },
    /// The file with the CAs.
    #[error("cannot use the CA file {file}: {why}")]
    CaFile {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing says who asks.
    #[error(
        "nothing says who asks: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give --render-store-s3-credentials-file"
    )]
    NoCredentials,
    /// What the library of the backend, or that of TLS, says.
    #[error("{why}")]
    Client {
        /// Its words.
        why: String,
    },
}

impl S3Options {
    /// Takes from the environment what AWS's own tools take from it: the credentials, and the region and the endpoint
    /// when there is none yet.
    #[must_use]
    pub fn with_environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        self.region =
            self.region.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        let endpoint = self.endpoint.or_else(|| variable("AWS_ENDPOINT_URL_S3"));
        self.endpoint = endpoint.or_else(|| variable("AWS_ENDPOINT_URL"));
        let others = ["AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE", "AWS_EC2_METADATA_DISABLED"];
        let names = CREDENTIALS.into_iter().chain(others);
        self.environment = S3Environment(names.filter_map(|name| Some((name, variable(name)?))).collect());
        self
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn credentials_file(&self) -> Option<CredentialsFile> {
        let from_environment = || {
            let has_key = self.variable("AWS_ACCESS_KEY_ID").is_some();
            self.variable("AWS_SHARED_CREDENTIALS_FILE").filter(|_| !has_key).map(PathBuf::from)
        };
        let file = self.credentials_file.clone().or_else(from_environment)?;
        let profile = self.variable("AWS_PROFILE").unwrap_or("default").to_owned();
        Some(CredentialsFile { file, profile })
    }

    /// The client of a bucket.
    pub(crate) fn bucket(&self, bucket: &str) -> Result<AmazonS3, S3Error> {
        let retry = RetryConfig {
            backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 },
            max_retries: RETRIES,
            retry_timeout: RETRY_FOR,
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_virtual_hosted_style_request(self.virtual_host)
            .with_client_options(ClientOptions::new().with_allow_http(self.allow_http))
            .with_retry(retry)
            // Not every server has the request that deletes many.
            .with_disable_bulk_delete(true)
            .with_http_connector(Connector { tls: Arc::new(self.tls()?) });
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(self.endpoint(endpoint, bucket)?);
        }
        builder = match self.credentials_file() {
            Some(file) => builder.with_credentials(Arc::new(file)),
            None => self.with_credentials(builder)?,
        };
        builder.build().map_err(|error| S3Error::Client { why: innermost(&error) })
    }

    fn with_credentials(&self, mut builder: AmazonS3Builder) -> Result<AmazonS3Builder, S3Error> {
        let mut has_some = false;
        for name in CREDENTIALS {
            let Some(value) = self.variable(name) else { continue };
            let key: AmazonS3ConfigKey = name
                .to_ascii_lowercase()
                .parse()
                .map_err(|error: object_store::Error| S3Error::Client { why: error.to_string() })?;
            builder = builder.with_config(key, value);
            has_some = true;
        }
        // Those of the machine remain, as with AWS's own tools.
        let has_no_machine = self.variable("AWS_EC2_METADATA_DISABLED") == Some("true");
        if has_some || !has_no_machine { Ok(builder) } else { Err(S3Error::NoCredentials) }
    }

    /// The endpoint, which has the bucket in its host name when the requests do.
    fn endpoint(&self, endpoint: &str, bucket: &str) -> Result<String, S3Error> {
        let shown = || endpoint.chars().take(64).collect::<String>();
        let bad = || S3Error::Endpoint { endpoint: shown() };
        let mut url = Url::parse(endpoint).map_err(|_| bad())?;
        let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        let Some(host) = url.host_str().map(str::to_owned).filter(|_| is_plain) else {
            // It may hold a password, which is not repeated.
            return Err(S3Error::Endpoint { endpoint: url.scheme().to_owned() + "://…" });
        };
        match url.scheme() {
            "https" => {}
            "http" if self.allow_http => {}
            "http" => return Err(S3Error::ClearText { endpoint: shown() }),
            _ => return Err(bad()),
        }
        if self.virtual_host {
            url.set_host(Some(&format!("{bucket}.{host}"))).map_err(|_| bad())?;
        }
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }

    fn tls(&self) -> Result<rustls::ClientConfig, S3Error> {
        let mut roots = RootCertStore::empty();
        match &self.ca_file {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(file) => {
                let bad = |why: String| S3Error::CaFile { file: file.display().to_string(), why };
                let pem = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
                for certificate in CertificateDer::pem_slice_iter(&pem) {
                    let certificate = certificate.map_err(|_| bad("it is not PEM".to_owned()))?;
                    roots.add(certificate).map_err(|error| bad(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(bad("it has no certificate".to_owned()));
                }
            }
        }
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| S3Error::Client { why: error.to_string() })?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }
}

/// Bucket and prefix of what comes after `s3://`.
pub(crate) fn place(rest: &str) -> Option<(&str, Path)> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    let is_bucket = (3..=63).contains(&bucket.len()) && bucket.bytes().all(is_allowed);
    let prefix = Path::parse(prefix.trim_end_matches('/')).ok()?;
    let is_prefix =
        !rest.contains("//") && prefix.as_ref().len() <= 512 && !prefix.as_ref().contains(['?', '#', '%']);
    (is_bucket && is_prefix).then_some((bucket, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &'static [(&'static str, &'static str)]) -> S3Options {
        let find = |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        S3Options::default().with_environment(find)
    }

    #[test]
    fn a_url_names_a_bucket_and_a_prefix() {
        assert_eq!(place("bucket").unwrap(), ("bucket", Path::default()));
        assert_eq!(place("my.bucket-1/a/b/").unwrap(), ("my.bucket-1", Path::from("a/b")));
        for bad in [
            "",
            "b",
            "Bucket",
            "user:pass@bucket",
            "bucket?region=x",
            "bucket//x",
            "bucket/a/../b",
            "bucket/a#b",
        ] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_endpoint_without_tls_is_refused_unless_it_is_allowed() {
        let at = |endpoint: &str, allow_http| {
            let options = S3Options { endpoint: Some(endpoint.to_owned()), allow_http, ..environment(&KEYS) };
            options.bucket("bucket").map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(at("https://s3.example:9000", false), Ok(()));
        assert_eq!(at("http://s3.example:9000", true), Ok(()));
        assert!(at("http://s3.example:9000", false).unwrap_err().contains("--render-store-s3-allow-http"));
        for bad in ["s3.example", "ftp://s3.example", "https://user:CANARY@s3.example"] {
            let said = at(bad, true).unwrap_err();
            assert!(said.contains("is no endpoint") && !said.contains("CANARY"), "{said}");
        }
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AK"), ("AWS_SECRET_ACCESS_KEY", "CANARY")];

    #[test]
    fn the_bucket_is_in_the_path_or_in_the_host() {
        let options = |virtual_host| S3Options { virtual_host, ..S3Options::default() };
        let endpoint = |o: S3Options| o.endpoint("https://s3.example:9000/", "bucket").unwrap();
        assert_eq!(endpoint(options(false)), "https://s3.example:9000");
        assert_eq!(endpoint(options(true)), "https://bucket.s3.example:9000");
    }

    #[test]
    fn the_environment_says_who_asks_and_nothing_prints_it() {
        let options = environment(&KEYS);
        assert!(options.bucket("bucket").is_ok());
        let printed = format!("{options:?} {:?}", options.bucket("bucket").unwrap());
        assert!(!printed.contains("CANARY"), "{printed}");
        let half = environment(&[("AWS_ACCESS_KEY_ID", "AK")]).bucket("bucket").unwrap_err();
        assert!(half.to_string().contains("SecretAccessKey"), "{half}");
        let none = environment(&[("AWS_EC2_METADATA_DISABLED", "true")]).bucket("bucket");
        assert!(matches!(none, Err(S3Error::NoCredentials)));
        assert!(environment(&[]).bucket("bucket").is_ok(), "those of the machine");
    }

    #[test]
    fn flags_go_before_the_environment_and_only_known_variables_count() {
        let options = environment(&[
            ("AWS_DEFAULT_REGION", "eu-west-1"),
            ("AWS_REGION", "eu-north-1"),
            ("AWS_ENDPOINT_URL", "https://a.example"),
            ("AWS_ENDPOINT_URL_S3", "https://b.example"),
            ("AWS_ALLOW_HTTP", "true"),
        ]);
        assert_eq!(options.region.as_deref(), Some("eu-north-1"));
        assert_eq!(options.endpoint.as_deref(), Some("https://b.example"));
        assert!(!options.allow_http);
        let given = S3Options { region: Some("r".to_owned()), ..S3Options::default() };
        assert_eq!(given.with_environment(|_| Some("x".to_owned())).region.as_deref(), Some("r"));
    }

    #[test]
    fn a_ca_file_has_to_hold_a_ca() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let open = || {
            let options = S3Options { ca_file: Some(file.clone()), ..environment(&KEYS) };
            options.bucket("bucket").map(|_| ()).unwrap_err().to_string()
        };
        assert!(open().contains("No such file"));
        std::fs::write(&file, "nothing").unwrap();
        assert!(open().contains("it has no certificate"));
    }
}
