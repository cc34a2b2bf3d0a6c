//! `cargo xtask kubernetes`: a real Kubernetes control plane for tests, built from Go modules.
//!
//! The modules and their checksums are in `tools/<module>/go.{mod,sum}`; the programs go to
//! `target/kubernetes/bin/`. A program is built again when its module files, its package or its
//! linker flags changed; what it was built from is kept beside it in `<program>.stamp`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use crate::workspace;

/// What to build.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print the folder of the programs and build nothing.
    #[arg(long)]
    print_path: bool,
    /// Build only these programs.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(PROGRAMS.iter().map(|program| program.name)))]
    programs: Vec<String>,
}

struct Program {
    name: &'static str,
    /// The folder under `tools/` whose go.mod says which version.
    module: &'static str,
    package: &'static str,
    /// The modules whose versions the program prints, and the variables that take them.
    versions: &'static [Version],
}

struct Version {
    module: &'static str,
    variables: &'static [(&'static str, VersionPart)],
}

#[derive(Clone, Copy)]
enum VersionPart {
    Whole,
    Major,
    Minor,
    /// Version 0.37 of its libraries belongs to Kubernetes 1.37.
    MajorOfKubernetes,
}

const KUBERNETES_VERSION: Version = Version {
    module: "k8s.io/kubernetes",
    variables: &[
        ("k8s.io/component-base/version.gitVersion", VersionPart::Whole),
        ("k8s.io/component-base/version.gitMajor", VersionPart::Major),
        ("k8s.io/component-base/version.gitMinor", VersionPart::Minor),
        ("k8s.io/client-go/pkg/version.gitVersion", VersionPart::Whole),
    ],
};

const PROGRAMS: &[Program] = &[
    Program { name: "etcd", module: "kubernetes", package: "go.etcd.io/etcd/server/v3", versions: &[] },
    Program {
        name: "kube-apiserver",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        versions: &[KUBERNETES_VERSION],
    },
    Program {
        name: "kube-controller-manager",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        versions: &[KUBERNETES_VERSION],
    },
    Program {
        name: "kubectl",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kubectl",
        versions: &[KUBERNETES_VERSION],
    },
    Program { name: "kwok", module: "kwok", package: "sigs.k8s.io/kwok/cmd/kwok", versions: &[] },
    Program {
        name: "helm",
        module: "helm",
        package: "helm.sh/helm/v4/cmd/helm",
        versions: &[Version {
            module: "helm.sh/helm/v4",
            variables: &[("helm.sh/helm/v4/internal/version.version", VersionPart::Whole)],
        }],
    },
    // The same, answering one command after the other: for `cargo xtask helm-diff`.
    Program {
        name: "helm-resident",
        module: "helm",
        package: "./resident",
        versions: &[Version {
            module: "helm.sh/helm/v4",
            variables: &[("helm.sh/helm/v4/internal/version.version", VersionPart::Whole)],
        }],
    },
    Program {
        name: "helm3",
        module: "helm3",
        package: "helm.sh/helm/v3/cmd/helm",
        versions: &[
            Version {
                module: "helm.sh/helm/v3",
                variables: &[("helm.sh/helm/v3/internal/version.version", VersionPart::Whole)],
            },
            // As its Makefile does: without it charts would see Kubernetes 1.20.
            Version {
                module: "k8s.io/client-go",
                variables: &[
                    ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor", VersionPart::MajorOfKubernetes),
                    ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor", VersionPart::Minor),
                    ("helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor", VersionPart::MajorOfKubernetes),
                    ("helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor", VersionPart::Minor),
                ],
            },
        ],
    },
    // An OCI registry. Its own command would bring the clients of three cloud providers.
    Program { name: "registry", module: "distribution", package: ".", versions: &[] },
    // An S3 server, for the render store.
    Program {
        name: "versitygw",
        module: "versitygw",
        package: "github.com/versity/versitygw/cmd/versitygw",
        versions: &[],
    },
];

/// The folder of the programs.
pub(crate) fn bin_dir() -> anyhow::Result<PathBuf> {
    Ok(workspace::target_dir()?.join("kubernetes").join("bin"))
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let bin = bin_dir()?;
    if arguments.print_path {
        println!("{}", bin.display());
        return Ok(());
    }
    let chosen = |program: &Program| {
        arguments.programs.is_empty() || arguments.programs.iter().any(|name| name == program.name)
    };
    build_chosen(&bin, chosen)
}

/// Builds every program that is not up to date.
pub(crate) fn build_all() -> anyhow::Result<()> {
    build_chosen(&bin_dir()?, |_| true)
}

/// Builds these programs, where they are not up to date.
pub(crate) fn build_named(names: &[&str]) -> anyhow::Result<()> {
    build_chosen(&bin_dir()?, |program| names.contains(&program.name))
}

fn build_chosen(bin: &Path, chosen: impl Fn(&Program) -> bool) -> anyhow::Result<()> {
    fs::create_dir_all(bin).with_context(|| format!("could not create {}", bin.display()))?;
    PROGRAMS.iter().filter(|program| chosen(program)).try_for_each(|program| build(program, bin))
}

fn build(program: &Program, bin: &Path) -> anyhow::Result<()> {
    let module = workspace::root().join("tools").join(program.module);
    let go_mod = read(&module.join("go.mod"))?;
    let go_sum = read(&module.join("go.sum"))?;
    let flags = linker_flags(program, &go_mod)?;

    // Programs of our own are a main.go beside the module files.
    let main = module.join(program.package).join("main.go");
    let own = if program.package.starts_with('.') { read(&main)? } else { String::new() };
    let stamp = hex(&Sha256::digest([program.package, &flags, &go_mod, &go_sum, &own].join("\0")));
    let stamp_file = bin.join(format!("{}.stamp", program.name));
    let output = bin.join(program.name);
    if output.is_file() && fs::read_to_string(&stamp_file).is_ok_and(|known| known == stamp) {
        println!("{}: up to date", program.name);
        return Ok(());
    }

    println!("{}: building {} (the first time takes minutes)", program.name, program.package);
    let unfinished = bin.join(format!(".{}.{}", program.name, std::process::id()));
    let status = workspace::program("nice")
        .args(["go", "build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", &flags, "-o"])
        .arg(&unfinished)
        .arg(program.package)
        .current_dir(&module)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env_remove("GOFLAGS")
        .status();
    match status {
        // `nice` and `env` answer 127 when the program they should run is not there.
        Ok(status) if status.code() == Some(127) => bail!(MISSING_GO),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(MISSING_GO),
        Err(error) => return Err(error).context("could not run go build"),
        Ok(status) => {
            ensure!(status.success(), "go build of {} in {} failed", program.package, module.display());
        }
    }
    fs::rename(&unfinished, &output)?;
    fs::write(&stamp_file, stamp)?;
    Ok(())
}

const MISSING_GO: &str = "Go was not found on PATH; the real Kubernetes programs are built from Go modules. \
     Install Go 1.26 (https://go.dev/dl/) and run `cargo xtask kubernetes` again; \
     without it the tests against real Kubernetes are left out";

fn linker_flags(program: &Program, go_mod: &str) -> anyhow::Result<String> {
    let mut flags = String::from("-s -w");
    for version in program.versions {
        let number = required_version(go_mod, version.module).with_context(|| {
            format!("tools/{}/go.mod does not require {}", program.module, version.module)
        })?;
        let mut parts = number.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        for (variable, part) in version.variables {
            let value = match part {
                VersionPart::Whole => number.to_owned(),
                VersionPart::Major => major.to_owned(),
                VersionPart::Minor => minor.to_owned(),
                VersionPart::MajorOfKubernetes => (major.parse::<u32>().unwrap_or_default() + 1).to_string(),
            };
            flags.push_str(&format!(" -X {variable}={value}"));
        }
    }
    Ok(flags)
}

/// The version in the line `<module> v…` of a go.mod.
fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next()).flatten().filter(|word| word.starts_with('v'))
    })
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_either_form_of_require() {
        let go_mod = "module m\n\nrequire a.io/b v1.2.3\n\nrequire (\n\tc.io/d v0.8.0\n)\nreplace c.io/d => c.io/d v9\n";
        assert_eq!(required_version(go_mod, "a.io/b"), Some("v1.2.3"));
        assert_eq!(required_version(go_mod, "c.io/d"), Some("v0.8.0"));
        assert_eq!(required_version(go_mod, "e.io/f"), None);
    }

    #[test]
    fn every_program_names_a_version_that_its_module_requires() {
        for program in PROGRAMS {
            let go_mod = read(&workspace::root().join("tools").join(program.module).join("go.mod")).unwrap();
            let flags = linker_flags(program, &go_mod).unwrap();
            assert_eq!(flags.contains("-X "), !program.versions.is_empty(), "{}", program.name);
        }
    }
}
