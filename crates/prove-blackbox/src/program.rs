//! The operator as a child process, in a process group of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use setpoint_prove::{Running, Start};
use tempfile::NamedTempFile;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::front::{Front, Tls};
use crate::log::Log;
use crate::process::Watched;

/// In arguments and variables: a free port of this host, another one at each place and for each process.
const PORT: &str = "{port}";
/// Lines of the log that an error shows.
const TAIL: usize = 15;
/// Time that the output of an ended process has to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The program of an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// The name, which reports use.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The arguments. `{port}` becomes a free port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Variables besides those of this process and KUBECONFIG. `{port}` becomes a free port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(String, String)>,
}

impl Program {
    /// Starts the process: a port, a kubeconfig, the program. Dropping the future kills the process and everything
    /// that it started in its group.
    pub fn start(&self, tls: &Tls, namespace: &str, log: &Log, start: Start) -> Running {
        let (program, tls, namespace) = (self.clone(), tls.clone(), namespace.to_owned());
        let log = log.of_next_incarnation();
        let (counted, watched) = (log.clone(), Arc::<Watched>::default());
        let started = watched.clone();
        let running = async move { program.run(&tls, &namespace, log, start.client, &started).await };
        Running {
            program: Box::pin(running),
            panics: Box::new(move || counted.panics()),
            activity: Some(watched),
        }
    }

    async fn run(
        self,
        tls: &Tls,
        namespace: &str,
        log: Log,
        client: kube::Client,
        watched: &Watched,
    ) -> Result<(), String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let front = Front::open(tls).await.map_err(|error| failed("no port for the operator", &error))?;
        // Such a file is readable by its owner alone.
        let config = NamedTempFile::new().map_err(|error| failed("no file for the kubeconfig", &error))?;
        std::fs::write(config.path(), front.kubeconfig(namespace))
            .map_err(|error| failed("the kubeconfig", &error))?;
        let mut group =
            self.spawn(&config).map_err(|error| failed(&self.path.display().to_string(), &error))?;
        watched.started(group.leader.map(Pid::as_raw));
        let mut tasks = JoinSet::new();
        let outputs = (group.child.stdout.take(), group.child.stderr.take());
        tasks.spawn(front.serve(client));
        let mut output = JoinSet::new();
        if let (Some(out), Some(err)) = outputs {
            output.spawn(log.clone().follow(out));
            output.spawn(log.clone().follow(err));
        }
        let ended = group.ended().await.map_err(|error| failed("waiting for the operator", &error))?;
        let last = async { while output.join_next().await.is_some() {} };
        // A process that the operator left behind may hold the pipe.
        let _ = tokio::time::timeout(LAST_WORDS, last).await;
        Err(farewell(ended, &log))
    }

    fn spawn(&self, config: &NamedTempFile) -> std::io::Result<Group> {
        let mut command = Command::new(&self.path);
        for argument in &self.arguments {
            command.arg(with_ports(argument)?);
        }
        command
            .env("KUBECONFIG", config.path())
            // The operator must not take the cluster around this process for its own.
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("KUBERNETES_SERVICE_PORT")
            // Python keeps back what it prints to a pipe.
            .env("PYTHONUNBUFFERED", "1");
        for (name, value) in &self.variables {
            command.env(name, with_ports(value)?);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Ok(Group { child, leader })
    }
}

/// A child that leads a process group. Dropping it kills the group and waits until the child is dead.
struct Group {
    child: Child,
    leader: Option<Pid>,
}

impl Group {
    /// Waits for the end of the child, and kills what it left behind in its group.
    async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        let ended = self.child.wait().await;
        if let Some(leader) = self.leader.take() {
            // Usually nobody is left.
            let _ = killpg(leader, Signal::SIGKILL);
        }
        ended
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(leader) = self.leader else { return };
        if killpg(leader, Signal::SIGKILL).is_ok() {
            // When this returns, the child's ports are free and its writes are over.
            let _ = waitid(Id::Pid(leader), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
            // tokio would collect the child later, and never once this runtime is gone.
            let _ = self.child.try_wait();
        }
    }
}

/// Replaces each `{port}` by a free port.
fn with_ports(text: &str) -> std::io::Result<String> {
    let mut text = text.to_owned();
    while text.contains(PORT) {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        text = text.replacen(PORT, &port.to_string(), 1);
    }
    Ok(text)
}

fn farewell(ended: ExitStatus, log: &Log) -> String {
    let tail = log.tail(TAIL);
    let words = if tail.is_empty() { "it printed nothing".to_owned() } else { tail.join("\n    ") };
    format!("{ended}\n    {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_is_another_one() {
        let text = with_ports("--metrics=127.0.0.1:{port} --health=:{port}").unwrap();
        let ports: Vec<u16> =
            text.split(' ').map(|word| word.rsplit(':').next().unwrap().parse().unwrap()).collect();
        assert_eq!(ports.len(), 2);
        assert_eq!(with_ports("--leader-elect=false").unwrap(), "--leader-elect=false");
    }
}
