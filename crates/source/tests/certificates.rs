//! Servers with a private CA, and servers that want a certificate of their clients.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use convoy_api::HelmRegistrySpec;
use convoy_source::{
    Class, Credentials, Failure, FetchRequest, FetchedIndex, Fetcher, GitRef, HelmRepository,
};
use convoy_testkit::{Authority, Identity, WebAnswer, WebRequest, WebServer};
use support::{Repo, Server, chain, options, redirect, request, shown};

fn secret(authority: &str, client: Option<&Identity>) -> BTreeMap<String, Vec<u8>> {
    let mut data = BTreeMap::from([("ca.crt".to_owned(), authority.as_bytes().to_vec())]);
    if let Some(client) = client {
        data.insert("tls.crt".to_owned(), client.certificate.as_bytes().to_vec());
        data.insert("tls.key".to_owned(), client.key.as_bytes().to_vec());
    }
    data
}

fn spec(url: &str) -> HelmRegistrySpec {
    HelmRegistrySpec { url: url.to_owned(), ..HelmRegistrySpec::default() }
}

const INDEX: &str = "apiVersion: v1\nentries:\n  web:\n  - {name: web, version: 0.1.0, urls: [web.tgz]}\n";

#[tokio::test]
async fn a_helm_repository_with_a_private_ca_and_client_certificates() {
    let authority = Authority::new("ca").unwrap();
    let stranger = Authority::new("stranger").unwrap();
    let identity = authority.server(&["localhost"]).unwrap();
    let (good, bad) = (authority.client("us", None).unwrap(), stranger.client("us", None).unwrap());
    let clients = Some((authority.certificate(), true));
    let server = WebServer::start_tls(&identity, clients, |_| WebAnswer::ok(INDEX)).unwrap();
    let read = async |data: Option<BTreeMap<String, Vec<u8>>>| {
        let repository = HelmRepository::from_spec(&spec(&server.https_url("/")), data.as_ref()).unwrap();
        Fetcher::new(options()).helm_index(&repository, None).await
    };
    let found = read(Some(secret(authority.certificate(), Some(&good)))).await.unwrap();
    assert!(matches!(found, FetchedIndex::New { .. }));
    assert_eq!(server.take_seen()[0].header("x-client-certificate"), Some("shown"));
    for (data, want, reason) in [
        (None, "certificate is not trusted", "RegistryUnreachable"),
        (
            Some(secret(stranger.certificate(), Some(&good))),
            "certificate is not trusted",
            "RegistryUnreachable",
        ),
        (
            Some(secret(authority.certificate(), None)),
            "wants a client certificate",
            "RegistryAuthenticationFailed",
        ),
        (
            Some(secret(authority.certificate(), Some(&bad))),
            "refuses the one it got",
            "RegistryAuthenticationFailed",
        ),
    ] {
        let error = read(data).await.unwrap_err();
        assert!(chain(&error).contains(want), "{}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, reason), "{}", chain(&error));
    }
    assert!(server.take_seen().is_empty(), "nobody else was answered");
}

/// A certificate is shown as a password is sent: to the repository's own origin, to other hosts of the index only
/// when the spec says so, and never along a redirect.
#[tokio::test]
async fn a_client_certificate_is_shown_to_nobody_else() {
    let authority = Authority::new("ca").unwrap();
    let identity = authority.server(&["localhost", "127.0.0.1"]).unwrap();
    let client = authority.client("us", None).unwrap();
    let clients = Some((authority.certificate(), false));
    let other = WebServer::start_tls(&identity, clients, |_| WebAnswer::status(404)).unwrap();
    let elsewhere = other.https_url("");
    let server =
        WebServer::start_tls(&identity, clients, move |request: &WebRequest| match request.path.as_str() {
            "/index.yaml" => WebAnswer::ok(format!(
                "{INDEX}  far:\n  - {{name: far, version: 0.1.0, urls: ['{elsewhere}/far.tgz']}}\n"
            )),
            "/web.tgz" => WebAnswer::redirect(&format!("{elsewhere}/landed.tgz")),
            _ => WebAnswer::status(404),
        })
        .unwrap();
    let data = secret(authority.certificate(), Some(&client));
    let who = |servers: [&WebServer; 2]| {
        let seen = servers.map(WebServer::take_seen).concat();
        seen.into_iter()
            .map(|seen| format!("{} {}", seen.path, seen.header("x-client-certificate").unwrap_or("none")))
            .collect::<Vec<_>>()
    };
    for passes in [false, true] {
        let spec = HelmRegistrySpec { pass_credentials: Some(passes), ..spec(&server.https_url("/")) };
        let repository = HelmRepository::from_spec(&spec, Some(&data)).unwrap();
        let fetcher = Fetcher::new(options());
        let FetchedIndex::New { index, .. } = fetcher.helm_index(&repository, None).await.unwrap() else {
            panic!("nothing was known")
        };
        assert_eq!(who([&server, &other]), ["/index.yaml shown"]);
        let far = if passes { "/far.tgz shown" } else { "/far.tgz none" };
        for (chart, want) in [("far", vec![far]), ("web", vec!["/web.tgz shown", "/landed.tgz none"])] {
            let version = index.version(&repository, chart, None).unwrap();
            let error = fetcher.helm_chart(&repository, chart, version).await.unwrap_err();
            assert!(matches!(error.failure, Failure::NotFound { status: 404 }), "{}", chain(&error));
            assert_eq!(who([&server, &other]), want, "{chart}, passCredentials {passes}");
        }
    }
}

#[tokio::test]
async fn git_with_a_client_certificate_which_follows_no_redirect_to_another_host() {
    let repo = Repo::with(&[("a", "1")]);
    let (authority, stranger) = (Authority::new("ca").unwrap(), Authority::new("stranger").unwrap());
    let (good, bad) = (authority.client("us", None).unwrap(), stranger.client("us", None).unwrap());
    let clients = Some(authority.certificate());
    let server = Server::https_for(repo.dir.path(), clients, Arc::new(|_| None));
    let with = |url: &str, ca: &str, client: Option<&Identity>| FetchRequest {
        credentials: Credentials::from_secret(&secret(ca, client)).unwrap(),
        ..request(url, GitRef::DefaultBranch)
    };
    let fetcher = Fetcher::new(options());
    let url = server.https_url("/repo");
    let fetched = fetcher.fetch(with(&url, &server.ca_pem, Some(&good))).await.unwrap();
    assert_eq!(shown(&fetched).1, ["a=1"]);
    for client in [None, Some(&bad)] {
        let error = fetcher.fetch(with(&url, &server.ca_pem, client)).await.unwrap_err();
        assert!(matches!(error.failure, Failure::ClientCertificate { .. }), "{}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, "GitAuthenticationFailed"));
    }
    let before = server.seen().len();
    let to = format!("{url}/info/refs?service=git-upload-pack");
    let leading = Server::https_for(repo.dir.path(), clients, Arc::new(move |_| Some(redirect(&to))));
    let ca = format!("{}{}", leading.ca_pem, server.ca_pem);
    let error = fetcher.fetch(with(&leading.https_url("/repo"), &ca, Some(&good))).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Redirect { .. }), "{}", chain(&error));
    assert_eq!(server.seen().len(), before);
}
