//! Tables: every branch of the Deployment's plan with its numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, ReplicaSet, ReplicaSetCondition,
    ReplicaSetSpec, ReplicaSetStatus, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::condition::{self, AVAILABLE, PROGRESSING};
use super::*;

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), "web".to_owned())])
}

pub fn template_of(image: &str) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels()), ..Default::default() }),
        spec: Some(PodSpec {
            containers: vec![Container { name: "c".into(), image: Some(image.into()), ..Default::default() }],
            ..Default::default()
        }),
    }
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn amount(text: &str) -> IntOrString {
    text.parse().map_or_else(|_| IntOrString::String(text.into()), IntOrString::Int)
}

/// A Deployment of image `web:new`.
fn deployment(replicas: i32, surge: &str, unavailable: &str) -> Deployment {
    Deployment {
        metadata: ObjectMeta {
            name: Some("web".into()),
            namespace: Some("ns".into()),
            uid: Some("d-uid".into()),
            generation: Some(1),
            ..Default::default()
        },
        spec: DeploymentSpec {
            replicas: Some(replicas),
            selector: LabelSelector { match_labels: Some(labels()), ..Default::default() },
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(amount(surge)),
                    max_unavailable: Some(amount(unavailable)),
                }),
            }),
            template: template_of("web:new"),
            revision_history_limit: Some(10),
            progress_deadline_seconds: Some(600),
            ..Default::default()
        },
        status: None,
    }
}

fn recreate(replicas: i32) -> Deployment {
    let mut deployment = deployment(replicas, "0", "0");
    deployment.spec.strategy =
        Some(DeploymentStrategy { type_: Some("Recreate".into()), rolling_update: None });
    deployment
}

/// The `age`-th ReplicaSet, with `replicas` wanted, `actual` present and `available` of them available.
fn set(image: &str, age: i32, replicas: i32, actual: i32, available: i32) -> ReplicaSet {
    let name = format!("web-{age}");
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            uid: Some(format!("{name}-uid")),
            generation: Some(1),
            resource_version: Some("7".into()),
            creation_timestamp: Some(Time(now() - SignedDuration::from_secs(1000 - i64::from(age)))),
            annotations: Some(BTreeMap::from([(REVISION.to_owned(), age.to_string())])),
            ..Default::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(replicas),
            template: Some(template_of(image)),
            ..Default::default()
        },
        status: Some(ReplicaSetStatus {
            replicas: actual,
            ready_replicas: Some(available),
            available_replicas: Some(available),
            terminating_replicas: Some(0),
            observed_generation: Some(1),
            ..Default::default()
        }),
    }
}

fn noted(mut set: ReplicaSet, desired: i32, most: i32) -> ReplicaSet {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED_REPLICAS.into(), desired.to_string());
    annotations.insert(MAX_REPLICAS.into(), most.to_string());
    set
}

fn run(deployment: &Deployment, sets: &[ReplicaSet], running: &[&str]) -> Plan {
    let running: BTreeSet<String> = running.iter().map(|name| format!("{name}-uid")).collect();
    let sets: Vec<&ReplicaSet> = sets.iter().collect();
    plan(&Observed { deployment, replica_sets: &sets, running: &running }, now())
}

/// The sizes that the plan leads to, by name.
fn sizes(sets: &[ReplicaSet], plan: &Plan) -> Vec<i32> {
    let size = |set: &ReplicaSet| {
        let change = plan.change.iter().find(|change| Some(&change.name) == set.metadata.name.as_ref());
        change.and_then(|change| change.replicas).unwrap_or(set.spec.replicas.unwrap())
    };
    sets.iter().map(size).collect()
}

fn progressing(status: &DeploymentStatus) -> (&str, &str) {
    let condition = condition::get(status, PROGRESSING).unwrap();
    (condition.status.as_deref().unwrap(), condition.reason.as_deref().unwrap())
}

#[test]
fn a_new_deployment_creates_its_first_replica_set() {
    let plan = run(&deployment(3, "25%", "25%"), &[], &[]);
    let created = plan.create.as_ref().unwrap();
    let hash = pod_template_hash(&template_of("web:new"), None);
    assert_eq!(created.metadata.name.as_deref(), Some(format!("web-{hash}").as_str()));
    let spec = &created.spec;
    assert_eq!(spec.replicas, Some(3));
    assert_eq!(spec.selector.match_labels.as_ref().unwrap()[POD_TEMPLATE_HASH], hash);
    let template = spec.template.as_ref().unwrap().metadata.as_ref().unwrap();
    assert_eq!(template.labels.as_ref().unwrap()[POD_TEMPLATE_HASH], hash);
    assert_eq!(created.metadata.labels.as_ref().unwrap()[POD_TEMPLATE_HASH], hash);
    let annotations = created.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[REVISION], "1");
    assert_eq!((annotations[DESIRED_REPLICAS].as_str(), annotations[MAX_REPLICAS].as_str()), ("3", "4"));
    let owner = &created.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str(), owner.controller),
        ("Deployment", "d-uid", Some(true))
    );
    assert_eq!(plan.revision.as_deref(), Some("1"));
    let status = plan.status.unwrap();
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.unavailable_replicas, Some(3));
    assert_eq!(progressing(&status), ("True", "NewReplicaSetCreated"));
    let progress = condition::get(&status, PROGRESSING).unwrap();
    assert_eq!(progress.message, Some(format!("Created new replica set \"web-{hash}\"")));
    let available = condition::get(&status, AVAILABLE).unwrap();
    assert_eq!(available.reason.as_deref(), Some("MinimumReplicasUnavailable"));
    let events: Vec<_> = plan.events.iter().map(|event| (event.reason, event.message.clone())).collect();
    assert_eq!(events, [("ScalingReplicaSet", format!("Scaled up replica set web-{hash} from 0 to 3"))]);
    assert_eq!(plan.requeue, Some(Duration::from_secs(601)));
}

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
        let room = crate::percent::scaled(Some(&amount(surge)), desired, crate::percent::Round::Up);
        assert!(total <= (desired + room).max(old.0 + new.0), "{case}: surge");
    }
}

#[test]
fn old_sets_shrink_oldest_first_and_unhealthy_first() {
    // (wanted, available) of three old sets, new (wanted, available) → sizes
    for (old, new, expected) in [
        ([(2, 2), (3, 3), (5, 5)], (0, 0), vec![2, 3, 5, 2]),
        ([(2, 2), (3, 3), (5, 5)], (2, 2), vec![0, 1, 5, 2]),
        ([(2, 2), (3, 1), (5, 5)], (2, 2), vec![0, 1, 5, 2]),
        ([(2, 0), (3, 0), (5, 5)], (2, 2), vec![0, 1, 5, 2]),
    ] {
        let mut sets: Vec<_> = (1i32..).zip(old).map(|(age, (r, a))| set("web:old", age, r, r, a)).collect();
        for (index, set) in sets.iter_mut().enumerate() {
            set.spec.template = Some(template_of(&format!("web:{index}")));
        }
        sets.push(set("web:new", 9, new.0, new.0, new.1));
        let plan = run(&deployment(10, "2", "2"), &sets, &[]);
        assert_eq!(sizes(&sets, &plan), expected, "{old:?} {new:?}");
    }
}

#[test]
fn a_scaled_set_notes_for_which_size() {
    let sets = [set("web:old", 1, 10, 10, 10), set("web:new", 2, 0, 0, 0)];
    let plan = run(&deployment(10, "25%", "25%"), &sets, &[]);
    let [change] = &plan.change[..] else { panic!("{:?}", plan.change) };
    assert_eq!(
        (change.name.as_str(), change.uid.as_str(), change.resource_version.as_str()),
        ("web-2", "web-2-uid", "7")
    );
    assert_eq!(change.annotations[DESIRED_REPLICAS], "10");
    assert_eq!(change.annotations[MAX_REPLICAS], "13");
    assert_eq!(plan.events[0].message, "Scaled up replica set web-2 from 0 to 3");
}

#[test]
fn recreate_waits_for_every_old_pod() {
    let deployment = recreate(3);
    let old = |replicas, actual| set("web:old", 1, replicas, actual, actual);
    // Old pods wanted: down to zero, nothing created.
    let plan = run(&deployment, &[old(3, 3)], &["web-1"]);
    assert_eq!((sizes(&[old(3, 3)], &plan), plan.create), (vec![0], None));
    // Down, but the ReplicaSet still counts pods; then it does not, but pods still end.
    for (actual, running) in [(1, &[][..]), (0, &["web-1"][..])] {
        let plan = run(&deployment, &[old(0, actual)], running);
        assert!(plan.create.is_none() && plan.change.is_empty(), "{actual} {running:?}");
    }
    let plan = run(&deployment, &[old(0, 0)], &[]);
    let created = plan.create.unwrap();
    assert_eq!(created.spec.replicas, Some(3));
    assert_eq!(created.metadata.annotations.unwrap()[REVISION], "2");
    // The new one is scaled like any other.
    let new = set("web:new", 2, 1, 1, 1);
    let plan = run(&deployment, &[old(0, 0), new.clone()], &["web-2"]);
    assert_eq!(sizes(&[old(0, 0), new], &plan), [0, 3]);
}

#[test]
fn scaling_shares_the_change_in_proportion() {
    // before (desired, max), after desired with surge; sizes oldest first → sizes
    for (before, after, surge, start, expected) in [
        // Grow and shrink a rollout in the middle (old, new).
        ((10, 13), 20, "3", vec![8, 5], vec![14, 9]),
        ((10, 13), 5, "3", vec![8, 5], vec![5, 3]),
        ((10, 10), 100, "0", vec![5, 5], vec![50, 50]),
        // The remainder goes to the largest; among equals to the younger when growing, from the older when shrinking.
        ((10, 10), 5, "0", vec![4, 3, 3], vec![1, 2, 2]),
        ((6, 6), 7, "0", vec![2, 2, 2], vec![2, 2, 3]),
        ((6, 6), 5, "0", vec![2, 2, 2], vec![1, 2, 2]),
        // To nothing.
        ((10, 13), 0, "3", vec![8, 5], vec![0, 0]),
        // Only one is active: it takes all.
        ((10, 13), 4, "3", vec![10, 0], vec![4, 0]),
        ((10, 13), 20, "3", vec![0, 10], vec![0, 20]),
    ] {
        let last = start.len() - 1;
        let sets: Vec<_> = start
            .iter()
            .enumerate()
            .map(|(index, size)| {
                let image = if index == last { "web:new".to_owned() } else { format!("web:{index}") };
                noted(set(&image, index as i32 + 1, *size, *size, *size - 1), before.0, before.1)
            })
            .collect();
        let plan = run(&deployment(after, surge, "0"), &sets, &[]);
        assert_eq!(sizes(&sets, &plan), expected, "{before:?} → {after} of {start:?}");
        for change in &plan.change {
            assert_eq!(change.annotations[DESIRED_REPLICAS], after.to_string());
        }
    }
}

#[test]
fn a_saturated_new_set_empties_the_old_ones() {
    let sets = [noted(set("web:old", 1, 2, 2, 2), 3, 4), noted(set("web:new", 2, 5, 5, 5), 5, 6)];
    let plan = run(&deployment(5, "1", "1"), &sets, &[]);
    assert_eq!(sizes(&sets, &plan), [0, 5]);
}

#[test]
fn an_outdated_note_alone_does_not_block_the_rollout() {
    let sets = [noted(set("web:old", 1, 5, 5, 5), 3, 4)];
    let plan = run(&deployment(5, "1", "1"), &sets, &[]);
    assert_eq!(plan.change[0].annotations[DESIRED_REPLICAS], "5");
    assert_eq!(plan.change[0].replicas, None);
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

fn with_progressing(value: &str, reason: &str, seconds_ago: i64) -> DeploymentStatus {
    let mut status = DeploymentStatus { observed_generation: Some(1), ..Default::default() };
    let then = now() - SignedDuration::from_secs(seconds_ago);
    condition::set(&mut status, condition::new(PROGRESSING, value, reason, String::new(), then));
    status
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
fn a_template_seen_before_becomes_current_under_a_new_revision() {
    let sets = [set("web:new", 1, 0, 0, 0), set("web:old", 2, 3, 3, 3)];
    let plan = run(&deployment(3, "1", "1"), &sets, &[]);
    assert_eq!(plan.create, None);
    let change = plan.change.iter().find(|change| change.name == "web-1").unwrap();
    assert_eq!(change.annotations[REVISION], "3");
    assert_eq!(change.annotations[REVISION_HISTORY], "1");
    assert_eq!(change.replicas, Some(1));
    assert_eq!(plan.revision.as_deref(), Some("3"));
}

#[test]
fn min_ready_seconds_follow_the_deployment() {
    let mut deployment = deployment(3, "1", "1");
    deployment.spec.min_ready_seconds = Some(7);
    let plan = run(&deployment, &[set("web:new", 1, 3, 3, 3)], &[]);
    assert_eq!(plan.change[0].min_ready_seconds, Some(7));
}

#[test]
fn history_beyond_the_limit_goes_lowest_revision_first() {
    let mut deployment = deployment(3, "1", "1");
    deployment.spec.revision_history_limit = Some(1);
    deployment.status = Some(DeploymentStatus {
        replicas: Some(3),
        updated_replicas: Some(3),
        available_replicas: Some(3),
        ..with_progressing("True", "NewReplicaSetAvailable", 0)
    });
    let mut sets: Vec<_> = (1..=4).map(|age| set(&format!("web:{age}"), age, 0, 0, 0)).collect();
    sets.push(noted(set("web:new", 5, 3, 3, 3), 3, 4));
    sets[1].metadata.generation = Some(2);
    let plan = run(&deployment, &sets, &[]);
    // The second has not been observed yet, so it stays; it still takes its place among those to go.
    let names: Vec<_> = plan.delete.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["web-1", "web-3"]);
    // Not complete: nothing goes.
    deployment.status.as_mut().unwrap().available_replicas = Some(2);
    assert!(run(&deployment, &sets, &[]).delete.is_empty());
}

#[test]
fn rollback_takes_the_template_and_clears_the_request() {
    let sets = || {
        let mut old = set("web:old", 1, 0, 0, 0);
        old.metadata.annotations.as_mut().unwrap().insert("team".into(), "a".into());
        [old, noted(set("web:new", 2, 3, 3, 3), 3, 4)]
    };
    // asked → template, event
    for (asked, image, reason, text) in [
        ("1", Some("web:old"), "DeploymentRollback", "Rolled back deployment \"web\" to revision 1"),
        ("0", Some("web:old"), "DeploymentRollback", "Rolled back deployment \"web\" to revision 1"),
        (
            "2",
            None,
            "DeploymentRollbackTemplateUnchanged",
            "The rollback revision contains the same template as current deployment \"web\"",
        ),
        ("7", None, "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
    ] {
        let mut deployment = deployment(3, "1", "1");
        let annotations =
            BTreeMap::from([(ROLLBACK_TO.to_owned(), asked.to_owned()), ("x".into(), "y".into())]);
        deployment.metadata.annotations = Some(annotations);
        let plan = run(&deployment, &sets(), &[]);
        let rollback = plan.rollback.unwrap();
        let taken =
            rollback.template.map(|template| template.spec.unwrap().containers[0].image.clone().unwrap());
        assert_eq!(taken.as_deref(), image, "{asked}");
        assert!(!rollback.annotations.contains_key(ROLLBACK_TO));
        assert_eq!(rollback.annotations.contains_key("team"), image.is_some());
        assert_eq!(rollback.annotations.contains_key("x"), image.is_none());
        let event = plan.events.last().unwrap();
        assert_eq!((event.reason, event.message.as_str()), (reason, text));
    }
    let mut deployment = deployment(3, "1", "1");
    deployment.metadata.annotations = Some(BTreeMap::from([(ROLLBACK_TO.to_owned(), "0".to_owned())]));
    let plan = run(&deployment, &[set("web:new", 1, 3, 3, 3)], &[]);
    assert_eq!(plan.events.last().unwrap().message, "Unable to find last revision.");
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
fn a_collision_count_changes_the_name() {
    let mut deployment = deployment(3, "1", "1");
    let name = |plan: Plan| plan.create.unwrap().metadata.name.unwrap();
    let first = name(run(&deployment, &[], &[]));
    deployment.status = Some(DeploymentStatus { collision_count: Some(1), ..Default::default() });
    assert_ne!(first, name(run(&deployment, &[], &[])));
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
