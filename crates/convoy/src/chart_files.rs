//! A chart on the user's disk, for the commands that need no cluster.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use convoy_helm::{Chart, Content, HelmVersion, LoadError, Str};

/// A chart with more files or bytes than this is refused, as Helm refuses larger archives.
const MAX_BYTES: u64 = 100 << 20;
const MAX_FILES: usize = 100_000;
/// Folders below folders; a link that leads back up would otherwise never end.
const MAX_DEPTH: usize = 64;

/// A chart's files, not understood yet.
pub(crate) struct ChartFiles {
    found: Found,
    reader: Arc<Reader>,
}

enum Found {
    Archive(Vec<u8>),
    /// Read when they are asked for.
    Folder(Vec<(String, Content)>),
}

/// What reads the files of one folder.
#[derive(Default)]
struct Reader {
    /// Why the first file that could not be read when it was asked for could not.
    failed: OnceLock<String>,
}

impl ChartFiles {
    /// Loads the chart; once, for it takes the files.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn load(&mut self, helm: HelmVersion) -> Result<Chart, LoadError> {
        match std::mem::replace(&mut self.found, Found::Folder(Vec::new())) {
            Found::Archive(bytes) => Chart::load_archive_for(&bytes, helm),
            Found::Folder(files) => Chart::load_for(files, helm),
        }
    }

    /// What a render will most likely ask for.
    pub(crate) fn templates(&self) -> Vec<Content> {
        let Found::Folder(files) = &self.found else { return Vec::new() };
        let templates = files.iter().filter(|(name, _)| name.contains("templates/"));
        templates.map(|(_, content)| content.clone()).collect()
    }

    /// The files of a folder, all read; none of an archive.
    ///
    /// # Errors
    /// What is printed when one cannot be read.
    pub(crate) fn contents(self) -> Result<Vec<(String, Str)>, String> {
        let Found::Folder(files) = &self.found else { return Ok(Vec::new()) };
        let files = files.iter().map(|(name, content)| (name.clone(), content.bytes().clone())).collect();
        self.all_read().map(|()| files)
    }

    /// Whether every file that somebody asked for could be read. To be asked before anything is made of them.
    ///
    /// # Errors
    /// What is printed when one could not.
    pub(crate) fn all_read(&self) -> Result<(), String> {
        self.reader.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Reader {
    /// A file's content, read when it is asked for.
    fn content(self: &Arc<Self>, path: PathBuf, length: u64) -> Content {
        let reader = Arc::clone(self);
        Content::later(length, move || match read_file(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                // The first one is told.
                let _ = reader.failed.set(format!("reading the chart's file {}: {error}", path.display()));
                Str::default()
            }
        })
    }
}

fn read_file(path: &Path) -> std::io::Result<Str> {
    let file = fs::File::open(path)?;
    // It may have grown since its length was looked at.
    let length = file.metadata()?.len().min(MAX_BYTES);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(Str::from(bytes))
}

/// Reads a chart from a folder or an archive.
///
/// # Errors
/// What is printed then.
pub(crate) fn read_chart(path: &Path) -> Result<ChartFiles, String> {
    let chart = path.display();
    if !path.exists() {
        return Err(format!("path {:?} not found", chart.to_string()));
    }
    let reader = Arc::default();
    let found = read_files(path, &reader);
    found.map(|found| ChartFiles { found, reader }).map_err(|error| match error.downcast::<BrokenLink>() {
        Ok(link) => link.to_string(),
        Err(error) => format!("reading the chart {chart}: {error:#}"),
    })
}

fn read_files(path: &Path, reader: &Arc<Reader>) -> anyhow::Result<Found> {
    if path.is_file() {
        let length = fs::metadata(path)?.len();
        anyhow::ensure!(length <= MAX_BYTES, "it has {length} bytes, more than {MAX_BYTES}");
        return Ok(Found::Archive(fs::read(path)?));
    }
    let mut files = Vec::new();
    let mut bytes = 0;
    let mut folders: Vec<(PathBuf, String, usize)> = vec![(path.to_path_buf(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        anyhow::ensure!(depth < MAX_DEPTH, "{} is more than {MAX_DEPTH} folders deep", folder.display());
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            // Follows links, as Helm does for a chart on the user's own disk.
            let metadata = match fs::metadata(entry.path()) {
                Ok(metadata) => metadata,
                Err(_) if entry.file_type()?.is_symlink() => anyhow::bail!(broken_link(&entry.path())?),
                Err(error) => return Err(error.into()),
            };
            if metadata.is_dir() {
                folders.push((entry.path(), format!("{name}/"), depth + 1));
            } else if metadata.is_file() {
                bytes += metadata.len();
                anyhow::ensure!(bytes <= MAX_BYTES, "it has more than {MAX_BYTES} bytes");
                anyhow::ensure!(files.len() < MAX_FILES, "it has more than {MAX_FILES} files");
                files.push((name, reader.content(entry.path(), metadata.len())));
            }
        }
    }
    Ok(Found::Folder(files))
}

/// A link that leads nowhere; displays Helm's text.
#[derive(Debug, thiserror::Error)]
#[error("error evaluating symlink {}: lstat {}: no such file or directory", .link.display(), .missing.display())]
struct BrokenLink {
    link: PathBuf,
    /// The first part of what it leads to that is not there.
    missing: PathBuf,
}

fn broken_link(link: &Path) -> std::io::Result<BrokenLink> {
    let mut target = link.parent().unwrap_or(link).to_path_buf();
    for part in fs::read_link(link)?.components() {
        match part {
            std::path::Component::ParentDir => {
                target.pop();
            }
            std::path::Component::CurDir => {}
            part => target.push(part),
        }
    }
    let missing = target.ancestors().take_while(|path| fs::symlink_metadata(path).is_err()).last();
    let missing = missing.unwrap_or(&target).to_path_buf();
    Ok(BrokenLink { link: link.to_path_buf(), missing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_gone_when_it_is_asked_for_is_told_and_one_that_grew_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Chart.yaml"), "apiVersion: v2\nname: a\nversion: 1.0.0\n").unwrap();
        fs::write(folder.path().join("a.txt"), "a").unwrap();
        fs::write(folder.path().join("gone.txt"), "b").unwrap();
        let mut files = read_chart(folder.path()).unwrap();
        fs::write(folder.path().join("a.txt"), "a".repeat(100_000)).unwrap();
        fs::remove_file(folder.path().join("gone.txt")).unwrap();
        let chart = files.load(HelmVersion::V4).unwrap();
        let file = |name: &str| chart.files.iter().find(|file| file.name == name).unwrap();
        assert_eq!(file("a.txt").data.bytes().len(), 100_000);
        assert_eq!(files.all_read(), Ok(()));
        assert_eq!(file("gone.txt").data.bytes().len(), 0);
        let told = files.all_read().unwrap_err();
        assert!(told.contains("gone.txt: No such file"), "{told}");
    }
}
