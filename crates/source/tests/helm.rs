//! Helm repositories: one that the real helm made, and servers that lie, cut, stall and lead elsewhere.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, as tests do; tests run helm"
)]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use convoy_api::{Artifact, HelmRegistrySpec};
use convoy_source::{
    ChartIndex, Class, FetchError, FetchedIndex, Fetcher, FetcherOptions, HelmRepository, Limits, Validators,
};
use convoy_testkit::{WebAnswer, WebRequest, WebServer, leave_out, program};

fn options() -> FetcherOptions {
    FetcherOptions { allow_file_urls: true, ..FetcherOptions::default() }
}

fn spec(url: &str) -> HelmRegistrySpec {
    HelmRegistrySpec { url: url.to_owned(), ..HelmRegistrySpec::default() }
}

fn repository(url: &str) -> HelmRepository {
    HelmRepository::from_spec(&spec(url), None).unwrap()
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

async fn index(repository: &HelmRepository) -> Result<(ChartIndex, Validators), FetchError> {
    match Fetcher::new(options()).helm_index(repository, None).await? {
        FetchedIndex::New { index, validators, .. } => Ok((index, validators)),
        FetchedIndex::Unchanged => panic!("nothing was known"),
    }
}

/// Chooses and downloads.
async fn chart(
    repository: &HelmRepository,
    name: &str,
    version: Option<&str>,
) -> Result<Artifact, FetchError> {
    let (index, _) = index(repository).await?;
    let version = index.version(repository, name, version)?;
    Fetcher::new(options()).helm_chart(repository, name, version).await
}

/// A .tgz of these files.
fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        // Also paths that the library would not write.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        tar.append(&header, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn any() -> Vec<u8> {
    packed(&[
        ("any/Chart.yaml", "apiVersion: v2\nname: any\nversion: 0.1.0\n"),
        ("any/templates/x.yaml", "a: 1\n"),
    ])
}

fn hex(bytes: &[u8]) -> String {
    convoy_source::digest_of(bytes).trim_start_matches("sha256:").to_owned()
}

/// An index of charts, each of version 0.1.0 at a URL.
fn index_of(charts: &[(&str, &str)]) -> String {
    let line =
        |(name, rest): &(&str, &str)| format!("  {name}:\n  - {{name: {name}, version: 0.1.0, {rest}}}\n");
    format!("apiVersion: v1\nentries:\n{}", charts.iter().map(line).collect::<String>())
}

#[tokio::test]
async fn charts_of_a_repository_that_helm_made() {
    let helm = match program("helm") {
        Ok(helm) => helm,
        Err(missing) => return leave_out(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let home = folder.path().join("home");
        let status = Command::new(&helm)
            .args(arguments)
            .current_dir(folder.path())
            .envs([("HOME", &home), ("HELM_CACHE_HOME", &home), ("HELM_CONFIG_HOME", &home)])
            .output()
            .unwrap();
        assert!(status.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&status.stderr));
    };
    run(&["create", "web"]);
    for version in ["1.2.0", "1.10.0", "2.0.0-rc.1"] {
        run(&["package", "web", "--version", version, "--destination", "repo"]);
    }
    run(&["repo", "index", "repo"]);
    let server = WebServer::of_folder(&folder.path().join("repo")).unwrap();
    // With and without a slash at the end.
    for url in [server.url(""), server.url("/")] {
        let repository = repository(&url);
        for (range, want) in [(None, "1.10.0"), (Some("~1.2"), "1.2.0"), (Some(">=2-0"), "2.0.0-rc.1")] {
            let artifact = chart(&repository, "web", range).await.unwrap();
            assert_eq!(artifact.revision(), want, "{range:?}");
            let manifest = String::from_utf8(artifact.files()["Chart.yaml"].to_vec()).unwrap();
            assert!(manifest.contains(&format!("version: {want}")), "{manifest}");
            assert!(
                artifact.files().contains_key("templates/deployment.yaml"),
                "{:?}",
                artifact.files().keys()
            );
        }
    }
    let repository = repository(&server.url("/"));
    let (_, validators) = index(&repository).await.unwrap();
    let again = Fetcher::new(options()).helm_index(&repository, Some(validators.clone())).await.unwrap();
    assert!(matches!(again, FetchedIndex::Unchanged), "{again:?}");
    run(&["package", "web", "--version", "1.11.0", "--destination", "repo"]);
    run(&["repo", "index", "repo"]);
    let again = Fetcher::new(options()).helm_index(&repository, Some(validators)).await.unwrap();
    assert!(matches!(again, FetchedIndex::New { .. }), "{again:?}");
    assert_eq!(chart(&repository, "web", Some("1.x")).await.unwrap().revision(), "1.11.0");
}

/// Who got the password: the path, `this` or `other` by the port, and whether it came.
fn who_got_it(servers: &[(&str, &WebServer)]) -> Vec<String> {
    let mut seen = Vec::new();
    for (name, server) in servers {
        for request in server.take_seen() {
            let came = match request.header("authorization") {
                None => "none",
                Some("Basic dTpDQU5BUlk=") => "right",
                Some(_) => "other",
            };
            seen.push(format!("{name} {} {came}", request.path));
        }
    }
    seen
}

/// Case 304.
#[tokio::test]
async fn case304_the_password_goes_to_the_repositorys_own_origin_alone() {
    let other = WebServer::start(|_| WebAnswer::ok(any())).unwrap();
    let elsewhere = other.port();
    let server = WebServer::start(move |request: &WebRequest| {
        let here =
            request.header("host").unwrap_or_default().rsplit(':').next().unwrap_or_default().to_owned();
        match request.path.as_str() {
            "/repo/index.yaml" => WebAnswer::ok(index_of(&[
                ("rel", "urls: [charts/rel.tgz]"),
                ("root", "urls: [/repo/root.tgz]"),
                ("abs", &format!("urls: ['http://127.0.0.1:{here}/repo/abs.tgz']")),
                ("otherport", &format!("urls: ['http://127.0.0.1:{elsewhere}/x.tgz']")),
                ("othername", &format!("urls: ['http://localhost:{here}/repo/othername.tgz']")),
                ("redir", "urls: [redir.tgz]"),
                ("home", "urls: [home.tgz]"),
                ("query", "urls: ['query.tgz?sig=CANARY']"),
                ("userinfo", &format!("urls: ['http://x:CANARY@127.0.0.1:{here}/repo/userinfo.tgz']")),
            ])),
            "/repo/redir.tgz" => WebAnswer::redirect(&format!("http://127.0.0.1:{elsewhere}/landed.tgz")),
            "/repo/home.tgz" => WebAnswer::redirect("/repo/charts/landed.tgz"),
            _ => WebAnswer::ok(any()),
        }
    })
    .unwrap();
    let secret: BTreeMap<_, _> = [("username", "u"), ("password", "CANARY")]
        .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()))
        .into();
    let servers = [("this", &server), ("other", &other)];
    for passes in [false, true] {
        let spec = HelmRegistrySpec { pass_credentials: Some(passes), ..spec(&server.url("/repo")) };
        let repository = HelmRepository::from_spec(&spec, Some(&secret)).unwrap();
        let (index, _) = index(&repository).await.unwrap();
        assert_eq!(who_got_it(&servers), ["this /repo/index.yaml right"]);
        let to_others = if passes { "right" } else { "none" };
        for (name, want) in [
            ("rel", vec!["this /repo/charts/rel.tgz right".to_owned()]),
            ("root", vec!["this /repo/root.tgz right".to_owned()]),
            ("abs", vec!["this /repo/abs.tgz right".to_owned()]),
            ("otherport", vec![format!("other /x.tgz {to_others}")]),
            ("othername", vec![format!("this /repo/othername.tgz {to_others}")]),
            ("redir", vec!["this /repo/redir.tgz right".to_owned(), "other /landed.tgz none".to_owned()]),
            (
                "home",
                vec!["this /repo/home.tgz right".to_owned(), "this /repo/charts/landed.tgz right".to_owned()],
            ),
            ("query", vec!["this /repo/query.tgz?sig=CANARY right".to_owned()]),
            ("userinfo", vec!["this /repo/userinfo.tgz right".to_owned()]),
        ] {
            let version = index.version(&repository, name, None).unwrap();
            let artifact = Fetcher::new(options()).helm_chart(&repository, name, version).await.unwrap();
            assert_eq!(artifact.revision(), "0.1.0");
            assert_eq!(who_got_it(&servers), want, "{name}, passCredentials {passes}");
        }
    }
}

#[tokio::test]
async fn nothing_secret_is_in_an_error_and_no_password_in_clear_text() {
    let server = WebServer::start(|request: &WebRequest| match request.path.as_str() {
        "/index.yaml" => WebAnswer::ok(index_of(&[("a", "urls: ['a.tgz?sig=CANARY']")])),
        _ => WebAnswer::status(403),
    })
    .unwrap();
    let error = chart(&repository(&server.url("")), "a", None).await.unwrap_err();
    let text = format!("{} {error:?}", chain(&error));
    assert!(text.contains("the server wants credentials (HTTP 403)") && !text.contains("CANARY"), "{text}");
    assert_eq!(error.reason(), "RegistryAuthenticationFailed");

    let secret: BTreeMap<_, _> = [("bearerToken".to_owned(), b"CANARY".to_vec())].into();
    let with = |url: &str| HelmRepository::from_spec(&spec(url), Some(&secret));
    server.take_seen();
    // Not standalone: this machine is a host like others.
    let strict = FetcherOptions { allow_file_urls: false, ..options() };
    let error = Fetcher::new(strict).helm_index(&with(&server.url("")).unwrap(), None).await.unwrap_err();
    assert!(chain(&error).contains("clear text"), "{}", chain(&error));
    assert!(server.take_seen().is_empty());

    for bad in ["https://u:CANARY@h.example/x", "https://h.example/x?sig=CANARY", "ftp://CANARY/", "CANARY"] {
        let error = HelmRepository::from_spec(&spec(bad), None).unwrap_err();
        assert!(!format!("{} {error:?}", chain(&error)).contains("CANARY"), "{}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, "InvalidSpec"));
    }
}

#[tokio::test]
async fn an_archive_that_is_not_what_the_index_promised_is_refused() {
    let good = any();
    let cut = good[..good.len() / 2].to_vec();
    let outside = packed(&[("any/Chart.yaml", "name: any\n"), ("any/../../etc/passwd", "x")]);
    let bare = packed(&[("any/templates/x.yaml", "a: 1\n")]);
    let bomb = {
        let mut tar =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best()));
        let mut header = tar::Header::new_gnu();
        header.set_size(200 << 20);
        header.set_path("any/zeros").unwrap();
        header.set_cksum();
        tar.append(&header, std::io::repeat(0).take(200 << 20)).unwrap();
        tar.into_inner().unwrap().finish().unwrap()
    };
    let (right, wrong) = (hex(&good), "0".repeat(64));
    let charts = [
        ("right", format!("urls: [good], digest: {right}")),
        ("prefixed", format!("urls: [good], digest: 'sha256:{}'", right.to_uppercase())),
        ("wrong", format!("urls: [good], digest: '{wrong}'")),
        ("cut", "urls: [cut]".to_owned()),
        ("outside", "urls: [outside]".to_owned()),
        ("bare", "urls: [bare]".to_owned()),
        ("bomb", "urls: [bomb]".to_owned()),
        ("html", "urls: [html]".to_owned()),
        ("gone", "urls: [gone]".to_owned()),
        ("file", "urls: ['file:///etc/passwd']".to_owned()),
    ];
    let charts: Vec<(&str, &str)> = charts.iter().map(|(name, rest)| (*name, rest.as_str())).collect();
    let text = index_of(&charts);
    let server = WebServer::start(move |request: &WebRequest| match request.path.as_str() {
        "/index.yaml" => WebAnswer::ok(text.clone()),
        "/good" => WebAnswer::ok(good.clone()),
        "/cut" => WebAnswer::ok(cut.clone()),
        "/outside" => WebAnswer::ok(outside.clone()),
        "/bare" => WebAnswer::ok(bare.clone()),
        "/bomb" => WebAnswer::ok(bomb.clone()),
        "/html" => WebAnswer::ok("<html>"),
        _ => WebAnswer::status(404),
    })
    .unwrap();
    let repository = repository(&server.url(""));
    for good in ["right", "prefixed"] {
        assert_eq!(chart(&repository, good, None).await.unwrap().files().len(), 2, "{good}");
    }
    for (bad, want, reason) in [
        ("wrong", "its digest is", "ArtifactRefused"),
        ("cut", "cannot read the archive", "ArtifactRefused"),
        ("outside", "references parent directory", "ArtifactRefused"),
        ("bare", "no Chart.yaml", "ArtifactRefused"),
        ("bomb", "larger than the maximum", "ArtifactRefused"),
        ("html", "cannot read the archive", "ArtifactRefused"),
        ("gone", "no such file (HTTP 404)", "VersionNotFound"),
        ("file", "none of http or https", "RegistryUnreachable"),
    ] {
        let error = chart(&repository, bad, None).await.unwrap_err();
        assert!(chain(&error).contains(want), "{bad}: {}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, reason), "{bad}");
    }
}

#[tokio::test]
async fn an_index_that_is_huge_broken_cut_or_slow_is_an_error() {
    let huge =
        format!("{}{}", index_of(&[("a", "urls: [a.tgz]")]), "# filler filler filler\n".repeat(100_000));
    let server = WebServer::start(move |request: &WebRequest| match request.path.as_str() {
        "/huge/index.yaml" => WebAnswer::ok(huge.clone()),
        "/html/index.yaml" => WebAnswer::ok("<html><body>Welcome</body></html>"),
        "/bomb/index.yaml" => {
            let mut text = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
            for (last, next) in ('a'..'j').zip('b'..) {
                text.push_str(&format!("{next}: &{next} [{}]\n", vec![format!("*{last}"); 10].join(",")));
            }
            WebAnswer::ok(text)
        }
        "/cut/index.yaml" => {
            WebAnswer { cut_at: Some(10), ..WebAnswer::ok(index_of(&[("a", "urls: [a.tgz]")])) }
        }
        "/slow/index.yaml" => WebAnswer { is_silent: true, ..WebAnswer::default() },
        "/loop/index.yaml" => WebAnswer::redirect("/loop/index.yaml"),
        "/busy/index.yaml" => WebAnswer::status(503),
        _ => WebAnswer::status(404),
    })
    .unwrap();
    let limits = Limits { max_index_bytes: 1 << 20, ..Limits::default() };
    let fetcher = Fetcher::new(FetcherOptions { limits, ..options() });
    for (path, want, class) in [
        ("/huge", "more than 1048576 bytes of the index", Class::Terminal),
        ("/html", "is this a Helm repository?", Class::Terminal),
        ("/bomb", "the index cannot be read", Class::Terminal),
        ("/cut", "cannot be reached", Class::Transient),
        ("/slow", "not done within 1 s", Class::Transient),
        ("/loop", "after 5 redirects", Class::Terminal),
        ("/busy", "HTTP 503", Class::Transient),
        ("/none", "check spec.url", Class::Terminal),
    ] {
        let timeout = (path == "/slow").then(|| "1s".parse().unwrap());
        let spec = HelmRegistrySpec { timeout, ..spec(&server.url(path)) };
        let repository = HelmRepository::from_spec(&spec, None).unwrap();
        let found =
            tokio::time::timeout(Duration::from_secs(30), fetcher.helm_index(&repository, None)).await;
        let error = found.unwrap().unwrap_err();
        assert!(chain(&error).contains(want), "{path}: {}", chain(&error));
        assert_eq!(error.class(), class, "{path}: {}", chain(&error));
    }
}

/// 24 MB, 60,000 versions, as large public repositories have.
#[tokio::test]
async fn a_large_index_is_read() {
    let folder = tempfile::tempdir().unwrap();
    write_large(&folder.path().join("index.yaml"));
    let server = WebServer::of_folder(folder.path()).unwrap();
    let repository = repository(&server.url(""));
    let (index, _) = index(&repository).await.unwrap();
    assert_eq!(index.len(), 600);
    assert_eq!(index.version(&repository, "chart-17", Some("^1.40")).unwrap().version, "1.99.0");
}

fn write_large(path: &Path) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    writeln!(file, "apiVersion: v1\nentries:").unwrap();
    for chart in 0..600 {
        writeln!(file, "  chart-{chart}:").unwrap();
        for version in 0..100 {
            writeln!(
                file,
                "  - apiVersion: v2\n    created: \"2026-01-01T00:00:00Z\"\n    description: {}\n    digest: {}\n    \
                 name: chart-{chart}\n    urls:\n    - https://charts.example.com/chart-{chart}-1.{version}.0.tgz\n    version: 1.{version}.0",
                "A chart that says at length what it is for. ".repeat(3),
                "a".repeat(64),
            )
            .unwrap();
        }
    }
}
