//! The points at which a delivery is interrupted, times the faults.

use std::collections::BTreeMap;

use super::proxy::{Fault, Write};
use super::world::{Cell, Stage};

/// The three things that happen to a Release.
pub const STAGES: &[Stage] = &[Stage::Install, Stage::Upgrade, Stage::Delete];
/// Of equal writes one after another so many are spoiled, each in runs of its own: the first, the last, and some in
/// between.
const OF_A_KIND: usize = 3;

/// The writes of a stage that are worth spoiling: of each kind the first, the last, and one in between.
pub fn points(writes: &[Write]) -> Vec<usize> {
    let mut kinds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, write) in writes.iter().enumerate() {
        kinds.entry(write.kind()).or_default().push(number);
    }
    let chosen = kinds.into_values().flat_map(|numbers| {
        let last = numbers.len() - 1;
        let mut places: Vec<usize> = (0..OF_A_KIND).map(|part| part * last / (OF_A_KIND - 1)).collect();
        places.dedup();
        places.into_iter().map(move |place| numbers[place])
    });
    let mut chosen: Vec<usize> = chosen.collect();
    chosen.sort_unstable();
    chosen
}

/// All cells of a stage, whose writes in an undisturbed run are given.
pub fn cells(size: usize, stage: Stage, writes: &[Write]) -> Vec<Cell> {
    let mut all = Vec::new();
    for at in points(writes) {
        let faults = writes.get(at).map_or(&[][..], |write| Fault::all(write.side));
        for (number, &fault) in faults.iter().enumerate() {
            // Each point with both, each fault with both.
            let is_shared = (at + number) % 2 == 1;
            let cell = Cell { size, stage, at, fault: Some(fault), is_shared, is_overtaken: false };
            all.push(cell);
            if fault.kills() && stage != Stage::Delete {
                all.push(Cell { is_overtaken: true, ..cell });
            }
        }
    }
    all
}

/// So many of the cells, spread evenly; all when there are fewer.
pub fn sample(cells: Vec<Cell>, count: usize) -> Vec<Cell> {
    let all = cells.len();
    if count >= all {
        return cells;
    }
    (0..count).map(|number| cells[number * all / count]).collect()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::crash::proxy::Side;

    fn write(side: Side, path: &str) -> Write {
        Write { side, method: Method::PATCH, path: path.to_owned(), status: None }
    }

    #[test]
    fn of_many_equal_writes_the_first_the_last_and_one_between_are_points() {
        let map =
            |number: usize| write(Side::Target, &format!("/api/v1/namespaces/a/configmaps/map-{number}"));
        let status = write(Side::Host, "/apis/convoy.kumodo.io/v1alpha1/namespaces/a/releases/web/status");
        let mut writes = vec![status.clone()];
        writes.extend((0..9).map(map));
        writes.push(status);
        assert_eq!(points(&writes), [0, 1, 5, 9, 10]);
        assert_eq!(writes[0].kind(), "host patch releases/status");
        assert_eq!(writes[1].kind(), "target patch configmaps");
        assert_eq!(write(Side::Target, "/api/v1/namespaces/a").kind(), "target patch namespaces");
    }

    #[test]
    fn a_sample_is_spread_over_all() {
        let writes = [write(Side::Target, "/api/v1/namespaces/a/configmaps/b")];
        let all = cells(1, Stage::Install, &writes);
        assert_eq!(all.len(), Fault::all(Side::Target).len() + 3);
        let some = sample(all.clone(), 2);
        assert_eq!(some, [all[0], all[8]]);
        assert_eq!(sample(all.clone(), 99), all);
    }
}
