//! Connections that hold what they should not, or keep others out.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Quiet, said};
use crate::run::Played;
use crate::servers::Server;
use crate::socket::{self, Stream, ends, frame, preface};

const H2: &[u8] = b"h2";
const H1: &[u8] = b"http/1.1";
/// Growth of resident memory that no connection may cause. kube-apiserver's own rhythm of collection is within it.
const GROWTH_MIB: u64 = 400;

/// Bytes that a client sends until the server takes no more, or all are sent.
async fn push(stream: &mut Stream, block: &[u8], times: usize, within: Duration) -> &'static str {
    let all = async {
        for _ in 0..times {
            if stream.write_all(block).await.is_err() {
                return "ended";
            }
        }
        "taken"
    };
    tokio::time::timeout(within, all).await.unwrap_or("stalled")
}

/// Checks the quiet user and the memory beside an attack on a connection.
async fn beside(server: &mut Server, before: u64, quiet: Quiet, growth: u64) -> Result<Vec<String>> {
    let mut broken = quiet.end().await?;
    let after = server.memory_mib();
    // The Go runtime gives memory back when it likes; the bound is for ours.
    if server.name == "ours" && after > before + growth {
        broken.push(format!("resident memory grew from {before} to {after} MiB"));
    }
    Ok(broken)
}

/// Thirty connections ask for a large list many times and open no window.
pub async fn window_zero(server: &mut Server) -> Result<Played> {
    let maps = "/api/v1/namespaces/kube-public/configmaps";
    for at in 0..8 {
        let name = json!({"name": format!("large-{at}")});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"k": "x".repeat(900_000)}});
        let made = server.ask("admin", &format!("POST {maps}"), Some(map)).await?;
        ensure!(matches!(made.status, 201 | 409), "{}", made.status);
    }
    let before = server.memory_mib();
    let quiet = Quiet::begin(server);
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = socket::open(server, "admin", H2).await?;
        // SETTINGS_INITIAL_WINDOW_SIZE of 0: no body may be sent.
        stream.write_all(&preface(&[(4, 0)])).await?;
        for number in 0..90_u32 {
            stream.write_all(&frame(1, 5, number * 2 + 1, &socket::get(maps))).await?;
        }
        held.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let broken = beside(server, before, quiet, GROWTH_MIB).await?;
    drop(held);
    server.ask("admin", &format!("DELETE {maps}"), None).await?;
    Ok(said("answered beside", broken))
}

/// More connections than a server lets strangers have, in silence.
pub async fn silent(server: &mut Server) -> Result<Played> {
    let mut held = Vec::new();
    for _ in 0..600 {
        held.push(socket::tcp(server).await?);
    }
    let began = Instant::now();
    let quiet = Quiet::begin(server);
    let broken = quiet.end().await?;
    drop(held);
    Ok(said(format!("answered after {} s", began.elapsed().as_secs() / 10 * 10), broken))
}

/// The beginning of a ClientHello, on many connections.
pub async fn half_handshake(server: &mut Server) -> Result<Played> {
    let mut held = Vec::new();
    for _ in 0..100 {
        let mut stream = socket::tcp(server).await?;
        stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).await?;
        held.push(stream);
    }
    let quiet = Quiet::begin(server);
    let mut broken = quiet.end().await?;
    let deadline = Instant::now() + Duration::from_secs(40);
    let mut open = 0;
    for mut stream in held {
        let rest = deadline.saturating_duration_since(Instant::now());
        let mut byte = [0; 64];
        let end = async { while matches!(stream.read(&mut byte).await, Ok(more) if more > 0) {} };
        open += usize::from(tokio::time::timeout(rest, end).await.is_err());
    }
    if open > 0 {
        broken.push(format!("{open} connections are open after 40 s"));
    }
    Ok(said("closed", broken))
}

/// A head of which a byte comes each second.
pub async fn endless_head(server: &mut Server) -> Result<Played> {
    let mut stream = socket::open(server, "alice", H1).await?;
    stream.write_all(b"GET /api HTTP/1.1\r\nhost: x\r\nx: ").await?;
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut byte = [0; 1024];
    while Instant::now() < deadline {
        if stream.write_all(b"a").await.is_err() || stream.flush().await.is_err() {
            return Ok(said("closed", Vec::new()));
        }
        let read = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut byte)).await;
        if matches!(read, Ok(Ok(0) | Err(_))) {
            return Ok(said("closed", Vec::new()));
        }
    }
    Ok(said("open", vec!["the connection is open after 60 s".to_owned()]))
}

/// Streams that are reset as soon as they are open.
pub async fn rapid_reset(server: &mut Server) -> Result<Played> {
    let before = server.memory_mib();
    let quiet = Quiet::begin(server);
    for _ in 0..4 {
        let mut stream = socket::open(server, "alice", H2).await?;
        stream.write_all(&preface(&[])).await?;
        for number in 0..20_000_u32 {
            let mut pair = frame(1, 5, number * 2 + 1, &socket::get("/api/v1/namespaces/default/configmaps"));
            pair.extend(frame(3, 0, number * 2 + 1, &8_u32.to_be_bytes()));
            if push(&mut stream, &pair, 1, Duration::from_secs(5)).await != "taken" {
                break;
            }
        }
    }
    let broken = beside(server, before, quiet, 300).await?;
    Ok(said("alive", broken))
}

/// A head without END_HEADERS, and CONTINUATION frames without end.
pub async fn continuation(server: &mut Server) -> Result<Played> {
    let before = server.memory_mib();
    let quiet = Quiet::begin(server);
    let mut stream = socket::open(server, "alice", H2).await?;
    stream.write_all(&preface(&[])).await?;
    stream.write_all(&frame(1, 1, 1, &socket::get("/api"))).await?;
    let block = socket::headers(&[("x-long", &"a".repeat(15_000))]);
    let outcome = push(&mut stream, &frame(9, 0, 1, &block), 20_000, Duration::from_secs(20)).await;
    let has_ended = outcome != "taken" || ends(&mut stream, Duration::from_secs(20)).await;
    let mut broken = beside(server, before, quiet, 300).await?;
    if !has_ended {
        broken.push("300 MB of header are taken".to_owned());
    }
    Ok(said("ended", broken))
}

/// Frames that ask for an acknowledgement which is never read.
pub async fn settings_and_pings(server: &mut Server) -> Result<Played> {
    let before = server.memory_mib();
    let quiet = Quiet::begin(server);
    for kind in [(4, vec![]), (6, vec![0; 8])] {
        let mut stream = socket::open(server, "alice", H2).await?;
        stream.write_all(&preface(&[])).await?;
        let block = frame(kind.0, 0, 0, &kind.1).repeat(1000);
        push(&mut stream, &block, 2000, Duration::from_secs(10)).await;
    }
    let broken = beside(server, before, quiet, 300).await?;
    Ok(said("alive", broken))
}

/// One entry of the table, and ten thousand bytes that each name it.
pub async fn table(server: &mut Server) -> Result<Played> {
    let before = server.memory_mib();
    let quiet = Quiet::begin(server);
    let mut stream = socket::open(server, "alice", H2).await?;
    stream.write_all(&preface(&[])).await?;
    for number in 0..50_u32 {
        let mut block = socket::get("/api");
        // Literal with indexing, then its index (62) again and again.
        let mut large = socket::headers(&[("x-bomb", &"a".repeat(3900))]);
        large[0] = 0x40;
        block.extend(large);
        block.extend(vec![0x80 | 62; 10_000]);
        if push(&mut stream, &frame(1, 5, number * 2 + 1, &block), 1, Duration::from_secs(5)).await != "taken"
        {
            break;
        }
    }
    ends(&mut stream, Duration::from_secs(2)).await;
    let broken = beside(server, before, quiet, 300).await?;
    Ok(said("alive", broken))
}

/// A head of two megabytes over HTTP/1.1.
pub async fn large_head(server: &mut Server) -> Result<Played> {
    let before = server.memory_mib();
    let quiet = Quiet::begin(server);
    let text = format!("GET /api HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "a".repeat(2 << 20));
    let answer = socket::exchange(server, "alice", text.as_bytes(), Duration::from_secs(10)).await?;
    let mut broken = beside(server, before, quiet, 300).await?;
    let said_by = socket::statuses(&answer);
    if said_by.starts_with('2') {
        broken.push(format!("it was taken: {said_by}"));
    }
    Ok(said("refused or closed", broken))
}

/// A thousand streams at once.
pub async fn many_streams(server: &mut Server) -> Result<Played> {
    let before = server.memory_mib();
    let quiet = Quiet::begin(server);
    let mut stream = socket::open(server, "alice", H2).await?;
    stream.write_all(&preface(&[])).await?;
    let path = "/api/v1/namespaces/default/configmaps?watch=true";
    for number in 0..1000_u32 {
        if push(&mut stream, &frame(1, 5, number * 2 + 1, &socket::get(path)), 1, Duration::from_secs(5))
            .await
            != "taken"
        {
            break;
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let broken = beside(server, before, quiet, 300).await?;
    Ok(said("alive", broken))
}
