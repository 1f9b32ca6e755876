//! An operator that dies at any request goes on where it was.

use crate::requests::Fault;
use crate::world::{TestedOperator, World};

/// More writes than any of the lives here makes: a bound for the loop, not a promise.
const MANY: usize = 200;

/// Kills the operator at its first write, its second, and so on: once before the server got it and once after, with
/// the answer lost. A new one is started each time, and `settle` must see the promised end.
pub async fn at_every_write(
    operator: TestedOperator,
    begin: impl AsyncFn(&World),
    settle: impl AsyncFn(&World),
) -> usize {
    let base = World::idle(operator).await;
    let mut crashes = 0;
    for fault in [Fault::HoldBefore, Fault::HoldAfter] {
        for write in 1..=MANY {
            assert!(write < MANY, "it never comes to rest");
            let cluster = base.cluster.fork().await.unwrap();
            let mut world = World::on(cluster, operator, fault(write));
            let (client, requests) = (world.cluster.client(), world.requests.clone());
            world.run(client.clone(), None);
            begin(&world).await;
            let crashed = tokio::select! {
                biased;
                () = requests.until_held() => true,
                () = settle(&world) => false,
            };
            if !crashed {
                break;
            }
            crashes += 1;
            world.crash().await;
            world.run(client, None);
            settle(&world).await;
        }
    }
    crashes
}
