//! Which commit a reference means, over smart HTTP and from a folder alike.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

mod support;

use convoy_source::{Class, Failure, FetchRequest, Fetched, Fetcher, GitRef};
use support::{Repo, Server, chain, fetch, options, request, shown};

/// Commits one to four and a side branch, with tags of every kind.
fn tagged() -> (Repo, Vec<String>) {
    let mut repo = Repo::empty();
    let mut commits = vec![repo.commit(&[("a", "one")])];
    repo.git(&["tag", "light"]);
    commits.push(repo.commit(&[("a", "two")]));
    repo.git(&["tag", "-a", "annotated", "-m", "annotated"]);
    repo.git(&["tag", "-a", "nested", "annotated", "-m", "nested"]);
    repo.git(&["tag", "nested-twice-light", "nested"]);
    commits.push(repo.commit(&[("a", "three")]));
    commits.push(repo.commit(&[("a", "four")]));
    repo.git(&["tag", "tree", "HEAD^{tree}"]);
    repo.git(&["tag", "blob", "HEAD:a"]);
    repo.git(&["checkout", "-q", "-b", "side", "light"]);
    commits.push(repo.commit(&[("a", "side")]));
    repo.git(&["branch", "feature/x"]);
    // The same name for a branch and a tag: the field that names it decides.
    repo.git(&["branch", "annotated"]);
    repo.git(&["checkout", "-q", "main"]);
    (repo, commits)
}

#[tokio::test]
async fn every_reference_resolves_to_its_commit() {
    let (repo, commits) = tagged();
    let server = Server::http(repo.dir.path());
    // Servers of protocol version 0 hand out a commit by id only when they are told to.
    repo.git(&["config", "uploadpack.allowReachableSHA1InWant", "true"]);
    for url in [repo.url(), server.url("/repo"), server.url("/repo/.git"), server.url("/old/repo")] {
        for (reference, name, commit, content) in [
            (GitRef::DefaultBranch, "main@", 3, "a=four"),
            (GitRef::branch("main").unwrap(), "main@", 3, "a=four"),
            (GitRef::branch("feature/x").unwrap(), "feature/x@", 4, "a=side"),
            (GitRef::branch("annotated").unwrap(), "annotated@", 4, "a=side"),
            (GitRef::tag("light").unwrap(), "light@", 0, "a=one"),
            (GitRef::tag("annotated").unwrap(), "annotated@", 1, "a=two"),
            (GitRef::tag("nested").unwrap(), "nested@", 1, "a=two"),
            (GitRef::tag("nested-twice-light").unwrap(), "nested-twice-light@", 1, "a=two"),
            (GitRef::commit(&commits[2]).unwrap(), "", 2, "a=three"),
            (GitRef::commit(&commits[3]).unwrap(), "", 3, "a=four"),
        ] {
            let fetched = fetch(&url, reference.clone())
                .await
                .unwrap_or_else(|error| panic!("{url} {reference}: {}", chain(&error)));
            let want = (format!("{name}sha1:{}", commits[commit]), vec![content.to_owned()], Vec::new());
            assert_eq!(shown(&fetched), want, "{url} {reference}");
        }
    }
}

#[tokio::test]
async fn the_revision_is_the_one_that_the_spec_names() {
    let (repo, commits) = tagged();
    repo.git(&["tag", "v1.2.0", "light"]);
    repo.git(&["update-ref", "refs/pull/1/head", "refs/heads/side"]);
    let text = |text: &str| Some(text.to_owned());
    let any = convoy_api::GitReference::default;
    for (reference, want) in [
        (any(), "a=four"),
        (convoy_api::GitReference { branch: text("feature/x"), ..any() }, "a=side"),
        (convoy_api::GitReference { tag: text("annotated"), ..any() }, "a=two"),
        (convoy_api::GitReference { semver: text(">=1 <2"), ..any() }, "a=one"),
        (convoy_api::GitReference { name: text("refs/pull/1/head"), ..any() }, "a=side"),
        (convoy_api::GitReference { commit: Some(commits[2].clone()), ..any() }, "a=three"),
    ] {
        let spec = convoy_api::GitRepositorySpec {
            url: repo.url(),
            reference: Some(reference.clone()),
            ..Default::default()
        };
        let request = FetchRequest::from_spec(&spec, None, None).unwrap();
        let found = Fetcher::new(options()).fetch(request).await.unwrap();
        assert_eq!(shown(&found).1, [want], "{reference:?}");
    }
}

#[tokio::test]
async fn what_is_no_commit_or_is_not_there_is_refused_by_name() {
    let (repo, _) = tagged();
    let server = Server::http(repo.dir.path());
    let missing = "1234567890123456789012345678901234567890";
    for (url, is_http) in [(repo.url(), false), (server.url("/repo"), true), (server.url("/old/repo"), true)]
    {
        for (reference, want) in [
            (GitRef::branch("gone").unwrap(), "it does not exist there"),
            (GitRef::branch("ain").unwrap(), "it does not exist there"),
            (GitRef::branch("light").unwrap(), "it does not exist there"),
            (GitRef::tag("main").unwrap(), "it does not exist there"),
            (GitRef::tag("tree").unwrap(), "it names a tree, not a commit"),
            (GitRef::tag("blob").unwrap(), "it names a blob, not a commit"),
            (GitRef::commit(missing).unwrap(), "the server has no such commit"),
        ] {
            let error = fetch(&url, reference.clone()).await.unwrap_err();
            let text = chain(&error);
            assert!(text.starts_with(&format!("cannot fetch {reference} from {url}: ")), "{text}");
            assert!(text.contains(want), "{is_http} {reference}: {text}");
            assert_eq!(error.class(), Class::Terminal, "{text}");
            assert_eq!(error.reason(), "GitReferenceNotFound", "{text}");
        }
    }
}

/// Case 301: branches and tags of one name, tags of tags, of trees and of blobs, and what is a version.
#[tokio::test]
async fn case301_versions_are_chosen_among_tags_that_name_commits() {
    let mut repo = Repo::empty();
    let mut commits = vec![repo.commit(&[("a", "one")])];
    repo.git(&["tag", "v1.0.0"]);
    commits.push(repo.commit(&[("a", "two")]));
    repo.git(&["tag", "-a", "v1.1.0", "-m", "annotated"]);
    commits.push(repo.commit(&[("a", "three")]));
    repo.git(&["tag", "-a", "inner", "-m", "inner"]);
    repo.git(&["tag", "-a", "v1.2.0", "inner", "-m", "nested"]);
    commits.push(repo.commit(&[("a", "four")]));
    repo.git(&["tag", "v1.2.0+build.1"]);
    commits.push(repo.commit(&[("a", "five")]));
    repo.git(&["tag", "v2.0.0-rc.1"]);
    commits.push(repo.commit(&[("a", "six")]));
    for tag in ["1.3", "V1.9.0", "release-9.9.9", "v1.04.0"] {
        repo.git(&["tag", tag]);
    }
    repo.git(&["tag", "v8.0.0", "HEAD^{tree}"]);
    repo.git(&["tag", "v9.0.0", "HEAD:a"]);
    repo.git(&["checkout", "-q", "-b", "side"]);
    commits.push(repo.commit(&[("a", "side")]));
    repo.git(&["branch", "v1.0.0"]);
    repo.git(&["checkout", "-q", "main"]);
    repo.git(&["update-ref", "refs/pull/1/head", "refs/heads/side"]);
    let server = Server::http(repo.dir.path());
    let fetcher = Fetcher::new(options());
    for url in [repo.url(), server.url("/repo"), server.url("/old/repo")] {
        let semver = |range: &str| GitRef::semver(range).unwrap();
        for (reference, name, commit) in [
            (GitRef::tag("v1.0.0").unwrap(), "v1.0.0@", 0),
            (GitRef::tag("v1.1.0").unwrap(), "v1.1.0@", 1),
            (GitRef::tag("v1.2.0").unwrap(), "v1.2.0@", 2),
            (GitRef::branch("v1.0.0").unwrap(), "v1.0.0@", 6),
            (GitRef::name("refs/tags/v1.2.0").unwrap(), "refs/tags/v1.2.0@", 2),
            (GitRef::name("refs/heads/v1.0.0").unwrap(), "refs/heads/v1.0.0@", 6),
            (GitRef::name("refs/pull/1/head").unwrap(), "refs/pull/1/head@", 6),
            (GitRef::commit_on(&commits[3], "main").unwrap(), "", 3),
            (semver(">=1.0.0 <2"), "1.3@", 5),
            // Of equal versions always the same: that whose text is last.
            (semver("~1.2"), "v1.2.0+build.1@", 3),
            (semver("1.1.x"), "v1.1.0@", 1),
            (semver("*"), "1.3@", 5),
            (semver(">=2.0.0-0"), "v2.0.0-rc.1@", 4),
        ] {
            let mut request = request(&url, reference.clone());
            let fetched = fetcher.fetch(request.clone()).await;
            let fetched = fetched.unwrap_or_else(|error| panic!("{url} {reference}: {}", chain(&error)));
            let revision = format!("{name}sha1:{}", commits[commit]);
            assert_eq!(shown(&fetched).0, revision, "{url} {reference}");
            request.known_revision = Some(revision.clone());
            let before = server.seen().len();
            assert_eq!(fetcher.fetch(request).await.unwrap(), Fetched::Unchanged { revision });
            let downloads = |body: &str| body.contains("command=fetch") || body.contains("want ");
            assert!(server.seen()[before..].iter().all(|seen| !downloads(&seen.body)), "{reference}");
        }
        for (reference, want) in [
            (GitRef::tag("v8.0.0").unwrap(), "it names a tree, not a commit"),
            (GitRef::tag("v9.0.0").unwrap(), "it names a blob, not a commit"),
            (semver(">=3"), "has no tag that matches \">=3\""),
            (semver(">=1.4 <2"), "has no tag that matches"),
            (GitRef::name("refs/pull/2/head").unwrap(), "it does not exist there"),
        ] {
            let error = fetcher.fetch(request(&url, reference.clone())).await.unwrap_err();
            assert!(chain(&error).contains(want), "{url} {reference}: {}", chain(&error));
            assert_eq!((error.class(), error.reason()), (Class::Terminal, "GitReferenceNotFound"));
        }
    }
}

#[tokio::test]
async fn an_unchanged_revision_downloads_nothing() {
    let mut repo = Repo::with(&[("a", "1")]);
    let server = Server::http(repo.dir.path());
    let fetcher = Fetcher::new(options());
    for url in [repo.url(), server.url("/repo")] {
        let mut request = request(&url, GitRef::branch("main").unwrap());
        let (first, _, _) = shown(&fetcher.fetch(request.clone()).await.unwrap());
        request.known_revision = Some(first.clone());
        let before = server.seen().len();
        let again = fetcher.fetch(request.clone()).await.unwrap();
        assert_eq!(again, Fetched::Unchanged { revision: first });
        let asked: Vec<_> =
            server.seen()[before..].iter().map(|seen| seen.body.contains("command=fetch")).collect();
        assert!(asked.iter().all(|fetch| !fetch) && asked.len() <= 2, "{asked:?}");

        let commit = repo.commit(&[("a", "2")]);
        let (third, files, _) = shown(&fetcher.fetch(request).await.unwrap());
        assert_eq!((third, files), (format!("main@sha1:{commit}"), vec!["a=2".to_owned()]));
    }
}

#[tokio::test]
async fn a_known_commit_asks_no_server() {
    let id = "bb7f8db02ca4bd4cb75ef1733d9a1190aea3208f";
    let mut request = request("https://127.0.0.1:1/nothing-listens-here", GitRef::commit(id).unwrap());
    request.known_revision = Some(format!("sha1:{id}"));
    let fetched = Fetcher::new(options()).fetch(request).await.unwrap();
    assert_eq!(fetched, Fetched::Unchanged { revision: format!("sha1:{id}") });
}

/// Case 303, as far as it is seen from here.
#[tokio::test]
async fn case303_rewritten_history_gone_branches_and_first_pushes_are_followed() {
    let mut repo = Repo::empty();
    let server = Server::http(repo.dir.path());
    for url in [repo.url(), server.url("/repo")] {
        let error = fetch(&url, GitRef::DefaultBranch).await.unwrap_err();
        assert!(matches!(error.failure, Failure::Empty), "{}", chain(&error));
        let error = fetch(&url, GitRef::branch("main").unwrap()).await.unwrap_err();
        assert!(matches!(error.failure, Failure::ReferenceNotFound), "{}", chain(&error));
    }
    repo.commit(&[("a", "first"), ("b", "b")]);
    let urls = [repo.url(), server.url("/repo")];
    let main = || GitRef::branch("main").unwrap();
    for url in &urls {
        assert_eq!(shown(&fetch(url, main()).await.unwrap()).1, ["a=first", "b=b"]);
    }
    // As after a force push: the tip has other parents, then none.
    repo.git(&["checkout", "-q", "--orphan", "other"]);
    repo.commit(&[("a", "orphan")]);
    repo.git(&["branch", "-qf", "main", "other"]);
    for url in &urls {
        assert_eq!(shown(&fetch(url, main()).await.unwrap()).1, ["a=orphan", "b=b"]);
    }
    repo.git(&["branch", "-qD", "main"]);
    for url in &urls {
        let error = fetch(url, main()).await.unwrap_err();
        assert!(matches!(error.failure, Failure::ReferenceNotFound), "{}", chain(&error));
    }
    repo.git(&["branch", "main", "other"]);
    for url in &urls {
        assert!(fetch(url, main()).await.is_ok());
    }
    // An emptied repository is a good artifact without files; what that means is the caller's to say.
    repo.git(&["rm", "-qr", "."]);
    repo.commit(&[]);
    repo.git(&["branch", "-f", "main", "other"]);
    for url in &urls {
        assert!(shown(&fetch(url, main()).await.unwrap()).1.is_empty());
    }
}

#[tokio::test]
async fn history_is_not_downloaded() {
    let mut repo = Repo::with(&[("a", "1")]);
    for n in 0..20 {
        repo.commit(&[("a", &format!("{n}"))]);
    }
    let server = Server::http(repo.dir.path());
    fetch(&server.url("/repo"), GitRef::DefaultBranch).await.unwrap();
    let fetched: Vec<_> =
        server.seen().into_iter().filter(|seen| seen.body.contains("command=fetch")).collect();
    assert_eq!(fetched.len(), 1);
    assert!(fetched[0].body.contains("deepen 1"), "{}", fetched[0].body);
}
