//! The index of a Helm repository: which charts there are, and which version a range means.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use bytes::Bytes;
use convoy_api::Artifact;
use convoy_helm::semver::{Constraints, Version};
use convoy_yaml::{Build, Options};
use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::limits::Limits;

/// The only file of an index's artifact.
const FILE: &str = "index.json";

/// Versions that a message names.
const SHOWN: usize = 5;

/// What convoy keeps of an index.yaml.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChartIndex {
    /// By name; the newest version first, equal ones in the order of their texts, last first, and what is no
    /// version at the end.
    charts: BTreeMap<String, Vec<ChartVersion>>,
}

/// One version of a chart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChartVersion {
    /// The version, as the index has it.
    pub version: String,
    /// Where the archive is; relative ones start at the repository.
    pub urls: Vec<String>,
    /// sha256 of the archive in hexadecimal digits, when the index says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl ChartIndex {
    /// Reads an index.yaml. What is malformed in an entry harms that entry alone.
    pub(crate) fn parse(text: &[u8], limits: Limits) -> Result<Self, Failure> {
        let root: Node = convoy_yaml::read(text, Options::default())
            .map_err(|error| Failure::Index { detail: error.to_string() })?;
        let Node::Map(root) = root else {
            return Err(Failure::Index {
                detail: "it is not a mapping; is this a Helm repository?".to_owned(),
            });
        };
        let mut is_index = false;
        let mut charts = BTreeMap::new();
        let mut count = 0_usize;
        for (key, value) in root {
            if &*key == "apiVersion" || &*key == "entries" {
                is_index = true;
            }
            let ("entries", Node::Map(entries)) = (&*key, value) else { continue };
            for (name, versions) in entries {
                let Node::List(versions) = versions else { continue };
                let mut versions: Vec<ChartVersion> =
                    versions.into_iter().filter_map(Node::version).collect();
                if versions.is_empty() {
                    continue;
                }
                count = count.saturating_add(versions.len());
                if count > limits.max_index_versions {
                    let limit = limits.max_index_versions;
                    return Err(Failure::Index {
                        detail: format!("it has more than {limit} versions of charts"),
                    });
                }
                sort(&mut versions);
                charts.insert(name.into_string(), versions);
            }
        }
        if !is_index {
            return Err(Failure::Index {
                detail: "it has no entries; is this a Helm repository?".to_owned(),
            });
        }
        Ok(Self { charts })
    }

    /// The index as an artifact; `revision` says where it came from.
    pub fn artifact(&self, revision: impl Into<String>) -> Artifact {
        // Maps with text as keys always have a JSON form.
        let json = serde_json::to_vec(self).unwrap_or_default();
        Artifact::new(revision, BTreeMap::from([(FILE.to_owned(), Bytes::from(json))]))
    }

    /// The index that [`ChartIndex::artifact`] made an artifact of; none when it is another one's.
    pub fn from_artifact(artifact: &Artifact) -> Option<Self> {
        serde_json::from_slice(artifact.files().get(FILE)?).ok()
    }

    /// Number of charts.
    pub fn len(&self) -> usize {
        self.charts.len()
    }

    /// Whether there is no chart.
    pub fn is_empty(&self) -> bool {
        self.charts.is_empty()
    }

    /// The version that is meant, as Helm chooses it: the very one, else the newest in the range.
    pub(crate) fn select(&self, chart: &str, version: Option<&str>) -> Result<&ChartVersion, Failure> {
        let Some(versions) = self.charts.get(chart) else {
            let likes = |name: &&String| name.contains(chart) || chart.contains(name.as_str());
            let similar: Vec<&str> =
                self.charts.keys().filter(likes).take(SHOWN).map(String::as_str).collect();
            let similar = if similar.is_empty() {
                String::new()
            } else {
                format!(" (there is {})", similar.join(", "))
            };
            return Err(Failure::ChartNotFound { chart: chart.to_owned(), similar });
        };
        let wanted = version.unwrap_or("*");
        let in_range = newest(wanted, versions.iter(), |found| &found.version)?;
        let exact = versions.iter().find(|found| found.version == wanted);
        exact.or(in_range).ok_or_else(|| {
            let mut there: Vec<&str> =
                versions.iter().take(SHOWN).map(|found| found.version.as_str()).collect();
            if versions.len() > SHOWN {
                there.push("older ones");
            }
            Failure::VersionNotFound { version: wanted.to_owned(), there: there.join(", ") }
        })
    }
}

/// The newest that a range takes of what is sorted from new to old.
pub(crate) fn newest<'a, T: 'a>(
    range: &str,
    sorted: impl Iterator<Item = &'a T>,
    version: impl Fn(&T) -> &str,
) -> Result<Option<&'a T>, Failure> {
    let constraints = Constraints::parse(range)
        .map_err(|error| Failure::VersionRange { version: range.to_owned(), detail: error.to_string() })?;
    let mut sorted = sorted;
    Ok(sorted.find(|found| Version::parse(version(found)).is_ok_and(|parsed| constraints.check(&parsed))))
}

/// The order of versions: the newest first. Equal ones, which differ in their build metadata alone, are put
/// in the order of their texts, so that the choice is the same every time.
pub(crate) fn order(a: &str, b: &str) -> Ordering {
    match (Version::parse(a), Version::parse(b)) {
        (Ok(left), Ok(right)) => right.compare(&left).then_with(|| b.cmp(a)),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => b.cmp(a),
    }
}

fn sort(versions: &mut [ChartVersion]) {
    versions.sort_by(|a, b| order(&a.version, &b.version));
}

/// What an index is read into: of a chart's version only what is needed, as most of an index is descriptions.
enum Node {
    Text(Box<str>),
    List(Vec<Node>),
    Map(Vec<(Box<str>, Node)>),
    Version(ChartVersion),
    Other,
}

impl Node {
    fn text(self) -> Option<String> {
        match self {
            Node::Text(text) => Some(text.into_string()),
            _ => None,
        }
    }

    fn version(self) -> Option<ChartVersion> {
        match self {
            Node::Version(version) => Some(version),
            _ => None,
        }
    }
}

impl Build for Node {
    fn null() -> Self {
        Node::Other
    }

    fn boolean(_: bool) -> Self {
        Node::Other
    }

    fn integer(value: i64) -> Self {
        // Versions that were written without quotes.
        Node::Text(value.to_string().into())
    }

    fn unsigned(value: u64) -> Self {
        Node::Text(value.to_string().into())
    }

    fn float(value: f64) -> Self {
        Node::Text(convoy_yaml::format_g(value).into())
    }

    fn string(value: &str) -> Self {
        Node::Text(value.into())
    }

    fn sequence(items: Vec<Self>) -> Self {
        Node::List(items)
    }

    fn mapping(entries: Vec<(Cow<'_, str>, Self)>) -> Self {
        let is_version =
            entries.iter().any(|(key, value)| key == "version" && matches!(value, Node::Text(_)))
                && entries.iter().any(|(key, value)| key == "urls" && matches!(value, Node::List(_)));
        if !is_version {
            return Node::Map(entries.into_iter().map(|(key, value)| (key.as_ref().into(), value)).collect());
        }
        let mut version = ChartVersion::default();
        for (key, value) in entries {
            match (&*key, value) {
                ("version", value) => version.version = value.text().unwrap_or_default(),
                ("urls", Node::List(urls)) => {
                    version.urls = urls.into_iter().filter_map(Node::text).collect();
                }
                ("digest", Node::Text(digest)) if !digest.is_empty() => {
                    version.digest = Some(digest.into_string());
                }
                _ => {}
            }
        }
        if version.version.is_empty() || version.urls.is_empty() {
            Node::Other
        } else {
            Node::Version(version)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entries: &str) -> ChartIndex {
        ChartIndex::parse(format!("apiVersion: v1\nentries:\n{entries}").as_bytes(), Limits::default())
            .unwrap()
    }

    fn web() -> ChartIndex {
        let versions = ["1.2.0", "1.10.0", "1.9.0", "2.0.0-rc.1", "v1.5.0", "1.11", "latest", "1.2.0+up.2"];
        let line = |version: &&str| format!("  - {{name: web, version: \"{version}\", urls: [web.tgz]}}\n");
        index(&format!("  web:\n{}", versions.iter().map(line).collect::<String>()))
    }

    fn chosen(version: Option<&str>) -> Result<String, String> {
        web().select("web", version).map(|found| found.version.clone()).map_err(|error| error.to_string())
    }

    /// As `helm pull web --version …` of helm 4.2 chose from the same index; of versions that are equal but for
    /// their build metadata, helm takes the one that its sort leaves first.
    #[test]
    fn ranges_choose_as_helm_does() {
        for (range, want) in [
            (None, "1.11"),
            (Some("1.9.0"), "1.9.0"),
            (Some("~1.2"), "1.2.0+up.2"),
            (Some("1.2.0"), "1.2.0"),
            (Some("1.x"), "1.11"),
            (Some("^1.2, <1.10"), "1.9.0"),
            (Some("1.5.0"), "v1.5.0"),
            (Some(">=2.0.0-0"), "2.0.0-rc.1"),
        ] {
            assert_eq!(chosen(range).as_deref(), Ok(want), "{range:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let error = chosen(Some(">=2")).unwrap_err();
        assert_eq!(
            error,
            "the index has no version of the chart that matches \">=2\"; it has 2.0.0-rc.1, 1.11, 1.10.0, 1.9.0, v1.5.0, older ones"
        );
        for odd in ["what", "latest"] {
            assert!(chosen(Some(odd)).unwrap_err().contains("neither a version nor a range"));
        }
        let error = web().select("webs", None).unwrap_err().to_string();
        assert!(error.contains("no chart \"webs\"") && error.ends_with("(there is web)"), "{error}");
    }

    #[test]
    fn a_bad_entry_harms_itself_alone() {
        let found = index(
            "  bad: {}\n  odd: [1, {version: 1.0.0}, {urls: [x]}]\n  num: [{version: 1.2, urls: [a]}]\n  good: [{version: 1.0.0, urls: [x, {}], digest: ab}]\n",
        );
        assert_eq!(found.charts.keys().collect::<Vec<_>>(), ["good", "num"]);
        assert_eq!(found.charts["good"][0].digest.as_deref(), Some("ab"));
        assert_eq!(found.charts["num"][0].version, "1.2");
        for bad in ["", "[]", "<html></html>", "a: b", "entries: [\n"] {
            let error = ChartIndex::parse(bad.as_bytes(), Limits::default()).unwrap_err();
            assert!(matches!(error, Failure::Index { .. }), "{bad:?}");
        }
        let few = Limits { max_index_versions: 1, ..Limits::default() };
        let two = "entries: {a: [{version: 1.0.0, urls: [x]}, {version: 1.0.1, urls: [x]}]}";
        assert!(
            ChartIndex::parse(two.as_bytes(), few).unwrap_err().to_string().contains("more than 1 versions")
        );
    }

    #[test]
    fn it_survives_the_store() {
        let artifact = web().artifact("sha256:1");
        assert_eq!(ChartIndex::from_artifact(&artifact), Some(web()));
        assert_eq!(ChartIndex::from_artifact(&Artifact::new("x", BTreeMap::new())), None);
    }
}
