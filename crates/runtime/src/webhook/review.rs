//! The question that a handler gets, and the answers that it can give.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::kind::GroupKind;
use setpoint_api::status::{Reason, Status};

use crate::client::Kind;
use crate::error::{ClientError, Error};
use crate::key::Key;

/// The operation that the API server asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object; a patch and an apply of an existing object too.
    Update,
    /// A deletion.
    Delete,
    /// A connection to a subresource, such as `pods/exec`.
    Connect,
}

impl Operation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// The user who sent the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct User {
    /// The name, such as `system:serviceaccount:NAMESPACE:NAME`.
    pub username: String,
    /// The uid, if the authenticator knows one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further facts of the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// One question of the API server to an admission handler.
///
/// Tests make one with [`Review::create`], [`Review::update`] or [`Review::delete`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Review<K> {
    /// The operation.
    pub operation: Operation,
    /// The stored object: of an update and a deletion.
    pub old: Option<K>,
    /// The object as it would be stored: of a create and an update.
    pub new: Option<K>,
    /// The object's key. The name is empty while `generateName` is to make one.
    pub key: Key,
    /// The subresource that the request writes, such as `status`; empty for the object itself.
    pub subresource: String,
    /// The user who sent the request.
    pub user: User,
    /// Whether nothing will be stored: the handler must have no side effects.
    pub dry_run: bool,
    /// The uid of this review, for logs.
    pub uid: String,
}

impl<K: Kind> Review<K> {
    /// A review of the creation of an object, for tests of a handler.
    pub fn create(new: K) -> Self {
        Review::of(Operation::Create, None, Some(new))
    }

    /// A review of an update, for tests of a handler.
    pub fn update(old: K, new: K) -> Self {
        Review::of(Operation::Update, Some(old), Some(new))
    }

    /// A review of a deletion, for tests of a handler.
    pub fn delete(old: K) -> Self {
        Review::of(Operation::Delete, Some(old), None)
    }

    fn of(operation: Operation, old: Option<K>, new: Option<K>) -> Self {
        let metadata = new.as_ref().or(old.as_ref()).map(|object| object.meta().clone()).unwrap_or_default();
        Review {
            operation,
            old,
            new,
            key: Key::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default()),
            subresource: String::new(),
            user: User::default(),
            dry_run: false,
            uid: String::new(),
        }
    }

    /// Allows the request if there are no errors, and else denies it with one cause for each.
    ///
    /// # Errors
    /// When `errors` has one: the Status that kube-apiserver gives for an invalid object.
    pub fn verdict(&self, errors: FieldErrors) -> Result<Allowed, Denied> {
        if errors.is_empty() {
            Ok(Allowed::yes())
        } else {
            Err(Denied::invalid::<K>(self.key.name(), errors))
        }
    }
}

/// The answer of a handler that allows the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Allowed {
    pub(super) warnings: Vec<String>,
}

impl Allowed {
    /// Allows the request.
    pub fn yes() -> Self {
        Allowed::default()
    }

    /// Adds a warning, which kubectl prints. The API server cuts warnings beyond 256 characters.
    pub fn warn(mut self, text: impl Into<String>) -> Self {
        self.warnings.push(text.into());
        self
    }
}

/// The answer of a handler that denies the request, or that could not decide.
///
/// `?` makes one of a failed call of the client: the webhook has then failed, and its `failurePolicy` decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Denied {
    pub(super) status: Box<Status>,
    pub(super) warnings: Vec<String>,
    /// Whether the handler itself failed, so that `failurePolicy` decides.
    pub(super) failed: bool,
}

impl Denied {
    /// Denies with a text: 403, as controller-runtime does.
    pub fn because(reason: impl fmt::Display) -> Self {
        Denied::with(Status::failure(403, Reason::Forbidden, reason.to_string()))
    }

    /// Denies an invalid object: 422, with one cause for each field.
    pub fn invalid<K: Kind>(name: &str, errors: FieldErrors) -> Self {
        let kind = GroupKind::new(K::group(&()), K::kind_name());
        Denied::with(Status::invalid(&kind, name, errors.0))
    }

    /// Denies with a Status of the author's own.
    pub fn with(status: Status) -> Self {
        Denied { status: Box::new(status), warnings: Vec::new(), failed: false }
    }

    /// The handler could not decide: 500. The webhook's `failurePolicy` says whether the request is refused.
    pub fn failed(error: impl fmt::Display) -> Self {
        Denied { failed: true, ..Denied::with(Status::internal(error)) }
    }

    /// Adds a warning, which kubectl prints.
    #[must_use]
    pub fn warn(mut self, text: impl Into<String>) -> Self {
        self.warnings.push(text.into());
        self
    }

    /// The Status that the client will see, but for the name of the webhook that is put before it.
    pub fn status(&self) -> &Status {
        &self.status
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status.message)
    }
}

impl std::error::Error for Denied {}

impl From<ClientError> for Denied {
    fn from(error: ClientError) -> Self {
        Denied::failed(error)
    }
}

impl From<Error> for Denied {
    fn from(error: Error) -> Self {
        Denied::failed(error)
    }
}

/// The errors in an object's fields, in Kubernetes' words. A path separates fields with dots.
///
/// ```
/// use setpoint::webhook::FieldErrors;
///
/// let mut errors = FieldErrors::default();
/// errors.invalid("spec.replicas", 9, "must be at most 5").required("spec.files", "");
/// assert_eq!(
///     errors.to_string(),
///     "[spec.replicas: Invalid value: 9: must be at most 5, spec.files: Required value]"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors(Vec<Cause>);

impl FieldErrors {
    fn add(&mut self, cause: Cause) -> &mut Self {
        self.0.push(cause);
        self
    }

    /// The value is malformed or out of bounds.
    pub fn invalid(&mut self, path: &str, value: impl Into<FieldValue>, detail: &str) -> &mut Self {
        self.add(Cause::invalid(&Path::new(path), value.into().0, detail))
    }

    /// There is no value.
    pub fn required(&mut self, path: &str, detail: &str) -> &mut Self {
        self.add(Cause::required(&Path::new(path), detail))
    }

    /// The value may not be there, or may not change.
    pub fn forbidden(&mut self, path: &str, detail: &str) -> &mut Self {
        self.add(Cause::forbidden(&Path::new(path), detail))
    }

    /// The value is none of those allowed.
    pub fn not_supported(&mut self, path: &str, value: impl Into<FieldValue>, allowed: &[&str]) -> &mut Self {
        self.add(Cause::not_supported(&Path::new(path), value.into().0, allowed))
    }

    /// The value occurs twice.
    pub fn duplicate(&mut self, path: &str, value: impl Into<FieldValue>) -> &mut Self {
        self.add(Cause::duplicate(&Path::new(path), value.into().0))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&setpoint_api::cause::aggregate(&self.0))
    }
}

/// A value that an error quotes.
#[derive(Clone, Debug)]
pub struct FieldValue(BadValue);

impl<T: serde::Serialize> From<T> for FieldValue {
    fn from(value: T) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        FieldValue(BadValue::from(&value))
    }
}
