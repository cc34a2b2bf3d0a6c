//! Where the render store is, as the command line and the environment say it.

use std::path::PathBuf;

use clap::Args;
use convoy_render::{OpenStoreError, RenderStore, S3Options};

use crate::bad_flag::BadFlag;

/// How the server of an s3:// render store is reached. Who asks is said by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, by
/// AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or by what else AWS's own tools take.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct S3 {
    /// The server of an s3:// render store. Default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else that of AWS in the region.
    #[arg(long, value_name = "URL")]
    pub(crate) render_store_s3_endpoint: Option<String>,
    /// Its region. Default: AWS_REGION, AWS_DEFAULT_REGION, else us-east-1.
    #[arg(long, value_name = "REGION")]
    pub(crate) render_store_s3_region: Option<String>,
    /// Name the bucket in the host name (https://bucket.host), and not in the path (https://host/bucket).
    #[arg(long)]
    pub(crate) render_store_s3_virtual_host: bool,
    /// Let the endpoint be one without TLS (http://). Whoever is on the way then reads what charts render to, Secrets included.
    #[arg(long)]
    pub(crate) render_store_s3_allow_http: bool,
    /// The CAs that sign the server's certificate, in PEM, instead of the public ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) render_store_s3_ca_file: Option<PathBuf>,
    /// Credentials in a file as AWS's own tools have it (aws_access_key_id, aws_secret_access_key, aws_session_token), read anew
    /// for each request. They go before those of the environment.
    #[arg(long, value_name = "FILE")]
    pub(crate) render_store_s3_credentials_file: Option<PathBuf>,
}

impl S3 {
    /// Opens the store of `--render-store-url`.
    pub(crate) fn open(&self, url: &str) -> Result<RenderStore, BadFlag> {
        let options = S3Options {
            endpoint: self.render_store_s3_endpoint.clone(),
            region: self.render_store_s3_region.clone(),
            virtual_host: self.render_store_s3_virtual_host,
            allow_http: self.render_store_s3_allow_http,
            ca_file: self.render_store_s3_ca_file.clone(),
            credentials_file: self.render_store_s3_credentials_file.clone(),
            ..S3Options::default()
        };
        let options = options.with_environment(|name| std::env::var(name).ok());
        RenderStore::open(url, &options)
            .map_err(|source: OpenStoreError| BadFlag::new("render-store-url", url, source))
    }
}
