/// How much one fetch may take. A repository over a limit is refused as a whole, by name of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that a server may send before the pack: its capabilities and references.
    pub max_advertisement_bytes: u64,
    /// Bytes of the pack that is downloaded.
    pub max_pack_bytes: u64,
    /// Bytes of a Helm repository's index.
    pub max_index_bytes: u64,
    /// Versions of all charts in a Helm repository's index.
    pub max_index_versions: usize,
    /// Bytes of an archive that is downloaded: a chart, a layer.
    pub max_archive_bytes: u64,
    /// Files of the tree, counted where symbolic links put them.
    pub max_files: usize,
    /// Bytes of one file.
    pub max_file_bytes: u64,
    /// Bytes of all files together, counted where symbolic links put them.
    pub max_total_bytes: u64,
    /// Nested folders.
    pub max_depth: usize,
    /// Submodules of one tree, those of submodules among them.
    pub max_submodules: usize,
    /// Submodules inside each other.
    pub max_submodule_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_advertisement_bytes: 32 << 20,
            max_pack_bytes: 512 << 20,
            max_index_bytes: 64 << 20,
            max_index_versions: 200_000,
            max_archive_bytes: 64 << 20,
            max_files: 50_000,
            max_file_bytes: 16 << 20,
            max_total_bytes: 256 << 20,
            max_depth: 64,
            max_submodules: 64,
            max_submodule_depth: 8,
        }
    }
}
