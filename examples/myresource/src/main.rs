//! The MyResource operator as a process.

// This is a command line: it reads the environment.
#![allow(clippy::disallowed_methods)]

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use myresource_operator as operator;
use serde_json::Value;
use setpoint::program::Program;
use tracing_subscriber::EnvFilter;

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
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).init();
    let program = Program {
        name: operator::NAME.into(),
        kubeconfig: flags.kubeconfig,
        leader_elect: flags.leader_elect,
        leader_election_namespace: flags.leader_election_namespace,
        metrics_address: flags.metrics_bind_address,
        health_address: flags.health_probe_bind_address,
        // Pods of a setpoint node share the host's network: each is told its own address.
        own_address: std::env::var("SETPOINT_HOST").ok().and_then(|host| host.parse().ok()),
    };
    Ok(program.run(operator::register).await?)
}

fn print(objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        println!("---\n{}", serde_saphyr::to_string(object)?.trim_end());
    }
    Ok(())
}
