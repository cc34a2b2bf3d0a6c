//! All randomness of a run, from its seed.

use crate::time::Nanos;

/// SplitMix64: small, and the same on every machine and in every version.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike.
        let mut rng = Self(seed ^ 0x005e_ed0f_c0d0_1e55);
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// A number from `low` to `high`, both among them.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in `permille` of a thousand cases.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of.get(index).copied()
    }

    /// One of the values, each as likely as its weight.
    pub(crate) fn weighted<T: Copy>(&mut self, of: &[(u64, T)], otherwise: T) -> T {
        let mut left = self.below(of.iter().map(|(weight, _)| weight).sum());
        for (weight, value) in of {
            if left < *weight {
                return *value;
            }
            left -= weight;
        }
        otherwise
    }

    /// A span between two, with short ones as likely as long ones of ten times the length.
    pub(crate) fn span(&mut self, low: Nanos, high: Nanos) -> Nanos {
        let low = low.max(1);
        let mut decade = low;
        let mut decades = vec![low];
        while decade.saturating_mul(10) < high {
            decade = decade.saturating_mul(10);
            decades.push(decade);
        }
        let from = self.pick(&decades).unwrap_or(low);
        self.between(from, from.saturating_mul(10).min(high))
    }
}
