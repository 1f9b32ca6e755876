//! Tables: which endpoints, in which slices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, Pod, PodCondition, PodIP, PodSpec, PodStatus, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::plan::CAPACITY;
use super::*;

pub fn service(ports: &[(&str, i32, &str)]) -> Service {
    let port = |(name, port, target): &(&str, i32, &str)| ServicePort {
        name: Some(name.to_string()),
        port: *port,
        protocol: Some("TCP".into()),
        target_port: Some(
            target.parse().map_or_else(|_| IntOrString::String(target.to_string()), IntOrString::Int),
        ),
        ..Default::default()
    };
    Service {
        metadata: ObjectMeta {
            name: Some("web".into()),
            namespace: Some("ns".into()),
            uid: Some("svc-uid".into()),
            labels: Some(BTreeMap::from([("team".into(), "a".into())])),
            ..Default::default()
        },
        spec: Some(ServiceSpec {
            selector: Some(BTreeMap::from([("app".into(), "web".into())])),
            cluster_ip: Some("10.0.0.1".into()),
            ip_families: Some(vec!["IPv4".into()]),
            ports: Some(ports.iter().map(port).collect()),
            ..Default::default()
        }),
        status: None,
    }
}

pub fn pod(number: usize, ready: bool, http: i32) -> Pod {
    let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
    Pod {
        metadata: ObjectMeta {
            name: Some(format!("web-{number}")),
            namespace: Some("ns".into()),
            uid: Some(format!("pod-{number}")),
            ..Default::default()
        },
        spec: Some(PodSpec {
            node_name: Some("node".into()),
            containers: vec![Container {
                ports: Some(vec![ContainerPort {
                    name: Some("http".into()),
                    container_port: http,
                    ..Default::default()
                }]),
                ..Default::default()
            }],
            ..Default::default()
        }),
        status: Some(PodStatus {
            phase: Some("Running".into()),
            pod_ip: Some(ip.clone()),
            pod_ips: Some(vec![PodIP { ip }]),
            conditions: Some(vec![PodCondition {
                type_: "Ready".into(),
                status: if ready { "True" } else { "False" }.into(),
                ..Default::default()
            }]),
            ..Default::default()
        }),
    }
}

fn run(service: &Service, pods: &[Pod], slices: &[EndpointSlice]) -> Plan {
    let pods: Vec<&Pod> = pods.iter().collect();
    let slices: Vec<&EndpointSlice> = slices.iter().collect();
    plan(service, &pods, &slices, |_| None)
}

/// Creates as the server would: with names.
fn stored(plan: Plan) -> Vec<EndpointSlice> {
    let named = plan.create.into_iter().chain(plan.update).enumerate().map(|(index, mut slice)| {
        slice.metadata.name.get_or_insert_with(|| format!("web-{index}"));
        slice
    });
    named.collect()
}

fn lengths(slices: &[EndpointSlice]) -> Vec<usize> {
    slices.iter().map(|slice| slice.endpoints.as_ref().unwrap().len()).collect()
}

#[test]
fn a_service_without_pods_has_one_empty_slice() {
    let service = service(&[("http", 80, "8080")]);
    let first = run(&service, &[], &[]);
    assert_eq!(lengths(&first.create), [0]);
    let labels = first.create[0].metadata.labels.clone().unwrap();
    assert_eq!(
        (labels[SERVICE_NAME].as_str(), labels[MANAGED_BY].as_str(), labels["team"].as_str()),
        ("web", CONTROLLER, "a")
    );
    assert!(!labels.contains_key(crate::service::HEADLESS));
    let slices = stored(first);
    assert_eq!(run(&service, &[], &slices), Plan::default());
    // The first pod replaces it.
    let plan = run(&service, &[pod(0, true, 80)], &slices);
    assert_eq!((lengths(&plan.create), plan.delete), (vec![1], vec!["web-0".to_owned()]));
}

#[test]
fn conditions_tell_ready_serving_and_terminating() {
    let service_of = |publish| {
        let mut service = service(&[("http", 80, "8080")]);
        service.spec.as_mut().unwrap().publish_not_ready_addresses = Some(publish);
        service
    };
    for (ready, terminating, publish, expected) in [
        (true, false, false, (true, true, false)),
        (false, false, false, (false, false, false)),
        (true, true, false, (false, true, true)),
        (false, false, true, (true, false, false)),
    ] {
        let mut pod = pod(0, ready, 80);
        pod.metadata.deletion_timestamp = terminating.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
        let plan = run(&service_of(publish), &[pod], &[]);
        let endpoint = &plan.create[0].endpoints.as_ref().unwrap()[0];
        let said = endpoint.conditions.clone().unwrap();
        assert_eq!((said.ready.unwrap(), said.serving.unwrap(), said.terminating.unwrap()), expected);
        assert_eq!(endpoint.node_name.as_deref(), Some("node"));
        assert_eq!(endpoint.target_ref.as_ref().unwrap().uid.as_deref(), Some("pod-0"));
    }
    let mut ended = pod(0, false, 80);
    ended.status.as_mut().unwrap().phase = Some("Succeeded".into());
    let mut homeless = pod(1, true, 80);
    homeless.status.as_mut().unwrap().pod_ip = None;
    homeless.status.as_mut().unwrap().pod_ips = None;
    assert_eq!(lengths(&run(&service_of(false), &[ended, homeless], &[]).create), [0]);
}

#[test]
fn slices_hold_a_hundred_and_change_as_little_as_possible() {
    let service = service(&[("http", 80, "8080")]);
    let pods: Vec<Pod> = (0..250).map(|number| pod(number, true, 80)).collect();
    let slices = stored(run(&service, &pods, &[]));
    assert_eq!(lengths(&slices), [CAPACITY, CAPACITY, 50]);
    assert_eq!(run(&service, &pods, &slices), Plan::default());
    // One more goes to the slice with room; one less changes its slice alone.
    let more: Vec<Pod> = (0..251).map(|number| pod(number, true, 80)).collect();
    let plan = run(&service, &more, &slices);
    assert_eq!((lengths(&plan.update), plan.create.len(), plan.delete.len()), (vec![51], 0, 0));
    let plan = run(&service, &pods[1..], &slices);
    assert_eq!((lengths(&plan.update), plan.create.len(), plan.delete.len()), (vec![99], 0, 0));
    // One replaced: its slice takes the newcomer.
    let mut replaced = pods[1..].to_vec();
    replaced.push(pod(900, true, 80));
    assert_eq!(lengths(&run(&service, &replaced, &slices).update), [CAPACITY]);
    // A slice with no pod left is deleted.
    let last: Vec<_> =
        slices[2].endpoints.iter().flatten().filter_map(|e| e.target_ref.as_ref()?.uid.clone()).collect();
    let left: Vec<Pod> =
        pods.into_iter().filter(|pod| !last.contains(pod.metadata.uid.as_ref().unwrap())).collect();
    let plan = run(&service, &left, &slices);
    assert_eq!((plan.delete.len(), plan.update.len()), (1, 0));
}

#[test]
fn pods_with_different_ports_have_different_slices() {
    let service = service(&[("http", 80, "http")]);
    let plan = run(&service, &[pod(0, true, 8080), pod(1, true, 9090), pod(2, true, 8080)], &[]);
    let mut ports: Vec<_> = plan
        .create
        .iter()
        .map(|slice| (slice.ports.as_ref().unwrap()[0].port, slice.endpoints.as_ref().unwrap().len()))
        .collect();
    ports.sort();
    assert_eq!(ports, [(Some(8080), 2), (Some(9090), 1)]);
}

#[test]
fn readiness_and_labels_update_in_place() {
    let mut service = service(&[("http", 80, "8080")]);
    let slices = stored(run(&service, &[pod(0, false, 80)], &[]));
    let plan = run(&service, &[pod(0, true, 80)], &slices);
    assert_eq!(plan.update[0].endpoints.as_ref().unwrap()[0].conditions.as_ref().unwrap().ready, Some(true));
    service.metadata.labels = None;
    let plan = run(&service, &[pod(0, false, 80)], &slices);
    assert!(!plan.update[0].metadata.labels.as_ref().unwrap().contains_key("team"));
    // Without a cluster IP.
    service.spec.as_mut().unwrap().cluster_ip = Some("None".into());
    let plan = run(&service, &[pod(0, false, 80)], &slices);
    assert!(plan.update[0].metadata.labels.as_ref().unwrap().contains_key(crate::service::HEADLESS));
}

#[test]
fn families_have_their_own_slices() {
    let mut service = service(&[("http", 80, "8080")]);
    let mut pod = pod(0, true, 80);
    pod.status.as_mut().unwrap().pod_ips.as_mut().unwrap().push(PodIP { ip: "fd00:0::1".into() });
    service.spec.as_mut().unwrap().ip_families = Some(vec!["IPv4".into(), "IPv6".into()]);
    let slices = stored(run(&service, std::slice::from_ref(&pod), &[]));
    let addresses: Vec<_> = slices
        .iter()
        .map(|slice| {
            (slice.address_type.as_str(), slice.endpoints.as_ref().unwrap()[0].addresses[0].as_str())
        })
        .collect();
    assert_eq!(addresses, [("IPv4", "10.1.0.1"), ("IPv6", "fd00::1")]);
    service.spec.as_mut().unwrap().ip_families = Some(vec!["IPv4".into()]);
    assert_eq!(run(&service, &[pod], &slices).delete, ["web-1"]);
}
