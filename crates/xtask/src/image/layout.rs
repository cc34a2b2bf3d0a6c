//! An OCI image layout: <https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md>.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::layer::{Layer, USER};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const SBOM: &str = "application/vnd.cyclonedx+json";
/// An empty object, for what has no configuration.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// The same of every build.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// A layout that is being written.
pub(super) struct Layout {
    folder: PathBuf,
    manifests: Vec<Value>,
}

impl Layout {
    /// An empty one in a folder, which is replaced.
    pub(super) fn create(folder: &Path) -> anyhow::Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        fs::create_dir_all(folder.join("blobs/sha256"))?;
        fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(Self { folder: folder.to_owned(), manifests: Vec::new() })
    }

    /// Writes a blob and answers with its descriptor.
    fn put(&self, media_type: &str, content: &[u8]) -> anyhow::Result<Value> {
        let digest = hex(content);
        fs::write(self.folder.join("blobs/sha256").join(&digest), content)?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len()}))
    }

    /// The image of a platform.
    pub(super) fn add(&mut self, platform: &str, layer: &Layer) -> anyhow::Result<()> {
        let (os, architecture) = platform.split_once('/').context("a platform without an architecture")?;
        let config = json!({
            "created": CREATED,
            "os": os,
            "architecture": architecture,
            "config": {
                "User": format!("{USER}:{USER}"),
                "Env": ["PATH=/usr/local/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
                "Entrypoint": ["/usr/local/bin/convoy"],
                "WorkingDir": "/tmp",
                "Labels": labels(),
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hex(&layer.tar))]},
            "history": [{"created": CREATED, "created_by": "cargo xtask image"}],
        });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.put(CONFIG, config.to_string().as_bytes())?,
            "layers": [self.put(LAYER, &layer.compressed)?],
            "annotations": labels(),
        });
        let mut descriptor = self.put(MANIFEST, manifest.to_string().as_bytes())?;
        descriptor["platform"] = json!({"os": os, "architecture": architecture});
        self.manifests.push(descriptor);
        Ok(())
    }

    /// Writes the index of all platforms, the SBOM that refers to it, and the layout's own index. Answers with the digest of the
    /// former.
    pub(super) fn finish(self, tag: &str, sbom: &[u8]) -> anyhow::Result<String> {
        let image = json!({
            "schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests, "annotations": labels(),
        });
        let mut image = self.put(INDEX, image.to_string().as_bytes())?;
        let about = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": SBOM,
            "config": self.put(EMPTY, b"{}")?,
            "layers": [self.put(SBOM, sbom)?],
            "subject": image.clone(),
        });
        let mut about = self.put(MANIFEST, about.to_string().as_bytes())?;
        about["artifactType"] = json!(SBOM);
        let digest = image["digest"].as_str().unwrap_or_default().to_owned();
        image["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [image, about]});
        fs::write(self.folder.join("index.json"), index.to_string())?;
        Ok(digest)
    }
}

fn labels() -> Value {
    json!({
        "org.opencontainers.image.title": "convoy",
        "org.opencontainers.image.description": "Release delivery for fleets of Kubernetes clusters",
        "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
