//! `cargo xtask dist`: for each platform an archive with the program and what belongs to it, and the checksums of all.
//!
//! The same binary makes the same bytes, as for images.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::{image, workspace};

/// What to make.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the archives are written. Default: `dist` in the target folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A binary that is built already, for example `linux/arm64=FILE`; may be given for several platforms, of which one
    /// has to be this machine's. Default: it is built for this one.
    #[arg(long, value_name = "PLATFORM=FILE", value_parser = image::platform_binary)]
    binary: Vec<(String, PathBuf)>,
    /// Without optimisation, from what `cargo build` has compiled already: to try it, not to give it away.
    #[arg(long, conflicts_with = "binary")]
    dev: bool,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The shells that there are completions for, and how those files are named.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "convoy.bash"),
    ("elvish", "convoy.elv"),
    ("fish", "convoy.fish"),
    ("powershell", "_convoy.ps1"),
    ("zsh", "_convoy"),
];

/// Makes the archives, and says where they are.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = workspace::target_dir()?;
    let out = arguments.out.clone().unwrap_or_else(|| target.join("dist"));
    let binaries = image::binaries(&arguments.binary, arguments.dev, &target)?;
    let here = image::this_platform()?;
    let own = binaries.iter().find(|(platform, _)| *platform == here);
    let (_, own) =
        own.with_context(|| format!("none of the binaries is of {here}, to ask for completions"))?;
    let mut files = common(own)?;
    files.insert("sbom.cdx.json".to_owned(), image::sbom::sbom()?);
    for line in write(&out, &binaries, &files)?.lines() {
        println!("{line}");
    }
    println!("in {}", out.display());
    Ok(())
}

/// What all archives have, by path: what the program says of itself, and files of the repository.
fn common(program: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
        let path = workspace::root().join(name);
        files.insert(name.to_owned(), std::fs::read(&path).with_context(|| path.display().to_string())?);
    }
    let program = program.to_str().context("the path of the program is no text")?;
    let said = |arguments: &[&str]| -> anyhow::Result<Vec<u8>> {
        let output = workspace::program(program).args(arguments).output().context(program.to_owned())?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "convoy {}: {}", arguments.join(" "), errors.trim());
        Ok(output.stdout)
    };
    for (shell, file) in SHELLS {
        files.insert(format!("completions/{file}"), said(&["completion", shell])?);
    }
    let pages = std::env::temp_dir().join(format!("convoy-manual-{}", std::process::id()));
    said(&["manual", pages.to_str().context("the temporary folder's path is no text")?])?;
    for page in std::fs::read_dir(&pages)? {
        let page = page?;
        let name = format!("man/man1/{}", page.file_name().to_string_lossy());
        files.insert(name, std::fs::read(page.path())?);
    }
    std::fs::remove_dir_all(&pages)?;
    Ok(files)
}

/// Writes one archive for each binary, and SHA256SUMS; answers with what is in that.
fn write(
    out: &Path,
    binaries: &[(String, PathBuf)],
    files: &BTreeMap<String, Vec<u8>>,
) -> anyhow::Result<String> {
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let mut sums = String::new();
    for (platform, path) in binaries {
        let binary = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let folder = format!("convoy-{VERSION}-{}", platform.replace('/', "-"));
        let archive = archive(&folder, &binary, files)?;
        let name = format!("{folder}.tar.gz");
        let sum: String = Sha256::digest(&archive).iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(out.join(&name), archive).with_context(|| format!("writing {name}"))?;
        sums.push_str(&format!("{sum}  {name}\n"));
    }
    std::fs::write(out.join("SHA256SUMS"), &sums).context("writing SHA256SUMS")?;
    Ok(sums)
}

fn archive(folder: &str, binary: &[u8], files: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    let mut add = |path: &str, content: &[u8], mode: u32| -> anyhow::Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        let path = format!("{folder}/{path}");
        builder.append_data(&mut header, &path, content).with_context(|| format!("packing {path}"))
    };
    add("convoy", binary, 0o755)?;
    for (path, content) in files {
        add(path, content, 0o644)?;
    }
    let tar = builder.into_inner().context("packing")?;
    // No name and no time in the head.
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(&tar)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    use flate2::read::GzDecoder;

    use super::*;

    /// Stands for convoy: says what it is asked for, and writes one manual page.
    const STAND_IN: &str = r#"#!/bin/sh
case $1 in
completion) echo "completions for $2" ;;
manual) mkdir -p "$2" && echo .TH > "$2/convoy.1" ;;
esac
"#;

    #[test]
    fn an_archive_has_the_program_and_what_belongs_to_it_and_is_the_same_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, STAND_IN).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let binaries =
            [("linux/amd64".to_owned(), program.clone()), ("linux/arm64".to_owned(), program.clone())];
        let make = |name: &str| {
            let out = folder.path().join(name);
            let sums = write(&out, &binaries, &common(&program).unwrap()).unwrap();
            assert_eq!(std::fs::read_to_string(out.join("SHA256SUMS")).unwrap(), sums);
            sums
        };
        let sums = make("one");
        assert_eq!(make("other"), sums);
        assert_eq!(sums.lines().count(), 2);

        let name = format!("convoy-{VERSION}-linux-arm64");
        let archive = std::fs::read(folder.path().join("one").join(format!("{name}.tar.gz"))).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(&*archive));
        let mut found = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().strip_prefix(&name).unwrap().to_str().unwrap().to_owned();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            found.insert(path, (entry.header().mode().unwrap(), content));
        }
        let paths: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "CHANGELOG.md",
                "LICENSE",
                "README.md",
                "completions/_convoy",
                "completions/_convoy.ps1",
                "completions/convoy.bash",
                "completions/convoy.elv",
                "completions/convoy.fish",
                "convoy",
                "man/man1/convoy.1",
            ]
        );
        assert_eq!(found["convoy"], (0o755, STAND_IN.to_owned()));
        assert_eq!(found["completions/_convoy"], (0o644, "completions for zsh\n".to_owned()));
    }
}
