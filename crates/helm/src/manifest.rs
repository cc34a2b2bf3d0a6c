//! Rendered files to manifests: the documents of each, hooks apart, in the order of installation.

use crate::loose::{self, Fields, TypedError};
use crate::version::HelmVersion;
use convoy_gotemplate::{Limit, Str};
use std::collections::BTreeMap;

/// One object (or list) of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The template it comes from, as in `app/charts/db/templates/x.yaml`.
    pub source: String,
    /// Its text.
    pub content: Str,
    /// `apiVersion`; empty when there is none.
    pub api_version: String,
    /// `kind`; empty when there is none.
    pub kind: String,
    /// `metadata.name`; empty when there is none.
    pub name: String,
}

/// A manifest that is applied at a point of a release's life, not with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// What is applied.
    pub manifest: Manifest,
    /// When.
    pub events: Vec<HookEvent>,
    /// Order among hooks of one event: lower first.
    pub weight: i64,
    /// `helm.sh/hook-delete-policy`.
    pub delete_policies: Vec<String>,
    /// `helm.sh/hook-output-log-policy`.
    pub output_log_policies: Vec<String>,
}

/// A point in a release's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// Before the first objects are created.
    PreInstall,
    /// After they were.
    PostInstall,
    /// Before a release is deleted.
    PreDelete,
    /// After it was.
    PostDelete,
    /// Before a new revision is applied.
    PreUpgrade,
    /// After it was.
    PostUpgrade,
    /// Before an old revision is applied again.
    PreRollback,
    /// After it was.
    PostRollback,
    /// On `helm test`.
    Test,
}

impl HookEvent {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "pre-install" => Self::PreInstall,
            "post-install" => Self::PostInstall,
            "pre-delete" => Self::PreDelete,
            "post-delete" => Self::PostDelete,
            "pre-upgrade" => Self::PreUpgrade,
            "post-upgrade" => Self::PostUpgrade,
            "pre-rollback" => Self::PreRollback,
            "post-rollback" => Self::PostRollback,
            "test" | "test-success" => Self::Test,
            _ => return None,
        })
    }
}

/// A rendered document that is no YAML, or whose head has wrong types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("YAML parse error on {source_path}: {}", .cause.go_text())]
pub struct ManifestError {
    /// The template it comes from.
    pub source_path: String,
    /// What is wrong.
    pub cause: TypedError,
}

impl ManifestError {
    /// The limit that was reached, when one was.
    pub fn limit(&self) -> Option<Limit> {
        match &self.cause {
            TypedError::Limit(limit) => Some(*limit),
            _ => None,
        }
    }
}

/// The documents of rendered files, in the order of the files' names, and sorted for installation.
pub(crate) fn sort(
    files: &BTreeMap<String, Str>,
    helm: HelmVersion,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(Vec<Manifest>, Vec<Hook>), ManifestError> {
    let mut manifests = Vec::new();
    let mut hooks = Vec::new();
    for (path, content) in files {
        if path.rsplit('/').next().is_some_and(|name| name.starts_with('_')) {
            continue;
        }
        if is_stopped() {
            return Err(ManifestError {
                source_path: path.clone(),
                cause: TypedError::Limit(Limit::Deadline),
            });
        }
        for document in split(content, helm) {
            let head = Head::read(document, helm, is_stopped)
                .map_err(|cause| ManifestError { source_path: path.clone(), cause })?;
            let manifest = Manifest {
                source: path.clone(),
                content: Str::from(document),
                api_version: head.api_version,
                kind: head.kind,
                name: head.name,
            };
            let Some(hook) = head.annotations.get("helm.sh/hook") else {
                manifests.push(manifest);
                continue;
            };
            let events: Option<Vec<HookEvent>> = words(hook).map(|word| HookEvent::parse(&word)).collect();
            // A hook of an unknown kind is dropped.
            let Some(events) = events else { continue };
            let list =
                |name: &str| head.annotations.get(name).map(|text| words(text).collect()).unwrap_or_default();
            hooks.push(Hook {
                manifest,
                events,
                weight: head.annotations.get("helm.sh/hook-weight").and_then(|w| w.parse().ok()).unwrap_or(0),
                delete_policies: list("helm.sh/hook-delete-policy"),
                output_log_policies: list("helm.sh/hook-output-log-policy"),
            });
        }
    }
    manifests.sort_by(|a, b| by_kind(&a.kind, helm).cmp(&by_kind(&b.kind, helm)));
    hooks.sort_by(|a, b| by_kind(&a.manifest.kind, helm).cmp(&by_kind(&b.manifest.kind, helm)));
    Ok((manifests, hooks))
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(',').map(|word| word.trim().to_lowercase())
}

#[derive(Default)]
struct Head {
    api_version: String,
    kind: String,
    name: String,
    annotations: BTreeMap<String, String>,
}

impl Head {
    fn read(document: &[u8], helm: HelmVersion, is_stopped: &dyn Fn() -> bool) -> Result<Self, TypedError> {
        let value = loose::read_unless(document, is_stopped)?;
        let go_type = match helm {
            HelmVersion::V3 => "releaseutil.SimpleHead",
            HelmVersion::V4 => "util.SimpleHead",
        };
        let fields = Fields::of(&value, go_type)?;
        let mut head = Self {
            api_version: fields.string("apiVersion")?,
            kind: fields.string("kind")?,
            ..Self::default()
        };
        const METADATA: &str = "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }";
        if let Some(metadata) = fields.inner("metadata", METADATA)? {
            head.name = metadata.string("name")?;
            head.annotations = metadata.string_map("annotations")?;
        }
        Ok(head)
    }
}

/// The documents of a text: it is cut wherever a line starts with `---`, even inside a block scalar or glued
/// to what follows. Space before each document is dropped, for Helm 3 also the space after it, and documents of
/// nothing but space are.
pub(crate) fn split(text: &[u8], helm: HelmVersion) -> Vec<&[u8]> {
    if helm == HelmVersion::V3 {
        return split_with_space(text);
    }
    let mut documents = Vec::new();
    let text = trim_start(text);
    let mut from = 0;
    let mut line = 0;
    loop {
        let rest = text.get(line..).unwrap_or_default();
        if rest.starts_with(b"---") {
            add(&mut documents, text.get(from..line).unwrap_or_default());
            let blanks = rest.iter().skip(3).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            from = line + 3 + blanks;
        }
        match text.get(line..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n')) {
            Some(at) => line += at + 1,
            None => break,
        }
    }
    add(&mut documents, text.get(from..).unwrap_or_default());
    documents
}

/// Helm 3's `(?:^|\s*\n)---\s*`: the space around a separator is part of it, so that of two that follow one another
/// the second is text.
fn split_with_space<'t>(text: &'t [u8]) -> Vec<&'t [u8]> {
    let is_space = |byte: &u8| matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ');
    let text = trim_end(trim_start(text));
    let mut documents = Vec::new();
    let mut from = 0;
    let mut add = |document: &'t [u8]| {
        if !document.is_empty() {
            documents.push(trim_end(trim_start(document)));
        }
    };
    loop {
        let rest = text.get(from..).unwrap_or_default();
        let dashes = match memchr::memmem::find(rest, b"\n---") {
            _ if from == 0 && rest.starts_with(b"---") => 0,
            Some(newline) => newline + 1,
            None => break,
        };
        let before = rest.get(..dashes).unwrap_or_default();
        let document = before.iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last + 1);
        add(before.get(..document).unwrap_or_default());
        let after = rest.get(dashes + 3..).unwrap_or_default();
        from += dashes + 3 + after.iter().take_while(|byte| is_space(byte)).count();
    }
    add(text.get(from..).unwrap_or_default());
    documents
}

fn add<'t>(documents: &mut Vec<&'t [u8]>, document: &'t [u8]) {
    let document = trim_start(document);
    if !document.is_empty() {
        documents.push(document);
    }
}

/// Without the space of any kind before it.
pub(crate) fn trim_start(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = strip_space(text) {
        text = rest;
    }
    text
}

fn strip_space(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'\t'..=b'\r' | b' ', rest @ ..]
        | [0xc2, 0x85 | 0xa0, rest @ ..]
        | [0xe1, 0x9a, 0x80, rest @ ..]
        | [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf, rest @ ..]
        | [0xe2, 0x81, 0x9f, rest @ ..]
        | [0xe3, 0x80, 0x80, rest @ ..] => Some(rest),
        _ => None,
    }
}

/// Without the space of any kind after it.
pub(crate) fn trim_end(mut text: &[u8]) -> &[u8] {
    loop {
        text = match text {
            [rest @ .., b'\t'..=b'\r' | b' ']
            | [rest @ .., 0xc2, 0x85 | 0xa0]
            | [rest @ .., 0xe1, 0x9a, 0x80]
            | [rest @ .., 0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf]
            | [rest @ .., 0xe2, 0x81, 0x9f]
            | [rest @ .., 0xe3, 0x80, 0x80] => rest,
            _ => return text,
        }
    }
}

/// Known kinds in the order of installation, then unknown ones by name.
fn by_kind(kind: &str, helm: HelmVersion) -> (usize, &str) {
    let known = match helm {
        // Helm 3 does not know the last two, the configurations of webhooks.
        HelmVersion::V3 => INSTALL_ORDER.len() - 2,
        HelmVersion::V4 => INSTALL_ORDER.len(),
    };
    match INSTALL_ORDER.iter().take(known).position(|known| *known == kind) {
        Some(place) => (place, ""),
        None => (INSTALL_ORDER.len(), kind),
    }
}

const INSTALL_ORDER: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];
