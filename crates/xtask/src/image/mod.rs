//! `cargo xtask image`: an image of convoy as an OCI layout, without a container engine.
//!
//! The same binary makes the same bytes: no time, no user and no order of a folder gets into it. The layout's index
//! lists one manifest for each platform, so that images of several platforms are one.

mod layer;
mod layout;
pub(crate) mod sbom;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::workspace;
use layout::Layout;

/// What to make.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the layout is written. Default: `image` in the target folder. What is there is replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A binary that is built already, for example `linux/arm64=FILE`; may be given for several platforms. Default: it is
    /// built for this one.
    #[arg(long, value_name = "PLATFORM=FILE", value_parser = platform_binary)]
    binary: Vec<(String, PathBuf)>,
    /// Without optimisation, from what `cargo build` has compiled already: to try the image, not to give it away.
    #[arg(long, conflicts_with = "binary")]
    dev: bool,
}

impl Arguments {
    /// For the tests, which only want some image.
    pub(crate) fn dev() -> Self {
        Self { out: None, binary: Vec::new(), dev: true }
    }
}

/// How the image is named in the layout.
const TAG: &str = env!("CARGO_PKG_VERSION");

/// Makes the image and its SBOM, and says where they are.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = workspace::target_dir()?;
    let out = arguments.out.clone().unwrap_or_else(|| target.join("image"));
    let binaries = binaries(&arguments.binary, arguments.dev, &target)?;
    let sbom = sbom::sbom()?;
    let digest = write(&out, &binaries, &sbom)?;
    println!("{}: {digest}", out.display());
    Ok(())
}

/// The binaries that are given, or else one that is built for this machine.
pub(crate) fn binaries(
    given: &[(String, PathBuf)],
    is_dev: bool,
    target: &Path,
) -> anyhow::Result<Vec<(String, PathBuf)>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let binary = if is_dev { link_dev(target)? } else { build(target)? };
    Ok(vec![(this_platform()?, binary)])
}

/// The platform of this machine, in the words of images.
pub(crate) fn this_platform() -> anyhow::Result<String> {
    Ok(format!("linux/{}", architecture()?))
}

/// Writes the layout of these binaries; answers with the digest of its index.
fn write(out: &Path, binaries: &[(String, PathBuf)], sbom: &[u8]) -> anyhow::Result<String> {
    let mut layout = Layout::create(out)?;
    for (platform, path) in binaries {
        let binary = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        ensure!(
            is_static(&binary)?,
            "{} is linked dynamically, and the image has no libraries: see `cargo xtask image --help`",
            path.display()
        );
        layout.add(platform, &layer::layer(&binary, sbom)?)?;
    }
    layout.finish(TAG, sbom)
}

/// Whether an ELF program asks for no interpreter (PT_INTERP), which loads libraries.
fn is_static(binary: &[u8]) -> anyhow::Result<bool> {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, bytes: usize| -> anyhow::Result<u64> {
        let field = binary.get(at..at + bytes).context("the program is cut off")?;
        Ok(field.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    };
    // 64 bits, little endian: the platforms that convoy is built for.
    ensure!(binary.starts_with(b"\x7fELF\x02\x01"), "it is no program of 64 bits for Linux");
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for entry in 0..count {
        if number(usize::try_from(table + entry * size)?, 4)? == u64::from(PT_INTERP) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Flags of rustc for a program that needs no library and, as without them (see `crates/convoy/build.rs`), stands at fixed
/// addresses.
const STATIC: [&str; 2] = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];

/// This machine's, in the words of images.
fn architecture() -> anyhow::Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("images are not made on {other}"),
    }
}

/// A static binary of this machine's platform: glibc's own, which needs no other toolchain. Nothing of this machine's folders
/// is in it.
pub(crate) fn build(target: &Path) -> anyhow::Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let root = workspace::root();
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let folders = [(root.as_path(), "/convoy"), (&cargo_home, "/cargo"), (target, "/target")];
    let map = |flag: &str| {
        let maps = folders.iter().map(|(from, to)| format!("{flag}={}={to}", from.display()));
        maps.collect::<Vec<_>>().join(" ")
    };
    let status = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"))
        .args(["build", "--package", "convoy", "--release", "--locked", "--target", &triple, "--target-dir"])
        .arg(target)
        .env("RUSTFLAGS", format!("{} {}", STATIC.join(" "), map("--remap-path-prefix")))
        .env("CFLAGS", map("-ffile-prefix-map"))
        .env("CARGO_INCREMENTAL", "0")
        .current_dir(&root)
        .status()
        .context("could not run cargo")?;
    ensure!(status.success(), "cargo build failed");
    Ok(target.join(triple).join("release/convoy"))
}

/// The program as `cargo build` makes it, but linked statically. It takes that one's place in the target folder until it is built
/// again.
fn link_dev(target: &Path) -> anyhow::Result<PathBuf> {
    let status = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"))
        .args(["rustc", "--quiet", "--package", "convoy", "--bin", "convoy", "--locked"])
        .arg("--")
        .args(STATIC)
        .current_dir(workspace::root())
        .status()
        .context("could not run cargo")?;
    ensure!(status.success(), "cargo rustc failed");
    Ok(target.join("debug/convoy"))
}

pub(crate) fn platform_binary(text: &str) -> Result<(String, PathBuf), String> {
    let (platform, file) = text.split_once('=').ok_or("it is not PLATFORM=FILE")?;
    match platform.split_once('/') {
        Some(("linux", architecture)) if !architecture.is_empty() => Ok((platform.to_owned(), file.into())),
        _ => Err("the platform is not like linux/amd64".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a program without, or with, an interpreter.
    fn program(interpreter: bool) -> Vec<u8> {
        let mut head = vec![0; 64 + 56];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (head[32], head[54], head[56]) = (64, 56, 1);
        head[64] = if interpreter { 3 } else { 1 };
        head
    }

    #[test]
    fn a_program_that_wants_libraries_is_told_from_one_that_does_not() {
        assert!(is_static(&program(false)).unwrap());
        assert!(!is_static(&program(true)).unwrap());
        assert!(is_static(b"#!/bin/sh\n").is_err());
        assert!(is_static(&program(false)[..50]).is_err());
    }

    #[test]
    fn two_images_of_the_same_binaries_are_identical_and_have_all_platforms() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("convoy");
        std::fs::write(&binary, program(false)).unwrap();
        let binaries = [("linux/amd64".to_owned(), binary.clone()), ("linux/arm64".to_owned(), binary)];
        let files = |name: &str| {
            let out = folder.path().join(name);
            write(&out, &binaries, b"{}").unwrap();
            let mut files = Vec::new();
            for sub in ["", "blobs/sha256"] {
                for entry in std::fs::read_dir(out.join(sub)).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_file() {
                        files.push((
                            path.strip_prefix(&out).unwrap().to_owned(),
                            std::fs::read(&path).unwrap(),
                        ));
                    }
                }
            }
            files.sort();
            files
        };
        let first = files("one");
        assert!(first == files("two"));
        let index = first.iter().find(|(path, _)| path == Path::new("index.json")).unwrap();
        let index: serde_json::Value = serde_json::from_slice(&index.1).unwrap();
        let image = index["manifests"][0]["digest"].as_str().unwrap().replace("sha256:", "blobs/sha256/");
        let image = first.iter().find(|(path, _)| path == Path::new(&image)).unwrap();
        let image: serde_json::Value = serde_json::from_slice(&image.1).unwrap();
        let platforms: Vec<&str> = image["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["platform"]["architecture"].as_str().unwrap())
            .collect();
        assert_eq!(platforms, ["amd64", "arm64"]);
    }
}
