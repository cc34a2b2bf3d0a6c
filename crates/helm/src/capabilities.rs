//! `.Capabilities`: what the target cluster is.

use convoy_gotemplate::{Call, Elem, FuncError, Kind, List, Object, Signature, Str, Type, Value};
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

/// The Helm whose behaviour this crate has, as its own build names itself to charts.
const HELM_VERSION: &str = "v4.2";
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
        let could_not = || KubeVersionError(format!("could not parse {text:?} as version"));
        let trimmed = text.trim();
        let numbers = trimmed.strip_prefix('v').unwrap_or(trimmed);
        let end = numbers.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(numbers.len());
        let (numbers, rest) = numbers.split_at_checked(end).ok_or_else(could_not)?;
        let numbers = numbers.strip_suffix('.').filter(|_| !rest.is_empty()).unwrap_or(numbers);
        let parts: Vec<&str> = numbers.split('.').collect();
        if parts.len() < 2 || parts.iter().any(|part| part.is_empty()) {
            return Err(could_not());
        }
        let zero_led = parts.iter().find(|part| part.len() > 1 && part.starts_with('0'));
        if zero_led.is_some() {
            return Err(KubeVersionError(format!(
                "illegal zero-prefixed version component {:?} in {text:?}",
                zero_led.unwrap_or(&"")
            )));
        }
        let number =
            |i: usize| parts.get(i).map_or(Ok(0), |part| part.parse::<u64>()).map_err(|_| could_not());
        let mut normalized = format!("v{}.{}.{}", number(0)?, number(1)?, number(2)?);
        for part in parts.iter().skip(3) {
            normalized = format!("{normalized}.{part}");
        }
        let version = if text.starts_with('v') { text.to_owned() } else { format!("v{text}") };
        Ok(Self { version, normalized, major: number(0)?.to_string(), minor: number(1)?.to_string() })
    }
}

impl Default for Capabilities {
    /// What `helm template` assumes when nothing is said: the version of its client library, and all API
    /// versions that the library knows.
    fn default() -> Self {
        Self {
            kube_version: KubeVersion {
                version: "v1.36.0".to_owned(),
                normalized: "v1.36.0".to_owned(),
                major: "1".to_owned(),
                minor: "36".to_owned(),
            },
            api_versions: KNOWN_API_VERSIONS.iter().map(|version| (*version).to_owned()).collect(),
        }
    }
}

impl Capabilities {
    pub(crate) fn to_value(&self) -> Value {
        Value::object(CapabilitiesObject(self.clone()))
    }
}

#[derive(Debug)]
struct CapabilitiesObject(Capabilities);

impl Object for CapabilitiesObject {
    fn type_name(&self) -> &str {
        "*common.Capabilities"
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "KubeVersion" => Some(Value::object(KubeVersionObject(self.0.kube_version.clone()))),
            "APIVersions" => Some(Value::Object(Rc::new(VersionSetObject(Arc::clone(&self.0.api_versions))))),
            "HelmVersion" => Some(Value::object(HelmVersionObject { kube: self.kube_client_version() })),
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

impl CapabilitiesObject {
    fn kube_client_version(&self) -> String {
        "v1.36".to_owned()
    }
}

#[derive(Debug)]
struct KubeVersionObject(KubeVersion);

impl Object for KubeVersionObject {
    fn type_name(&self) -> &str {
        "common.KubeVersion"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Version" => Some(Value::string(self.0.version.as_str())),
            "Major" => Some(Value::string(self.0.major.as_str())),
            "Minor" => Some(Value::string(self.0.minor.as_str())),
            _ => None,
        }
    }

    fn method(&self, name: &str) -> Option<&'static Signature> {
        static STRING: Signature = Signature::new(&[], Type::String);
        matches!(name, "String" | "GitVersion").then_some(&STRING)
    }

    fn call(&self, name: &str, _: &mut Call<'_, '_>, _: &[Value]) -> Result<Value, FuncError> {
        Ok(Value::string(if name == "String" { self.0.normalized.as_str() } else { self.0.version.as_str() }))
    }

    fn display(&self) -> Option<Str> {
        Some(self.0.normalized.as_str().into())
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        ["Version", "Major", "Minor"].into_iter().filter_map(|name| Some((name, self.field(name)?))).collect()
    }
}

#[derive(Debug)]
struct VersionSetObject(Arc<[String]>);

impl Object for VersionSetObject {
    fn type_name(&self) -> &str {
        "common.VersionSet"
    }

    fn kind(&self) -> Kind {
        Kind::Slice
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn elem(&self) -> Elem {
        Elem::String
    }

    fn method(&self, name: &str) -> Option<&'static Signature> {
        static HAS: Signature = Signature::new(&[Type::String], Type::Bool);
        (name == "Has").then_some(&HAS)
    }

    fn call(&self, _: &str, _: &mut Call<'_, '_>, args: &[Value]) -> Result<Value, FuncError> {
        let has = match args.first() {
            Some(Value::String(wanted)) => self.0.iter().any(|known| known.as_bytes() == &**wanted),
            _ => false,
        };
        Ok(Value::Bool(has))
    }
}

impl VersionSetObject {
    #[allow(dead_code)]
    fn to_list(&self) -> List {
        List::strings(self.0.iter().map(String::as_str))
    }
}

#[derive(Debug)]
struct HelmVersionObject {
    kube: String,
}

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
            "Version" => Some(Value::string(HELM_VERSION)),
            "GitCommit" | "GitTreeState" => Some(Value::string("")),
            "GoVersion" => Some(Value::string(GO_VERSION)),
            "KubeClientVersion" => Some(Value::string(self.kube.as_str())),
            _ => None,
        }
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        ["Version", "GitCommit", "GitTreeState", "GoVersion", "KubeClientVersion"]
            .into_iter()
            .filter_map(|name| Some((name, self.field(name)?)))
            .collect()
    }
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
