use std::borrow::Cow;

/// A separator with something behind it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid Yaml document separator: {rest}")]
pub struct SeparatorError {
    /// What stands behind the dashes.
    pub rest: String,
    /// Line of the separator, from 1.
    pub line: usize,
}

/// Splits a stream at lines that start with `---`, as `k8s.io/apimachinery`'s `YAMLReader` does. It does not
/// know YAML: such a line inside a block scalar splits too. Line ends become line feeds. Texts of nothing but
/// comments are documents as well; reading one gives null.
pub fn documents(stream: &[u8]) -> impl Iterator<Item = Result<Vec<u8>, SeparatorError>> + '_ {
    let mut lines = stream.split_inclusive(|byte| *byte == b'\n').enumerate();
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed {
            return None;
        }
        let mut document = Vec::new();
        for (number, line) in lines.by_ref() {
            let line = line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line));
            if let Some(rest) = line.strip_prefix(b"---") {
                let rest = String::from_utf8_lossy(rest);
                let rest: Cow<'_, str> = Cow::Borrowed(rest.trim());
                if !rest.is_empty() && !rest.starts_with('#') {
                    failed = true;
                    return Some(Err(SeparatorError { rest: rest.into_owned(), line: number + 1 }));
                }
                if !document.is_empty() {
                    return Some(Ok(document));
                }
            }
            document.extend_from_slice(line);
            document.push(b'\n');
        }
        (!document.is_empty()).then_some(Ok(document))
    })
}
