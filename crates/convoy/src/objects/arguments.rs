//! The flags of the commands about convoy's objects. What a flag does is said here and nowhere else.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::{Connection, Output};

/// Print objects.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// What: a kind as kubectl takes it (releases, release, rel), several with commas, or all; then names; or
    /// KIND/NAME. Default: releases.
    #[arg(value_name = "KIND")]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// How it is printed.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Stay, and print what changes: on a terminal the table is drawn anew with how far all are, else a line for
    /// each change. Ctrl-C ends it.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Tell all about objects, for people.
#[derive(Debug, Args)]
pub(crate) struct Describe {
    /// Which: KIND NAME…, or KIND/NAME.
    #[arg(value_name = "KIND", required = true)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Ask for a look now, and wait for what it comes to.
#[derive(Debug, Args)]
pub(crate) struct Reconcile {
    /// Which: KIND NAME…, or KIND/NAME.
    #[arg(value_name = "KIND", required = true)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Of Releases: apply all objects anew, also those that are as they should be.
    #[arg(long)]
    pub(crate) force: bool,
    /// Of Releases: first have their source looked at, so that a new revision is found.
    #[arg(long)]
    pub(crate) with_source: bool,
    /// Do not wait.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long to wait for all of it.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(crate) timeout: convoy_api::Duration,
}

/// Suspend or resume objects.
#[derive(Debug, Args)]
pub(crate) struct Suspend {
    /// Which: KIND NAME…, or KIND/NAME.
    #[arg(value_name = "KIND", required = true)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Let go of what is on a target that is gone.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// What: release NAME, cluster NAME, or KIND/NAME.
    #[arg(value_name = "KIND", required = true)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// How long to wait until it is gone.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub(crate) timeout: convoy_api::Duration,
}

/// Print what the next delivery of a Release would do.
#[derive(Debug, Args)]
pub(crate) struct Preview {
    /// Name of the Release. Default: that of the Release in the file.
    #[arg(value_name = "RELEASE")]
    pub(crate) release: Option<String>,
    /// Preview the Release in this file, which is not saved; - is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: Option<PathBuf>,
    /// How it is printed; wide also shows what stays as it is, and the fields that would change.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Print how what would be applied of a Release differs from what is on its target.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Name of the Release.
    #[arg(value_name = "RELEASE")]
    pub(crate) release: String,
    /// How it is printed.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = DiffOutput::Unified)]
    pub(crate) output: DiffOutput,
    /// Compare what would be applied if the files of this folder, packaged chart or file of manifests were those of
    /// the Release's source. They are sent to the API server, and kept nowhere.
    #[arg(long, value_name = "PATH")]
    pub(crate) source: Option<PathBuf>,
    /// Print both sides beside each other, as wide as COLUMNS says.
    #[arg(long)]
    pub(crate) side_by_side: bool,
    /// Stay, and print what changes: on a terminal it is drawn anew, else each is a block of its own. Ctrl-C ends it.
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// How differences are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffOutput {
    /// As `diff -u` does.
    Unified,
    /// A line for each object.
    Summary,
    /// For a comment on a pull request.
    Markdown,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Print what was delivered of a Release.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// Name of the Release.
    #[arg(value_name = "RELEASE")]
    pub(crate) release: String,
    /// Print the manifests of this revision.
    #[arg(long, value_name = "N")]
    pub(crate) revision: Option<u32>,
    /// Print how this revision differs from that of --revision.
    #[arg(long, value_name = "N", requires = "revision")]
    pub(crate) to: Option<u32>,
    /// How it is printed. Default: a table, YAML documents, or a unified diff.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<DocumentOutput>,
    /// Stay, and print what changes: on a terminal it is drawn anew, else each is a block of its own. Ctrl-C ends it.
    #[arg(short, long, conflicts_with = "revision")]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Print how the objects of a Release are, and why.
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Name of the Release.
    #[arg(value_name = "RELEASE")]
    pub(crate) release: String,
    /// Also print the objects that are healthy.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// How it is printed. Default: a tree.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<DocumentOutput>,
    /// Stay, and print what changes, until it is healthy: on a terminal it is drawn anew, else each is a block of its
    /// own. Ctrl-C ends it.
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// How an answer is printed for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentOutput {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Which objects.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// In all namespaces.
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels, as app=web,tier!=db; instead of names.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
}
