//! Servers that refuse, redirect, lie or stay silent, and the credentials that must not leak to them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_source::{
    Class, Credentials, Failure, FetchRequest, Fetcher, FetcherOptions, GitRef, OciRepository,
};
use support::{Repo, Server, chain, fetch, options, redirect, request, shown, silent_server, status};

fn secret(pairs: &[(&str, &str)]) -> Credentials {
    let data: BTreeMap<_, _> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    Credentials::from_secret(&data).unwrap()
}

fn with(url: &str, credentials: Credentials) -> FetchRequest {
    FetchRequest { credentials, ..request(url, GitRef::DefaultBranch) }
}

/// A server that wants `git` / `s3cret` or the token `t0ken`.
fn guarded(root: &std::path::Path) -> Server {
    Server::https_with(
        root,
        Arc::new(|seen| {
            let good = ["Basic Z2l0OnMzY3JldA==", "Bearer t0ken"]
                .contains(&seen.authorization.as_deref().unwrap_or(""));
            (!good).then(|| status("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"CANARY\""))
        }),
    )
}

#[tokio::test]
async fn credentials_and_the_servers_ca_come_from_the_secret() {
    let repo = Repo::with(&[("a", "1")]);
    let server = guarded(repo.dir.path());
    let (url, ca) = (server.https_url("/repo"), server.ca_pem.as_str());
    let fetcher = Fetcher::new(options());
    for good in [
        secret(&[("username", "git"), ("password", "s3cret"), ("ca.crt", ca)]),
        secret(&[("bearerToken", "t0ken\n"), ("ca.crt", ca)]),
    ] {
        assert_eq!(shown(&fetcher.fetch(with(&url, good)).await.unwrap()).1, ["a=1"]);
    }
    for (bad, want, reason) in [
        (secret(&[("ca.crt", ca)]), "the server wants credentials (HTTP 401)", "GitAuthenticationFailed"),
        (
            secret(&[("username", "git"), ("password", "CANARY"), ("ca.crt", ca)]),
            "the server refuses the credentials of spec.secretRef (HTTP 401)",
            "GitAuthenticationFailed",
        ),
        (
            secret(&[("username", "git"), ("password", "CANARY")]),
            "the server's certificate is not trusted",
            "GitUnreachable",
        ),
    ] {
        let error = fetcher.fetch(with(&url, bad)).await.unwrap_err();
        let text = chain(&error);
        assert!(
            text.contains(want) && !text.contains("CANARY") && !format!("{error:?}").contains("CANARY"),
            "{text}"
        );
        assert_eq!((error.class(), error.reason()), (Class::Terminal, reason));
    }
}

#[tokio::test]
async fn credentials_are_not_sent_in_clear_text() {
    let repo = Repo::with(&[("a", "1")]);
    let server = Server::http(repo.dir.path());
    let request = with(&server.url("/repo"), secret(&[("bearerToken", "CANARY")]));
    let error = Fetcher::new(options()).fetch(request).await.unwrap_err();
    assert!(matches!(error.failure, Failure::ClearTextCredentials), "{}", chain(&error));
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn credentials_never_follow_a_redirect_to_another_host() {
    let repo = Repo::with(&[("a", "1")]);
    let other = guarded(repo.dir.path());
    for target in [other.https_url("/repo"), other.url("/repo"), "https://169.254.169.254/repo".to_owned()] {
        let to = format!("{target}/info/refs?service=git-upload-pack");
        let server = Server::https_with(repo.dir.path(), Arc::new(move |_| Some(redirect(&to))));
        let ca = format!("{}{}", server.ca_pem, other.ca_pem);
        let request = with(&server.https_url("/repo"), secret(&[("bearerToken", "t0ken"), ("ca.crt", &ca)]));
        let error = Fetcher::new(options()).fetch(request).await.unwrap_err();
        assert!(matches!(error.failure, Failure::Redirect { .. }), "{}", chain(&error));
        assert!(!chain(&error).contains("t0ken"));
    }
    assert!(other.seen().is_empty(), "{:?}", other.seen());
}

#[tokio::test]
async fn a_renamed_repository_is_followed_on_its_own_host() {
    let repo = Repo::with(&[("a", "1")]);
    let server = Server::https_with(
        repo.dir.path(),
        Arc::new(|seen| seen.path.strip_prefix("/renamed/").map(|rest| redirect(&format!("/repo/{rest}")))),
    );
    let request =
        with(&server.https_url("/renamed"), secret(&[("bearerToken", "t0ken"), ("ca.crt", &server.ca_pem)]));
    assert_eq!(shown(&Fetcher::new(options()).fetch(request).await.unwrap()).1, ["a=1"]);
    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.authorization.as_deref() == Some("Bearer t0ken")), "{seen:?}");
    assert!(seen.iter().skip(1).all(|seen| seen.path.starts_with("/repo/")), "{seen:?}");
}

#[tokio::test]
async fn without_credentials_another_host_is_followed_but_not_everywhere() {
    let repo = Repo::with(&[("a", "1")]);
    let real = Server::http(repo.dir.path());
    let follow = |to: String| async move {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::http_with(dir.path(), Arc::new(move |_| Some(redirect(&to))));
        fetch(&server.url("/x"), GitRef::DefaultBranch).await
    };
    let tail = "/info/refs?service=git-upload-pack";
    assert_eq!(shown(&follow(real.url(&format!("/repo{tail}"))).await.unwrap()).1, ["a=1"]);
    for (to, want) in [
        (format!("http://169.254.169.254/repo{tail}"), "169.254.169.254 is a link-local or metadata address"),
        (format!("file://{}{tail}", repo.path().display()), "which is not followed ever"),
        (real.url("/repo/other"), "the target is not a Git repository's URL"),
        (format!("/x{tail}"), "after 5 redirects"),
        (
            format!("http://user:CANARY@127.0.0.1:{}/repo{tail}", real.port),
            "the target is not a Git repository's URL",
        ),
        (String::new(), "the target is not a Git repository's URL"),
    ] {
        let error = follow(to).await.unwrap_err();
        assert!(chain(&error).contains(want) && !chain(&error).contains("CANARY"), "{}", chain(&error));
    }
}

#[tokio::test]
async fn addresses_of_this_machine_and_metadata_are_refused_by_default() {
    let repo = Repo::with(&[("a", "1")]);
    let server = Server::http(repo.dir.path());
    let fetcher = Fetcher::new(FetcherOptions::default());
    for host in
        ["127.0.0.1", "localhost", "0x7f.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"]
    {
        let url = format!("http://{host}:{}/repo", server.port);
        let error = fetcher.fetch(request(&url, GitRef::DefaultBranch)).await.unwrap_err();
        assert!(matches!(error.failure, Failure::AddressRefused { .. }), "{host}: {}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, "InvalidSpec"));
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn file_urls_are_refused_by_default() {
    let repo = Repo::with(&[("a", "1")]);
    let fetcher = Fetcher::new(FetcherOptions { allow_file_urls: false, ..options() });
    let error = fetcher.fetch(request(&repo.url(), GitRef::DefaultBranch)).await.unwrap_err();
    assert!(matches!(error.failure, Failure::FileUrl));
}

#[tokio::test]
async fn answers_that_are_not_gits_are_told_apart() {
    let page =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    let git = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\nConnection: close\r\n\r\n";
    for (answer, want, class) in [
        (status("404 Not Found"), "there is no such repository (HTTP 404)", Class::Terminal),
        (status("403 Forbidden"), "the server wants credentials (HTTP 403)", Class::Terminal),
        (status("503 Service Unavailable"), "the server answers HTTP 503", Class::Transient),
        (status("429 Too Many Requests"), "the server answers HTTP 429", Class::Transient),
        (status("418 I'm a teapot"), "the server answers HTTP 418", Class::Terminal),
        (page.to_owned(), "does not speak Git's smart HTTP protocol", Class::Terminal),
        (git.to_owned(), "the server's answer cannot be understood", Class::Transient),
        (format!("{git}00zzgarbage"), "the server's answer cannot be understood", Class::Transient),
        (format!("{git}000eversion 2\n0000"), "cannot", Class::Transient),
        ("SSH-2.0-OpenSSH\r\n\r\n".to_owned(), "cannot", Class::Transient),
        (String::new(), "the server cannot be reached", Class::Transient),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let reply = answer.clone();
        let server = Server::http_with(dir.path(), Arc::new(move |_| Some(reply.clone())));
        let error = fetch(&server.url("/repo"), GitRef::DefaultBranch).await.unwrap_err();
        assert!(chain(&error).contains(want), "{answer:?}: {}", chain(&error));
        assert_eq!(error.class(), class, "{}", chain(&error));
    }
}

#[tokio::test]
async fn a_reference_that_a_server_makes_up_is_not_taken() {
    let repo = Repo::with(&[("a", "1")]);
    let lie = "0000000000000000000000000000000000000001 refs/heads/../../../x\n";
    let body = format!("{:04x}{lie}0000", lie.len() + 4);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let server = Server::http_with(
        repo.dir.path(),
        Arc::new(move |seen| seen.body.contains("command=ls-refs").then(|| answer.clone())),
    );
    let error = fetch(&server.url("/repo"), GitRef::branch("main").unwrap()).await.unwrap_err();
    assert!(
        matches!(error.failure, Failure::ReferenceNotFound | Failure::Protocol { .. }),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_pack_that_is_cut_or_broken_is_an_error() {
    let repo = Repo::with(&[("a", "1")]);
    for body in
        ["", "000dpackfile\n", "000dpackfile\n0009\u{1}PACK0000", "000dpackfile\n000d\u{3}go away0000"]
    {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let server = Server::http_with(
            repo.dir.path(),
            Arc::new(move |seen| seen.body.contains("command=fetch").then(|| answer.clone())),
        );
        let error = fetch(&server.url("/repo"), GitRef::DefaultBranch).await.unwrap_err();
        assert!(matches!(error.failure, Failure::Protocol { .. }), "{body:?}: {}", chain(&error));
    }
}

#[tokio::test]
async fn nobody_there_and_no_such_host_are_transient() {
    for (url, want) in [
        ("http://127.0.0.1:1/x", "the server cannot be reached"),
        ("https://no-such-host.invalid/x", "no address for this host"),
    ] {
        let error = fetch(url, GitRef::DefaultBranch).await.unwrap_err();
        assert_eq!(
            (error.class(), error.reason()),
            (Class::Transient, "GitUnreachable"),
            "{}",
            chain(&error)
        );
        assert!(chain(&error).contains("the server cannot be reached"), "{want}: {}", chain(&error));
    }
}

#[tokio::test]
async fn each_source_has_the_time_that_its_spec_gives_it() {
    let (port, _server) = silent_server();
    let timeout = Some("1s".parse().unwrap());
    let fetcher = Fetcher::new(options());
    let git = convoy_api::GitRepositorySpec {
        url: format!("http://127.0.0.1:{port}/x"),
        timeout,
        ..Default::default()
    };
    let git = fetcher.fetch(FetchRequest::from_spec(&git, None, None).unwrap()).await.unwrap_err();
    let oci = convoy_api::OCIRegistrySpec {
        url: format!("oci://127.0.0.1:{port}/x"),
        insecure: Some(true),
        timeout,
        ..Default::default()
    };
    let oci = fetcher.oci_ping(&OciRepository::from_spec(&oci, None, None).unwrap()).await.unwrap_err();
    for error in [git, oci] {
        assert!(matches!(error.failure, Failure::Timeout { seconds: 1 }), "{}", chain(&error));
    }
}

#[tokio::test]
async fn a_silent_server_ends_with_the_timeout() {
    let (port, _server) = silent_server();
    let mut request = request(&format!("http://127.0.0.1:{port}/x"), GitRef::DefaultBranch);
    request.timeout = Duration::from_millis(1100);
    let before = tokio::time::Instant::now();
    let error = Fetcher::new(options()).fetch(request).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Timeout { seconds: 1 }), "{}", chain(&error));
    assert!(before.elapsed() < Duration::from_secs(5));
}

/// The thread of a fetch that nobody waits for any more keeps its turn until it has stopped, and no longer.
#[tokio::test]
async fn a_dropped_fetch_gives_its_turn_back() {
    let (port, _server) = silent_server();
    let repo = Repo::with(&[("a", "1")]);
    let fetcher = Fetcher::new(FetcherOptions { concurrent_fetches: 1, ..options() });
    let mut slow = request(&format!("http://127.0.0.1:{port}/x"), GitRef::DefaultBranch);
    slow.timeout = Duration::from_secs(2);
    let dropped = tokio::time::timeout(Duration::from_millis(100), fetcher.fetch(slow)).await;
    assert!(dropped.is_err());
    let next = fetcher.fetch(request(&repo.url(), GitRef::DefaultBranch));
    assert!(tokio::time::timeout(Duration::from_secs(10), next).await.unwrap().is_ok());
}

/// Runs itself again with nothing on the PATH, and has that process fetch from this one's server.
#[test]
fn no_program_is_run() {
    let fetch_both = |urls: &str| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for url in urls.split(' ') {
            let fetched = runtime.block_on(fetch(url, GitRef::DefaultBranch)).unwrap();
            assert_eq!(shown(&fetched).1, ["a=1"]);
        }
    };
    if let Ok(urls) = std::env::var("CONVOY_TEST_FETCH") {
        return fetch_both(&urls);
    }
    let repo = Repo::with(&[("a", "1")]);
    let server = Server::http(repo.dir.path());
    #[allow(clippy::disallowed_methods, reason = "the test runs itself")]
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "no_program_is_run"])
        .env("CONVOY_TEST_FETCH", format!("{} {}", repo.url(), server.url("/repo")))
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert!(server.seen().len() >= 3);
}
