//! Names of objects on a target cluster.

use std::fmt;

/// Identity of an object on one cluster. The version is no part of it: `apps/v1` and `apps/v1beta1`
/// name the same Deployment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    /// `Deployment.apps web/front`; without the group for core kinds, without the namespace for
    /// cluster-scoped ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// An object with all that its request path needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Identity.
    pub key: ObjectKey,
    /// API version without the group, such as `v1`.
    pub version: String,
    /// Resource name in the path, such as `deployments`.
    pub plural: String,
}

impl ObjectRef {
    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        if self.key.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.key.group, self.version)
        }
    }

    /// Path of the object on an API server, without query.
    pub fn path(&self) -> String {
        let mut path = self.collection_path();
        path.push('/');
        push_escaped(&mut path, &self.key.name);
        path
    }

    /// Path of the list that the object is in, without query.
    pub fn collection_path(&self) -> String {
        let mut path = if self.key.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.key.group, self.version)
        };
        if !self.key.namespace.is_empty() {
            path.push_str("/namespaces/");
            push_escaped(&mut path, &self.key.namespace);
        }
        path.push('/');
        push_escaped(&mut path, &self.plural);
        path
    }
}

/// Appends one path segment; what RFC 3986 does not allow there as it is, percent-encoded.
fn push_escaped(path: &mut String, segment: &str) {
    for byte in segment.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => {
                path.push(char::from(byte));
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}
