//! Certificates that change their worth while a connection lives.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::said;
use crate::run::Played;
use crate::servers::Server;

/// Time after which an expired certificate must no longer count.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// A connection is opened with a certificate that ends soon, and used after its end.
pub async fn ends(server: &mut Server) -> Result<Played> {
    let user = "short:CN=admin,O=system:masters";
    let first = server.ask(user, "GET /api/v1/namespaces", None).await?.status;
    let began = Instant::now();
    let mut last = first;
    while last == 200 && began.elapsed() < ENDED_WITHIN {
        tokio::time::sleep(Duration::from_millis(200)).await;
        last = server.ask(user, "GET /api/v1/namespaces", None).await?.status;
    }
    let mut broken = Vec::new();
    if first != 200 {
        broken.push(format!("the certificate never counted: {first}"));
    }
    if last != 401 {
        broken.push(format!("after its end: {last}, not 401"));
    }
    Ok(said(format!("{first} then {last}"), broken))
}
