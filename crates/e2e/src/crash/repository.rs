//! What the Releases are of: a chart in Git, in three revisions, for each size.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// The name of the hook's object.
pub const HOOK: &str = "hook";

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// What is installed.
    One,
    /// With objects that are new, changed and gone.
    Two,
    /// As the first, but another commit.
    Three,
}

impl Revision {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Two => "two",
            Self::Three => "three",
        }
    }

    /// The one after it.
    pub fn next(self) -> Self {
        match self {
            Self::One => Self::Two,
            Self::Two | Self::Three => Self::Three,
        }
    }

    fn has_content_of(self) -> Self {
        if self == Self::Two { Self::Two } else { Self::One }
    }
}

/// The ConfigMaps of a Release of a size, with their content.
pub fn content(size: usize, revision: Revision) -> BTreeMap<String, &'static str> {
    let part = (size / 10).max(1);
    let old = (0..size).map(|number| (format!("map-{number:04}"), "one"));
    if revision.has_content_of() == Revision::One {
        return old.collect();
    }
    // The first are changed, the last are gone, and as many are new.
    let stay = old.take(size - part).enumerate();
    let stay = stay.map(|(number, (name, text))| (name, if number < part { "two" } else { text }));
    stay.chain((0..part).map(|number| (format!("new-{number:04}"), "two"))).collect()
}

/// The second half of the ConfigMaps comes in another wave, and in the middle is the upgrade's new part of it.
fn wave(number: usize, size: usize) -> &'static str {
    if number * 2 >= size && size > 1 { "1" } else { "0" }
}

fn manifests(size: usize, revision: Revision) -> String {
    let one = |(number, (name, text)): (usize, (String, &str))| {
        let wave = wave(number, size);
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{convoy.kumodo.io/wave: \
             \"{wave}\"}}}}\ndata: {{text: {text}}}\n"
        )
    };
    content(size, revision).into_iter().enumerate().map(one).collect()
}

/// The hook before both deliveries: a Job, which has to end first, where something ends Jobs.
fn hook(has_jobs: bool) -> String {
    let head = |api_version: &str, kind: &str| {
        format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {HOOK}, annotations: {{helm.sh/hook: \
             \"pre-install,pre-upgrade\"}}}}\n"
        )
    };
    if !has_jobs {
        return head("v1", "ConfigMap");
    }
    head("batch/v1", "Job")
        + "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example.com/c}]}}}\n"
}

/// The files of the chart of a size, by their paths in it.
pub fn files_of(size: usize, revision: Revision, has_jobs: bool) -> [(&'static str, String); 3] {
    [
        ("Chart.yaml", "apiVersion: v2\nname: maps\nversion: 1.0.0\n".to_owned()),
        ("templates/maps.yaml", manifests(size, revision)),
        ("templates/hook.yaml", hook(has_jobs)),
    ]
}

/// A repository with a chart for each size.
#[derive(Debug)]
pub struct Repository {
    folder: PathBuf,
}

impl Repository {
    /// Makes it in a folder that is not there yet.
    ///
    /// # Errors
    /// When Git or the disk fails.
    pub fn create(folder: &Path, sizes: &[usize], has_jobs: bool) -> anyhow::Result<Self> {
        let own = Self { folder: folder.to_owned() };
        std::fs::create_dir_all(folder)?;
        own.git(&["init", "--quiet", "--initial-branch=main"], "")?;
        for revision in [Revision::One, Revision::Two] {
            for size in sizes {
                let chart = folder.join(format!("size-{size}"));
                std::fs::create_dir_all(chart.join("templates"))?;
                for (path, text) in files_of(*size, revision, has_jobs) {
                    std::fs::write(chart.join(path), text)?;
                }
            }
            own.git(&["add", "--all"], "")?;
            own.git(&["commit", "--quiet", "-m", revision.name()], "")?;
            own.git(&["branch", "--quiet", revision.name()], "")?;
        }
        Ok(own)
    }

    /// The path of a size.
    pub fn path(size: usize) -> String {
        format!("size-{size}")
    }

    /// The branch of one Release, so that nothing that was fetched for another is of use to it.
    pub fn branch(release: &str, revision: Revision) -> String {
        format!("{release}-{}", revision.name())
    }

    /// Makes the branches of a Release; answers with their commits.
    ///
    /// # Errors
    /// When Git fails.
    pub fn branches_of(&self, release: &str) -> anyhow::Result<[String; 3]> {
        let all = [Revision::One, Revision::Two, Revision::Three];
        let commits: String = all
            .iter()
            .map(|revision| {
                let (branch, base) = (Self::branch(release, *revision), revision.has_content_of().name());
                let length = branch.len() + 1;
                format!(
                    "commit refs/heads/{branch}\ncommitter test <test@example.invalid> 1700000000 +0000\ndata \
                     3\nfor\nfrom refs/heads/{base}^0\nM 100644 inline of\ndata {length}\n{branch}\n\n"
                )
            })
            .collect();
        self.git(&["fast-import", "--quiet"], &commits)?;
        let [one, two, three] = all.map(|revision| Self::branch(release, revision));
        let ids = self.git(&["rev-parse", &one, &two, &three], "")?;
        let mut ids = ids.lines().map(str::to_owned);
        let mut next = || ids.next().context("Git names no commit");
        Ok([next()?, next()?, next()?])
    }

    fn git(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let mut child = Command::new("git")
            .arg("-C")
            .arg(&self.folder)
            .args(["-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "gc.auto=0"])
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("running git")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "git {arguments:?}");
        Ok(String::from_utf8(output.stdout)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_changes_adds_and_takes_away_in_more_than_one_wave() {
        let (one, two) = (content(10, Revision::One), content(10, Revision::Two));
        assert_eq!((one.len(), two.len()), (10, 10));
        assert_eq!((one["map-0000"], two["map-0000"], two["new-0000"]), ("one", "two", "two"));
        assert!(!two.contains_key("map-0009"));
        let text = manifests(10, Revision::Two);
        for wave in ["0", "1"] {
            assert_eq!(text.matches(&format!("wave: \"{wave}\"")).count(), 5, "{text}");
        }
    }

    #[test]
    fn each_release_has_commits_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::create(&folder.path().join("apps"), &[1], true).unwrap();
        let [one, two, three] = repository.branches_of("cell-1").unwrap();
        let [other, ..] = repository.branches_of("cell-2").unwrap();
        let all = std::collections::BTreeSet::from([&one, &two, &three, &other]);
        assert_eq!(all.len(), 4, "{all:?}");
        let hook = repository.git(&["show", "cell-1-two:size-1/templates/hook.yaml"], "").unwrap();
        assert!(hook.contains("kind: Job"));
    }
}
