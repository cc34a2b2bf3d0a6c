//! Git over SSH, from OpenSSH's own server.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, as tests do; tests run ssh-keygen"
)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use convoy_api::GitRepositorySpec;
use convoy_source::{
    Class, Credentials, CredentialsError, Failure, FetchRequest, Fetched, Fetcher, FetcherOptions, GitRef,
    Limits,
};
use convoy_testkit::{SshServer, leave_out};
use support::{Repo, Server, chain, options, request, shown, silent_server};

/// sshd as Debian sets it up does not take GIT_PROTOCOL: then the first version of the protocol is spoken.
const NEW: &str = "AcceptEnv GIT_PROTOCOL\n";
const OLD: &str = "";

fn server(host_keys: &str, configuration: &str) -> Option<SshServer> {
    SshServer::start(host_keys, configuration).inspect_err(|error| leave_out(error)).ok()
}

fn secret(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

fn login(identity: &str, known_hosts: &str) -> Credentials {
    Credentials::for_ssh(&secret(&[("identity", identity), ("known_hosts", known_hosts)])).unwrap()
}

fn with(url: &str, reference: GitRef, credentials: Credentials) -> FetchRequest {
    FetchRequest { credentials, ..request(url, reference) }
}

/// A server with a key that may log in, and the credentials to do so.
fn open(configuration: &str) -> Option<(SshServer, Credentials)> {
    let server = server("ed25519", configuration)?;
    let key = server.authorize("key", &["-t", "ed25519", "-N", ""]).unwrap();
    let credentials = login(&key, &server.known_hosts().unwrap());
    Some((server, credentials))
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_every_sort_log_in() {
    let repo = Repo::with(&[("a", "1")]);
    let Some(server) = server("ed25519", NEW) else { return };
    let (url, hosts) = (server.url(&repo.path()), server.known_hosts().unwrap());
    let fetcher = Fetcher::new(options());
    for (name, arguments, passphrase) in [
        ("ed25519", vec!["-t", "ed25519", "-N", ""], None),
        ("ecdsa256", vec!["-t", "ecdsa", "-b", "256", "-N", ""], None),
        ("ecdsa384", vec!["-t", "ecdsa", "-b", "384", "-N", ""], None),
        ("ecdsa521", vec!["-t", "ecdsa", "-b", "521", "-N", ""], None),
        ("rsa", vec!["-t", "rsa", "-b", "2048", "-N", ""], None),
        ("rsapem", vec!["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""], None),
        ("rsapkcs8", vec!["-t", "rsa", "-b", "2048", "-m", "PKCS8", "-N", ""], None),
        ("ecdsapem", vec!["-t", "ecdsa", "-m", "PEM", "-N", ""], None),
        ("locked", vec!["-t", "ed25519", "-a", "4", "-N", "open sesame"], Some("open sesame\n")),
    ] {
        let key = server.authorize(name, &arguments).unwrap();
        let mut data = secret(&[("identity", &key), ("known_hosts", &hosts)]);
        data.extend(passphrase.map(|text| ("password".to_owned(), text.as_bytes().to_vec())));
        let credentials = Credentials::for_ssh(&data).unwrap_or_else(|error| panic!("{name}: {error}"));
        let fetched = fetcher.fetch(with(&url, GitRef::DefaultBranch, credentials)).await;
        let fetched = fetched.unwrap_or_else(|error| panic!("{name}: {}\n{}", chain(&error), server.log()));
        assert_eq!(shown(&fetched).1, ["a=1"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_keys_of_every_sort_are_checked() {
    let repo = Repo::with(&[("a", "1")]);
    for sort in ["ed25519", "ecdsa", "rsa", "rsa ed25519"] {
        let Some(server) = server(sort, NEW) else { return };
        let key = server.authorize("key", &["-t", "ed25519", "-N", ""]).unwrap();
        // Of a server with several keys, one that is known is asked for.
        let hosts = server.known_hosts().unwrap();
        let first = hosts.lines().find(|line| line.contains("ssh-rsa")).unwrap_or(hosts.as_str());
        let request = with(&server.url(&repo.path()), GitRef::DefaultBranch, login(&key, first));
        let fetched = Fetcher::new(options()).fetch(request).await;
        assert!(fetched.is_ok(), "{sort}: {}", chain(&fetched.unwrap_err()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reference_resolves_to_its_commit_over_ssh() {
    let mut repo = Repo::empty();
    let mut commits = vec![repo.commit(&[("a", "one")])];
    repo.git(&["tag", "light"]);
    commits.push(repo.commit(&[("a", "two")]));
    repo.git(&["tag", "-a", "v1.0.0", "-m", "annotated"]);
    repo.git(&["tag", "-a", "nested", "v1.0.0", "-m", "nested"]);
    commits.push(repo.commit(&[("a", "three")]));
    repo.git(&["update-ref", "refs/pull/7/head", "HEAD"]);
    commits.push(repo.commit(&[("a", "four")]));
    let fetcher = Fetcher::new(options());
    for configuration in [NEW, OLD] {
        let Some((server, credentials)) = open(configuration) else { return };
        let url = server.url(&repo.path());
        for (reference, name, commit, content) in [
            (GitRef::DefaultBranch, "main@", 3, "a=four"),
            (GitRef::branch("main").unwrap(), "main@", 3, "a=four"),
            (GitRef::tag("light").unwrap(), "light@", 0, "a=one"),
            (GitRef::tag("v1.0.0").unwrap(), "v1.0.0@", 1, "a=two"),
            (GitRef::tag("nested").unwrap(), "nested@", 1, "a=two"),
            (GitRef::semver("1.x").unwrap(), "v1.0.0@", 1, "a=two"),
            (GitRef::name("refs/pull/7/head").unwrap(), "refs/pull/7/head@", 2, "a=three"),
            (GitRef::commit(&commits[3]).unwrap(), "", 3, "a=four"),
            (GitRef::commit_on(&commits[0], "main").unwrap(), "", 0, "a=one"),
        ] {
            let fetched = fetcher.fetch(with(&url, reference.clone(), credentials.clone())).await;
            let fetched = fetched.unwrap_or_else(|error| {
                panic!("{configuration:?} {reference}: {}\n{}", chain(&error), server.log())
            });
            let want = (format!("{name}sha1:{}", commits[commit]), vec![content.to_owned()], Vec::new());
            assert_eq!(shown(&fetched), want, "{configuration:?} {reference}");
        }
        // Where the reference still stands, nothing is downloaded.
        let mut again = with(&url, GitRef::branch("main").unwrap(), credentials.clone());
        let revision = format!("main@sha1:{}", commits[3]);
        again.known_revision = Some(revision.clone());
        assert_eq!(fetcher.fetch(again).await.unwrap(), Fetched::Unchanged { revision });
    }
}

/// More than the windows of SSH hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_repository_comes_whole_and_within_its_limit() {
    // Incompressible, so that the pack is as large.
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{state:x}")
    };
    let text: String = (0..300_000).map(|_| noise()).collect();
    let repo = Repo::with(&[("large", &text)]);
    let Some((server, credentials)) = open(NEW) else { return };
    let url = server.url(&repo.path());
    let fetch = |limits| {
        let fetcher = Fetcher::new(FetcherOptions { limits, ..options() });
        let request = with(&url, GitRef::DefaultBranch, credentials.clone());
        async move { fetcher.fetch(request).await }
    };
    let Fetched::New { artifact, .. } = fetch(Limits::default()).await.unwrap() else { panic!() };
    assert_eq!(artifact.files()["large"].len(), text.len());
    for (limits, want) in [
        (Limits { max_pack_bytes: 1 << 20, ..Limits::default() }, "more than 1048576 bytes of objects"),
        (Limits { max_advertisement_bytes: 20, ..Limits::default() }, "more than 20 bytes of references"),
    ] {
        let error = fetch(limits).await.unwrap_err();
        assert!(chain(&error).contains(want), "{}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, "ArtifactRefused"));
    }
}

/// No key is trusted because it was the first: before the host is known, nothing is shown to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_known_is_refused_by_its_fingerprint() {
    let repo = Repo::with(&[("a", "1")]);
    let Some((server, _)) = open(NEW) else { return };
    let key = server.authorize("other", &["-t", "ed25519", "-N", ""]).unwrap();
    let hosts = server.known_hosts().unwrap();
    let public = std::fs::read_to_string(server.folder().join("other.pub")).unwrap();
    let at = format!("[127.0.0.1]:{}", server.address().port());
    for (known, want) in [
        (format!("git.example {public}"), "which known_hosts of the Secret does not have"),
        (format!("127.0.0.1 {}", hosts.split_once(' ').unwrap().1), "does not have"),
        (format!("{at} {public}"), "but known_hosts of the Secret has SHA256:"),
        (format!("{hosts}\n@revoked {hosts}"), "which known_hosts of the Secret revokes"),
    ] {
        let request = with(&server.url(&repo.path()), GitRef::DefaultBranch, login(&key, &known));
        let error = Fetcher::new(options()).fetch(request).await.unwrap_err();
        let text = chain(&error);
        assert!(text.contains(want) && text.contains(&at) && text.contains("(ssh-ed25519)"), "{text}");
        let listed = std::process::Command::new("ssh-keygen");
        let listed = { listed }.arg("-lf").arg(server.folder().join("host_ed25519.pub")).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let fingerprint = listed.split(' ').nth(1).unwrap();
        assert!(text.contains(fingerprint), "{text}: {fingerprint}");
        assert_eq!((error.class(), error.reason()), (Class::Terminal, "HostKeyRefused"));
    }
    assert!(!server.log().contains("userauth") && !server.log().contains("Accepted"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_refuses_is_told_apart() {
    let repo = Repo::with(&[("a", "1")]);
    let Some((server, good)) = open(NEW) else { return };
    let hosts = server.known_hosts().unwrap();
    let other = server.authorize("other", &["-t", "rsa", "-b", "2048", "-N", ""]).unwrap();
    server.revoke_all().unwrap();
    let fetcher = Fetcher::new(options());
    let request = with(&server.url(&repo.path()), GitRef::DefaultBranch, login(&other, &hosts));
    let error = fetcher.fetch(request).await.unwrap_err();
    let text = chain(&error);
    assert!(text.contains("the server refuses the key SHA256:") && text.contains("for the user"), "{text}");
    assert_eq!((error.class(), error.reason()), (Class::Terminal, "GitAuthenticationFailed"));

    let key = server.authorize("again", &["-t", "ed25519", "-N", ""]).unwrap();
    let credentials = login(&key, &hosts);
    let request = with(&server.url(&repo.path().join("none")), GitRef::DefaultBranch, credentials.clone());
    let error = fetcher.fetch(request).await.unwrap_err();
    assert!(
        matches!(&error.failure, Failure::SshRefused { detail } if detail.contains("not appear to be a git repository")),
        "{}",
        chain(&error)
    );
    assert_eq!((error.class(), error.reason()), (Class::Terminal, "GitUnreachable"));

    for (reference, want) in [
        (GitRef::branch("gone").unwrap(), "it does not exist there"),
        (GitRef::name("refs/pull/9/head").unwrap(), "it does not exist there"),
        (GitRef::semver(">=3").unwrap(), "has no tag that matches \">=3\""),
        (GitRef::commit(&"12".repeat(20)).unwrap(), "the server has no such commit"),
        (GitRef::commit_on(&"12".repeat(20), "main").unwrap(), "the server has no such commit"),
    ] {
        let request = with(&server.url(&repo.path()), reference, credentials.clone());
        let error = fetcher.fetch(request).await.unwrap_err();
        assert!(chain(&error).contains(want), "{}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, "GitReferenceNotFound"));
    }

    // Without a Secret, with what is no SSH, and where nobody is.
    let error = fetcher.fetch(request_plain(&server.url(&repo.path()))).await.unwrap_err();
    assert!(matches!(error.failure, Failure::SshKeyMissing), "{}", chain(&error));
    let web = Server::http(repo.dir.path());
    for port in [web.port, 1] {
        let url = format!("ssh://git@127.0.0.1:{port}/x");
        let error = fetcher.fetch(with(&url, GitRef::DefaultBranch, good.clone())).await.unwrap_err();
        assert_eq!(
            (error.class(), error.reason()),
            (Class::Transient, "GitUnreachable"),
            "{}",
            chain(&error)
        );
    }
    let strict = Fetcher::new(FetcherOptions::default());
    let error = strict.fetch(with(&server.url(&repo.path()), GitRef::DefaultBranch, good)).await.unwrap_err();
    assert!(matches!(error.failure, Failure::AddressRefused { .. }), "{}", chain(&error));
}

fn request_plain(url: &str) -> FetchRequest {
    request(url, GitRef::DefaultBranch)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_never_a_command() {
    let Some((server, credentials)) = open(NEW) else { return };
    let folder = tempfile::tempdir().unwrap();
    let trap = folder.path().join("trap");
    for path in
        [format!("/x';touch${{IFS}}{}'", trap.display()), format!("/x$(touch${{IFS}}{})", trap.display())]
    {
        let url = format!("ssh://{}{path}", server.address());
        let user = server.url(std::path::Path::new("/"));
        let user = user.trim_start_matches("ssh://").split('@').next().unwrap();
        let url = url.replacen("ssh://", &format!("ssh://{user}@"), 1);
        let error =
            Fetcher::new(options()).fetch(with(&url, GitRef::DefaultBranch, credentials.clone())).await;
        assert!(matches!(error.unwrap_err().failure, Failure::SshRefused { .. }));
    }
    assert!(!trap.exists());
}

/// Before the key exchange, and after the login.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_ends_with_the_timeout_and_its_connection_too() {
    let (port, server) = silent_server();
    let Some((stuck, credentials)) = open("ForceCommand sleep 600\n") else { return };
    for url in [format!("ssh://git@127.0.0.1:{port}/x"), stuck.url(std::path::Path::new("/x"))] {
        let mut request = with(&url, GitRef::DefaultBranch, credentials.clone());
        request.timeout = Duration::from_millis(1500);
        let before = tokio::time::Instant::now();
        let error = Fetcher::new(options()).fetch(request).await.unwrap_err();
        assert!(matches!(error.failure, Failure::Timeout { seconds: 1 }), "{url}: {}", chain(&error));
        assert!(before.elapsed() < Duration::from_secs(10));
    }
    closed(&stuck).await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_is_given_up_ends_its_connection() {
    let Some((stuck, credentials)) = open("ForceCommand sleep 600\n") else { return };
    let url = stuck.url(std::path::Path::new("/x"));
    let mut request = with(&url, GitRef::DefaultBranch, credentials);
    request.timeout = Duration::from_secs(600);
    let fetcher = Fetcher::new(options());
    let fetch = tokio::spawn(async move { fetcher.fetch(request).await });
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !stuck.log().contains("Starting session") {
        assert!(tokio::time::Instant::now() < deadline, "{}", stuck.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fetch.abort();
    closed(&stuck).await;
}

/// The server has no connection any more.
async fn closed(server: &SshServer) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while server.open() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "a connection is still open: {}", server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn bad_secrets_are_named_by_key() {
    let Some(server) = server("ed25519", NEW) else { return };
    let key = |name: &str, arguments: &[&str]| server.authorize(name, arguments).unwrap();
    let good = key("good", &["-t", "ed25519", "-N", ""]);
    let locked = key("locked", &["-t", "ed25519", "-a", "4", "-N", "CANARY"]);
    let slow = with_rounds(&locked, 501);
    let old = key("old", &["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "CANARY"]);
    let hosts = server.known_hosts().unwrap();
    let cut: String = good.lines().filter(|line| !line.starts_with("b3")).map(|l| format!("{l}\n")).collect();
    for (pairs, want) in [
        (vec![("known_hosts", hosts.as_str())], CredentialsError::NoIdentity),
        (vec![("identity", good.as_str())], CredentialsError::NoKnownHosts),
        (vec![("identity", &good), ("known_hosts", "CANARY")], CredentialsError::KnownHosts),
        (vec![("identity", "CANARY"), ("known_hosts", &hosts)], CredentialsError::Identity),
        (vec![("identity", &cut), ("known_hosts", &hosts)], CredentialsError::Identity),
        (vec![("identity", &locked), ("known_hosts", &hosts)], CredentialsError::NoPassphrase),
        (
            vec![("identity", &slow), ("known_hosts", &hosts), ("password", "CANARY")],
            CredentialsError::IdentityRounds { limit: 500 },
        ),
        (vec![("identity", &old), ("known_hosts", &hosts)], CredentialsError::IdentityFormat),
    ] {
        let error = Credentials::for_ssh(&secret(&pairs)).unwrap_err();
        assert_eq!(error, want);
        assert!(!error.to_string().contains("CANARY"));
    }
    let shown = format!("{:?}", login(&good, &hosts));
    assert!(!shown.contains("PRIVATE") && !shown.contains("AAAA"), "{shown}");
}

/// An encrypted key that says it was encrypted with so many rounds.
fn with_rounds(key: &str, rounds: u32) -> String {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let body: String = key.lines().filter(|line| !line.starts_with("-----")).collect();
    let mut bytes = engine.decode(body).unwrap();
    // The name of the function, and its options: the length of both, the salt with its length, the rounds.
    let at = bytes.windows(6).position(|window| window == b"bcrypt").unwrap() + 6 + 4 + 4 + 16;
    bytes[at..at + 4].copy_from_slice(&rounds.to_be_bytes());
    let body = engine.encode(bytes);
    let lines: Vec<&str> =
        body.as_bytes().chunks(70).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let ends = ["BEGIN", "END"].map(|end| format!("-----{end} OPENSSH PRIVATE KEY-----"));
    format!("{}\n{}\n{}\n", ends[0], lines.join("\n"), ends[1])
}

#[tokio::test(flavor = "multi_thread")]
async fn another_passphrase_is_told_without_it() {
    let repo = Repo::with(&[("a", "1")]);
    let Some(server) = server("ed25519", NEW) else { return };
    let locked = server.authorize("locked", &["-t", "ed25519", "-a", "4", "-N", "right"]).unwrap();
    let hosts = server.known_hosts().unwrap();
    let data = secret(&[("identity", &locked), ("known_hosts", &hosts), ("password", "CANARY")]);
    let request =
        with(&server.url(&repo.path()), GitRef::DefaultBranch, Credentials::for_ssh(&data).unwrap());
    let error = Fetcher::new(options()).fetch(request).await.unwrap_err();
    assert!(chain(&error).contains("\"password\" is not the passphrase"), "{}", chain(&error));
    assert!(!chain(&error).contains("CANARY") && !format!("{error:?}").contains("CANARY"));
    assert_eq!((error.class(), error.reason()), (Class::Terminal, "InvalidSpec"));
}

/// Commits a `.gitmodules` with `more` in each section, and the commits that it is about: paths, URLs and commits.
fn add_submodules(repo: &mut Repo, submodules: &[(&str, &str, &str)], more: &str) {
    let section = |(path, url, _): &(&str, &str, &str)| {
        format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n{more}")
    };
    let text: String = submodules.iter().map(section).collect();
    for (path, _, commit) in submodules {
        repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
        std::fs::create_dir_all(repo.path().join(path)).unwrap();
    }
    repo.commit(&[(".gitmodules", &text)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn submodules_come_over_ssh_with_the_key_of_the_repository_and_from_its_server_alone() {
    let mut inner = Repo::with(&[("values.yaml", "v: 1")]);
    let pinned = inner.git(&["rev-parse", "HEAD"]);
    inner.commit(&[("values.yaml", "v: 2")]);
    let inner_path = inner.path().display().to_string();
    let middle = Repo::with(&[("chart", "c")]);
    let middle_at = middle.git(&["rev-parse", "HEAD"]);
    // With the first version of the protocol sshd's git hands out no commit that is no branch's tip, unless its branch is
    // named.
    for (configuration, more) in [(NEW, ""), (OLD, "\tbranch = main\n")] {
        let Some(server) = server("ed25519", configuration) else { return };
        let key = server.authorize("key", &["-t", "ed25519", "-N", ""]).unwrap();
        let login = secret(&[("identity", &key), ("known_hosts", &server.known_hosts().unwrap())]);
        let absolute = server.url(&middle.path());
        let mut outer = Repo::with(&[("top", "t")]);
        let up = vec![".."; outer.path().components().count() - 1].join("/");
        let relative = format!("{up}{inner_path}");
        let submodules = [("own", relative.as_str(), pinned.as_str()), ("named", &absolute, &middle_at)];
        add_submodules(&mut outer, &submodules, more);
        let fetch = async |url: &str| {
            let spec = GitRepositorySpec {
                url: url.to_owned(),
                recurse_submodules: Some(true),
                ..GitRepositorySpec::default()
            };
            let request = FetchRequest::from_spec(&spec, Some(&login), None).unwrap();
            Fetcher::new(options()).fetch(request).await
        };
        let fetched = fetch(&server.url(&outer.path())).await;
        let fetched = fetched.unwrap_or_else(|error| panic!("{}\n{}", chain(&error), server.log()));
        let files: Vec<String> =
            shown(&fetched).1.into_iter().filter(|file| !file.starts_with(".gitmodules")).collect();
        assert_eq!(files, ["named/chart=c", "own/values.yaml=v: 1", "top=t"], "{configuration:?}");

        // Another sshd is not even asked, and the key is not shown to it.
        let (stranger, _) = open(configuration).unwrap();
        let elsewhere = stranger.url(&middle.path());
        let mut outer = Repo::with(&[("top", "t")]);
        add_submodules(&mut outer, &[("vendor/lib", &elsewhere, &middle_at)], more);
        let error = fetch(&server.url(&outer.path())).await.unwrap_err();
        let text = chain(&error);
        assert!(text.contains("submodule \"vendor/lib\": "), "{text}");
        assert_eq!(stranger.log(), "", "{text}");
    }
}
