//! Kubernetes' strategy of a kind: the steps of a write in which kinds differ. A built-in kind may have one of its own,
//! and every definition of a custom kind is one.

mod custom;
mod kinds;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use setpoint_api::cause::Cause;
use setpoint_kinds::warnings;
use setpoint_store::{Event, Snapshot};

use crate::context::RequestContext;
use crate::error::ApiError;
use crate::options::Options;
use crate::registry::{Candidate, Resource};
use crate::server::Server;
use crate::writer::Writer;

/// The strategy of a resource.
pub(crate) fn of(resource: &Resource) -> &dyn Strategy {
    match &resource.custom {
        Some(custom) => &**custom,
        None => kinds::of(resource),
    }
}

/// The methods stand in the order of the stages. A built-in kind whose facts and rules in `setpoint-kinds` say
/// everything has the steps that stand here.
pub(crate) trait Strategy: Sync {
    /// The reason why nothing new of the kind can be created; none if it can.
    fn refuses_creates(&self) -> Option<&'static str> {
        None
    }

    /// The map that validation tells apart from an absent one when it is sent empty.
    fn empty_map(&self) -> Option<&'static str> {
        None
    }

    /// Gives a new or changed object what must be unique in the cluster.
    fn allocate(
        &self,
        _writer: &Writer<'_>,
        _snapshot: &Snapshot,
        _new: &mut Value,
        _live: Option<&Value>,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Refuses an object that grants more than its writer holds. `live` is the object that it replaces.
    fn authorize(
        &self,
        _ctx: &RequestContext,
        _snapshot: &Snapshot,
        _new: &Value,
        _live: Option<&Value>,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Changes an object whose deletion begins.
    fn begin_deletion(&self, _new: &mut Value, _now: Timestamp) {}

    /// Adds to the options of a deletion, as webhooks see them.
    fn review_deletion(&self, _live: &Value, _options: &mut Value) {}

    /// Whether more than its metadata holds a terminating object.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// The object in the version whose rules validation applies.
    fn as_validated<'a>(&self, _resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
        Cow::Borrowed(object)
    }

    /// Adds the errors that the rules in `setpoint-kinds` do not find. Errors that were there before and did not change
    /// come back: validation tolerates them.
    fn validate(
        &self,
        _resource: &Resource,
        _candidate: &Candidate<'_>,
        _causes: &mut Vec<Cause>,
    ) -> Vec<Cause> {
        Vec::new()
    }

    /// Whether an object that does not change is validated for the sake of its warnings.
    fn warns_of_unchanged(&self, _resource: &Resource) -> bool {
        false
    }

    /// Warns of what is valid and probably not meant.
    fn warnings(
        &self,
        resource: &Resource,
        subresource: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<String> {
        if old.is_some() && !matches!(subresource, "" | "scale") {
            return Vec::new();
        }
        warnings::of(&resource.group_kind(), false, new, old)
    }

    /// Adds the fields that the server has the last word on. `live` is the object that the new one replaces.
    fn complete(&self, _subresource: &str, _live: Option<&Value>, _new: &mut Value) {}

    /// Takes away what the stored version does not have.
    fn encode(&self, _resource: &Resource, _subresource: &str, _new: &mut Value) {}

    /// How long the store keeps an object after its last write; forever if `None`.
    fn expires_after(&self, _options: &Options) -> Option<Duration> {
        None
    }

    /// Does what must follow a write before its writer is answered.
    fn committed<'a>(&self, _server: &'a Server, _events: &'a [Arc<Event>]) -> BoxFuture<'a, ()> {
        // A box of nothing allocates nothing.
        async {}.boxed()
    }
}
