//! Tables: which Endpoints are mirrored, and into which slices.

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::plan::{CAPACITY, plan};
use crate::endpointslice::Plan;
use crate::object::field::endpoints;

fn mirrored(subsets: Value) -> Endpoints {
    serde_json::from_value(json!({
        "metadata": { "name": "db", "namespace": "ns", "uid": "u", "labels": { "app": "db" },
            "annotations": { "note": "n", "kubectl.kubernetes.io/last-applied-configuration": "{}" } },
        "subsets": subsets,
    }))
    .unwrap()
}

fn one_subset() -> Value {
    json!([{ "addresses": [{ "ip": "192.0.2.2" }, { "ip": "2001:db8::1", "hostname": "h", "nodeName": "n" }],
        "notReadyAddresses": [{ "ip": "192.0.2.1" }], "ports": [{ "name": "sql", "port": 5432 }] }])
}

/// The slices as the server stores them.
fn stored(plan: &Plan) -> Vec<EndpointSlice> {
    let named = |(at, slice): (usize, &EndpointSlice)| {
        let mut slice = slice.clone();
        slice.metadata.name = Some(format!("db-{at}"));
        slice
    };
    plan.create.iter().enumerate().map(named).collect()
}

#[test]
fn each_family_has_a_slice_of_its_own() {
    let plan = plan(Some(&mirrored(one_subset())), &[]).plan;
    let shown: Vec<String> = plan
        .create
        .iter()
        .flat_map(|slice| endpoints(slice).iter().map(|one| (slice.address_type.as_str(), one)))
        .map(|(kind, one)| {
            let ready = one.conditions.as_ref().unwrap().ready.unwrap();
            format!("{kind} {} {ready}", one.addresses[0])
        })
        .collect();
    assert_eq!(shown, ["IPv4 192.0.2.1 false", "IPv4 192.0.2.2 true", "IPv6 2001:db8::1 true"]);
    let slice = &plan.create[0];
    let labels = slice.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["app"], "db");
    assert_eq!(labels["kubernetes.io/service-name"], "db");
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslicemirroring-controller.k8s.io");
    assert_eq!(slice.metadata.annotations.as_ref().unwrap().keys().collect::<Vec<_>>(), ["note"]);
    let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.controller), ("Endpoints", "db", Some(true)));
    let port = &slice.ports.as_ref().unwrap()[0];
    assert_eq!(
        (port.name.as_deref(), port.port, port.protocol.as_deref()),
        (Some("sql"), Some(5432), Some("TCP"))
    );
}

#[test]
fn slices_follow_their_endpoints() {
    let before = mirrored(one_subset());
    let present = stored(&plan(Some(&before), &[]).plan);
    let present: Vec<&EndpointSlice> = present.iter().collect();
    assert_eq!(plan(Some(&before), &present).plan, Plan::default(), "nothing changed");
    let fewer = json!([{ "addresses": [{ "ip": "192.0.2.9" }], "ports": [{ "name": "sql", "port": 5432 }] }]);
    let changed = plan(Some(&mirrored(fewer)), &present).plan;
    assert_eq!((changed.create.len(), changed.delete.as_slice()), (0, &["db-1".to_owned()][..]));
    assert_eq!(endpoints(&changed.update[0])[0].addresses, ["192.0.2.9"]);
    assert_eq!(changed.update[0].metadata.name.as_deref(), Some("db-0"));
    let other_port =
        json!([{ "addresses": [{ "ip": "192.0.2.2" }], "ports": [{ "name": "sql", "port": 1 }] }]);
    let moved = plan(Some(&mirrored(other_port)), &present).plan;
    assert_eq!((moved.create.len(), moved.update.len(), moved.delete.len()), (1, 0, 2));
    assert_eq!(plan(None, &present).plan.delete.len(), 2, "the Service has a selector, or is gone");
}

#[test]
fn what_is_not_for_readers_is_not_mirrored() {
    let mut skipped = mirrored(one_subset());
    let labels = skipped.metadata.labels.as_mut().unwrap();
    labels.insert("endpointslice.kubernetes.io/skip-mirror".into(), "true".into());
    assert_eq!(plan(Some(&skipped), &[]).plan, Plan::default());
    let mut election = mirrored(one_subset());
    let annotations = election.metadata.annotations.as_mut().unwrap();
    annotations.insert("control-plane.alpha.kubernetes.io/leader".into(), "{}".into());
    assert_eq!(plan(Some(&election), &[]).plan, Plan::default());
}

#[test]
fn a_subset_with_too_many_addresses_is_cut() {
    let addresses: Vec<Value> =
        (0..CAPACITY + 3).map(|at| json!({ "ip": format!("10.0.{}.{}", at / 250, at % 250 + 1) })).collect();
    let cut = plan(Some(&mirrored(json!([{ "addresses": addresses, "ports": [{ "port": 1 }] }]))), &[]);
    assert_eq!((endpoints(&cut.plan.create[0]).len(), cut.skipped), (CAPACITY, 3));
}
