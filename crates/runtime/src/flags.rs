//! The command line that operators share (feature `flags`): where the cluster is, whether to compete for a lease,
//! where to serve metrics and health; `crd` and `manifests` print what the cluster needs.

use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::str::FromStr;

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
pub use self::arguments::Flags;

/// The texts that a program prints instead of running.
pub use self::arguments::Print;

// clap takes the doc comments of these two for the description of the whole program. Their documentation therefore
// stands at the re-exports.
#[expect(missing_docs, reason = "stands at the re-exports")]
mod arguments {
    use std::net::IpAddr;
    use std::path::PathBuf;

    use clap::{ArgAction, Args, Subcommand};

    use super::BindAddress;

    #[derive(Args, Clone, Debug)]
    pub struct Flags {
        /// The kubeconfig of the cluster. Default: $KUBECONFIG, ~/.kube/config, then the service account of the pod.
        #[arg(long, value_name = "FILE")]
        pub kubeconfig: Option<PathBuf>,
        /// Compete for a lease, so that one of several replicas acts.
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
            default_value_t = false, action = ArgAction::Set, value_name = "BOOL", hide_default_value = true)]
        pub leader_elect: bool,
        /// The namespace of the lease. Default: the namespace of the kubeconfig or of the pod.
        #[arg(long, value_name = "NAMESPACE")]
        pub leader_election_namespace: Option<String>,
        /// Serve metrics at IP:PORT, or at :PORT on all addresses. 0 serves nothing.
        #[arg(long, value_name = "ADDRESS", default_value = "0")]
        pub metrics_bind_address: BindAddress,
        /// Serve /healthz and /readyz at IP:PORT, or at :PORT on all addresses. 0 serves nothing.
        #[arg(long, value_name = "ADDRESS", default_value = "0")]
        pub health_probe_bind_address: BindAddress,
        /// Serve webhooks at IP:PORT, or at :PORT on all addresses. 0 serves nothing.
        #[cfg(feature = "webhooks")]
        #[arg(long, value_name = "ADDRESS", default_value = "0")]
        pub webhook_bind_address: BindAddress,
        /// The address that 0.0.0.0 stands for in a pod that shares its host's network. The node sets the variable.
        #[arg(long, value_name = "ADDRESS", env = "SETPOINT_HOST", hide = true)]
        pub own_address: Option<IpAddr>,
        /// Print something instead of running.
        #[command(subcommand)]
        pub print: Option<Print>,
    }

    #[derive(Subcommand, Clone, Debug)]
    pub enum Print {
        /// Print the custom resource definitions and exit.
        Crd,
        /// Print everything that the operator needs in a cluster, and exit.
        Manifests {
            /// The operator's image.
            #[arg(long)]
            image: Option<String>,
        },
    }
}

/// The address to listen at, in Go's words: `host:port`, `:port` for every address of the host, `0` or empty for none.
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

/// The operator behind a command line.
#[derive(Clone, Copy)]
pub struct Operator {
    /// Its name: of its lease, in its events, as field owner.
    pub name: &'static str,
    /// Its version, in the `User-Agent` of its requests: `env!("CARGO_PKG_VERSION")`.
    pub version: &'static str,
    /// The image in its manifests, unless another is named.
    pub image: &'static str,
    /// Everything that it needs in a cluster, its definitions first.
    pub manifests: fn(image: &str) -> Vec<Value>,
    /// Registers its controllers.
    pub register: fn(&Manager) -> Result<(), SetupError>,
}

impl Flags {
    /// Runs the operator until SIGTERM or SIGINT, or prints what was asked for.
    ///
    /// Dropping the future stops the operator at once, as [`Manager::run`] says.
    ///
    /// # Errors
    /// When it cannot start, or cannot go on.
    pub async fn run(self, operator: Operator) -> Result<(), ProgramError> {
        match &self.print {
            Some(Print::Crd) => print(&definitions((operator.manifests)(operator.image))),
            Some(Print::Manifests { image }) => {
                print(&(operator.manifests)(image.as_deref().unwrap_or(operator.image)))
            }
            None => {
                let version = operator.version.to_owned();
                Program { version, ..self.program(operator.name) }.run(operator.register).await
            }
        }
    }

    /// The process that these flags describe.
    pub fn program(self, name: &str) -> Program {
        Program {
            name: name.to_owned(),
            version: String::new(),
            kubeconfig: self.kubeconfig,
            leader_elect: self.leader_elect,
            leader_election_namespace: self.leader_election_namespace,
            metrics_address: self.metrics_bind_address.0,
            health_address: self.health_probe_bind_address.0,
            #[cfg(feature = "webhooks")]
            webhook_address: self.webhook_bind_address.0,
            own_address: self.own_address,
        }
    }
}

/// The custom resource definitions among an operator's manifests.
fn definitions(mut manifests: Vec<Value>) -> Vec<Value> {
    manifests.retain(|object| object["kind"] == "CustomResourceDefinition");
    manifests
}

/// YAML documents, as `kubectl apply -f -` reads them.
fn print(objects: &[Value]) -> Result<(), ProgramError> {
    let mut text = String::new();
    for object in objects {
        let document =
            serde_saphyr::to_string(object).map_err(|error| ProgramError::Print(error.to_string()))?;
        text += &format!("---\n{}\n", document.trim_end());
    }
    // A reader that closes the pipe early has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use serde_json::json;

    use super::*;

    /// Serves coffee.
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

    #[test]
    fn the_help_describes_the_program_that_has_the_flags() {
        #[derive(Parser)]
        struct Bare {
            #[command(flatten)]
            _flags: Flags,
        }
        let about = |command: clap::Command| command.get_about().map(ToString::to_string);
        assert_eq!(about(Command::command()).as_deref(), Some("Serves coffee"));
        assert_eq!(about(Bare::command()), None);
        assert!(Command::command().render_long_help().to_string().starts_with("Serves coffee\n\nUsage: "));
    }

    #[test]
    fn every_definition_is_printed_and_nothing_else() {
        let object = |kind: &str, name: &str| json!({"kind": kind, "metadata": {"name": name}});
        let crd = |name: &str| object("CustomResourceDefinition", name);
        let manifests =
            vec![crd("cafes"), object("Namespace", "cafe"), crd("teas"), object("Deployment", "cafe")];
        assert_eq!(definitions(manifests), [crd("cafes"), crd("teas")]);
    }
}
