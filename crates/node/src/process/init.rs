//! The hidden, single-threaded helper under which a container's program runs (`setpoint container-init`).
//!
//! It exists because namespaces and parent-death signals must be set up in a process before it execs. A running
//! multi-threaded server cannot do that to a child without unsafe code. The helper's standard input is the control
//! socket: one line of JSON ([`Launch`]) comes in, then one command per line; [`Report`] lines go out. When the
//! socket closes, its owner is gone, and the helper kills the program and all its descendants: no process outlives
//! its node. Standard output and error are the program's own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::SignalFd;
use nix::sys::stat::Mode;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::place;
use super::program::Program;
use super::root::{self, View};

/// The name of the subcommand that runs [`supervise`].
pub const INIT_COMMAND: &str = "container-init";
/// The name of the subcommand that runs [`exec`].
pub const EXEC_COMMAND: &str = "container-exec";
/// The variable that names the folder with the container's mounts if the host allows no mount namespace.
pub const ROOT_VARIABLE: &str = "SETPOINT_ROOT";

/// The program to run, and its environment.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// An empty folder for the container's view of the file system.
    pub root: PathBuf,
    /// The program's view of the file system.
    pub view: View,
    /// A running container whose view of the file system is joined (`kubectl exec`). Otherwise the helper creates
    /// one.
    pub join: Option<i32>,
    /// The named pipe for the program's input. Without it the program reads nothing.
    pub stdin: Option<PathBuf>,
    /// The terminal that replaces the pipes.
    pub terminal: Option<PathBuf>,
}

/// A message of the helper on its control socket, one line of JSON each.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// The program runs.
    Started {
        /// Its process id, which is also the id of its group.
        pid: i32,
        /// Whether it has its own mount namespace.
        isolated: bool,
    },
    /// The program exited.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal ended the program.
    Signaled {
        /// The signal.
        signal: i32,
    },
    /// The program could not be started.
    Failed {
        /// The cause.
        message: String,
    },
}

/// A command on the control socket after the first line: `signal N`.
pub fn signal_line(signal: i32) -> String {
    format!("signal {signal}\n")
}

/// The helper's main: runs one program to its end. Returns the helper's own exit code.
pub fn supervise() -> i32 {
    match control().and_then(|control| run(&control)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("the container helper has no control socket: {error}");
            1
        }
    }
}

/// The control socket is the standard input.
fn control() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

fn run(control: &UnixStream) -> io::Result<()> {
    let mut lines = control;
    match start(control) {
        Ok((child, isolated)) => {
            let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
            report(&mut lines, &Report::Started { pid, isolated });
            match watch(child, control) {
                Ok(end) => report(&mut lines, &end),
                Err(error) => report(&mut lines, &Report::Failed { message: error.to_string() }),
            }
        }
        Err(error) => report(&mut lines, &Report::Failed { message: error.to_string() }),
    }
    Ok(())
}

fn report(control: &mut impl Write, report: &Report) {
    let line = serde_json::to_string(report).expect("a report has a JSON form");
    // If the other end of the socket is gone, the next read reports it.
    let _ = writeln!(control, "{line}");
}

fn start(control: &UnixStream) -> io::Result<(Child, bool)> {
    let line = read_line(control)?.unwrap_or_default();
    let mut launch: Launch = serde_json::from_slice(&line)?;
    let stdin = match &launch.stdin {
        Some(path) => Stdio::from(open_input(path)?),
        None => Stdio::null(),
    };
    // Open the program before the volumes are mounted, which may hide it.
    let program = Program::open(&launch.command)?;
    let isolated = enter(&mut launch)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(EXEC_COMMAND).arg("--program").arg(program.inherit()?.to_string());
    command.env_clear().envs(&launch.environment).stdin(stdin);
    match &launch.terminal {
        // The second stage leads its own session, which the leader of a process group cannot.
        Some(terminal) => drop(command.arg("--terminal").arg(terminal)),
        None => drop(command.process_group(0)),
    }
    command.arg("--").args(&program.arguments);
    if let Some(folder) = &launch.view.directory {
        command.current_dir(folder);
    }
    // Orphans of the program become children of this process, so that it can find and end them.
    prctl::set_child_subreaper(true)?;
    // Signals are blocked before the child exists, so that its end cannot be missed.
    child_ended()?;
    Ok((command.spawn()?, isolated))
}

/// Opens the named pipe of the program's input. Opening waits for no writer: a client may have closed the input already,
/// and a helper that waits here does not see that its node is gone.
fn open_input(path: &Path) -> io::Result<OwnedFd> {
    let pipe = nix::fcntl::open(path, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, Mode::empty())?;
    // Programs expect reads that wait.
    nix::fcntl::fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(pipe)
}

/// Enters the container's view of the file system. Returns false if it has none of its own.
fn enter(launch: &mut Launch) -> io::Result<bool> {
    let isolated = match launch.join {
        Some(pid) => root::join(pid)?,
        None => root::isolate(&launch.root, &launch.view)?,
    };
    if !isolated {
        root::link(&launch.root, &launch.view)?;
        launch.environment.insert(ROOT_VARIABLE.into(), launch.root.to_string_lossy().into_owned());
        let directory = launch.view.directory.take();
        launch.view.directory = directory.map(|folder| root::under(&launch.root, &folder));
    }
    Ok(isolated)
}

fn child_ended() -> io::Result<SignalFd> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    let mut blocked = mask;
    // Only the control socket ends the helper. If a signal to the whole group (Ctrl-C) ended it, the program's
    // children would stay.
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        blocked.add(signal);
    }
    blocked.thread_block()?;
    Ok(SignalFd::new(&mask)?)
}

/// Waits for the program's end and obeys the control socket.
fn watch(mut child: Child, control: &UnixStream) -> io::Result<Report> {
    let program = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let ended = child_ended()?;
    let mut open = true;
    loop {
        if let Some(status) = child.try_wait()? {
            // The program may have left children, in its group or in their own.
            let _ = killpg(program, Signal::SIGKILL);
            end_orphans();
            return Ok(match status.code() {
                Some(code) => Report::Exited { code },
                None => Report::Signaled { signal: status.signal().unwrap_or(0) },
            });
        }
        let mut waits = vec![PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
        if open {
            waits.push(PollFd::new(control.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut waits, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let readable = |at: usize| waits.get(at).and_then(PollFd::any).unwrap_or(false);
        let (has_ended, is_told) = (readable(0), readable(1));
        if has_ended {
            ended.read_signal()?;
        }
        if open && is_told {
            open = obey(control, program)?;
        }
    }
}

/// Kills the program's descendants. All of them are children of this process by now, or will be once their parent is
/// killed here.
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

/// Reads one command. Returns false when the socket is closed; the program was then killed.
fn obey(control: &UnixStream, program: Pid) -> io::Result<bool> {
    let line = read_line(control)?;
    let open = line.is_some();
    let text = String::from_utf8_lossy(line.as_deref().unwrap_or(b"signal 9")).into_owned();
    let signal = text.strip_prefix("signal ").and_then(|number| number.parse::<i32>().ok());
    if let Some(signal) = signal.and_then(|number| Signal::try_from(number).ok()) {
        // A missing group was killed already. If the group does not exist yet, its leader does.
        if killpg(program, signal).is_err() {
            let _ = kill(program, signal);
        }
    }
    Ok(open)
}

/// Reads one line without its end, or `None` when the socket is closed. Reads byte by byte: bytes in a buffer would
/// not wake the poll.
fn read_line(mut control: &UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut byte = [0u8; 1];
    loop {
        match control.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) if byte[0] == b'\n' => return Ok(Some(line)),
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// The setup of [`exec`] before it becomes the program.
#[derive(Clone, Debug, Default)]
pub struct Exec {
    /// The terminal that the program gets.
    pub terminal: Option<PathBuf>,
    /// The inherited descriptor of the program's file.
    pub program: i32,
    /// The arguments, the program's name first.
    pub command: Vec<OsString>,
}

/// The second stage: dies with its parent, then becomes the program. Returns only when that fails.
pub fn exec(exec: &Exec) -> io::Error {
    match prepare(exec) {
        Err(error) => error,
        Ok((mut command, _file)) => command.exec(),
    }
}

/// Returns the command, and the file that must stay open until it is executed.
fn prepare(exec: &Exec) -> io::Result<(Command, OwnedFd)> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The helper's blocked signals would survive exec, so the program gets a clean mask.
    SigSet::empty().thread_set_mask()?;
    let Some((name, arguments)) = exec.command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program to run"));
    };
    // The inherited descriptor is closed with this process, so the program gets no descriptor of its own file.
    let inherited = format!("/proc/self/fd/{}", exec.program);
    let file = nix::fcntl::open(inherited.as_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    nix::unistd::close(exec.program)?;
    // By path, so that the standard library resets signals as for any program. The path leads to the open file.
    let mut command = Command::new(place::path_of(&file));
    command.arg0(name).args(arguments);
    if let Some(path) = &exec.terminal {
        // The first terminal that a session leader opens becomes the controlling terminal.
        nix::unistd::setsid()?;
        let terminal = File::options().read(true).write(true).open(path)?;
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
    }
    Ok((command, file))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_input_without_a_writer_is_opened_at_once_and_read_as_long_as_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdin");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let (sender, opened) = mpsc::channel();
        let own = path.clone();
        // Nobody joins the thread: it would wait for ever if opening waited.
        std::thread::Builder::new().spawn(move || sender.send(open_input(&own))).unwrap();
        let opened = opened.recv_timeout(Duration::from_secs(30)).expect("opening waits for nobody");
        let mut text = String::new();
        File::from(opened.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "");

        let writer = File::options().read(true).write(true).open(&path).unwrap();
        let mut reader = File::from(open_input(&path).unwrap());
        (&writer).write_all(b"typed").unwrap();
        drop(writer);
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "typed");
    }
}
