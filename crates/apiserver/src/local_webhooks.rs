//! Webhooks inside the process, called without a connection.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};

/// The answer of a webhook to come.
pub type Answering = Pin<Box<dyn Future<Output = Response<Bytes>> + Send>>;

/// Answers calls of webhooks that a Service inside the process stands for.
pub trait LocalWebhooks: Send + Sync {
    /// Begins a call. `None` if the webhooks behind this Service are elsewhere.
    fn call(&self, namespace: &str, service: &str, request: Request<Bytes>) -> Option<Answering>;
}

/// The webhooks inside the process, shared.
pub type LocalWebhooksHandle = Arc<dyn LocalWebhooks>;
