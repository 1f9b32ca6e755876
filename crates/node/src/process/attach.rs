//! Attach: a running container's own streams, from now on until it ends or the client goes.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use super::container::Stdin;
use super::exec::next;
use super::streams::Client;
use super::supervised::Condition;
use crate::log::Origin;

/// The streams of one container.
pub struct Attachment {
    /// The program's output from now on.
    pub output: broadcast::Receiver<(Origin, Bytes)>,
    /// The program's input.
    pub stdin: Stdin,
    /// Whether the input ends with this session.
    pub once: bool,
    /// The program's state.
    pub condition: watch::Receiver<Condition>,
}

/// Carries the streams until the container ends.
pub async fn run(attachment: Attachment, client: Client) -> Value {
    let Attachment { mut output, stdin, once, mut condition } = attachment;
    let mut starting = condition.clone();
    let Client { stdin: mut typed, stdout, stderr, mut resize, .. } = client;
    let show = async |(origin, bytes): (Origin, Bytes)| {
        let to = if origin == Origin::Stderr { &stderr } else { &stdout };
        if let Some(to) = to {
            let _ = to.send(bytes).await;
        }
    };
    let typing = async {
        loop {
            tokio::select! {
                biased;
                size = next(&mut resize) => if let Stdin::Terminal(terminal) = &stdin { terminal.resize(size) },
                bytes = read(&mut typed) => match bytes {
                    Some(bytes) => type_in(&stdin, &bytes).await,
                    None if once => {
                        // A program that has not opened the pipe yet would lose what was typed.
                        let _ = starting.wait_for(|condition| *condition != Condition::Starting).await;
                        close(&stdin);
                    }
                    None => {}
                },
            }
        }
    };
    let showing = async {
        loop {
            match output.recv().await {
                Ok(piece) => show(piece).await,
                // A client that was too slow missed some output, which the log has.
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    };
    tokio::select! {
        biased;
        () = showing => {}
        () = typing => {}
        _ = condition.wait_for(|condition| matches!(condition, Condition::Ended(_))) => {}
    }
    while let Ok(piece) = output.try_recv() {
        show(piece).await;
    }
    json!({"metadata": {}, "status": "Success"})
}

/// Reads the client's input. At its end returns `None` once, and then waits forever.
async fn read(typed: &mut Option<tokio::sync::mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match typed {
        Some(receiver) => {
            let bytes = receiver.recv().await;
            if bytes.is_none() {
                *typed = None;
            }
            bytes
        }
        None => std::future::pending().await,
    }
}

async fn type_in(stdin: &Stdin, mut bytes: &[u8]) {
    match stdin {
        Stdin::Terminal(terminal) => drop(terminal.write_all(bytes).await),
        Stdin::Pipe(pipe) => {
            let sender = pipe.lock().expect("no holder of this lock panics").clone();
            let Some(sender) = sender else { return };
            while !bytes.is_empty() && sender.writable().await.is_ok() {
                match sender.try_write(bytes) {
                    Ok(count) => bytes = &bytes[count..],
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        }
        Stdin::None => {}
    }
}

fn close(stdin: &Stdin) {
    if let Stdin::Pipe(pipe) = stdin {
        *pipe.lock().expect("no holder of this lock panics") = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::unix::pipe;
    use tokio::sync::mpsc;

    use super::*;
    use crate::process::container::named_pipe;

    /// `kubectl run -i` may have sent all its input before the helper has started the program.
    #[tokio::test]
    async fn input_that_ends_before_the_program_starts_reaches_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdin");
        let pipe = Arc::new(Mutex::new(Some(Arc::new(named_pipe(&path).unwrap()))));
        let (report, condition) = watch::channel(Condition::Starting);
        let (_shown, output) = broadcast::channel(1);
        let stdin = Stdin::Pipe(pipe.clone());
        let (typed, receiver) = mpsc::channel(1);
        typed.send(Bytes::from_static(b"typed")).await.unwrap();
        drop(typed);
        let client = Client { stdin: Some(receiver), ..Client::default() };
        let mut session = tokio::task::JoinSet::new();
        session.spawn(run(Attachment { output, stdin, once: true, condition }, client));
        let program = async {
            // Other tasks run until nothing is left to do: the client's end is known by then.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let mut opened = pipe::OpenOptions::new().open_receiver(&path).unwrap();
            report.send(Condition::Running { pid: 1 }).unwrap();
            let mut text = String::new();
            opened.read_to_string(&mut text).await.unwrap();
            text
        };
        let text = tokio::time::timeout(Duration::from_secs(30), program).await.expect("the input ends");
        assert_eq!(text, "typed");
        report.send(Condition::Ended(crate::process::supervised::End::failed(String::new()))).unwrap();
        session.join_next().await.unwrap().unwrap();
    }
}
