//! The two errors of this crate's high layer: what the client says ([`ClientError`]) and what a reconcile
//! ends with ([`Error`]).

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use setpoint_api::status::{Reason, Status};

use crate::informer::{DecodeError, SelectorError};
use crate::key::Key;

/// The refusal of a server: its answer, and the request that it answered.
#[derive(Clone, Debug, thiserror::Error)]
pub struct ApiError {
    /// The HTTP method. Empty if a test made the error.
    pub verb: String,
    /// The path that was asked for, without the query.
    pub path: String,
    /// The answer.
    pub status: Status,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { code, message, .. } = &self.status;
        if !self.verb.is_empty() {
            write!(f, "{} {}: ", self.verb, self.path)?;
        }
        let reason = self.status.reason.as_str();
        let space = if reason.is_empty() { "" } else { " " };
        write!(f, "{code}{space}{reason}: {message}")
    }
}

impl From<Status> for ClientError {
    /// The refusal of a request that was never made: for hooks that stand for the server in tests of failure.
    fn from(status: Status) -> Self {
        ClientError::Api(Box::new(ApiError { verb: String::new(), path: String::new(), status }))
    }
}

/// The failure of a call of the [`Client`](crate::Client).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refused; its answer says why.
    #[error(transparent)]
    Api(Box<ApiError>),
    /// The request did not reach the server, or its answer did not arrive.
    #[error("{verb} {path}: {source}")]
    Transport {
        /// The HTTP method.
        verb: String,
        /// The path that was asked for.
        path: String,
        /// The error of the transport.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time.
    #[error("{verb} {path}: no answer within {after:?}")]
    Timeout {
        /// The HTTP method.
        verb: String,
        /// The path that was asked for.
        path: String,
        /// The deadline that passed.
        after: Duration,
    },
    /// The object could not be written as JSON.
    #[error("the {kind} could not be encoded: {source}")]
    Encode {
        /// The kind of the object.
        kind: Cow<'static, str>,
        /// The error of the encoder.
        source: serde_json::Error,
    },
    /// The answer is not what was asked for. Never holds the object's content.
    #[error("the answer does not decode as {kind}: {reason}")]
    Decode {
        /// The kind that was expected.
        kind: Cow<'static, str>,
        /// The decoder's message, without the values that it quotes.
        reason: String,
    },
    /// The cache does not show yet what this process wrote, so it is not read. A reconcile that returns this is queued
    /// again with back-off.
    #[error(
        "the cache of {kind} does not show this process's write to {} after {}",
        written(key),
        seconds(lag)
    )]
    Stale {
        /// The kind whose cache is behind.
        kind: String,
        /// The object that was written; empty if there are too many to name one.
        key: Key,
        /// The time since the write.
        lag: Duration,
    },
    /// A cached object does not decode as the type that was asked for.
    #[error(transparent)]
    Undecodable(#[from] DecodeError),
    /// No informer keeps this kind where the read looks for it.
    #[error(
        "no informer keeps {kind}{scope}: declare it (`.owns::<{kind}>()`, `.watches::<{kind}>(..)`, \
         `.reads::<{kind}>()` on the controller, or `manager.informer::<{kind}>()`), or read from the server \
         with `client.live()`"
    )]
    NoInformer {
        /// The kind that was asked for.
        kind: String,
        /// The place where the read looked.
        scope: String,
        /// An informer keeps another part of the kind, and may keep this one later. If none does, the program lacks a
        /// declaration, and the error is [terminal](Error::terminal) for a reconcile.
        elsewhere: bool,
    },
    /// There is no cache any more.
    #[error("the manager has stopped, and its caches with it")]
    Stopped,
    /// Every informer of this kind keeps some namespaces only, and none is this client's rather than another's.
    #[error(
        "several informers keep {kind} of some namespaces each: list one namespace (`Query::namespace`), or declare an \
         informer for all of them"
    )]
    PartialInformers {
        /// The kind that was asked for.
        kind: String,
    },
    /// A text that is no label selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// A list asked for an index that nobody declared.
    #[error("{kind} has no index {index:?}: declare it with `manager.informer::<{kind}>().add_index(..)`")]
    NoIndex {
        /// The kind that was asked for.
        kind: String,
        /// The name of the index.
        index: String,
    },
    /// The object lacks what the request needs.
    #[error("the {kind} has no {field}")]
    Incomplete {
        /// The kind of the object.
        kind: Cow<'static, str>,
        /// The field that is missing.
        field: &'static str,
    },
    /// A namespace or name that no object can have: it would lead to another path than the one that is meant.
    #[error("{name:?} cannot be the namespace or name of a {kind}")]
    BadName {
        /// The kind that was asked for.
        kind: Cow<'static, str>,
        /// The namespace or name.
        name: String,
    },
    /// A namespace was given for a kind that lives in none.
    #[error(
        "{kind} lives in no namespace, but {key} was asked for (a derived type lives in one with `#[kube(namespaced)]`)"
    )]
    ClusterScoped {
        /// The kind that was asked for.
        kind: Cow<'static, str>,
        /// The key.
        key: Key,
    },
    /// The object is controlled by somebody else.
    #[error("Object {object} is already owned by another {owner_kind} controller {owner_name}")]
    AlreadyOwned {
        /// The object.
        object: Key,
        /// The kind of its present controller.
        owner_kind: String,
        /// The name of its present controller.
        owner_name: String,
    },
    /// A query by something that whoever is asked does not know: the cache knows no field selectors, the server no
    /// indexes.
    #[error("{0}")]
    BadQuery(String),
    /// An owner reference that Kubernetes does not allow.
    #[error("{0}")]
    BadOwner(String),
    /// The namespaced client was asked for another namespace.
    #[error("this client works in namespace {allowed}, not in {asked}")]
    WrongNamespace {
        /// The namespace of the client.
        allowed: String,
        /// The namespace of the object.
        asked: String,
    },
    /// This process does not hold the lease (any more), so nothing is sent. What was on its way when the lease ended may
    /// have arrived; its answer was not waited for.
    #[error("this process is not the leader (any more)")]
    NotLeader,
    /// Something in a hook of the caller: an interceptor or a mutate function.
    #[error("{0}")]
    Hook(Box<dyn std::error::Error + Send + Sync>),
}

impl ClientError {
    /// The server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            ClientError::Api(error) => Some(&error.status),
            _ => None,
        }
    }

    /// The server's own words, without the request that it refused; of every other error the whole. For texts that
    /// users see on objects, such as the messages of events and conditions.
    pub fn message(&self) -> String {
        self.status().map_or_else(|| self.to_string(), |status| status.message.clone())
    }

    /// The HTTP status of the server's answer.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// The cache does not show this process's writes yet.
    pub fn is_stale(&self) -> bool {
        matches!(self, ClientError::Stale { .. })
    }

    /// The object does not exist (404).
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The name is taken (409 AlreadyExists).
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == Reason::AlreadyExists)
    }

    /// Somebody else wrote first (409 Conflict).
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409) && !self.is_already_exists()
    }

    /// The object is not valid (422).
    pub fn is_invalid(&self) -> bool {
        self.code() == Some(422)
    }

    /// The caller may not do this (403).
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// The namespace is being deleted, so nothing can be created in it.
    pub fn is_namespace_terminating(&self) -> bool {
        let causes = self.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
        causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        let details = self.status()?.details.as_ref()?;
        let seconds = u64::from(details.retry_after_seconds);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

/// The object of a write. A write that was not answered, and several as one, have no name.
fn written(key: &Key) -> &str {
    if key.name().is_empty() { "some object" } else { key.as_str() }
}

fn seconds(lag: &Duration) -> String {
    format!("{:.1} s", lag.as_secs_f64())
}

/// Says `None` where the object was not found.
pub trait NotFoundExt<T> {
    /// `Ok(None)` for a 404, everything else unchanged.
    ///
    /// # Errors
    /// Every error but a 404.
    fn ignore_not_found(self) -> Result<Option<T>, ClientError>;
}

impl<T> NotFoundExt<T> for Result<T, ClientError> {
    fn ignore_not_found(self) -> Result<Option<T>, ClientError> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The failure of a reconcile. `?` makes one of every `std::error::Error`, of a boxed one, of an `anyhow::Error`, and of
/// a text.
///
/// The key is tried again after its back-off, unless the error is [terminal](Error::terminal). A lost write conflict is no
/// failure to worry about: the key is requeued quietly.
///
/// ```
/// use setpoint::Error;
/// fn parse(text: &str) -> Result<u32, Error> {
///     Ok(text.parse()?)
/// }
/// assert!(!parse("x").unwrap_err().is_terminal());
/// assert!(Error::terminal("the spec asks for the impossible").is_terminal());
/// ```
pub struct Error {
    source: Box<dyn std::error::Error + Send + Sync>,
    terminal: bool,
}

impl Error {
    /// An error that is only a message.
    pub fn msg(message: impl fmt::Display) -> Self {
        Error { source: message.to_string().into(), terminal: false }
    }

    /// An error that another try does not mend: counted and logged, not retried until the object changes.
    pub fn terminal(source: impl Into<Box<dyn std::error::Error + Send + Sync>> + 'static) -> Self {
        Error { source: boxed(source), terminal: true }
    }

    /// Whether it is not retried: it was made so, or it says that the program reads a kind that it does not declare, or
    /// that it wrote an owner reference that Kubernetes does not allow.
    pub fn is_terminal(&self) -> bool {
        // No other try declares the kind, or moves the owner.
        let hopeless = |error| {
            matches!(error, &ClientError::NoInformer { elsewhere: false, .. } | ClientError::BadOwner(_))
        };
        self.terminal || self.client_error().is_some_and(hopeless)
    }

    /// The error inside.
    pub fn source(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.source
    }

    /// The server's own words if the error is a refusal, as [`ClientError::message`]; else the whole error.
    pub fn message(&self) -> String {
        let refused = self.source.downcast_ref().map(ClientError::message);
        refused.unwrap_or_else(|| self.to_string())
    }

    /// The client's error, if it is one or was caused by one.
    pub fn client_error(&self) -> Option<&ClientError> {
        self.causes().find_map(|cause| cause.downcast_ref())
    }

    /// The error and what caused it, outermost first.
    fn causes(&self) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
        let first: &(dyn std::error::Error + 'static) = &*self.source;
        std::iter::successors(Some(first), |error| error.source())
    }

    /// Whether a write lost against somebody else's, of this crate's client or of kube's.
    pub fn is_conflict(&self) -> bool {
        self.client_error().is_some_and(ClientError::is_conflict)
            || self.causes().any(|cause| {
                matches!(cause.downcast_ref(), Some(kube::Error::Api(status))
                    if status.code == 409 && status.reason != "AlreadyExists")
            })
    }

    /// Whether a cache did not show this process's writes yet.
    pub fn is_stale(&self) -> bool {
        self.client_error().is_some_and(ClientError::is_stale)
    }

    /// Whether it failed because this process is no leader any more.
    pub fn is_not_leader(&self) -> bool {
        matches!(self.client_error(), Some(ClientError::NotLeader))
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static> From<E> for Error {
    fn from(source: E) -> Self {
        Error { source: boxed(source), terminal: false }
    }
}

/// Boxes an error. The box that an `anyhow::Error` makes of itself hides the error inside it, and with it a lost write
/// conflict: this one does not.
fn boxed<E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static>(
    source: E,
) -> Box<dyn std::error::Error + Send + Sync> {
    let mut source = Some(source);
    let any: &mut dyn Any = &mut source;
    if let Some(error) = any.downcast_mut::<Option<anyhow::Error>>().and_then(Option::take) {
        return error.reallocate_into_boxed_dyn_error_without_backtrace();
    }
    source.expect("only an anyhow::Error was taken").into()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let mut cause = self.source.source();
        let mut said = self.source.to_string();
        while let Some(error) = cause {
            let text = error.to_string();
            // Many errors print their source themselves; saying it once is enough.
            if !said.contains(&text) {
                write!(f, ": {text}")?;
            }
            said = text;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_the_server_are_told_apart() {
        let api = |code, reason| ClientError::from(Status::failure(code, reason, "no"));
        assert!(api(404, Reason::NotFound).is_not_found());
        assert!(api(409, Reason::Conflict).is_conflict());
        assert!(!api(409, Reason::AlreadyExists).is_conflict());
        assert!(api(409, Reason::AlreadyExists).is_already_exists());
        let error = Error::from(api(409, Reason::Conflict));
        assert!(error.is_conflict() && !error.is_terminal());
        assert_eq!(error.to_string(), "409 Conflict: no");
        assert_eq!(error.message(), "no");
        assert!(Err::<(), _>(api(404, Reason::NotFound)).ignore_not_found().unwrap().is_none());
    }

    #[test]
    fn a_conflict_is_found_within_an_error_of_the_authors() {
        #[derive(Debug, thiserror::Error)]
        enum Own {
            #[error("the status was not written")]
            Kube(#[from] kube::Error),
            #[error("nor here")]
            Client(#[from] ClientError),
        }
        let of_kube = |reason: &str| {
            let status = kube::core::Status::failure("no", reason).with_code(409);
            Error::from(Own::from(kube::Error::Api(Box::new(status))))
        };
        assert!(of_kube("Conflict").is_conflict());
        assert!(!of_kube("AlreadyExists").is_conflict());
        let own = ClientError::from(Status::failure(409, Reason::Conflict, "no"));
        assert!(Error::from(Own::from(own)).is_conflict());
        assert!(!Error::msg("no").is_conflict());
    }

    #[test]
    fn a_conflict_is_found_within_an_anyhow_error() {
        let conflict = || ClientError::from(Status::failure(409, Reason::Conflict, "no"));
        let reconcile = |error: anyhow::Error| -> Result<(), Error> { Err(error)? };
        assert!(reconcile(conflict().into()).unwrap_err().is_conflict());
        let context = anyhow::Error::from(conflict()).context("writing the status");
        let error = reconcile(context).unwrap_err();
        assert!(error.is_conflict());
        assert_eq!(error.to_string(), "writing the status: 409 Conflict: no");
        assert!(Error::terminal(anyhow::Error::from(conflict())).is_conflict());
        assert_eq!(Error::from("the bucket is busy").to_string(), "the bucket is busy");
    }
}
