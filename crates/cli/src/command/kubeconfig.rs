//! `setpoint kubeconfig`: the kubeconfig of a named cluster.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::named::{ClusterName, DEFAULT_NAME, Named};
use crate::output::say;
use crate::user_kubeconfig;

const EXAMPLES: &str = "Examples:
  setpoint kubeconfig merge             # kubectl uses the cluster from now on: context setpoint-default
  setpoint kubeconfig remove
  setpoint kubeconfig print second > second.yaml";

/// Print a cluster's kubeconfig, merge it into yours, or remove it from there.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Print the kubeconfig of a running cluster.
    Print {
        /// The cluster.
        #[arg(default_value = DEFAULT_NAME)]
        name: ClusterName,
    },
    /// Add the context setpoint-NAME to your kubeconfig, and make it the current one.
    Merge {
        /// The cluster.
        #[arg(default_value = DEFAULT_NAME)]
        name: ClusterName,
        /// The file [default: that of kubectl].
        #[arg(long, value_name = "FILE")]
        into: Option<PathBuf>,
    },
    /// Remove the context setpoint-NAME from your kubeconfig. `setpoint down` does so too.
    Remove {
        /// The cluster.
        #[arg(default_value = DEFAULT_NAME)]
        name: ClusterName,
        /// The file [default: that of kubectl].
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
}

/// Prints, merges or removes.
pub fn run(arguments: Arguments) -> Result<()> {
    match arguments.action {
        Action::Print { name } => {
            let path = Named::of(name)?.running()?.kubeconfig;
            let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            // A reader that closes the pipe early has seen enough.
            let _ = std::io::stdout().write_all(&text);
        }
        Action::Merge { name, into } => {
            let facts = Named::of(name.clone())?.running()?;
            let file = into.map_or_else(user_kubeconfig::default_file, Ok)?;
            user_kubeconfig::merge(&file, &name.context(), &facts.kubeconfig)?;
            say(&format!("{} has the context {}, which is current now", file.display(), name.context()));
        }
        Action::Remove { name, from } => {
            let files = from.map_or_else(user_kubeconfig::files, |file| vec![file]);
            for file in files {
                let removed = user_kubeconfig::remove(&file, &name.context())?;
                let word = if removed { "no longer has" } else { "does not have" };
                say(&format!("{} {word} the context {}", file.display(), name.context()));
            }
        }
    }
    Ok(())
}
