//! The async shell around the log: hands batches to the log, and tells the state which batches are durable.

use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::WriteResult;
use crate::disk::Disk;
use crate::error::{OpenError, Recovery, WriteError};
use crate::log::{Opened, Writer};
use crate::log_handle::{Command, Log};
use crate::options::Options;
use crate::shared::{Shared, Wait};

type Ready = (Arc<Shared>, Recovery, Option<JoinHandle<()>>);

pub(crate) async fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Ready, OpenError> {
    if !disk.blocks() {
        let (shared, report) = load(disk, &options)?;
        return Ok((shared, report, None));
    }
    let (sender, receiver) = oneshot::channel();
    let main = move || match load(disk, &options) {
        Err(error) => _ = sender.send(Err(error)),
        Ok((shared, report)) => {
            // If the caller of `open` is gone, this drops the store and closes its files again.
            if sender.send(Ok((shared.clone(), report))).is_ok() {
                shared.run_log();
            }
        }
    };
    let thread = std::thread::Builder::new().name("setpoint-store".to_owned()).spawn(main);
    let thread = thread.map_err(|error| OpenError::io("start a thread for", "the log", error))?;
    let (shared, report) = receiver.await.expect("the thread answers before it ends")?;
    Ok((shared, report, Some(thread)))
}

fn load(disk: Arc<dyn Disk>, options: &Options) -> Result<(Arc<Shared>, Recovery), OpenError> {
    let has_thread = disk.blocks();
    let Opened { mut state, blobs, writer, report } = Writer::open(disk, options)?;
    if let Some(cut) = &report.cut {
        tracing::warn!(
            file = cut.file,
            offset = cut.offset,
            bytes = cut.bytes,
            "cut an unfinished write off the log"
        );
    }
    if let Some(jump) = &report.jumped {
        tracing::warn!(
            from = jump.from,
            to = jump.to,
            "the last run did not stop cleanly and had no fsync; the revision jumped"
        );
    }
    state.wait_for_log();
    Ok((Shared::new(state, blobs, Some(Log::new(writer, has_thread))), report))
}

impl Shared {
    /// The main loop of the log's thread.
    fn run_log(&self) {
        let log = self.log.as_ref().expect("only a store with a log has a thread");
        let _end = EndLog { shared: self, log };
        let mut more = false;
        while log.wait(more) && log.writer().is_some() {
            more = self.pump();
        }
    }

    /// Writes the next batch and does one step of upkeep. Returns true if more upkeep is left.
    fn pump(&self) -> bool {
        let Some(log) = &self.log else { return false };
        let mut writer = log.writer();
        let commands = log.take_commands();
        let Some(open) = writer.as_mut() else {
            commands.into_iter().for_each(|command| command.done(Err(WriteError::Closed)));
            return false;
        };
        self.write_batch(open);
        let mut closing = Vec::new();
        for command in commands {
            match command {
                Command::PutBlob { name, bytes, done } => _ = done.send(self.write_blob(open, &name, bytes)),
                Command::ShutDown { done } => closing.push(done),
            }
        }
        if closing.is_empty() {
            return self.keep_up(open);
        }
        // Writes the transactions that were accepted before the store began to close.
        self.write_batch(open);
        let writable = self.state().failed.is_none();
        if let Some(writer) = writer.take().filter(|_| writable)
            && let Err(error) = writer.close()
        {
            tracing::warn!(%error, "could not close the log cleanly");
        }
        self.close();
        closing.into_iter().for_each(|done| _ = done.send(Ok(())));
        false
    }

    fn write_batch(&self, writer: &mut Writer) {
        let Some(batch) = self.state().take_batch() else { return };
        match writer.commit(&batch.events) {
            Ok(()) => {
                let published = self.state().publish_batch(batch);
                self.announce(published);
            }
            Err(error) => self.refuse(error),
        }
    }

    /// Fails every write in flight. If `error` is permanent, all later writes fail too.
    fn refuse(&self, error: WriteError) {
        // The gate excludes a transaction that has chosen its revision but not yet written it.
        let _gate = self.gate();
        let mut state = self.state();
        if let WriteError::Failed(cause) = &error {
            tracing::error!(error = %cause, "the disk failed; writes are refused until the store is opened again");
            state.failed = Some(error.clone());
        }
        state.give_up(&error);
    }

    fn write_blob(&self, writer: &mut Writer, name: &str, bytes: Bytes) -> WriteResult {
        if let Some(error) = self.state().failed.clone() {
            return Err(error);
        }
        let result = writer.put_blob(name, &bytes);
        match &result {
            Ok(()) => _ = self.blobs().insert(name.to_owned(), bytes),
            Err(error @ WriteError::Failed(_)) => self.refuse(error.clone()),
            Err(_) => {}
        }
        result
    }

    fn keep_up(&self, writer: &mut Writer) -> bool {
        let root = {
            let state = self.state();
            if state.failed.is_some() {
                return false;
            }
            state.visible.clone()
        };
        writer.maintain(&root).unwrap_or_else(|error| {
            self.refuse(error);
            false
        })
    }

    /// Waits until the amount of data in flight to the disk allows another transaction.
    pub(crate) async fn room(&self) -> WriteResult {
        while self.log.is_some() {
            let wait = {
                let mut state = self.state();
                let basis = state.basis();
                if state.is_backed_up() { state.wait_for(basis) } else { None }
            };
            match wait {
                None => break,
                wait => self.finish(wait).await?,
            }
        }
        Ok(())
    }

    /// Waits until the log has done the work that `wait` stands for.
    pub(crate) async fn finish(&self, wait: Wait) -> WriteResult {
        let Some(done) = wait else { return Ok(()) };
        self.drive().await;
        done.await.unwrap_or(Err(WriteError::Closed))
    }

    /// Without a thread, a waiting task does the work, after all other ready tasks have had a chance to join the
    /// batch.
    async fn drive(&self) {
        if self.log.as_ref().is_some_and(|log| !log.has_thread) {
            let _even_if_dropped = PumpOnDrop(self);
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn put_blob(&self, name: &str, bytes: Bytes) -> WriteResult {
        let Some(log) = &self.log else {
            self.blobs().insert(name.to_owned(), bytes);
            return Ok(());
        };
        let (done, wait) = oneshot::channel();
        log.command(Command::PutBlob { name: name.to_owned(), bytes, done });
        self.finish(Some(wait)).await
    }

    pub(crate) async fn shut_down(&self) {
        self.state().closing = true;
        let Some(log) = &self.log else { return self.close() };
        let (done, wait) = oneshot::channel();
        log.command(Command::ShutDown { done });
        // An error here means that the log was closed already.
        let _ = self.finish(Some(wait)).await;
        self.close();
    }
}

struct PumpOnDrop<'a>(&'a Shared);

impl Drop for PumpOnDrop<'_> {
    fn drop(&mut self) {
        self.0.pump();
    }
}

/// Fails all waiting writes when the thread ends, also by a panic (a commit hook may panic on it).
struct EndLog<'a> {
    shared: &'a Shared,
    log: &'a Log,
}

impl Drop for EndLog<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = std::io::Error::other("the log's thread panicked");
            self.shared.refuse(WriteError::Failed(Arc::new(error)));
        }
        self.log.end();
    }
}
