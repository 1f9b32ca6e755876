//! Changes outside the cluster. No watch tells of them, so a task looks for them and queues the record by a channel.

use std::time::Duration;

use setpoint::informer::Lister;
use setpoint::{Error, Key};
use tokio::sync::mpsc::Sender;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::folder::Folder;
use crate::types::HostRecord;

/// The time between two looks at the folder.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Compares the folder with the records' statuses.
pub struct Drift {
    pub folder: Folder,
    pub records: Lister<HostRecord>,
    /// Has a bound: a full channel makes the look wait.
    pub queue: Sender<Key>,
}

impl Drift {
    /// Looks at the folder until `stop`.
    ///
    /// # Errors
    /// If the folder cannot be read. The manager then ends.
    pub async fn watch(self, stop: CancellationToken) -> Result<(), Error> {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(looks.tick()).await.is_some() {
            for key in self.drifted()? {
                tracing::info!(object = %key, "the file is not as it was written");
                // `None`: told to stop. An error: the controller has stopped.
                if !matches!(stop.run_until_cancelled(self.queue.send(key)).await, Some(Ok(()))) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the records whose file differs from their status.
    fn drifted(&self) -> Result<Vec<Key>, Error> {
        let mut drifted = Vec::new();
        for record in self.records.list()? {
            let metadata = &record.metadata;
            let key = Key::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default());
            let address = record.status.as_ref().and_then(|status| status.address.as_deref());
            let wanted = address.map(|address| record.line(address));
            if metadata.deletion_timestamp.is_none() && self.folder.read(&key)? != wanted {
                drifted.push(key);
            }
        }
        Ok(drifted)
    }
}
