//! The hidden, single-threaded helper under which a container's program runs (`setpoint container-init`).
//!
//! It exists because namespaces and parent-death signals belong to one process before it execs, and a running
//! multi-threaded server cannot do that to a child without unsafe code. Its standard input is the control pipe:
//! one line of JSON ([`Launch`]), then one command a line. When the pipe closes, whoever held it is gone, and the
//! program's process group is killed: no process outlives its node. Its standard output carries [`Report`] lines;
//! its standard error is the container's output.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::root::{self, Mount};

/// The name of the subcommand that [`supervise`] stands behind.
pub const INIT_COMMAND: &str = "container-init";
/// The name of the subcommand that [`exec`] stands behind.
pub const EXEC_COMMAND: &str = "container-exec";
/// Names the folder under which the container's mounts stand when the host allows no mount namespace.
pub const ROOT_VARIABLE: &str = "SETPOINT_ROOT";

/// What to run, and in which surroundings.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// The working folder, as the container sees it.
    pub directory: Option<PathBuf>,
    /// An empty folder of the container's own, for its view of the file system.
    pub root: PathBuf,
    /// What is mounted where.
    pub mounts: Vec<Mount>,
}

/// What the helper says on its standard output, a line of JSON each.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// The program runs.
    Started {
        /// Its process id, which is also its group's.
        pid: i32,
        /// Whether it has a mount namespace of its own.
        isolated: bool,
    },
    /// The program ended by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// The program was ended by a signal.
    Signaled {
        /// Which.
        signal: i32,
    },
    /// It could not be started.
    Failed {
        /// Why.
        message: String,
    },
}

/// A command on the control pipe after the first line: `signal N`.
pub fn signal_line(signal: i32) -> String {
    format!("signal {signal}\n")
}

/// The helper's main: runs one program to its end. Returns the helper's own exit code.
pub fn supervise() -> i32 {
    let mut control = BufReader::new(io::stdin());
    match start(&mut control) {
        Ok((child, isolated)) => {
            let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
            report(&Report::Started { pid, isolated });
            match watch(child, &mut control) {
                Ok(end) => report(&end),
                Err(error) => {
                    report(&Report::Failed { message: error.to_string() });
                    return 1;
                }
            }
            0
        }
        Err(error) => {
            report(&Report::Failed { message: error.to_string() });
            1
        }
    }
}

fn report(report: &Report) {
    let line = serde_json::to_string(report).expect("a report has a JSON form");
    // Nobody reads any more: the pipe's other end is gone, and the control pipe will say so.
    let _ = writeln!(io::stdout(), "{line}");
}

fn start(control: &mut impl BufRead) -> io::Result<(Child, bool)> {
    let mut line = String::new();
    control.read_line(&mut line)?;
    let mut launch: Launch = serde_json::from_str(&line)?;
    let isolated = root::isolate(&launch.root, &launch.mounts)?;
    if !isolated {
        root::link(&launch.root, &launch.mounts)?;
        launch.environment.insert(ROOT_VARIABLE.into(), launch.root.to_string_lossy().into_owned());
        launch.directory = launch.directory.map(|folder| root::under(&launch.root, &folder));
    }
    let output = io::stderr().as_fd().try_clone_to_owned()?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(EXEC_COMMAND)
        .arg("--")
        .args(&launch.command)
        .env_clear()
        .envs(&launch.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::from(output))
        .process_group(0);
    if let Some(folder) = &launch.directory {
        std::fs::create_dir_all(folder)?;
        command.current_dir(folder);
    }
    // What the program leaves behind becomes this process's child, so that it can be found and ended.
    prctl::set_child_subreaper(true)?;
    // Signals are blocked before the child exists, so that its end cannot be missed.
    child_ended()?;
    Ok((command.spawn()?, isolated))
}

fn child_ended() -> io::Result<SignalFd> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    Ok(SignalFd::new(&mask)?)
}

/// Waits for the program's end while obeying the control pipe.
fn watch(mut child: Child, control: &mut BufReader<io::Stdin>) -> io::Result<Report> {
    let group = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let ended = child_ended()?;
    let mut open = true;
    loop {
        if let Some(status) = child.try_wait()? {
            // The program may have left children behind, in its group or in one of their own.
            let _ = killpg(group, Signal::SIGKILL);
            end_orphans();
            return Ok(match status.code() {
                Some(code) => Report::Exited { code },
                None => Report::Signaled { signal: status.signal().unwrap_or(0) },
            });
        }
        let stdin = io::stdin();
        let mut waits = vec![PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
        if open {
            waits.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut waits, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let readable = |at: usize| waits.get(at).and_then(PollFd::any).unwrap_or(false);
        if readable(0) {
            ended.read_signal()?;
        }
        if open && readable(1) {
            open = obey(control, group)?;
        }
    }
}

/// Kills what the program left behind. All of it has this process for a parent by now, or will when its own parent
/// is killed here.
fn end_orphans() {
    loop {
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        for pid in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        match waitpid(None, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Reads one command; false when the pipe is closed, in which case the group was killed.
fn obey(control: &mut BufReader<io::Stdin>, group: Pid) -> io::Result<bool> {
    let mut byte = [0u8; 1];
    let mut line = Vec::new();
    // Byte by byte: what stays in a buffer would not wake the poll.
    loop {
        if control.read(&mut byte)? == 0 {
            let _ = killpg(group, Signal::SIGKILL);
            return Ok(false);
        }
        if byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&line);
    let signal = text.strip_prefix("signal ").and_then(|number| number.parse::<i32>().ok());
    if let Some(signal) = signal.and_then(|number| Signal::try_from(number).ok()) {
        // A group that is already gone is what the signal was for.
        let _ = killpg(group, signal);
    }
    Ok(true)
}

/// What [`exec`] sets up before it becomes the program.
#[derive(Clone, Debug, Default)]
pub struct Exec {
    /// Join the mount namespace of this process (`kubectl exec`).
    pub join: Option<i32>,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// The second stage: dies with its parent, then becomes the program. Returns only when that fails.
pub fn exec(exec: &Exec) -> io::Error {
    match prepare(exec) {
        Err(error) => error,
        Ok(mut command) => command.exec(),
    }
}

fn prepare(exec: &Exec) -> io::Result<Command> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The helper blocked SIGCHLD and masks survive exec; the program gets a clean one.
    SigSet::empty().thread_set_mask()?;
    if let Some(pid) = exec.join {
        root::join(pid)?;
    }
    let Some((program, arguments)) = exec.command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program to run"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}
