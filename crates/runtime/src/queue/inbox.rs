//! The way of an add to the queue: past the lock that the workers hold.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::reason::Reason;

/// After so many adds that nobody has taken into the queue, whoever adds does it, unless a worker is at it.
pub(super) const BATCH: usize = 256;

/// Adds that wait to be taken into the queue, at most. To wait for the workers' lock takes longer than to work on a key,
/// so that happens to who is far ahead of them only.
const ROOM: usize = 16 * BATCH;

/// One add.
pub(super) struct Add<T> {
    pub(super) key: T,
    pub(super) hash: u32,
    pub(super) priority: i32,
    pub(super) reason: Reason,
    pub(super) at: u64,
}

/// Adds that the queue does not know yet, and how many workers sleep until one comes. On cache lines of its own: whoever
/// adds writes here, and nowhere that the workers write for each key.
#[repr(align(64))]
pub(super) struct Inbox<T> {
    inside: Mutex<Inside<T>>,
    /// It holds something. Written with the inbox locked.
    pending: AtomicBool,
    /// A worker was woken and has not looked yet. Until it does nobody else is: it wakes the next one itself if there
    /// is more than one key. Written with the inbox locked, cleared with the state locked too.
    woken: AtomicBool,
}

struct Inside<T> {
    adds: Vec<Add<T>>,
    /// Workers that wait.
    waiting: usize,
    /// The queue is shut down: nothing is taken any more.
    closed: bool,
}

/// The work that is left for the caller that added a key.
pub(super) enum Added {
    Nothing,
    /// Wake a worker.
    Wake,
    /// Empty the inbox unless somebody else may be about to.
    Batch,
    /// Empty the inbox.
    Full,
}

impl<T> Inbox<T> {
    pub(super) fn new() -> Self {
        Inbox {
            inside: Mutex::new(Inside { adds: Vec::new(), waiting: 0, closed: false }),
            pending: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().expect("no holder of this lock panics")
    }

    #[inline]
    pub(super) fn push(&self, add: Add<T>) -> Added {
        let mut inside = self.lock();
        if inside.closed {
            return Added::Nothing;
        }
        inside.adds.push(add);
        if inside.adds.len() == 1 {
            self.pending.store(true, Ordering::Release);
        }
        if inside.waiting > 0 && self.claim(&inside) {
            Added::Wake
        } else if inside.adds.len() >= ROOM {
            Added::Full
        } else if inside.adds.len().is_multiple_of(BATCH) {
            Added::Batch
        } else {
            Added::Nothing
        }
    }

    /// Whether there is something to [take](Inbox::take).
    pub(super) fn pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Changes what waits for `empty`.
    pub(super) fn take(&self, empty: &mut Vec<Add<T>>) {
        let mut inside = self.lock();
        std::mem::swap(&mut inside.adds, empty);
        self.pending.store(false, Ordering::Relaxed);
    }

    /// Counts one more waiting worker, unless something has come meanwhile.
    pub(super) fn begin_waiting(&self) -> bool {
        let mut inside = self.lock();
        let waits = inside.adds.is_empty();
        inside.adds.shrink_to(BATCH);
        inside.waiting += usize::from(waits);
        waits
    }

    /// A wake-up that a leaving worker did not use goes to another one, so looking once too often is the worst.
    pub(super) fn end_waiting(&self) {
        let mut inside = self.lock();
        inside.waiting -= 1;
        self.woken.store(false, Ordering::Relaxed);
    }

    /// Whether the caller, who knows of a waiting worker, is to wake one.
    pub(super) fn claim_waking(&self) -> bool {
        !self.woken.load(Ordering::Relaxed) && self.claim(&self.lock())
    }

    fn claim(&self, _inside: &Inside<T>) -> bool {
        let wake = !self.woken.load(Ordering::Relaxed);
        if wake {
            self.woken.store(true, Ordering::Relaxed);
        }
        wake
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_adds_is_asked_to_empty_it_after_each_batch_and_must_when_it_is_full() {
        let inbox = Inbox::new();
        let push = || inbox.push(Add { key: (), hash: 0, priority: 0, reason: Reason::MANUAL, at: 0 });
        for number in 1..=ROOM {
            let asked = match push() {
                Added::Nothing => "nothing",
                Added::Wake => "wake",
                Added::Batch => "batch",
                Added::Full => "full",
            };
            let expected = match number {
                ROOM => "full",
                _ if number % BATCH == 0 => "batch",
                _ => "nothing",
            };
            assert_eq!(asked, expected, "add {number}");
        }
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert_eq!((taken.len(), inbox.pending()), (ROOM, false));
        assert!(matches!(push(), Added::Nothing), "there is room again");
    }

    #[test]
    fn who_goes_to_sleep_gives_back_the_room_of_a_burst() {
        let inbox = Inbox::new();
        let mut taken = Vec::new();
        for _ in 0..2 {
            for _ in 0..ROOM {
                inbox.push(Add { key: (), hash: 0, priority: 0, reason: Reason::MANUAL, at: 0 });
            }
            inbox.take(&mut taken);
            taken.clear();
        }
        assert!(inbox.lock().adds.capacity() >= ROOM);
        assert!(inbox.begin_waiting());
        assert!(inbox.lock().adds.capacity() < ROOM);
    }
}
