//! Requests of other commands to the process of a named cluster, over a socket in the cluster's folder. The folder is
//! its owner's alone, so whoever can connect may ask.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use setpoint_store::{Directory, Store};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

/// The longest request. A longer one is cut, and does not decode then.
const REQUEST_BYTES: u64 = 64 << 10;

/// Time for a request to arrive.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// A request, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Write a copy of the store to this folder.
    Save(PathBuf),
}

/// The answer, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// The revision of the copy.
    Saved(u64),
    /// The reason why there is none.
    Failed(String),
}

/// The socket of a cluster.
pub struct Control(UnixListener);

impl Control {
    /// Opens the socket. The caller holds the cluster's lock, so a socket that is there is of a process that is gone.
    pub fn bind(path: &Path) -> Result<Control> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let listener = UnixListener::bind(path);
        Ok(Control(listener.with_context(|| format!("cannot listen on {}", path.display()))?))
    }

    /// Answers one request after the other until `stop`.
    pub async fn serve(self, store: Store, stop: CancellationToken) {
        while let Some(Ok((stream, _))) = stop.run_until_cancelled(self.0.accept()).await {
            // A client that is gone needs no answer.
            let _ = stop.run_until_cancelled(answer(stream, &store)).await;
        }
    }
}

async fn answer(mut stream: UnixStream, store: &Store) -> io::Result<()> {
    let mut line = String::new();
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader.take(REQUEST_BYTES));
    // A client that says nothing must not keep the others waiting.
    tokio::time::timeout(REQUEST_WITHIN, reader.read_line(&mut line)).await??;
    let answer = match serde_json::from_str(&line) {
        Ok(Request::Save(folder)) => save(store.clone(), folder).await,
        Err(error) => Answer::Failed(format!("unknown request: {error}")),
    };
    writer.write_all(serde_json::to_string(&answer)?.as_bytes()).await
}

async fn save(store: Store, folder: PathBuf) -> Answer {
    let saved =
        tokio::task::spawn_blocking(move || -> Result<u64> { Ok(store.save(&Directory::new(&folder)?)?) });
    match saved.await.map_err(anyhow::Error::from).flatten() {
        Ok(revision) => Answer::Saved(revision),
        Err(error) => Answer::Failed(format!("{error:#}")),
    }
}

/// Asks the process of a cluster for a copy. Returns its revision.
pub fn ask_to_save(socket: &Path, folder: &Path) -> Result<u64> {
    let mut stream = net::UnixStream::connect(socket).context("the cluster takes no requests")?;
    let request = serde_json::to_string(&Request::Save(std::path::absolute(folder)?))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    match serde_json::from_str::<Answer>(&text).context("the cluster ended before it answered")? {
        Answer::Saved(revision) => Ok(revision),
        Answer::Failed(why) => bail!("{}: {why}", folder.display()),
    }
}
