//! Waiting for a state, driven by the store's changes and not by a timer.

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

/// A state that did not come; prints who wrote what at which version meanwhile.
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
    /// Waits until `condition` gives something: it is asked now and after every change of any object.
    ///
    /// # Errors
    /// When it gives nothing for [`PATIENCE`]. The error prints the latest changes.
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

    /// Lets time pass. In a test whose time is virtual (`#[tokio::test(start_paused = true)]`, which a cluster in memory
    /// needs nothing else for) this takes no time: whatever is due meanwhile (resyncs, leases, deadlines, expiring
    /// objects) happens in its order, each at its own moment.
    pub async fn advance(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }

    fn never_came(&self, what: &str) -> NeverCame {
        let mut changes = changes(self.store(), KeyRange::all());
        let from = changes.len().saturating_sub(SHOWN);
        NeverCame { what: what.to_owned(), patience: PATIENCE, changes: changes.split_off(from) }
    }
}
