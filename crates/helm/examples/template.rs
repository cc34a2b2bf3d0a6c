//! `helm template`, as far as its flags are those of [`convoy_helm::TemplateFlags`]: for comparing with Helm.

use convoy_helm::{
    Chart, Entropy, Environment, HelmVersion, LoadError, TemplateError, TemplateFlags, template,
};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Good enough for trying: not for secrets.
struct Hashes(std::collections::hash_map::RandomState, u64);

impl Entropy for Hashes {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.1 += 1;
            *byte = std::hash::BuildHasher::hash_one(&self.0, self.1) as u8;
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(output) => {
            let _ = std::io::stdout().write_all(&output);
            ExitCode::SUCCESS
        }
        Err(text) => {
            let _ = writeln!(std::io::stderr(), "Error: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Vec<u8>, String> {
    let mut flags = TemplateFlags::default();
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1).flat_map(|argument| match argument.split_once('=') {
        Some((flag, value)) if flag.starts_with("--") => vec![flag.to_owned(), value.to_owned()],
        _ => vec![argument],
    });
    while let Some(argument) = arguments.next() {
        let mut next = || arguments.next().ok_or_else(|| format!("flag needs an argument: {argument}"));
        match argument.as_str() {
            "-f" | "--values" => flags.values.push(next()?),
            "--set" => flags.set.push(next()?),
            "--set-string" => flags.set_string.push(next()?),
            "--set-file" => flags.set_file.push(next()?),
            "--set-json" => flags.set_json.push(next()?),
            "--set-literal" => flags.set_literal.push(next()?),
            "-s" | "--show-only" => flags.show_only.push(next()?),
            "-a" | "--api-versions" => flags.api_versions.extend(next()?.split(',').map(str::to_owned)),
            "--kube-version" => flags.kube_version = Some(next()?),
            "-n" | "--namespace" => flags.namespace = Some(next()?),
            "--name-template" => flags.name_template = Some(next()?),
            "--helm-version" => flags.helm = next()?.parse().map_err(|error| format!("{error}"))?,
            "--generate-name" => {}
            "--include-crds" => flags.include_crds = true,
            "--is-upgrade" => flags.is_upgrade = true,
            "--no-hooks" => flags.no_hooks = true,
            "--skip-tests" => flags.skip_tests = true,
            "--skip-schema-validation" => flags.skip_schema_validation = true,
            flag if flag.starts_with('-') => return Err(format!("unknown flag: {flag}")),
            _ => names.push(argument),
        }
    }
    let (name, chart) = match names.as_slice() {
        [name, chart] => (Some(name.as_str()), chart.clone()),
        [chart] => (None, chart.clone()),
        _ => return Err("expected NAME and CHART".to_owned()),
    };
    let since = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as i128);
    let now = jiff::Timestamp::from_nanosecond(since).unwrap_or_default();
    let mut environment = Environment::new(now, Hashes(std::collections::hash_map::RandomState::new(), 0));
    let mut read =
        |name: &str| std::fs::read(name).map_err(|_| format!("open {name}: no such file or directory"));
    let helm = flags.helm;
    let load = || load(Path::new(&chart), helm);
    let name = flags.release_name(name, &mut environment).map_err(|error| error.to_string())?;
    template(&name, &flags, &mut read, load, &mut environment).map_err(|error: TemplateError| {
        let hint =
            if error.has_debug_hint() { "\n\nUse --debug flag to render out invalid YAML" } else { "" };
        format!("{error}{hint}")
    })
}

fn load(path: &Path, helm: HelmVersion) -> Result<Chart, LoadError> {
    if path.is_file() {
        return Chart::load_archive_for(&std::fs::read(path).unwrap_or_default(), helm);
    }
    let mut files = Vec::new();
    walk(path, "", &mut files);
    Chart::load_for(files, helm)
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            walk(&entry.path(), &format!("{name}/"), files);
        } else if let Ok(data) = std::fs::read(entry.path()) {
            files.push((name, data));
        }
    }
}
