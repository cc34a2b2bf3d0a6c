//! Helm charts without a process, a network or a file: chart + values + capabilities in, manifests, hooks and
//! notes out, as Helm 4.2 makes them, or Helm 3.22 for a chart that is loaded for that.
//!
//! - [`Chart::load`] reads a chart from files in memory; it can be kept and shared by threads.
//! - [`render`] makes a [`Rendered`] of it for one release and one target.
//! - [`template`] does what `helm template` does with its flags and returns the bytes that it prints.
//!
//! Nothing here knows the time, draws a random number or asks a cluster: functions that do in Helm take it
//! from the environment that the caller passes.

#![warn(missing_docs)]

mod archive;
mod capabilities;
mod chart;
mod chart_struct;
mod coalesce;
mod content;
mod exec_text;
mod files;
pub mod functions;
mod glob;
mod ignore;
mod lint;
mod loose;
mod manifest;
mod metadata;
mod parsed;
mod path_match;
mod render;
mod schema;
pub mod semver;
mod show;
mod strvals;
mod template;
mod tree;
mod values;
mod version;
mod watch;

pub use archive::{ArchiveError, read as read_archive};
pub use capabilities::{Capabilities, KubeVersion, KubeVersionError};
pub use chart::{Chart, File, LoadError};
pub use coalesce::TypeMismatch;
pub use content::Content;
pub use convoy_gotemplate::{Limit, Limits, Str};
pub use functions::{Entropy, Environment};
pub use ignore::{IgnoreError, IgnoreRules};
pub use lint::{LintChart, LintMessage, LintOptions, Severity, lint};
pub use loose::TypedError;
pub use manifest::{Hook, HookEvent, Manifest, ManifestError};
pub use metadata::{Dependency, ImportValues, Maintainer, Metadata, MetadataError};
pub use render::{ReleaseOptions, RenderError, Rendered, render};
pub use schema::SchemaError;
pub use show::{Part, show};
pub use strvals::{SetError, set_text};
pub use template::{
    TemplateError, TemplateFlags, check_installable, check_name, output_files, template, template_rendered,
};
pub use values::{Data, Values, ValuesError, lay_over, read_values};
pub use version::{HelmVersion, HelmVersionError};
