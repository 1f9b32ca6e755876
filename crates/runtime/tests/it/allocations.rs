//! What the work queue must not do: allocate for a key that it knows.

use setpoint::queue::{QueueOptions, WorkQueue};
use setpoint::{Priority, Reason, Request, Trigger};

#[test]
fn adding_a_known_key_allocates_nothing() {
    let requests: Vec<Request> =
        (0..100).map(|number| Request::namespaced("default", &format!("object-{number}"))).collect();
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
