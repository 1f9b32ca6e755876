//! The operator as a process.

use clap::Parser;
use setpoint::flags::{Flags, Operator};
use template_operator::{NAME, manifests, register};
use tracing_subscriber::EnvFilter;

/// The operator template-operator.
#[derive(Parser, Debug)]
#[command(version)]
struct Command {
    #[command(flatten)]
    flags: Flags,
}

#[tokio::main]
async fn main() -> Result<(), setpoint::Error> {
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).init();
    let operator = Operator {
        name: NAME,
        version: env!("CARGO_PKG_VERSION"),
        image: "template-operator:latest",
        manifests,
        register,
    };
    Ok(Command::parse().flags.run(operator).await?)
}
