//! Files that flags name and that may change while the server runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use convoy_apiserver::delegated::{Given, RequestHeaderNames, Trust};
use convoy_apiserver::pki::Authority;
use convoy_apiserver::tls::ServingCertificate;
use convoy_runtime::Clock;
use jiff::Timestamp;

use super::arguments::{Delegation, ServingFiles};
use crate::bad_flag::BadFlag;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(5);

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, BadFlag> {
    std::fs::read(path).map_err(|source| BadFlag::new(flag, path.display(), source))
}

/// Whom flags say to trust, as their files are now.
pub(super) fn given(flags: &Delegation) -> Result<Given, BadFlag> {
    let client_ca = flags.client_ca_file.as_ref().map(|path| read("client-ca-file", path)).transpose()?;
    let request_header = match &flags.requestheader_client_ca_file {
        None => None,
        Some(path) => {
            let names = RequestHeaderNames {
                allowed_names: flags.requestheader_allowed_names.clone(),
                username: flags.requestheader_username_headers.clone(),
                uid: flags.requestheader_uid_headers.clone(),
                group: flags.requestheader_group_headers.clone(),
                extra_prefix: flags.requestheader_extra_headers_prefix.clone(),
            };
            Some((read("requestheader-client-ca-file", path)?, names))
        }
    };
    Ok(Given { client_ca, request_header })
}

/// A serving certificate and its key.
type Pair = (Vec<u8>, Vec<u8>);

fn pair(flags: &ServingFiles) -> Result<Option<Pair>, BadFlag> {
    let (Some(certificate), Some(key)) = (&flags.tls_cert_file, &flags.tls_private_key_file) else {
        return Ok(None);
    };
    Ok(Some((read("tls-cert-file", certificate)?, read("tls-private-key-file", key)?)))
}

/// What the server shows: the certificate of the files, or one that it makes for itself, which is nowhere stored.
pub(super) fn serving(
    flags: &ServingFiles,
    names: &[String],
    now: Timestamp,
) -> anyhow::Result<Arc<ServingCertificate>> {
    if let Some((certificate, key)) = pair(flags)? {
        let shown = flags.tls_cert_file.as_deref().unwrap_or(Path::new("")).display().to_string();
        let serving = ServingCertificate::from_pem(&certificate, &key);
        return Ok(serving.map_err(|source| BadFlag::new("tls-cert-file", shown, source))?);
    }
    let authority = Authority::generate("convoy-apiserver", now).context("making a serving certificate")?;
    let made = authority.serving(names, now).context("making a serving certificate")?;
    Ok(ServingCertificate::from_pem(made.certificate.as_bytes(), made.key.as_bytes())?)
}

/// Takes files over that changed, for ever.
pub(super) async fn follow(
    delegation: Delegation,
    files: ServingFiles,
    trust: Arc<Trust>,
    serving: Arc<ServingCertificate>,
    clock: Arc<dyn Clock>,
) {
    let mut before: (Option<Given>, Option<Pair>) = (given(&delegation).ok(), pair(&files).ok().flatten());
    loop {
        clock.sleep(LOOK).await;
        match given(&delegation) {
            Ok(now) if before.0.as_ref() != Some(&now) => match trust.set_given(now.clone()) {
                Ok(()) => {
                    tracing::info!("took over CAs that changed");
                    before.0 = Some(now);
                }
                Err(error) => tracing::error!(%error, "CAs changed and cannot be used; those before stay"),
            },
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "a CA cannot be read; the one before stays"),
        }
        match pair(&files) {
            Ok(Some(now)) if before.1.as_ref() != Some(&now) => match serving.replace(&now.0, &now.1) {
                Ok(()) => {
                    tracing::info!("took over a serving certificate that changed");
                    before.1 = Some(now);
                }
                // Between the writes of its two files, or for good.
                Err(error) => {
                    tracing::warn!(%error, "the serving certificate changed and cannot be used yet");
                }
            },
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, "the serving certificate cannot be read; the one before stays");
            }
        }
    }
}

/// The names of the Service that leads to an aggregated apiserver, for a certificate that it makes for itself.
pub(super) fn own_names(namespace: Option<String>) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if let Some(namespace) = namespace {
        names.push(format!("convoy-apiserver.{namespace}.svc"));
    }
    names
}
