//! Exec: one program beside a container's own. Its streams go to the client, and its end is reported as a Status.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use super::container::named_pipe;
use super::init::Launch;
use super::streams::Client;
use super::supervised::{self, Condition, End, Supervised};
use super::terminal::Terminal;

/// A command to run beside a container.
#[derive(Clone, Debug)]
pub struct ExecCommand {
    /// The helper's path.
    pub helper: PathBuf,
    /// The program, as the image table resolved it, in the container's environment.
    pub launch: Box<Launch>,
    /// Path for the pipe of its input.
    pub stdin: PathBuf,
    /// The container. This command ends with it.
    pub beside: watch::Receiver<Condition>,
}

/// Runs the command to its end, and returns the Status that describes the end.
pub async fn run(exec: ExecCommand, client: Client) -> Value {
    let mut beside = exec.beside.clone();
    let over = beside.wait_for(|condition| matches!(condition, Condition::Ended(_)));
    let ended = tokio::select! {
        biased;
        ended = on_streams(exec, client) => ended,
        _ = over => Ok(End { code: 137, signal: Some(9), message: None }),
    };
    match ended {
        Ok(End { message: Some(message), .. }) => failure("InternalError", &message),
        Ok(end) => status_of(&end),
        Err(error) => failure("InternalError", &error.to_string()),
    }
}

/// The Status that the client's error stream carries: kubectl takes its exit code from the cause.
fn status_of(end: &End) -> Value {
    if end.code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    let message = format!("command terminated with non-zero exit code: exit status {}", end.code);
    let mut answer = failure("NonZeroExitCode", &message);
    answer["details"] = json!({"causes": [{"reason": "ExitCode", "message": end.code.to_string()}]});
    answer
}

/// Returns the Status for a program that could not run.
pub fn failure(reason: &str, message: &str) -> Value {
    json!({"metadata": {}, "status": "Failure", "reason": reason, "message": message})
}

async fn on_streams(mut exec: ExecCommand, client: Client) -> io::Result<End> {
    // A container that was started a moment ago has no process yet.
    let begun = exec.beside.wait_for(|condition| *condition != Condition::Starting).await;
    exec.launch.join = match begun.map(|condition| condition.clone()) {
        Ok(Condition::Running { pid }) => Some(pid),
        _ => return Ok(End::failed("the container has ended".into())),
    };
    if client.tty {
        let terminal = Arc::new(Terminal::open()?);
        exec.launch.terminal = Some(terminal.path().clone());
        return on_terminal(exec, client, terminal).await;
    }
    let input = match &client.stdin {
        Some(_) => {
            exec.launch.stdin = Some(exec.stdin.clone());
            Some(named_pipe(&exec.stdin)?)
        }
        None => None,
    };
    let Supervised { stdout, stderr, helper, signals: _signals } =
        supervised::start(&exec.helper, &exec.launch)?;
    let (report, condition) = watch::channel(Condition::Starting);
    let feed = feed_pipe(client.stdin, input, condition, &exec.stdin);
    let streams = async { tokio::join!(pump(stdout, client.stdout), pump(stderr, client.stderr)) };
    let ended = async { tokio::join!(helper.watch(&report), streams).0 };
    tokio::select! {
        biased;
        end = ended => Ok(end),
        never = feed => match never {},
    }
}

/// Copies the client's input until its end. The program's end decides when the session ends, not the client's.
async fn feed_pipe(
    typed: Option<mpsc::Receiver<Bytes>>,
    input: Option<pipe::Sender>,
    mut condition: watch::Receiver<Condition>,
    name: &std::path::Path,
) -> std::convert::Infallible {
    // If the pipe were closed before the program has opened it, opening it would never return.
    let _ = condition.wait_for(|condition| *condition != Condition::Starting).await;
    if let (Some(mut typed), Some(mut input)) = (typed, input) {
        let _ = std::fs::remove_file(name);
        while let Some(bytes) = typed.recv().await {
            if input.write_all(&bytes).await.is_err() {
                break;
            }
        }
    }
    std::future::pending().await
}

async fn on_terminal(exec: ExecCommand, client: Client, terminal: Arc<Terminal>) -> io::Result<End> {
    let Client { mut stdin, stdout, mut resize, .. } = client;
    let Supervised { helper, signals: _signals, .. } = supervised::start(&exec.helper, &exec.launch)?;
    let (report, _condition) = watch::channel(Condition::Starting);
    let typing = async {
        loop {
            tokio::select! {
                biased;
                size = next(&mut resize) => terminal.resize(size),
                bytes = next(&mut stdin) => drop(terminal.write_all(&bytes).await),
            }
        }
    };
    let watched = async {
        let end = helper.watch(&report).await;
        terminal.hang_up();
        end
    };
    let shown = async {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Ok(count) = terminal.read(&mut buffer).await
            && count > 0
        {
            if let Some(stdout) = &stdout {
                let _ = stdout.send(Bytes::copy_from_slice(&buffer[..count])).await;
            }
        }
    };
    tokio::select! {
        biased;
        (end, ()) = async { tokio::join!(watched, shown) } => Ok(end),
        never = typing => never,
    }
}

/// Returns the next message of the client. Waits forever if the client sends none, or no more.
pub(super) async fn next<T>(from: &mut Option<mpsc::Receiver<T>>) -> T {
    if let Some(receiver) = from {
        if let Some(item) = receiver.recv().await {
            return item;
        }
        *from = None;
    }
    std::future::pending().await
}

const PIECE_BYTES: usize = 16 * 1024;

/// Copies output until its end. Output that the client did not request is read and dropped, so that the program does
/// not block.
async fn pump(mut from: impl AsyncRead + Unpin, to: Option<mpsc::Sender<Bytes>>) {
    let mut buffer = vec![0; PIECE_BYTES];
    while let Ok(count) = from.read(&mut buffer).await
        && count > 0
    {
        if let Some(to) = &to
            && to.send(Bytes::copy_from_slice(&buffer[..count])).await.is_err()
        {
            return;
        }
    }
}
