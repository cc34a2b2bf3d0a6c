//! The file of a backup: gzip of lines of JSON. The first says what it is, each that follows is one object under its key in the
//! store, and the last tells how many there are and the digest of all lines before it, so that a file that is cut off or
//! damaged is known as such. The same objects make the same bytes.

use std::io::{self, BufRead, BufReader, Read, Write};

use convoy_storage::{MAX_KEY, MAX_VALUE};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// What all keys begin with.
pub(super) const PREFIX: &str = "/registry/convoy.kumodo.io/";
const FORMAT: &str = "convoy-backup";
const VERSION: u32 = 1;
/// No line is longer: an object, its key, and the escapes of both.
const MAX_LINE: usize = 2 * (MAX_VALUE + MAX_KEY);

/// Why a file cannot be restored from.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// It cannot be read, or is no gzip.
    #[error("reading it, at line {line}")]
    Read {
        line: u64,
        #[source]
        source: io::Error,
    },
    /// Its first line is not that of a backup.
    #[error("it is not a backup of convoy")]
    Foreign,
    /// It was written by a later convoy.
    #[error("its format is version {0}, and this convoy reads {VERSION}")]
    Version(u32),
    /// A line is no object with a key of convoy's.
    #[error("line {line} is not an object of convoy: {why}")]
    Line { line: u64, why: String },
    /// It ends before its last line.
    #[error("it is cut off after line {0}")]
    CutOff(u64),
    /// Its last line does not agree with the others.
    #[error("it is damaged: its lines are not those that were written")]
    Damaged,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    convoy: String,
}

/// An object and its key in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) object: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    objects: u64,
    sha256: String,
}

/// Writes a backup.
pub(crate) struct Writer<W: Write> {
    lines: GzEncoder<W>,
    digest: Sha256,
    objects: u64,
}

impl<W: Write> Writer<W> {
    pub(crate) fn start(file: W) -> io::Result<Self> {
        let lines = GzEncoder::new(file, Compression::default());
        let mut writer = Self { lines, digest: Sha256::new(), objects: 0 };
        let convoy = env!("CARGO_PKG_VERSION").to_owned();
        writer.line(&Head { format: FORMAT.to_owned(), version: VERSION, convoy })?;
        Ok(writer)
    }

    pub(crate) fn object(&mut self, entry: &Entry) -> io::Result<()> {
        self.objects += 1;
        self.line(entry)
    }

    /// Writes the last line; answers with the file.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let sha256 = hex(&self.digest.clone().finalize());
        let objects = self.objects;
        self.line(&End { objects, sha256 })?;
        self.lines.finish()
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.digest.update(&text);
        self.lines.write_all(&text)
    }
}

/// Reads a backup. What it gives is only known to be whole when it has come to its end.
pub(crate) struct Reader<R: Read> {
    lines: BufReader<GzDecoder<R>>,
    digest: Sha256,
    line: u64,
    objects: u64,
    has_ended: bool,
}

impl<R: Read> Reader<R> {
    pub(crate) fn start(file: R) -> Result<Self, ArchiveError> {
        let lines = BufReader::new(GzDecoder::new(file));
        let mut reader = Self { lines, digest: Sha256::new(), line: 0, objects: 0, has_ended: false };
        let line = reader.next_line()?.ok_or(ArchiveError::Foreign)?;
        let head: Head = serde_json::from_slice(&line).map_err(|_| ArchiveError::Foreign)?;
        match (head.format.as_str(), head.version) {
            (FORMAT, VERSION) => {}
            (FORMAT, version) => return Err(ArchiveError::Version(version)),
            _ => return Err(ArchiveError::Foreign),
        }
        reader.digest.update(&line);
        Ok(reader)
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, ArchiveError> {
        let read = |source| ArchiveError::Read { line: self.line + 1, source };
        let mut line = Vec::new();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        (&mut self.lines).take(limit).read_until(b'\n', &mut line).map_err(read)?;
        if line.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        if line.last() != Some(&b'\n') {
            return Err(ArchiveError::CutOff(self.line - 1));
        }
        Ok(Some(line))
    }

    fn next_entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let Some(line) = self.next_line()? else { return Err(ArchiveError::CutOff(self.line)) };
        if let Ok(end) = serde_json::from_slice::<End>(&line) {
            let is_whole = end.objects == self.objects && end.sha256 == hex(&self.digest.clone().finalize());
            // Nothing follows it, and gzip's own checksum, which comes last, agrees.
            let is_end = self.next_line()?.is_none();
            return if is_whole && is_end { Ok(None) } else { Err(ArchiveError::Damaged) };
        }
        let wrong = |why: &str| ArchiveError::Line { line: self.line, why: why.to_owned() };
        let entry: Entry = serde_json::from_slice(&line).map_err(|error| wrong(&error.to_string()))?;
        let is_ours = entry.key.strip_prefix(PREFIX).is_some_and(|rest| {
            // A plural, then a namespace and a name, or a name.
            let parts: Vec<&str> = rest.split('/').collect();
            (2..=3).contains(&parts.len()) && parts.iter().all(|part| !part.is_empty())
        });
        if !is_ours || entry.key.len() > MAX_KEY {
            return Err(wrong("it has a key of something else"));
        }
        if !entry.object.is_object() {
            return Err(wrong("it holds no object"));
        }
        self.digest.update(&line);
        self.objects += 1;
        Ok(Some(entry))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Entry, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.next_entry();
        self.has_ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn entries(count: usize) -> Vec<Entry> {
        let entry = |n: usize| Entry {
            key: format!("{PREFIX}releases/team/web-{n}"),
            object: json!({"kind": "Release", "metadata": {"name": format!("web-{n}")}, "spec": {"n": n}}),
        };
        (0..count).map(entry).collect()
    }

    fn written(entries: &[Entry]) -> Vec<u8> {
        let mut writer = Writer::start(Vec::new()).unwrap();
        entries.iter().for_each(|entry| writer.object(entry).unwrap());
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Entry>, ArchiveError> {
        Reader::start(bytes)?.collect()
    }

    fn gzipped(lines: &str) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(lines.as_bytes()).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn what_was_written_is_read_and_the_same_objects_make_the_same_bytes() {
        for count in [0, 1, 100] {
            let entries = entries(count);
            let bytes = written(&entries);
            assert_eq!(read(&bytes).unwrap(), entries);
            assert_eq!(written(&entries), bytes);
        }
    }

    #[test]
    fn what_is_no_backup_is_told_from_one_that_is_damaged() {
        let head = r#"{"format":"convoy-backup","version":1,"convoy":"0"}"#;
        let secret = r#"{"key":"/registry/secrets/team/a","object":{}}"#;
        let upwards = r#"{"key":"/registry/convoy.kumodo.io/releases//a","object":{}}"#;
        let text = r#"{"key":"/registry/convoy.kumodo.io/releases/a/b","object":"x"}"#;
        let table = [
            (gzipped("{}\n"), "it is not a backup of convoy"),
            (gzipped(""), "it is not a backup of convoy"),
            (b"not gzip".to_vec(), "reading it, at line 1"),
            (
                gzipped("{\"format\":\"convoy-backup\",\"version\":9,\"convoy\":\"0\"}\n"),
                "its format is version 9, and this convoy reads 1",
            ),
            (gzipped(&format!("{head}\n")), "it is cut off after line 1"),
            (
                gzipped(&format!("{head}\n{secret}\n")),
                "line 2 is not an object of convoy: it has a key of something else",
            ),
            (
                gzipped(&format!("{head}\n{upwards}\n")),
                "line 2 is not an object of convoy: it has a key of something else",
            ),
            (gzipped(&format!("{head}\n{text}\n")), "line 2 is not an object of convoy: it holds no object"),
            (
                gzipped(&format!("{head}\n{{\"objects\":0,\"sha256\":\"\"}}\n")),
                "it is damaged: its lines are not those that were written",
            ),
        ];
        for (bytes, expected) in table {
            assert_eq!(read(&bytes).unwrap_err().to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn no_file_that_is_cut_off_or_changed_is_taken_for_whole(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let whole = written(&entries(20));
            let at = at.index(whole.len());
            prop_assert!(read(&whole[..at]).is_err());
            let mut changed = whole;
            changed[at] ^= 1 << bit;
            // Bytes of gzip's header, such as the operating system's, say nothing about the content.
            if let Ok(read) = read(&changed) {
                prop_assert_eq!(read, entries(20));
            }
        }
    }
}
