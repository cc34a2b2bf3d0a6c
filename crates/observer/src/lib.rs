//! Watches target clusters: the health of what was delivered, and drift.
//!
//! For each Cluster that Releases have delivered to, the observer watches the kinds that their
//! inventories name, one watch for each kind, and no other object than convoy's own (by the label
//! `app.kubernetes.io/managed-by: convoy`). Of each object it keeps a few words: its uid, its version, its
//! health, and a digest of the fields that convoy owns ([`Seen`](seen::Seen)).
//!
//! What it finds goes into the Release's status, under the field manager `convoy-observer`: the conditions
//! Healthy and Drifted, `healthyObjects`, and `observedBundleDigest`, which tells what the conditions speak
//! of. The controller-manager watches Releases and acts on them.
//!
//! It watches the clusters of its own shards alone. A gained shard is looked at first
//! ([`LookedShards`](convoy_runtime::LookedShards)); of a lost one, connections, watches and models are
//! dropped. Releases whose shard no controller-manager holds are not Ready, and the observer says so.
//!
//! | module | what it is |
//! |---|---|
//! | `seen` | one live object in a few words; pure |
//! | `owned` | the fields of an object that convoy owns, to tell whether and where they changed; pure |
//! | `model` | all that is known of one cluster: inventories, objects, watches; pure |
//! | `verdict` | from the model to what a status says of one Release; pure |
//! | `fault` | why a kind cannot be watched, in words that quote no object; pure |
//! | `cluster_status` | what of a cluster cannot be watched, in its Cluster's condition `Observed` |
//! | `rule_sets` | whether the rules of HealthRuleSets are in force |
//! | `status` | from a verdict to the fields to write, or nothing when they stand there already; pure |
//! | `missing` | shards that no controller-manager holds |
//! | `watches` | one watch of one kind |
//! | `clusters` | clients and watches of all clusters |
//! | `answers` | what the apiserver asks about a Release: preview, diff, history, health |
//! | `run` | stores of convoy's own kinds, queues, and writing status |

mod answers;
mod cluster_status;
mod clusters;
mod fault;
mod missing;
mod model;
mod owned;
mod rule_sets;
mod run;
mod seen;
mod status;
mod verdict;
mod watches;

pub use answers::Serving;
pub use missing::ControllerLeases;
pub use run::{ObserverOptions, run};
