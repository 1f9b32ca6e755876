//! Conditions, counts, deadlines.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSetCondition;

use super::*;

#[test]
fn rolling_update_moves_within_surge_and_unavailability() {
    // desired, surge, unavailable; old (wanted, available); new (wanted, available) → old, new
    for (desired, surge, unavailable, old, new, expected) in [
        // Scale up first.
        (10, "25%", "25%", (10, 10), (0, 0), (10, 3)),
        (10, "3", "2", (8, 8), (3, 0), (8, 5)),
        // No room to grow: shrink what availability allows.
        (10, "25%", "25%", (10, 10), (3, 0), (8, 3)),
        (10, "0", "2", (10, 10), (0, 0), (8, 0)),
        (10, "0", "2", (8, 8), (2, 2), (6, 2)),
        (10, "0", "2", (8, 8), (2, 1), (7, 2)),
        (10, "0", "2", (8, 8), (2, 0), (8, 2)),
        (10, "5", "0", (10, 10), (5, 0), (10, 5)),
        (10, "5", "0", (10, 10), (5, 5), (5, 5)),
        // Unhealthy old pods go first, limited by what the new ones still lack.
        (10, "0", "2", (8, 6), (2, 2), (6, 2)),
        (10, "2", "2", (10, 2), (2, 0), (8, 2)),
        (10, "5", "0", (10, 0), (5, 5), (5, 5)),
        // Both rounded to zero: one may be unavailable.
        (1, "0", "0", (1, 1), (0, 0), (0, 0)),
        (3, "0%", "1%", (3, 3), (0, 0), (2, 0)),
        // Too many new: down to desired.
        (3, "1", "1", (0, 0), (5, 5), (0, 3)),
        // Unavailability never exceeds the size.
        (2, "0", "5", (2, 2), (0, 0), (0, 0)),
        // Done.
        (4, "1", "1", (0, 0), (4, 4), (0, 4)),
        (0, "1", "1", (0, 0), (0, 0), (0, 0)),
    ] {
        let sets = [set("web:old", 1, old.0, old.0, old.1), set("web:new", 2, new.0, new.0, new.1)];
        let plan = run(&deployment(desired, surge, unavailable), &sets, &[]);
        let case = format!("{desired} {surge}/{unavailable} old {old:?} new {new:?}");
        assert_eq!(sizes(&sets, &plan), [expected.0, expected.1], "{case}");
        assert_eq!(plan.create, None, "{case}");
        let total = expected.0 + expected.1;
        let room =
            crate::object::percent::scaled(Some(&amount(surge)), desired, crate::object::percent::Round::Up);
        assert!(total <= (desired + room).max(old.0 + new.0), "{case}: surge");
    }
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut paused = deployment(5, "1", "1");
    paused.spec.paused = Some(true);
    let sets = [set("web:old", 1, 3, 3, 3)];
    let plan = run(&paused, &sets, &[]);
    assert_eq!((sizes(&sets, &plan), &plan.create), (vec![5], &None));
    let status = plan.status.unwrap();
    assert_eq!(progressing(&status), ("Unknown", "DeploymentPaused"));
    assert_eq!(plan.requeue, None);
    // Resumed.
    let mut resumed = deployment(5, "1", "1");
    resumed.status = Some(DeploymentStatus { updated_replicas: Some(3), ..status });
    let status = run(&resumed, &[set("web:new", 1, 5, 3, 3)], &[]).status.unwrap();
    assert_eq!(progressing(&status), ("Unknown", "DeploymentResumed"));
    // Having timed out, pausing does not hide it.
    paused.status = Some(with_progressing("False", "ProgressDeadlineExceeded", 0));
    let plan = run(&paused, &sets, &[]);
    assert_eq!(progressing(&plan.status.unwrap()), ("False", "ProgressDeadlineExceeded"));
}

#[test]
fn progress_completes_moves_and_times_out() {
    // status before (replicas, updated, ready, available, reason, age) ; new set (wanted, actual, available) → condition, requeue
    let cases = [
        ((3, 3, 2, 2, "ReplicaSetUpdated", 10), (3, 3, 3), ("True", "NewReplicaSetAvailable"), None),
        ((3, 3, 1, 1, "ReplicaSetUpdated", 10), (3, 3, 2), ("True", "ReplicaSetUpdated"), Some(601)),
        ((0, 0, 0, 0, "NewReplicaSetCreated", 10), (3, 1, 0), ("True", "ReplicaSetUpdated"), Some(601)),
        ((3, 3, 1, 1, "ReplicaSetUpdated", 10), (3, 3, 1), ("True", "ReplicaSetUpdated"), Some(591)),
        ((3, 3, 1, 1, "ReplicaSetUpdated", 600), (3, 3, 1), ("True", "ReplicaSetUpdated"), Some(1)),
        ((3, 3, 1, 1, "ReplicaSetUpdated", 601), (3, 3, 1), ("False", "ProgressDeadlineExceeded"), None),
        (
            (3, 3, 3, 3, "NewReplicaSetAvailable", 9999),
            (3, 3, 1),
            ("True", "NewReplicaSetAvailable"),
            Some(1),
        ),
        ((3, 3, 1, 1, "ProgressDeadlineExceeded", 9999), (3, 3, 3), ("True", "NewReplicaSetAvailable"), None),
    ];
    for (before, (wanted, actual, available), expected, requeue) in cases {
        let mut deployment = deployment(3, "1", "1");
        let value = if before.4 == "ProgressDeadlineExceeded" { "False" } else { "True" };
        deployment.status = Some(DeploymentStatus {
            replicas: Some(before.0),
            updated_replicas: Some(before.1),
            ready_replicas: Some(before.2),
            available_replicas: Some(before.3),
            ..with_progressing(value, before.4, before.5)
        });
        let plan = run(&deployment, &[noted(set("web:new", 1, wanted, actual, available), 3, 4)], &[]);
        let status = plan.status.as_ref().or(deployment.status.as_ref()).unwrap();
        assert_eq!(progressing(status), expected, "{before:?}");
        assert_eq!(plan.requeue, requeue.map(Duration::from_secs), "{before:?}");
    }
}

#[test]
fn the_same_observation_twice_writes_nothing() {
    let mut deployment = deployment(3, "1", "1");
    deployment.metadata.annotations = Some(BTreeMap::from([("team".to_owned(), "a".to_owned())]));
    let mut sets = [noted(set("web:new", 1, 3, 3, 3), 3, 4)];
    let first = run(&deployment, &sets, &[]);
    assert_eq!(first.change[0].annotations["team"], "a");
    assert_eq!(first.revision.as_deref(), Some("1"));
    sets[0].metadata.annotations.as_mut().unwrap().insert("team".into(), "a".into());
    deployment.metadata.annotations.as_mut().unwrap().insert(REVISION.into(), "1".into());
    deployment.status = first.status;
    assert_eq!(run(&deployment, &sets, &[]), Plan::default());
}

#[test]
fn without_a_deadline_there_is_no_progressing_condition() {
    for deadline in [None, Some(i32::MAX)] {
        let mut deployment = deployment(3, "1", "1");
        deployment.spec.progress_deadline_seconds = deadline;
        deployment.status = Some(with_progressing("True", "ReplicaSetUpdated", 0));
        let plan = run(&deployment, &[], &[]);
        assert!(condition::get(&plan.status.unwrap(), PROGRESSING).is_none());
        assert_eq!(plan.requeue, None);
    }
}

#[test]
fn a_replica_failure_is_passed_on_and_taken_back() {
    let mut failing = set("web:new", 2, 3, 0, 0);
    failing.status.as_mut().unwrap().conditions = Some(vec![ReplicaSetCondition {
        type_: Some("ReplicaFailure".into()),
        status: Some("True".into()),
        reason: Some("FailedCreate".into()),
        message: Some("quota".into()),
        last_transition_time: None,
    }]);
    let mut deployment = deployment(3, "1", "1");
    let status = run(&deployment, &[set("web:old", 1, 0, 0, 0), failing], &[]).status.unwrap();
    let failure = condition::get(&status, "ReplicaFailure").unwrap();
    assert_eq!(
        (failure.reason.as_deref(), failure.message.as_deref()),
        (Some("FailedCreate"), Some("quota"))
    );
    deployment.status = Some(status);
    let status = run(&deployment, &[set("web:new", 2, 3, 0, 0)], &[]).status.unwrap();
    assert!(condition::get(&status, "ReplicaFailure").is_none());
}

#[test]
fn a_deployment_on_its_way_out_only_reports() {
    let mut deployment = deployment(3, "1", "1");
    deployment.metadata.deletion_timestamp = Some(Time(now()));
    let plan = run(&deployment, &[set("web:old", 1, 2, 2, 2)], &[]);
    assert!(plan.create.is_none() && plan.change.is_empty() && plan.events.is_empty());
    assert_eq!(plan.status.unwrap().replicas, Some(2));
}

#[test]
fn a_deployment_that_selects_everything_is_left_alone() {
    let mut deployment = deployment(3, "1", "1");
    deployment.spec.selector = LabelSelector::default();
    let plan = run(&deployment, &[], &[]);
    assert_eq!(plan.events[0].reason, "SelectingAll");
    assert_eq!(plan.status.unwrap().observed_generation, Some(1));
    assert_eq!(plan.create, None);
}

#[test]
fn availability_is_judged_against_what_may_be_missing() {
    for (unavailable, available, expected) in
        [("1", 3, "True"), ("1", 2, "True"), ("1", 1, "False"), ("0", 2, "False")]
    {
        let sets = [noted(set("web:new", 1, 3, 3, available), 3, 4)];
        let status = run(&deployment(3, "1", unavailable), &sets, &[]).status.unwrap();
        let condition = condition::get(&status, AVAILABLE).unwrap();
        assert_eq!(condition.status.as_deref(), Some(expected), "{unavailable} {available}");
        assert_eq!(status.unavailable_replicas, Some(3 - available).filter(|count| *count > 0));
    }
}

#[test]
fn terminating_pods_are_summed_unless_one_set_does_not_say() {
    let mut sets = [set("web:old", 1, 0, 0, 0), set("web:new", 2, 3, 3, 3)];
    sets[0].status.as_mut().unwrap().terminating_replicas = Some(2);
    assert_eq!(run(&deployment(3, "1", "1"), &sets, &[]).status.unwrap().terminating_replicas, Some(2));
    sets[0].status.as_mut().unwrap().terminating_replicas = None;
    assert_eq!(run(&deployment(3, "1", "1"), &sets, &[]).status.unwrap().terminating_replicas, None);
}
