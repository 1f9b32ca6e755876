//! The log behind its lock, and the bell that wakes the thread which drives it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::WriteResult;
use crate::error::WriteError;
use crate::log::Writer;

/// The log of a store, and its driver. On a real disk a separate thread drives the log: a sync may block for a long
/// time, and would hold up all other tasks of a runtime worker. On a disk that never blocks, the committing task
/// drives the log, so a store on a simulated disk needs no other thread.
pub(crate) struct Log {
    /// `None` after the log was closed.
    writer: Mutex<Option<Writer>>,
    bell: Mutex<Bell>,
    rung: Condvar,
    pub(crate) has_thread: bool,
}

/// The thread's reasons to wake up.
#[derive(Default)]
struct Bell {
    work: bool,
    stop: bool,
    /// The thread has ended and no longer looks at the bell.
    ended: bool,
    commands: Vec<Command>,
}

pub(crate) enum Command {
    PutBlob { name: String, bytes: Bytes, done: oneshot::Sender<WriteResult> },
    ShutDown { done: oneshot::Sender<WriteResult> },
}

impl Log {
    /// Creates the handle of an open log. `has_thread` says whether a thread drives the log.
    pub(crate) fn new(writer: Writer, has_thread: bool) -> Self {
        Log { writer: Mutex::new(Some(writer)), bell: Mutex::default(), rung: Condvar::new(), has_thread }
    }

    /// Takes the commands that wait for the driver.
    pub(crate) fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut self.bell().commands)
    }

    fn bell(&self) -> MutexGuard<'_, Bell> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread: there is something to write.
    pub(crate) fn ring(&self) {
        if self.has_thread {
            self.bell().work = true;
            self.rung.notify_one();
        }
    }

    /// Asks the thread to end, even if writes are left.
    pub(crate) fn stop(&self) {
        self.bell().stop = true;
        self.rung.notify_one();
    }

    pub(crate) fn command(&self, command: Command) {
        let mut bell = self.bell();
        if bell.ended {
            return command.done(Err(WriteError::Closed));
        }
        bell.commands.push(command);
        drop(bell);
        self.ring();
    }

    /// Ends all writing and releases the lock of the folder.
    pub(crate) fn end(&self) {
        let mut bell = self.bell();
        bell.ended = true;
        bell.commands.drain(..).for_each(|command| command.done(Err(WriteError::Closed)));
        drop(bell);
        *self.writer() = None;
    }

    /// Waits until there is work, or returns at once if `more` is set. Returns false when the thread should end.
    pub(crate) fn wait(&self, more: bool) -> bool {
        let mut bell = self.bell();
        while !more && !bell.work && !bell.stop {
            bell = self.rung.wait(bell).unwrap_or_else(PoisonError::into_inner);
        }
        bell.work = false;
        !bell.stop
    }
}

impl Command {
    pub(crate) fn done(self, result: WriteResult) {
        let (Command::PutBlob { done, .. } | Command::ShutDown { done }) = self;
        let _ = done.send(result);
    }
}
