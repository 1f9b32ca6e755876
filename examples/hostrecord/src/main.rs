//! The HostRecord operator as a process.

use std::path::PathBuf;

use clap::Parser;
use setpoint::flags::{Flags, Operator};
use tracing_subscriber::EnvFilter;

use hostrecord_operator::{Folder, NAME, manifests, register};

/// The HostRecord operator.
#[derive(Parser, Debug)]
#[command(version)]
struct Command {
    #[command(flatten)]
    flags: Flags,
    /// The folder of hosts files. It is created if it does not exist.
    #[arg(long, value_name = "FOLDER", default_value = "hosts")]
    hosts_dir: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), setpoint::Error> {
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).init();
    let Command { flags, hosts_dir } = Command::parse();
    if flags.print.is_some() {
        let image = "hostrecord-operator:latest";
        return Ok(flags
            .run(Operator {
                name: NAME,
                version: env!("CARGO_PKG_VERSION"),
                image,
                manifests,
                register: |_| Ok(()),
            })
            .await?);
    }
    let folder = Folder::open(hosts_dir)?;
    Ok(flags.program(NAME).run(|manager| register(manager, folder)).await?)
}
