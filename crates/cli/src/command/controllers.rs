//! `setpoint controllers`: the built-in controllers and nodes alone, against any API server.

use std::path::PathBuf;

use anyhow::Result;
use setpoint::program::Program;
use setpoint_node::NodeOptions;

/// The name under which nodes are asked for.
const NODE: &str = "node";

/// Run the built-in controllers, the scheduler and nodes against any API server.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The kubeconfig of the cluster.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Only these, separated by commas: deployment, replicaset, garbage (gc), namespace, serviceaccount, rootca,
    /// endpoints, endpointslice, scheduler, node.
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
    /// How many nodes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: u32,
    /// Act without competing for a lease: only where nothing else runs these controllers.
    #[arg(long)]
    no_leader_election: bool,
    /// The PEM file of the cluster's authority, which rootca publishes.
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
}

/// Runs until a signal.
pub async fn run(arguments: Arguments) -> Result<()> {
    let only =
        arguments.only.as_deref().map(|text| setpoint_controllers::parse_names(text, &[NODE])).transpose()?;
    let root_ca = arguments.root_ca_file.as_ref().map(std::fs::read_to_string).transpose()?;
    let program = Program {
        name: "setpoint-controllers".into(),
        kubeconfig: arguments.kubeconfig,
        leader_elect: !arguments.no_leader_election,
        leader_election_namespace: Some("kube-system".into()),
        ..Program::default()
    };
    let with_nodes = only.as_ref().is_none_or(|names| names.contains(NODE));
    let options = setpoint_controllers::Options { only, root_ca };
    let register = |manager: &setpoint::Manager| {
        setpoint_controllers::register(manager, &options)?;
        if with_nodes {
            setpoint_node::register(
                manager,
                NodeOptions { count: arguments.nodes, ..NodeOptions::default() },
            )?;
        }
        Ok(())
    };
    Ok(program.run(register).await?)
}
