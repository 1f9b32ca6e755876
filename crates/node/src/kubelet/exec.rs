//! Exec: one program beside a container's own, its streams carried to the client, its end told as a Status.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::process::init::EXEC_COMMAND;

/// Pieces under way in either direction; a slow client slows the program.
pub const PIECES: usize = 32;

/// What to run beside which container.
#[derive(Clone, Debug)]
pub struct ExecCommand {
    /// The helper's path.
    pub helper: PathBuf,
    /// The container's program, whose view of the file system is joined.
    pub join: i32,
    /// The program and its arguments, as the image table resolved them.
    pub command: Vec<String>,
    /// The container's environment.
    pub environment: BTreeMap<String, String>,
}

/// The client's side of a session, whatever protocol carries it.
pub struct Client {
    /// What the client types; closed when it has no more.
    pub stdin: Option<mpsc::Receiver<Bytes>>,
    /// The program's output.
    pub stdout: Option<mpsc::Sender<Bytes>>,
    /// The program's errors.
    pub stderr: Option<mpsc::Sender<Bytes>>,
}

/// Runs it to its end and says how that was, as a Status.
pub async fn run(exec: &ExecCommand, client: Client) -> Value {
    match on_pipes(exec, client).await {
        Ok(status) => status_of(status),
        Err(error) => failure("InternalError", &error.to_string()),
    }
}

/// The Status that the client's error stream carries: kubectl takes its exit code from the cause.
fn status_of(status: ExitStatus) -> Value {
    if status.success() {
        return json!({"metadata": {}, "status": "Success"});
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let message = format!("command terminated with non-zero exit code: exit status {code}");
    let mut answer = failure("NonZeroExitCode", &message);
    answer["details"] = json!({"causes": [{"reason": "ExitCode", "message": code.to_string()}]});
    answer
}

/// A Status for what kept the program from running.
pub fn failure(reason: &str, message: &str) -> Value {
    json!({"metadata": {}, "status": "Failure", "reason": reason, "message": message})
}

fn command(exec: &ExecCommand) -> Command {
    let mut command = Command::new(&exec.helper);
    command.arg(EXEC_COMMAND).arg("--join").arg(exec.join.to_string());
    command.arg("--").args(&exec.command).env_clear().envs(&exec.environment).kill_on_drop(true);
    command
}

async fn on_pipes(exec: &ExecCommand, client: Client) -> io::Result<ExitStatus> {
    let stdin = if client.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command(exec).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let input = child.stdin.take();
    let output = child.stdout.take().expect("standard output is a pipe");
    let errors = child.stderr.take().expect("standard error is a pipe");
    let feed = async {
        if let (Some(mut typed), Some(mut input)) = (client.stdin, input) {
            while let Some(bytes) = typed.recv().await {
                if input.write_all(&bytes).await.is_err() {
                    break;
                }
            }
        }
        // The program's end decides, not the client's.
        std::future::pending::<()>().await;
    };
    let streams = async { tokio::join!(pump(output, client.stdout), pump(errors, client.stderr)) };
    tokio::select! {
        biased;
        _ = streams => {}
        () = feed => {}
    }
    child.wait().await
}

/// Output until its end; what nobody asked for is read all the same, so that the program does not block.
async fn pump(mut from: impl AsyncRead + Unpin, to: Option<mpsc::Sender<Bytes>>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        if let Some(to) = &to
            && to.send(Bytes::copy_from_slice(&buffer[..count])).await.is_err()
        {
            return;
        }
    }
}
