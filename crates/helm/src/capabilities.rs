//! `.Capabilities`: what the target cluster is.

use crate::version::HelmVersion;
use convoy_gotemplate::{Call, Elem, FuncError, Kind, List, Object, Signature, Str, Type, Value};
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

/// The Helm whose behaviour this crate has, as its own build names itself to charts.
const HELM_VERSION: &str = "v4.2.4";
/// The Go that it is built with.
const GO_VERSION: &str = "go1.26.8";

/// What the target cluster is.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Version of Kubernetes.
    pub kube_version: KubeVersion,
    /// API versions that it serves: `v1`, `apps/v1`, and `apps/v1/Deployment` when a kind is asked for.
    pub api_versions: Arc<[String]>,
}

/// A version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// In full, as in `v1.33.4-gke.1245000`.
    pub version: String,
    /// Without suffixes, as in `v1.33.4`: this is what constraints are checked against.
    pub normalized: String,
    /// The first number.
    pub major: String,
    /// The second number.
    pub minor: String,
}

/// A text that is no version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeVersionError(String);

impl KubeVersion {
    /// Reads a version; `v` may be missing, and whatever follows the numbers is kept in [`Self::version`].
    ///
    /// # Errors
    ///
    /// When it does not start with two numbers.
    pub fn parse(text: &str) -> Result<Self, KubeVersionError> {
        let trimmed = text.trim_start();
        let numbers = trimmed.strip_prefix('v').unwrap_or(trimmed);
        let mut components = Vec::new();
        let mut rest = numbers;
        loop {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (component, after) = rest.split_at_checked(digits).unwrap_or((rest, ""));
            if component.is_empty() {
                break;
            }
            components.push(component);
            match after.strip_prefix('.') {
                Some(next) => rest = next,
                None => break,
            }
        }
        let error = |text: String| Err(KubeVersionError(text));
        let (Some(&major), minor) = (components.first(), components.get(1)) else {
            return error(format!("could not parse {text:?} as version"));
        };
        let Some(&minor) = minor else { return error(format!("illegal version string {text:?}")) };
        if major.len() > 1 && major.starts_with('0') {
            return error(format!("illegal zero-prefixed version component {major:?} in {text:?}"));
        }
        let mut normalized = Vec::new();
        for component in &components {
            match component.parse::<u64>() {
                Ok(number) => normalized.push(number.to_string()),
                Err(_) => {
                    return error(format!(
                        "illegal non-numeric version component {component:?} in {text:?}: strconv.ParseUint: parsing {component:?}: value out of range"
                    ));
                }
            }
        }
        let version = if text.starts_with('v') { text.to_owned() } else { format!("v{text}") };
        let number = |component: &str| component.trim_start_matches('0').to_owned();
        let shown =
            |component: &str| if number(component).is_empty() { "0".to_owned() } else { number(component) };
        Ok(Self {
            version,
            normalized: format!("v{}", normalized.join(".")),
            major: shown(major),
            minor: shown(minor),
        })
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        Self::assumed_by(HelmVersion::default())
    }
}

impl Capabilities {
    /// What a version of Helm assumes when nothing is said: the Kubernetes version of its client library, and all
    /// API versions that the library knows.
    pub fn assumed_by(helm: HelmVersion) -> Self {
        let version = |minor: &str| KubeVersion {
            version: format!("v1.{minor}.0"),
            normalized: format!("v1.{minor}.0"),
            major: "1".to_owned(),
            minor: minor.to_owned(),
        };
        let minor = match helm {
            HelmVersion::V3 => "37",
            HelmVersion::V4 => "36",
        };
        let known = KNOWN_API_VERSIONS.iter().map(|version| (*version).to_owned());
        let api_versions = match helm {
            HelmVersion::V3 => with_those_of_helm_3(known.collect()).into(),
            HelmVersion::V4 => known.collect(),
        };
        Self { kube_version: version(minor), api_versions }
    }

    pub(crate) fn to_value(&self, helm: HelmVersion) -> Value {
        Value::object(CapabilitiesObject { capabilities: self.clone(), helm })
    }
}

#[derive(Debug)]
struct CapabilitiesObject {
    capabilities: Capabilities,
    helm: HelmVersion,
}

impl Object for CapabilitiesObject {
    fn type_name(&self) -> &str {
        match self.helm {
            HelmVersion::V3 => "*chartutil.Capabilities",
            HelmVersion::V4 => "*common.Capabilities",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self, name: &str) -> Option<Value> {
        let (Capabilities { kube_version, api_versions }, helm) = (&self.capabilities, self.helm);
        match name {
            "KubeVersion" => Some(Value::object(KubeVersionObject { version: kube_version.clone(), helm })),
            "APIVersions" => {
                let versions = api_versions.iter().map(|version| Value::string(version.as_str()));
                let face = Rc::new(VersionSet { known: Arc::clone(api_versions), helm });
                Some(Value::List(List::named(face, Elem::String, Some(versions.collect()))))
            }
            "HelmVersion" => Some(Value::object(HelmVersionObject(helm))),
            _ => None,
        }
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        ["KubeVersion", "APIVersions", "HelmVersion"]
            .into_iter()
            .filter_map(|name| Some((name, self.field(name)?)))
            .collect()
    }
}

#[derive(Debug)]
struct KubeVersionObject {
    version: KubeVersion,
    helm: HelmVersion,
}

impl KubeVersionObject {
    /// What its method String gives.
    fn text(&self) -> &str {
        match self.helm {
            HelmVersion::V3 => &self.version.version,
            HelmVersion::V4 => &self.version.normalized,
        }
    }
}

impl Object for KubeVersionObject {
    fn type_name(&self) -> &str {
        match self.helm {
            HelmVersion::V3 => "chartutil.KubeVersion",
            HelmVersion::V4 => "common.KubeVersion",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Version" => Some(Value::string(self.version.version.as_str())),
            "Major" => Some(Value::string(self.version.major.as_str())),
            "Minor" => Some(Value::string(self.version.minor.as_str())),
            _ => None,
        }
    }

    fn method(&self, name: &str) -> Option<&'static Signature> {
        static STRING: Signature = Signature::new(&[], Type::String);
        matches!(name, "String" | "GitVersion").then_some(&STRING)
    }

    fn call(&self, name: &str, _: &mut Call<'_, '_>, _: &[Value]) -> Result<Value, FuncError> {
        Ok(Value::string(if name == "String" { self.text() } else { self.version.version.as_str() }))
    }

    /// Its method String is a pointer's.
    fn printed(&self) -> Option<Str> {
        Some(self.text().into())
    }

    fn json_fields(&self) -> Vec<(&'static str, Value)> {
        ["Version", "Major", "Minor"].into_iter().filter_map(|name| Some((name, self.field(name)?))).collect()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = self.json_fields();
        if self.helm == HelmVersion::V4 {
            fields.insert(1, ("normalizedVersion", Value::string(self.version.normalized.as_str())));
        }
        fields
    }
}

/// The methods of the list of API versions.
#[derive(Debug)]
struct VersionSet {
    known: Arc<[String]>,
    helm: HelmVersion,
}

impl Object for VersionSet {
    fn type_name(&self) -> &str {
        match self.helm {
            HelmVersion::V3 => "chartutil.VersionSet",
            HelmVersion::V4 => "common.VersionSet",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Slice
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn method(&self, name: &str) -> Option<&'static Signature> {
        static HAS: Signature = Signature::new(&[Type::String], Type::Bool);
        (name == "Has").then_some(&HAS)
    }

    fn call(&self, _: &str, _: &mut Call<'_, '_>, args: &[Value]) -> Result<Value, FuncError> {
        let has = match args.first() {
            Some(Value::String(wanted)) => self.known.iter().any(|known| known.as_bytes() == &**wanted),
            _ => false,
        };
        Ok(Value::Bool(has))
    }
}

#[derive(Debug)]
struct HelmVersionObject(HelmVersion);

impl Object for HelmVersionObject {
    fn type_name(&self) -> &str {
        "version.BuildInfo"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Version" => Some(Value::string(match self.0 {
                HelmVersion::V3 => "v3.22.0",
                HelmVersion::V4 => HELM_VERSION,
            })),
            "GitCommit" | "GitTreeState" => Some(Value::string("")),
            "GoVersion" => Some(Value::string(GO_VERSION)),
            "KubeClientVersion" if self.0 == HelmVersion::V4 => Some(Value::string("v1.36")),
            _ => None,
        }
    }

    fn json_fields(&self) -> Vec<(&'static str, Value)> {
        let name = |name: &'static str| match name {
            "Version" => "version",
            "GoVersion" => "go_version",
            _ => "kube_client_version",
        };
        let set = self.fields().into_iter().filter(|(_, value)| value.truth());
        set.map(|(go, value)| (name(go), value)).collect()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        ["Version", "GitCommit", "GitTreeState", "GoVersion", "KubeClientVersion"]
            .into_iter()
            .filter_map(|name| Some((name, self.field(name)?)))
            .collect()
    }
}

/// `k8s.io/client-go` 0.37 has some others.
fn with_those_of_helm_3(mut known: Vec<String>) -> Vec<String> {
    let at = |known: &[String], version: &str| known.iter().position(|one| one == version);
    if let Some(at) = at(&known, "networking.k8s.io/v1") {
        known.insert(at, "lifecycle.k8s.io/v1alpha1".to_owned());
    }
    if let Some(at) = at(&known, "storagemigration.k8s.io/v1beta1") {
        known.insert(at, "storagemigration.k8s.io/v1".to_owned());
    }
    for version in known.iter_mut().filter(|version| *version == "scheduling.k8s.io/v1alpha2") {
        "scheduling.k8s.io/v1alpha3".clone_into(version);
    }
    known
}

/// Of `k8s.io/client-go` 0.36's scheme with the extension API, in its order.
const KNOWN_API_VERSIONS: [&str; 55] = [
    "v1",
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha2",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];
