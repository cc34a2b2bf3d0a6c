//! The flags of the commands about convoy's objects. What a flag does is said here and nowhere else.

use std::path::PathBuf;

use clap::Args;

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
