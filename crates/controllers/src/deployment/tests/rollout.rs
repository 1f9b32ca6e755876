//! Creating, rolling, scaling, going back.

use std::time::Duration;

use super::*;

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
fn pods_that_are_not_gone_yet_take_room() {
    // Old wanted and present, new wanted → new.
    for (wanted, present, new, expected) in [(8, 10, 3, 3), (8, 9, 3, 4), (8, 8, 3, 5), (8, 6, 3, 5)] {
        let sets = [set("web:old", 1, wanted, present, wanted), set("web:new", 2, new, new, 0)];
        let plan = run(&deployment(10, "3", "2"), &sets, &[]);
        assert_eq!(sizes(&sets, &plan)[1], expected, "{wanted} {present} {new}");
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
fn a_collision_count_changes_the_name() {
    let mut deployment = deployment(3, "1", "1");
    let name = |plan: Plan| plan.create.unwrap().metadata.name.unwrap();
    let first = name(run(&deployment, &[], &[]));
    deployment.status = Some(DeploymentStatus { collision_count: Some(1), ..Default::default() });
    assert_ne!(first, name(run(&deployment, &[], &[])));
}
