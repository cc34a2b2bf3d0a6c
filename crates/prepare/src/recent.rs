//! Values that were used last, together no heavier than a bound.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Shared values by key. Whenever they are too heavy together, what was used longest ago goes.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    /// Bytes that all may take together.
    bound: usize,
    weight: usize,
    uses: u64,
    entries: HashMap<String, Entry<V>>,
    /// The keys by their last use.
    by_use: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct Entry<V> {
    value: Arc<V>,
    weight: usize,
    used: u64,
}

impl<V> Recent<V> {
    /// Holds nothing yet, and never more than `bound` bytes.
    pub(crate) fn new(bound: usize) -> Self {
        Self { bound, weight: 0, uses: 0, entries: HashMap::new(), by_use: BTreeMap::new() }
    }

    pub(crate) fn get(&mut self, key: &str) -> Option<Arc<V>> {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        if let Some(key) = self.by_use.remove(&entry.used) {
            self.by_use.insert(self.uses, key);
        }
        entry.used = self.uses;
        Some(Arc::clone(&entry.value))
    }

    /// Takes in a value of so many bytes; one that is too heavy by itself is not kept.
    pub(crate) fn put(&mut self, key: String, value: Arc<V>, weight: usize) {
        self.remove(&key);
        if weight > self.bound {
            return;
        }
        while self.weight > self.bound - weight {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.remove(&oldest);
        }
        self.uses += 1;
        self.weight += weight;
        self.by_use.insert(self.uses, key.clone());
        self.entries.insert(key, Entry { value, weight, used: self.uses });
    }

    /// Lets go of the values that do not pass `keep`.
    pub(crate) fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        let gone = self.entries.iter().filter(|(_, entry)| !keep(&entry.value));
        for key in gone.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_use.remove(&entry.used);
            self.weight -= entry.weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut recent = Recent::new(10);
        for key in ["a", "b", "c"] {
            recent.put(key.to_owned(), Arc::new(key), 3);
        }
        assert!(recent.get("a").is_some());
        recent.put("d".to_owned(), Arc::new("d"), 3);
        let held = |recent: &mut Recent<&str>, key: &str| recent.get(key).is_some();
        assert!(!held(&mut recent, "b"));
        assert!(held(&mut recent, "a") && held(&mut recent, "c") && held(&mut recent, "d"));
        recent.retain(|value| *value == "c");
        assert!(held(&mut recent, "c") && !held(&mut recent, "a"));
    }

    #[test]
    fn what_is_too_heavy_is_not_kept_and_drives_nothing_out() {
        let mut recent = Recent::new(10);
        recent.put("a".to_owned(), Arc::new(1), 10);
        recent.put("b".to_owned(), Arc::new(2), 11);
        assert!(recent.get("a").is_some() && recent.get("b").is_none());
    }

    proptest! {
        #[test]
        fn it_never_weighs_more_than_the_bound(puts in prop::collection::vec((0_u8..9, 0_usize..30), 0..60)) {
            let mut recent = Recent::new(40);
            for (key, weight) in puts {
                recent.put(key.to_string(), Arc::new(weight), weight);
                let held: usize = recent.entries.values().map(|entry| *entry.value).sum();
                prop_assert_eq!(held, recent.weight);
                prop_assert!(held <= 40);
                prop_assert_eq!(recent.entries.len(), recent.by_use.len());
            }
        }
    }
}
