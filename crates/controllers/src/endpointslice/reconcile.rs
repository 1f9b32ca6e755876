//! The thin part: read Service, pods and slices, plan, write.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use setpoint::{
    Action, Client, ClientError, Context, Controller, Error, Key, Manager, NotFoundExt, Query, Reconciler,
    SetupError, Watch,
};

use super::{CONTROLLER, MANAGED_BY, Plan, SERVICE_NAME, plan};
use crate::object::pod::node_name;
use crate::service::trigger_time::{self, TriggerTimes};
use crate::service::{self, managed_selector};

/// Number of Services that are reconciled in parallel.
const CONCURRENCY: usize = 5;

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let services = manager.informer::<Service>().lister::<Service>();
    Controller::for_kind::<Service>(manager)
        .watches(Watch::of::<Pod>().map_changes(move |change| service::of_pod(change, &services)))
        .watches(Watch::of::<EndpointSlice>().map(|slice| {
            let kept = slice.labels().get(MANAGED_BY) == Some(CONTROLLER);
            let name = slice.labels().get(SERVICE_NAME).filter(|_| kept);
            let namespace = slice.namespace().unwrap_or_default();
            name.map(|name| Key::namespaced(namespace, name)).into_iter().collect()
        }))
        .reads::<Node>()
        .named("endpointslice-controller")
        .field_owner(crate::FIELD_OWNER)
        .concurrency(CONCURRENCY)
        .register(EndpointSlices::default())?;
    Ok(())
}

#[derive(Default)]
struct EndpointSlices {
    times: TriggerTimes,
}

impl Reconciler for EndpointSlices {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        // Slices of a Service that is gone go with it: they name it as their owner.
        let Some(service) = client.get::<Service>(&key).await? else {
            self.times.forget(&key);
            return Ok(Action::done());
        };
        let Some(selector) = managed_selector(&service) else { return Ok(Action::done()) };
        let pods = service::pods(client, key.namespace().unwrap_or_default(), selector).await?;
        let kept = format!("{SERVICE_NAME}={},{MANAGED_BY}={CONTROLLER}", key.name());
        let query = Query::within(key.namespace()).labels(&kept)?;
        let slices = client.list::<EndpointSlice>(query).await?;
        let nodes = nodes_of(client, &pods).await?;
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let slices: Vec<&EndpointSlice> = slices.iter().map(|slice| &**slice).collect();
        let trigger = self.times.look(&key, &service, &pods);
        let mut plan = plan(&service, &pods, &slices, |name| nodes.get(name).cloned());
        for slice in plan.create.iter_mut().chain(&mut plan.update) {
            trigger_time::annotate(&mut slice.metadata.annotations, trigger);
        }
        match write(client, key.namespace(), plan).await {
            Err(error) if error.is_namespace_terminating() => Ok(Action::done()),
            written => written.map(|()| Action::done()).map_err(Error::from),
        }
    }
}

async fn nodes_of(client: &Client, pods: &[Arc<Pod>]) -> Result<BTreeMap<String, Arc<Node>>, ClientError> {
    let mut nodes = BTreeMap::new();
    for name in pods.iter().map(|pod| node_name(pod)).filter(|name| !name.is_empty()) {
        if !nodes.contains_key(name)
            && let Some(node) = client.get::<Node>(name).await?
        {
            nodes.insert(name.to_owned(), node);
        }
    }
    Ok(nodes)
}

/// Writes the slices of a plan.
pub(crate) async fn write(client: &Client, namespace: Option<&str>, plan: Plan) -> Result<(), ClientError> {
    for slice in &plan.create {
        client.create(slice).await?;
    }
    for slice in &plan.update {
        client.update(slice).await?;
    }
    for name in &plan.delete {
        client.delete::<EndpointSlice>(Key::new(namespace, name)).await.ignore_not_found()?;
    }
    Ok(())
}
