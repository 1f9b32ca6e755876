//! Subsets: ports and the addresses that share them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, ObjectReference, Pod, Service, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{CONTROLLER, MANAGED_BY};
use crate::object::pod::{is_ready, node_name};
use crate::object::selector::Labels;
use crate::service::{self, HEADLESS, is_headless};

/// Maximum number of addresses in one object. Addresses beyond it are left out, ready ones last.
const CAPACITY: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The write.
#[derive(Debug, PartialEq)]
pub enum Plan {
    Nothing,
    Create(Box<Endpoints>),
    Update(Box<Endpoints>),
}

/// Decides.
pub fn plan(service: &Service, pods: &[&Pod], present: Option<&Endpoints>) -> Plan {
    let Some(spec) = &service.spec else { return Plan::Nothing };
    let (subsets, truncated) = truncate(subsets(service, spec, pods));
    let labels = labels(service, spec);
    let mut annotations =
        present.and_then(|present| present.metadata.annotations.clone()).unwrap_or_default();
    if truncated {
        annotations.insert(OVER_CAPACITY.into(), "truncated".into());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    let Some(present) = present else {
        return Plan::Create(Box::new(Endpoints {
            metadata: ObjectMeta {
                name: service.metadata.name.clone(),
                namespace: service.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
                ..Default::default()
            },
            subsets: Some(subsets).filter(|subsets| !subsets.is_empty()),
        }));
    };
    let same_annotations = present.metadata.annotations.clone().unwrap_or_default() == annotations;
    let same = same_subsets(present.subsets.as_deref().unwrap_or_default(), &subsets);
    if same && same_annotations && present.metadata.labels.as_ref() == Some(&labels) {
        return Plan::Nothing;
    }
    let mut updated = present.clone();
    updated.metadata.labels = Some(labels);
    updated.metadata.annotations = Some(annotations);
    updated.metadata.managed_fields = None;
    updated.subsets = Some(subsets);
    Plan::Update(Box::new(updated))
}

fn labels(service: &Service, spec: &ServiceSpec) -> Labels {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    if is_headless(spec) {
        labels.insert(HEADLESS.into(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels.insert(MANAGED_BY.into(), CONTROLLER.into());
    labels
}

/// A port as a key: name, number, protocol, application protocol.
type PortKey = (String, i32, String, Option<String>);
/// Positions of pods, ready and not.
type Members = (Vec<usize>, Vec<usize>);

fn subsets(service: &Service, spec: &ServiceSpec, pods: &[&Pod]) -> Vec<EndpointSubset> {
    let publish = spec.publish_not_ready_addresses == Some(true);
    let ipv6 = spec.ip_families.iter().flatten().next().is_some_and(|family| family == "IPv6");
    let mut members: Vec<(&Pod, EndpointAddress)> = pods
        .iter()
        .filter(|pod| service::has_endpoint(pod, publish))
        .filter_map(|pod| {
            Some((*pod, address(service, pod, service::addresses(pod, ipv6).into_iter().next()?)))
        })
        .collect();
    members.sort_by(|(_, a), (_, b)| a.ip.cmp(&b.ip));
    let mut by_port = BTreeMap::<Option<PortKey>, Members>::new();
    for (index, (pod, _)) in members.iter().enumerate() {
        let mut note = |port| {
            let (ready, not_ready) = by_port.entry(port).or_default();
            if publish || is_ready(pod) { ready.push(index) } else { not_ready.push(index) }
        };
        let ports = spec.ports.as_deref().unwrap_or_default();
        if ports.is_empty() && is_headless(spec) {
            note(None);
        }
        for port in ports {
            if let Some(number) = service::target_port(pod, port) {
                let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
                note(Some((
                    port.name.clone().unwrap_or_default(),
                    number,
                    protocol,
                    port.app_protocol.clone(),
                )));
            }
        }
    }
    // Ports with the same members make one subset.
    let mut by_members = BTreeMap::<Members, Vec<PortKey>>::new();
    for (port, members) in by_port {
        by_members.entry(members).or_default().extend(port);
    }
    let pick = |indexes: &[usize]| {
        let list: Vec<EndpointAddress> = indexes.iter().map(|index| members[*index].1.clone()).collect();
        Some(list).filter(|list| !list.is_empty())
    };
    let subset = |((ready, not_ready), ports): (&Members, &Vec<PortKey>)| EndpointSubset {
        addresses: pick(ready),
        not_ready_addresses: pick(not_ready),
        ports: Some(ports.iter().map(endpoint_port).collect::<Vec<_>>()).filter(|ports| !ports.is_empty()),
    };
    by_members.iter().map(subset).collect()
}

fn endpoint_port((name, port, protocol, app_protocol): &PortKey) -> EndpointPort {
    EndpointPort {
        name: Some(name.clone()).filter(|name| !name.is_empty()),
        port: *port,
        protocol: Some(protocol.clone()),
        app_protocol: app_protocol.clone(),
    }
}

fn address(service: &Service, pod: &Pod, ip: String) -> EndpointAddress {
    EndpointAddress {
        ip,
        hostname: service::hostname(pod, service),
        node_name: Some(node_name(pod).to_owned()).filter(|name| !name.is_empty()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..Default::default()
        }),
    }
}

/// Cuts to the capacity: each subset keeps its share, ready addresses before others.
fn truncate(mut subsets: Vec<EndpointSubset>) -> (Vec<EndpointSubset>, bool) {
    let count = |list: &Option<Vec<EndpointAddress>>| list.as_ref().map_or(0, Vec::len);
    let mut left = CAPACITY;
    let mut cut = false;
    for ready in [true, false] {
        for subset in &mut subsets {
            let list = if ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
            let kept = count(list).min(left);
            left -= kept;
            cut |= kept < count(list);
            if let Some(addresses) = list {
                addresses.truncate(kept);
            }
            list.take_if(|addresses| addresses.is_empty());
        }
    }
    subsets.retain(|subset| subset.addresses.is_some() || subset.not_ready_addresses.is_some());
    (subsets, cut)
}

/// Equal whatever the order of subsets, addresses and ports.
fn same_subsets(a: &[EndpointSubset], b: &[EndpointSubset]) -> bool {
    canonical(a) == canonical(b)
}

fn canonical(subsets: &[EndpointSubset]) -> Vec<String> {
    let sorted = |list: &Option<Vec<EndpointAddress>>| {
        let mut lines: Vec<String> = list
            .iter()
            .flatten()
            .map(|address| {
                let target = address.target_ref.as_ref();
                let uid = target.and_then(|target| target.uid.as_deref()).unwrap_or_default();
                let (node, hostname) = (address.node_name.as_deref(), address.hostname.as_deref());
                format!("{} {uid} {} {}", address.ip, node.unwrap_or_default(), hostname.unwrap_or_default())
            })
            .collect();
        lines.sort_unstable();
        lines
    };
    let mut all: Vec<String> = subsets
        .iter()
        .map(|subset| {
            let mut ports: Vec<String> =
                subset.ports.iter().flatten().map(|port| format!("{port:?}")).collect();
            ports.sort_unstable();
            format!("{ports:?} {:?} {:?}", sorted(&subset.addresses), sorted(&subset.not_ready_addresses))
        })
        .collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpointslice::tests::{pod, service as service_of};

    fn run(service: &Service, pods: &[Pod], present: Option<&Endpoints>) -> Plan {
        plan(service, &pods.iter().collect::<Vec<_>>(), present)
    }

    fn created(plan: Plan) -> Endpoints {
        let Plan::Create(endpoints) = plan else { panic!("{plan:?}") };
        *endpoints
    }

    /// Ports, ready and unready addresses of each subset.
    fn shape(endpoints: &Endpoints) -> Vec<(Vec<i32>, usize, usize)> {
        let count = |list: &Option<Vec<EndpointAddress>>| list.as_ref().map_or(0, Vec::len);
        let of = |subset: &EndpointSubset| {
            let ports = subset.ports.iter().flatten().map(|port| port.port).collect();
            (ports, count(&subset.addresses), count(&subset.not_ready_addresses))
        };
        endpoints.subsets.iter().flatten().map(of).collect()
    }

    #[test]
    fn addresses_with_the_same_ports_share_a_subset() {
        let service = service_of(&[("http", 80, "http"), ("metrics", 90, "9000")]);
        let endpoints = created(run(&service, &[pod(0, true, 8080), pod(1, false, 8080)], None));
        assert_eq!(shape(&endpoints), [(vec![8080, 9000], 1, 1)]);
        let mut shapes = shape(&created(run(&service, &[pod(0, true, 8080), pod(1, true, 7070)], None)));
        shapes.sort();
        assert_eq!(shapes, [(vec![7070], 1, 0), (vec![8080], 1, 0), (vec![9000], 2, 0)]);
        assert_eq!(endpoints.metadata.labels.as_ref().unwrap()[MANAGED_BY], CONTROLLER);
    }

    #[test]
    fn nothing_is_written_when_nothing_changed() {
        let service = service_of(&[("http", 80, "8080")]);
        let pods = [pod(0, true, 80), pod(1, true, 80)];
        let endpoints = created(run(&service, &pods, None));
        assert_eq!(run(&service, &pods, Some(&endpoints)), Plan::Nothing);
        let mut shuffled = endpoints.clone();
        shuffled.subsets.as_mut().unwrap()[0].addresses.as_mut().unwrap().reverse();
        assert_eq!(run(&service, &pods, Some(&shuffled)), Plan::Nothing);
        assert!(matches!(run(&service, &pods[..1], Some(&endpoints)), Plan::Update(_)));
        let empty = created(run(&service, &[], None));
        assert_eq!((empty.subsets.clone(), run(&service, &[], Some(&empty))), (None, Plan::Nothing));
    }

    #[test]
    fn a_headless_service_without_ports_lists_addresses() {
        let mut service = service_of(&[]);
        service.spec.as_mut().unwrap().cluster_ip = Some("None".into());
        let endpoints = created(run(&service, &[pod(0, true, 80)], None));
        assert_eq!(shape(&endpoints), [(vec![], 1, 0)]);
        assert!(endpoints.metadata.labels.unwrap().contains_key(HEADLESS));
    }

    #[test]
    fn a_thousand_addresses_are_enough() {
        let service = service_of(&[("http", 80, "8080")]);
        let pods: Vec<Pod> = (0..1100).map(|number| pod(number, number >= 300, 80)).collect();
        let endpoints = created(run(&service, &pods, None));
        assert_eq!(shape(&endpoints), [(vec![8080], 800, 200)]);
        assert_eq!(endpoints.metadata.annotations.unwrap()[OVER_CAPACITY], "truncated");
    }
}
