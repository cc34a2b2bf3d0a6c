//! What a request is about: the path and method read as Kubernetes reads them.

use convoy_meta::query::decode;
use convoy_meta::{GroupResource, GroupVersion, GroupVersionResource, Query};
use http::Method;

/// A request as authorisation, audit and routing see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The decoded path.
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for a path
    /// that is no resource, the method in lower case.
    pub verb: String,
    /// The resource that is asked for, when the path names one.
    pub resource: Option<ResourceRequest>,
}

/// The part of [`RequestInfo`] that names a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    /// The group, empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace, empty when the path has none. For a Namespace itself, its own name.
    pub namespace: String,
    /// Whether the path goes through `namespaces/<namespace>/`.
    pub in_namespace: bool,
    /// The plural name.
    pub resource: String,
    /// The object's name; for list and watch the one that a field selector asks for.
    pub name: String,
    /// The subresource, empty when the path has none.
    pub subresource: String,
    /// What follows the subresource.
    pub rest: Vec<String>,
    /// Whether the path itself names an object.
    pub named: bool,
}

impl ResourceRequest {
    /// The resource with its version.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersion::new(&self.group, &self.version).with_resource(&self.resource)
    }

    /// The resource without its version, as messages name it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

/// Subresources that a Namespace has; any other word after its name is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];
const MAX_SEGMENTS: usize = 32;

impl RequestInfo {
    /// Reads a request's method, path and query. `None` for a path that cannot name anything: empty
    /// or climbing segments, escapes that hide a slash, broken escapes. A server never redirects
    /// such a path to another one.
    pub fn parse(method: &Method, path: &str, query: &Query) -> Option<Self> {
        let trimmed = path.strip_prefix('/')?;
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        let mut segments = Vec::new();
        for segment in trimmed.split('/').filter(|_| !trimmed.is_empty()) {
            let segment = decode(segment, false)?;
            let climbs = segment == "." || segment == "..";
            if segment.is_empty() || climbs || segment.contains(['/', '\0']) || segments.len() == MAX_SEGMENTS
            {
                return None;
            }
            segments.push(segment);
        }
        let mut info = Self {
            path: format!("/{}", segments.join("/")),
            verb: method.as_str().to_ascii_lowercase(),
            resource: None,
        };
        let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, parts) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Some(info),
        };
        let mut request = ResourceRequest {
            group: group.to_owned(),
            version: version.to_owned(),
            ..ResourceRequest::default()
        };
        let parts = match parts {
            ["namespaces", namespace, third, ..] if !NAMESPACE_SUBRESOURCES.contains(third) => {
                request.namespace = (*namespace).to_owned();
                request.in_namespace = true;
                parts.get(2..).unwrap_or_default()
            }
            ["namespaces", namespace, ..] => {
                request.namespace = (*namespace).to_owned();
                parts
            }
            _ => parts,
        };
        let mut parts = parts.iter().map(|part| (*part).to_owned());
        request.resource = parts.next()?;
        if let Some(name) = parts.next() {
            request.name = name;
            request.named = true;
        }
        request.subresource = parts.next().unwrap_or_default();
        request.rest = parts.collect();
        info.verb = verb(method, &mut request, query);
        info.resource = Some(request);
        Some(info)
    }

    /// Whether the request may stay open for long: a watch.
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch"
    }

    /// Whether the request only reads.
    pub fn is_read(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list" | "watch" | "head" | "options")
    }
}

fn verb(method: &Method, request: &mut ResourceRequest, query: &Query) -> String {
    match (method.as_str(), request.named) {
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) => {
            let selector = convoy_meta::FieldSelector::parse(query.text("fieldSelector")).unwrap_or_default();
            if let Some(name) = selector.exact("metadata.name") {
                request.name = name.to_owned();
            }
            if query.flag("watch") { "watch" } else { "list" }
        }
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        (other, _) => return other.to_ascii_lowercase(),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, target: &str) -> Option<RequestInfo> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        RequestInfo::parse(&method.parse().unwrap(), path, &Query::parse(query))
    }

    #[test]
    fn paths_read_as_kubernetes_reads_them() {
        // method, path, verb, group/version, namespace, resource, name, subresource
        let table = [
            ("GET", "/api/v1/namespaces", "list", "v1", "", "namespaces", "", ""),
            ("GET", "/api/v1/namespaces/x", "get", "v1", "x", "namespaces", "x", ""),
            ("PUT", "/api/v1/namespaces/x/finalize", "update", "v1", "x", "namespaces", "x", "finalize"),
            ("GET", "/api/v1/namespaces/x/pods", "list", "v1", "x", "pods", "", ""),
            ("GET", "/api/v1/namespaces/x/pods/a/log", "get", "v1", "x", "pods", "a", "log"),
            ("GET", "/apis/g/v1/things?watch=1", "watch", "g/v1", "", "things", "", ""),
            (
                "GET",
                "/apis/g/v1/things?fieldSelector=metadata.name%3Da",
                "list",
                "g/v1",
                "",
                "things",
                "a",
                "",
            ),
            ("DELETE", "/apis/g/v1/namespaces/x/things", "deletecollection", "g/v1", "x", "things", "", ""),
            (
                "PATCH",
                "/apis/g/v1/things/system%3Aa/status",
                "patch",
                "g/v1",
                "",
                "things",
                "system:a",
                "status",
            ),
        ];
        for (method, target, verb, gv, namespace, resource, name, sub) in table {
            let info = info(method, target).unwrap();
            let request = info.resource.unwrap();
            assert_eq!(info.verb, verb, "{target}");
            assert_eq!(request.gvr().group_version().to_string(), gv, "{target}");
            let got = (&*request.namespace, &*request.resource, &*request.name, &*request.subresource);
            assert_eq!(got, (namespace, resource, name, sub), "{target}");
        }
    }

    #[test]
    fn discovery_paths_are_no_resources() {
        for path in ["/", "/api", "/api/v1", "/apis", "/apis/g", "/apis/g/v1", "/healthz", "/apis/g/v1/"] {
            assert_eq!(info("GET", path).unwrap().resource, None, "{path}");
        }
    }

    #[test]
    fn paths_that_climb_or_hide_slashes_name_nothing() {
        let bad = [
            "/apis/g/v1/namespaces/../x",
            "/apis/g/v1/namespaces/%2e%2e/x",
            "/apis//v1",
            "//api",
            "/api/v1/a%2fb",
            "/api/%zz",
            "/api/%ff",
            "",
        ];
        for path in bad {
            assert_eq!(info("GET", path), None, "{path}");
        }
    }
}
