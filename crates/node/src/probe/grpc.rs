//! gRPC's health check (`grpc.health.v1.Health/Check`), without TLS.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;

use super::connection::{ProbeFailure, connect};

/// Maximum length of an answer. Longer answers are failures.
const ANSWER: usize = 16 * 1024;
/// `HealthCheckResponse.SERVING`.
const SERVING: u8 = 1;

/// Checks that the service is serving.
pub(super) async fn check(address: SocketAddr, service: &str) -> Result<(), ProbeFailure> {
    let stream = TokioIo::new(connect(address).await.map_err(ProbeFailure::new)?);
    let (mut send, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
        .await
        .map_err(ProbeFailure::new)?;
    let mut driver = JoinSet::new();
    driver.spawn(async move { drop(connection.await) });
    let request = Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/1.37")
        .body(Full::new(question(service)))
        .map_err(ProbeFailure::new)?;
    let answer = send.send_request(request).await.map_err(ProbeFailure::new)?;
    // An answer without a body has its status in the headers.
    let early = status(answer.headers());
    let body = Limited::new(answer.into_body(), ANSWER).collect().await.map_err(ProbeFailure::new)?;
    match body.trailers().and_then(status).or(early) {
        Some((0, _)) => verdict(&body.to_bytes()),
        Some((code, message)) => Err(ProbeFailure(format!("gRPC status {code}: {message}"))),
        None => Err(ProbeFailure::new("the answer is not gRPC's")),
    }
}

fn status(headers: &http::HeaderMap) -> Option<(u32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|message| message.to_str().ok());
    Some((code, message.unwrap_or_default().to_owned()))
}

/// `HealthCheckRequest { service = 1 }` in gRPC's frame.
fn question(service: &str) -> Bytes {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend(service.as_bytes());
    }
    let mut frame = vec![0];
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    frame.into()
}

/// `HealthCheckResponse { status = 1 }`: one small number after the frame's five bytes.
fn verdict(answer: &[u8]) -> Result<(), ProbeFailure> {
    match answer {
        [0, _, _, _, _, 0x08, SERVING] => Ok(()),
        [0, _, _, _, _, 0x08, status] => {
            Err(ProbeFailure(format!("service unhealthy (responded with status {status})")))
        }
        [0, 0, 0, 0, 0] => Err(ProbeFailure::new("service unhealthy (responded with UNKNOWN)")),
        _ => Err(ProbeFailure::new("the answer is not a health check's")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_names_the_service_in_a_frame() {
        assert_eq!(&question("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(&question("ab")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(&question(&"x".repeat(200))[..8], [0, 0, 0, 0, 203, 0x0a, 0xc8, 1]);
    }

    #[test]
    fn only_serving_is_healthy() {
        assert!(verdict(&[0, 0, 0, 0, 2, 8, 1]).is_ok());
        assert!(verdict(&[0, 0, 0, 0, 2, 8, 2]).unwrap_err().0.contains("status 2"));
        let failed = |why: &str| Err(ProbeFailure::new(why));
        assert_eq!(verdict(&[0, 0, 0, 0, 0]), failed("service unhealthy (responded with UNKNOWN)"));
        assert_eq!(verdict(b"hello"), failed("the answer is not a health check's"));
    }
}
