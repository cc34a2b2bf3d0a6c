use convoy_helm::functions::Entropy;
use sha2::{Digest as _, Sha256};

/// Random bytes that are the same in every render of one Release: SHA-256 of the seed, the Release and a
/// counter. A password that a chart draws stays as it is from revision to revision.
pub(crate) struct Seeded {
    start: Sha256,
    counter: u64,
    block: Vec<u8>,
}

impl Seeded {
    pub(crate) fn new(seed: &[u8], release: [&str; 2]) -> Self {
        let mut start = Sha256::new();
        for part in [seed, release[0].as_bytes(), release[1].as_bytes()] {
            start.update((part.len() as u64).to_be_bytes());
            start.update(part);
        }
        Self { start, counter: 0, block: Vec::new() }
    }
}

impl Entropy for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.block.is_empty() {
                let block = self.start.clone().chain_update(self.counter.to_be_bytes()).finalize();
                self.block = block.to_vec();
                self.counter += 1;
            }
            *byte = self.block.pop().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(seed: &[u8], release: [&str; 2]) -> [u8; 80] {
        let mut bytes = [0; 80];
        let mut source = Seeded::new(seed, release);
        let (head, tail) = bytes.split_at_mut(33);
        source.fill(head);
        source.fill(tail);
        bytes
    }

    #[test]
    fn draws_repeat_for_one_release_and_differ_for_another_or_another_seed() {
        let one = draw(b"seed", ["prod", "web"]);
        assert_eq!(one, draw(b"seed", ["prod", "web"]));
        for other in
            [draw(b"other", ["prod", "web"]), draw(b"seed", ["prod", "db"]), draw(b"seed", ["prodw", "eb"])]
        {
            assert_ne!(one, other);
        }
        assert_ne!(one[..40], one[40..]);
    }
}
