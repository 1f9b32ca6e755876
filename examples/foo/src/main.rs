//! The sample-controller as a process.

use clap::Parser;
use setpoint::flags::{Flags, Operator};
use tracing_subscriber::EnvFilter;

use foo_controller::{NAME, manifests, register};

/// The sample-controller.
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
        image: "foo-controller:latest",
        manifests,
        register,
    };
    Ok(Command::parse().flags.run(operator).await?)
}
