//! Decides when a kind is worth a dictionary, trains it beside the ingest path, and compresses what came before it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::body::Dictionaries;
use super::object::Object;
use super::store::Store;

/// A kind with fewer objects stays raw: it is small anyway.
const FEWEST_OBJECTS: usize = 1000;
/// A kind whose objects are smaller on average stays raw: a dictionary gains little and costs time.
const SMALLEST_AVERAGE: usize = 512;
/// Raw bytes of a first state that are not worth a dictionary before it is complete.
const RAW_BYTES: u64 = 8 * 1024 * 1024;
/// Samples that a dictionary is trained on, at most.
const SAMPLES: usize = 256;
/// Bytes of all samples, at most: they are held in memory, and a training takes time for each.
const SAMPLED_BYTES: usize = 4 * 1024 * 1024;
/// A larger object is no sample: a dictionary takes several.
const LARGEST_SAMPLE: usize = SAMPLED_BYTES / 8;
/// A kind that has grown this many times since its dictionary was trained gets a new one.
const GROWTH: usize = 8;
/// Objects that are compressed anew between two pauses.
const SWEEP: usize = 128;

/// The training of one kind's dictionaries.
#[derive(Default)]
pub(crate) struct Training {
    dictionaries: Arc<Dictionaries>,
    sampler: Mutex<Sampler>,
    due: Notify,
    /// Begins the task that trains. Few kinds are ever large enough for one.
    begin: Mutex<Option<Begin>>,
}

type Begin = Box<dyn FnOnce() + Send>;

/// Every n-th object, n doubling as they become many or large, so that samples cover all namespaces evenly.
struct Sampler {
    samples: Vec<Object>,
    /// The size of the samples, each with the text that it is a difference from.
    bytes: usize,
    stride: usize,
    seen: usize,
    /// Bytes that were kept raw.
    raw: u64,
    next_check: u64,
}

impl Default for Sampler {
    fn default() -> Self {
        Sampler { samples: Vec::new(), bytes: 0, stride: 1, seen: 0, raw: 0, next_check: RAW_BYTES }
    }
}

impl Sampler {
    /// Tells whether it is time to look whether a dictionary is due.
    fn offer(&mut self, object: &Object, base_bytes: u64) -> bool {
        if self.seen.is_multiple_of(self.stride) {
            self.sample(object);
        }
        self.seen += 1;
        self.raw += object.raw_bytes() as u64;
        let grown = self.raw + base_bytes >= self.next_check;
        if grown {
            self.next_check *= 2;
        }
        grown
    }

    fn sample(&mut self, object: &Object) {
        let length = object.longest_text();
        if length > LARGEST_SAMPLE {
            return;
        }
        // Seven of the largest have room, so this ends.
        while self.samples.len() == SAMPLES || self.bytes + length > SAMPLED_BYTES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.bytes = self.samples.iter().map(Object::longest_text).sum();
            self.stride *= 2;
        }
        self.samples.push(object.clone());
        self.bytes += length;
    }
}

impl Training {
    /// For a kind whose bases are counted in `base_bytes`.
    pub fn new(base_bytes: Arc<AtomicU64>) -> Self {
        Training { dictionaries: Arc::new(Dictionaries::new(base_bytes)), ..Training::default() }
    }

    /// The dictionaries that objects of the kind are compressed with.
    pub(super) fn dictionaries(&self) -> &Arc<Dictionaries> {
        &self.dictionaries
    }

    /// Calls `begin` once the kind may be worth a dictionary: it must see to it that [`Training::run`] runs.
    pub fn when_due(&self, begin: impl FnOnce() + Send + 'static) {
        *self.begin.lock().expect("no holder of this lock panics") = Some(Box::new(begin));
    }

    /// Takes note of an object that was read.
    pub fn offer(&self, object: &Object) {
        let base_bytes = self.dictionaries.base_bytes().load(Ordering::Relaxed);
        if self.sampler.lock().expect("no holder of this lock panics").offer(object, base_bytes) {
            self.wake();
        }
    }

    /// The first state is complete: time to look whether the kind is worth a dictionary.
    pub fn synced(&self) {
        if self.seen() >= FEWEST_OBJECTS {
            self.wake();
        }
    }

    fn wake(&self) {
        let begin = self.begin.lock().expect("no holder of this lock panics").take();
        if let Some(begin) = begin {
            begin();
        }
        self.due.notify_one();
    }

    /// Trains and compresses for as long as the informer lives. Runs on a task of its own: where there is but one
    /// thread, a training holds it for some tens of milliseconds, once for each large kind.
    ///
    /// Dropping the future ends the training; objects that are compressed stay so.
    pub async fn run(&self, store: &Store) {
        let mut trained_for = 0;
        loop {
            self.due.notified().await;
            // Before the first state is complete the store is empty; afterwards updates must not count as growth.
            let size = Some(store.len()).filter(|length| *length > 0).unwrap_or_else(|| self.seen());
            // A first state that is mostly raw is trained for as it comes in, so that it is never held raw as a whole;
            // its first objects are those of one or two namespaces, so a kind that grows is trained for again.
            if size >= FEWEST_OBJECTS && size >= trained_for * GROWTH && self.train() {
                trained_for = size;
            }
            self.sweep(store).await;
        }
    }

    fn seen(&self) -> usize {
        self.sampler.lock().expect("no holder of this lock panics").seen
    }

    fn train(&self) -> bool {
        let samples = self.sampler.lock().expect("no holder of this lock panics").samples.clone();
        let samples: Vec<Vec<u8>> = samples.iter().map(|object| object.json().into_owned()).collect();
        let bytes: usize = samples.iter().map(Vec::len).sum();
        if bytes < samples.len() * SMALLEST_AVERAGE {
            return false;
        }
        self.dictionaries.train(&samples)
    }

    /// Compresses what was cached before the dictionary existed, a few objects at a time.
    async fn sweep(&self, store: &Store) {
        let Some(mut packer) = self.dictionaries.packer() else { return };
        let snapshot = store.snapshot();
        let mut objects = snapshot.iter();
        loop {
            let some: Vec<&Object> = objects.by_ref().take(SWEEP).collect();
            if some.is_empty() {
                return;
            }
            let pack =
                |object: &Object| object.packed_with(&mut packer).map(|packed| (object.clone(), packed));
            store.swap_packed(some.into_iter().filter_map(pack).collect());
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::cache::Delta;
    use crate::informer::cache::{Ingest, IngestOptions, Scope};

    fn json(number: u64, padding: u32) -> Vec<u8> {
        let digest = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The objects have the same words, but no object is a small difference from another.
        let words =
            ["registry.example.com/", "application:latest ", "team-of-the-year ", "some-other-words "];
        let word = |index: u32| words[(digest.rotate_left(index * 7) % 4) as usize];
        let filler: String = (0..padding * 3).map(word).collect();
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"pod-{number:05}","namespace":"a","resourceVersion":"{}"}},"spec":{{"digest":"{digest:x}","filler":"{filler}"}}}}"#,
            number + 1
        )
        .into_bytes()
    }

    fn fill(count: u64, padding: u32) -> (Arc<Training>, Store, Ingest) {
        let training = Arc::new(Training::default());
        let options = IngestOptions { training: Some(training.clone()), ..IngestOptions::default() };
        let mut ingest = Ingest::new(options);
        let objects = (0..count).map(|number| ingest.object(&json(number, padding)).unwrap()).collect();
        let store = Store::default();
        store.apply(&Scope::All, Delta::Replaced { revision: count + 1, objects });
        (training, store, ingest)
    }

    async fn train(training: &Training, store: &Store) {
        training.synced();
        tokio::select! {
            biased;
            () = training.run(store) => unreachable!("it runs for ever"),
            () = tokio::time::sleep(std::time::Duration::from_secs(1)) => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_kind_is_compressed_behind_the_readers_backs() {
        let (training, store, mut ingest) = fill(1500, 20);
        let before = store.bytes();
        let pinned = store.snapshot();
        train(&training, &store).await;
        assert_eq!(training.dictionaries().version(), 1);
        assert!(store.bytes() * 2 < before, "{} of {before}", store.bytes());
        for (raw, packed) in pinned.iter().zip(store.snapshot().iter()) {
            assert!(raw.same_state(packed));
            assert_eq!(raw.json(), packed.json());
        }
        let later = ingest.object(&json(9999, 20)).unwrap();
        assert!(later.stored_bytes() < 300, "new objects are compressed as they come");
        assert_eq!(later.json(), json(9999, 20));
    }

    #[tokio::test(start_paused = true)]
    async fn small_kinds_and_small_objects_stay_raw() {
        for (count, padding) in [(500, 20), (1500, 2)] {
            let (training, store, _) = fill(count, padding);
            let before = store.bytes();
            train(&training, &store).await;
            assert_eq!((training.dictionaries().version(), store.bytes()), (0, before));
        }
    }
    #[test]
    fn samples_are_few_where_objects_are_large() {
        let mut ingest = Ingest::new(IngestOptions::default());
        let mut sampler = Sampler::default();
        let mut offer = |number: usize, size: usize| {
            let text = "x".repeat(size);
            let json = format!(r#"{{"metadata":{{"name":"{number}"}},"data":"{text}"}}"#);
            sampler.offer(&ingest.object(json.as_bytes()).unwrap(), 0);
            let held: usize = sampler.samples.iter().map(Object::raw_bytes).sum();
            assert!(held <= SAMPLED_BYTES, "{held} in {}", sampler.samples.len());
            sampler.samples.len()
        };
        assert_eq!(offer(0, LARGEST_SAMPLE), 0, "too large");
        let counts: Vec<usize> = (1..200).map(|number| offer(number, 100_000)).collect();
        assert!(counts.iter().skip(50).all(|count| *count >= 16), "{counts:?}");
        assert!((200..3_000).map(|number| offer(number, 600)).max() > Some(200), "small ones again");
    }
}
