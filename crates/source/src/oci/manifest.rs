//! Manifests and indexes, and which layer is meant.

use serde::Deserialize;

use crate::error::Failure;

/// What `helm push` writes.
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// What early versions of Helm wrote.
const OLD_CHART: &str = "application/tar+gzip";
const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";

/// Manifests of an index that are looked at.
const MAX_MANIFESTS: usize = 1000;

/// Something by its digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    #[serde(default)]
    pub(super) digest: String,
    #[serde(default)]
    pub(super) size: u64,
    #[serde(default)]
    platform: Option<serde_json::Value>,
    #[serde(default)]
    artifact_type: Option<String>,
}

impl Descriptor {
    /// The digest, when it is one that can be checked.
    pub(super) fn checked_digest(&self) -> Result<&str, Failure> {
        if is_digest(&self.digest) {
            Ok(&self.digest)
        } else {
            let shown: String = self.digest.chars().take(80).collect();
            let detail = format!("it names {shown:?}, which is no sha256 digest");
            Err(Failure::Manifest { detail })
        }
    }
}

/// Whether a text is `sha256:` and 64 digits.
pub(super) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

/// A manifest or an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Manifest {
    Index(Vec<Descriptor>),
    Image { config: String, layers: Vec<Descriptor> },
}

/// The layer that holds the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layer {
    Chart(Descriptor),
    Files(Descriptor),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    schema_version: u64,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
}

impl Manifest {
    pub(super) fn parse(body: &[u8]) -> Result<Self, Failure> {
        let raw: Raw = serde_json::from_slice(body)
            .map_err(|error| Failure::Manifest { detail: format!("it cannot be read: {error}") })?;
        let bad = |detail: &str| Err(Failure::Manifest { detail: detail.to_owned() });
        match raw {
            Raw { schema_version, .. } if schema_version != 2 => bad("it is not of schema version 2"),
            // What is both could be read as either.
            Raw { layers: Some(_), manifests: Some(_), .. } => bad("it has both layers and manifests"),
            Raw { manifests: Some(manifests), .. } if manifests.len() <= MAX_MANIFESTS => {
                Ok(Manifest::Index(manifests))
            }
            Raw { manifests: Some(_), .. } => bad("its index has more than 1000 manifests"),
            Raw { layers: Some(layers), config, .. } => {
                Ok(Manifest::Image { config: config.unwrap_or_default().media_type, layers })
            }
            Raw { .. } => bad("it has neither layers nor manifests"),
        }
    }

    /// The layer that is meant, by its media type, wherever it stands.
    pub(super) fn layer(&self) -> Result<Layer, Failure> {
        let bad = |detail: String| Err(Failure::Manifest { detail });
        let Manifest::Image { config, layers } = self else {
            return bad("an index names another index".to_owned());
        };
        let mut charts: Vec<&Descriptor> = layers.iter().filter(|layer| layer.media_type == CHART).collect();
        if charts.is_empty() {
            charts.extend(layers.iter().filter(|layer| layer.media_type == OLD_CHART));
        }
        charts.dedup_by(|a, b| a.digest == b.digest);
        match charts.as_slice() {
            [chart] => return Ok(Layer::Chart((*chart).clone())),
            [] if config == CHART_CONFIG => {
                return bad(format!("it is a chart's, and has no layer of the media type {CHART}"));
            }
            [] => {}
            charts => return bad(format!("it has {} different layers with a chart", charts.len())),
        }
        match layers.as_slice() {
            [layer] if is_tar(&layer.media_type) => Ok(Layer::Files(layer.clone())),
            [layer] => bad(format!("its layer is {:?}, neither a chart nor a tar", shown(&layer.media_type))),
            [] => bad("it has no layers".to_owned()),
            layers => bad(format!(
                "it has {} layers, as a container's image has; an artifact of manifests has one",
                layers.len()
            )),
        }
    }
}

/// The only manifest of an index that can be meant: charts and manifests have no platform.
pub(super) fn only(manifests: &[Descriptor]) -> Result<&Descriptor, Failure> {
    let plain = || manifests.iter().filter(|found| found.platform.is_none() && found.artifact_type.is_none());
    match manifests {
        [one] => Ok(one),
        several => match (plain().next(), plain().nth(1)) {
            (Some(one), None) => Ok(one),
            _ => Err(Failure::Manifest {
                detail: format!("its index has {} manifests: name one by its digest", several.len()),
            }),
        },
    }
}

fn is_tar(media_type: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    [".tar", "/tar", ".tar+gzip", "/tar+gzip", ".tar.gzip", "/gzip", "/x-tar", "/x-gzip", "/x-gtar"]
        .iter()
        .any(|end| media_type.ends_with(end))
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn layer(media_type: &str, digest: &str) -> Value {
        json!({"mediaType": media_type, "digest": digest, "size": 1})
    }

    fn chosen(config: &str, layers: &[Value]) -> Result<String, String> {
        let text = json!({"schemaVersion": 2, "config": {"mediaType": config}, "layers": layers}).to_string();
        let manifest = Manifest::parse(text.as_bytes()).map_err(|error| error.to_string())?;
        match manifest.layer() {
            Ok(Layer::Chart(layer)) => Ok(format!("chart {}", layer.digest)),
            Ok(Layer::Files(layer)) => Ok(format!("files {}", layer.digest)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Case 306.
    #[test]
    fn case306_the_layer_is_chosen_by_its_media_type() {
        let provenance = layer("application/vnd.cncf.helm.chart.provenance.v1.prov", "p");
        let chart = layer(CHART, "c");
        let image = "application/vnd.oci.image.config.v1+json";
        let tar = |kind: &str| layer(&format!("application/vnd.oci.image.layer.v1.{kind}"), "t");
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(chosen(CHART_CONFIG, &[chart.clone(), provenance.clone()]), ok("chart c"));
        assert_eq!(chosen(CHART_CONFIG, &[provenance.clone(), chart.clone()]), ok("chart c"));
        assert_eq!(chosen(CHART_CONFIG, &[layer(OLD_CHART, "o")]), ok("chart o"));
        assert_eq!(chosen(CHART_CONFIG, &[chart.clone(), chart.clone()]), ok("chart c"));
        assert_eq!(chosen(image, &[tar("tar+gzip")]), ok("files t"));
        assert_eq!(chosen(image, &[tar("tar")]), ok("files t"));
        for (config, layers, want) in [
            (CHART_CONFIG, vec![], "has no layer of the media type"),
            (CHART_CONFIG, vec![provenance], "has no layer of the media type"),
            (CHART_CONFIG, vec![chart, layer(CHART, "other")], "2 different layers with a chart"),
            (image, vec![], "no layers"),
            (image, vec![tar("tar"), tar("tar")], "as a container's image has"),
            (image, vec![layer("text/plain", "x")], "neither a chart nor a tar"),
        ] {
            let error = chosen(config, &layers).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for (bad, want) in [
            ("", "cannot be read"),
            ("[]", "schema version 2"),
            ("{}", "schema version 2"),
            (r#"{"schemaVersion":1,"layers":[]}"#, "schema version 2"),
            (r#"{"schemaVersion":2}"#, "neither layers nor manifests"),
            (r#"{"schemaVersion":2,"layers":[],"manifests":[]}"#, "both layers and manifests"),
        ] {
            let error = Manifest::parse(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(want), "{bad}: {error}");
        }
    }

    #[test]
    fn of_an_index_the_only_one_without_a_platform_is_meant() {
        let of = |platforms: &[Option<&str>]| {
            let manifests: Vec<Descriptor> = platforms
                .iter()
                .map(|platform| Descriptor {
                    platform: platform.map(|os| json!({"os": os})),
                    ..Descriptor::default()
                })
                .collect();
            only(&manifests).map(|found| found.platform.is_none()).ok()
        };
        assert_eq!(of(&[Some("linux")]), Some(false));
        assert_eq!(of(&[Some("linux"), None]), Some(true));
        assert_eq!((of(&[Some("linux"), Some("windows")]), of(&[None, None]), of(&[])), (None, None, None));
    }

    #[test]
    fn digests_are_sha256() {
        assert!(is_digest(&format!("sha256:{}", "a".repeat(64))));
        for bad in ["", "sha256:", "sha512:aa", &format!("sha256:{}", "A".repeat(64)), &"a".repeat(64)] {
            assert!(!is_digest(bad), "{bad}");
        }
    }
}
