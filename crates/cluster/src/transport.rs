//! Clients that call the server as a function: no socket, no TLS.

use std::sync::{Arc, Mutex};

use http::{Request, Response, header};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use setpoint_apiserver::{Body, BoxError, Caller, Server, UserInfo};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Bytes in flight in one direction of an upgraded connection before the writer waits.
const PIPE: usize = 64 * 1024;

/// Returns a client that the server takes for `user`.
///
/// Call it within a tokio runtime. The client lives as long as that runtime.
pub fn client(server: &Server, user: UserInfo) -> kube::Client {
    let server = server.clone();
    let pipes = Arc::new(Mutex::new(JoinSet::new()));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        let pipes = pipes.clone();
        let caller = Caller::Trusted(user.clone());
        async move {
            let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            if request.headers().contains_key(header::UPGRADE) {
                return upgrade(server, caller, request, &pipes).await;
            }
            Ok::<_, BoxError>(server.handle(caller, request).await)
        }
    });
    kube::Client::new(service, "default")
}

/// An upgrade needs a connection to upgrade: HTTP/1.1 over a pipe.
async fn upgrade(
    server: Server,
    caller: Caller,
    request: Request<Body>,
    pipes: &Mutex<JoinSet<()>>,
) -> Result<Response<Body>, BoxError> {
    let (near, far) = tokio::io::duplex(PIPE);
    let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
    {
        let mut pipes = pipes.lock().expect("no holder of this lock panics");
        while pipes.try_join_next().is_some() {}
        pipes.spawn(async move { server.serve_io(far, caller, CancellationToken::new()).await });
        pipes.spawn(async move { drop(connection.with_upgrades().await) });
    }
    let response = send.send_request(request).await?;
    Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}
