//! Making kube's client as this crate wants it.

use kube::Config;

/// A client for the cluster that the environment names: kubeconfig, or the service account of the pod.
///
/// # Errors
/// When there is none, or its configuration cannot be used.
pub async fn connect() -> Result<kube::Client, Box<dyn std::error::Error + Send + Sync>> {
    Ok(connect_with(Config::infer().await?)?)
}

/// A client with this configuration and without kube's own retries: this crate backs off by itself, per request and
/// per watch, and asks its lease before every send. A retry hidden below would slip past both.
///
/// # Errors
/// When the configuration cannot be used.
pub fn connect_with(mut config: Config) -> Result<kube::Client, kube::Error> {
    config.default_retry = false;
    kube::Client::try_from(config)
}
