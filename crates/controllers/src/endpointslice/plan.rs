//! Which slices to create, change and delete so that together they list the endpoints, moving as few as possible.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::desired::{self, PortKey};
use super::{CONTROLLER, MANAGED_BY, SERVICE_NAME};
use crate::children::claim::controller_reference;
use crate::object::field::{Field, endpoints, endpoints_mut};
use crate::object::selector::Labels;
use crate::service::{HEADLESS, is_headless};

/// The most endpoints in a slice.
pub const CAPACITY: usize = 100;

/// The writes.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub create: Vec<EndpointSlice>,
    pub update: Vec<EndpointSlice>,
    /// Names.
    pub delete: Vec<String>,
}

/// Decides. `slices` are those of this Service that this controller keeps.
pub fn plan(
    service: &Service,
    pods: &[&Pod],
    slices: &[&EndpointSlice],
    node: impl Fn(&str) -> Option<Arc<Node>>,
) -> Plan {
    let mut plan = Plan::default();
    let Some(spec) = &service.spec else { return plan };
    let types = desired::address_types(spec);
    for address_type in &types {
        let wanted = desired::endpoints(service, pods, &node, address_type);
        let present: Vec<&EndpointSlice> =
            slices.iter().copied().filter(|slice| slice.address_type == *address_type).collect();
        of_family(service, address_type, wanted, &present, &mut plan);
    }
    let strays = slices.iter().filter(|slice| !types.contains(&slice.address_type.as_str()));
    plan.delete.extend(strays.filter_map(|slice| slice.metadata.name.clone()));
    plan
}

fn of_family(
    service: &Service,
    address_type: &str,
    mut wanted: BTreeMap<PortKey, Vec<Endpoint>>,
    present: &[&EndpointSlice],
    plan: &mut Plan,
) {
    // An empty slice tells clients that there are no endpoints. A missing slice means that no controller has looked
    // yet.
    if wanted.is_empty() {
        wanted.insert(PortKey::new(), Vec::new());
    }
    for (key, endpoints) in &wanted {
        let empty_kept = endpoints.is_empty();
        let of_key =
            |slice: &&&EndpointSlice| desired::port_key(slice.ports.as_deref().unwrap_or_default()) == *key;
        let slices: Vec<&EndpointSlice> = present.iter().filter(of_key).copied().collect();
        if empty_kept {
            placeholder(service, address_type, &slices, plan);
        } else {
            fill(service, address_type, key, endpoints.clone(), &slices, plan);
        }
    }
    let lost = present
        .iter()
        .filter(|slice| !wanted.contains_key(&desired::port_key(slice.ports.as_deref().unwrap_or_default())));
    plan.delete.extend(lost.filter_map(|slice| slice.metadata.name.clone()));
}

/// Keeps exactly one empty slice.
fn placeholder(service: &Service, address_type: &str, slices: &[&EndpointSlice], plan: &mut Plan) {
    let is_empty = |slice: &&EndpointSlice| endpoints(slice).is_empty();
    let kept = slices.iter().copied().find(is_empty);
    match kept {
        None => plan.create.push(new_slice(service, address_type, &PortKey::new(), Vec::new())),
        Some(slice) if !labels_right(slice, service) => {
            plan.update.push(changed(slice, service, endpoints(slice).to_vec()));
        }
        Some(_) => {}
    }
    let kept = kept.and_then(|slice| slice.metadata.name.as_ref());
    let rest =
        slices.iter().filter_map(|slice| slice.metadata.name.as_ref()).filter(|name| Some(*name) != kept);
    plan.delete.extend(rest.cloned());
}

fn fill(
    service: &Service,
    address_type: &str,
    key: &PortKey,
    mut wanted: Vec<Endpoint>,
    slices: &[&EndpointSlice],
    plan: &mut Plan,
) {
    let mut updated: Vec<EndpointSlice> = Vec::new();
    let mut unchanged: Vec<&EndpointSlice> = Vec::new();
    for slice in slices {
        let before = endpoints(slice);
        let kept: Vec<Endpoint> =
            before.iter().filter_map(|endpoint| take_same(&mut wanted, endpoint)).collect();
        if kept.is_empty() {
            plan.delete.extend(slice.metadata.name.clone());
        } else if !same_endpoints(&kept, before) || !labels_right(slice, service) {
            updated.push(changed(slice, service, kept));
        } else {
            unchanged.push(slice);
        }
    }
    // Slices that are written anyway take the new endpoints first, the fullest first.
    updated.sort_by_key(|slice| std::cmp::Reverse(endpoints(slice).len()));
    for slice in &mut updated {
        let endpoints = endpoints_mut(slice);
        let room = CAPACITY.saturating_sub(endpoints.len()).min(wanted.len());
        endpoints.extend(wanted.drain(..room));
    }
    while !wanted.is_empty() {
        let room_for_all = |slice: &&&EndpointSlice| endpoints(slice).len() + wanted.len() <= CAPACITY;
        let fullest = unchanged.iter().filter(room_for_all).max_by_key(|slice| endpoints(slice).len());
        if let Some(slice) = fullest {
            let mut endpoints = endpoints(slice).to_vec();
            endpoints.append(&mut wanted);
            updated.push(changed(slice, service, endpoints));
        } else {
            let rest = wanted.split_off(wanted.len().min(CAPACITY));
            plan.create.push(new_slice(service, address_type, key, std::mem::replace(&mut wanted, rest)));
        }
    }
    plan.update.append(&mut updated);
}

/// Removes and returns the wanted endpoint with the same pod and addresses.
fn take_same(wanted: &mut Vec<Endpoint>, present: &Endpoint) -> Option<Endpoint> {
    let uid = |endpoint: &Endpoint| endpoint.target_ref.as_ref().and_then(|target| target.uid.clone());
    let same = |endpoint: &Endpoint| endpoint.addresses == present.addresses && uid(endpoint) == uid(present);
    let position = wanted.iter().position(same)?;
    Some(wanted.remove(position))
}

/// Equal as far as this controller writes endpoints; hints are others' business and travel along.
fn same_endpoints(kept: &[Endpoint], before: &[Endpoint]) -> bool {
    let plain = |endpoint: &Endpoint| Endpoint { hints: None, deprecated_topology: None, ..endpoint.clone() };
    kept.len() == before.len() && kept.iter().zip(before).all(|(a, b)| plain(a) == plain(b))
}

fn labels(service: &Service) -> Labels {
    let reserved = |key: &str| [SERVICE_NAME, MANAGED_BY, HEADLESS].contains(&key);
    let own = service.metadata.labels.iter().flatten().filter(|(key, _)| !reserved(key));
    let mut labels: Labels = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    if service.spec.as_ref().is_none_or(is_headless) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(SERVICE_NAME.into(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY.into(), CONTROLLER.into());
    labels
}

fn labels_right(slice: &EndpointSlice, service: &Service) -> bool {
    slice.metadata.labels.as_ref() == Some(&labels(service))
}

fn changed(slice: &EndpointSlice, service: &Service, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let mut changed = slice.clone();
    changed.metadata.labels = Some(labels(service));
    changed.metadata.managed_fields = None;
    changed.endpoints = Field::with(endpoints);
    changed
}

fn new_slice(
    service: &Service,
    address_type: &str,
    key: &PortKey,
    endpoints: Vec<Endpoint>,
) -> EndpointSlice {
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", service.metadata.name.as_deref().unwrap_or_default())),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels(service)),
            owner_references: Some(vec![controller_reference("v1", "Service", &service.metadata)]),
            ..Default::default()
        },
        address_type: address_type.to_owned(),
        ports: Some(desired::ports(key)),
        endpoints: Field::with(endpoints),
    }
}
