//! The thin part: read Endpoints, Service and slices, plan, write.

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use setpoint::recorder::EventApi;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Query, Reconciler, SetupError, Watch};

use super::{CONTROLLER, Mirrored, plan};
use crate::endpointslice::{self, MANAGED_BY, SERVICE_NAME};

/// Number of Endpoints that are reconciled in parallel.
const CONCURRENCY: usize = 5;

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    Controller::for_kind::<Endpoints>(manager)
        .watches(Watch::of::<Service>().map(|service| {
            let namespace = service.namespace().unwrap_or_default();
            vec![Key::namespaced(namespace, service.name())]
        }))
        .watches(Watch::of::<EndpointSlice>().map(|slice| {
            let kept = slice.labels().get(MANAGED_BY) == Some(CONTROLLER);
            let name = slice.labels().get(SERVICE_NAME).filter(|_| kept);
            let namespace = slice.namespace().unwrap_or_default();
            name.map(|name| Key::namespaced(namespace, name)).into_iter().collect()
        }))
        .named("endpoint-slice-mirroring-controller")
        .events("endpoint-slice-mirroring-controller", EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .concurrency(CONCURRENCY)
        .register(EndpointSliceMirroring)?;
    Ok(())
}

struct EndpointSliceMirroring;

impl Reconciler for EndpointSliceMirroring {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let mirrored = client.get::<Endpoints>(&key).await?;
        let service = client.get::<Service>(&key).await?;
        let is_free = service.is_some_and(|service| {
            let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            selector.is_none_or(|selector| selector.is_empty())
        });
        let mirrored = mirrored.filter(|_| is_free);
        let kept = format!("{SERVICE_NAME}={},{MANAGED_BY}={CONTROLLER}", key.name());
        let query = Query::within(key.namespace()).labels(&kept)?;
        let slices = client.list::<EndpointSlice>(query).await?;
        let slices: Vec<&EndpointSlice> = slices.iter().map(|slice| &**slice).collect();
        let Mirrored { plan, skipped } = plan(mirrored.as_deref(), &slices);
        if let Some(mirrored) = mirrored.as_deref().filter(|_| skipped > 0) {
            let message = format!(
                "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped",
                super::plan::CAPACITY
            );
            ctx.recorder().warning(mirrored, "TooManyAddressesToMirror", message);
        }
        match endpointslice::write(client, key.namespace(), plan).await {
            Err(error) if error.is_namespace_terminating() => Ok(Action::done()),
            written => written.map(|()| Action::done()).map_err(Error::from),
        }
    }
}
