//! What a repository may hold, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

mod support;

use convoy_source::{Class, GitRef, Limits};
use support::{Repo, Server, chain, fetch, fetch_limited, raw_tree, shown};

#[cfg(unix)]
#[tokio::test]
async fn links_inside_are_followed_and_submodules_left_out() {
    let mut repo = Repo::with(&[("base/values.yaml", "v: 1")]);
    std::fs::create_dir(repo.path().join("prod")).unwrap();
    std::os::unix::fs::symlink("../base/values.yaml", repo.path().join("prod/values.yaml")).unwrap();
    std::os::unix::fs::symlink("base", repo.path().join("alias")).unwrap();
    std::os::unix::fs::symlink("gone", repo.path().join("dangling")).unwrap();
    let commit = repo.git(&["rev-parse", "HEAD"]);
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},vendor/lib")]);
    std::fs::create_dir_all(repo.path().join("vendor/lib")).unwrap();
    repo.commit(&[("run.sh", "#!/bin/sh")]);
    let server = Server::http(repo.dir.path());
    for url in [repo.url(), server.url("/repo")] {
        let (_, files, notes) = shown(&fetch(&url, GitRef::DefaultBranch).await.unwrap());
        assert_eq!(
            files,
            ["alias/values.yaml=v: 1", "base/values.yaml=v: 1", "prod/values.yaml=v: 1", "run.sh=#!/bin/sh"]
        );
        assert_eq!(
            notes,
            [
                "vendor/lib: submodule left out",
                "dangling: left out, the symbolic link's target \"gone\" does not exist",
            ]
        );
    }
}

#[tokio::test]
async fn links_out_of_the_tree_are_refused_by_path() {
    for (target, want) in [
        ("/etc/passwd", "app.yaml: the symbolic link points to the absolute path \"/etc/passwd\""),
        (
            "../../../etc/passwd",
            "app.yaml: the symbolic link to \"../../../etc/passwd\" leaves the repository",
        ),
        ("app.yaml", "app.yaml: the symbolic link to \"app.yaml\" leads back to itself"),
        ("..", "app.yaml: the symbolic link to \"..\" leaves the repository"),
        (".", "app.yaml: the symbolic link to \".\" leads back to itself"),
    ] {
        let repo = Repo::empty();
        let link = repo.object("blob", target.as_bytes());
        repo.commit_raw_tree(&[("120000", b"app.yaml", &link)]);
        let error = fetch(&repo.url(), GitRef::DefaultBranch).await.unwrap_err();
        assert!(chain(&error).contains(want), "{}", chain(&error));
        assert_eq!((error.class(), error.reason()), (Class::Terminal, "ArtifactRefused"));
    }
}

#[tokio::test]
async fn names_that_mean_something_to_git_are_refused_by_path() {
    for name in [
        &b".git"[..],
        b".GIT",
        b"git~1",
        b"..",
        b".",
        b".g\xe2\x80\x8cit",
        b"a/b",
        b".git::$INDEX_ALLOCATION",
        b"",
    ] {
        let repo = Repo::empty();
        let file = repo.object("blob", b"[core]");
        let inner = repo.object("tree", &raw_tree(&[("100644", b"config", &file)]));
        let outer = repo.object("tree", &raw_tree(&[("40000", name, &inner)]));
        repo.commit_raw_tree(&[("40000", b"charts", &outer)]);
        let server = Server::http(repo.dir.path());
        // Git itself does not send a tree with an empty name.
        let urls = [repo.url(), server.url("/repo")];
        for url in &urls[..if name.is_empty() { 1 } else { 2 }] {
            let error = fetch(url, GitRef::DefaultBranch).await.unwrap_err();
            let text = chain(&error);
            assert!(text.contains("charts/") && text.contains("the name is not allowed"), "{name:?}: {text}");
        }
    }
}

#[tokio::test]
async fn names_that_are_not_text_are_left_out() {
    let repo = Repo::empty();
    let file = repo.object("blob", b"x");
    repo.commit_raw_tree(&[("100644", b"a", &file), ("100644", b"b\xff", &file)]);
    let (_, files, notes) = shown(&fetch(&repo.url(), GitRef::DefaultBranch).await.unwrap());
    assert_eq!(files, ["a=x"]);
    assert_eq!(notes, ["b\u{fffd}: left out, the name is not UTF-8"]);
}

#[tokio::test]
async fn files_in_git_lfs_are_noted() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    let repo = Repo::with(&[("a.bin", pointer), ("b", "x")]);
    let (_, files, notes) = shown(&fetch(&repo.url(), GitRef::DefaultBranch).await.unwrap());
    assert_eq!(files.len(), 2);
    assert_eq!(notes, ["a.bin: the file is in Git LFS, which is not fetched; its pointer is taken as it is"]);
}

#[tokio::test]
async fn each_limit_refuses_by_name() {
    let repo = Repo::with(&[("a/b/c/big", &"x".repeat(2000)), ("a/small", "y"), ("z", &"z".repeat(900))]);
    let server = Server::http(repo.dir.path());
    let all = Limits::default();
    for (limits, want) in [
        (Limits { max_files: 2, ..all }, "the tree holds more than 2 files"),
        (
            Limits { max_file_bytes: 1000, ..all },
            "a/b/c/big: the file has 2000 bytes, more than the 1000 allowed",
        ),
        (Limits { max_total_bytes: 2500, ..all }, "the tree's files have more than 2500 bytes together"),
        (Limits { max_depth: 2, ..all }, "a/b/c: more than 2 nested folders"),
    ] {
        for url in [repo.url(), server.url("/repo")] {
            let text = chain(&fetch_limited(&url, limits).await.unwrap_err());
            assert!(text.contains(want), "{text}");
        }
    }
    for (limits, want) in [
        (Limits { max_advertisement_bytes: 50, ..all }, "the server sends more than 50 bytes of references"),
        (Limits { max_pack_bytes: 50, ..all }, "the server sends more than 50 bytes of objects"),
        (Limits { max_file_bytes: 400, ..all }, "the repository holds an object of more than 1600 bytes"),
    ] {
        let error = fetch_limited(&server.url("/repo"), limits).await.unwrap_err();
        assert!(chain(&error).contains(want), "{}", chain(&error));
        assert_eq!(error.class(), Class::Terminal);
    }
}

/// Ten levels of folders, each holding the next one ten times: 10^10 paths from eleven objects.
#[tokio::test]
async fn a_tree_that_multiplies_is_stopped() {
    let repo = Repo::empty();
    let mut inner = repo.object("tree", &raw_tree(&[("100644", b"f", &repo.object("blob", b"x"))]));
    for _ in 0..10 {
        let names: Vec<String> = (0..10).map(|n| format!("d{n}")).collect();
        let entries: Vec<_> = names.iter().map(|name| ("40000", name.as_bytes(), inner.as_str())).collect();
        inner = repo.object("tree", &raw_tree(&entries));
    }
    repo.commit_raw_tree(&[("40000", b"top", &inner)]);
    let error = fetch(&repo.url(), GitRef::DefaultBranch).await.unwrap_err();
    assert!(chain(&error).contains("more than 50000 files"), "{}", chain(&error));
}

#[tokio::test]
async fn a_folder_without_a_repository_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("gone")] {
        let error = fetch(&format!("file://{}", path.display()), GitRef::DefaultBranch).await.unwrap_err();
        assert!(
            chain(&error).contains("there is no readable Git repository in this folder"),
            "{}",
            chain(&error)
        );
    }
}
