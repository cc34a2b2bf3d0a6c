//! Names of objects, by the rules of their kinds, in the words of `k8s.io/apimachinery`.

use super::documents::Head;
use convoy_gotemplate::quote;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

pub(super) fn check(head: &Head) -> Result<(), String> {
    let name = head.name.as_str();
    let problems = match head.kind.to_lowercase().as_str() {
        "service" => service(name),
        "namespace" => label(name),
        "certificatesigningrequest" => Vec::new(),
        "role" | "clusterrole" | "rolebinding" | "clusterrolebinding" => path_segment(name),
        _ => subdomain(name),
    };
    let shown = String::from_utf8_lossy(&quote(name.as_bytes())).into_owned();
    let problems: Vec<String> =
        problems.iter().map(|problem| format!("metadata.name: Invalid value: {shown}: {problem}")).collect();
    let problems = match problems.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Err(format!("object name does not conform to Kubernetes naming requirements: {shown}: {problems}"))
}

fn too_long(name: &str, most: usize) -> Option<String> {
    (name.len() > most).then(|| format!("must be no more than {most} characters"))
}

fn is_label(text: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn subdomain(name: &str) -> Vec<String> {
    let wrong = (!is_subdomain(name)).then(|| SUBDOMAIN.to_owned());
    too_long(name, 253).into_iter().chain(wrong).collect()
}

fn label(name: &str) -> Vec<String> {
    let wrong = match (is_label(name), is_subdomain(name)) {
        (true, _) => None,
        (false, true) => Some("must not contain dots".to_owned()),
        (false, false) => Some(LABEL.to_owned()),
    };
    too_long(name, 63).into_iter().chain(wrong).collect()
}

fn service(name: &str) -> Vec<String> {
    let is_right = is_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase());
    let wrong = (!is_right).then(|| SERVICE.to_owned());
    too_long(name, 63).into_iter().chain(wrong).collect()
}

fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let forbidden = ["/", "%"].into_iter().filter(|text| name.contains(text));
    forbidden.map(|text| format!("may not contain '{text}'")).collect()
}
