//! Helm charts without a process, a network or a file: chart + values + capabilities in,
//! manifests, hooks and notes out, as `helm template` of Helm 4 makes them.

pub mod functions;
