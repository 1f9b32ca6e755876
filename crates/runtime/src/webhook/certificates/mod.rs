//! The serving certificate: made and rotated here, or read from files.

mod keeper;
mod bundle;
mod folder;
mod state;
mod pair;

use std::sync::Arc;

use rustls::ServerConfig;
use tokio::sync::watch;

use crate::error::Error;

use folder::Folder;
use keeper::Keeper;

pub(super) use bundle::{Holder, Place};
pub(super) use keeper::KeeperOptions;

/// The TLS configuration of new connections; `None` until there is a certificate.
pub(super) type Tls = watch::Sender<Option<Arc<ServerConfig>>>;

/// The source of the serving certificate.
pub(super) enum Source {
    Managed(Box<Keeper>),
    Folder(Folder),
}

impl Source {
    /// A certificate that replicas share in a Secret.
    pub(super) fn managed(options: KeeperOptions, tls: Tls) -> Self {
        Source::Managed(Box::new(Keeper::new(options, tls)))
    }

    /// A certificate that another program keeps in a folder.
    pub(super) fn folder(
        path: std::path::PathBuf,
        check_every: std::time::Duration,
        client_authority: Option<String>,
        tls: Tls,
    ) -> Self {
        Source::Folder(Folder::new(path, check_every, client_authority, tls))
    }

    /// Waits until there is a certificate to serve.
    pub(super) async fn obtain(&mut self) -> Result<(), Error> {
        match self {
            Source::Managed(keeper) => keeper.obtain().await,
            Source::Folder(folder) => {
                folder.obtain().await;
                Ok(())
            }
        }
    }

    /// Makes the API server trust the certificate.
    pub(super) async fn publish(&mut self) -> Result<(), Error> {
        match self {
            Source::Managed(keeper) => keeper.publish().await,
            Source::Folder(_) => Ok(()),
        }
    }

    /// Keeps the certificate fresh. Returns only with an error that the operator cannot go on with.
    pub(super) async fn keep(&mut self) -> Result<(), Error> {
        match self {
            Source::Managed(keeper) => keeper.keep().await,
            Source::Folder(folder) => folder.keep().await,
        }
    }
}
