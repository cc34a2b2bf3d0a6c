//! Answers that are remembered for a while.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// At most this many answers are remembered.
const MAX: usize = 8192;

/// Answers by the digest of their question.
#[derive(Debug)]
pub(super) struct Expiring<T> {
    answers: Mutex<HashMap<[u8; 32], (Instant, T)>>,
}

impl<T> Default for Expiring<T> {
    fn default() -> Self {
        Self { answers: Mutex::default() }
    }
}

impl<T: Clone> Expiring<T> {
    pub(super) fn get(&self, question: &[u8; 32]) -> Option<T> {
        let answers = self.answers.lock();
        let (until, answer) = answers.get(question)?;
        (*until > Instant::now()).then(|| answer.clone())
    }

    pub(super) fn put(&self, question: [u8; 32], answer: T, lasts: Duration) {
        if lasts.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut answers = self.answers.lock();
        if answers.len() >= MAX {
            answers.retain(|_, (until, _)| *until > now);
        }
        // So many questions within their time are a flood: forgetting all costs less than searching.
        if answers.len() >= MAX {
            answers.clear();
        }
        answers.insert(question, (now + lasts, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_forgotten_after_its_time_and_there_are_never_too_many() {
        let answers = Expiring::default();
        answers.put([1; 32], "yes", Duration::from_secs(10));
        tokio::time::advance(Duration::from_millis(9999)).await;
        assert_eq!(answers.get(&[1; 32]), Some("yes"));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(answers.get(&[1; 32]), None);
        for i in 0..3 * MAX {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&i.to_be_bytes());
            answers.put(key, "no", Duration::from_secs(10));
        }
        assert!(answers.answers.lock().len() <= MAX);
    }
}
