use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::identity::{self, claims, is_identified, is_member, is_mounted, new_pod, ordinal, revision};
use super::plan::{Plan, Step, plan};
use super::retention::{Ownership, is_stale};
use super::revision::{Newest, Version, newest, patch, template};
use super::status::{requeue, status};
use super::view::View;
use crate::object::field::stateful_set_spec;

const NOW: &str = "2026-01-01T01:00:00Z";

/// A StatefulSet of three, changed by a merge patch of its spec.
fn set(change: Value) -> StatefulSet {
    let mut spec = json!({ "replicas": 3, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
        "template": { "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [{ "name": "c", "image": "db:2" }] } } });
    merge(&mut spec, change);
    serde_json::from_value(json!({ "metadata": { "name": "db", "namespace": "ns", "uid": "set", "generation": 4 }, "spec": spec }))
        .unwrap()
}

fn merge(target: &mut Value, change: Value) {
    match change {
        Value::Object(fields) => {
            for (key, value) in fields {
                merge(&mut target[key], value);
            }
        }
        value => *target = value,
    }
}

fn version(name: &str, image: &str) -> Version {
    let template = json!({ "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [{ "name": "c", "image": image }] } });
    Version { name: name.into(), template: serde_json::from_value(template).unwrap() }
}

#[derive(Clone, Copy, PartialEq)]
enum Is {
    Ready,
    Pending,
    Going,
    Failed,
}

/// A pod of a revision: `old` or `new`.
fn pod(set: &StatefulSet, ordinal: i64, version_name: &str, is: Is) -> Arc<Pod> {
    let made = new_pod(set, &version(version_name, "db:1"), ordinal);
    let mut value = serde_json::to_value(made).unwrap();
    value["metadata"]["uid"] = json!(format!("pod-{ordinal}"));
    let ready = if matches!(is, Is::Ready | Is::Going) { "True" } else { "False" };
    let phase = match is {
        Is::Ready | Is::Going => "Running",
        Is::Pending => "Pending",
        Is::Failed => "Failed",
    };
    value["status"] = json!({ "phase": phase,
        "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:59:55Z" }] });
    if is == Is::Going {
        value["metadata"]["deletionTimestamp"] = json!(NOW);
    }
    Arc::new(serde_json::from_value(value).unwrap())
}

fn planned(set: &StatefulSet, pods: &[Arc<Pod>], claims: &[PersistentVolumeClaim]) -> Plan {
    let (current, update) = (version("old", "db:1"), version("new", "db:2"));
    let claims: BTreeMap<_, _> =
        claims.iter().map(|claim| (claim.metadata.name.clone().unwrap(), Arc::new(claim.clone()))).collect();
    plan(&View { set, current: &current, update: &update, pods, claims: &claims, now: NOW.parse().unwrap() })
}

/// The plan in words: `+` creates, `-` deletes, `~` updates, `!` refuses; phases by `|`.
fn words(plan: &Plan) -> String {
    let word = |step: &Step| match step {
        Step::CreateClaim { claim, .. } => format!("+{}", identity::name_of(&claim.metadata)),
        Step::OwnClaim { claim, .. } => format!("~{}", identity::name_of(&claim.metadata)),
        Step::CreatePod(pod) => format!("+{}@{}", identity::name_of(&pod.metadata), revision(pod)),
        Step::UpdatePod(pod) => format!("~{}", identity::name_of(&pod.metadata)),
        Step::DeletePod(pod) => format!("-{}", identity::name_of(&pod.metadata)),
        Step::Refuse { verb, pod, .. } => format!("!{verb} {pod}"),
    };
    let phase = |groups: &Vec<Vec<Step>>| groups.iter().flatten().map(word).collect::<Vec<_>>().join(" ");
    plan.phases.iter().map(phase).filter(|phase| !phase.is_empty()).collect::<Vec<_>>().join(" | ")
}

#[test]
fn pods_come_change_and_go_in_order() {
    use Is::{Failed, Going, Pending, Ready};
    let plain = set(json!({}));
    let two = set(json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": 2 } } }));
    let partitioned = set(json!({ "updateStrategy": { "rollingUpdate": { "partition": 2 } } }));
    let on_delete = set(json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } }));
    let small = set(json!({ "replicas": 1 }));
    let late = set(json!({ "ordinals": { "start": 2 }, "replicas": 2 }));
    let slow = set(json!({ "minReadySeconds": 10 }));
    for (what, set, pods, expected) in [
        ("the first", &plain, vec![], "+db-0@new"),
        ("the next waits", &plain, vec![(0, "new", Pending)], ""),
        ("the next", &plain, vec![(0, "new", Ready)], "+db-1@new"),
        ("not before it has been ready long enough", &slow, vec![(0, "new", Ready)], ""),
        ("a gap is filled first", &plain, vec![(0, "new", Ready), (2, "new", Ready)], "+db-1@new"),
        ("one that ended is made anew", &plain, vec![(0, "new", Failed)], "-db-0"),
        ("one that goes is waited for", &plain, vec![(0, "new", Going), (1, "new", Ready)], ""),
        (
            "the last is updated first",
            &plain,
            vec![(0, "old", Ready), (1, "old", Ready), (2, "old", Ready)],
            "-db-2",
        ),
        (
            "then the one before",
            &plain,
            vec![(0, "old", Ready), (1, "old", Ready), (2, "new", Ready)],
            "-db-1",
        ),
        ("two at a time", &two, vec![(0, "old", Ready), (1, "old", Ready), (2, "old", Ready)], "-db-2 -db-1"),
        (
            "above the partition only",
            &partitioned,
            vec![(0, "old", Ready), (1, "old", Ready), (2, "new", Ready)],
            "",
        ),
        ("below it as before", &partitioned, vec![(0, "old", Ready)], "+db-1@old"),
        ("never by itself", &on_delete, vec![(0, "old", Ready), (1, "old", Ready), (2, "old", Ready)], ""),
        ("but once it is gone", &on_delete, vec![(0, "old", Ready), (1, "old", Ready)], "+db-2@new"),
        (
            "the last goes first",
            &small,
            vec![(0, "new", Ready), (1, "new", Ready), (2, "new", Ready)],
            "-db-2",
        ),
        ("and is waited for", &small, vec![(0, "new", Ready), (1, "new", Ready), (2, "new", Going)], ""),
        ("but not if it is what all wait for", &small, vec![(0, "new", Ready), (1, "new", Pending)], "-db-1"),
        (
            "the first to be mended goes first",
            &small,
            vec![(0, "new", Ready), (1, "new", Pending), (2, "new", Pending)],
            "",
        ),
        ("ordinals may begin later", &late, vec![(2, "new", Ready)], "+db-3@new"),
        (
            "what is below them goes",
            &late,
            vec![(1, "new", Ready), (2, "new", Ready), (3, "new", Ready)],
            "-db-1",
        ),
    ] {
        let pods: Vec<_> = pods.into_iter().map(|(ordinal, name, is)| pod(set, ordinal, name, is)).collect();
        assert_eq!(words(&planned(set, &pods, &[])), expected, "{what}");
    }
}

#[test]
fn parallel_pods_wait_for_nobody() {
    use Is::{Pending, Ready};
    let parallel = |change: Value| {
        let mut base = json!({ "podManagementPolicy": "Parallel" });
        merge(&mut base, change);
        set(base)
    };
    let all = parallel(json!({}));
    let small = parallel(json!({ "replicas": 1 }));
    for (what, set, pods, expected) in [
        ("all at once", &all, vec![], "+db-0@new +db-1@new +db-2@new"),
        ("also beside one that is not ready", &all, vec![(0, "new", Pending)], "+db-1@new +db-2@new"),
        (
            "all that are too many",
            &small,
            vec![(0, "new", Ready), (1, "new", Ready), (2, "new", Pending)],
            "-db-2 -db-1",
        ),
        (
            "what serves nobody is updated first",
            &all,
            vec![(0, "old", Pending), (1, "old", Ready), (2, "old", Ready)],
            "-db-0",
        ),
        ("within the budget", &all, vec![(0, "old", Ready), (1, "old", Ready), (2, "old", Ready)], "-db-2"),
        ("which is used up", &all, vec![(0, "old", Ready), (1, "old", Ready), (2, "new", Pending)], ""),
    ] {
        let pods: Vec<_> = pods.into_iter().map(|(ordinal, name, is)| pod(set, ordinal, name, is)).collect();
        let plan = planned(set, &pods, &[]);
        assert!(plan.parallel);
        assert_eq!(words(&plan), expected, "{what}");
    }
}

fn with_claims(change: Value) -> StatefulSet {
    let mut base = json!({ "replicas": 1, "volumeClaimTemplates":
        [{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"] } }] });
    merge(&mut base, change);
    set(base)
}

fn claim(ordinal: i64, owners: Value) -> PersistentVolumeClaim {
    serde_json::from_value(json!({ "metadata": { "name": format!("data-db-{ordinal}"), "namespace": "ns",
        "ownerReferences": owners } }))
    .unwrap()
}

#[test]
fn claims_come_before_their_pod_and_stay() {
    let set = with_claims(json!({}));
    let plan = planned(&set, &[], &[]);
    assert_eq!(words(&plan), "+data-db-0 +db-0@new");
    let Step::CreateClaim { claim: made, .. } = &plan.phases[0][0][0] else { panic!("{plan:?}") };
    assert_eq!(made.metadata.labels.as_ref().unwrap()["app"], "db");
    assert_eq!(made.metadata.owner_references, None);
    assert_eq!(words(&planned(&set, &[], &[claim(0, json!([]))])), "+db-0@new");
    let mut going = claim(0, json!([]));
    going.metadata.deletion_timestamp = serde_json::from_value(json!(NOW)).unwrap();
    assert_eq!(words(&planned(&set, &[], &[going])), "!create db-0");
    // A pod that waits for a claim that was deleted under it gets another.
    let pods = [pod(&set, 0, "new", Is::Pending)];
    assert_eq!(words(&planned(&set, &pods, &[])), "+data-db-0");
}

#[test]
fn the_retention_policy_decides_who_owns_a_claim() {
    let policy = |scaled: &str, deleted: &str| {
        with_claims(
            json!({ "persistentVolumeClaimRetentionPolicy": { "whenScaled": scaled, "whenDeleted": deleted } }),
        )
    };
    let owner = |kind: &str, name: &str, uid: &str| {
        let api_version = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true })
    };
    // scaled, deleted, ordinal → owners' kinds
    for (scaled, deleted, ordinal, expected) in [
        ("Retain", "Retain", 0, vec![]),
        ("Retain", "Delete", 0, vec!["StatefulSet"]),
        ("Retain", "Delete", 1, vec!["StatefulSet"]),
        ("Delete", "Retain", 0, vec![]),
        ("Delete", "Retain", 1, vec!["Pod"]),
        ("Delete", "Delete", 0, vec!["StatefulSet"]),
        ("Delete", "Delete", 1, vec!["Pod"]),
    ] {
        let set = policy(scaled, deleted);
        let pod = pod(&set, ordinal, "new", Is::Ready);
        let before = claim(ordinal, json!([]));
        let ownership = Ownership { set: &set, pod: &pod, claim: &before };
        let owners = ownership.owners();
        let kinds: Vec<&str> = owners.iter().map(|owner| owner.kind.as_str()).collect();
        assert_eq!(kinds, expected, "{scaled} {deleted} {ordinal}");
        assert_eq!(ownership.is_settled(), expected.is_empty());
        let after = claim(ordinal, serde_json::to_value(&owners).unwrap());
        assert!(Ownership { set: &set, pod: &pod, claim: &after }.is_settled());
    }
    let set = policy("Delete", "Delete");
    let pod = pod(&set, 0, "new", Is::Ready);
    // An object of an earlier pod of this name is deleted with that pod. It is neither changed nor adopted.
    let stale = claim(0, json!([owner("Pod", "db-0", "earlier")]));
    assert!(Ownership { set: &set, pod: &pod, claim: &stale }.is_settled() && is_stale(&set, &pod, &stale));
    assert_eq!(words(&planned(&set, &[], &[stale])), "");
    // A claim with another owner stays with that owner.
    let contested = claim(0, json!([owner("Other", "x", "x"), owner("StatefulSet", "db", "set")]));
    let ownership = Ownership { set: &set, pod: &pod, claim: &contested };
    assert!(ownership.is_contested() && !ownership.is_settled());
    assert_eq!(ownership.owners().len(), 1);
}

#[test]
fn a_pod_keeps_its_identity() {
    let set = with_claims(json!({}));
    let made = new_pod(&set, &version("new", "db:2"), 7);
    assert!(is_member(&set, &made) && is_identified(&set, &made) && is_mounted(&set, &made, 7));
    assert_eq!((ordinal(&made), revision(&made)), (Some(7), "new"));
    let labels = made.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-7");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "7");
    let spec = made.spec.as_ref().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-7"), Some("db")));
    assert_eq!(claims(&set, 7)[0].1.metadata.name.as_deref(), Some("data-db-7"));
    for (name, member, found) in [
        ("db-01", true, Some(1)),
        ("db-x", false, None),
        ("other-1", false, Some(1)),
        ("db-99999999999", true, None),
    ] {
        let mut other = made.clone();
        other.metadata.name = Some(name.into());
        assert_eq!((is_member(&set, &other), ordinal(&other)), (member, found), "{name}");
        assert!(!is_identified(&set, &other), "{name}");
    }
    // A label that was taken away comes back.
    let mut stripped = Pod::clone(&pod(&set, 0, "new", Is::Ready));
    stripped.metadata.labels.as_mut().unwrap().remove("statefulset.kubernetes.io/pod-name");
    assert_eq!(words(&planned(&set, &[Arc::new(stripped)], &[claim(0, json!([]))])), "~db-0");
}

#[test]
fn a_status_counts_revisions_and_ends_an_update() {
    let set = set(json!({ "minReadySeconds": 10 }));
    let (current, update) = (version("old", "db:1"), version("new", "db:2"));
    let seen = |pods: &[Arc<Pod>], outdated: usize| {
        let view = View {
            set: &set,
            current: &current,
            update: &update,
            pods,
            claims: &BTreeMap::new(),
            now: NOW.parse().unwrap(),
        };
        (status(&view, &Plan { outdated, ..Plan::default() }, 1), requeue(&view))
    };
    let pods =
        [pod(&set, 0, "old", Is::Ready), pod(&set, 1, "old", Is::Ready), pod(&set, 2, "new", Is::Pending)];
    let (status, again) = seen(&pods, 1);
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (3, Some(2), Some(0)));
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(1), Some(1)));
    assert_eq!(
        (status.current_revision.as_deref(), status.update_revision.as_deref()),
        (Some("old"), Some("new"))
    );
    assert_eq!((status.observed_generation, status.collision_count), (Some(4), Some(1)));
    assert_eq!(again, Some(std::time::Duration::from_secs(5)));
    let pods = [0, 1, 2].map(|ordinal| pod(&set, ordinal, "new", Is::Ready));
    let (status, _) = seen(&pods, 0);
    assert_eq!((status.current_revision.as_deref(), status.current_replicas), (Some("new"), Some(3)));
}

#[test]
fn a_template_is_found_among_its_revisions() {
    let set = set(json!({}));
    let kept = |name: &str, number: i64, image: &str| {
        let data = patch(&version(name, image).template);
        let value = json!({ "metadata": { "name": name }, "data": data, "revision": number });
        Arc::new(serde_json::from_value::<ControllerRevision>(value).unwrap())
    };
    assert_eq!(template(&kept("a", 1, "db:2")).unwrap(), stateful_set_spec(&set).template);
    assert!(matches!(newest(&set, &[]), Newest::Missing));
    assert!(matches!(newest(&set, &[kept("a", 1, "db:1")]), Newest::Missing));
    let (old, new) = (kept("a", 1, "db:1"), kept("b", 2, "db:2"));
    assert!(matches!(newest(&set, &[old.clone(), new.clone()]), Newest::Present(found) if found == new));
    let again = kept("c", 3, "db:3");
    assert!(matches!(newest(&set, &[old, new.clone(), again]), Newest::Again(found) if found == new));
}
