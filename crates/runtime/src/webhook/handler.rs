//! Handlers of admission reviews: the traits that authors implement, and the step from JSON to their types.

use std::future::Future;
use std::marker::PhantomData;

use futures::future::BoxFuture;
use serde_json::Value;
use setpoint_api::status::Status;

use super::patch;
use super::review::{Allowed, Denied, Operation, Review};
use super::wire::{self, AdmissionRequest};
use crate::client::Kind;
use crate::key::Key;
use crate::redact::redact;

/// Says whether a change of an object is allowed.
///
/// A closure `Fn(&Review<K>) -> Result<Allowed, Denied>` is a validator too. Implement the trait if the decision needs
/// to wait, for example for a read of another object:
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
/// use setpoint::{Client, Key};
/// use setpoint::webhook::{Allowed, Denied, Review, Validate};
///
/// struct OnlyInLabelled(Client);
///
/// impl Validate<ConfigMap> for OnlyInLabelled {
///     async fn validate(&self, review: &Review<ConfigMap>) -> Result<Allowed, Denied> {
///         let namespace = review.key.namespace().unwrap_or_default();
///         let found = self.0.get::<Namespace>(&Key::cluster(namespace)).await?;
///         let labels = found.as_ref().and_then(|found| found.metadata.labels.as_ref());
///         match labels.is_some_and(|labels| labels.contains_key("configurable")) {
///             true => Ok(Allowed::yes()),
///             false => Err(Denied::because(format!("namespace {namespace} is not configurable"))),
///         }
///     }
/// }
/// ```
///
/// The future is dropped at an `.await` when the API server waits no more.
pub trait Validate<K>: Send + Sync + 'static {
    /// Allows or denies the change.
    fn validate(&self, review: &Review<K>) -> impl Future<Output = Result<Allowed, Denied>> + Send;
}

impl<K: Kind, F> Validate<K> for F
where
    F: Fn(&Review<K>) -> Result<Allowed, Denied> + Send + Sync + 'static,
{
    async fn validate(&self, review: &Review<K>) -> Result<Allowed, Denied> {
        self(review)
    }
}

/// Changes an object before it is validated and stored.
///
/// The handler changes a copy, and the JSON patch is computed. Fields that the type does not know, and defaults that the
/// type adds when it is decoded, are left as they were sent. A closure
/// `Fn(&Review<K>, &mut K) -> Result<Allowed, Denied>` is a mutator too.
///
/// A mutator may be called again with its own result, and must then change nothing.
///
/// The future is dropped at an `.await` when the API server waits no more.
pub trait Mutate<K>: Send + Sync + 'static {
    /// Changes `object`, a copy of the review's new object, or denies the change.
    fn mutate(
        &self,
        review: &Review<K>,
        object: &mut K,
    ) -> impl Future<Output = Result<Allowed, Denied>> + Send;
}

impl<K: Kind, F> Mutate<K> for F
where
    F: Fn(&Review<K>, &mut K) -> Result<Allowed, Denied> + Send + Sync + 'static,
{
    async fn mutate(&self, review: &Review<K>, object: &mut K) -> Result<Allowed, Denied> {
        self(review, object)
    }
}

/// A handler of JSON reviews.
pub(super) trait Admission: Send + Sync + 'static {
    /// Gives the answer as JSON. The error is a failure of the webhook, for which `failurePolicy` decides.
    fn answer(&self, request: AdmissionRequest) -> BoxFuture<'_, Result<Value, Status>>;
}

/// A validator behind JSON.
pub(super) struct Validating<K, H>(pub(super) H, pub(super) PhantomData<fn() -> K>);

impl<K: Kind, H: Validate<K>> Admission for Validating<K, H> {
    fn answer(&self, request: AdmissionRequest) -> BoxFuture<'_, Result<Value, Status>> {
        Box::pin(async move {
            let uid = request.uid.clone();
            let review = match review::<K>(request)? {
                Ok(review) => review,
                Err(undecodable) => return Ok(wire::denied(&uid, &[], &undecodable)),
            };
            match self.0.validate(&review).await {
                Ok(allowed) => Ok(wire::allowed(&uid, &allowed.warnings, &[])),
                Err(denied) => refusal(&uid, denied),
            }
        })
    }
}

/// A mutator behind JSON.
pub(super) struct Mutating<K, H>(pub(super) H, pub(super) PhantomData<fn() -> K>);

impl<K: Kind, H: Mutate<K>> Admission for Mutating<K, H> {
    fn answer(&self, request: AdmissionRequest) -> BoxFuture<'_, Result<Value, Status>> {
        Box::pin(async move {
            let (uid, raw) = (request.uid.clone(), request.object.clone());
            let review = match review::<K>(request)? {
                Ok(review) => review,
                Err(undecodable) => return Ok(wire::denied(&uid, &[], &undecodable)),
            };
            // A deletion has no object to change.
            let Some(mut object) = review.new.clone() else { return Ok(wire::allowed(&uid, &[], &[])) };
            let before = encoded(&object)?;
            match self.0.mutate(&review, &mut object).await {
                Ok(allowed) => {
                    let changed = patch::carry_over(&raw, &before, &encoded(&object)?);
                    Ok(wire::allowed(&uid, &allowed.warnings, &patch::difference(&raw, &changed)))
                }
                Err(denied) => refusal(&uid, denied),
            }
        })
    }
}

fn encoded<K: Kind>(object: &K) -> Result<Value, Status> {
    serde_json::to_value(object)
        .map_err(|error| Status::internal(format!("the {} could not be encoded: {error}", K::kind_name())))
}

fn refusal(uid: &str, denied: Denied) -> Result<Value, Status> {
    if denied.failed { Err(*denied.status) } else { Ok(wire::denied(uid, &denied.warnings, &denied.status)) }
}

/// The typed review. The outer error is that of a configuration that sends another kind here; the inner one is a
/// refusal of an object that does not decode.
fn review<K: Kind>(request: AdmissionRequest) -> Result<Result<Review<K>, Status>, Status> {
    let (group, version, kind) = (K::group(&()), K::version(&()), K::kind_name());
    let asked = &request.kind;
    if (&*asked.group, &*asked.version, &*asked.kind) != (&*group, &*version, &*kind) {
        let message = format!(
            "the webhook handles {kind} of {group}/{version}, and was asked about {} of {}/{}: correct the rules of \
             its configuration",
            asked.kind, asked.group, asked.version
        );
        return Err(Status::bad_request(message));
    }
    let (old, new) = match (decoded::<K>(request.old_object), decoded::<K>(request.object)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(status), _) | (_, Err(status)) => return Ok(Err(status)),
    };
    let namespace = Some(&*request.namespace).filter(|namespace| !namespace.is_empty() && K::namespaced());
    Ok(Ok(Review {
        // The API server sends the object of a deletion as the old one.
        new: new.filter(|_| request.operation != Operation::Delete),
        old,
        operation: request.operation,
        key: Key::new(namespace, &request.name),
        subresource: request.sub_resource,
        user: request.user_info,
        dry_run: request.dry_run.unwrap_or(false),
        uid: request.uid,
    }))
}

fn decoded<K: Kind>(object: Value) -> Result<Option<K>, Status> {
    if object.is_null() {
        return Ok(None);
    }
    serde_json::from_value(object).map(Some).map_err(|error| {
        let (kind, reason) = (K::kind_name(), redact(&error.to_string()));
        Status::bad_request(format!("the object does not decode as {kind}: {reason}"))
    })
}
