//! One call: the path, the time limit, the handler, and the answer whatever the handler does.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::Value;
use setpoint_api::status::{Reason, Status};

use super::conversion::named;
use super::wire::{self, AdmissionRequest};
use super::{OTHER_TIMEOUT, Route, Webhooks};

impl Webhooks {
    /// Answers a request as the server does: a `POST` of a review to one of the paths.
    ///
    /// A test calls handlers with it without a socket. `setpoint-cluster` can send the reviews of its API server here.
    ///
    /// Dropping the future drops the handler's.
    pub async fn call(&self, request: Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path().to_owned();
        let Some(route) = self.routes.get(&path) else {
            return failure(&Status::no_such_path());
        };
        let in_flight = self.metrics.begin(&path);
        let response = match route {
            Route::Custom(answer) => self.custom(&path, answer(request)).await,
            Route::Admission(..) | Route::Conversion(_) => match self.review(&path, route, request).await {
                Ok(review) => json(StatusCode::OK, &review),
                Err(status) => failure(&status),
            },
        };
        in_flight.answered(response.status().as_u16());
        response
    }

    async fn review(&self, path: &str, route: &Route, request: Request<Bytes>) -> Result<Value, Status> {
        check_head(&request)?;
        let waits = waits(request.uri().query());
        let body = request.into_body();
        match route {
            Route::Admission(handler, timeout) => {
                let request = wire::admission(&body).inspect_err(|status| refused(path, status))?;
                let subject = Subject::of(&request);
                let timeout = waits.map_or(*timeout, |waits| waits.min(*timeout));
                // Begun within the future: a handler may panic before it has one.
                let answering = async { handler.answer(request).await };
                self.guard(path, &subject, timeout, answering).await
            }
            Route::Conversion(versions) => {
                let request = wire::conversion(&body).inspect_err(|status| refused(path, status))?;
                let subject = Subject::converted(&request.objects, &request.uid);
                let timeout = waits.map_or(OTHER_TIMEOUT, |waits| waits.min(OTHER_TIMEOUT));
                let answering = async { Ok(versions.answer(request).await) };
                self.guard(path, &subject, timeout, answering).await
            }
            Route::Custom(_) => Err(Status::no_such_path()),
        }
    }

    async fn custom(&self, path: &str, answer: impl Future<Output = Response<Bytes>>) -> Response<Bytes> {
        let subject = Subject::default();
        let answered = self.guard(path, &subject, OTHER_TIMEOUT, async { Ok(answer.await) }).await;
        answered.unwrap_or_else(|status| failure(&status))
    }

    /// Runs a handler: a panic and a time-out become a Status, are counted, and are logged with the object.
    async fn guard<T>(
        &self,
        path: &str,
        subject: &Subject,
        timeout: Duration,
        handler: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let Subject { object, operation, uid } = subject;
        // The handler's future may panic when it is dropped, too: it is, before this block ends.
        let guarded = async { tokio::time::timeout(timeout, AssertUnwindSafe(handler).catch_unwind()).await };
        let ended = AssertUnwindSafe(guarded).catch_unwind().await;
        match ended {
            Ok(Ok(Ok(answer))) => answer.inspect_err(|status| {
                let error = &status.message;
                tracing::error!(webhook = path, object, operation, uid, error, "a webhook failed");
            }),
            Ok(Err(_)) => {
                self.metrics.timed_out(path);
                tracing::error!(webhook = path, object, operation, uid, ?timeout, "a webhook took too long");
                let message = format!("the webhook {path} did not answer within {timeout:?}");
                Err(Status::failure(504, Reason::Timeout, message))
            }
            Ok(Ok(Err(panic))) | Err(panic) => {
                self.metrics.panics.inc();
                let panic = panic_message(&*panic);
                tracing::error!(webhook = path, object, operation, uid, panic, "a webhook panicked");
                // The message may quote the object, so only the log has it.
                Err(Status::internal(format!("the webhook {path} panicked; its log says why")))
            }
        }
    }
}

/// The object that a call is about, for logs.
#[derive(Default)]
struct Subject {
    object: String,
    operation: &'static str,
    uid: String,
}

impl Subject {
    fn of(request: &AdmissionRequest) -> Self {
        let kind = &request.kind.kind;
        let object = match (&*request.namespace, &*request.name) {
            ("", name) => format!("{kind} {name}"),
            (namespace, name) => format!("{kind} {namespace}/{name}"),
        };
        Subject { object, operation: request.operation.as_str(), uid: request.uid.clone() }
    }

    fn converted(objects: &[Value], uid: &str) -> Self {
        let object = objects.first().map(named).unwrap_or_default();
        let object = match objects.len() {
            0 | 1 => object,
            many => format!("{object} and {} more", many - 1),
        };
        Subject { object, operation: "CONVERT", uid: uid.to_owned() }
    }
}

fn check_head(request: &Request<Bytes>) -> Result<(), Status> {
    if request.method() != Method::POST {
        let message = format!("{} is not supported: a review is posted", request.method());
        return Err(Status::failure(405, Reason::MethodNotAllowed, message));
    }
    let content_type =
        request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    match content_type.split(';').next().map(str::trim) {
        Some("application/json") => Ok(()),
        _ => Err(Status::unsupported_media_type(format!(
            "a review comes as application/json, and this one as {content_type:?}"
        ))),
    }
}

fn refused(path: &str, status: &Status) {
    tracing::warn!(webhook = path, error = status.message, "a request was no review");
}

/// The time that the API server waits, which it says in the query.
fn waits(query: Option<&str>) -> Option<Duration> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("timeout="))?;
    let digits = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value[..digits].parse().ok()?;
    match &value[digits..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        _ => None,
    }
}

pub(super) fn failure(status: &Status) -> Response<Bytes> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, &status.to_value());
    if code == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

fn json(code: StatusCode, value: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(value.to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
