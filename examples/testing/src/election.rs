//! Two replicas: one acts, and when it goes the other goes on.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::Instant;

use crate::requests::{Fault, Requests};
use crate::world::{TestedOperator, World, until};

/// How soon a lease that was given back is taken: the retry period of 2 s with its jitter of 1.2.
const HANDED_OVER: Duration = Duration::from_secs(5);

/// Runs two replicas. `work` makes one more object of the given number and waits until it is done.
pub async fn of_two_replicas_one_acts(operator: TestedOperator, work: impl AsyncFn(&World, u32)) {
    let mut world = World::idle(operator).await;
    let namespace = operator.namespace();
    let object =
        serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    world.apply(&object).await;
    let (first, second) = (Requests::new(Fault::None), Requests::new(Fault::None));
    world.run_logged(world.cluster.client(), Some("first"), &first);
    until("the first leads", async || (holder(&world).await? == "first").then_some(())).await;
    world.run_logged(world.cluster.client(), Some("second"), &second);
    work(&world, 1).await;
    let idle = |sent: &crate::Sent| sent.is_watch() || sent.is_lease();
    assert!(second.sent().iter().all(idle), "the second acted: {:?}", second.sent());
    assert!(second.sent().iter().any(crate::Sent::is_watch), "the second keeps no cache");

    // In order: the lease is given back, so that the next need not wait for its end.
    world.stop().await;
    let done = first.sent().len();
    world.run_logged(world.cluster.client(), Some("second"), &second);
    let began = Instant::now();
    until("the second leads", async || (holder(&world).await? == "second").then_some(())).await;
    assert!(began.elapsed() < HANDED_OVER, "{:?}", began.elapsed());
    work(&world, 2).await;
    assert_eq!(first.sent().len(), done, "the first goes on");

    // In the middle: nobody gives anything back, and the lease runs out.
    world.crash().await;
    world.run_logged(world.cluster.client(), Some("third"), &Requests::new(Fault::None));
    work(&world, 3).await;
    assert_eq!(holder(&world).await.as_deref(), Some("third"));
}

/// The holder of the lease.
pub async fn holder(world: &World) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(world.cluster.client(), &world.operator.namespace());
    leases.get_opt(world.operator.name).await.unwrap()?.spec?.holder_identity
}
