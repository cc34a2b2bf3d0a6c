//! A file's bytes, which may be read only when somebody asks for them.

use crate::archive::without_mark;
use convoy_gotemplate::Str;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The bytes of a chart's file. Clones share them.
///
/// Most files of a large chart are asked for by no template: custom resource definitions, readmes, and whatever belongs
/// to subcharts that are switched off.
#[derive(Clone)]
pub struct Content(Bytes);

#[derive(Clone)]
enum Bytes {
    Here(Str),
    Later(Arc<Later>),
}

struct Later {
    length: u64,
    read: Box<dyn Fn() -> Str + Send + Sync>,
    bytes: OnceLock<Str>,
}

impl Content {
    /// Bytes that are read once, by the first who asks. `length` is how many there are, for the limit of a file's size.
    /// A `read` that fails answers with nothing and tells its maker of the failure by a way of its own: templates have no
    /// words for it.
    pub fn later(length: u64, read: impl Fn() -> Str + Send + Sync + 'static) -> Self {
        Self(Bytes::Later(Arc::new(Later { length, read: Box::new(read), bytes: OnceLock::new() })))
    }

    /// The bytes, without a byte order mark when they come from a chart.
    pub fn bytes(&self) -> &Str {
        match &self.0 {
            Bytes::Here(bytes) => bytes,
            Bytes::Later(later) => later.bytes.get_or_init(|| without_mark((later.read)())),
        }
    }

    /// How many bytes there are, without reading them.
    pub(crate) fn length(&self) -> u64 {
        match &self.0 {
            Bytes::Here(bytes) => bytes.len() as u64,
            Bytes::Later(later) => later.length,
        }
    }

    /// Without the byte order mark.
    pub(crate) fn without_mark(self) -> Self {
        match self.0 {
            Bytes::Here(bytes) => Self(Bytes::Here(without_mark(bytes))),
            later @ Bytes::Later(_) => Self(later),
        }
    }
}

impl<T: Into<Str>> From<T> for Content {
    fn from(bytes: T) -> Self {
        Self(Bytes::Here(bytes.into()))
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Content {}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Bytes::Here(bytes) => fmt::Debug::fmt(bytes, f),
            Bytes::Later(later) => write!(f, "{} bytes", later.length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::Capabilities;
    use crate::chart::{Chart, LoadError};
    use crate::functions::{Entropy, Environment};
    use crate::render::{ReleaseOptions, Rendered, render};
    use std::sync::Mutex;

    struct NoEntropy;

    impl Entropy for NoEntropy {
        fn fill(&mut self, _: &mut [u8]) {}
    }

    /// What a chart of late files renders to, and which of them were read.
    fn rendered(files: &[(&'static str, &'static str)]) -> (Rendered, Vec<&'static str>) {
        let read = Arc::new(Mutex::new(Vec::new()));
        let late = files.iter().map(|(name, text)| {
            let (name, text, read) = (*name, *text, Arc::clone(&read));
            let reading = move || {
                read.lock().unwrap().push(name);
                Str::from(text)
            };
            (name.to_owned(), Content::later(text.len() as u64, reading))
        });
        let chart = Chart::load(late).unwrap();
        let mut environment = Environment::new(jiff::Timestamp::UNIX_EPOCH, NoEntropy);
        let (values, release) = (Default::default(), ReleaseOptions::default());
        let rendered = render(&chart, &values, &release, &Capabilities::default(), &mut environment).unwrap();
        let mut read = read.lock().unwrap().clone();
        read.sort_unstable();
        (rendered, read)
    }

    const CHART: &str = "apiVersion: v2\nname: a\nversion: 1.0.0\n";
    const FILES: [(&str, &str); 8] = [
        (
            "Chart.yaml",
            "apiVersion: v2\nname: a\nversion: 1.0.0\ndependencies: [{name: b, version: 1.0.0, condition: on}]\n",
        ),
        ("README.md", "# a"),
        ("crds/x.yaml", "kind: X"),
        ("templates/a.yaml", "a: {{ .Files.Get \"one.txt\" }}"),
        ("one.txt", "\u{feff}1"),
        ("charts/b/Chart.yaml", "apiVersion: v2\nname: b\nversion: 1.0.0\n"),
        ("charts/b/templates/b.yaml", "b: {{ }}"),
        ("values.yaml", "on: false"),
    ];

    #[test]
    fn files_that_nobody_asks_for_are_not_read() {
        let (rendered, read) = rendered(&FILES);
        assert_eq!(read, ["Chart.yaml", "charts/b/Chart.yaml", "one.txt", "templates/a.yaml", "values.yaml"]);
        assert!(rendered.manifests.first().unwrap().content.ends_with(b"a: 1"), "{rendered:?}");
        assert_eq!(rendered.crds.first().unwrap().1.bytes().as_bytes(), b"kind: X");
    }

    #[test]
    fn all_files_are_read_for_a_template_that_goes_through_them() {
        let files = [
            ("Chart.yaml", CHART),
            (
                "templates/a.yaml",
                "{{ range $name, $bytes := .Files }}{{ $name }}: {{ $bytes | toString }}\n{{ end }}",
            ),
            ("one.txt", "1"),
            ("two.txt", "2"),
        ];
        let (rendered, read) = rendered(&files);
        assert_eq!(read, ["Chart.yaml", "one.txt", "templates/a.yaml", "two.txt"]);
        assert!(
            rendered.manifests.first().unwrap().content.ends_with(b"one.txt: 1\ntwo.txt: 2\n"),
            "{rendered:?}"
        );
    }

    #[test]
    fn a_file_too_large_is_refused_unread() {
        let late = Content::later(6 << 20, || unreachable!("it is too large"));
        let files = [("Chart.yaml".to_owned(), Content::from(CHART)), ("big".to_owned(), late)];
        assert!(matches!(Chart::load(files), Err(LoadError::FileTooLarge(name)) if name == "big"));
    }
}
