//! The folder that holds all that a control plane keeps.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use convoy_apiserver::pki::{Authority, CertificateAndKey};
use jiff::Timestamp;

/// A folder with the store, the certificates, the artifacts and the kubeconfigs.
#[derive(Debug, Clone)]
pub(crate) struct DataDir {
    path: PathBuf,
}

impl DataDir {
    /// Opens the folder, and makes it when it is not there. Only the user who runs convoy may look into
    /// a folder that is made here: it holds keys and Secrets.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        make_folder(path)?;
        let path = path.canonicalize().with_context(|| format!("finding {}", path.display()))?;
        Ok(Self { path })
    }

    /// The file of the embedded store.
    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("convoy.redb")
    }

    /// The kubeconfig of the administrator.
    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.path.join("admin.kubeconfig")
    }

    /// The folder of the simulated clusters' kubeconfigs.
    pub(crate) fn sandbox(&self) -> anyhow::Result<PathBuf> {
        self.folder("sandbox")
    }

    /// The kubeconfig of a simulated cluster.
    pub(crate) fn target_kubeconfig(&self, name: &str) -> PathBuf {
        self.path.join("sandbox").join(format!("{name}.kubeconfig"))
    }

    /// The folder of artifacts and bundles.
    pub(crate) fn render_store(&self) -> anyhow::Result<PathBuf> {
        self.folder("render-store")
    }

    /// The folder of downloads, emptied: what is in it is worth nothing after a restart.
    pub(crate) fn scratch(&self) -> anyhow::Result<PathBuf> {
        let path = self.path.join("scratch");
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("emptying {}", path.display()));
            }
            _ => {}
        }
        self.folder("scratch")
    }

    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join(name);
        make_folder(&path)?;
        Ok(path)
    }

    /// The CA of this control plane: the one that is kept here, or a new one.
    pub(crate) fn authority(&self, now: Timestamp) -> anyhow::Result<Authority> {
        let folder = self.folder("pki")?;
        let (certificate, key) = (folder.join("ca.crt"), folder.join("ca.key"));
        match (read_if_there(&certificate)?, read_if_there(&key)?) {
            (Some(certificate_pem), Some(key_pem)) => {
                Authority::load(CertificateAndKey { certificate: certificate_pem, key: key_pem })
                    .with_context(|| {
                        format!(
                            "reading the CA in {}: restore it, or remove the folder to make a new one",
                            folder.display()
                        )
                    })
            }
            (None, None) => {
                let authority = Authority::generate("convoy", now).context("making a CA")?;
                write_private(&key, &authority.files().key)?;
                write_private(&certificate, &authority.files().certificate)?;
                Ok(authority)
            }
            // The key is written first: a crash in between leaves a key that signed nothing.
            (None, Some(_)) => {
                fs::remove_file(&key).with_context(|| format!("removing {}", key.display()))?;
                self.authority(now)
            }
            (Some(_), None) => bail!(
                "{} has no key beside it: restore ca.key, or remove the folder to make a new CA",
                certificate.display()
            ),
        }
    }
}

fn make_folder(path: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("making the folder {}: check its parent's owner and mode", path.display()))
}

fn read_if_there(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Makes sure that a file, which is made when it is not there, is its owner's alone: the store holds
/// Secrets, also in a folder that others may look into.
pub(crate) fn make_private(path: &Path) -> anyhow::Result<()> {
    let make = || {
        let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))
    };
    make().with_context(|| format!("opening {}: check the owner and mode of the folder", path.display()))
}

/// Writes a file whole or not at all, readable by its owner alone.
pub(crate) fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_790_000_000).unwrap()
    }

    #[test]
    fn the_ca_stays_the_same_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(&folder.path().join("a/b")).unwrap();
        let first = data.authority(now()).unwrap().files().certificate.clone();
        assert_eq!(data.authority(now()).unwrap().files().certificate, first);
        let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("a/b"), mode("a/b/pki/ca.key")), (0o700, 0o600));
    }

    #[test]
    fn a_crash_while_the_ca_is_made_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        fs::create_dir(folder.path().join("pki")).unwrap();
        fs::write(folder.path().join("pki/ca.key"), "half a k").unwrap();
        data.authority(now()).unwrap();
    }

    #[test]
    fn a_certificate_without_its_key_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        data.authority(now()).unwrap();
        fs::remove_file(folder.path().join("pki/ca.key")).unwrap();
        let error = data.authority(now()).unwrap_err().to_string();
        assert!(error.contains("ca.crt has no key beside it"), "{error}");
    }
}
