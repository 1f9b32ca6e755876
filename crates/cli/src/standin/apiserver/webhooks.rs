//! `--authentication-token-webhook-*` and `--authorization-webhook-*`: webhooks whose addresses are in kubeconfigs.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures::future::BoxFuture;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use setpoint_apiserver::{AccessWebhook, ReviewClient, ReviewError, ReviewVersion, TokenWebhook};

use super::flags::Flags;

/// The time limit of one call, as kube-apiserver has it.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer: a user with many groups needs far less.
const MAX_ANSWER: usize = 3 * 1024 * 1024;

/// Returns the webhook that authenticates tokens, if the flags name one.
pub async fn token_webhook(flags: &Flags) -> Result<Option<Arc<TokenWebhook>>> {
    let Some(path) = &flags.authentication_token_webhook_config_file else { return Ok(None) };
    let version = version(&flags.authentication_token_webhook_version, "authentication webhook")?;
    let client = Arc::new(Client::read(path).await?);
    Ok(Some(Arc::new(TokenWebhook::new(client, version, flags.authentication_token_webhook_cache_ttl))))
}

/// Returns the webhook of the mode Webhook, if the flags name one.
pub async fn access_webhook(flags: &Flags) -> Result<Option<Arc<AccessWebhook>>> {
    let Some(path) = &flags.authorization_webhook_config_file else { return Ok(None) };
    let version = version(&flags.authorization_webhook_version, "webhook authorizer")?;
    let client = Arc::new(Client::read(path).await?);
    let authorized = flags.authorization_webhook_cache_authorized_ttl;
    let unauthorized = flags.authorization_webhook_cache_unauthorized_ttl;
    Ok(Some(Arc::new(AccessWebhook::new(client, version, authorized, unauthorized))))
}

fn version(text: &str, of: &str) -> Result<ReviewVersion> {
    match text {
        "v1" => Ok(ReviewVersion::V1),
        "v1beta1" => Ok(ReviewVersion::V1Beta1),
        _ => bail!("unsupported {of} version {text:?}, supported versions are \"v1\", \"v1beta1\""),
    }
}

/// The client of one kubeconfig.
struct Client {
    client: kube::Client,
    /// The path and query of each call: the kubeconfig names the whole address.
    target: Uri,
    /// The address as errors show it.
    shown: String,
}

impl Client {
    async fn read(path: &Path) -> Result<Client> {
        let file = path.display();
        let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("cannot read {file}"))?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.with_context(|| format!("{file} names no webhook"))?;
        let shown = format!("{}?timeout=30s", config.cluster_url.to_string().trim_end_matches('/'));
        let mut parts = config.cluster_url.clone().into_parts();
        let own = parts.path_and_query.take();
        let path = own.as_ref().map_or("", |own| own.path()).trim_end_matches('/').to_owned();
        let target = format!("{}?timeout=30s", if path.is_empty() { "/" } else { &path }).parse()?;
        parts.path_and_query = Some("/".parse()?);
        config.cluster_url = Uri::from_parts(parts).map_err(|error| anyhow!("{file}: {error}"))?;
        (config.connect_timeout, config.read_timeout) = (Some(PATIENCE), Some(PATIENCE));
        Ok(Client { client: kube::Client::try_from(config)?, target, shown })
    }

    async fn send(&self, review: Value) -> Result<Value, ReviewError> {
        let request = Request::post(self.target.clone())
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::ACCEPT, "application/json, */*")
            .body(review.to_string().into_bytes().into());
        let request = request.map_err(|error| self.failed(&error, false))?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| self.failed(&error, is_reset(&error)))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let bytes = body.map_err(|error| self.failed(&error, false))?.to_bytes();
        if !status.is_success() {
            return Err(refused(status, &bytes));
        }
        serde_json::from_slice(&bytes).map_err(|error| ReviewError {
            message: format!("couldn't get version/kind; json parse error: {error}"),
            is_temporary: false,
        })
    }

    fn failed(&self, error: &impl std::fmt::Display, is_temporary: bool) -> ReviewError {
        ReviewError { message: format!("Post \"{}\": {error}", self.shown), is_temporary }
    }
}

impl ReviewClient for Client {
    fn post(&self, review: Value) -> BoxFuture<'_, Result<Value, ReviewError>> {
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, self.send(review)).await {
                Ok(done) => done,
                Err(_) => Err(self.failed(&"context deadline exceeded", false)),
            }
        })
    }
}

/// Whether the other side reset the connection: the call may then succeed on a new one.
fn is_reset(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == ErrorKind::ConnectionReset)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An answer that is no review: the message of its Status, or the text of Go's client.
fn refused(status: StatusCode, body: &[u8]) -> ReviewError {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let said = said["message"].as_str().filter(|_| said["kind"] == "Status").map(str::to_owned);
    let code = status.as_u16();
    let unsaid = || format!("the webhook answered with the status code {code}");
    ReviewError { message: said.unwrap_or_else(unsaid), is_temporary: matches!(code, 429 | 500 | 504) }
}

#[cfg(test)]
mod tests {
    use super::super::flags::parsed;
    use super::*;

    #[tokio::test]
    async fn a_webhook_that_cannot_be_asked_stops_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing").display().to_string();
        let flags = parsed(&["--authentication-token-webhook-config-file", &missing]);
        assert!(token_webhook(&flags).await.err().unwrap().to_string().starts_with("cannot read"));
        let flags =
            parsed(&["--authorization-webhook-config-file", &missing, "--authorization-webhook-version=v2"]);
        assert_eq!(
            access_webhook(&flags).await.err().unwrap().to_string(),
            "unsupported webhook authorizer version \"v2\", supported versions are \"v1\", \"v1beta1\""
        );
        assert!(token_webhook(&parsed(&[])).await.unwrap().is_none());
    }

    #[test]
    fn only_passing_failures_are_tried_again() {
        let said = refused(StatusCode::FORBIDDEN, br#"{"kind":"Status","message":"not you"}"#);
        assert_eq!((&*said.message, said.is_temporary), ("not you", false));
        let said = refused(StatusCode::INTERNAL_SERVER_ERROR, b"oops");
        assert_eq!(
            (&*said.message, said.is_temporary),
            ("the webhook answered with the status code 500", true)
        );
    }
}
