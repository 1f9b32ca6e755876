//! One running process container: the helper process, its control pipe, and its output going to the log.

use std::io;
use std::path::Path;
use std::process::Stdio;

use setpoint_api::Clock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::init::{INIT_COMMAND, Launch, Report, signal_line};
use crate::log::Log;

/// Signals under way to a helper; more wait for the helper to read, which it does at once.
const SIGNALS: usize = 16;

/// How a container stands.
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

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The exit code; 128 and the signal's number for a signal.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why it never ran.
    pub message: Option<String>,
}

/// A started container. Dropping it closes the control pipe, which kills the program's group.
pub struct Container {
    signals: mpsc::Sender<i32>,
    condition: watch::Receiver<Condition>,
    _tasks: JoinSet<()>,
}

impl Container {
    /// Starts the helper with what it is to run.
    pub fn start(helper: &Path, launch: &Launch, log: Log, clock: Clock) -> io::Result<Container> {
        let mut child = Command::new(helper)
            .arg(INIT_COMMAND)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Not killed when dropped: the helper ends its program and all that it left behind when the pipe closes,
            // and would leave them if it were killed itself.
            .spawn()?;
        let line = format!("{}\n", serde_json::to_string(launch)?);
        let (signals, received) = mpsc::channel(SIGNALS);
        let (report, condition) = watch::channel(Condition::Starting);
        let control = child.stdin.take().expect("the helper's input is a pipe");
        let mut tasks = JoinSet::new();
        tasks.spawn(send(control, line, received));
        tasks.spawn(run(child, log, clock, report));
        Ok(Container { signals, condition, _tasks: tasks })
    }

    /// Sends a signal to the program's group.
    pub fn signal(&self, signal: i32) {
        // A full channel holds signals of the same kind already; a closed one has nobody left to signal.
        let _ = self.signals.try_send(signal);
    }

    /// How it stands, and a way to wait for change.
    pub fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.clone()
    }
}

async fn send(mut control: ChildStdin, launch: String, mut signals: mpsc::Receiver<i32>) {
    if control.write_all(launch.as_bytes()).await.is_err() {
        return;
    }
    while let Some(signal) = signals.recv().await {
        if control.write_all(signal_line(signal).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads output and reports until the helper is gone.
async fn run(mut child: Child, log: Log, clock: Clock, report: watch::Sender<Condition>) {
    let mut output = child.stderr.take().expect("the helper's output is a pipe");
    let mut reports = BufReader::new(child.stdout.take().expect("the helper's reports are a pipe")).lines();
    let mut buffer = vec![0; 16 * 1024];
    let mut end = None;
    let (mut output_open, mut reports_open) = (true, true);
    while output_open || reports_open {
        tokio::select! {
            biased;
            read = output.read(&mut buffer), if output_open => match read {
                // A line that the disk refuses is lost; the container goes on.
                Ok(count) if count > 0 => drop(log.write(clock.now(), &buffer[..count])),
                _ => output_open = false,
            },
            line = reports.next_line(), if reports_open => match line {
                Ok(Some(line)) => match serde_json::from_str(&line) {
                    Ok(Report::Started { pid, .. }) => drop(report.send(Condition::Running { pid })),
                    Ok(Report::Exited { code }) => end = Some(End { code, signal: None, message: None }),
                    Ok(Report::Signaled { signal }) => {
                        end = Some(End { code: 128 + signal, signal: Some(signal), message: None });
                    }
                    Ok(Report::Failed { message }) => end = Some(failed(message)),
                    Err(error) => end = Some(failed(format!("the container helper said {line:?}: {error}"))),
                },
                _ => reports_open = false,
            },
        }
    }
    let _ = child.wait().await;
    let _ = log.end(clock.now());
    let end = end.unwrap_or_else(|| failed("the container helper ended without a report".into()));
    let _ = report.send(Condition::Ended(end));
}

fn failed(message: String) -> End {
    End { code: 128, signal: None, message: Some(message) }
}
