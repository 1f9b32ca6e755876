//! Bells wake the watchers of a range. The store counts the woken watchers that have not looked yet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The watchers of all ranges that were woken and those that have looked since, both since the store began.
#[derive(Default)]
pub(crate) struct Woken {
    woken: AtomicU64,
    looked: AtomicU64,
    changed: Notify,
}

impl Woken {
    /// Waits until as many watchers have looked as were woken before. A watcher that is busy with earlier events was
    /// not woken, so it is not waited for.
    pub(crate) async fn have_looked(&self) {
        let woken = self.woken.load(Ordering::Acquire);
        loop {
            // Created before the check, so that a change in between is not missed.
            let changed = self.changed.notified();
            if self.looked.load(Ordering::Acquire) >= woken {
                return;
            }
            changed.await;
        }
    }

    fn look(&self) {
        self.looked.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }
}

/// Wakes the waiting watchers of one range.
#[derive(Default)]
pub(crate) struct Bell {
    pub(crate) notify: Notify,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Number of times that the bell rang.
    rings: u64,
    /// Number of watchers that began to wait since then.
    watchers: u64,
}

impl Bell {
    /// Wakes the watchers, and counts those that wait.
    pub(crate) fn ring(&self, woken: &Woken) {
        let mut waiting = self.waiting();
        waiting.rings += 1;
        woken.woken.fetch_add(std::mem::take(&mut waiting.watchers), Ordering::AcqRel);
        drop(waiting);
        self.notify.notify_waiters();
    }

    /// Notes that a watcher waits, until the result is dropped.
    pub(crate) fn wait(bell: &Arc<Bell>, woken: &Arc<Woken>) -> Wait {
        let mut waiting = bell.waiting();
        waiting.watchers += 1;
        Wait { bell: bell.clone(), woken: woken.clone(), rings: waiting.rings }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watcher that waits. It has looked when this is dropped, also if it gave up.
pub(crate) struct Wait {
    bell: Arc<Bell>,
    woken: Arc<Woken>,
    rings: u64,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.bell.waiting();
        if waiting.rings == self.rings {
            waiting.watchers -= 1;
        } else {
            drop(waiting);
            self.woken.look();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_watcher_that_was_woken_counts_until_it_looks_or_gives_up() {
        let (woken, bell) = (Arc::new(Woken::default()), Arc::new(Bell::default()));
        let all_looked =
            || pin!(woken.have_looked()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        bell.ring(&woken);
        assert!(all_looked(), "nobody waited");
        let (first, second) = (Bell::wait(&bell, &woken), Bell::wait(&bell, &woken));
        drop(Bell::wait(&bell, &woken));
        bell.ring(&woken);
        // One that begins to wait now was not woken.
        let late = Bell::wait(&bell, &woken);
        assert!(!all_looked());
        drop(first);
        assert!(!all_looked());
        drop(second);
        assert!(all_looked());
        drop(late);
        assert!(all_looked());
        assert_eq!(bell.waiting().watchers, 0);
    }
}
