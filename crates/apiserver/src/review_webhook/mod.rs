//! Webhooks that decide who a client is (TokenReview) and what a user may do (SubjectAccessReview).
//!
//! The command line reads the kubeconfig of a webhook and makes the client. This module knows the reviews, keeps
//! answers for a time, and tries again after a temporary failure.

mod answers;
mod access;
mod token;
mod cache;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

pub use access::{AccessStatus, AccessWebhook};
pub(crate) use answers::Answers;
pub use token::TokenWebhook;

/// The most concurrent calls of one webhook. Further calls wait within the time limit of their request.
const MAX_CALLS: usize = 100;
/// kube-apiserver's back-off: the first pause, the factor of the next, and the number of calls.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const ATTEMPTS: u32 = 5;

/// Posts a review to a webhook, and returns the review that the webhook answers.
pub trait ReviewClient: Send + Sync {
    /// Posts one review. The client limits the time of the call and the length of the answer.
    fn post(&self, review: Value) -> BoxFuture<'_, Result<Value, ReviewError>>;
}

/// The reason why a webhook gave no review.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReviewError {
    /// The text, in the words of Go's client.
    pub message: String,
    /// Whether the server calls again: the connection was reset, or the answer was 429, 500 or 504.
    pub is_temporary: bool,
}

impl ReviewError {
    /// A failure that another call would meet again.
    fn lasting(message: String) -> Self {
        ReviewError { message, is_temporary: false }
    }
}

/// The version of the reviews that a webhook speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl ReviewVersion {
    fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1Beta1 => "v1beta1",
        }
    }
}

/// A webhook's client with the bound on its calls.
struct Calls {
    client: Arc<dyn ReviewClient>,
    places: Semaphore,
}

impl Calls {
    fn new(client: Arc<dyn ReviewClient>) -> Self {
        Calls { client, places: Semaphore::new(MAX_CALLS) }
    }

    /// Posts a review, and again after a temporary failure.
    async fn post(&self, review: &Value) -> Result<Value, ReviewError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.once(review).await {
                Err(error) if error.is_temporary => {}
                done => return done,
            }
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(FACTOR);
        }
        self.once(review).await
    }

    async fn once(&self, review: &Value) -> Result<Value, ReviewError> {
        let _place = self.places.acquire().await.expect("the semaphore is never closed");
        self.client.post(review.clone()).await
    }
}

/// Reads the status of an answered review. As in Go, `null` is an absent field.
fn status<T: DeserializeOwned + Default>(mut review: Value) -> Result<T, ReviewError> {
    match review.get_mut("status").map(Value::take) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(status) => serde_json::from_value(without_nulls(status))
            .map_err(|error| ReviewError::lasting(error.to_string())),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers with a function of the review, and counts the calls.
    pub(super) struct Scripted<F> {
        pub(super) answer: F,
        pub(super) asked: Mutex<Vec<Value>>,
    }

    impl<F: Fn(&Value, usize) -> Result<Value, ReviewError>> Scripted<F> {
        pub(super) fn new(answer: F) -> Arc<Self> {
            Arc::new(Scripted { answer, asked: Mutex::default() })
        }

        pub(super) fn calls(&self) -> usize {
            self.asked.lock().unwrap().len()
        }
    }

    impl<F: Fn(&Value, usize) -> Result<Value, ReviewError> + Send + Sync> ReviewClient for Scripted<F> {
        fn post(&self, review: Value) -> BoxFuture<'_, Result<Value, ReviewError>> {
            let mut asked = self.asked.lock().unwrap();
            let answer = (self.answer)(&review, asked.len());
            asked.push(review);
            Box::pin(std::future::ready(answer))
        }
    }

    pub(super) fn failed(is_temporary: bool) -> ReviewError {
        ReviewError { message: "no".to_owned(), is_temporary }
    }

    #[tokio::test(start_paused = true)]
    async fn a_temporary_failure_is_tried_five_times_and_others_once() {
        let client = Scripted::new(|_, _| Err(failed(true)));
        let began = tokio::time::Instant::now();
        assert_eq!(Calls::new(client.clone()).post(&Value::Null).await, Err(failed(true)));
        assert_eq!(client.calls(), 5);
        // Half a second, and each pause half as long again.
        assert_eq!(began.elapsed().as_secs(), 4);
        let client = Scripted::new(|_, _| Err(failed(false)));
        assert_eq!(Calls::new(client.clone()).post(&Value::Null).await, Err(failed(false)));
        assert_eq!(client.calls(), 1);
        let client = Scripted::new(|_, calls| if calls < 2 { Err(failed(true)) } else { Ok(Value::Null) });
        assert!(Calls::new(client.clone()).post(&Value::Null).await.is_ok());
        assert_eq!(client.calls(), 3);
    }
}
