//! Something that becomes true once, and whoever waits for it.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

const OPEN: u8 = 0;
const SET: u8 = 1;
const ABANDONED: u8 = 2;

/// Set once, or abandoned; never back. A tenth of the size of a watch channel, and every informer has several.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    state: AtomicU8,
    waiters: Notify,
}

impl Latch {
    /// Tells everyone who waits; whether this was the first time.
    pub fn set(&self) -> bool {
        self.set_to(SET)
    }

    /// It will never be set. Changes nothing once it is.
    pub fn abandon(&self) {
        self.set_to(ABANDONED);
    }

    fn set_to(&self, state: u8) -> bool {
        let first = self.state.compare_exchange(OPEN, state, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if first {
            self.waiters.notify_waiters();
        }
        first
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.state.load(Ordering::Acquire) == SET
    }

    /// Waits until it is set, or abandoned; whether it is set.
    ///
    /// Dropping the future ends the wait and changes nothing.
    pub async fn wait(&self) -> bool {
        // Begun before the state is read: whoever settles it in between is heard.
        let settled = self.waiters.notified();
        if self.state.load(Ordering::Acquire) == OPEN {
            settled.await;
        }
        self.is_set()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;

    use super::Latch;

    #[tokio::test]
    async fn whoever_waits_before_and_after_is_told() {
        let latch = Arc::new(Latch::default());
        let mut early = Box::pin(latch.wait());
        assert_eq!(early.as_mut().now_or_never(), None);
        assert!(latch.set());
        assert!(!latch.set());
        assert_eq!(early.now_or_never(), Some(true));
        assert_eq!(latch.wait().now_or_never(), Some(true));
    }

    #[tokio::test]
    async fn a_set_latch_is_not_abandoned_and_an_abandoned_one_not_set() {
        let set = Latch::default();
        set.set();
        set.abandon();
        assert!(set.is_set() && set.wait().await);
        let abandoned = Latch::default();
        let mut waiting = Box::pin(abandoned.wait());
        assert_eq!(waiting.as_mut().now_or_never(), None);
        abandoned.abandon();
        assert_eq!(waiting.now_or_never(), Some(false));
        assert!(!abandoned.set() && !abandoned.is_set());
    }
}
