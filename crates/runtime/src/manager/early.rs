//! Work that runs before the caches: webhooks, which a list of a converted kind needs.

use std::sync::Arc;
use std::time::Duration;

use super::Runnable;
use super::run::{ManagerError, Running};
use crate::clock;
use crate::latch::Latch;

impl Running {
    /// Starts work that the caches wait for; gives what they wait for.
    pub(super) fn start_early(&mut self, runnable: Runnable) -> Arc<Latch> {
        let ready = Arc::clone(&runnable.ready);
        self.start(runnable);
        ready
    }

    /// Tells all to end and waits for it, as long as a grace period.
    pub(super) async fn drain(&mut self, grace: Duration) -> Result<(), ManagerError> {
        match self.finish(clock::after(tokio::time::Instant::now(), grace)).await {
            (Some(error), _) => Err(error),
            (None, late) if late.is_empty() => Ok(()),
            (None, late) => Err(ManagerError::Grace(late.join(", "))),
        }
    }
}
