//! `meta/v1.Status`: how every error, and some successes, are answered.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cause::{Cause, aggregate};
use crate::go_format::quote;
use crate::kind::{GroupKind, GroupResource};

/// An answer that is not an object. As an error it prints its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Always `Status`.
    #[serde(default)]
    pub kind: StatusKind,
    /// Always `v1`.
    #[serde(default, rename = "apiVersion")]
    pub api_version: StatusVersion,
    /// A continue token, where a list expired.
    #[serde(default)]
    pub metadata: Box<ListMeta>,
    /// `Success` or `Failure`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs.
    #[serde(default, skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    /// The object or field that the Status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// A text that never varies, and takes no space.
macro_rules! constant {
    ($(#[$doc:meta])* $name:ident, $text:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::de::IgnoredAny::deserialize(deserializer).map(|_| $name)
            }
        }
    };
}

constant!(
    /// The kind of a Status.
    StatusKind,
    "Status"
);
constant!(
    /// The version of a Status.
    StatusVersion,
    "v1"
);

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// `meta/v1.ListMeta`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListMeta {
    /// The revision that a list shows.
    #[serde(default, skip_serializing_if = "String::is_empty", rename = "resourceVersion")]
    pub resource_version: String,
    /// The token for the next page.
    #[serde(default, skip_serializing_if = "String::is_empty", rename = "continue")]
    pub continue_: String,
    /// How many items follow, where the server knows.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "remainingItemCount")]
    pub remaining_item_count: Option<i64>,
}

/// The object and the causes that a Status is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// The object's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of the kind or resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind, or the plural resource, as the reason has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry per thing that is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "is_zero", rename = "retryAfterSeconds")]
    pub retry_after_seconds: u32,
}

/// One entry of `details.causes`; the reason is open text, since not only fields cause errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCause {
    /// `FieldValueInvalid`, `NamespaceTerminating`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl StatusCause {
    /// From its parts.
    pub fn new(reason: impl Into<String>, message: impl Into<String>, field: impl Into<String>) -> Self {
        StatusCause { reason: reason.into(), message: message.into(), field: field.into() }
    }
}

impl From<Cause> for StatusCause {
    fn from(cause: Cause) -> Self {
        StatusCause::new(cause.reason.as_str(), cause.message, cause.field)
    }
}

/// Why a request failed, for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[allow(missing_docs, reason = "the names are Kubernetes' own and say it")]
pub enum Reason {
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StoreReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
    /// Any other, or none.
    #[default]
    Unknown,
}

const REASONS: [(Reason, &str); 19] = [
    (Reason::Unauthorized, "Unauthorized"),
    (Reason::Forbidden, "Forbidden"),
    (Reason::NotFound, "NotFound"),
    (Reason::AlreadyExists, "AlreadyExists"),
    (Reason::Conflict, "Conflict"),
    (Reason::Gone, "Gone"),
    (Reason::Invalid, "Invalid"),
    (Reason::ServerTimeout, "ServerTimeout"),
    (Reason::StoreReadError, "StorageReadError"),
    (Reason::Timeout, "Timeout"),
    (Reason::TooManyRequests, "TooManyRequests"),
    (Reason::BadRequest, "BadRequest"),
    (Reason::MethodNotAllowed, "MethodNotAllowed"),
    (Reason::NotAcceptable, "NotAcceptable"),
    (Reason::RequestEntityTooLarge, "RequestEntityTooLarge"),
    (Reason::UnsupportedMediaType, "UnsupportedMediaType"),
    (Reason::InternalError, "InternalError"),
    (Reason::Expired, "Expired"),
    (Reason::ServiceUnavailable, "ServiceUnavailable"),
];

impl Reason {
    /// As a Status has it; empty for an unknown one.
    pub fn as_str(self) -> &'static str {
        REASONS.iter().find(|(reason, _)| *reason == self).map_or("", |(_, text)| text)
    }

    fn is_unknown(&self) -> bool {
        *self == Reason::Unknown
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        REASONS.iter().find(|(_, known)| *known == text).map_or(Reason::Unknown, |(reason, _)| *reason)
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.as_str().to_owned()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// The text of a 409 for a stale resourceVersion.
pub const OBJECT_MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl Status {
    /// A failure of that code and reason.
    pub fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Status {
            kind: StatusKind,
            api_version: StatusVersion,
            metadata: Box::default(),
            status: "Failure".to_owned(),
            message: message.into(),
            reason,
            details: None,
            code,
        }
    }

    /// `Success` about an object, as an immediate deletion is answered.
    pub fn success(details: Details) -> Self {
        Status {
            status: "Success".to_owned(),
            details: Some(Box::new(details)),
            code: 0,
            ..Status::failure(0, Reason::Unknown, "")
        }
    }

    /// With these details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// With one cause more.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<StatusCause>) -> Self {
        self.details.get_or_insert_default().causes.push(cause.into());
        self
    }

    fn about(self, resource: &GroupResource, name: &str) -> Self {
        self.with_details(Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Details::default()
        })
    }

    /// 404.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Status::failure(404, Reason::NotFound, format!("{resource} {} not found", quote(name)))
            .about(resource, name)
    }

    /// 404 for a path that leads nowhere.
    pub fn no_such_path() -> Self {
        Status::failure(404, Reason::NotFound, "the server could not find the requested resource")
            .with_details(Details::default())
    }

    /// 409 on create.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Status::failure(409, Reason::AlreadyExists, format!("{resource} {} already exists", quote(name)))
            .about(resource, name)
    }

    /// 409 when no free name was drawn for a `generateName`.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        let mut status = Status::failure(409, Reason::AlreadyExists, message).about(resource, name);
        status.details.get_or_insert_default().retry_after_seconds = 1;
        status
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Status::failure(401, Reason::Unauthorized, "Unauthorized")
    }

    /// 403.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if resource.group.is_empty() && resource.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Status::failure(403, Reason::Forbidden, message).about(resource, name)
    }

    /// 409 on update.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Status::failure(409, Reason::Conflict, message).about(resource, name)
    }

    /// 410: the revision asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Status::failure(410, Reason::Expired, message)
    }

    /// 422 with one cause per field error.
    pub fn invalid(kind: &GroupKind, name: &str, causes: Vec<Cause>) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !causes.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(&causes));
        }
        Status::failure(422, Reason::Invalid, message).with_details(Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: causes.into_iter().map(StatusCause::from).collect(),
            ..Details::default()
        })
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::failure(400, Reason::BadRequest, message)
    }

    /// 429.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Status::failure(429, Reason::TooManyRequests, message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// 503.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Status::failure(503, Reason::ServiceUnavailable, message)
    }

    /// 405.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind {}", quote(&resource.to_string()));
        Status::failure(405, Reason::MethodNotAllowed, message).about(resource, "")
    }

    /// 500.
    pub fn internal(error: impl fmt::Display) -> Self {
        Status::failure(500, Reason::InternalError, format!("Internal error occurred: {error}"))
            .with_cause(StatusCause::new("", error.to_string(), ""))
    }

    /// 504.
    pub fn timeout(message: &str, retry_after_seconds: u32) -> Self {
        Status::failure(504, Reason::Timeout, format!("Timeout: {message}"))
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// 504: the revision asked for has not happened yet.
    pub fn too_large_resource_version(requested: u64, current: u64) -> Self {
        Status::timeout(&format!("Too large resource version: {requested}, current: {current}"), 1)
            .with_cause(StatusCause::new("ResourceVersionTooLarge", "Too large resource version", ""))
    }

    /// 413.
    pub fn request_entity_too_large(message: &str) -> Self {
        let message = format!("Request entity too large: {message}");
        Status::failure(413, Reason::RequestEntityTooLarge, message)
    }

    /// 406: nothing the client accepts can be made.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Status::failure(406, Reason::NotAcceptable, message)
    }

    /// 415: the body is of a type that is not understood.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Status::failure(415, Reason::UnsupportedMediaType, message)
    }

    /// As JSON.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a Status has only text keys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Path;
    use serde_json::json;

    #[test]
    fn an_invalid_status_names_kind_object_and_every_cause() {
        let status = Status::invalid(
            &GroupKind::new("apps", "Deployment"),
            "web",
            vec![Cause::required(&Path::new("spec.selector"), "")],
        );
        assert_eq!(
            status.to_value(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Deployment.apps \"web\" is invalid: spec.selector: Required value",
                "reason": "Invalid", "code": 422, "details": {"name": "web", "group": "apps",
                "kind": "Deployment", "causes": [{"reason": "FieldValueRequired",
                "message": "Required value", "field": "spec.selector"}]}})
        );
    }

    #[test]
    fn a_status_survives_json() {
        let status = Status::too_large_resource_version(9, 3);
        assert_eq!(serde_json::from_value::<Status>(status.to_value()).unwrap(), status);
        let foreign: Status = serde_json::from_value(json!({"reason": "Novel", "code": 418})).unwrap();
        assert_eq!(foreign.reason, Reason::Unknown);
    }
}
