use std::time::Duration;

use super::super::status::{NextStatus, next_status};
use super::*;

#[test]
fn nodes_are_counted_by_their_oldest_pod() {
    let mut set = one_at_a_time();
    let all =
        [node("a", &[]), node("b", &[]), node("c", &[]), node("d", &[]), node("e", &[("t", "NoSchedule")])];
    let pods = pods(&["a:new:a", "b:old:r", "b:new:a", "c:new:-", "e:old:a", "gone:new:a"]);
    let first = next_status(&observed(&set, &all, &pods));
    let status = first.status.unwrap();
    assert_eq!(
        json!(status),
        json!({ "desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberMisscheduled": 1, "numberReady": 2,
            "updatedNumberScheduled": 2, "numberAvailable": 1, "numberUnavailable": 3, "observedGeneration": 2 })
    );
    assert_eq!(first.requeue, Some(Duration::from_secs(6)));
    set.status = Some(status);
    let again = next_status(&observed(&set, &all, &pods));
    assert_eq!(again, NextStatus { status: None, requeue: Some(Duration::from_secs(6)) });
    set.metadata.generation = Some(3);
    assert_eq!(next_status(&observed(&set, &all, &pods)).status.unwrap().observed_generation, Some(3));
}

#[test]
fn the_one_that_surges_is_waited_for() {
    let (set, all, pods) = (one_at_a_time(), nodes(&["a"]), pods(&["a:old:a", "a:new:r"]));
    assert_eq!(next_status(&observed(&set, &all, &pods)).requeue, Some(Duration::from_secs(6)));
}

#[test]
fn collisions_stay_and_zeros_are_nothing_new() {
    let mut set = one_at_a_time();
    set.status = Some(read(
        json!({ "desiredNumberScheduled": 0, "currentNumberScheduled": 0, "numberMisscheduled": 0,
        "numberReady": 0, "numberAvailable": 0, "observedGeneration": 2, "collisionCount": 3 }),
    ));
    assert_eq!(next_status(&observed(&set, &[], &[])), NextStatus { status: None, requeue: None });
    let all = nodes(&["a"]);
    assert_eq!(next_status(&observed(&set, &all, &[])).status.unwrap().collision_count, Some(3));
}
