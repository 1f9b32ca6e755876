//! Decides which slices show the addresses of an Endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointPort as SlicePort, EndpointSlice,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::CONTROLLER;
use crate::children::claim::controller_reference;
use crate::endpointslice::{MANAGED_BY, Plan, PortKey, SERVICE_NAME, port_key, ports};
use crate::object::field::{Field, endpoints};
use crate::object::selector::Labels;

/// The most addresses of a subset that are mirrored.
pub const CAPACITY: usize = 1000;

/// Says on an Endpoints that it is not to be mirrored.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The record of a leader election, which old clients keep in Endpoints.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are about the Endpoints and not about its addresses.
const NOT_MIRRORED: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

/// The slices to write, and the addresses that found no room.
#[derive(Debug, Default, PartialEq)]
pub struct Mirrored {
    pub plan: Plan,
    /// Number of addresses beyond [`CAPACITY`].
    pub skipped: usize,
}

/// Whether an Endpoints is for readers of its addresses.
fn should_mirror(mirrored: &Endpoints) -> bool {
    let is_set = |map: &Option<Labels>, key: &str| map.as_ref().and_then(|map| map.get(key)).cloned();
    is_set(&mirrored.metadata.labels, SKIP_MIRROR).as_deref() != Some("true")
        && is_set(&mirrored.metadata.annotations, LEADER).is_none()
}

/// Decides. `mirrored` is `None` if there is no Endpoints, or if its Service is gone or has a selector. `slices` are those
/// that this controller keeps.
pub fn plan(mirrored: Option<&Endpoints>, slices: &[&EndpointSlice]) -> Mirrored {
    let mut plan = Plan::default();
    let Some(mirrored) = mirrored.filter(|mirrored| should_mirror(mirrored)) else {
        plan.delete = names(slices).collect();
        return Mirrored { plan, skipped: 0 };
    };
    let (wanted, skipped) = wanted(mirrored);
    for ((kind, ports), group) in &wanted {
        let mut present: Vec<&EndpointSlice> =
            slices.iter().copied().filter(|slice| key_of(slice) == (*kind, ports.clone())).collect();
        present.sort_by_key(|slice| slice.metadata.name.clone());
        let new = slice(mirrored, kind, ports, group.clone());
        match present.split_first() {
            None if mirrored.metadata.deletion_timestamp.is_none() => plan.create.push(new),
            None => {}
            Some((kept, rest)) => {
                plan.delete.extend(names(rest));
                if !is_same(kept, &new) {
                    plan.update.push(changed(kept, new));
                }
            }
        }
    }
    let lost: Vec<&EndpointSlice> =
        slices.iter().copied().filter(|slice| !wanted.contains_key(&key_of(slice))).collect();
    plan.delete.extend(names(&lost));
    Mirrored { plan, skipped }
}

fn names(slices: &[&EndpointSlice]) -> impl Iterator<Item = String> {
    slices.iter().filter_map(|slice| slice.metadata.name.clone())
}

fn family(address_type: &str) -> &'static str {
    if address_type == "IPv6" { "IPv6" } else { "IPv4" }
}

fn key_of(slice: &EndpointSlice) -> (&'static str, PortKey) {
    (family(&slice.address_type), port_key(slice.ports.as_deref().unwrap_or_default()))
}

type Wanted = BTreeMap<(&'static str, PortKey), Vec<Endpoint>>;

/// The endpoints by family and ports, in order of address, and the number of addresses without room.
fn wanted(mirrored: &Endpoints) -> (Wanted, usize) {
    let mut groups = Wanted::new();
    let mut skipped = 0;
    for subset in mirrored.subsets.iter().flatten() {
        let ports = port_key(&subset.ports.iter().flatten().map(slice_port).collect::<Vec<_>>());
        let all: Vec<(&EndpointAddress, bool)> = addresses(subset).collect();
        skipped += all.len().saturating_sub(CAPACITY);
        for (address, ready) in all.into_iter().take(CAPACITY) {
            let Ok(ip) = address.ip.parse::<IpAddr>() else { continue };
            let kind = if ip.is_ipv6() { "IPv6" } else { "IPv4" };
            let group = groups.entry((kind, ports.clone())).or_default();
            let new = endpoint(ip, address, ready);
            if !group
                .iter()
                .any(|known| known.addresses == new.addresses && known.target_ref == new.target_ref)
            {
                group.push(new);
            }
        }
    }
    for group in groups.values_mut() {
        group.sort_by(|a, b| a.addresses.cmp(&b.addresses));
    }
    (groups, skipped)
}

/// The addresses of a subset with whether they are ready, the ready ones first.
fn addresses(subset: &EndpointSubset) -> impl Iterator<Item = (&EndpointAddress, bool)> {
    let ready = subset.addresses.iter().flatten().map(|address| (address, true));
    ready.chain(subset.not_ready_addresses.iter().flatten().map(|address| (address, false)))
}

fn slice_port(port: &EndpointPort) -> SlicePort {
    SlicePort {
        name: Some(port.name.clone().unwrap_or_default()),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".into())),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}

fn endpoint(ip: IpAddr, address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..Default::default() }),
        hostname: address.hostname.clone().filter(|hostname| !hostname.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Default::default()
    }
}

fn slice(mirrored: &Endpoints, kind: &str, key: &PortKey, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let name = mirrored.metadata.name.clone().unwrap_or_default();
    let mut labels = mirrored.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.into(), name.clone());
    labels.insert(MANAGED_BY.into(), CONTROLLER.into());
    let mut annotations = mirrored.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !NOT_MIRRORED.contains(&key.as_str()));
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: mirrored.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![controller_reference("v1", "Endpoints", &mirrored.metadata)]),
            ..Default::default()
        },
        address_type: kind.to_owned(),
        ports: Some(ports(key)),
        endpoints: Field::with(endpoints),
    }
}

fn is_same(kept: &EndpointSlice, new: &EndpointSlice) -> bool {
    let annotations = kept.metadata.annotations.clone().filter(|annotations| !annotations.is_empty());
    kept.metadata.labels == new.metadata.labels
        && annotations == new.metadata.annotations
        && endpoints(kept) == endpoints(new)
}

fn changed(kept: &EndpointSlice, new: EndpointSlice) -> EndpointSlice {
    let mut changed = kept.clone();
    changed.metadata.labels = new.metadata.labels;
    changed.metadata.annotations = new.metadata.annotations;
    changed.metadata.owner_references = new.metadata.owner_references;
    changed.metadata.managed_fields = None;
    changed.endpoints = new.endpoints;
    changed
}
