//! Making kube's client as this crate wants it.

use http::Response;
use kube::Config;
use kube::client::ClientBuilder;
use tower::util::MapResponseLayer;

use crate::informer::ConnectionExecutor;
use crate::metrics::Host;

/// Why there is no client for the cluster that the environment names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Neither a kubeconfig nor a service account can be read.
    #[error("no cluster to connect to: {0}")]
    Infer(#[from] kube::config::InferConfigError),
    /// The configuration that was read cannot be used.
    #[error("the configuration of the cluster cannot be used: {0}")]
    Client(#[from] kube::Error),
}

/// A client for the cluster that the environment names: kubeconfig, or the service account of the pod.
///
/// Dropping the future changes nothing: no connection is open before the first request.
///
/// # Errors
/// When there is none, or its configuration cannot be used.
pub async fn connect() -> Result<kube::Client, ConnectError> {
    Ok(connect_with(Config::infer().await?)?)
}

/// A client with this configuration and without kube's own retries: this crate backs off by itself, per request and
/// per watch, and asks its lease before every send. A retry hidden below would slip past both.
///
/// # Errors
/// When the configuration cannot be used.
pub fn connect_with(mut config: Config) -> Result<kube::Client, kube::Error> {
    config.default_retry = false;
    let authority = config.cluster_url.authority().map_or("", http::uri::Authority::as_str);
    let host = Host(authority.rsplit('@').next().unwrap_or_default().into());
    let name = MapResponseLayer::new(move |mut response: Response<_>| {
        response.extensions_mut().insert(host.clone());
        response
    });
    Ok(ClientBuilder::try_from((config, ConnectionExecutor))?.with_layer(&name).build())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn answers_say_which_server_they_came_from() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            stream
        };
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let request = http::Request::get("/version").body(kube::client::Body::empty()).unwrap();
        let client = connect_with(config).unwrap();
        let (_stream, answer) = tokio::join!(serve, client.send(request));
        let answer = answer.unwrap();
        assert_eq!(*answer.extensions().get::<Host>().unwrap().0, address.to_string());
    }

    /// A retry below would slip past the back-off and past the lease.
    #[tokio::test]
    async fn what_fails_is_told_and_not_tried_again() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let client = connect_with(config).unwrap();
        for status in ["429 Too Many Requests", "503 Service Unavailable", "504 Gateway Timeout"] {
            let serve = async {
                // Each answer ends its connection, so that another try would come on a new one.
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.read_u8().await.unwrap();
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream
            };
            let request = http::Request::get("/version").body(kube::client::Body::empty()).unwrap();
            let (_stream, answer) = tokio::join!(serve, client.send(request));
            assert_eq!(answer.unwrap().status().as_str(), &status[..3]);
        }
    }
}
