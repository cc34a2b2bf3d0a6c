//! The files of a tar, packed or not, within limits. Only plain files are taken: what a link could lead to is
//! nothing that has to be looked at.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::Failure;
use crate::job::Job;
use crate::limits::Limits;
use crate::tree::TreeError;

/// How a gzip begins.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Headers and padding that come on top of a file.
const OVERHEAD: u64 = 4096;
/// Longest path, in bytes.
const MAX_PATH: usize = 1024;

/// Reads all plain files of a tar, packed with gzip or not, that somebody handed in.
///
/// # Errors
/// When it is no such archive, leads out of itself, or is more than `limits` let it be.
pub fn unpack_archive(
    archive: &[u8],
    limits: Limits,
    timeout: Duration,
) -> Result<BTreeMap<String, Bytes>, Failure> {
    files(archive, limits, &Job::start(timeout))
}

/// The reverse of [`unpack_archive`]: files as a tar, packed with gzip. Equal files give equal bytes.
///
/// # Errors
/// When a path is none that an archive can hold.
pub fn pack_archive(files: &BTreeMap<String, Bytes>) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, content.as_ref())?;
    }
    tar.into_inner()?.finish()
}

/// Reads all plain files of an archive.
pub(crate) fn files(archive: &[u8], limits: Limits, job: &Job) -> Result<BTreeMap<String, Bytes>, Failure> {
    let most = limits.max_total_bytes.saturating_add((limits.max_files as u64).saturating_mul(OVERHEAD));
    let reader: Box<dyn Read + '_> = if archive.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(archive).take(most))
    } else {
        Box::new(archive.take(most))
    };
    let broken = |error: std::io::Error| Failure::Archive { detail: format!("it cannot be read: {error}") };
    let mut tar = tar::Archive::new(reader);
    let mut files = BTreeMap::new();
    let mut left = limits.max_total_bytes;
    let mut count = 0_usize;
    for entry in tar.entries().map_err(broken)? {
        job.left()?;
        let mut entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        let path = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|_| Failure::Archive { detail: "a path in it is not text".to_owned() })?;
        if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            continue;
        }
        count += 1;
        if count > limits.max_files {
            return Err(TreeError::TooManyFiles { limit: limits.max_files }.into());
        }
        let path = plain(&path)?;
        if !kind.is_file() && !kind.is_contiguous() {
            return Err(Failure::Archive { detail: format!("{path}: links and devices are not taken") });
        }
        let size = entry.size();
        if size > limits.max_file_bytes {
            return Err(TreeError::FileTooLarge { path, size, limit: limits.max_file_bytes }.into());
        }
        left = left.checked_sub(size).ok_or(TreeError::TooLarge { limit: limits.max_total_bytes })?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(broken)?;
        if content.len() as u64 != size {
            return Err(Failure::Archive { detail: format!("{path}: it ends before its time") });
        }
        files.insert(path, Bytes::from(content));
    }
    if files.is_empty() {
        return Err(Failure::Archive { detail: "it holds no files".to_owned() });
    }
    Ok(files)
}

/// A path inside the archive, without dots.
fn plain(path: &str) -> Result<String, Failure> {
    let refused = |why: &str| {
        let shown: String = path.chars().take(80).collect();
        Err(Failure::Archive { detail: format!("{shown:?}: {why}") })
    };
    if path.len() > MAX_PATH || path.chars().any(char::is_control) || path.contains('\\') {
        return refused("the path is too long, or holds what a path should not");
    }
    if path.starts_with('/') {
        return refused("the path is absolute");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return refused("the path leaves the archive");
    }
    if parts.is_empty() { refused("the path is empty") } else { Ok(parts.join("/")) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, kind, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(if kind.is_file() { text.len() as u64 } else { 0 });
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            if !kind.is_file() && !kind.is_dir() {
                header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
            }
            header.set_cksum();
            tar.append(&header, if kind.is_file() { text.as_bytes() } else { b"" }).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    async fn read(archive: &[u8], limits: Limits) -> Result<Vec<String>, String> {
        let found = files(archive, limits, &Job::start(Duration::from_secs(30)));
        found.map(|files| files.into_keys().collect()).map_err(|error| error.to_string())
    }

    const FILE: tar::EntryType = tar::EntryType::Regular;

    #[tokio::test]
    async fn plain_files_come_out_of_both_sorts() {
        let archive = packed(&[
            ("./", tar::EntryType::Directory, ""),
            ("./a/", tar::EntryType::Directory, ""),
            ("./a/b.yaml", FILE, "x: 1\n"),
            ("c.yaml", FILE, ""),
        ]);
        for archive in [archive.clone(), gzipped(&archive)] {
            assert_eq!(read(&archive, Limits::default()).await.unwrap(), ["a/b.yaml", "c.yaml"]);
        }
    }

    #[tokio::test]
    async fn what_was_packed_comes_out_as_it_was() {
        let long = format!("templates/{}/deployment.yaml", "folder".repeat(30));
        let files: BTreeMap<String, Bytes> =
            [("Chart.yaml", "name: a\n"), (&long, "kind: A\n"), ("empty", "")]
                .map(|(path, text)| (path.to_owned(), Bytes::copy_from_slice(text.as_bytes())))
                .into();
        let archive = pack_archive(&files).unwrap();
        assert_eq!(archive, pack_archive(&files).unwrap());
        assert_eq!(unpack_archive(&archive, Limits::default(), Duration::from_secs(30)).unwrap(), files);
    }

    #[tokio::test]
    async fn what_leads_out_or_is_too_much_is_refused() {
        let few = Limits { max_files: 1, max_file_bytes: 4, max_total_bytes: 6, ..Limits::default() };
        for (entries, limits, want) in [
            (vec![("../x", FILE, "x")], Limits::default(), "leaves the archive"),
            (vec![("a/../../x", FILE, "x")], Limits::default(), "leaves the archive"),
            (vec![("/etc/passwd", FILE, "x")], Limits::default(), "absolute"),
            (vec![("a\\..\\x", FILE, "x")], Limits::default(), "should not"),
            (vec![("s", tar::EntryType::Symlink, "/etc/passwd")], Limits::default(), "links and devices"),
            (vec![("s", tar::EntryType::Link, "x")], Limits::default(), "links and devices"),
            (vec![("d", tar::EntryType::Char, "")], Limits::default(), "links and devices"),
            (vec![], Limits::default(), "no files"),
            (vec![("a", FILE, "x"), ("b", FILE, "x")], few, "more than 1 files"),
            (vec![("a", FILE, "12345")], few, "more than the 4 allowed"),
            (
                vec![("a", FILE, "1234"), ("b", FILE, "1234")],
                Limits { max_files: 9, ..few },
                "more than 6 bytes",
            ),
        ] {
            let error = read(&packed(&entries), limits).await.unwrap_err();
            assert!(error.contains(want), "{entries:?}: {error}");
        }
        for cut in [600, 10] {
            let whole = packed(&[("a", FILE, &"x".repeat(500))]);
            let error = read(&whole[..cut], Limits::default()).await.unwrap_err();
            assert!(error.contains("cannot be read") || error.contains("ends before"), "{error}");
        }
        let whole = gzipped(&packed(&[("a", FILE, &"x".repeat(500))]));
        let error = read(&whole[..whole.len() / 2], Limits::default()).await.unwrap_err();
        assert!(error.contains("cannot be read") || error.contains("ends before"), "{error}");
    }
}
