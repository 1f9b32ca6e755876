//! Failures of a list or a watch, and the server's answers that mean them.

use std::time::Duration;

use serde::Deserialize;

/// The text that older servers wrote instead of the cause `ResourceVersionTooLarge`.
const TOO_LARGE_TEXT: &str = "Too large resource version";

/// How much of an answer that is no Status becomes the failure's message.
const MESSAGE_BYTES: usize = 256;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    code: u16,
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    causes: Vec<Cause>,
    retry_after_seconds: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

/// Why a list or a watch failed, as far as a reflector must tell apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchFailure {
    /// 410: the revision is no longer kept.
    #[error("the resourceVersion is too old: {0}")]
    Expired(String),
    /// The revision lies in the server's future.
    #[error("the resourceVersion is too large: {0}")]
    TooLarge(String),
    /// 429: the server has too much to do.
    #[error("the server asks to wait")]
    TooManyRequests {
        /// `Retry-After`, if it was sent.
        retry_after: Option<Duration>,
    },
    /// Nobody listens.
    #[error("the connection was refused")]
    Refused,
    /// 500 with reason InternalError.
    #[error("the server failed: {0}")]
    Internal(String),
    /// Any other answer of the server.
    #[error("{}", answered(*code, reason, message))]
    Status {
        /// The HTTP status.
        code: u16,
        /// The Status object's reason.
        reason: String,
        /// The Status object's message; of an answer that is no Status, the beginning of its text.
        message: String,
    },
    /// No answer, or none that can be read.
    #[error("{0}")]
    Transport(String),
    /// Our own deadline passed.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
}

/// Says what a 404 means: a collection that the server serves is never missing.
fn answered(code: u16, reason: &str, message: &str) -> String {
    if code == 404 {
        return "the server answered 404: it does not serve this kind; is its definition installed?"
            .to_owned();
    }
    let words = [reason, message].into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>();
    let before = if words.is_empty() { "" } else { " " };
    format!("the server answered {code}{before}{}", words.join(": "))
}

impl WatchFailure {
    /// Whether both have one cause, as far as can be told: texts also say which request it was.
    pub(crate) fn is_like(&self, other: &WatchFailure) -> bool {
        match (self, other) {
            (
                WatchFailure::Status { code, reason, .. },
                WatchFailure::Status { code: other_code, reason: other_reason, .. },
            ) => code == other_code && reason == other_reason,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl WatchFailure {
    /// Reads a Status, as the body of an answer with `http_status` or as the object of an ERROR event (then the
    /// Status knows its code itself). A body that is no Status counts by the HTTP status alone.
    pub fn from_status(http_status: Option<u16>, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
            message: String::from_utf8_lossy(&body[..body.len().min(MESSAGE_BYTES)]).trim().to_owned(),
            ..Status::default()
        });
        let code = http_status.unwrap_or(status.code);
        let details = status.details.unwrap_or_default();
        let is_timeout = code == 504 || status.reason == "Timeout";
        let too_large = details.causes.iter().any(|cause| {
            cause.reason == "ResourceVersionTooLarge"
                || (is_timeout && cause.message.contains(TOO_LARGE_TEXT))
        });
        if too_large || (is_timeout && status.message.contains(TOO_LARGE_TEXT)) {
            return WatchFailure::TooLarge(status.message);
        }
        match (code, status.reason.as_str()) {
            (410, _) | (_, "Expired" | "Gone") => WatchFailure::Expired(status.message),
            (429, _) | (_, "TooManyRequests") => {
                let seconds = Some(details.retry_after_seconds).filter(|seconds| *seconds > 0);
                WatchFailure::TooManyRequests {
                    retry_after: retry_after.or(seconds.map(Duration::from_secs)),
                }
            }
            (_, "InternalError") => WatchFailure::Internal(status.message),
            _ => WatchFailure::Status { code, reason: status.reason, message: status.message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart_in_every_form_they_come_in() {
        let read = |http, body: &str| WatchFailure::from_status(http, None, body.as_bytes());
        let expired = |failure| matches!(failure, WatchFailure::Expired(_));
        assert!(expired(read(Some(410), "gone away")));
        assert!(expired(read(None, r#"{"kind":"Status","code":410,"reason":"Expired"}"#)));
        assert!(expired(read(None, r#"{"kind":"Status","reason":"Gone"}"#)));
        let too_large = |failure| matches!(failure, WatchFailure::TooLarge(_));
        assert!(too_large(read(
            Some(504),
            r#"{"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#
        )));
        assert!(too_large(read(
            Some(504),
            r#"{"message":"Timeout: Too large resource version: 9, current: 3"}"#
        )));
        assert_eq!(
            read(Some(429), r#"{"details":{"retryAfterSeconds":7}}"#),
            WatchFailure::TooManyRequests { retry_after: Some(Duration::from_secs(7)) }
        );
        assert!(matches!(read(None, r#"{"code":500,"reason":"InternalError"}"#), WatchFailure::Internal(_)));
        assert_eq!(read(Some(403), "<html>").to_string(), "the server answered 403 <html>");
        assert_eq!(read(Some(502), "").to_string(), "the server answered 502");
        let missing = read(Some(404), "404 page not found").to_string();
        assert!(missing.ends_with("it does not serve this kind; is its definition installed?"), "{missing}");
    }
}
