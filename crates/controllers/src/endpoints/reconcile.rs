//! The thin part: read Service and pods, plan, write.

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use setpoint::{
    Action, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt, Reconciler, SetupError,
    Watch,
};

use super::{CONTROLLER, MANAGED_BY, Plan, plan};
use crate::service::trigger_time::{self, TriggerTimes};
use crate::service::{self, managed_selector};

/// Number of Services that are reconciled in parallel.
const CONCURRENCY: usize = 5;

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let services = manager.informer::<Service>().lister::<Service>();
    Controller::for_kind::<Service>(manager)
        .watches(Watch::of::<Pod>().map_changes(move |change| service::of_pod(change, &services)))
        .watches(Watch::of::<Endpoints>().map(|endpoints| vec![endpoints.key().clone()]))
        .named("endpoint-controller")
        .field_owner(crate::FIELD_OWNER)
        .concurrency(CONCURRENCY)
        .register(EndpointsController::default())?;
    Ok(())
}

#[derive(Default)]
struct EndpointsController {
    times: TriggerTimes,
}

impl Reconciler for EndpointsController {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let present = client.get::<Endpoints>(&key).await?;
        let Some(service) = client.get::<Service>(&key).await? else {
            self.times.forget(&key);
            // Endpoints have no owner. Those of this controller are deleted with their Service.
            if let Some(present) = present.filter(|present| is_ours(present)) {
                let options = DeleteOptions::default().uid(present.metadata.uid.clone().unwrap_or_default());
                client.delete_with::<Endpoints>(&key, &options).await.ignore_not_found()?;
            }
            return Ok(Action::done());
        };
        let Some(selector) = managed_selector(&service) else { return Ok(Action::done()) };
        let pods = service::pods(client, key.namespace().unwrap_or_default(), selector).await?;
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let trigger = self.times.look(&key, &service, &pods);
        let mut plan = plan(&service, &pods, present.as_deref());
        if let Plan::Create(endpoints) | Plan::Update(endpoints) = &mut plan {
            trigger_time::annotate(&mut endpoints.metadata.annotations, trigger);
        }
        let written = match plan {
            Plan::Nothing => return Ok(Action::done()),
            Plan::Create(endpoints) => client.create(&*endpoints).await,
            Plan::Update(endpoints) => client.update(&*endpoints).await,
        };
        match written {
            Err(error) if error.is_namespace_terminating() => Ok(Action::done()),
            written => written.map(|_| Action::done()).map_err(Error::from),
        }
    }
}

fn is_ours(endpoints: &Endpoints) -> bool {
    let labels = endpoints.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY)).map(String::as_str) == Some(CONTROLLER)
}
