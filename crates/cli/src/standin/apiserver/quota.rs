//! The quota that the etcd of `setpoint assets` was started with. The store is in this process, so this process keeps it.

use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::limits::quota;
use crate::standin::etcd::QUOTA_PATH;

/// Time that etcd has to tell its quota. The start goes on without it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest answer that is read.
const LONGEST: usize = 64;

/// The quota of the first server of `--etcd-servers`; none if it is no etcd of ours, or was started without a quota.
pub async fn of_etcd(servers: Option<&str>) -> Option<u64> {
    let address = servers?.split(',').next()?.strip_prefix("http://")?.trim_end_matches('/');
    tokio::time::timeout(PATIENCE, ask(address)).await.ok()?
}

async fn ask(address: &str) -> Option<u64> {
    let stream = TcpStream::connect(address).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = Request::get(QUOTA_PATH).header("host", address).body(Empty::<Bytes>::new()).ok()?;
    let asked = async {
        let answer = sender.send_request(request).await.ok().filter(|answer| answer.status() == 200)?;
        let text = Limited::new(answer.into_body(), LONGEST).collect().await.ok()?.to_bytes();
        quota(std::str::from_utf8(&text).ok()?.parse().ok()?)
    };
    tokio::select! {
        biased;
        quota = asked => quota,
        // The connection ends only with an error, or after the answer.
        _ = connection => None,
    }
}
