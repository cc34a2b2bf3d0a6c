//! The points at which a delivery is interrupted, times the faults.

use std::collections::{BTreeMap, BTreeSet};

use super::script::{Fault, Step};
use super::world::{Cell, Stage};

/// The three things that happen to a Release.
pub const STAGES: &[Stage] = &[Stage::Install, Stage::Upgrade, Stage::Delete];
/// Of equal steps so many are spoiled, each in runs of its own: the first, the last, and some in between.
const OF_A_KIND: usize = 3;

/// The steps of a stage that are worth spoiling: of each kind the first, the last, and one in between.
pub fn points(steps: &[Step]) -> Vec<usize> {
    let mut kinds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        kinds.entry(step.kind()).or_default().push(number);
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

/// All cells of a stage, whose steps in an undisturbed run are given, with as many seeds as are asked for.
pub fn cells(size: usize, stage: Stage, steps: &[Step], seeds: u64) -> Vec<Cell> {
    let mut all = Vec::new();
    for seed in 0..seeds {
        for at in points(steps) {
            let faults = steps.get(at).map_or(&[][..], |step| Fault::all(step.side, &step.method));
            for (number, &fault) in faults.iter().enumerate() {
                // Each point with both, each fault with both, and with other seeds the other way round.
                let is_shared = (at + number + usize::from(seed % 2 == 1)) % 2 == 1;
                let cell = Cell { size, stage, at, fault: Some(fault), is_shared, is_overtaken: false, seed };
                all.push(cell);
                if fault.kills() && stage != Stage::Delete {
                    all.push(Cell { is_overtaken: true, ..cell });
                }
            }
        }
    }
    all
}

/// So many of the cells, spread evenly; all when there are fewer.
pub fn sample<T>(cells: Vec<T>, count: usize) -> Vec<T> {
    let all = cells.len();
    if count >= all {
        return cells;
    }
    let places: BTreeSet<usize> = (0..count).map(|number| number * all / count).collect();
    cells.into_iter().enumerate().filter(|(place, _)| places.contains(place)).map(|(_, cell)| cell).collect()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::crash::script::Side;

    fn step(side: Side, path: &str) -> Step {
        Step::new(side, Method::PATCH, path)
    }

    #[test]
    fn of_many_equal_steps_the_first_the_last_and_one_between_are_points() {
        let map =
            |number: usize| step(Side::Target, &format!("/api/v1/namespaces/a/configmaps/map-{number}"));
        let status = step(Side::Host, "/apis/convoy.kumodo.io/v1alpha1/namespaces/a/releases/web/status");
        let mut steps = vec![status.clone()];
        steps.extend((0..9).map(map));
        steps.push(status);
        assert_eq!(points(&steps), [0, 1, 5, 9, 10]);
    }

    #[test]
    fn a_sample_is_spread_over_all() {
        let steps = [step(Side::Target, "/api/v1/namespaces/a/configmaps/b")];
        let all = cells(1, Stage::Install, &steps, 1);
        assert_eq!(all.len(), Fault::all(Side::Target, &Method::PATCH).len() + 3);
        let some = sample(all.clone(), 2);
        assert_eq!(some, [all[0], all[8]]);
        assert_eq!(sample(all.clone(), 99), all);
        assert_eq!(cells(1, Stage::Install, &steps, 3).len(), 3 * all.len());
    }
}
