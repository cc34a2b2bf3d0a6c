//! Deterministic simulation: replicas of controller-manager and observer on a simulated API server,
//! simulated clocks and a simulated network, with faults drawn from a seed.
//!
//! One seed is one run, and the same run each time. Real parts: the lease driver
//! (`convoy_runtime::leases::drive` with `convoy_shard::Protocol` in it), the table of owned shards with its
//! guards (`convoy_runtime::Shards`), the queue (`convoy_runtime::Queue`), and the client that writes to targets
//! (`convoy_apply::Target`, over its `Transport`). Simulated: the API server (`hub`), targets (`target`), the
//! network (`net`), clocks (`time`), and what a controller does with an object (`work`): it looks, writes its
//! inventory ahead, writes and prunes objects, and then the status. `WorkQueue::run` and `HostWriter` are not in
//! it, because they need tokio's threads and HTTP; `work` takes their steps in the same order.
//!
//! A run has a time of faults, then all is healed, then everything has to be as it should (`quiet`).
//! `check` says which invariants are checked and how.
//!
//! # Fault cases
//!
//! Each run draws some of these, and how often they happen. Runs draw 1 to 40 replicas, 1 to 64 shards, one
//! process kind or both, clock rates, ids that stay or change, both assignments, with and without
//! `--release-member-on-exit`.
//!
//! | case | what the simulation does |
//! |---|---|
//! | 1 kill | a process ends at once, at any time; another starts up to 90 s later |
//! | 2 planned stop | a process is told to stop, whatever it writes; killed after 30 s |
//! | 3 planned stop that fails | as 2, while the API server does not get its requests |
//! | 4 rolling restart | as 2, one process after the other; ids stay or change by run |
//! | 5 all restart at once | all are killed within 2 s; a run may also start that way |
//! | 6 pause | 5 to 301 s, also right between the check of ownership and the sending of a write |
//! | 7 long pause | 310 to 420 s: the member lease is collected meanwhile |
//! | 8 suspend | boottime goes on, the monotonic clock stands |
//! | 9 clocks | the wall clock is set by an hour or some seconds, stands, or runs at double rate; rates of whole runs differ by up to 1.2, or by 0.8 to 1.25 |
//! | 10 cut from the API server | both ways, targets can be reached |
//! | 11 cut from targets | or slow, failing and silent targets |
//! | 12 one-way cut | requests arrive and answers do not, or the other way; or writes that need ownership arrive up to 60 s late, also after they were given up |
//! | 13 API server in trouble | answers after up to 60 s twice, errors, lost answers, all of them; which of 429, 500, 503, reset or GOAWAY it is makes no difference to a lease driver that knows "failed" alone |
//! | 14 conflicts | leases in use are written by others, unchanged |
//! | 15, 16 deleted leases | one, or all |
//! | 17 edited leases | no holder, another one, durations 0, 1 and 2^31, renewTime in the year 9999 or none, transitions 0 (negative ones are read as that), no boot id |
//! | 18 forged members | up to 300, with and without annotations, that claim to last 30 s, 300 s or 2^31 s; names that no replica writes |
//! | 19 twin | a second process with the id of one that runs |
//! | 20 other `--shards` | one process, or all one after the other; also another assignment |
//! | 21 more replicas | one comes for a while; more replicas than shards by draw |
//! | 22 flapping | one replica dies each 25 to 35 s |
//! | 23 watches | late by up to 120 s, or with lost events and a new list afterwards |
//! | 24 lagging cache | lists of leases from up to 120 s ago |
//! | 25 restore | the API server answers nobody for 3 to 30 s, then is as it was up to 10 minutes before, its revision too; nobody starts replicas for a lease duration, and those that hear nothing are ended |
//! | 26 etcd in trouble | writes fail and reads do not, or all fail |
//! | 27 labels | the shard's label is wrong, out of range or missing, until the API server repairs it |
//! | 28 drift | delivered objects are changed, deleted, or made anew with another uid |
//! | 29 slow work | a write takes up to 4 s, and a Release has up to 60 objects: longer than a lease |
//! | 30 blocked threads | the work stands still and the lease driver does not |
//! | 31 poison | work on one Release kills its process, wherever it is |
//! | 32 expired token | one process's requests are refused |
//! | 33 other versions | a process with other lease times; members without annotations are in 18 |
//! | 34 A, B and A again | a pause longer than a lease during slow work, then one of the next owner |

#![warn(missing_docs)]

mod check;
mod faults;
mod hub;
mod net;
mod plan;
mod process;
mod quiet;
mod rng;
mod run;
mod schedule;
mod states;
mod stats;
mod target;
mod time;
mod work;
mod world;

pub use plan::Options;
pub use run::{Outcome, run};
pub use stats::{CASES, Stats};
