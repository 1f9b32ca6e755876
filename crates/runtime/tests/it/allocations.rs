//! The allocations: a work queue makes none for a key that it knows, an idle informer makes few.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint::informer::{
    FactoryOptions, InformerFactory, ListRequest, ListerWatcher, SharedInformer, SubscribeOptions,
    Subscription, WatchFailure, WatchRequest, WatchStream,
};
use setpoint::queue::{Priority, Reason, Trigger};
use setpoint::queue::{QueueOptions, WorkQueue};
use setpoint::{Key, Target};

/// The memory of one informer of metadata that has synced, has a handler and holds nothing. A cluster in one's own
/// process has one for each kind.
const IDLE_INFORMER: i64 = 4000;

/// With paused time: keys whose delay is over come back in between, and how many depends on the machine.
#[tokio::test(start_paused = true)]
async fn adding_a_known_key_allocates_nothing() {
    let requests: Vec<Key> =
        (0..100).map(|number| Key::namespaced("default", &format!("object-{number}"))).collect();
    let queue = WorkQueue::new("test", QueueOptions::default());
    let reason = Reason::new("ConfigMap", Trigger::Updated);
    let round = || {
        for request in &requests {
            queue.add_with(request, Priority::DEFAULT, reason);
            // Known and queued; then running and queued again.
            queue.add_with(request, Priority(1), reason);
        }
        for _ in 0..2 {
            while let Some(item) = queue.try_get() {
                if item.failures() == 0 {
                    queue.add_with(item.key(), Priority::DEFAULT, reason);
                    item.add_rate_limited(Priority::DEFAULT, reason);
                }
            }
        }
        requests.iter().for_each(|request| queue.forget(request));
    };
    let first = allocation_counter::measure(round);
    assert!(first.count_total > 0, "the first round makes room");
    round();
    let known = allocation_counter::measure(round);
    assert_eq!(known.count_total, 0, "{known:?}");
}

/// A collection without objects.
struct Empty;

impl ListerWatcher for Empty {
    fn list(&self, _: ListRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        futures::future::pending().boxed()
    }

    fn watch(&self, _: WatchRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        let line = Bytes::from_static(
            br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}
"#,
        );
        let stream = futures::stream::iter([Ok(line)]).chain(futures::stream::pending()).boxed();
        async move { Ok(stream) }.boxed()
    }
}

#[test]
fn an_idle_informer_is_small() {
    const INFORMERS: i64 = 50;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let factory = InformerFactory::with_connect(Arc::new(|_, _| Arc::new(Empty)), FactoryOptions::default());
    let idle = |number: i64| -> (SharedInformer, Subscription) {
        let target = Target::of::<ConfigMap>().labels(&format!("n={number}")).metadata_only();
        let informer = factory.informer(target);
        runtime.block_on(async {
            informer.start();
            informer.wait_synced().await;
        });
        let subscription = informer.subscribe(&SubscribeOptions::default());
        (informer, subscription)
    };
    let first = idle(-1);
    let mut informers = Vec::with_capacity(INFORMERS as usize);
    let taken = allocation_counter::measure(|| informers.extend((0..INFORMERS).map(idle)));
    let each = taken.bytes_current / INFORMERS;
    assert!(each <= IDLE_INFORMER, "{each} bytes each in {} pieces", taken.count_current / INFORMERS);
    drop((first, informers));
}
