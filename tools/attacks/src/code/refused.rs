//! Writes that are refused, and requests that two readers could read differently.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::io::AsyncWriteExt;

use super::{Quiet, said};
use crate::run::Played;
use crate::servers::Server;
use crate::socket::{self, exchange, statuses};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SOON: Duration = Duration::from_secs(3);

/// Forty writes with a small body, by somebody without rights.
pub async fn before_its_body(server: &mut Server) -> Result<Played> {
    let mut answered = 0;
    for _ in 0..40 {
        let text = format!(
            "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 20000\r\nconnection: close\r\n\r\n{}",
            "x".repeat(20_000)
        );
        let answer = exchange(server, "anonymous", text.as_bytes(), Duration::from_secs(10)).await?;
        answered += usize::from(answer.starts_with("HTTP/1.1 403 ") && answer.contains("Forbidden"));
    }
    let broken = if answered == 40 { Vec::new() } else { vec![format!("{answered} of 40 are answered")] };
    Ok(said("403", broken))
}

/// A body without an end, by somebody without credentials.
pub async fn stranger(server: &mut Server) -> Result<Played> {
    let before = server.memory_mib();
    let quiet = Quiet::begin(server);
    let mut stream = socket::open(server, "anonymous", b"http/1.1").await?;
    let head = format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut block = b"10000\r\n".to_vec();
    block.extend(vec![b'x'; 65_536]);
    block.extend(b"\r\n");
    let began = Instant::now();
    let mut taken = 0;
    while began.elapsed() < Duration::from_secs(10) && taken < 4000 {
        match tokio::time::timeout(Duration::from_secs(2), stream.write_all(&block)).await {
            Ok(Ok(())) => taken += 1,
            _ => break,
        }
    }
    let mut broken = quiet.end().await?;
    // 4000 blocks are 256 MB.
    if taken == 4000 {
        broken.push("the whole body was taken".to_owned());
    }
    let after = server.memory_mib();
    if server.name == "ours" && after > before + 200 {
        broken.push(format!("resident memory grew from {before} to {after} MiB"));
    }
    Ok(said("closed", broken))
}

/// A body that is promised and does not come, with a time.
pub async fn never_comes(server: &mut Server) -> Result<Played> {
    let quiet = Quiet::begin(server);
    let text = format!(
        "POST {MAPS}?timeout=2s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{"
    );
    let answer = exchange(server, "admin", text.as_bytes(), Duration::from_secs(20)).await?;
    let mut broken = quiet.end().await?;
    let status = statuses(&answer);
    if !(status.starts_with("504") || status.starts_with("400") || status == "closed") {
        broken.push(format!("answered {status}"));
    }
    Ok(said(status, broken))
}

/// `Expect: 100-continue` of somebody who is refused.
pub async fn expect_continue(server: &mut Server) -> Result<Played> {
    let text =
        format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n");
    let answer = exchange(server, "anonymous", text.as_bytes(), SOON).await?;
    let status = statuses(&answer);
    let broken = if status == "403" { Vec::new() } else { vec![format!("answered {status}")] };
    Ok(said(status, broken))
}

/// A text in which a second request may hide: no server answers more than one request.
async fn one_answer(server: &mut Server, texts: &[&str]) -> Result<Played> {
    let (mut all, mut broken) = (Vec::new(), Vec::new());
    for text in texts {
        let answer = exchange(server, "alice", text.as_bytes(), SOON).await?;
        let status = statuses(&answer);
        // The hidden request asks for this path, which anybody may read.
        if answer.contains("gitVersion") {
            broken.push(format!("the hidden request of {:?} is answered: {status}", &text[..40]));
        }
        all.push(status);
    }
    Ok(said(all.join(", "), broken))
}

const HIDDEN: &str = "GET /version HTTP/1.1\r\nhost: x\r\n\r\n";

/// Two lengths.
pub async fn two_lengths(server: &mut Server) -> Result<Played> {
    let head = "POST /api HTTP/1.1\r\nhost: x\r\n";
    let length = HIDDEN.len();
    let one = format!("{head}content-length: {length}\r\ncontent-length: 0\r\n\r\n{HIDDEN}");
    let two = format!("{head}content-length: {length}, 0\r\n\r\n{HIDDEN}");
    let three = format!("{head}content-length: +{length}\r\n\r\n{HIDDEN}");
    one_answer(server, &[&one, &two, &three]).await
}

/// A length and chunks. By HTTP/1.1 the chunks count, and what follows them is a request of its own.
pub async fn length_and_chunks(server: &mut Server) -> Result<Played> {
    let head = "POST /api HTTP/1.1\r\nhost: x\r\n";
    let body = format!("0\r\n\r\n{HIDDEN}");
    let one = format!(
        "{head}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let two = format!("{head}transfer-encoding : chunked\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let three = format!("{head}transfer-encoding: xchunked\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let four =
        format!("{head}transfer-encoding:\u{b}chunked\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    one_answer(server, &[&one, &two, &three, &four]).await
}

/// Sizes of chunks that are none.
pub async fn lying_chunks(server: &mut Server) -> Result<Played> {
    let head = "POST /api HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let one = format!("{head}fffffffffffffffff\r\n{HIDDEN}");
    let two = format!("{head}0x0\r\n\r\n{HIDDEN}");
    let three = format!("{head}-1\r\n\r\n{HIDDEN}");
    one_answer(server, &[&one, &two, &three]).await
}

/// A folded line, and a bare line feed within a header.
pub async fn folded(server: &mut Server) -> Result<Played> {
    let one = "GET /api HTTP/1.1\r\nhost: x\r\nimpersonate-user: a\r\n b\r\n\r\n";
    let two = "GET /api HTTP/1.1\r\nhost: x\r\nx: a\rimpersonate-user: b\r\n\r\n";
    let three = "GET /api HTTP/1.1\r\nhost: x\r\nimpersonate-user\u{0}: b\r\n\r\n";
    let mut broken = Vec::new();
    let mut all = Vec::new();
    for text in [one, two, three] {
        let status = statuses(&exchange(server, "alice", text.as_bytes(), SOON).await?);
        // Alice may read /api; she may not impersonate.
        if status.starts_with("200") {
            broken.push(format!("{text:?} is taken without the header"));
        }
        all.push(status);
    }
    Ok(said(all.join(", "), broken))
}

/// A target that names another host, and a host that is another one.
pub async fn absolute_target(server: &mut Server) -> Result<Played> {
    let mut all = Vec::new();
    for target in
        ["https://other.example.com/api/v1/secrets", "https://x/version/../api/v1/secrets", "*", "other:443"]
    {
        let text = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        all.push(statuses(&exchange(server, "alice", text.as_bytes(), SOON).await?));
    }
    let broken = match all.iter().any(|status| status.starts_with('2')) {
        true => vec![format!("{all:?}")],
        false => Vec::new(),
    };
    Ok(said(all.join(", "), broken))
}
