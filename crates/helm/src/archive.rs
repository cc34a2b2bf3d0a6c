//! Charts as .tgz, with Helm's limits and its rules for names.

use crate::chart::File;
use convoy_gotemplate::Str;
use std::io::Read;

/// Bytes of all files of an archive.
pub(crate) const MAX_ARCHIVE: u64 = 100 << 20;
/// Bytes of one file.
pub(crate) const MAX_FILE: u64 = 5 << 20;
/// Files of an archive; Helm has no such limit.
const MAX_FILES: usize = 100_000;

/// Why an archive is refused; the texts are Helm's.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Not a gzipped archive, or a broken one.
    #[error("cannot read the archive")]
    Read(#[source] std::io::Error),
    /// A name starts at the root.
    #[error("chart illegally contains absolute paths")]
    Absolute,
    /// A name is not below the chart's folder.
    #[error("chart illegally contains content outside the base directory: {0:?}")]
    Outside(String),
    /// A name goes up.
    #[error("chart illegally references parent directory")]
    Parent,
    /// A name has a drive.
    #[error("chart contains illegally named files")]
    Drive,
    /// There is no folder of the chart's name.
    #[error("chart yaml not in base directory")]
    NotInFolder,
    /// The files are too large together.
    #[error("decompressed chart is larger than the maximum size {MAX_ARCHIVE}")]
    TooLarge,
    /// One file is too large.
    #[error("decompressed chart file {0:?} is larger than the maximum file size {MAX_FILE}")]
    FileTooLarge(String),
    /// There are too many files.
    #[error("chart archive holds more than {MAX_FILES} files")]
    TooMany,
    /// There are no files.
    #[error("no files in chart archive")]
    Empty,
}

/// The files of a chart's archive (.tgz), without the folder that they stand in. Links are empty files, as
/// for Helm.
///
/// # Errors
/// When it is no archive, names something outside of its folder, or is too large.
pub fn read(archive: &[u8]) -> Result<Vec<File>, ArchiveError> {
    // Headers and padding come on top of the files.
    let limit = MAX_ARCHIVE + (MAX_FILES as u64) * 2048;
    let mut tar = tar::Archive::new(flate2::read::MultiGzDecoder::new(archive).take(limit));
    let mut files = Vec::new();
    let mut left = MAX_ARCHIVE;
    let mut data = Vec::new();
    for entry in tar.entries().map_err(ArchiveError::Read)? {
        let mut entry = entry.map_err(ArchiveError::Read)?;
        let kind = entry.header().entry_type();
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if kind.is_dir()
            || path.ends_with('/')
            || kind.is_pax_global_extensions()
            || kind.is_pax_local_extensions()
        {
            continue;
        }
        let name = inner_name(&path)?;
        let size = entry.size();
        if size > left {
            return Err(ArchiveError::TooLarge);
        }
        if size > MAX_FILE {
            return Err(ArchiveError::FileTooLarge(path));
        }
        if files.len() >= MAX_FILES {
            return Err(ArchiveError::TooMany);
        }
        data.clear();
        entry.read_to_end(&mut data).map_err(ArchiveError::Read)?;
        left -= size;
        if left == 0 {
            return Err(ArchiveError::TooLarge);
        }
        files.push(File { name, data: without_mark(Str::from(data.as_slice())).into() });
    }
    if files.is_empty() { Err(ArchiveError::Empty) } else { Ok(files) }
}

/// Without the byte order mark.
pub(crate) fn without_mark(data: Str) -> Str {
    data.strip_prefix(b"\xef\xbb\xbf").map(Str::from).unwrap_or(data)
}

fn inner_name(path: &str) -> Result<String, ArchiveError> {
    let delimiter = if path.contains('\\') { '\\' } else { '/' };
    let (folder, rest) = path.split_once(delimiter).unwrap_or((path, ""));
    let name = rest.replace(delimiter, "/");
    if name.starts_with('/') {
        return Err(ArchiveError::Absolute);
    }
    let name = clean(&name);
    if name == "." {
        return Err(ArchiveError::Outside(path.to_owned()));
    }
    if name.starts_with("..") {
        return Err(ArchiveError::Parent);
    }
    if matches!(name.as_bytes(), [drive, b':', b'/', ..] if drive.is_ascii_alphabetic()) {
        return Err(ArchiveError::Drive);
    }
    if folder == "Chart.yaml" {
        return Err(ArchiveError::NotInFolder);
    }
    Ok(name)
}

/// Go's `path.Clean`: no empty parts, no dots, and going up only at the start.
pub(crate) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(".."),
            },
            part => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_folder_and_must_stay_inside() {
        assert_eq!(inner_name("app/templates//a.yaml").unwrap(), "templates/a.yaml");
        assert_eq!(inner_name("app\\templates\\a.yaml").unwrap(), "templates/a.yaml");
        assert!(matches!(inner_name("app//etc/passwd"), Err(ArchiveError::Absolute)));
        assert!(matches!(inner_name("app/../../x"), Err(ArchiveError::Parent)));
        assert!(matches!(inner_name("app/c:/x"), Err(ArchiveError::Drive)));
        assert!(matches!(inner_name("app"), Err(ArchiveError::Outside(_))));
        assert!(matches!(inner_name("Chart.yaml/x"), Err(ArchiveError::NotInFolder)));
    }
}
