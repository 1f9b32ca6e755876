//! A certificate and its key in a folder, as cert-manager mounts them, read again when they change.

use std::path::PathBuf;
use std::time::Duration;

use super::Tls;
use super::pair::server_config;
use crate::error::Error;

/// The longest time between two looks at the files, as controller-runtime has it.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The time between two looks while there is no certificate yet.
const FIRST_LOOK_EVERY: Duration = Duration::from_secs(1);

/// The files, and what was read last.
pub(in crate::webhook) struct Folder {
    path: PathBuf,
    look_every: Duration,
    client_authority: Option<String>,
    tls: Tls,
    read: Option<(String, String)>,
    failure: Option<String>,
}

impl Folder {
    pub(super) fn new(
        path: PathBuf,
        check_every: Duration,
        client_authority: Option<String>,
        tls: Tls,
    ) -> Self {
        let look_every = check_every.min(LOOK_EVERY);
        Folder { path, look_every, client_authority, tls, read: None, failure: None }
    }

    /// Waits until the files are there.
    pub(super) async fn obtain(&mut self) {
        while !self.look() {
            tokio::time::sleep(FIRST_LOOK_EVERY).await;
        }
    }

    pub(super) async fn keep(&mut self) -> Result<(), Error> {
        loop {
            tokio::time::sleep(self.look_every).await;
            self.look();
        }
    }

    /// Reads the files. Serves them if they changed; the old certificate stays if the new one is of no use. Returns
    /// whether there is one.
    fn look(&mut self) -> bool {
        if let Err(failure) = self.load() {
            // Said once, because the files are looked at again and again.
            if self.failure.as_ref() != Some(&failure) {
                let folder = self.path.display();
                tracing::error!(%folder, error = failure, "could not read the webhook certificate");
                self.failure = Some(failure);
            }
        }
        self.read.is_some()
    }

    fn load(&mut self) -> Result<(), String> {
        let read = |name: &str| {
            let path = self.path.join(name);
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let pair = (read("tls.crt")?, read("tls.key")?);
        if self.read.as_ref() != Some(&pair) {
            let config = server_config(&pair.0, &pair.1, self.client_authority.as_deref());
            self.tls.send_replace(Some(config.map_err(|error| error.to_string())?));
            tracing::info!(folder = %self.path.display(), "serving the webhook certificate of the folder");
            self.read = Some(pair);
        }
        self.failure = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio::sync::watch;

    use super::super::pair::Pair;
    use super::*;

    #[tokio::test]
    async fn a_changed_file_is_served_and_a_broken_one_is_not() {
        let folder = std::env::temp_dir().join(format!("setpoint-webhook-folder-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |pair: &Pair| {
            std::fs::write(folder.join("tls.crt"), &pair.certificate).unwrap();
            std::fs::write(folder.join("tls.key"), &pair.key).unwrap();
        };
        let pair =
            || Pair::make(vec!["a.b.svc".into()], Timestamp::UNIX_EPOCH, Duration::from_secs(60)).unwrap();
        let tls = watch::Sender::new(None);
        let mut served = tls.subscribe();
        let mut files = Folder::new(folder.clone(), Duration::from_secs(60), None, tls);
        assert!(!files.look() && served.borrow_and_update().is_none(), "there are no files yet");
        write(&pair());
        assert!(files.look() && served.has_changed().unwrap());
        served.mark_unchanged();
        assert!(files.look() && !served.has_changed().unwrap(), "the same files");
        let mut torn = pair();
        torn.key = pair().key;
        write(&torn);
        assert!(files.look() && !served.has_changed().unwrap(), "the key of another certificate");
        write(&pair());
        assert!(files.look() && served.has_changed().unwrap(), "renewed");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
