//! `setpoint snapshot`: a copy of a cluster's objects and keys in a folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use setpoint_store::{Directory, KeyRange, OpenError, Options, Store};

use crate::control;
use crate::holder;
use crate::named::{ClusterName, DEFAULT_NAME, Named};
use crate::output::say;

const EXAMPLES: &str = "Examples:
  setpoint snapshot save backup                          # the running cluster `default`
  setpoint snapshot save backup --data-dir data          # a cluster that is stopped
  setpoint up --detach --name fork --from backup         # a copy in memory; the backup stays as it is
  setpoint snapshot restore backup --data-dir new-data   # a data folder, for `setpoint up --data-dir`";

/// Save the objects of a cluster to a folder, or restore them from one.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Write a consistent copy of all objects and keys to a new folder. The cluster goes on meanwhile.
    Save {
        /// The folder. It must not exist, or be empty.
        folder: PathBuf,
        /// The running cluster.
        #[arg(long, default_value = DEFAULT_NAME, conflicts_with = "data_dir")]
        name: ClusterName,
        /// The data folder of a cluster that does not run.
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Make a new data folder from a snapshot.
    Restore {
        /// The folder that `save` wrote.
        folder: PathBuf,
        /// The new data folder. It must not exist, or be empty.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
}

/// Saves or restores.
pub async fn run(arguments: Arguments) -> Result<()> {
    let (revision, folder) = match arguments.action {
        Action::Save { folder, name, data_dir: None } => {
            let named = Named::of(name)?;
            named.running()?;
            is_new(&folder)?;
            (control::ask_to_save(&named.control(), &folder)?, folder)
        }
        Action::Save { folder, data_dir: Some(data), .. } => (copy(&data, &folder).await?, folder),
        Action::Restore { folder, data_dir } => (copy(&folder, &data_dir).await?, data_dir),
    };
    say(&format!("wrote revision {revision} to {}", folder.display()));
    Ok(())
}

async fn copy(from: &Path, to: &Path) -> Result<u64> {
    ensure!(from.is_dir(), "there is no folder {}", from.display());
    is_new(to)?;
    let store = match Store::open(Directory::new(from)?, Options::default()).await {
        Err(OpenError::Locked) => {
            let holder = holder::of_lock(&from.join("lock")).unwrap_or_else(|| "another process".into());
            bail!(
                "the data folder {} is in use by {holder}; a running cluster is saved by its name, with --name",
                from.display()
            )
        }
        opened => opened.with_context(|| format!("cannot open {}", from.display()))?.0,
    };
    // An empty folder opens as an empty store, and a cluster has keys from its start on.
    ensure!(store.snapshot().count(&KeyRange::all()) > 0, "{} holds no cluster", from.display());
    let revision =
        store.save(&Directory::new(to)?).with_context(|| format!("cannot write {}", to.display()))?;
    store.shutdown().await;
    Ok(revision)
}

/// A copy replaces nothing.
fn is_new(folder: &Path) -> Result<()> {
    let taken = folder.exists() && !folder.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    ensure!(!taken, "{} is not an empty folder; a snapshot replaces nothing", folder.display());
    Ok(())
}
