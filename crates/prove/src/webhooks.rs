//! The webhooks of the operator, which the server calls as functions, and their outages.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use serde_json::Value;
use setpoint_cluster::InProcessWebhooks;
use tokio::time::Instant;

/// The operator's webhooks.
#[derive(Clone)]
pub struct Webhooks {
    /// Their configurations.
    pub(crate) configurations: Vec<Value>,
    /// The end of the present outage.
    down_until: Arc<Mutex<Option<Instant>>>,
}

impl Webhooks {
    /// Lets a cluster call `answer` for webhooks behind a Service, unless there is an outage.
    pub(crate) fn new<R>(
        cluster: &InProcessWebhooks,
        (namespace, service): (&str, &str),
        configurations: Vec<Value>,
        answer: impl Fn(Request<Bytes>) -> R + Send + Sync + 'static,
    ) -> Webhooks
    where
        R: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let webhooks = Webhooks { configurations, down_until: Arc::default() };
        let gate = webhooks.clone();
        cluster.answer(namespace, service, move |request| {
            let answered = if gate.is_down() { None } else { Some(answer(request)) };
            async move {
                match answered {
                    Some(answered) => answered.await,
                    None => unavailable(),
                }
            }
        });
        webhooks
    }

    fn is_down(&self) -> bool {
        let until = *self.down_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Begins an outage.
    pub(crate) fn go_down(&self, time: Duration) {
        self.set(Some(Instant::now() + time));
    }

    /// Ends the outage of an earlier run, which had another clock.
    pub(crate) fn come_up(&self) {
        self.set(None);
    }

    fn set(&self, until: Option<Instant>) {
        *self.down_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

/// The answer of a proxy in front of a Service without endpoints.
fn unavailable() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(b"no endpoints available for service"));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}
