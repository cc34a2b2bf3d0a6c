//! Which folders are charts.

use std::path::{Path, PathBuf};

const MAX_DEPTH: usize = 16;

/// Every folder with a Chart.yaml below `folder`, in order; what stands inside of a chart is part of it.
pub(crate) fn find(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    walk(folder, 0, &mut found).map_err(|error| format!("{}: {error}", folder.display()))?;
    found.sort();
    Ok(found)
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let is_chart = folder.join("Chart.yaml").is_file();
    if is_chart {
        found.push(folder.to_path_buf());
    }
    if depth == MAX_DEPTH {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_part = is_chart && (name == "charts" || name == "templates");
        if entry.file_type()?.is_dir() && !is_part && name != ".git" {
            walk(&entry.path(), depth + 1, found)?;
        }
    }
    Ok(())
}
