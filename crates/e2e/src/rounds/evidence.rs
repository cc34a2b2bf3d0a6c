//! What the audit logs say.

use std::path::Path;
use std::time::Duration;

use convoy_testkit::audit::{AuditReader, Write};
use convoy_testkit::writers::{Terms, count_between, overlaps};
use jiff::Timestamp;

use super::{LOOK_ALLOWANCE, Round};
use crate::fleet::{Fleet, Part, shard_of};

/// All writes so far.
#[derive(Debug)]
pub struct Evidence {
    readers: [AuditReader; 2],
    host: Vec<Write>,
    targets: Vec<Write>,
}

impl Evidence {
    /// The logs in a fleet's folder.
    pub fn of(folder: &Path) -> Self {
        let reader = |name: &str| AuditReader::new(&folder.join(name));
        Self {
            readers: [reader("host-audit.log"), reader("target-audit.log")],
            host: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// One that goes on from here by itself.
    pub(super) fn continued(&self) -> Self {
        Self { readers: self.readers.clone(), host: Vec::new(), targets: Vec::new() }
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub fn read(&mut self) -> anyhow::Result<()> {
        let [host, targets] = &mut self.readers;
        self.host.extend(host.read()?);
        // Not the checker's own requests, which come from no replica.
        self.targets.extend(targets.read()?.into_iter().filter(|write| !write.sender.replica.is_empty()));
        Ok(())
    }

    /// How many writes to targets began since then.
    pub fn target_writes_since(&self, from: Timestamp) -> usize {
        count_between(&self.targets, from, Timestamp::MAX)
    }

    /// When a cluster was first written to after a fault by a replica that was not hit, or that has come
    /// back: any that writes later than what was under way.
    pub(super) fn first_write_after(
        &self,
        cluster: &str,
        after: Timestamp,
        hit: &str,
        may_return: bool,
    ) -> Option<Timestamp> {
        let grace = Duration::from_millis(300);
        let is_new = |write: &&Write| {
            let is_late = write.began > after && write.began.duration_since(after).unsigned_abs() > grace;
            write.cluster == cluster
                && write.began > after
                && (write.sender.replica != hit || may_return && is_late)
        };
        self.targets.iter().filter(is_new).map(|write| write.began).min()
    }

    /// Judges all writes since `from`.
    pub(super) fn judge(&mut self, fleet: &Fleet, from: Timestamp, round: &mut Round) -> anyhow::Result<()> {
        self.read()?;
        let since = |writes: &[Write]| -> Vec<Write> {
            writes.iter().filter(|write| write.began >= from).cloned().collect()
        };
        let targets = since(&self.targets);
        let mut found: Vec<String> = overlaps(&targets)
            .iter()
            .map(|(earlier, later)| format!("two writers of one cluster: {earlier}; {later}"))
            .collect();
        let clusters_of = |write: &Write| Some(shard_of(&write.cluster));
        let strays = Terms::of(&self.host, Part::ControllerManager.prefix()).strays(&targets, clusters_of);
        found.extend(strays.iter().map(ToString::to_string));
        // The host refuses what is out of date; only what it took can do harm.
        let host: Vec<Write> = since(&self.host).into_iter().filter(Write::is_done).collect();
        for part in Part::ALL {
            let of_part: Vec<Write> =
                host.iter().filter(|write| write.sender.process == part.command()).cloned().collect();
            let terms = Terms::of(&self.host, part.prefix());
            found.extend(
                terms.strays(&of_part, |write| host_shard(fleet, write)).iter().map(ToString::to_string),
            );
        }
        round.overlaps = found.len();
        round.violations.extend(found);

        let bound = fleet.timing().bound() + LOOK_ALLOWANCE;
        for part in Part::ALL {
            let Some((gap, shard)) = fleet.leases(part, |leases| leases.longest_gap(from)) else { continue };
            round.longest_gap = round.longest_gap.max(gap);
            if gap > bound {
                let (part, seconds) = (part.command(), gap.as_secs_f64());
                round.violations.push(format!("{part}: nobody renewed shard {shard} for {seconds:.1} s"));
            }
        }
        Ok(())
    }
}

/// Which shard a write to the host needs; none when it needs none.
fn host_shard(fleet: &Fleet, write: &Write) -> Option<u32> {
    let kind = write.resource.split('/').next().unwrap_or_default();
    match kind {
        "clusters" | "gitrepositories" if !write.name.is_empty() => Some(shard_of(&write.name)),
        // `<release>.<cluster>` and `<release>.<cluster>.<part>`; a create has no name in the log.
        "releaseinventories" => Some(shard_of(write.name.split('.').nth(1)?)),
        "releases" => {
            let number: usize = write.name.strip_prefix("app-")?.parse().ok()?;
            let target = fleet.targets.get(number % fleet.targets.len().max(1))?;
            Some(shard_of(&target.name))
        }
        _ => None,
    }
}
