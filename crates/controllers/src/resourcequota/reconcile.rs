//! The thin part: reads the quota, lists the objects that it counts, writes their use.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::Value;
use setpoint::{
    Action, Client, Context, Controller, Error, Key, Kind, Manager, NotFoundExt, Predicate, Query,
    Reconciler, SetupError,
};
use setpoint_kinds::quota::{self, Tracked};
use setpoint_kinds::resources::Amounts;

use super::watches::{UNKNOWN_FOR, Watches};
use super::{plan, trigger};

/// Interval at which every quota is measured without a change: pods that are overdue for deletion change nothing.
const PERIOD: Duration = Duration::from_secs(300);
/// Time that a watch needs to begin. A second look sees objects that were deleted before the watch began.
const BEGIN: Duration = Duration::from_secs(1);

/// Pause before a quota is measured again that changed during the measurement.
const OVERTAKEN: Duration = Duration::from_millis(100);

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let watches = Arc::new(Watches::new(manager));
    let handle = Controller::for_kind::<ResourceQuota>(manager)
        .with_predicate(Predicate::new(trigger::is_asked_anew))
        .named("resourcequota-controller")
        .field_owner(crate::FIELD_OWNER)
        .register(Quotas(Arc::clone(&watches)))?;
    watches.handle.set(handle).expect("it is set here alone");
    Ok(())
}

struct Quotas(Arc<Watches>);

impl Reconciler for Quotas {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let begun = self.0.refresh(ctx.now()).await?;
        let resource = ResourceQuota::api_resource();
        let quotas = ctx.client().dynamic(&resource);
        // Read the quota before the objects. An object that is created later is charged to a newer version of the
        // quota, and this measurement cannot overwrite that version.
        let Some(mut quota) = quotas.get_live(&key).await? else { return Ok(Action::done()) };
        let mut measured = Amounts::new();
        let (mut unknown, mut failed) = (false, None);
        for tracked in quota::tracked(&quota) {
            match self.measure(ctx, &quota, &tracked).await {
                Ok(Some(used)) => measured.extend(used),
                Ok(None) => unknown = true,
                // The other resources are counted all the same.
                Err(error) => failed = Some(error),
            }
        }
        if let Some(status) = plan::status(&quota, measured) {
            quota["status"] = status;
            match quotas.update_subresource(&quota, "status").await {
                // Something was charged meanwhile, as it may be again and again: no reason to wait longer each time.
                Err(error) if error.is_conflict() => return Ok(Action::requeue_after(OVERTAKEN)),
                written => written.ignore_not_found()?,
            };
        }
        match failed {
            Some(error) => Err(error),
            None if begun => Ok(Action::requeue_after(BEGIN)),
            None if unknown => Ok(Action::requeue_after(UNKNOWN_FOR)),
            None => Ok(Action::requeue_after(PERIOD)),
        }
    }
}

impl Quotas {
    /// Returns the use by objects of one kind, or `None` if the server has no such kind.
    async fn measure(
        &self,
        ctx: &Context,
        quota: &Value,
        tracked: &Tracked,
    ) -> Result<Option<Amounts>, Error> {
        let client: &Client = ctx.client();
        let Some(resource) = self.0.resource(tracked) else { return Ok(None) };
        let near = Query::namespace(quota["metadata"]["namespace"].as_str().unwrap_or_default());
        match client.dynamic(&resource).list_live(near).await {
            Ok(objects) => Ok(Some(quota::measure(quota, tracked, objects.iter(), ctx.now()))),
            Err(error) if error.is_not_found() => {
                self.0.forget(tracked);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
