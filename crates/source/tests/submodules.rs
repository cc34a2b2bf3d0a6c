//! Submodules, from real Git servers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use convoy_api::GitRepositorySpec;
use convoy_source::{Class, FetchError, FetchRequest, Fetched, Fetcher, FetcherOptions, Limits};
use support::{Repo, Server, chain, options, shown, status};

fn spec(url: &str) -> GitRepositorySpec {
    GitRepositorySpec { url: url.to_owned(), recurse_submodules: Some(true), ..Default::default() }
}

async fn fetch(spec: &GitRepositorySpec) -> Result<Fetched, FetchError> {
    Fetcher::new(options()).fetch(FetchRequest::from_spec(spec, None, None).unwrap()).await
}

/// Commits submodules `(path, url, commit)` on top of what the repository has, with a `.gitmodules` that says so.
fn add(repo: &mut Repo, submodules: &[(&str, &str, &str)]) -> String {
    let section = |(path, url, _): &(&str, &str, &str)| {
        format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n")
    };
    let text: String = submodules.iter().map(section).collect();
    for (path, _, commit) in submodules {
        repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
        std::fs::create_dir_all(repo.path().join(path)).unwrap();
    }
    repo.commit(&[(".gitmodules", &text)])
}

/// Repositories under one root, `/<name>/repo` on a server of it.
fn root_of(repos: &[(&str, &Repo)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, repo) in repos {
        std::os::unix::fs::symlink(repo.dir.path(), root.path().join(name)).unwrap();
    }
    root
}

fn files(fetched: &Fetched) -> Vec<String> {
    shown(fetched).1.into_iter().filter(|file| !file.contains(".gitmodules=")).collect()
}

#[tokio::test]
async fn submodules_of_submodules_come_at_the_commit_that_is_named() {
    let mut inner = Repo::with(&[("values.yaml", "v: 1")]);
    let pinned = inner.git(&["rev-parse", "HEAD"]);
    inner.commit(&[("values.yaml", "v: 2")]);
    let mut middle = Repo::with(&[("chart/a", "a")]);
    let middle_at = add(&mut middle, &[("dep", "../../inner/repo", &pinned)]);
    let mut outer = Repo::with(&[("top", "t")]);
    std::os::unix::fs::symlink("vendor/lib/dep/values.yaml", outer.path().join("link")).unwrap();
    let other = Server::http(inner.dir.path());
    add(
        &mut outer,
        &[("vendor/lib", "../../middle/repo", &middle_at), ("abs", &other.url("/repo"), &pinned)],
    );
    let root = root_of(&[("outer", &outer), ("middle", &middle), ("inner", &inner)]);
    let server = Server::http(root.path());
    let all = [
        "abs/values.yaml=v: 1",
        "link=v: 1",
        "top=t",
        "vendor/lib/chart/a=a",
        "vendor/lib/dep/values.yaml=v: 1",
    ];
    let found = fetch(&spec(&server.url("/outer/repo"))).await.unwrap();
    assert_eq!(files(&found), all);
    assert_eq!(shown(&found).2, Vec::<String>::new());

    let without = GitRepositorySpec { recurse_submodules: Some(false), ..spec(&server.url("/outer/repo")) };
    let bare = fetch(&without).await.unwrap();
    assert_eq!(files(&bare), ["top=t"]);
    let digest = |found: &Fetched| match found {
        Fetched::New { artifact, .. } => artifact.digest().to_owned(),
        Fetched::Unchanged { .. } => panic!("fetched anew"),
    };
    assert_ne!(digest(&found), digest(&bare));

    // The choice of files is of the whole tree; what is ignored as a whole is not even asked for.
    let before = other.seen().len();
    let ignore = vec!["abs".to_owned(), "chart".to_owned()];
    let found = fetch(&GitRepositorySpec { ignore, ..spec(&server.url("/outer/repo")) }).await.unwrap();
    assert_eq!(files(&found), ["link=v: 1", "top=t", "vendor/lib/dep/values.yaml=v: 1"]);
    assert_eq!(shown(&found).2, ["abs: submodule left out by spec.ignore"]);
    assert_eq!(other.seen().len(), before);
    let include = vec!["/vendor/lib/dep".to_owned()];
    let found = fetch(&GitRepositorySpec { include, ..spec(&server.url("/outer/repo")) }).await.unwrap();
    assert_eq!(files(&found), ["vendor/lib/dep/values.yaml=v: 1"]);
}

#[tokio::test]
async fn a_submodule_that_cannot_be_fetched_is_named_with_what_to_do() {
    let lib = Repo::with(&[("a", "1")]);
    let at = lib.git(&["rev-parse", "HEAD"]);
    let gone = "1".repeat(40);
    let server = Server::http(lib.dir.path());
    let (url, no_such) = (server.url("/repo"), server.url("/none"));
    let local = lib.url();
    for (line, commit, want, reason, class) in [
        (url.as_str(), gone.as_str(), "push that commit there", "GitReferenceNotFound", Class::Terminal),
        (&no_such, &at, "there is no such repository", "GitUnreachable", Class::Terminal),
        ("http://127.0.0.1:1/x", &at, "the server cannot be reached", "GitUnreachable", Class::Transient),
        (&local, &at, "in a folder of this machine", "ArtifactRefused", Class::Terminal),
        ("../lib", &at, "in a folder of this machine", "ArtifactRefused", Class::Terminal),
        ("-u/x", &at, "the URL in .gitmodules is refused", "ArtifactRefused", Class::Terminal),
        (
            "http://169.254.169.254/x",
            &at,
            "is a link-local or metadata address",
            "InvalidSpec",
            Class::Terminal,
        ),
        (
            "ssh://git@127.0.0.1:1/x",
            &at,
            "give it a relative URL in .gitmodules",
            "InvalidSpec",
            Class::Terminal,
        ),
    ] {
        let mut repo = Repo::with(&[("top", "t")]);
        add(&mut repo, &[("vendor/lib", line, commit)]);
        let error = fetch(&spec(&repo.url())).await.unwrap_err();
        let text = chain(&error);
        assert!(text.contains("submodule \"vendor/lib\": ") && text.contains(want), "{line}: {text}");
        assert_eq!((error.reason(), error.class()), (reason, class), "{text}");
    }
}

#[tokio::test]
async fn a_submodule_that_is_not_declared_is_refused_by_path() {
    let mut repo = Repo::with(&[("top", "t")]);
    let commit = repo.git(&["rev-parse", "HEAD"]);
    for (gitmodules, want) in [
        ("", "it is not in .gitmodules"),
        ("[submodule \"lib\"]\n\tpath = ../vendor/lib\n\turl = http://h/x\n", "it is not in .gitmodules"),
        ("[submodule \"lib\"]\n\tpath = vendor/lib\n", "it has no url"),
        ("[submodule", ".gitmodules cannot be read"),
    ] {
        repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},vendor/lib")]);
        std::fs::create_dir_all(repo.path().join("vendor/lib")).unwrap();
        repo.commit(&[(".gitmodules", gitmodules)]);
        let error = fetch(&spec(&repo.url())).await.unwrap_err();
        let text = chain(&error);
        assert!(text.contains("submodule \"vendor/lib\": ") && text.contains(want), "{text}");
        assert_eq!((error.reason(), error.class()), ("ArtifactRefused", Class::Terminal));
    }
}

/// No commit can name itself, but a repository can hold its own earlier commits, as often as it likes.
#[tokio::test]
async fn cycles_and_crowds_of_submodules_are_stopped() {
    let mut repo = Repo::with(&[("a", "1")]);
    for _ in 0..4 {
        let before = repo.git(&["rev-parse", "HEAD"]);
        add(&mut repo, &[("me", "../repo", &before)]);
    }
    let server = Server::http(repo.dir.path());
    let limited = async |limits: Limits, url: String| {
        let request = FetchRequest::from_spec(&spec(&url), None, None).unwrap();
        Fetcher::new(FetcherOptions { limits, ..options() }).fetch(request).await
    };
    let all = Limits::default();
    let found =
        limited(Limits { max_submodule_depth: 4, max_submodules: 4, ..all }, server.url("/repo")).await;
    let want = ["a=1", "me/a=1", "me/me/a=1", "me/me/me/a=1", "me/me/me/me/a=1"];
    assert_eq!(files(&found.unwrap()), want);
    for (limits, want) in [
        (
            Limits { max_submodule_depth: 3, ..all },
            "submodule \"me/me/me/me\": more than 3 submodules inside each other",
        ),
        (
            Limits { max_submodules: 2, ..all },
            "submodule \"me/me/me\": the repository has more than 2 submodules",
        ),
        // One tree is far below each of these; all together are above.
        (Limits { max_files: 8, ..all }, "the tree holds more than 8 files"),
        (Limits { max_total_bytes: 150, ..all }, "the tree's files have more than 150 bytes together"),
        (Limits { max_depth: 2, ..all }, "more than 2 nested folders"),
        (Limits { max_pack_bytes: 900, ..all }, "the server sends more than 900 bytes of objects"),
    ] {
        let error = limited(limits, server.url("/repo")).await.unwrap_err();
        assert!(chain(&error).contains(want), "{limits:?}: {}", chain(&error));
    }
}

/// A server that wants the token `t0ken`.
fn guarded(root: &Path) -> Server {
    Server::https_with(
        root,
        Arc::new(|seen| {
            let good = seen.authorization.as_deref() == Some("Bearer t0ken");
            (!good).then(|| status("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"r\""))
        }),
    )
}

#[tokio::test]
async fn credentials_go_to_the_host_of_the_repository_alone() {
    let lib = Repo::with(&[("a", "1")]);
    let at = lib.git(&["rev-parse", "HEAD"]);
    let (other, open) = (guarded(lib.dir.path()), Server::http(lib.dir.path()));
    let mut repo = Repo::with(&[("top", "t")]);
    let root = root_of(&[("outer", &repo), ("lib", &lib)]);
    let server = guarded(root.path());
    let secret: BTreeMap<String, Vec<u8>> = [
        ("bearerToken".to_owned(), b"t0ken".to_vec()),
        ("ca.crt".to_owned(), format!("{}{}", server.ca_pem, other.ca_pem).into_bytes()),
    ]
    .into();
    let fetch = async || {
        let request = FetchRequest::from_spec(&spec(&server.https_url("/outer/repo")), Some(&secret), None);
        Fetcher::new(options()).fetch(request.unwrap()).await
    };
    // On the same host and on an open one they are fetched; the open one sees no token.
    add(&mut repo, &[("own", "../../lib/repo", &at), ("open", &open.url("/repo"), &at)]);
    assert_eq!(files(&fetch().await.unwrap()), ["open/a=1", "own/a=1", "top=t"]);
    assert!(!open.seen().is_empty() && open.seen().iter().all(|seen| seen.authorization.is_none()));
    // Another port is another host, and so is the same one in clear text.
    add(&mut repo, &[("own", "../../lib/repo", &at), ("open", &other.https_url("/repo"), &at)]);
    let error = fetch().await.unwrap_err();
    let text = chain(&error);
    assert!(
        text.contains("submodule \"open\"")
            && text.contains("is for scheme, host and port of spec.url alone"),
        "{text}"
    );
    assert_eq!((error.reason(), error.class()), ("GitAuthenticationFailed", Class::Terminal));
    assert!(!other.seen().is_empty() && other.seen().iter().all(|seen| seen.authorization.is_none()));
}
