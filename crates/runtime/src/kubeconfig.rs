//! Kubeconfigs that others wrote.
//!
//! A target's kubeconfig comes from a tenant. It may say where the API server is and hold inline
//! credentials, and nothing else: no program is run for it, no file is read, no other host than the
//! server is asked, and nobody is impersonated.

use std::net::IpAddr;

use base64::Engine as _;
use kube::config::{AuthInfo, Cluster, Kubeconfig};

/// The longest kubeconfig that is read, in bytes.
const LONGEST: usize = 256 * 1024;

/// Why a kubeconfig is not used. Holds nothing of the credentials.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigRefused {
    /// It is no kubeconfig.
    #[error("the kubeconfig is not valid: {0}")]
    Malformed(String),
    /// It is longer than convoy reads.
    #[error("the kubeconfig has {bytes} bytes; at most {LONGEST} are read")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It does not say which context to use, or the context is incomplete.
    #[error("the kubeconfig {0}")]
    Incomplete(String),
    /// A field asks for what convoy does not do for a kubeconfig.
    #[error("the kubeconfig's {field} is refused: {why}")]
    Field {
        /// The field with the name of the user or cluster, such as `users[admin].exec`.
        field: String,
        /// Why, and what to use instead.
        why: String,
    },
}

/// Reads a kubeconfig and refuses what a tenant may not ask for. What is left of it is the current
/// context with its cluster and user.
///
/// # Errors
/// When it is malformed, incomplete, or asks for a program, a file, a proxy, impersonation, an
/// unverified or unencrypted connection, or an address that only the machine itself should reach.
pub fn parse_untrusted(bytes: &[u8]) -> Result<Kubeconfig, KubeconfigRefused> {
    let mut kubeconfig = parse(bytes)?;
    let (context, cluster_name, user_name) = current_context(&kubeconfig)?;
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|named| named.name == cluster_name)
        .ok_or_else(|| {
            KubeconfigRefused::Incomplete(format!(
                "has no cluster {cluster_name:?}, which its current context {context:?} names"
            ))
        })?
        .cluster
        .clone()
        .unwrap_or_default();
    let user = kubeconfig
        .auth_infos
        .iter()
        .find(|named| named.name == user_name)
        .ok_or_else(|| {
            KubeconfigRefused::Incomplete(format!(
                "has no user {user_name:?}, which its current context {context:?} names"
            ))
        })?
        .auth_info
        .clone()
        .unwrap_or_default();
    check_user(&user_name, &user)?;
    check_cluster(&cluster_name, &cluster)?;
    // Exactly what was checked: a second entry of the same name does not stay.
    keep_first(&mut kubeconfig.clusters, |named| named.name == cluster_name);
    keep_first(&mut kubeconfig.auth_infos, |named| named.name == user_name);
    keep_first(&mut kubeconfig.contexts, |named| named.name == context);
    Ok(kubeconfig)
}

/// Reads the operator's own kubeconfig: files are fine, programs are not. `context` stands in for its
/// current context.
///
/// # Errors
/// When it is malformed or incomplete, or its user has an exec or auth-provider section.
pub fn parse_trusted(bytes: &[u8], context: Option<&str>) -> Result<Kubeconfig, KubeconfigRefused> {
    let mut kubeconfig = parse(bytes)?;
    if let Some(context) = context {
        kubeconfig.current_context = Some(context.to_owned());
    }
    let (_, _, user_name) = current_context(&kubeconfig)?;
    if let Some(user) = kubeconfig
        .auth_infos
        .iter()
        .find(|named| named.name == user_name)
        .and_then(|named| named.auth_info.as_ref())
    {
        check_programs(&user_name, user)?;
    }
    Ok(kubeconfig)
}

fn keep_first<T>(list: &mut Vec<T>, wanted: impl Fn(&T) -> bool) {
    let mut is_found = false;
    list.retain(|item| wanted(item) && !std::mem::replace(&mut is_found, true));
}

fn parse(bytes: &[u8]) -> Result<Kubeconfig, KubeconfigRefused> {
    if bytes.len() > LONGEST {
        return Err(KubeconfigRefused::TooLong { bytes: bytes.len() });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| KubeconfigRefused::Malformed("it is no UTF-8 text".to_owned()))?;
    if text.trim().is_empty() {
        return Err(KubeconfigRefused::Malformed("it is empty".to_owned()));
    }
    // The parser's own message may quote the line, and the line may hold a token.
    Kubeconfig::from_yaml(text).map_err(|error| {
        let line = match &error {
            kube::config::KubeconfigError::Parse(error) => error.location().map(|at| at.line()),
            _ => None,
        };
        KubeconfigRefused::Malformed(match line {
            Some(line) => format!("line {line} is not YAML of a kubeconfig"),
            None => "it is not YAML of a kubeconfig".to_owned(),
        })
    })
}

fn current_context(kubeconfig: &Kubeconfig) -> Result<(String, String, String), KubeconfigRefused> {
    let name = kubeconfig.current_context.as_deref().filter(|name| !name.is_empty()).ok_or_else(|| {
        KubeconfigRefused::Incomplete("has no current-context; set it to the context to use".to_owned())
    })?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|named| named.name == name)
        .and_then(|named| named.context.as_ref())
        .ok_or_else(|| {
            KubeconfigRefused::Incomplete(format!("has no context {name:?}, which current-context names"))
        })?;
    Ok((name.to_owned(), context.cluster.clone(), context.user.clone().unwrap_or_default()))
}

fn check_programs(name: &str, user: &AuthInfo) -> Result<(), KubeconfigRefused> {
    let refuse = |field: &str, why: &str| {
        Err(KubeconfigRefused::Field { field: format!("users[{name}].{field}"), why: why.to_owned() })
    };
    if user.exec.is_some() {
        return refuse("exec", "convoy runs no program; use a token or a client certificate");
    }
    if user.auth_provider.is_some() {
        return refuse("auth-provider", "convoy runs no login flow; use a token or a client certificate");
    }
    Ok(())
}

fn check_user(name: &str, user: &AuthInfo) -> Result<(), KubeconfigRefused> {
    check_programs(name, user)?;
    let field = |field: &str| format!("users[{name}].{field}");
    let refuse =
        |name: &str, why: &str| Err(KubeconfigRefused::Field { field: field(name), why: why.to_owned() });
    const NO_FILES: &str = "convoy reads no files; put the content inline";
    for (name, value) in [
        ("tokenFile", &user.token_file),
        ("client-certificate", &user.client_certificate),
        ("client-key", &user.client_key),
    ] {
        if value.as_ref().is_some_and(|path| !path.is_empty()) {
            let instead = match name {
                "tokenFile" => "token",
                "client-certificate" => "client-certificate-data",
                _ => "client-key-data",
            };
            return refuse(name, &format!("{NO_FILES}, as {instead}"));
        }
    }
    if user.impersonate.is_some()
        || user.impersonate_uid.is_some()
        || user.impersonate_groups.is_some()
        || user.impersonate_user_extra.is_some()
    {
        return refuse("as", "the Release decides who is impersonated, not the kubeconfig");
    }
    use secrecy::ExposeSecret as _;
    let certificate = user.client_certificate_data.as_deref();
    let key = user.client_key_data.as_ref().map(|key| key.expose_secret());
    for (name, data) in [("client-certificate-data", certificate), ("client-key-data", key)] {
        if data.is_some_and(|data| !is_base64(data)) {
            return refuse(name, "it is not base64");
        }
    }
    match (certificate, key) {
        (Some(_), None) => refuse("client-key-data", "it is missing, but client-certificate-data is there"),
        (None, Some(_)) => refuse("client-certificate-data", "it is missing, but client-key-data is there"),
        _ => Ok(()),
    }
}

fn check_cluster(name: &str, cluster: &Cluster) -> Result<(), KubeconfigRefused> {
    let refuse = |field: &str, why: String| {
        Err(KubeconfigRefused::Field { field: format!("clusters[{name}].{field}"), why })
    };
    if cluster.certificate_authority.as_ref().is_some_and(|path| !path.is_empty()) {
        return refuse(
            "certificate-authority",
            "convoy reads no files; put the content inline, as certificate-authority-data".to_owned(),
        );
    }
    if cluster.certificate_authority_data.as_ref().is_some_and(|data| !is_base64(data)) {
        return refuse("certificate-authority-data", "it is not base64".to_owned());
    }
    if cluster.insecure_skip_tls_verify == Some(true) {
        return refuse(
            "insecure-skip-tls-verify",
            "convoy speaks only to servers it can tell apart; give certificate-authority-data".to_owned(),
        );
    }
    if cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty()) {
        return refuse("proxy-url", "convoy asks no other host than the server".to_owned());
    }
    let server = cluster.server.as_deref().unwrap_or_default();
    let uri: http::Uri = match server.parse() {
        Ok(uri) => uri,
        Err(_) => return refuse("server", "it is no URL; write https://host:port".to_owned()),
    };
    if uri.scheme_str() != Some("https") {
        return refuse("server", "it must be an https URL".to_owned());
    }
    let host = uri.host().unwrap_or_default();
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return refuse("server", "credentials in the URL are not taken; use the user's token".to_owned());
    }
    if is_refused_host(host) {
        return refuse(
            "server",
            format!("{host} is an address of the machine's own network, not of a cluster"),
        );
    }
    Ok(())
}

fn is_base64(text: &str) -> bool {
    let compact: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(compact).is_ok()
}

/// Link-local and unspecified addresses, and the names under which clouds serve credentials.
fn is_refused_host(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    if matches!(host.as_str(), "metadata" | "metadata.google.internal" | "instance-data") || host.is_empty() {
        return true;
    }
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(address)) => {
            address.is_link_local() || address.is_unspecified() || address.is_broadcast()
        }
        // fd00:ec2::254 is where one cloud serves credentials.
        Ok(IpAddr::V6(address)) => {
            address.is_unicast_link_local()
                || address.is_unspecified()
                || address.segments()[..2] == [0xfd00, 0x0ec2]
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{{cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        )
    }

    fn refusal(text: &str) -> String {
        parse_untrusted(text.as_bytes()).unwrap_err().to_string()
    }

    const SERVER: &str = "server: \"https://10.0.0.1:6443\"";

    #[test]
    fn what_is_refused_is_named_with_user_or_cluster_and_field() {
        let table = [
            (SERVER, "exec: {command: sh}", "users[u].exec is refused: convoy runs no program"),
            (
                SERVER,
                "auth-provider: {name: oidc}",
                "users[u].auth-provider is refused: convoy runs no login flow",
            ),
            (SERVER, "tokenFile: /var/run/token", "users[u].tokenFile is refused: convoy reads no files"),
            (
                SERVER,
                "client-certificate: ../x.crt",
                "users[u].client-certificate is refused: convoy reads no files",
            ),
            (SERVER, "client-key: /x.key", "users[u].client-key is refused: convoy reads no files"),
            (SERVER, "as: \"system:admin\"", "users[u].as is refused: the Release decides"),
            (SERVER, "as-groups: [\"system:masters\"]", "users[u].as is refused: the Release decides"),
            (
                SERVER,
                "client-key-data: \"%%\", client-certificate-data: YQ==",
                "users[u].client-key-data is refused: it is not base64",
            ),
            (SERVER, "client-certificate-data: YQ==", "users[u].client-key-data is refused: it is missing"),
            (
                "server: \"https://a\", certificate-authority: /ca.pem",
                "token: t",
                "clusters[c].certificate-authority is refused: convoy reads no files",
            ),
            (
                "server: \"https://a\", certificate-authority-data: \"!!!\"",
                "token: CANARY",
                "clusters[c].certificate-authority-data is refused: it is not base64",
            ),
            (
                "server: \"https://a\", insecure-skip-tls-verify: true",
                "token: t",
                "clusters[c].insecure-skip-tls-verify is refused",
            ),
            (
                "server: \"https://a\", proxy-url: \"http://169.254.169.254:80\"",
                "token: t",
                "clusters[c].proxy-url is refused: convoy asks no other host",
            ),
            (
                "server: \"http://169.254.169.254/latest\"",
                "",
                "clusters[c].server is refused: it must be an https URL",
            ),
            (
                "server: \"https://169.254.169.254\"",
                "",
                "clusters[c].server is refused: 169.254.169.254 is an address of the machine's own",
            ),
            (
                "server: \"https://[fe80::1]:6443\"",
                "",
                "clusters[c].server is refused: [fe80::1] is an address of the machine's own",
            ),
            (
                "server: \"https://[::ffff:169.254.169.254]\"",
                "",
                "clusters[c].server is refused: [::ffff:169.254.169.254] is",
            ),
            ("server: \"https://metadata.google.internal.\"", "", "clusters[c].server is refused"),
            (
                "server: \"https://u:CANARY@a\"",
                "",
                "clusters[c].server is refused: credentials in the URL are not taken",
            ),
            ("", "token: t", "clusters[c].server is refused"),
        ];
        for (cluster, user, want) in table {
            let message = refusal(&kubeconfig(cluster, user));
            assert!(message.contains(want), "{message}\nwanted {want}");
            assert!(!message.contains("CANARY"), "{message}");
        }
    }

    #[test]
    fn an_unclear_context_is_refused_by_name() {
        let good = kubeconfig(SERVER, "token: t");
        let table = [
            (
                good.replace("current-context: x\n", ""),
                "the kubeconfig has no current-context; set it to the context to use",
            ),
            (
                good.replace("current-context: x", "current-context: ghost"),
                "the kubeconfig has no context \"ghost\", which current-context names",
            ),
            (
                good.replace("cluster: c, user: u", "cluster: c, user: v"),
                "the kubeconfig has no user \"v\", which its current context \"x\" names",
            ),
            (
                good.replace("cluster: c, user: u", "cluster: d, user: u"),
                "the kubeconfig has no cluster \"d\", which its current context \"x\" names",
            ),
            (String::new(), "the kubeconfig is not valid: it is empty"),
        ];
        for (text, want) in table {
            assert_eq!(refusal(&text), want);
        }
    }

    #[test]
    fn a_parse_error_does_not_quote_the_line() {
        let message = refusal("apiVersion: v1\nusers: [{name: u, user: {token: [CANARY}}]\n");
        assert!(message.contains("line ") && !message.contains("CANARY"), "{message}");
    }

    #[test]
    fn only_the_current_context_counts_and_unknown_fields_are_passed_over() {
        let text = "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"future\":1,\
            \"clusters\":[{\"name\":\"wrong\",\"cluster\":{\"server\":\"https://127.0.0.1:1\"}},\
                {\"name\":\"right\",\"cluster\":{\"server\":\"https://10.0.0.1\",\"tls-server-name\":\"kubernetes\",\"future\":1}}],\
            \"users\":[{\"name\":\"nobody\",\"user\":{\"exec\":{\"command\":\"sh\"}}},{\"name\":\"me\",\"user\":{\"token\":\"t\"}}],\
            \"contexts\":[{\"name\":\"a\",\"context\":{\"cluster\":\"wrong\",\"user\":\"nobody\"}},\
                {\"name\":\"b\",\"context\":{\"cluster\":\"right\",\"user\":\"me\"}}],\
            \"current-context\":\"b\"}";
        let kubeconfig = parse_untrusted(text.as_bytes()).unwrap();
        assert_eq!(kubeconfig.clusters.len(), 1);
        assert_eq!(
            kubeconfig.clusters[0].cluster.as_ref().unwrap().server.as_deref(),
            Some("https://10.0.0.1")
        );
    }

    #[test]
    fn a_second_user_of_the_same_name_is_never_used() {
        let text =
            kubeconfig(SERVER, "token: t").replace("users: [", "users: [{name: u, user: {token: first}}, ");
        let kubeconfig =
            parse_untrusted(text.replace("token: t}", "exec: {command: sh}}").as_bytes()).unwrap();
        assert_eq!(kubeconfig.auth_infos.len(), 1);
        assert!(kubeconfig.auth_infos[0].auth_info.as_ref().unwrap().exec.is_none());
    }

    #[test]
    fn the_operators_own_kubeconfig_may_name_files_and_still_run_nothing() {
        let files = kubeconfig("server: \"https://a\", certificate-authority: /ca.pem", "tokenFile: /token");
        parse_trusted(files.as_bytes(), None).unwrap();
        let error = parse_trusted(files.as_bytes(), Some("elsewhere")).unwrap_err();
        assert!(error.to_string().contains("\"elsewhere\""), "{error}");
        let message = parse_trusted(kubeconfig(SERVER, "exec: {command: aws}").as_bytes(), None)
            .unwrap_err()
            .to_string();
        assert!(message.contains("users[u].exec"), "{message}");
    }
}
