//! A program under the helper: its start, signals and end.

use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::{mpsc, watch};

use super::init::{INIT_COMMAND, Launch, Report, signal_line};

/// Capacity of the channel of signals to a helper.
const SIGNALS: usize = 16;

/// The state of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The helper has not reported yet.
    Starting,
    /// The program runs.
    Running {
        /// Its process id.
        pid: i32,
    },
    /// The program ended.
    Ended(End),
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The exit code. For a signal, 128 plus its number.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The reason, if the program never ran.
    pub message: Option<String>,
}

impl End {
    pub(crate) fn failed(message: String) -> End {
        End { code: 128, signal: None, message: Some(message) }
    }
}

/// Sends signals to a program's group. Dropping the last clone kills the program and all its descendants.
#[derive(Clone)]
pub struct Signals(mpsc::Sender<i32>);

impl Signals {
    /// Sends a signal.
    pub fn send(&self, signal: i32) {
        // A full channel holds signals of the same kind already. A closed channel has no program to signal.
        let _ = self.0.try_send(signal);
    }
}

/// A started helper that is not watched yet.
pub struct Supervised {
    /// The program's output, unless it has a terminal.
    pub stdout: ChildStdout,
    /// The program's errors.
    pub stderr: ChildStderr,
    /// The helper itself.
    pub helper: Helper,
    /// The sender of signals.
    pub signals: Signals,
}

/// The helper's process and control socket.
pub struct Helper {
    child: Child,
    control: UnixStream,
    launch: String,
    signals: mpsc::Receiver<i32>,
}

/// Starts the helper and passes it `launch`.
pub fn start(helper: &Path, launch: &Launch) -> io::Result<Supervised> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    near.set_nonblocking(true)?;
    let mut child = Command::new(helper)
        .arg(INIT_COMMAND)
        .env_clear()
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(far)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Not in the node's process group: Ctrl-C is for the node, which ends its containers.
        .process_group(0)
        // Not killed on drop: when the socket closes, the helper ends its program and all descendants. A killed
        // helper would leave them.
        .spawn()?;
    let launch = format!("{}\n", serde_json::to_string(launch)?);
    let (sender, signals) = mpsc::channel(SIGNALS);
    Ok(Supervised {
        stdout: child.stdout.take().expect("standard output is a pipe"),
        stderr: child.stderr.take().expect("standard error is a pipe"),
        helper: Helper { child, control: UnixStream::from_std(near)?, launch, signals },
        signals: Signals(sender),
    })
}

impl Helper {
    /// Passes the launch and later signals to the helper, and returns the program's end. Sends the start to `report`.
    pub async fn watch(self, report: &watch::Sender<Condition>) -> End {
        let Helper { mut child, control, launch, mut signals } = self;
        let (read, mut write) = control.into_split();
        let mut reports = BufReader::new(read).lines();
        if let Err(error) = write.write_all(launch.as_bytes()).await {
            return End::failed(format!("the container helper did not listen: {error}"));
        }
        let mut end = None;
        let mut signalled = true;
        loop {
            tokio::select! {
                biased;
                line = reports.next_line() => match line {
                    Ok(Some(line)) => match serde_json::from_str(&line) {
                        Ok(Report::Started { pid, .. }) => drop(report.send(Condition::Running { pid })),
                        Ok(Report::Exited { code }) => end = Some(End { code, signal: None, message: None }),
                        Ok(Report::Signaled { signal }) => {
                            end = Some(End { code: 128 + signal, signal: Some(signal), message: None });
                        }
                        Ok(Report::Failed { message }) => end = Some(End::failed(message)),
                        Err(error) => end = Some(End::failed(format!("the helper said {line:?}: {error}"))),
                    },
                    _ => break,
                },
                signal = signals.recv(), if signalled => match signal {
                    // If the helper is gone, its reports end, which is handled below.
                    Some(signal) => drop(write.write_all(signal_line(signal).as_bytes()).await),
                    // The owner of the program is gone.
                    None => {
                        signalled = false;
                        let _ = write.shutdown().await;
                    }
                },
            }
        }
        let _ = child.wait().await;
        end.unwrap_or_else(|| End::failed("the container helper ended without a report".into()))
    }
}
