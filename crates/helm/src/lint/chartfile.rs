//! Chart.yaml.

use super::Severity::{Error, Info, Warning};
use super::{LintChart, Linter};
use crate::functions::{check_url, compile_pattern};
use crate::loose::{self, Fields, Loose, TypedError};
use crate::metadata::Metadata;
use crate::semver::Version;
use crate::values::Data;
use crate::version::HelmVersion;
use convoy_gotemplate::quote;
use std::cmp::Ordering;

const FILE: &str = "Chart.yaml";

pub(super) fn lint(linter: &mut Linter, chart: &LintChart) {
    let is_folder = chart.folders.contains(FILE);
    let problem = "should be a file, not a directory".to_owned();
    linter.rule(Error, FILE, if is_folder { Err(problem) } else { Ok(()) });
    let text = chart.file(FILE).unwrap_or_default();
    let mut metadata = Metadata::default();
    let read = match is_folder {
        true => Err(format!("read {}/{FILE}: is a directory", chart.folder)),
        false => metadata.read(text, HelmVersion::V4).map_err(|error| error.go_text()),
    };
    if !linter.rule(Error, FILE, read.map_err(|error| format!("unable to parse YAML\n\t{error}"))) {
        return;
    }
    let strict = read_strictly(text).map_err(|error| error.go_text());
    let strict = strict.map_err(|error| format!("failed to strictly parse chart metadata file\n\t{error}"));
    linter.rule(Warning, FILE, strict);
    linter.rule(Error, FILE, name(&metadata.name));
    linter.rule(Error, FILE, api_version(&metadata.api_version));
    let untyped = convoy_yaml::read(text, convoy_yaml::Options::default()).unwrap_or_default();
    linter.rule(Error, FILE, is_string(&untyped, "version"));
    linter.rule(Error, FILE, version(&metadata.version));
    linter.rule(Error, FILE, is_string(&untyped, "appVersion"));
    linter.rule(Error, FILE, maintainers(text));
    linter.rule(Error, FILE, sources(&metadata.sources));
    let icon = &metadata.icon;
    linter.rule(Info, FILE, if icon.is_empty() { Err("icon is recommended".to_owned()) } else { Ok(()) });
    let is_wrong = !icon.is_empty() && !is_request_url(icon);
    linter.rule(Error, FILE, if is_wrong { Err(format!("invalid icon URL '{icon}'")) } else { Ok(()) });
    let only_v2 = |is_set: bool, text: &str| match is_set && metadata.api_version != "v2" {
        true => Err(format!("{text} apiVersion 'v2'")),
        false => Ok(()),
    };
    let found = &metadata.api_version;
    let kind = format!("chart type is not valid in apiVersion '{found}'. It is valid in");
    linter.rule(Error, FILE, only_v2(!metadata.kind.is_empty(), &kind));
    let dependencies =
        format!("dependencies are not valid in the Chart file with apiVersion '{found}'. They are valid in");
    linter.rule(Error, FILE, only_v2(!metadata.dependencies.is_empty(), &dependencies));
    let is_strict = is_strict_semver(&metadata.version);
    let problem = format!("version '{}' is not a valid SemVerV2", metadata.version);
    linter.rule(Warning, FILE, if is_strict { Ok(()) } else { Err(problem) });
}

/// Chart.yaml without keys that stand twice or that nobody knows.
fn read_strictly(text: &[u8]) -> Result<(), TypedError> {
    const FIELDS: [&str; 17] = [
        "name",
        "home",
        "sources",
        "version",
        "description",
        "keywords",
        "maintainers",
        "icon",
        "apiVersion",
        "condition",
        "tags",
        "appVersion",
        "deprecated",
        "annotations",
        "kubeVersion",
        "dependencies",
        "type",
    ];
    const MAINTAINER: [&str; 3] = ["name", "email", "url"];
    const DEPENDENCY: [&str; 8] =
        ["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"];
    let read: Loose =
        convoy_yaml::read(text, convoy_yaml::Options { strict: true }).map_err(TypedError::Yaml)?;
    let Loose::Map(entries) = &read else { return Ok(()) };
    let known = |key: &str, fields: &[&str]| match fields.iter().any(|field| field.eq_ignore_ascii_case(key))
    {
        true => Ok(()),
        false => Err(TypedError::UnknownField(key.to_owned())),
    };
    for (key, value) in entries {
        known(key, &FIELDS)?;
        let fields: &[&str] = match key.to_ascii_lowercase().as_str() {
            "maintainers" => &MAINTAINER,
            "dependencies" => &DEPENDENCY,
            _ => continue,
        };
        let Loose::Seq(items) = value else { continue };
        let inner = items.iter().filter_map(|item| match item {
            Loose::Map(entries) => Some(entries.keys()),
            _ => None,
        });
        inner.flatten().try_for_each(|key| known(key, fields))?;
    }
    Ok(())
}

fn name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("name is required".to_owned());
    }
    // Go's filepath.Base.
    let base = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match base == name {
        true => Ok(()),
        false => Err(format!("chart name {} is invalid", quoted(name))),
    }
}

fn quoted(text: &str) -> String {
    String::from_utf8_lossy(&quote(text.as_bytes())).into_owned()
}

fn api_version(version: &str) -> Result<(), String> {
    match version {
        "v1" | "v2" => Ok(()),
        "" => Err("apiVersion is required. The value must be either \"v1\" or \"v2\"".to_owned()),
        _ => Err(format!("apiVersion '{version}' is not valid. The value must be either \"v1\" or \"v2\"")),
    }
}

fn is_string(values: &Data, key: &str) -> Result<(), String> {
    let Data::Map(values) = values else { return Ok(()) };
    let found = match values.get(key.as_bytes()) {
        None | Some(Data::String(_)) => return Ok(()),
        Some(Data::Null) => "<nil>",
        Some(Data::Bool(_)) => "bool",
        Some(Data::Int(_) | Data::Float(_)) => "float64",
        Some(Data::List(_)) => "[]interface {}",
        Some(Data::Map(_)) => "map[string]interface {}",
    };
    Err(format!("{key} should be of type string but it's of type {found}"))
}

fn version(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("version is required".to_owned());
    }
    let version = Version::parse(text).map_err(|_| format!("version '{text}' is not a valid SemVer"))?;
    let Ok(least) = Version::parse("0.0.0-0") else { return Ok(()) };
    match version.compare(&least) {
        Ordering::Greater => Ok(()),
        _ => Err(format!("version {} is less than or equal to \"0.0.0-0\"", quoted(&version.to_string()))),
    }
}

/// Whether `semver.StrictNewVersion` takes it.
fn is_strict_semver(text: &str) -> bool {
    let numbers = text.split(['+', '-']).next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && (part.len() == 1 || !part.starts_with('0'));
    !text.starts_with('v')
        && numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && Version::parse(text).is_ok()
}

fn maintainers(text: &[u8]) -> Result<(), String> {
    let Ok(read) = loose::read(text) else { return Ok(()) };
    let maintainers = Fields::of(&read, "v2.Metadata");
    let maintainers = maintainers.and_then(|fields| fields.structs("maintainers", "v2.Maintainer"));
    for maintainer in maintainers.unwrap_or_default() {
        let Some(maintainer) = maintainer else { return Err("a maintainer entry is empty".to_owned()) };
        let field = |name: &str| maintainer.string(name).unwrap_or_default();
        let (name, email, url) = (field("name"), field("email"), field("url"));
        if name.is_empty() {
            return Err("each maintainer requires a name".to_owned());
        }
        if !email.is_empty() && !is_email(&email) {
            return Err(format!("invalid email '{email}' for maintainer '{name}'"));
        }
        if !url.is_empty() && !is_url(&url) {
            return Err(format!("invalid url '{url}' for maintainer '{name}'"));
        }
    }
    Ok(())
}

fn sources(sources: &[String]) -> Result<(), String> {
    match sources.iter().find(|source| !is_request_url(source)) {
        Some(source) => Err(format!("invalid source URL '{source}'")),
        None => Ok(()),
    }
}

/// `govalidator.IsRequestURL`.
fn is_request_url(text: &str) -> bool {
    let after_scheme = text.split_once("://").map_or("", |(_, after)| after);
    let authority = after_scheme.split(['/', '?']).next().unwrap_or_default();
    !authority.contains('#') && check_url(text).is_ok_and(|(has_scheme, ..)| has_scheme)
}

const WIDE: &str = r"\x{00A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}";

/// `govalidator.IsEmail`.
fn is_email(text: &str) -> bool {
    let atom = format!(r"([a-zA-Z]|\d|[!#\$%&'\*\+\-\/=\?\^_`{{\|}}~]|[{WIDE}])+");
    let space = r"(((\x20|\x09)*(\x0d\x0a))?(\x20|\x09)+)?";
    let inner = format!(
        r"(([\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|\x21|[\x23-\x5b]|[\x5d-\x7e]|[{WIDE}])|(\([\x01-\x09\x0b\x0c\x0d-\x7f]|[{WIDE}]))"
    );
    let local = format!(r#"({atom}(\.{atom})*)|(((\x22)({space}{inner}))*{space}(\x22))"#);
    let (wide, word) = (format!(r"[a-zA-Z]|[{WIDE}]"), format!(r"[a-zA-Z]|\d|[{WIDE}]"));
    let label = format!(r"(({word})|(({word})([a-zA-Z]|\d|-|\.|_|~|[{WIDE}])*({word})))");
    let top = format!(r"(({wide})|(({wide})([a-zA-Z]|\d|-|_|~|[{WIDE}])*({wide})))");
    is_match(&format!(r"^({local})@({label}\.)+{top}\.?$"), text)
}

/// `govalidator.IsURL`.
fn is_url(text: &str) -> bool {
    const MOST: usize = 2083;
    if text.chars().count() >= MOST || text.len() <= 3 || text.starts_with('.') {
        return false;
    }
    let with_scheme = match text.contains(':') && !text.contains("://") {
        true => format!("http://{text}"),
        false => text.to_owned(),
    };
    let Ok((has_scheme, host, _)) = check_url(&with_scheme) else { return false };
    let path = with_scheme.split(['?', '#']).next().unwrap_or_default();
    if host.starts_with('.') || (host.is_empty() && !has_scheme && !path.is_empty() && !path.contains('.')) {
        return false;
    }
    let part = "[0-9a-fA-F]{1,4}";
    let quad = r"((25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9])\.){3,3}(25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9])";
    let ip = format!(
        "(({part}:){{7,7}}{part}|({part}:){{1,7}}:|({part}:){{1,6}}:{part}|({part}:){{1,5}}(:{part}){{1,2}}|({part}:){{1,4}}(:{part}){{1,3}}|({part}:){{1,3}}(:{part}){{1,4}}|({part}:){{1,2}}(:{part}){{1,5}}|{part}:((:{part}){{1,6}})|:((:{part}){{1,7}}|:)|fe80:(:[0-9a-fA-F]{{0,4}}){{0,4}}%[0-9a-zA-Z]{{1,}}|::(ffff(:0{{1,4}}){{0,1}}:){{0,1}}{quad}|({part}:){{1,4}}:{quad})"
    );
    let address = r"([1-9]\d?|1\d\d|2[01]\d|22[0-3]|24\d|25[0-5])(\.(\d{1,2}|1\d\d|2[0-4]\d|25[0-5])){2}(?:\.([0-9]\d?|1\d\d|2[0-4]\d|25[0-5]))";
    let subdomain = r"((www\.)|([a-zA-Z0-9]+([-_\.]?[a-zA-Z0-9])*[a-zA-Z0-9]\.[a-zA-Z0-9]+))";
    let host = format!(
        r"(({address}|(\[{ip}\])|(([a-zA-Z0-9]([a-zA-Z0-9\-_]+)?[a-zA-Z0-9]([\-\.][a-zA-Z0-9]+)*)|({subdomain}?))?(([a-zA-Z\x{{00a1}}-\x{{ffff}}0-9]+-?-?)*[a-zA-Z\x{{00a1}}-\x{{ffff}}0-9]+)(?:\.([a-zA-Z\x{{00a1}}-\x{{ffff}}]{{1,}}))?))"
    );
    let pattern = format!(
        r"^((ftp|tcp|udp|wss?|https?):\/\/)?(\S+(:\S*)?@)?{host}\.?(:(\d{{1,5}}))?((\/|\?|#)[^\s]*)?$"
    );
    is_match(&pattern, text)
}

fn is_match(pattern: &str, text: &str) -> bool {
    compile_pattern(pattern).is_ok_and(|pattern| pattern.is_match(text.as_bytes()))
}
