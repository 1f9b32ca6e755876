//! One running process container: its program under the helper, its streams, its end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::init::Launch;
use super::output::Output;
use super::supervised::{self, Condition, Helper, Signals, Supervised};
use super::terminal::Terminal;
use crate::log::Origin;

/// The input of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Path for its named pipe. `None` if it reads nothing.
    pub stdin: Option<PathBuf>,
    /// Whether the input ends with the first client that attaches.
    pub once: bool,
    /// Whether the container has a terminal.
    pub terminal: bool,
}

/// The node's end of a container's input.
#[derive(Clone)]
pub enum Stdin {
    /// A named pipe. `None` after it was closed.
    Pipe(Arc<Mutex<Option<Arc<pipe::Sender>>>>),
    /// A terminal.
    Terminal(Arc<Terminal>),
    /// It reads nothing.
    None,
}

/// A started container. Dropping it closes the control socket, which kills the program and all its descendants.
pub struct Container {
    signals: Signals,
    condition: watch::Receiver<Condition>,
    output: Output,
    stdin: Stdin,
    once: bool,
    _tasks: JoinSet<()>,
}

impl Container {
    /// Starts the program.
    pub fn start(helper: &Path, launch: &Launch, input: &Input, output: Output) -> io::Result<Container> {
        let mut launch = launch.clone();
        let terminal = input.terminal.then(Terminal::open).transpose()?.map(Arc::new);
        launch.terminal = terminal.as_ref().map(|terminal| terminal.path().clone());
        let stdin = match (&terminal, &input.stdin) {
            (Some(terminal), Some(_)) => Stdin::Terminal(terminal.clone()),
            (None, Some(path)) => {
                launch.stdin = Some(path.clone());
                Stdin::Pipe(Arc::new(Mutex::new(Some(Arc::new(named_pipe(path)?)))))
            }
            (_, None) => Stdin::None,
        };
        let Supervised { stdout, stderr, helper, signals } = supervised::start(helper, &launch)?;
        let (report, condition) = watch::channel(Condition::Starting);
        let mut tasks = JoinSet::new();
        let drained = output.clone();
        match terminal {
            Some(terminal) => tasks.spawn(async move {
                let shown = drained.drain_terminal(&terminal);
                finish(helper, &drained, report, shown, || terminal.hang_up()).await;
            }),
            None => tasks.spawn(async move {
                let (out, errors) =
                    (drained.drain(Origin::Stdout, stdout), drained.drain(Origin::Stderr, stderr));
                finish(helper, &drained, report, async { tokio::join!(out, errors) }, || {}).await;
            }),
        };
        Ok(Container { signals, condition, output, stdin, once: input.once, _tasks: tasks })
    }

    /// Sends a signal to the program's group.
    pub fn signal(&self, signal: i32) {
        self.signals.send(signal);
    }

    /// Returns the state, which can be awaited for changes.
    pub fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.clone()
    }

    /// Returns the output.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Returns the input, and whether it ends with the first client that attaches.
    pub fn stdin(&self) -> (Stdin, bool) {
        (self.stdin.clone(), self.once)
    }
}

/// Creates a named pipe and opens it for writing. Its reading end is open too: otherwise it would end with its first
/// reader.
pub fn named_pipe(path: &Path) -> io::Result<pipe::Sender> {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600))?;
    pipe::OpenOptions::new().read_write(true).open_sender(path)
}

/// Publishes all output before the end, so that an observer of the end has seen all output.
async fn finish(
    helper: Helper,
    output: &Output,
    report: watch::Sender<Condition>,
    streams: impl Future,
    hang_up: impl FnOnce(),
) {
    let watched = async {
        let end = helper.watch(&report).await;
        hang_up();
        end
    };
    let (end, _) = tokio::join!(watched, streams);
    let _ = output.end();
    let _ = report.send(Condition::Ended(end));
}
