//! The endpoints a Service should have, grouped by the ports they share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};

use crate::object::pod::{is_ready, node_name};
use crate::service;

/// Ports as a key: name, protocol, number, application protocol.
pub type PortKey = Vec<(String, String, i32, Option<String>)>;

/// The key of a slice's ports, whatever their order.
pub fn port_key(ports: &[EndpointPort]) -> PortKey {
    let mut key: PortKey = ports
        .iter()
        .map(|port| {
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
            (
                port.name.clone().unwrap_or_default(),
                protocol,
                port.port.unwrap_or(0),
                port.app_protocol.clone(),
            )
        })
        .collect();
    key.sort();
    key
}

/// The ports of a key, as a slice has them.
pub fn ports(key: &PortKey) -> Vec<EndpointPort> {
    let port =
        |(name, protocol, number, app_protocol): &(String, String, i32, Option<String>)| EndpointPort {
            name: Some(name.clone()),
            protocol: Some(protocol.clone()),
            port: Some(*number),
            app_protocol: app_protocol.clone(),
        };
    key.iter().map(port).collect()
}

/// The families of addresses that the Service has slices for.
pub fn address_types(spec: &ServiceSpec) -> Vec<&'static str> {
    let families = spec.ip_families.as_deref().unwrap_or_default();
    let mut types: Vec<_> =
        families.iter().map(|family| if family == "IPv6" { "IPv6" } else { "IPv4" }).collect();
    if types.is_empty() {
        types.push(if spec.cluster_ip.as_deref().is_some_and(|ip| ip.contains(':')) {
            "IPv6"
        } else {
            "IPv4"
        });
    }
    types
}

/// Endpoints of one family by their ports, in order of address.
pub fn endpoints(
    service: &Service,
    pods: &[&Pod],
    node: impl Fn(&str) -> Option<std::sync::Arc<Node>>,
    address_type: &str,
) -> BTreeMap<PortKey, Vec<Endpoint>> {
    let mut groups = BTreeMap::<PortKey, Vec<Endpoint>>::new();
    let Some(spec) = &service.spec else { return groups };
    for pod in pods.iter().filter(|pod| service::has_endpoint(pod, true)) {
        let addresses = service::addresses(pod, address_type == "IPv6");
        if addresses.is_empty() {
            continue;
        }
        let found = spec.ports.iter().flatten().filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".into())),
                port: Some(service::target_port(pod, port)?),
                app_protocol: port.app_protocol.clone(),
            })
        });
        let key = port_key(&found.collect::<Vec<_>>());
        let zone = node(node_name(pod)).and_then(|node| node.metadata.labels.as_ref()?.get(ZONE).cloned());
        groups.entry(key).or_default().push(endpoint(service, spec, pod, addresses, zone));
    }
    for group in groups.values_mut() {
        group.sort_by(|a, b| a.addresses.cmp(&b.addresses));
    }
    groups
}

const ZONE: &str = "topology.kubernetes.io/zone";

fn endpoint(
    service: &Service,
    spec: &ServiceSpec,
    pod: &Pod,
    addresses: Vec<String>,
    zone: Option<String>,
) -> Endpoint {
    let (serving, terminating) = (is_ready(pod), pod.metadata.deletion_timestamp.is_some());
    // A pod on its way out is not ready for new connections, unless the Service says it wants everybody.
    let ready = spec.publish_not_ready_addresses == Some(true) || (serving && !terminating);
    Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: service::hostname(pod, service),
        node_name: Some(node_name(pod).to_owned()).filter(|name| !name.is_empty()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..Default::default()
        }),
        zone: zone.filter(|zone| !zone.is_empty()),
        ..Default::default()
    }
}
