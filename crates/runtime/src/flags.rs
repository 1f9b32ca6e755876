//! The command line that operators share (feature `flags`): where the cluster is, whether to compete for a lease,
//! where to serve metrics and health; `crd` and `manifests` print what the cluster needs.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, Args, Subcommand};
use serde_json::Value;

use crate::manager::{Manager, SetupError};
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
/// let command = Command::parse_from(["cafe", "--leader-elect", "--health-probe-bind-address=:8081"]);
/// assert!(command.flags.leader_elect);
/// ```
///
/// Names and values are those of Go's operators, so that their manifests fit.
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// The kubeconfig of the cluster; inside a pod, its service account is used.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Compete for a lease, so that of several replicas one acts.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set, value_name = "BOOL", hide_default_value = true)]
    pub leader_elect: bool,
    /// The lease's namespace.
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,
    /// Serve metrics here; `:8080` on every address of the host, `0` not at all.
    #[arg(long, value_name = "ADDRESS", default_value = "0", hide_default_value = true)]
    pub metrics_bind_address: BindAddress,
    /// Serve health and readiness here; `:8081` on every address of the host, `0` not at all.
    #[arg(long, value_name = "ADDRESS", default_value = "0", hide_default_value = true)]
    pub health_probe_bind_address: BindAddress,
    /// What 0.0.0.0 means for a pod that shares its host's network: the node tells it.
    #[arg(long, value_name = "ADDRESS", env = "SETPOINT_HOST", hide = true)]
    pub own_address: Option<IpAddr>,
    /// Print something instead of running.
    #[command(subcommand)]
    pub print: Option<Print>,
}

/// Where to listen, in Go's words: `host:port`, `:port` for every address of the host, `0` or nothing for nowhere.
///
/// ```
/// use setpoint::flags::BindAddress;
///
/// let everywhere: BindAddress = ":8081".parse().unwrap();
/// assert!(everywhere.0.unwrap().ip().is_unspecified());
/// assert_eq!("0".parse(), Ok(BindAddress(None)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindAddress(pub Option<SocketAddr>);

impl FromStr for BindAddress {
    type Err = BindAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = match text {
            "" | "0" => return Ok(BindAddress(None)),
            _ => text.rsplit_once(':').ok_or(BindAddressError)?,
        };
        let host = match host {
            "" => everywhere(),
            "localhost" => "127.0.0.1",
            host => host,
        };
        format!("{host}:{port}")
            .parse()
            .map(|address| BindAddress(Some(address)))
            .map_err(|_| BindAddressError)
    }
}

/// IPv4 and IPv6 at once, where the host has both.
fn everywhere() -> &'static str {
    let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    if both { "[::]" } else { "0.0.0.0" }
}

/// A text that is no address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected IP:PORT, [IPV6]:PORT, :PORT, or 0 for none")]
pub struct BindAddressError;

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
            metrics_address: self.metrics_bind_address.0,
            health_address: self.health_probe_bind_address.0,
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: Flags,
    }

    fn parse(words: &[&str]) -> Result<Flags, String> {
        let words = ["operator"].iter().chain(words);
        Command::try_parse_from(words).map(|command| command.flags).map_err(|error| error.to_string())
    }

    #[test]
    fn values_of_gos_operators_are_understood() {
        let flags = parse(&[]).unwrap();
        assert_eq!((flags.leader_elect, flags.metrics_bind_address), (false, BindAddress(None)));
        let words = ["--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=:8081"];
        let flags = parse(&words).unwrap();
        assert_eq!((flags.leader_elect, flags.metrics_bind_address), (false, BindAddress(None)));
        let health = flags.health_probe_bind_address.0.unwrap();
        assert!(health.ip().is_unspecified() && health.port() == 8081, "{health}");
        assert!(parse(&["--leader-elect=true"]).unwrap().leader_elect);
        let both = parse(&["--leader-elect", "--metrics-bind-address", "[::]:8443", "crd"]).unwrap();
        assert_eq!(both.metrics_bind_address.0.unwrap().to_string(), "[::]:8443");
        assert!(both.leader_elect && both.print.is_some());
        for wrong in ["8081", "host:8081", ":", ":x", "1.2.3.4"] {
            let told = parse(&["--metrics-bind-address", wrong]).unwrap_err();
            assert!(told.contains("expected IP:PORT"), "{told}");
        }
    }
}
