//! The files of `convoy diff --source`: what leaves this machine, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytes::Bytes;

use super::Misuse;

/// Bytes of the archive that the API server takes as one body.
const MOST_PACKED: usize = 3 << 20;
/// Bytes of all files, and how many there may be: what an observer unpacks.
const MOST_BYTES: u64 = 32 << 20;
const MOST_FILES: usize = 5000;
/// Folders below folders.
const MOST_DEPTH: usize = 64;
/// What is of a folder's history, or of no chart and no manifest.
const LEFT_OUT: [&str; 3] = [".git", ".hg", ".svn"];

/// The archive to send for a folder, a packaged chart or one file of manifests.
pub(super) fn archive(source: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = source.display();
    let metadata = fs::metadata(source).map_err(|error| Misuse(format!("--source {shown}: {error}")))?;
    let is_packed =
        ["tgz", "tar", "gz"].iter().any(|wanted| source.extension().is_some_and(|own| own == *wanted));
    let archive = if metadata.is_file() && is_packed {
        read(source, MOST_PACKED as u64).with_context(|| format!("reading {shown}"))?
    } else {
        let files = if metadata.is_dir() { folder(source) } else { one(source) };
        let files = files.with_context(|| format!("reading {shown}"))?;
        convoy_source::pack_archive(&files).with_context(|| format!("packing {shown}"))?
    };
    if archive.len() > MOST_PACKED {
        let message = format!(
            "--source {shown} has {} bytes when it is packed, and an API server takes {MOST_PACKED}: give the folder of the chart or of the manifests alone",
            archive.len()
        );
        return Err(Misuse(message).into());
    }
    Ok(archive)
}

fn one(file: &Path) -> anyhow::Result<BTreeMap<String, Bytes>> {
    let name = file.file_name().context("it has no name")?.to_string_lossy().into_owned();
    Ok([(name, read(file, MOST_BYTES)?.into())].into())
}

fn read(file: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(file)?.take(most + 1).read_to_end(&mut content)?;
    anyhow::ensure!(content.len() as u64 <= most, "it has more than {most} bytes");
    Ok(content)
}

/// All files of a folder. A link is followed as long as it stays in the folder: nobody means to send what is elsewhere.
fn folder(root: &Path) -> anyhow::Result<BTreeMap<String, Bytes>> {
    let inside = root.canonicalize()?;
    let (mut files, mut bytes) = (BTreeMap::new(), 0);
    let mut folders: Vec<(PathBuf, String, usize)> = vec![(root.to_path_buf(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        anyhow::ensure!(depth < MOST_DEPTH, "{} is more than {MOST_DEPTH} folders deep", folder.display());
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if LEFT_OUT.iter().any(|left_out| name == *left_out) {
                continue;
            }
            let path = entry.path();
            let name = name.to_str().with_context(|| format!("the name of {} is no text", path.display()))?;
            let name = format!("{prefix}{name}");
            if entry.file_type()?.is_symlink() {
                let leads_to = path.canonicalize().with_context(|| format!("the link {name}"))?;
                anyhow::ensure!(
                    leads_to.starts_with(&inside),
                    "the link {name} leads out of the folder: what it leads to is not sent"
                );
            }
            let metadata = fs::metadata(&path)?;
            if metadata.is_dir() {
                folders.push((path, format!("{name}/"), depth + 1));
            } else if metadata.is_file() {
                anyhow::ensure!(files.len() < MOST_FILES, "it has more than {MOST_FILES} files");
                let content = read(&path, MOST_BYTES - bytes)?;
                bytes += content.len() as u64;
                files.insert(name, content.into());
            }
        }
    }
    anyhow::ensure!(!files.is_empty(), "it holds no files");
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use convoy_source::{Limits, unpack_archive};

    use super::*;

    fn sent(source: &Path) -> Vec<String> {
        let archive = archive(source).unwrap();
        unpack_archive(&archive, Limits::default(), Duration::from_secs(30)).unwrap().into_keys().collect()
    }

    #[tokio::test]
    async fn the_files_of_a_folder_are_sent_and_not_its_history() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in
            [("Chart.yaml", "name: a"), ("templates/a.yaml", "a: 1"), (".git/config", "secret")]
        {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(sent(folder.path()), ["Chart.yaml", "templates/a.yaml"]);
        assert_eq!(sent(&folder.path().join("templates/a.yaml")), ["a.yaml"]);
        let packed = folder.path().join("a-1.0.0.tgz");
        fs::write(&packed, archive(folder.path()).unwrap()).unwrap();
        assert_eq!(sent(&packed), ["Chart.yaml", "templates/a.yaml"], "as it is");
    }

    #[cfg(unix)]
    #[test]
    fn what_lies_outside_is_not_sent_through_a_link() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("key"), "secret").unwrap();
        fs::write(folder.path().join("a.yaml"), "a: 1").unwrap();
        std::os::unix::fs::symlink("a.yaml", folder.path().join("b.yaml")).unwrap();
        assert!(archive(folder.path()).is_ok());
        for target in [other.path().join("key"), other.path().to_path_buf()] {
            let link = folder.path().join("out");
            std::os::unix::fs::symlink(target, &link).unwrap();
            let error = format!("{:#}", archive(folder.path()).unwrap_err());
            assert!(error.contains("the link out leads out of the folder"), "{error}");
            fs::remove_file(link).unwrap();
        }
    }

    #[test]
    fn what_an_api_server_would_not_take_is_refused_before_it_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = 1_u64;
        // Bytes that cannot be packed.
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        })
        .take(MOST_PACKED + 1)
        .collect();
        fs::write(folder.path().join("a"), noise).unwrap();
        let error = archive(folder.path()).unwrap_err();
        assert!(error.is::<Misuse>() && error.to_string().contains("when it is packed"), "{error:#}");
        assert!(archive(&folder.path().join("none")).unwrap_err().is::<Misuse>());
    }
}
