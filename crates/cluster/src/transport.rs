//! Clients that call the server as a function: no socket, no TLS.

use std::convert::Infallible;

use http::Request;
use http_body_util::BodyExt;
use setpoint_apiserver::{Caller, Server, UserInfo};

/// A client that the server takes for `user`.
///
/// Must be called within a tokio runtime; the client lives as long as that.
pub fn client(server: &Server, user: UserInfo) -> kube::Client {
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        let caller = Caller::Trusted(user.clone());
        async move {
            let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            Ok::<_, Infallible>(server.handle(caller, request).await)
        }
    });
    kube::Client::new(service, "default")
}
