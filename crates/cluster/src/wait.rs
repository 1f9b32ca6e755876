//! Waits for a state. Changes of the store drive the wait, not a timer.

use std::fmt;
use std::time::Duration;

use setpoint_store::KeyRange;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::history::{Change, changes};

/// Time limit of [`Cluster::eventually`].
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Number of the latest changes that a failed wait shows.
const SHOWN: usize = 60;

/// A state that was not reached. The message lists the latest changes with writer and version.
pub struct NeverCame {
    what: String,
    patience: Duration,
    changes: Vec<Change>,
}

impl fmt::Display for NeverCame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} did not come within {:?}; the latest changes:", self.what, self.patience)?;
        for change in &self.changes {
            write!(f, "\n  {change}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for NeverCame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NeverCame {}

impl Cluster {
    /// Waits until `condition` returns `Some`. It runs now, and after every change of any object.
    ///
    /// # Errors
    /// When it returns `None` for [`PATIENCE`]. The error lists the latest changes.
    pub async fn eventually<T, F, R>(&self, what: &str, mut condition: F) -> Result<T, NeverCame>
    where
        F: FnMut() -> R,
        R: Future<Output = Option<T>>,
    {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.store().revision();
            if let Some(found) = condition().await {
                return Ok(found);
            }
            let changed = async {
                // If so many changes happened meanwhile that history was cut, ask again at once.
                if let Ok(mut watch) = self.store().watch(KeyRange::all(), seen) {
                    drop(watch.next().await);
                }
            };
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Err(self.never_came(what));
            }
        }
    }

    /// Advances the time. With virtual time (`#[tokio::test(start_paused = true)]` and a cluster in memory) this takes
    /// no real time. Everything that is due meanwhile (resyncs, leases, deadlines, expiring objects) happens in order,
    /// each at its own time.
    pub async fn advance(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }

    fn never_came(&self, what: &str) -> NeverCame {
        let mut changes = changes(self.store(), KeyRange::all());
        let from = changes.len().saturating_sub(SHOWN);
        NeverCame { what: what.to_owned(), patience: PATIENCE, changes: changes.split_off(from) }
    }
}
