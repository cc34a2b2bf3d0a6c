//! A control group for the memory of one process, as a container has one.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Where the two versions of control groups are mounted, see cgroups(7), and the names of the files and fields that tell
/// what a group has in use and what of it is files' content that nobody used lately.
const MOUNTS: [Mount; 2] = [
    Mount {
        root: "/sys/fs/cgroup/memory",
        usage: "memory.usage_in_bytes",
        inactive_files: "total_inactive_file",
    },
    Mount { root: "/sys/fs/cgroup", usage: "memory.current", inactive_files: "inactive_file" },
];

/// Puts itself into the group of its first argument, takes a copy of its own of the program, forgets that copy's
/// content, so that whatever is read of it again counts for the group, and becomes it.
const BEGIN: &str = r#"#!/bin/sh
set -e
cp '{program}' '{copy}'
dd of='{copy}' oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null
echo $$ > '{group}/cgroup.procs'
exec '{copy}' "$@"
"#;

#[derive(Clone, Copy, Debug)]
struct Mount {
    root: &'static str,
    usage: &'static str,
    inactive_files: &'static str,
}

/// One group. Dropping it removes it, when its process has ended.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    mount: Mount,
}

impl MemoryGroup {
    /// Makes a group.
    ///
    /// # Errors
    /// When the memory controller is mounted nowhere, or groups may not be made.
    pub fn create(name: &str) -> io::Result<Self> {
        let is_there = |mount: &&Mount| Path::new(mount.root).join("cgroup.procs").exists();
        let mount = *MOUNTS.iter().find(is_there).ok_or_else(|| {
            io::Error::other(
                "control groups are mounted neither at /sys/fs/cgroup nor at /sys/fs/cgroup/memory",
            )
        })?;
        let folder = Path::new(mount.root).join(format!("convoy-{name}-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Self { folder, mount };
        group.working_set()?;
        Ok(group)
    }

    /// Writes a program that becomes `program` in this group. A copy is made beside it: as in a container on a node of its own,
    /// nobody else's use of the program counts.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn wrap(&self, program: &Path, into: &Path) -> io::Result<()> {
        let text = |path: &Path| path.display().to_string().replace('\'', r"'\''");
        let script = BEGIN
            .replace("{program}", &text(program))
            .replace("{copy}", &text(&into.with_extension("copy")))
            .replace("{group}", &text(&self.folder));
        fs::write(into, script)?;
        #[cfg(unix)]
        fs::set_permissions(into, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        Ok(())
    }

    /// What the group has in use without the content of files that were not used lately, in bytes: what Kubernetes shows as
    /// a container's memory, evicts pods by, and the metric `container_memory_working_set_bytes` holds
    /// (`setMemoryStats` of cAdvisor's container/libcontainer/handler.go).
    ///
    /// # Errors
    /// When the files of the group cannot be read.
    pub fn working_set(&self) -> io::Result<u64> {
        let number = |text: &str| text.trim().parse::<u64>().map_err(io::Error::other);
        let usage = number(&fs::read_to_string(self.folder.join(self.mount.usage))?)?;
        let statistics = fs::read_to_string(self.folder.join("memory.stat"))?;
        let inactive = field(&statistics, self.mount.inactive_files)
            .ok_or_else(|| io::Error::other(format!("memory.stat has no {}", self.mount.inactive_files)))?;
        Ok(usage.saturating_sub(number(inactive)?))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A group that still has a process stays, and is empty when that ends.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The value of a field of `memory.stat`.
fn field<'a>(statistics: &'a str, name: &str) -> Option<&'a str> {
    statistics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let statistics = "inactive_file_of_another 1\ninactive_file 4096\ntotal_inactive_file 8192\n";
        assert_eq!(field(statistics, "inactive_file"), Some("4096"));
        assert_eq!(field(statistics, "total_inactive_file"), Some("8192"));
        assert_eq!(field(statistics, "active_file"), None);
    }
}
