//! Charts that were loaded, kept for the next render: reading a chart and parsing its templates takes longer than rendering
//! it with other values.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use convoy_helm::Chart;

/// Charts by what they were loaded from. Threads share it.
#[derive(Debug)]
pub struct Charts {
    /// The one that was used last comes last.
    kept: Mutex<VecDeque<Kept>>,
    most_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    key: String,
    bytes: usize,
    chart: Chart,
}

impl Charts {
    /// Keeps charts whose files have so many bytes together; what was parsed of them takes several times that.
    pub fn new(most_bytes: usize) -> Self {
        Self { kept: Mutex::default(), most_bytes }
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chart of that key, or the one that `load` gives with the bytes of its files.
    pub(crate) fn get<E>(
        &self,
        key: &str,
        load: impl FnOnce() -> Result<(Chart, usize), E>,
    ) -> Result<Chart, E> {
        if let Some(chart) = self.known(key) {
            return Ok(chart);
        }
        // Two that load the same at a time are rare, and do no harm.
        let (chart, bytes) = load()?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.key != key);
        kept.push_back(Kept { key: key.to_owned(), bytes, chart: chart.clone() });
        while kept.iter().map(|kept| kept.bytes).sum::<usize>() > self.most_bytes {
            kept.pop_front();
        }
        Ok(chart)
    }

    fn known(&self, key: &str) -> Option<Chart> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|kept| kept.key == key)?;
        let found = kept.remove(at)?;
        let chart = found.chart.clone();
        kept.push_back(found);
        Some(chart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_not_used_for_longest_go_first() {
        let charts = Charts::new(10);
        let load = |key: &str, bytes: usize| {
            let mut loaded = false;
            let chart = charts.get(key, || {
                loaded = true;
                Ok::<_, ()>((Chart::default(), bytes))
            });
            chart.unwrap();
            loaded
        };
        assert!(load("a", 4) && load("b", 4) && !load("a", 4) && !load("b", 4) && !load("a", 4));
        assert!(load("c", 4), "it takes the place of b");
        assert!(!load("a", 4) && load("b", 4));
        assert!(load("large", 11) && load("large", 11), "it does not fit, and is given all the same");
        assert_eq!(charts.len(), 0);
        assert_eq!(charts.get("broken", || Err::<(Chart, usize), _>("broken")).unwrap_err(), "broken");
    }
}
