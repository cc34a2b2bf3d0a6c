use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Artifact, ManifestsRender, ReleaseRender};
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::bundle::Bundle;
use crate::charts::Charts;
use crate::error::RenderError;
use crate::folder::Folder;
use crate::places::secret_places;
use crate::secrets::SecretValues;
use crate::{helm, manifests};

/// Goes into every render key. Raise it when the same input renders differently than before, so that no
/// bundle of the older engine is taken for one of this.
const ENGINE: &str = concat!("convoy-render/", env!("CARGO_PKG_VERSION"), "/2");

/// All that a bundle depends on.
#[derive(Clone, Copy)]
pub struct RenderInput<'a> {
    /// The source's files.
    pub artifact: &'a Artifact,
    /// The folder of the artifact that is rendered; empty for the root.
    pub path: &'a str,
    /// `spec.render`.
    pub render: Option<&'a ReleaseRender>,
    /// What `spec.render.helm.valuesFrom` names, in its order.
    pub values_from: &'a [ValuesText],
    /// Name of the Release; `spec.render.helm.releaseName` goes first.
    pub release_name: &'a str,
    /// Namespace that templates see as `.Release.Namespace`.
    pub namespace: &'a str,
    /// What the target is.
    pub target: &'a TargetFacts,
    /// What a chart's random values (`randAlphaNum`, `genCA`, …) come from: equal seeds give equal values in
    /// every render of one release. Passwords may be among them, so that who knows the seed knows those.
    pub seed: &'a [u8],
    /// Is drawn from, too, but is not part of the key: with another one each time, each render draws anew.
    pub salt: &'a [u8],
    /// The time that `now` gives to a chart. It is not part of the key: of what was rendered once, that
    /// time stays.
    pub now: Timestamp,
    /// Where charts are kept for other renders; without, each render loads its own.
    pub charts: Option<&'a Charts>,
    /// When the render ends before it is done; without, only its other limits end it.
    pub stop: Option<&'a Stop>,
}

impl<'a> RenderInput<'a> {
    /// A folder of an artifact for a target, with nothing of a Release's spec, and no randomness.
    pub fn plain(artifact: &'a Artifact, path: &'a str, target: &'a TargetFacts) -> Self {
        Self {
            artifact,
            path,
            render: None,
            values_from: &[],
            release_name: "",
            namespace: "",
            target,
            seed: b"",
            salt: b"",
            now: Timestamp::UNIX_EPOCH,
            charts: None,
            stop: None,
        }
    }
}

/// When a render ends before it is done: how long it may take, and whether it is over.
#[derive(Clone)]
pub struct Stop {
    /// For the error's text.
    pub limit: Duration,
    is_over: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Stop {
    /// With a question that is asked a thousand times a second or so: has the time run out, or does nobody want the render
    /// any more? When it says yes the render ends soon; docs/src/helm-charts.md says how soon.
    pub fn new(limit: Duration, is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { limit, is_over: Arc::new(is_over) }
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        (self.is_over)()
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stop").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RenderInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenderInput")
            .field("artifact", &self.artifact.digest())
            .field("path", &self.path)
            .field("release_name", &self.release_name)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// Values in a ConfigMap or a Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ValuesText {
    /// For messages: kind, name and key.
    pub from: String,
    /// The YAML text; or any text, when it goes to a path.
    pub text: Vec<u8>,
    /// The path among the values at which the text goes as it is.
    pub target_path: Option<String>,
    /// From a Secret: no value of it may show in a message.
    pub is_secret: bool,
}

impl std::fmt::Debug for ValuesText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = if self.is_secret { "redacted".into() } else { String::from_utf8_lossy(&self.text) };
        f.debug_struct("ValuesText").field("from", &self.from).field("text", &shown).finish_non_exhaustive()
    }
}

/// What a chart can ask about the target (`.Capabilities`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TargetFacts {
    /// For example `v1.36.2`.
    pub kubernetes_version: String,
    /// `group/version` and `group/version/Kind` of all that the target serves.
    pub api_versions: BTreeSet<String>,
}

/// Renders. Which renderer: what `spec.render` names; else a chart where there is a `Chart.yaml`; else
/// manifests.
pub fn render(input: &RenderInput<'_>) -> Result<Bundle, RenderError> {
    let mut bundle = rendered(input)?;
    if input.values_from.iter().any(|values| values.is_secret) {
        bundle.secret_places = Some(secret_places(&bundle, &SecretValues::of(input.values_from)));
    }
    Ok(bundle)
}

fn rendered(input: &RenderInput<'_>) -> Result<Bundle, RenderError> {
    let folder = Folder::find(input.artifact, input.path)?;
    let has_chart = folder.file("Chart.yaml").is_some();
    match input.render {
        Some(ReleaseRender { helm: Some(_), manifests: Some(_) }) => Err(RenderError::Ambiguous),
        Some(ReleaseRender { helm: Some(_), .. }) if !has_chart => {
            Err(RenderError::NoChart { path: folder.name().to_owned() })
        }
        Some(ReleaseRender { helm: Some(spec), .. }) => helm::render(&folder, spec, input),
        Some(ReleaseRender { manifests: Some(spec), .. }) => manifests::render(&folder, spec),
        _ if has_chart => helm::render(&folder, &Default::default(), input),
        _ => match manifests::kustomization(&folder) {
            Some(file) => Err(RenderError::Kustomization { file }),
            None => manifests::render(&folder, &ManifestsRender::default()),
        },
    }
}

/// `sha256:<hex>` over all that the bundle depends on: the name under which the store keeps what
/// [`render`] made of this input.
pub fn render_key(input: &RenderInput<'_>) -> String {
    let render = serde_json::to_vec(&input.render).unwrap_or_default();
    let target = serde_json::to_vec(input.target).unwrap_or_default();
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    add(ENGINE.as_bytes());
    add(input.artifact.digest().as_bytes());
    add(input.path.as_bytes());
    add(&render);
    add(&target);
    add(input.release_name.as_bytes());
    add(input.namespace.as_bytes());
    // Releases with equal inputs share a bundle, unless their charts may draw random values.
    if helm::may_draw(input) {
        add(input.seed);
    }
    for values in input.values_from {
        add(values.from.as_bytes());
        add(&values.text);
        if values.is_secret {
            // Bundles of before did not say where its values stand.
            add(b"places");
        }
    }
    crate::digest::text(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn artifact(files: &[(&str, &str)]) -> Artifact {
        let files =
            files.iter().map(|(path, text)| ((*path).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
        Artifact::new("main@sha1:1", files.collect())
    }

    fn input<'a>(artifact: &'a Artifact, path: &'a str, target: &'a TargetFacts) -> RenderInput<'a> {
        RenderInput { release_name: "web", namespace: "prod", ..RenderInput::plain(artifact, path, target) }
    }

    #[test]
    fn the_folder_decides_the_renderer_when_the_release_does_not() {
        let target = TargetFacts::default();
        let artifact = artifact(&[("plain/a.yaml", "kind: ConfigMap"), ("kustom/kustomization.yml", "x: 1")]);
        let bundle = render(&input(&artifact, "plain", &target)).unwrap();
        assert_eq!(bundle.objects[0].source, "plain/a.yaml");
        let error = render(&input(&artifact, "kustom", &target)).unwrap_err();
        assert_eq!(error, RenderError::Kustomization { file: "kustom/kustomization.yml".to_owned() });
        let helm = ReleaseRender { helm: Some(Default::default()), manifests: None };
        let error =
            render(&RenderInput { render: Some(&helm), ..input(&artifact, "plain", &target) }).unwrap_err();
        assert_eq!(error, RenderError::NoChart { path: "plain".to_owned() });
        let both = ReleaseRender { helm: Some(Default::default()), manifests: Some(Default::default()) };
        let error =
            render(&RenderInput { render: Some(&both), ..input(&artifact, "plain", &target) }).unwrap_err();
        assert_eq!(error, RenderError::Ambiguous);
    }

    #[test]
    fn an_empty_folder_renders_to_nothing() {
        let bundle = render(&input(&artifact(&[]), "", &TargetFacts::default())).unwrap();
        assert_eq!(bundle, Bundle::default());
    }

    #[test]
    fn every_part_of_the_input_is_in_the_key() {
        let (one, other) = (artifact(&[("a", "1")]), artifact(&[("a", "2")]));
        let target = TargetFacts::default();
        let newer = TargetFacts { kubernetes_version: "v1.36.0".to_owned(), ..target.clone() };
        let apis = TargetFacts { api_versions: ["apps/v1".to_owned()].into(), ..target.clone() };
        let manifests = ReleaseRender { manifests: Some(Default::default()), helm: None };
        let values = [ValuesText {
            from: "Secret v, key a".to_owned(),
            text: b"a: 1".to_vec(),
            target_path: None,
            is_secret: true,
        }];
        let base = input(&one, "p", &target);
        let inputs = [
            base,
            input(&other, "p", &target),
            input(&one, "q", &target),
            input(&one, "p", &newer),
            input(&one, "p", &apis),
            RenderInput { release_name: "x", ..base },
            RenderInput { namespace: "x", ..base },
            RenderInput { render: Some(&manifests), ..base },
            RenderInput { values_from: &values, ..base },
        ];
        let keys: BTreeSet<_> = inputs.iter().map(render_key).collect();
        assert_eq!(keys.len(), inputs.len());
        assert_eq!(render_key(&base), render_key(&input(&artifact(&[("a", "1")]), "p", &target)));
    }

    #[test]
    fn the_seed_is_in_the_key_only_where_a_chart_may_draw() {
        let target = TargetFacts::default();
        let chart = ("p/Chart.yaml", "name: x");
        let keys = |artifact: &Artifact, render: Option<&ReleaseRender>| {
            let base = RenderInput { render, ..input(artifact, "p", &target) };
            (render_key(&base), render_key(&RenderInput { seed: b"x", ..base }))
        };
        for files in [
            vec![("p/a.yaml", "a: randAlpha")],
            vec![
                chart,
                ("p/templates/a.yaml", "a: 1 # now {{ .x }}"),
                ("q/templates/a.yaml", "{{ uuidv4 }}"),
            ],
        ] {
            let (one, other) = keys(&artifact(&files), None);
            assert_eq!(one, other, "{files:?}");
        }
        for files in [
            vec![chart, ("p/templates/a.yaml", "a: {{ randAlphaNum 5 }}")],
            vec![chart, ("p/templates/a.yaml", "{{ $ca := genCA \"x\" 5 }}")],
            vec![chart, ("p/templates/a.yaml", "at: {{ now | date \"2006\" }}")],
            vec![chart, ("p/charts/sub.tgz", "packed")],
        ] {
            let (one, other) = keys(&artifact(&files), None);
            assert_ne!(one, other, "{files:?}");
        }
        let values = serde_json::json!({"t": "{{ uuidv4 }}"}).as_object().cloned();
        let helm = convoy_api::HelmRender { values, ..Default::default() };
        let (one, other) =
            keys(&artifact(&[chart]), Some(&ReleaseRender { helm: Some(helm), manifests: None }));
        assert_ne!(one, other);
    }

    #[test]
    fn debug_shows_no_secret_values() {
        let values = ValuesText {
            from: "Secret v".to_owned(),
            text: b"CANARY".to_vec(),
            target_path: None,
            is_secret: true,
        };
        assert!(!format!("{values:?}").contains("CANARY"));
    }
}
