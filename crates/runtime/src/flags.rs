//! The command line that operators share (feature `flags`): where the cluster is, whether to compete for a lease,
//! where to serve metrics and health; `crd` and `manifests` print what the cluster needs.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::controller::SetupError;
use crate::manager::Manager;
use crate::program::{Program, ProgramError};

/// Flags of an operator's program; flatten them into a parser of its own.
///
/// ```
/// use clap::Parser;
/// use setpoint::flags::Flags;
///
/// #[derive(Parser)]
/// struct Command {
///     #[command(flatten)]
///     flags: Flags,
/// }
///
/// let command = Command::parse_from(["cafe", "--leader-elect", "--health-probe-bind-address=0.0.0.0:8081"]);
/// assert!(command.flags.leader_elect);
/// ```
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// The kubeconfig of the cluster; inside a pod, its service account is used.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Compete for a lease, so that of several replicas one acts.
    #[arg(long)]
    pub leader_elect: bool,
    /// The lease's namespace.
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,
    /// Serve metrics here.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_bind_address: Option<SocketAddr>,
    /// Serve health and readiness here.
    #[arg(long, value_name = "ADDRESS")]
    pub health_probe_bind_address: Option<SocketAddr>,
    /// What 0.0.0.0 means for a pod that shares its host's network: the node tells it.
    #[arg(long, value_name = "ADDRESS", env = "SETPOINT_HOST", hide = true)]
    pub own_address: Option<IpAddr>,
    /// Print something instead of running.
    #[command(subcommand)]
    pub print: Option<Print>,
}

/// What can be printed instead of running.
#[derive(Subcommand, Clone, Debug)]
pub enum Print {
    /// Print the custom resource definition and end.
    Crd,
    /// Print everything that it needs to run in a cluster and end.
    Manifests {
        /// The operator's image.
        #[arg(long)]
        image: Option<String>,
    },
}

/// The operator behind a command line.
#[derive(Clone, Copy)]
pub struct Operator {
    /// Its name: of its lease, in its events, as field owner.
    pub name: &'static str,
    /// The image in its manifests, unless another is named.
    pub image: &'static str,
    /// Everything that it needs in a cluster, its definition first.
    pub manifests: fn(image: &str) -> Vec<Value>,
    /// Registers its controllers.
    pub register: fn(&Manager) -> Result<(), SetupError>,
}

impl Flags {
    /// Runs the operator until SIGTERM or SIGINT, or prints what was asked for.
    ///
    /// # Errors
    /// When it cannot start, or cannot go on.
    pub async fn run(self, operator: Operator) -> Result<(), ProgramError> {
        match &self.print {
            Some(Print::Crd) => print(&(operator.manifests)(operator.image)[..1]),
            Some(Print::Manifests { image }) => {
                print(&(operator.manifests)(image.as_deref().unwrap_or(operator.image)))
            }
            None => self.program(operator.name).run(operator.register).await,
        }
    }

    /// The process that these flags describe.
    pub fn program(self, name: &str) -> Program {
        Program {
            name: name.to_owned(),
            kubeconfig: self.kubeconfig,
            leader_elect: self.leader_elect,
            leader_election_namespace: self.leader_election_namespace,
            metrics_address: self.metrics_bind_address,
            health_address: self.health_probe_bind_address,
            own_address: self.own_address,
        }
    }
}

/// YAML documents, as `kubectl apply -f -` reads them.
fn print(objects: &[Value]) -> Result<(), ProgramError> {
    let mut text = String::new();
    for object in objects {
        let document =
            serde_saphyr::to_string(object).map_err(|error| ProgramError::Print(error.to_string()))?;
        text += &format!("---\n{}\n", document.trim_end());
    }
    // Whoever closes the pipe early has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}
