//! The files of `examples/`, held in the binary so that the demo needs nothing but it.

/// One file of the examples, with its path from `examples/`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExampleFile {
    pub(crate) path: &'static str,
    pub(crate) content: &'static str,
}

macro_rules! example_files {
    ($($path:literal),+ $(,)?) => {
        &[$(ExampleFile { path: $path, content: include_str!(concat!("../../../../examples/", $path)) }),+]
    };
}

/// All files that become the demo's Git repository.
pub(crate) const FILES: &[ExampleFile] = example_files![
    "broken/Chart.yaml",
    "broken/templates/configmap.yaml",
    "broken/values.yaml",
    "library/00-namespace.yaml",
    "library/books.yaml",
    "library/crd.yaml",
    "library/server.yaml",
    "web/.helmignore",
    "web/Chart.yaml",
    "web/templates/NOTES.txt",
    "web/templates/_helpers.tpl",
    "web/templates/autoscaler.yaml",
    "web/templates/configmap.yaml",
    "web/templates/deployment.yaml",
    "web/templates/ingress.yaml",
    "web/templates/service.yaml",
    "web/values.yaml",
];

/// The convoy objects of the demo, as a user would apply them.
pub(crate) const FLEET: &str = include_str!("../../../../examples/fleet.yaml");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn files_below(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                files_below(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name);
            }
        }
    }

    #[test]
    fn every_example_file_of_the_source_is_in_the_binary() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let mut on_disk = BTreeSet::new();
        files_below(&root, "", &mut on_disk);
        for no_source in ["README.md", "fleet.yaml", "health-rules.yaml"] {
            on_disk.remove(no_source);
        }
        let in_binary: BTreeSet<String> = FILES.iter().map(|file| file.path.to_owned()).collect();
        assert_eq!(in_binary, on_disk);
    }
}
