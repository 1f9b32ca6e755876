//! Making kube's client as this crate wants it.

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt};
use tower::util::{MapResponseLayer, option_layer};
use tower::{BoxError, Layer, Service, ServiceExt};

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
/// per watch, and asks its lease before every send. A retry hidden below would slip past both. Nor does it log each
/// failure, as kube's client does, without saying which request failed: who asked says it.
///
/// # Errors
/// When the configuration cannot be used.
pub fn connect_with(mut config: Config) -> Result<kube::Client, kube::Error> {
    config.default_retry = false;
    let authority = config.cluster_url.authority().map_or("", http::uri::Authority::as_str);
    let host = Host(authority.rsplit('@').next().unwrap_or_default().into());
    if config.proxy_url.is_some() {
        // The way through proxies is kube's alone.
        return Ok(ClientBuilder::try_from((config, ConnectionExecutor))?.with_layer(&naming(host)).build());
    }
    // As kube's builder, but for its layer that logs.
    let layers = (config.base_uri_layer(), option_layer(config.auth_layer()?), config.extra_headers_layer()?);
    let service = layers.2.layer(connections(&config)?.map_err(Into::<BoxError>::into));
    let service = layers.0.layer(layers.1.layer(service));
    Ok(ClientBuilder::new(service, config.default_namespace).with_layer(&naming(host)).build())
}

/// Names the server in each of its answers.
fn naming<B>(host: Host) -> MapResponseLayer<impl Fn(Response<B>) -> Response<B> + Clone> {
    MapResponseLayer::new(move |mut response: Response<B>| {
        response.extensions_mut().insert(host.clone());
        response
    })
}

/// The pool of connections, with the timeouts of the configuration.
fn connections(
    config: &Config,
) -> Result<
    impl Service<Request<Body>, Response = Response<Incoming>, Error: Into<BoxError>, Future: Send>
    + Clone
    + Send
    + use<>,
    kube::Error,
> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(http)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(Client::builder(ConnectionExecutor).build(connector))
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
