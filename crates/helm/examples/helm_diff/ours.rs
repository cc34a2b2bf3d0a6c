//! The same by this crate, in this process.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_helm::{Chart, Entropy, Environment, HelmVersion, LoadError, TemplateFlags, Values, template};

use crate::oracle::Printed;

/// Good enough for comparing: not for secrets.
struct Hashes(std::collections::hash_map::RandomState, u64);

impl Entropy for Hashes {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.1 += 1;
            *byte = std::hash::BuildHasher::hash_one(&self.0, self.1) as u8;
        }
    }
}

/// A chart, loaded once for all its variants.
pub(crate) struct Loaded {
    chart: Result<Chart, Arc<LoadError>>,
    files: Vec<(String, Vec<u8>)>,
    helm: HelmVersion,
}

impl Loaded {
    pub(crate) fn new(folder: &Path, helm: HelmVersion) -> Self {
        let mut files = Vec::new();
        walk(folder, "", &mut files);
        Self { chart: load(&files, helm).map_err(Arc::new), files, helm }
    }

    /// values.yaml, when it can be read.
    pub(crate) fn values(&self) -> Option<&Values> {
        self.chart.as_ref().ok().map(|chart| &chart.values)
    }

    /// `helm template rel CHART` with flags.
    pub(crate) fn run(&self, flags: &TemplateFlags) -> (Printed, Duration) {
        let since = Instant::now();
        let rendered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.render(flags)));
        let took = since.elapsed();
        let printed = match rendered {
            Ok(Ok(out)) => Printed { ok: true, out, error: String::new() },
            Ok(Err(error)) => Printed { ok: false, out: Vec::new(), error },
            Err(_) => Printed { ok: false, out: Vec::new(), error: "PANIC".to_owned() },
        };
        (printed, took)
    }

    fn render(&self, flags: &TemplateFlags) -> Result<Vec<u8>, String> {
        let mut environment = Environment::new(
            jiff::Timestamp::now(),
            Hashes(std::collections::hash_map::RandomState::new(), 0),
        );
        let mut read =
            |name: &str| std::fs::read(name).map_err(|_| format!("open {name}: no such file or directory"));
        let load = || match &self.chart {
            Ok(chart) => Ok(chart.clone()),
            // An error cannot be copied: it is made anew.
            Err(_) => load(&self.files, self.helm),
        };
        let flags = &TemplateFlags { helm: self.helm, ..flags.clone() };
        template("rel", flags, &mut read, load, &mut environment).map_err(|error| {
            let hint =
                if error.has_debug_hint() { "\n\nUse --debug flag to render out invalid YAML" } else { "" };
            format!("Error: {error}{hint}\n")
        })
    }
}

fn load(files: &[(String, Vec<u8>)], helm: HelmVersion) -> Result<Chart, LoadError> {
    Chart::load_for(files.iter().map(|(name, data)| (name.clone(), data.as_slice())), helm)
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
