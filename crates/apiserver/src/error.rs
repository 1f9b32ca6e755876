//! The one place where a failure becomes an HTTP status and a `Status` body.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::kind::{GroupKind, GroupResource};
use setpoint_api::status::{Details, Reason, Status, StatusCause};
use setpoint_machinery::apply::ConversionError;
use setpoint_machinery::strategic;
use setpoint_store::{Entry, ReadError, TxnError, WriteError};

use crate::object;
use crate::yaml::YamlError;

/// The failure of a request, as clients see it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ApiError(Box<Status>, Vec<String>, Option<Box<str>>);

/// The result of handling a request.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

/// A WebSocket handshake that is refused without a body, as Go's server does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHandshake {
    /// The key or the version is missing, or there are several protocols.
    Malformed,
    /// The client names no origin.
    NoOrigin,
}

impl BadHandshake {
    pub(crate) fn code(self) -> StatusCode {
        match self {
            BadHandshake::Malformed => StatusCode::BAD_REQUEST,
            BadHandshake::NoOrigin => StatusCode::FORBIDDEN,
        }
    }
}

/// The status for a badly escaped path. This error alone has no `Status`, because Go's HTTP server answers it.
pub(crate) const BAD_PATH: StatusCode = StatusCode::BAD_REQUEST;

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        ApiError(Box::new(status), Vec::new(), None)
    }
}

impl From<TxnError<ApiError>> for ApiError {
    fn from(error: TxnError<ApiError>) -> Self {
        match error {
            TxnError::Decide(error) => error,
            TxnError::Write(error) => error.into(),
            other => ApiError::internal(other),
        }
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Quota => ApiError::internal_plain("etcdserver: mvcc: database space exceeded"),
            other => ApiError::unavailable(other.to_string()),
        }
    }
}

impl From<YamlError> for ApiError {
    fn from(error: YamlError) -> Self {
        ApiError::bad_request(error.to_string())
    }
}

impl From<ConversionError> for ApiError {
    fn from(error: ConversionError) -> Self {
        ApiError::internal_plain(error.0)
    }
}

impl ApiError {
    /// The HTTP status.
    pub fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Whether the failure is a 403.
    pub fn is_forbidden(&self) -> bool {
        self.code() == StatusCode::FORBIDDEN
    }

    /// The body.
    pub fn status(&self) -> &Status {
        &self.0
    }

    /// The body as JSON.
    pub fn to_value(&self) -> Value {
        let mut status = self.0.to_value();
        if let Some(reason) = &self.2 {
            status["reason"] = Value::from(&**reason);
        }
        status
    }

    /// Seconds for the `Retry-After` header.
    pub fn retry_after(&self) -> Option<u32> {
        self.0.details.as_ref().map(|details| details.retry_after_seconds).filter(|&seconds| seconds > 0)
    }

    /// The warnings from before the request failed.
    pub fn warnings(&self) -> &[String] {
        &self.1
    }

    /// Adds warnings before those that the error has.
    #[must_use]
    pub fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.1.splice(..0, warnings.iter().cloned());
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn with_cause(self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        ApiError::from((*self.0).with_cause(StatusCause::new(reason, message, field)))
    }

    /// The namespace does not exist.
    pub fn namespace_not_found(name: &str) -> Self {
        Status::not_found(&GroupResource::new("", "namespaces"), name).into()
    }

    /// The group, version or resource is not served.
    pub fn no_such_resource() -> Self {
        Status::no_such_path().into()
    }

    /// Other field managers own the applied fields.
    pub fn apply_conflict(message: String, causes: Vec<StatusCause>) -> Self {
        let details = Details { causes, ..Details::default() };
        Status::failure(409, Reason::Conflict, message).with_details(details).into()
    }

    /// The user may not make the request, or admission refused it.
    pub fn forbidden(resource: &GroupResource, name: &str, text: &str) -> Self {
        Status::forbidden(resource, name, text).into()
    }

    /// Options of a request contradict each other.
    pub fn invalid_options(kind: &str, causes: Vec<Cause>) -> Self {
        Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", causes).into()
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::bad_request(message).into()
    }

    /// The client could not be authenticated.
    pub fn unauthorized() -> Self {
        Status::unauthorized().into()
    }

    /// The path exists and does not have the method.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Status::failure(405, Reason::MethodNotAllowed, message).with_details(Details::default()).into()
    }

    /// The body is longer than the limit.
    pub fn too_large(limit: usize) -> Self {
        Status::request_entity_too_large(&format!("limit is {limit}")).into()
    }

    /// An object that no client could read.
    pub fn too_deep() -> Self {
        ApiError::bad_request(format!("the object nests deeper than {} levels", object::MAX_DEPTH))
    }

    /// More patch operations than allowed.
    pub fn too_many_operations(limit: usize, found: usize) -> Self {
        let text = format!("The allowed maximum operations in a JSON patch is {limit}, got {found}");
        Status::request_entity_too_large(&text).into()
    }

    /// The server does not read the body's content type.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::unsupported_media_type(message).into()
    }

    /// The server does not support this type of patch.
    pub fn unsupported_patch() -> Self {
        let status = Status::unsupported_media_type("415: Unsupported Media Type");
        status.with_details(Details::default()).into()
    }

    /// The server offers none of the media types that the client accepts.
    pub fn no_representation(available: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", available.join(", "));
        Status::not_acceptable(message).with_details(Details::default()).into()
    }

    /// The server cannot produce any of the accepted content types.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Status::not_acceptable(message).into()
    }

    /// A version that the store has not reached yet.
    pub fn future_version(wanted: u64, current: u64) -> Self {
        Status::too_large_resource_version(wanted, current).into()
    }

    /// A watch or an exact list at a version that is compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Status::expired(message).into()
    }

    /// A list whose pages cannot be continued consistently; the token continues it anyway.
    pub fn expired_continue(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can \
                       start a new list without the continue parameter, or use the continue token in this \
                       response to retrieve the remainder of the results. Continuing with the provided token \
                       results in an inconsistent list - objects that were created, modified, or deleted \
                       between the time the first chunk was returned and now may show up in the list.";
        let mut status = Status::expired(message);
        status.metadata.continue_ = token;
        status.into()
    }

    /// The request took too long.
    pub fn timeout() -> Self {
        Status::timeout("request did not complete within the allotted timeout", 0).into()
    }

    /// Try again later: a disruption budget does not allow it now.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Status::too_many_requests(message, retry_after).into()
    }

    /// Writing has ended or is refused for now (full disk, shutdown).
    pub fn unavailable(message: impl Into<String>) -> Self {
        Status::service_unavailable(message).into()
    }

    /// A strategic merge patch that does not apply.
    pub fn strategic(error: strategic::Error) -> Self {
        match error.class() {
            strategic::ErrorClass::BadRequest => ApiError::bad_request(error.to_string()),
            strategic::ErrorClass::Unprocessable => ApiError::unprocessable(),
            strategic::ErrorClass::Internal => ApiError::internal_plain(error.to_string()),
        }
    }

    /// A patch whose result is not an object of the kind.
    pub fn invalid_patch(patched: &Value, error: &str) -> Self {
        Self::invalid_patch_shown(&setpoint_api::go_format::json(patched), error)
    }

    /// A patch whose result is not an object of the kind, with the text that stands for it.
    pub fn invalid_patch_shown(shown: &str, error: &str) -> Self {
        let cause = Cause::invalid(&Path::new("patch"), shown, error);
        Status::invalid(&GroupKind::new("", ""), "", vec![cause]).into()
    }

    /// A patch that is understood and does not apply.
    pub fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Status::failure(422, Reason::Invalid, message).with_details(Details::default()).into()
    }

    /// A node's refusal, passed on.
    pub fn of_node(code: StatusCode, message: String) -> Self {
        match code {
            StatusCode::BAD_REQUEST => ApiError::bad_request(message),
            StatusCode::NOT_FOUND => Status::failure(404, Reason::NotFound, message).into(),
            _ => ApiError::internal_plain(message),
        }
    }

    /// An error without a reason, as Go's server answers errors that it has no class for.
    pub fn internal_plain(message: impl Into<String>) -> Self {
        Status::failure(500, Reason::Unknown, message).into()
    }

    /// A defect of ours. The panic's own text is in the log.
    pub(crate) fn panicked(verb: &str, path: &str) -> Self {
        tracing::error!(verb, path, "a request handler panicked");
        ApiError::internal_plain(format!("the server panicked on {verb} {path}"))
    }

    /// Something that should not happen, happened.
    pub fn internal(error: impl std::fmt::Display) -> Self {
        Status::internal(error).into()
    }

    /// A request that exceeded its deadline.
    pub(crate) fn timed_out() -> Self {
        Status::timeout("request did not complete within requested timeout - context deadline exceeded", 0)
            .into()
    }

    /// A webhook denied the request, with its own Status.
    pub(crate) fn refused_by_webhook(refusal: &Refusal) -> Self {
        let mut status = Status::failure(refusal.code, Reason::Unknown, &*refusal.message);
        let details = refusal.details.clone().map(serde_json::from_value).and_then(Result::ok);
        status.details = details.map(Box::new);
        let reason = Some(refusal.reason.as_str()).filter(|reason| !reason.is_empty());
        ApiError(Box::new(status), Vec::new(), reason.map(Into::into))
    }

    /// A policy denied the request.
    pub(crate) fn refused_by_policy(
        resource: &GroupResource,
        name: &str,
        text: &str,
        reason: Reason,
    ) -> Self {
        let mut status = Status::forbidden(resource, name, text).with_cause(StatusCause::new("", text, ""));
        status.code = match reason {
            Reason::Forbidden => 403,
            Reason::RequestEntityTooLarge => 413,
            _ => 422,
        };
        status.reason = reason;
        status.into()
    }

    /// A stored object that its webhook does not convert.
    pub(crate) fn corrupt_object(failed: &Unreadable) -> Self {
        let key = String::from_utf8_lossy(&failed.entry.key).into_owned();
        ApiError::internal(corrupt(failed, key.strip_prefix("/registry").unwrap_or(&key)))
    }

    /// Stored objects of a list that their webhook does not convert.
    pub(crate) fn unreadable_list(resource: &GroupResource, failed: &[Unreadable]) -> Self {
        let causes = failed.iter().take(MAX_UNREADABLE).map(|one| {
            let key = String::from_utf8_lossy(&one.entry.key).into_owned();
            StatusCause::new("UnexpectedServerResponse", corrupt(one, &key), &key)
        });
        let causes: Vec<StatusCause> = causes.collect();
        let first = causes.first().map_or("", |cause| cause.message.as_str());
        let mut message = format!("failed to read one or more {resource} from the storage: {first}");
        if causes.len() > 1 {
            message.push_str(&format!(" (and {} more)", causes.len() - 1));
        }
        let details = Details {
            name: "list".to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            causes,
            ..Details::default()
        };
        Status::failure(500, Reason::StoreReadError, message).with_details(details).into()
    }

    /// The store does not have that version: it is in the future or compacted.
    pub fn unreadable(error: &ReadError, wanted: u64) -> Self {
        match error {
            ReadError::Future { current } => ApiError::future_version(wanted, *current),
            _ => ApiError::expired("The resourceVersion for the provided list is too old."),
        }
    }
}

/// The Status of a webhook's refusal.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) message: String,
    pub(crate) reason: String,
    pub(crate) details: Option<Value>,
}

/// An object that cannot be shown in the version of the request.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) entry: Arc<Entry>,
    pub(crate) why: ConversionError,
}

/// The number of unreadable objects that the error of a list names.
const MAX_UNREADABLE: usize = 100;

fn corrupt(failed: &Unreadable, key: &str) -> String {
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable \
         revision={}: {}",
        failed.entry.mod_revision, failed.why
    )
}

/// kube-apiserver's plain-text answer when too many requests are in flight.
pub(crate) const TOO_MANY_IN_FLIGHT: (StatusCode, &str) =
    (StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");

/// The answer of Go's mux for a path without a handler.
pub(crate) const UNKNOWN_PATH: (StatusCode, &str) = (StatusCode::NOT_FOUND, "404 page not found\n");
