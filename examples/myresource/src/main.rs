//! The MyResource operator as a process.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use myresource_operator as operator;
use serde_json::Value;
use setpoint::program::Program;

/// The MyResource operator.
#[derive(Parser, Debug)]
#[command(version, about)]
struct Flags {
    /// The kubeconfig of the cluster; inside a pod, its service account is used.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Compete for a lease, so that of several replicas one acts.
    #[arg(long)]
    leader_elect: bool,
    /// The lease's namespace.
    #[arg(long, value_name = "NAMESPACE")]
    leader_election_namespace: Option<String>,
    /// Serve metrics here.
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<SocketAddr>,
    /// Serve health and readiness here.
    #[arg(long, value_name = "ADDRESS")]
    health_probe_bind_address: Option<SocketAddr>,
    #[command(subcommand)]
    print: Option<Print>,
}

#[derive(Subcommand, Debug)]
enum Print {
    /// Print the custom resource definition and end.
    Crd,
    /// Print everything that it needs to run in a cluster and end.
    Manifests {
        /// The operator's image.
        #[arg(long, default_value = "myresource-operator:latest")]
        image: String,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    match flags.print {
        Some(Print::Crd) => return print(&[operator::definition()]),
        Some(Print::Manifests { image }) => return print(&operator::manifests(&image)),
        None => {}
    }
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let program = Program {
        name: operator::NAME.into(),
        kubeconfig: flags.kubeconfig,
        leader_elect: flags.leader_elect,
        leader_election_namespace: flags.leader_election_namespace,
        metrics_address: flags.metrics_bind_address,
        health_address: flags.health_probe_bind_address,
    };
    Ok(program.run(operator::register).await?)
}

fn print(objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        println!("---\n{}", serde_saphyr::to_string(object)?.trim_end());
    }
    Ok(())
}
