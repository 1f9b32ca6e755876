//! Tables: which volume, what about a claim, what about a volume, and each write of a binding.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fit::{Place, best, objection};
use super::*;

/// `base` with what `change` says, deep down.
fn with<K: DeserializeOwned>(mut base: Value, change: Value) -> Arc<K> {
    fn merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }
    merge(&mut base, change);
    Arc::new(serde_json::from_value(base).unwrap())
}

/// An Available volume of 10Gi.
fn volume(name: &str, change: Value) -> Arc<PersistentVolume> {
    let base = json!({ "metadata": { "name": name, "resourceVersion": "3" }, "spec": {
        "capacity": { "storage": "10Gi" }, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain" }, "status": { "phase": "Available" } });
    with(base, change)
}

/// A claim to 5Gi of the empty class.
fn claim(change: Value) -> Arc<PersistentVolumeClaim> {
    let base = json!({ "metadata": { "name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "2" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": { "requests": { "storage": "5Gi" } } }, "status": { "phase": "Pending" } });
    with(base, change)
}

fn class(name: &str, change: Value) -> Arc<StorageClass> {
    let base = json!({ "metadata": { "name": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "provisioner": "example.com/p", "volumeBindingMode": "Immediate" });
    with(base, change)
}

fn late(name: &str) -> Arc<StorageClass> {
    class(name, json!({ "volumeBindingMode": "WaitForFirstConsumer" }))
}

/// A reference to the claim `c` with this uid, empty for any.
fn asks(uid: &str) -> Value {
    json!({ "spec": { "claimRef": { "namespace": "ns", "name": "c", "uid": uid } } })
}

fn size(size: &str) -> Value {
    json!({ "spec": { "capacity": { "storage": size } } })
}

#[test]
fn a_claim_gets_the_smallest_volume_that_fits() {
    let plain = || claim(json!({}));
    let gone = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let both = json!({ "spec": { "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": { "storage": "6Gi" } } });
    let selecting = || claim(json!({ "spec": { "selector": { "matchLabels": { "disk": "ssd" } } } }));
    let ssd =
        json!({ "metadata": { "labels": { "disk": "ssd" } }, "spec": { "capacity": { "storage": "90Gi" } } });
    let spec = |field: &str, value: Value| json!({ "spec": { field: value } });
    let phase = |phase: &str| json!({ "status": { "phase": phase } });
    for (what, claim, volumes, expected) in [
        ("none is there", plain(), vec![], None),
        (
            "the smallest",
            plain(),
            vec![volume("a", json!({})), volume("b", size("6Gi")), volume("c", size("7Gi"))],
            Some("b"),
        ),
        ("just as large", plain(), vec![volume("a", size("5Gi"))], Some("a")),
        ("too small", plain(), vec![volume("a", size("5G"))], None),
        ("it goes", plain(), vec![volume("a", gone)], None),
        ("released", plain(), vec![volume("a", phase("Released"))], None),
        ("not seen yet", plain(), vec![volume("a", phase("Pending"))], None),
        ("of a class", plain(), vec![volume("a", spec("storageClassName", json!("x")))], None),
        (
            "both of a class",
            claim(spec("storageClassName", json!("x"))),
            vec![volume("a", spec("storageClassName", json!("x")))],
            Some("a"),
        ),
        ("a device", plain(), vec![volume("a", spec("volumeMode", json!("Block")))], None),
        ("other attributes", plain(), vec![volume("a", spec("volumeAttributesClassName", json!("x")))], None),
        (
            "no mode too many rather than no byte",
            plain(),
            vec![volume("a", both.clone()), volume("b", json!({}))],
            Some("b"),
        ),
        ("more modes than needed", plain(), vec![volume("a", both.clone())], Some("a")),
        ("a mode is missing", claim(both), vec![volume("a", json!({}))], None),
        ("selected", selecting(), vec![volume("a", json!({})), volume("b", ssd)], Some("b")),
        ("not selected", selecting(), vec![volume("a", json!({}))], None),
        ("it asks for another", plain(), vec![volume("a", asks("other"))], None),
        (
            "it asks for the claim",
            plain(),
            vec![volume("a", size("6Gi")), volume("b", asks("")), volume("c", size("5Gi"))],
            Some("b"),
        ),
        (
            "it asks and is released",
            plain(),
            vec![with(json!(*volume("a", asks("u"))), phase("Released"))],
            Some("a"),
        ),
        ("it asks and is too small", plain(), vec![with(json!(*volume("a", asks("u"))), size("1Gi"))], None),
    ] {
        let found = best(&claim, &volumes, Place::Anywhere).map(|volume| name_of(&volume.metadata));
        assert_eq!(found, expected, "{what}");
    }
    let (open, asking) = ([volume("a", json!({}))], [volume("a", asks("u"))]);
    assert_eq!(best(&plain(), &open, Place::Undecided), None, "which node is not known yet");
    assert!(best(&plain(), &asking, Place::Undecided).is_some());
}

#[test]
fn a_volume_asked_for_by_name_says_why_not() {
    let gone = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    for (change, expected) in [
        (json!({}), None),
        (gone, Some("the volume is marked for deletion \"v\"")),
        (size("1Gi"), Some("requested PV is too small")),
        (json!({ "spec": { "storageClassName": "x" } }), Some("storageClassName does not match")),
        (
            json!({ "spec": { "volumeAttributesClassName": "x" } }),
            Some("volumeAttributesClassName does not match"),
        ),
        (json!({ "spec": { "volumeMode": "Block" } }), Some("incompatible volumeMode")),
        (json!({ "spec": { "accessModes": ["ReadOnlyMany"] } }), Some("incompatible accessMode")),
    ] {
        assert_eq!(objection(&volume("v", change), &claim(json!({}))).as_deref(), expected);
    }
}

#[test]
fn an_unbound_claim_binds_waits_or_has_its_volume_made() {
    use claim::Step;
    let of = |class: &str| claim(json!({ "spec": { "storageClassName": class } }));
    let unnamed = || claim(json!({ "spec": { "storageClassName": null } }));
    let default = class(
        "d",
        json!({ "metadata": { "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } } }),
    );
    let wait = |notice: Notice| Step::Wait(Some(notice));
    let failed = |message: &str| wait(Notice::warning("ProvisioningFailed", message));
    let none = "no persistent volumes available for this claim and no storage class is set";
    let selected =
        json!({ "metadata": { "annotations": { SELECTED_NODE: "n" } }, "spec": { "storageClassName": "l" } });
    let in_tree = class("k", json!({ "provisioner": "kubernetes.io/no-provisioner" }));
    for (what, claim, classes, expected) in [
        ("the empty class", of(""), vec![default.clone()], wait(Notice::normal("FailedBinding", none))),
        ("no class, no default", unnamed(), vec![late("l")], wait(Notice::normal("FailedBinding", none))),
        ("no class, a default", unnamed(), vec![default], Step::Assign("d")),
        ("at once", of("i"), vec![class("i", json!({}))], Step::Provision("example.com/p")),
        ("later", of("l"), vec![late("l")], Step::AwaitConsumer),
        ("now", claim(selected), vec![late("l")], Step::Provision("example.com/p")),
        ("no such class", of("x"), vec![], failed("storageclass.storage.k8s.io \"x\" not found")),
        (
            "by nobody",
            of("k"),
            vec![in_tree],
            failed("no volume plugin matched name: kubernetes.io/no-provisioner"),
        ),
    ] {
        assert_eq!(claim::step(&claim, &[], &classes), expected, "{what}");
    }
    let volumes = [volume("v", json!({}))];
    assert_eq!(claim::step(&of(""), &volumes, &[]), Step::Bind(&volumes[0]));
}

#[test]
fn the_newest_default_class_counts() {
    let default = |name: &str, created: &str, value: &str| {
        class(
            name,
            json!({ "metadata": { "creationTimestamp": created,
            "annotations": { "storageclass.kubernetes.io/is-default-class": value } } }),
        )
    };
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let classes = [
        default("a", old, "true"),
        default("z", new, "true"),
        default("y", new, "true"),
        default("b", new, "false"),
    ];
    assert_eq!(class::default_of(&classes), Some("y"));
    assert_eq!(class::default_of(&classes[3..]), None);
}

#[test]
fn a_claim_that_names_its_volume_waits_for_that_one() {
    use claim::Step;
    let named = claim(json!({ "spec": { "volumeName": "v" } }));
    let other = volume("w", json!({}));
    assert_eq!(claim::step(&named, &[other], &[]), Step::Wait(None));
    for (change, expected) in [
        (
            size("1Gi"),
            Some(("VolumeMismatch", "Cannot bind to requested volume \"v\": requested PV is too small")),
        ),
        (asks("other"), Some(("FailedBinding", "volume \"v\" already bound to a different claim."))),
        (json!({}), None),
        (asks("u"), None),
    ] {
        let volumes = [volume("v", change)];
        let expected = expected.map_or(Step::Bind(&volumes[0]), |(reason, message)| {
            Step::Wait(Some(Notice::warning(reason, message)))
        });
        assert_eq!(claim::step(&named, &volumes, &[]), expected);
    }
}

#[test]
fn a_bound_claim_that_lost_its_volume_says_so() {
    use claim::Step;
    let bound = |name: &str| {
        claim(
            json!({ "metadata": { "annotations": { BIND_COMPLETED: "yes" } }, "spec": { "volumeName": name } }),
        )
    };
    let lost = |reason, message: &str| Step::Lost(Notice::warning(reason, message));
    let no_name = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
    assert_eq!(claim::step(&bound(""), &[], &[]), lost("ClaimLost", no_name));
    let no_volume = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    assert_eq!(claim::step(&bound("v"), &[], &[]), lost("ClaimLost", no_volume));
    let twice = "Two claims are bound to the same volume, this one is bound incorrectly";
    let (stolen, own, reset) = ([volume("v", asks("x"))], [volume("v", asks("u"))], [volume("v", json!({}))]);
    assert_eq!(claim::step(&bound("v"), &stolen, &[]), lost("ClaimMisbound", twice));
    assert_eq!(claim::step(&bound("v"), &own, &[]), Step::Bind(&own[0]));
    assert_eq!(claim::step(&bound("v"), &reset, &[]), Step::Bind(&reset[0]));
}

#[test]
fn a_claim_that_waits_for_consumers_names_them() {
    let (one, two) = (["p".to_owned()], ["p".to_owned(), "q".to_owned()]);
    assert_eq!(claim::awaited(&[]).message, "waiting for first consumer to be created before binding");
    assert_eq!(claim::awaited(&one).message, "waiting for pod p to be scheduled");
    assert_eq!(claim::awaited(&two).message, "waiting for pods p,q to be scheduled");
    assert_eq!(
        (claim::awaited(&[]).reason, claim::awaited(&one).reason),
        ("WaitForFirstConsumer", "WaitForPodScheduled")
    );
}

#[test]
fn a_volume_follows_its_claim() {
    use release::Step;
    let claimed = |name: &str| claim(json!({ "spec": { "volumeName": name } }));
    let made = json!({ "metadata": { "annotations": { PROVISIONED_BY: "p" } }, "spec": { "persistentVolumeReclaimPolicy": "Delete" } });
    for (what, volume, claim, expected) in [
        ("nobody's", volume("v", json!({})), None, Step::Phase("Available")),
        ("kept for somebody", volume("v", asks("")), Some(claimed("")), Step::Phase("Available")),
        ("theirs in a moment", volume("v", asks("u")), Some(claimed("")), Step::Leave),
        ("theirs", volume("v", asks("u")), Some(claimed("v")), Step::Phase("Bound")),
        ("they are gone", volume("v", asks("u")), None, Step::Release),
        ("they have another", volume("v", asks("u")), Some(claimed("w")), Step::Unbind),
        (
            "made for them, who have another",
            with(json!(*volume("v", asks("u"))), made),
            Some(claimed("w")),
            Step::Release,
        ),
    ] {
        assert_eq!(release::step(&volume, claim.as_deref()), expected, "{what}");
    }
    let device = with(json!(*volume("v", asks("u"))), json!({ "spec": { "volumeMode": "Block" } }));
    assert!(matches!(release::step(&device, Some(&claimed(""))), Step::Mismatch { .. }));
}

#[test]
fn a_released_volume_fails_where_nobody_can_reclaim_it() {
    let policy = |policy: &str| json!({ "spec": { "persistentVolumeReclaimPolicy": policy } });
    let made = |by: &str| {
        with(
            json!(*volume("v", policy("Delete"))),
            json!({ "metadata": { "annotations": { PROVISIONED_BY: by } } }),
        )
    };
    let driven = with(
        json!(*volume("v", policy("Delete"))),
        json!({ "spec": { "csi": { "driver": "d", "volumeHandle": "h" } } }),
    );
    for (volume, expected) in [
        (volume("v", policy("Retain")), None),
        (made("example.com/p"), None),
        (driven, None),
        (made("kubernetes.io/x"), Some("no volume plugin matched name: kubernetes.io/x")),
        (
            volume("v", policy("Delete")),
            Some("error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched"),
        ),
        (volume("v", policy("Recycle")), Some("No recycler plugin found for the volume!")),
        (volume("v", policy("Burn")), Some("Volume has unrecognized PersistentVolumeReclaimPolicy")),
    ] {
        assert_eq!(release::failure(&volume).map(|notice| notice.message).as_deref(), expected);
    }
}

#[test]
fn each_write_of_a_binding_is_made_once() {
    let (open, kept, wanted) = (volume("v", json!({})), volume("v", asks("")), claim(json!({})));
    let reference = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "c",
        "uid": "u", "resourceVersion": "2" });
    let by_controller = json!({ "annotations": { BOUND_BY_CONTROLLER: "yes" } });
    let noted = json!({ "metadata": by_controller, "spec": { "claimRef": reference } });
    assert_eq!(bind::claim_ref(&open, &wanted), Some(noted.clone()));
    assert_eq!(
        bind::claim_ref(&kept, &wanted),
        Some(json!({ "spec": { "claimRef": reference } })),
        "asked for"
    );
    let open: Arc<PersistentVolume> = with(json!(*open), noted);
    assert_eq!(bind::claim_ref(&open, &wanted), None);
    assert_eq!(
        bind::phase(&open, "Bound", None),
        Some(json!({ "status": { "phase": "Bound", "message": null } }))
    );
    assert_eq!(bind::phase(&open, "Available", None), None);
    let named = json!({ "metadata": { "annotations": { BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes" } },
        "spec": { "volumeName": "v" } });
    assert_eq!(bind::volume_name(&wanted, &open), Some(named.clone()));
    let choosy = claim(json!({ "spec": { "volumeName": "v" } }));
    let completed = json!({ "metadata": { "annotations": { BIND_COMPLETED: "yes" } } });
    assert_eq!(bind::volume_name(&choosy, &open), Some(completed), "the user chose it");
    let wanted: Arc<PersistentVolumeClaim> = with(json!(*wanted), named);
    assert_eq!(bind::volume_name(&wanted, &open), None);
    let status = bind::claim_status(&wanted, "Bound", Some(&open)).unwrap();
    let has = json!({ "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "10Gi" },
        "currentVolumeAttributesClassName": null } });
    assert_eq!(status, has);
    let wanted: Arc<PersistentVolumeClaim> = with(json!(*wanted), status);
    assert_eq!(bind::claim_status(&wanted, "Bound", Some(&open)), None);
    let lost = bind::claim_status(&wanted, "Lost", None).unwrap();
    assert_eq!(lost["status"]["capacity"], Value::Null);
}

#[test]
fn an_unbound_volume_keeps_what_somebody_asked_for() {
    let chosen = json!({ "metadata": { "annotations": { BOUND_BY_CONTROLLER: "yes" } } });
    let chosen: Arc<PersistentVolume> = with(json!(*volume("v", asks("u"))), chosen);
    assert_eq!(bind::unbound(&chosen)["spec"], json!({ "claimRef": null }));
    assert_eq!(bind::unbound(&volume("v", asks("u"))), json!({ "spec": { "claimRef": { "uid": null } } }));
}
