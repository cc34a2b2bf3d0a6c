//! What lets the API server ask observers: certificates, and the flags of both.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::NAMESPACE;

/// The Secrets of `convoy certificates`, as files.
#[derive(Debug)]
pub(super) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Has convoy make them.
    pub(super) fn make(convoy: &Path, folder: PathBuf) -> anyhow::Result<Self> {
        let output = Command::new(convoy)
            .args(["certificates", "--namespace", NAMESPACE])
            .output()
            .context("running convoy certificates")?;
        ensure!(output.status.success(), "convoy certificates: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::create_dir_all(&folder)?;
        for document in convoy_yaml::documents(&output.stdout) {
            let secret: Value = convoy_yaml::to_json(&document?)?;
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            for (key, value) in secret["data"].as_object().into_iter().flatten() {
                let content = STANDARD.decode(value.as_str().unwrap_or_default())?;
                std::fs::write(folder.join(format!("{name}-{key}")), content)?;
            }
        }
        Ok(Self { folder })
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// An API server that asks the owner of a Release, who says in its member lease where that is.
    pub(super) fn of_apiserver(&self) -> Vec<String> {
        vec![
            // Only what the observers' certificates are for.
            format!("--observer-url=https://convoy-observer.{NAMESPACE}.svc:8443"),
            "--observer-routing=owner".to_owned(),
            format!("--lease-namespace={NAMESPACE}"),
            format!("--observer-ca-file={}", self.file("convoy-observer-serving-ca.crt")),
            format!("--proxy-client-cert-file={}", self.file("convoy-proxy-client-tls.crt")),
            format!("--proxy-client-key-file={}", self.file("convoy-proxy-client-tls.key")),
        ]
    }

    /// An observer that answers it.
    pub(super) fn of_observer(&self, store: &str) -> Vec<String> {
        vec![
            format!("--client-ca-file={}", self.file("convoy-proxy-client-ca.crt")),
            format!("--tls-cert-file={}", self.file("convoy-observer-serving-tls.crt")),
            format!("--tls-private-key-file={}", self.file("convoy-observer-serving-tls.key")),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--render-store-url=file://{store}"),
        ]
    }
}
