//! `setpoint down`: stops a named cluster.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::named::{ClusterName, DEFAULT_NAME, Named, State};
use crate::output::say;
use crate::user_kubeconfig;

const EXAMPLES: &str = "Examples:
  setpoint down            # stops the cluster that `setpoint up --detach` started
  setpoint down second     # stops the one that `--name second` started
  setpoint down --all";

/// Time after which waiting is reported.
const PROGRESS: Duration = Duration::from_secs(1);
/// Time that a cluster may take to stop. It gives its own parts ten seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stop a cluster that was started with --detach or --name.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The cluster.
    #[arg(default_value = DEFAULT_NAME, conflicts_with = "all")]
    name: ClusterName,
    /// Stop all of them.
    #[arg(long)]
    all: bool,
}

/// Stops, waits, and removes the cluster from the user's kubeconfig.
pub fn run(arguments: Arguments) -> Result<()> {
    let clusters = if arguments.all { Named::all()? } else { vec![Named::of(arguments.name)?] };
    if clusters.is_empty() {
        say("no named cluster is running");
    }
    for cluster in &clusters {
        stop(cluster)?;
    }
    Ok(())
}

fn stop(cluster: &Named) -> Result<()> {
    let name = &cluster.name;
    let word = match cluster.state()? {
        State::Absent => bail!("no cluster {name} is running"),
        State::Crashed => {
            cluster.clear()?;
            "removed what was left of"
        }
        State::Running(_) => {
            let facts = cluster.running()?;
            let pid = i32::try_from(facts.pid).context("the number of the process")?;
            kill(Pid::from_raw(pid), Signal::SIGTERM)
                .with_context(|| format!("cannot stop process {pid}"))?;
            wait(cluster, facts.pid)?;
            "stopped"
        }
    };
    say(&format!("{word} cluster {name}"));
    for file in user_kubeconfig::files() {
        if user_kubeconfig::remove(&file, &name.context())? {
            say(&format!("removed context {} from {}", name.context(), file.display()));
        }
    }
    Ok(())
}

/// Waits until the process is gone. Its lock ends with it, so nothing has to be polled.
fn wait(cluster: &Named, pid: u32) -> Result<()> {
    let (done, ended) = channel();
    let waiting = cluster.clone();
    std::thread::spawn(move || done.send(waiting.ended()));
    let ended = match ended.recv_timeout(PROGRESS) {
        Err(RecvTimeoutError::Timeout) => {
            eprintln!("waiting for cluster {} (process {pid}) to stop", cluster.name);
            ended.recv_timeout(PATIENCE - PROGRESS)
        }
        ended => ended,
    };
    ensure!(
        !matches!(ended, Err(RecvTimeoutError::Timeout)),
        "cluster {} has not stopped within {} s; `kill -9 {pid}` ends it",
        cluster.name,
        PATIENCE.as_secs()
    );
    ended.context("the wait ended")?
}
