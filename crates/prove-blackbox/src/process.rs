//! A process and its children, as the operating system sees them: do they compute, or do they only wait?
//!
//! Linux tells it for each thread. Elsewhere a process always seems to wait, and only the patience tells its rest.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use setpoint_prove::Activity;
use tokio::time::Instant;

/// A process uses a processor for less than one part in so many of the time while it only waits for timers.
const IDLE: u32 = 5;

/// A running program. Its number is known once it has been started.
#[derive(Default)]
pub struct Watched(Mutex<State>);

#[derive(Default)]
struct State {
    leader: Option<i32>,
    /// The last look, and the processor time up to then.
    last: Option<(Instant, Duration)>,
}

/// A look at all threads.
#[derive(Default)]
struct Look {
    /// Whether a thread runs, or waits for a processor or for a disk.
    runs: bool,
    /// The processor time of all threads that still exist.
    spent: Duration,
}

impl Watched {
    /// Notes the number of the process.
    pub fn started(&self, leader: Option<i32>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).leader = leader;
    }
}

impl Activity for Watched {
    fn is_busy(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(leader) = state.leader else { return true };
        let mut look = Look::default();
        look.process(leader);
        let now = Instant::now();
        let last = state.last.replace((now, look.spent));
        let computed = last.is_some_and(|(moment, before)| {
            look.spent.saturating_sub(before) * IDLE > now.duration_since(moment)
        });
        look.runs || computed
    }
}

impl Look {
    /// Adds the threads of a process and of its children. A process that ended meanwhile adds nothing.
    fn process(&mut self, number: i32) {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{number}/task")) else { return };
        let threads: Vec<PathBuf> = threads.filter_map(|thread| Some(thread.ok()?.path())).collect();
        for thread in &threads {
            self.thread(thread);
        }
        let children =
            threads.iter().filter_map(|thread| std::fs::read_to_string(thread.join("children")).ok());
        let children: Vec<i32> = children
            .flat_map(|line| {
                line.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<i32>>()
            })
            .collect();
        children.into_iter().for_each(|child| self.process(child));
    }

    fn thread(&mut self, folder: &Path) {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        // The name of the program, in brackets, may have spaces and brackets in it.
        self.runs |= read("stat").rsplit(") ").next().is_some_and(|rest| rest.starts_with(['R', 'D']));
        let nanos = read("schedstat").split(' ').next().and_then(|word| word.parse().ok());
        self.spent += Duration::from_nanos(nanos.unwrap_or_default());
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Calls `look` until it returns what is expected.
    fn becomes(watched: &Watched, busy: bool) {
        while watched.is_busy() != busy {
            std::thread::yield_now();
        }
    }

    fn shell(script: &str) -> (Child, Watched) {
        let mut shell = Command::new("sh");
        // Closing this end ends a program that reads it, also if its parent was killed.
        let child = shell.args(["-c", script]).stdin(Stdio::piped()).spawn().expect("a shell starts");
        let watched = Watched::default();
        watched.started(i32::try_from(child.id()).ok());
        (child, watched)
    }

    #[test]
    fn a_process_that_computes_is_busy_and_one_that_waits_is_not() {
        assert!(Watched::default().is_busy(), "a program that is about to start is not at rest");
        for (script, busy) in [("while :; do :; done", true), ("cat", false), ("cat; :", false)] {
            let (mut child, watched) = shell(script);
            becomes(&watched, busy);
            child.kill().unwrap();
            child.wait().unwrap();
            becomes(&watched, false);
        }
    }

    #[test]
    fn a_child_of_the_process_counts() {
        // The shell ends its child when its input ends. A child that outlived it would hold the output of this test.
        let (mut shell, watched) = shell("while :; do :; done & read _; kill $!");
        becomes(&watched, true);
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
