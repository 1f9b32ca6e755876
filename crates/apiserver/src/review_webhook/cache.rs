//! Answers of a webhook that are kept for a time.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// The most answers that are kept, as kube-apiserver has it. The oldest one leaves first.
const MOST: usize = 8192;

/// The digest of a question: the cache holds no token and no long key.
type Digest = [u8; 32];

/// Answers by question.
pub(super) struct Cache<V> {
    kept: Mutex<Kept<V>>,
}

struct Kept<V> {
    answers: HashMap<Digest, (V, Instant)>,
    /// The questions in the order of their answers.
    order: VecDeque<Digest>,
}

impl<V: Clone> Cache<V> {
    pub(super) fn new() -> Self {
        Cache { kept: Mutex::new(Kept { answers: HashMap::new(), order: VecDeque::new() }) }
    }

    /// Returns the answer, if its time has not passed.
    pub(super) fn get(&self, question: &str) -> Option<V> {
        let kept = self.kept.lock().expect("no holder of this lock panics");
        let (answer, until) = kept.answers.get(&digest(question))?;
        (Instant::now() < *until).then(|| answer.clone())
    }

    /// Keeps an answer for `time`; not at all if that is zero.
    pub(super) fn put(&self, question: &str, answer: V, time: Duration) {
        if time.is_zero() {
            return;
        }
        let mut kept = self.kept.lock().expect("no holder of this lock panics");
        let question = digest(question);
        if kept.answers.insert(question, (answer, Instant::now() + time)).is_none() {
            kept.order.push_back(question);
        }
        while kept.order.len() > MOST {
            if let Some(oldest) = kept.order.pop_front() {
                kept.answers.remove(&oldest);
            }
        }
    }
}

fn digest(text: &str) -> Digest {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_leave_with_their_time_and_with_the_bound() {
        let cache = Cache::new();
        cache.put("a", 1, Duration::from_secs(10));
        cache.put("b", 2, Duration::ZERO);
        assert_eq!((cache.get("a"), cache.get("b")), (Some(1), None));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(cache.get("a"), None);
        for number in 0..=MOST {
            cache.put(&number.to_string(), number, Duration::from_secs(10));
        }
        assert_eq!(cache.get("0"), None);
        assert_eq!(cache.get(&MOST.to_string()), Some(MOST));
        assert_eq!(cache.kept.lock().unwrap().answers.len(), MOST);
    }
}
