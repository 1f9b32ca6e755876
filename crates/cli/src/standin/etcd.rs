//! `etcd`: answers `/health`, and stores nothing, because the API server beside it has its own store.

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The flags of etcd that envtest uses. All others are accepted and ignored.
#[derive(clap::Parser, Debug)]
#[command(name = "etcd", about = "Stands in for etcd beside Setpoint's kube-apiserver: answers /health.")]
pub struct Flags {
    /// URLs to serve on.
    #[arg(long, default_value = "http://127.0.0.1:2379")]
    pub listen_client_urls: String,
    /// Ignored: nothing is stored here.
    #[arg(long)]
    pub data_dir: Option<String>,
    /// Ignored: there are no peers.
    #[arg(long)]
    pub listen_peer_urls: Option<String>,
    /// Ignored.
    #[arg(long)]
    pub advertise_client_urls: Option<String>,
    /// Ignored.
    #[arg(long)]
    pub initial_advertise_peer_urls: Option<String>,
    /// Ignored.
    #[arg(long)]
    pub initial_cluster: Option<String>,
    /// Ignored.
    #[arg(long)]
    pub name: Option<String>,
    /// Quota of the store, which is in kube-apiserver: that asks for it when it starts. 0 is 2 GiB, a negative number
    /// sets no quota.
    #[arg(long, value_name = "BYTES", default_value_t = 0, allow_negative_numbers = true)]
    pub quota_backend_bytes: i64,
    /// Ignored: nothing is synced here.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    pub unsafe_no_fsync: Option<bool>,
}

/// The path under which kube-apiserver asks for the quota.
pub const QUOTA_PATH: &str = "/setpoint/quota-backend-bytes";

/// Serves until SIGTERM.
pub async fn run(flags: Flags) -> Result<()> {
    let url = flags.listen_client_urls.split(',').next().unwrap_or_default();
    // A client that asked for TLS must not get an answer in clear text.
    ensure!(!url.starts_with("https://"), "--listen-client-urls: {url:?}: Setpoint's etcd has no TLS");
    let address = url.trim_start_matches("http://");
    let address: SocketAddr =
        address.parse().with_context(|| format!("--listen-client-urls: {address:?}"))?;
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let mut signals = setpoint::program::Signals::new()?;
    let mut connections = JoinSet::new();
    let quota = flags.quota_backend_bytes;
    loop {
        tokio::select! {
            biased;
            () = signals.next() => return Ok(()),
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                connections.spawn(async move {
                    let answer = service_fn(|request: Request<Incoming>| async move {
                        let body = match request.uri().path() {
                            "/health" => r#"{"health":"true","reason":""}"#.to_owned(),
                            QUOTA_PATH => quota.to_string(),
                            _ => "{}".to_owned(),
                        };
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
                    });
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
