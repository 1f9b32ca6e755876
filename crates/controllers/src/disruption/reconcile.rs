//! The thin part: read the budget and its pods, count, write the status.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use setpoint::predicate::Change;
use setpoint::recorder::EventApi;
use setpoint::recorder::EventType;
use setpoint::{
    Action, Context, Controller, Error, Key, Manager, NotFoundExt, Query, Reconciler, SetupError, Watch,
};

use super::plan::{is_relative, plan, selects};
use super::{scale, stale, trigger};

/// The name under which people know the events of disruption.
const SOURCE: &str = "controllermanager";

/// Registers the controllers.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let budgets = manager.informer::<PodDisruptionBudget>().lister::<PodDisruptionBudget>();
    let recorder = manager.recorder(SOURCE).with_api(EventApi::CoreV1);
    let of_pod = move |change: &Change<'_>| {
        let concerned = trigger::of_pod(change, &budgets);
        if let Some((pod, message)) = concerned.ambiguous {
            let reason = "MultiplePodDisruptionBudgets";
            recorder.publish(EventType::Warning, pod, None, reason, reason, message);
        }
        concerned.budgets
    };
    Controller::for_kind::<PodDisruptionBudget>(manager)
        .watches(Watch::of::<Pod>().map_changes(of_pod))
        .reads::<ReplicaSet>()
        .reads::<Deployment>()
        .named("disruption-controller")
        .events(SOURCE, EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .register(Disruption)?;
    stale::register(manager)
}

struct Disruption;

impl Reconciler for Disruption {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(budget) = client.get::<PodDisruptionBudget>(&key).await? else {
            return Ok(Action::done());
        };
        let near = Query::namespace(key.namespace().unwrap_or_default());
        let all: Vec<Arc<Pod>> = client.list::<Pod>(near).await?;
        let selected = all.iter().map(|pod| &**pod);
        let pods: Vec<&Pod> = selected.filter(|pod| selects(&budget, pod.metadata.labels.as_ref())).collect();
        if pods.is_empty() {
            ctx.recorder().normal(&*budget, "NoPods", "No matching pods found");
        }
        let expected = expected(ctx, &budget, &pods).await.map_err(|error| error.message());
        let plan = plan(&budget, &pods, expected, ctx.now());
        for pod in pods.iter().filter(|pod| pod.metadata.name.iter().any(|name| plan.overdue.contains(name)))
        {
            let message = format!("Pod was expected by PDB {key} to be deleted but it wasn't");
            ctx.recorder().warning(*pod, "NotDeleted", message);
        }
        if let Some(status) = plan.status {
            // Locked to the counted state: the API server subtracts granted evictions from the status.
            let counted = PodDisruptionBudget { status: Some(status), ..(*budget).clone() };
            client.update_status(&counted).await.ignore_not_found()?;
        }
        Ok(plan.requeue.map_or(Action::done(), Action::requeue_after))
    }
}

/// Returns the expected number of pods.
async fn expected(ctx: &Context, budget: &PodDisruptionBudget, pods: &[&Pod]) -> Result<i32, Error> {
    if !is_relative(budget) {
        return Ok(i32::try_from(pods.len()).unwrap_or(i32::MAX));
    }
    let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
    match scale::of_pods(ctx.client(), namespace, pods).await {
        Err(error) => {
            let message = format!("Failed to calculate the number of expected pods: {}", error.message());
            ctx.recorder().warning(budget, "CalculateExpectedPodCountFailed", message);
            Err(error)
        }
        Ok(scale) => {
            if !scale.unmanaged.is_empty() {
                let names = scale.unmanaged.join(", ");
                let message = format!(
                    "Pods selected by this PodDisruptionBudget were found to be unmanaged and are not counted: {names}. \
                     To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
                );
                ctx.recorder().warning(budget, "UnmanagedPods", message);
            }
            Ok(scale.replicas)
        }
    }
}
