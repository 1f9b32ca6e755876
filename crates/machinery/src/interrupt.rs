//! A signal that stops long computations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells a computation that no client waits for its result any more.
///
/// A loop over a large input looks at it in each turn and gives up. The result is then void, and the caller must look
/// again before it uses the result. The signal never goes back, so that look cannot miss what the loop saw.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Stops the computations that look at this signal or a clone of it.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the result is of no use any more.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
