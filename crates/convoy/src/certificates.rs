//! `convoy certificates`: the Secrets that a deployment without cert-manager has its certificates from.

use std::io::Write as _;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use convoy_apiserver::pki::{Authority, CertificateAndKey};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::arguments::Certificates;

/// Prints them as YAML.
pub(crate) fn run(arguments: &Certificates, now: Timestamp) -> anyhow::Result<()> {
    let mut text = String::new();
    for secret in secrets(arguments, now)? {
        text.push_str("---\n");
        text.push_str(&convoy_yaml::to_yaml(&secret).context("writing a Secret")?);
    }
    std::io::stdout().write_all(text.as_bytes()).context("writing to standard output")
}

/// The CAs' keys are in none of them: whoever wants other certificates makes all of them anew.
fn secrets(arguments: &Certificates, now: Timestamp) -> anyhow::Result<Vec<Value>> {
    let namespace = &arguments.namespace;
    let names = |service: &str| {
        let name = format!("{service}.{namespace}.svc");
        [name.clone(), format!("{name}.{}", arguments.cluster_domain)]
    };
    let secret = |name: &str, ca: &Authority, identity: &CertificateAndKey| {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": "convoy"},
            },
            "type": "kubernetes.io/tls",
            "data": {
                "ca.crt": BASE64.encode(&ca.files().certificate),
                "tls.crt": BASE64.encode(&identity.certificate),
                "tls.key": BASE64.encode(&identity.key),
            },
        })
    };
    let serving = Authority::generate("convoy-serving-ca", now)?;
    let apiserver = serving.serving(&names("convoy-apiserver"), now)?;
    // An observer answers whoever has a client certificate of this one: it signs nobody else's.
    let proxy = Authority::generate("convoy-proxy-ca", now)?;
    let observer = proxy.serving(&names("convoy-observer"), now)?;
    let client = proxy.client("convoy-apiserver", &[], now)?;
    Ok(vec![
        secret("convoy-apiserver-serving", &serving, &apiserver),
        secret("convoy-observer-serving", &proxy, &observer),
        secret("convoy-proxy-client", &proxy, &client),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_observers_ca_is_not_the_apiservers_and_no_key_of_a_ca_is_printed() {
        let arguments =
            Certificates { namespace: "fleet".to_owned(), cluster_domain: "cluster.local".to_owned() };
        let secrets = secrets(&arguments, Timestamp::UNIX_EPOCH).unwrap();
        let names: Vec<&str> =
            secrets.iter().map(|secret| secret["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["convoy-apiserver-serving", "convoy-observer-serving", "convoy-proxy-client"]);
        let data = |at: usize, key: &str| secrets[at]["data"][key].as_str().unwrap().to_owned();
        assert_eq!(data(1, "ca.crt"), data(2, "ca.crt"));
        assert_ne!(data(0, "ca.crt"), data(1, "ca.crt"));
        for (at, secret) in secrets.iter().enumerate() {
            assert_eq!(secret["metadata"]["namespace"], "fleet");
            assert_eq!(secret["data"].as_object().unwrap().len(), 3);
            assert_ne!(data(at, "ca.crt"), data(at, "tls.crt"));
        }
    }
}
