//! The MyResource operator as a process.

use std::time::Duration;

use clap::Parser;
use setpoint::flags::{Flags, Operator};
use setpoint::webhook::ServingOptions;
use tracing_subscriber::EnvFilter;

use myresource_operator::{NAME, manifests, manifests_with_webhooks, register, register_with};

/// The MyResource operator.
#[derive(Parser, Debug)]
#[command(version)]
struct Command {
    #[command(flatten)]
    flags: Flags,
    /// Print the webhooks among the manifests.
    #[arg(long)]
    webhooks: bool,
    /// How long a webhook certificate lasts. Default: 90 days.
    #[arg(long, value_name = "SECONDS")]
    webhook_certificate_seconds: Option<u32>,
}

#[tokio::main]
async fn main() -> Result<(), setpoint::Error> {
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).init();
    let command = Command::parse();
    let chosen = if command.webhooks { manifests_with_webhooks } else { manifests };
    let operator = Operator {
        name: NAME,
        version: env!("CARGO_PKG_VERSION"),
        image: "myresource-operator:latest",
        manifests: chosen,
        register,
    };
    match command.webhook_certificate_seconds {
        Some(seconds) if command.flags.print.is_none() => {
            let serving = ServingOptions::lasting(Duration::from_secs(seconds.into()));
            Ok(command.flags.program(NAME).run(|manager| register_with(manager, serving)).await?)
        }
        _ => Ok(command.flags.run(operator).await?),
    }
}
