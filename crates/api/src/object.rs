use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What all kinds of convoy have in common.
pub trait Kind:
    k8s_openapi::Resource + k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned
{
    /// `<namespace>/<name>`, or `<name>` for an object without a namespace; for messages and logs.
    fn object_ref(&self) -> String {
        let meta = self.metadata();
        let name = meta.name.as_deref().unwrap_or_default();
        match meta.namespace.as_deref() {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }
}

impl<K> Kind for K where
    K: k8s_openapi::Resource + k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned
{
}

/// A stored object that is not what its kind says.
#[derive(Debug, thiserror::Error)]
#[error("decoding {kind} {object}")]
pub struct DecodeError {
    kind: &'static str,
    object: String,
    #[source]
    source: serde_json::Error,
}

/// Reads one object of kind `K`.
///
/// # Errors
/// When a field has another type than the kind gives it; names the object.
pub fn decode<K: Kind>(object: &Value) -> Result<K, DecodeError> {
    K::deserialize(object).map_err(|source| {
        let field =
            |name| object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str).unwrap_or("?");
        let object = format!("{}/{}", field("namespace"), field("name"));
        DecodeError { kind: K::KIND, object, source }
    })
}

/// The object as JSON, with `apiVersion` and `kind`.
pub fn encode<K: Kind>(object: &K) -> Value {
    // Our types hold only strings as map keys, so that they always have a JSON form.
    serde_json::to_value(object).unwrap_or(Value::Null)
}

/// Declares a kind: the struct with `metadata`, `spec` and, where named, `status`, and the
/// implementations by which `kube` and `serde` know it.
macro_rules! kind {
    ($(#[$doc:meta])* $kind:ident, $plural:literal, $singular:literal, spec: $spec:ty $(, status: $status:ty)? $(, scope: $scope:ident)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $kind {
            /// Standard object metadata.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What is wanted.
            pub spec: $spec,
            $(
                /// What convoy last saw and did.
                pub status: Option<$status>,
            )?
        }

        impl k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = crate::API_VERSION;
            const GROUP: &'static str = crate::GROUP;
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = crate::VERSION;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = crate::object::kind_scope!($($scope)?);
        }

        impl k8s_openapi::Metadata for $kind {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }
            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let mut object = serializer.serialize_struct(stringify!($kind), 5)?;
                object.serialize_field("apiVersion", crate::API_VERSION)?;
                object.serialize_field("kind", stringify!($kind))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                $(
                    if let Some(status) = &self.status {
                        let status: &$status = status;
                        object.serialize_field("status", status)?;
                    }
                )?
                object.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    #[serde(default)]
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                    #[serde(default)]
                    spec: $spec,
                    $(
                        #[serde(default)]
                        status: Option<$status>,
                    )?
                }
                let wire = Wire::deserialize(deserializer)?;
                Ok(Self {
                    metadata: wire.metadata,
                    spec: wire.spec,
                    $( status: { let status: Option<$status> = wire.status; status }, )?
                })
            }
        }

        impl $kind {
            /// The name in URLs.
            pub const PLURAL: &'static str = $plural;
            /// The name of one, as kubectl takes it.
            pub const SINGULAR: &'static str = $singular;
        }
    };
}

pub(crate) use kind;

macro_rules! kind_scope {
    () => {
        k8s_openapi::NamespaceResourceScope
    };
    (Cluster) => {
        k8s_openapi::ClusterResourceScope
    };
}

pub(crate) use kind_scope;

/// An answer or a body of a subresource, for the object of a name.
pub(crate) fn subresource_body(kind: &str, value: &impl Serialize, namespace: &str, name: &str) -> Value {
    let mut body = serde_json::to_value(value).unwrap_or_default();
    body["apiVersion"] = crate::API_VERSION.into();
    body["kind"] = kind.into();
    body["metadata"] = serde_json::json!({"name": name, "namespace": namespace});
    body
}
