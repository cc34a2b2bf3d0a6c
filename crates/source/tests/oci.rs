//! OCI registries: a real one with htpasswd, filled by the real helm, and servers that lie or lead elsewhere.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "helpers of tests fail by panicking, as tests do; tests run programs"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use convoy_api::{Artifact, OCIRegistrySpec, OciSource};
use convoy_source::{
    Class, FetchError, FetchedOci, Fetcher, FetcherOptions, OciReference, OciRepository, digest_of,
};
use convoy_testkit::{OciRegistry, WebAnswer, WebRequest, WebServer, leave_out, program};
use serde_json::{Value, json};

const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const TAR: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// `u:CANARY`.
const BASIC: &str = "Basic dTpDQU5BUlk=";

fn fetcher() -> Fetcher {
    Fetcher::new(FetcherOptions { allow_file_urls: true, ..FetcherOptions::default() })
}

fn spec(port: u16) -> OCIRegistrySpec {
    let url = format!("oci://127.0.0.1:{port}/team");
    OCIRegistrySpec { url, insecure: Some(true), ..OCIRegistrySpec::default() }
}

fn secret(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

fn login() -> BTreeMap<String, Vec<u8>> {
    secret(&[("username", "u"), ("password", "CANARY")])
}

fn tag(tag: &str) -> OciSource {
    OciSource { tag: Some(tag.to_owned()), ..OciSource::default() }
}

fn range(range: &str) -> OciSource {
    OciSource { semver: Some(range.to_owned()), ..OciSource::default() }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

async fn fetch(
    port: u16,
    repository: &str,
    source: OciSource,
    secret: Option<&BTreeMap<String, Vec<u8>>>,
) -> Result<(Artifact, String), FetchError> {
    let repository = OciRepository::from_spec(&spec(port), Some(repository), secret)?;
    let reference: OciReference = repository.reference(&source)?;
    match fetcher().oci(&repository, &reference, None).await? {
        FetchedOci::New { artifact, upstream } => {
            let again = fetcher().oci(&repository, &reference, Some(upstream.clone())).await?;
            assert_eq!(again, FetchedOci::Unchanged);
            Ok((artifact, upstream))
        }
        FetchedOci::Unchanged => panic!("nothing was known"),
    }
}

fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gzip);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn chart() -> Vec<u8> {
    packed(&[("any/Chart.yaml", "apiVersion: v2\nname: any\nversion: 0.1.0\n")])
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest_of(content), "size": content.len()})
}

fn manifest(config: &str, layers: &[Value]) -> Vec<u8> {
    let config = descriptor(config, b"{}");
    json!({"schemaVersion": 2, "mediaType": IMAGE, "config": config, "layers": layers})
        .to_string()
        .into_bytes()
}

/// The real registry, with user `u` and password `CANARY`.
struct Registry(OciRegistry);

impl Registry {
    fn send(
        &self,
        method: &str,
        url: &str,
        media_type: &str,
        body: &[u8],
    ) -> ureq::http::Response<ureq::Body> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(url)
            .header("Authorization", BASIC)
            .header("Content-Type", media_type)
            .body(body)
            .unwrap();
        let answer = ureq::run(request).unwrap();
        assert!(answer.status().is_success(), "{method} {url}: {}", answer.status());
        answer
    }

    fn push_blob(&self, repository: &str, content: &[u8]) {
        let url = format!("http://127.0.0.1:{}/v2/team/{repository}/blobs/uploads/", self.0.port());
        let answer = self.send("POST", &url, "application/octet-stream", b"");
        let location = answer.headers()["location"].to_str().unwrap().to_owned();
        let url = format!("{location}&digest={}", digest_of(content));
        self.send("PUT", &url, "application/octet-stream", content);
    }

    fn push_manifest(&self, repository: &str, reference: &str, media_type: &str, manifest: &[u8]) {
        let url = format!("http://127.0.0.1:{}/v2/team/{repository}/manifests/{reference}", self.0.port());
        self.send("PUT", &url, media_type, manifest);
    }
}

fn helm(helm: &Path, folder: &Path, arguments: &[&str]) {
    let home = folder.join("home");
    let output = Command::new(helm)
        .args(arguments)
        .current_dir(folder)
        .envs([("HOME", &home), ("HELM_CACHE_HOME", &home), ("HELM_CONFIG_HOME", &home)])
        .output()
        .unwrap();
    assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn charts_that_helm_pushed_and_plain_manifests_come_from_a_real_registry() {
    let program = match program("helm") {
        Ok(helm) => helm,
        Err(missing) => return leave_out(&missing),
    };
    let Some(registry) = OciRegistry::start_or_leave_out().unwrap().map(Registry) else { return };
    let port = registry.0.port();
    let folder = registry.0.folder();
    let place = format!("oci://127.0.0.1:{port}/team/charts");
    helm(&program, folder, &["create", "web"]);
    for version in ["1.2.0", "1.10.0", "1.10.1+build.2", "2.0.0-rc.1"] {
        helm(&program, folder, &["package", "web", "--version", version]);
        let packed = format!("web-{version}.tgz");
        let login = ["--plain-http", "--username", "u", "--password", "CANARY"];
        helm(&program, folder, &[&["push", &packed, &place], &login[..]].concat());
    }
    let login = login();
    let docker =
        json!({"auths": {format!("127.0.0.1:{port}"): {"auth": &BASIC["Basic ".len()..]}}}).to_string();
    let docker = secret(&[(".dockerconfigjson", &docker)]);
    for secret in [&login, &docker] {
        for (source, want) in [
            (tag("1.2.0"), "1.2.0"),
            (range("~1.2"), "1.2.0"),
            (range("1.x"), "1.10.1_build.2"),
            (range(">=2.0.0-0"), "2.0.0-rc.1"),
        ] {
            let (artifact, upstream) = fetch(port, "charts/web", source, Some(secret)).await.unwrap();
            assert!(upstream.starts_with(&format!("{want}@sha256:")), "{upstream}");
            assert_eq!(artifact.revision(), upstream);
            let text = String::from_utf8(artifact.files()["Chart.yaml"].to_vec()).unwrap();
            assert!(text.contains(&format!("version: {}", want.replace('_', "+"))), "{text}");
            assert!(artifact.files().contains_key("templates/deployment.yaml"));
        }
    }
    let (_, upstream) = fetch(port, "charts/web", tag("1.2.0"), Some(&login)).await.unwrap();
    let digest = upstream.split_once('@').unwrap().1.to_owned();
    let by_digest = OciSource { digest: Some(digest.clone()), ..OciSource::default() };
    assert_eq!(fetch(port, "charts/web", by_digest, Some(&login)).await.unwrap().1, digest);

    // One layer of manifests, plain and through an index.
    let layer = packed(&[("app/a.yaml", "a: 1\n"), ("b.yaml", "b: 2\n")]);
    registry.push_blob("app", &layer);
    registry.push_blob("app", b"{}");
    let plain = manifest("application/vnd.oci.empty.v1+json", &[descriptor(TAR, &layer)]);
    registry.push_manifest("app", "v1", IMAGE, &plain);
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor(IMAGE, &plain)]});
    registry.push_manifest("app", "indexed", INDEX, index.to_string().as_bytes());
    for name in ["v1", "indexed"] {
        let (artifact, _) = fetch(port, "app", tag(name), Some(&login)).await.unwrap();
        assert_eq!(artifact.files().keys().collect::<Vec<_>>(), ["app/a.yaml", "b.yaml"], "{name}");
    }

    for (repository, source, secret, want, reason) in [
        ("app", tag("none"), Some(&login), "no such file (HTTP 404)", "VersionNotFound"),
        ("none", tag("v1"), Some(&login), "no such file (HTTP 404)", "VersionNotFound"),
        (
            "charts/web",
            range(">=9"),
            Some(&login),
            "it has 2.0.0-rc.1, 1.10.1_build.2, 1.10.0, 1.2.0",
            "VersionNotFound",
        ),
        ("charts/web", range("what"), Some(&login), "neither a version nor a range", "InvalidSpec"),
        ("app", tag("v1"), None, "the server wants credentials (HTTP 401)", "RegistryAuthenticationFailed"),
    ] {
        let error = fetch(port, repository, source, secret).await.unwrap_err();
        assert!(chain(&error).contains(want), "{}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, reason));
    }
    let wrong = secret(&[("username", "u"), ("password", "CANARY2")]);
    let error = fetch(port, "app", tag("v1"), Some(&wrong)).await.unwrap_err();
    let text = format!("{} {error:?}", chain(&error));
    assert!(text.contains("refuses the credentials") && !text.contains("CANARY"), "{text}");

    let ask = async |secret: Option<&BTreeMap<String, Vec<u8>>>| {
        fetcher().oci_ping(&OciRepository::from_spec(&spec(port), None, secret).unwrap()).await
    };
    assert_eq!(ask(Some(&login)).await.unwrap(), "the registry answers, and takes the login");
    assert_eq!(ask(None).await.unwrap(), "the registry answers, and wants a login for this");
    assert_eq!(ask(Some(&wrong)).await.unwrap_err().reason(), "RegistryAuthenticationFailed");
}

/// What a made-up registry has: bodies by path, manifests by reference.
fn made_up(manifests: Vec<(&'static str, Vec<u8>)>, blobs: Vec<(String, Vec<u8>)>) -> WebServer {
    WebServer::start(move |request: &WebRequest| {
        let last = request.path.rsplit('/').next().unwrap_or_default();
        if request.path.contains("/manifests/") {
            let found = manifests.iter().find(|(name, body)| *name == last || digest_of(body) == last);
            return found.map_or(WebAnswer::status(404), |(_, body)| WebAnswer::ok(body.clone()));
        }
        let found = blobs.iter().find(|(digest, _)| digest == last);
        found.map_or(WebAnswer::status(404), |(_, body)| WebAnswer::ok(body.clone()))
    })
    .unwrap()
}

#[tokio::test]
async fn what_is_not_as_its_digest_and_size_say_is_refused() {
    let good = chart();
    let lie = format!("sha256:{}", "0".repeat(64));
    let lying = json!({"mediaType": CHART, "digest": lie, "size": 5});
    let short = json!({"mediaType": CHART, "digest": digest_of(&good), "size": 5});
    let md5 = json!({"mediaType": CHART, "digest": "md5:aa", "size": 5});
    let huge = json!({"mediaType": CHART, "digest": lie, "size": 1_u64 << 40});
    let escaping = json!({"mediaType": CHART, "digest": "../../../../evil", "size": 5});
    let manifests = vec![
        ("good", manifest(CHART_CONFIG, &[descriptor(CHART, &good)])),
        ("lying", manifest(CHART_CONFIG, &[lying])),
        ("short", manifest(CHART_CONFIG, &[short])),
        ("md5", manifest(CHART_CONFIG, &[md5])),
        ("huge", manifest(CHART_CONFIG, &[huge])),
        ("escaping", manifest(CHART_CONFIG, &[escaping])),
        ("html", b"<html>".to_vec()),
        ("nolayer", manifest(CHART_CONFIG, &[])),
    ];
    let blobs = vec![(digest_of(&good), good), (lie.clone(), b"hello".to_vec())];
    let server = made_up(manifests.clone(), blobs);
    let port = server.port();
    assert_eq!(fetch(port, "x", tag("good"), None).await.unwrap().0.files().len(), 1);
    for (name, want) in [
        ("lying", "its digest is"),
        ("short", "more than 5 bytes of the layer"),
        ("md5", "no sha256 digest"),
        ("huge", "bytes of the layer"),
        ("escaping", "no sha256 digest"),
        ("html", "cannot be read"),
        ("nolayer", "no layer of the media type"),
    ] {
        let error = fetch(port, "x", tag(name), None).await.unwrap_err();
        assert!(chain(&error).contains(want), "{name}: {}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, "ArtifactRefused"), "{name}");
    }
    // A manifest that is asked for by digest, and one that is not what its header says.
    let other = WebServer::start(move |_| {
        WebAnswer::ok(manifests[0].1.clone())
            .with("Docker-Content-Digest", &format!("sha256:{}", "1".repeat(64)))
    })
    .unwrap();
    let by_digest = OciSource { digest: Some(lie), ..OciSource::default() };
    for source in [by_digest, tag("good")] {
        let error = fetch(other.port(), "x", source, None).await.unwrap_err();
        assert!(chain(&error).contains("its digest is"), "{}", chain(&error));
    }
}

#[tokio::test]
async fn a_token_is_asked_for_at_the_registrys_own_domain_alone() {
    let chart = chart();
    let manifest = manifest(CHART_CONFIG, &[descriptor(CHART, &chart)]);
    // A store of blobs on another port, where the registry sends for them.
    let (blob, digest) = (chart.clone(), digest_of(&chart));
    let store = WebServer::start(move |_| WebAnswer::ok(blob.clone())).unwrap();
    let elsewhere = store.url("/blob?sig=CANARY");
    let registry = move |realm: Option<&str>| {
        let (realm, manifest, digest, elsewhere) =
            (realm.map(str::to_owned), manifest.clone(), digest.clone(), elsewhere.clone());
        WebServer::start(move |request: &WebRequest| {
            let here = format!("http://{}/token", request.header("host").unwrap_or_default());
            let realm = realm.as_deref().unwrap_or(&here);
            if request.path.starts_with("/token?") {
                return match request.header("authorization") {
                    Some(BASIC) | None => WebAnswer::ok(r#"{"token": "t0ken"}"#),
                    Some(_) => WebAnswer::status(401),
                };
            }
            if request.header("authorization") != Some("Bearer t0ken") {
                let challenge =
                    format!("Bearer realm=\"{realm}\",service=\"s\",scope=\"repository:team/x:push\"");
                return WebAnswer::status(401).with("WWW-Authenticate", &challenge);
            }
            match request.path.rsplit('/').next().unwrap_or_default() {
                last if last == digest => WebAnswer::redirect(&elsewhere),
                _ => WebAnswer::ok(manifest.clone()),
            }
        })
        .unwrap()
    };
    let own = registry(None);
    for secret in [Some(login()), None] {
        let (artifact, _) = fetch(own.port(), "x", tag("1"), secret.as_ref()).await.unwrap();
        assert_eq!(artifact.files().len(), 1);
        let seen = own.take_seen();
        let token = seen.iter().find(|request| request.path.starts_with("/token?")).unwrap();
        assert_eq!(token.path, "/token?service=s&scope=repository%3Ateam%2Fx%3Apull");
        assert_eq!(token.header("authorization"), secret.as_ref().map(|_| BASIC));
        let got_password = |request: &&WebRequest| request.header("authorization") == Some(BASIC);
        assert_eq!(
            seen.iter().filter(got_password).count(),
            usize::from(secret.is_some()) * 2,
            "only for tokens"
        );
        // The token does not go where the blob is.
        assert!(store.take_seen().iter().all(|request| request.header("authorization").is_none()));
    }

    // Strangers get no password; neither does anything that is not https elsewhere.
    let stranger = WebServer::start(|_| WebAnswer::ok(r#"{"token": "t0ken"}"#)).unwrap();
    for (realm, want) in [
        (format!("http://localhost:{}/token", stranger.port()), "is not https"),
        (format!("https://localhost:{}/token", stranger.port()), "not of its own domain"),
        ("https://169.254.169.254/latest/meta-data".to_owned(), "not of its own domain"),
        ("file:///etc/passwd".to_owned(), "not a URL of http"),
    ] {
        let server = registry(Some(&realm));
        let error = fetch(server.port(), "x", tag("1"), Some(&login())).await.unwrap_err();
        let text = format!("{} {error:?}", chain(&error));
        assert!(text.contains(want) && !text.contains("CANARY"), "{realm}: {text}");
        assert!(stranger.take_seen().is_empty());
        assert!(server.take_seen().iter().all(|request| request.header("authorization").is_none()));
    }
    let server = registry(Some("https://169.254.169.254/latest/meta-data"));
    let error = fetch(server.port(), "x", tag("1"), None).await.unwrap_err();
    assert!(chain(&error).contains("a link-local or metadata address"), "{}", chain(&error));
}

#[tokio::test]
async fn tags_come_on_many_pages_and_their_number_is_bounded() {
    let chart = chart();
    let manifest = manifest(CHART_CONFIG, &[descriptor(CHART, &chart)]);
    let server = WebServer::start(move |request: &WebRequest| {
        let path = request.path.as_str();
        let page = |tags: &[&str]| WebAnswer::ok(json!({"name": "team/x", "tags": tags}).to_string());
        match path {
            _ if path.contains("/manifests/") => WebAnswer::ok(manifest.clone()),
            _ if path.contains("/blobs/") => WebAnswer::ok(chart.clone()),
            "/v2/team/x/tags/list?n=1000" => page(&["1.0.0", "latest", "sha256-abc.sig", "1.9.0"])
                .with("Link", "</v2/team/x/tags/list?n=1000&last=1.9.0>; rel=\"next\""),
            "/v2/team/x/tags/list?n=1000&last=1.9.0" => page(&["1.10.0", "2.0.0-rc.1", "v1.5.0"]),
            // Endless.
            _ => page(&["1.0.0"]).with("Link", &format!("<{path}x>; rel=\"next\"")),
        }
    })
    .unwrap();
    let (_, upstream) = fetch(server.port(), "x", range("1.x"), None).await.unwrap();
    assert!(upstream.starts_with("1.10.0@"), "{upstream}");
    let error = fetch(server.port(), "endless", range("1.x"), None).await.unwrap_err();
    assert!(chain(&error).contains("more than 50 pages"), "{}", chain(&error));
}
