//! Reads Services: the pods that they select, and their addresses and ports.

pub mod trigger_time;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use setpoint::informer::Lister;
use setpoint::predicate::Change;
use setpoint::{Client, ClientError, Key, Object, Query};

use crate::object::pod::is_terminal;
use crate::object::selector::Labels;

/// Marks the endpoints of a Service without a cluster IP.
pub const HEADLESS: &str = "service.kubernetes.io/headless";

/// Returns the selector of a Service whose endpoints the controllers keep. A Service of type ExternalName has none,
/// nor does one whose endpoints another writer keeps.
pub fn managed_selector(service: &Service) -> Option<&Labels> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector.as_ref().filter(|selector| !selector.is_empty())
}

/// Whether the Service has no cluster IP.
pub fn is_headless(spec: &ServiceSpec) -> bool {
    matches!(spec.cluster_ip.as_deref(), None | Some("" | "None"))
}

/// Whether a pod belongs among endpoints at all.
pub fn has_endpoint(pod: &Pod, include_terminating: bool) -> bool {
    let status = pod.status.as_ref();
    let has_ip = status.is_some_and(|status| {
        status.pod_ip.as_ref().is_some_and(|ip| !ip.is_empty())
            || status.pod_ips.as_ref().is_some_and(|ips| !ips.is_empty())
    });
    !is_terminal(pod) && has_ip && (include_terminating || pod.metadata.deletion_timestamp.is_none())
}

/// The pod's addresses of one family, in canonical form.
pub fn addresses(pod: &Pod, ipv6: bool) -> Vec<String> {
    let Some(status) = &pod.status else { return Vec::new() };
    let mut all: Vec<&str> = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect();
    if all.is_empty() {
        all.extend(status.pod_ip.as_deref());
    }
    let of_family =
        all.into_iter().filter_map(|text| text.parse::<IpAddr>().ok()).filter(|ip| ip.is_ipv6() == ipv6);
    of_family.map(|ip| ip.to_string()).collect()
}

/// The port of the pod to which a Service's port leads; a name is looked up among its containers and sidecars.
pub fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(0)) => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let is_sidecar = |policy: &Option<String>| policy.as_deref() == Some("Always");
    let sidecars =
        spec.init_containers.iter().flatten().filter(|container| is_sidecar(&container.restart_policy));
    let protocol = |protocol: &Option<String>| protocol.as_deref().unwrap_or("TCP").to_owned();
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .find(|found| {
            found.name.as_ref() == Some(name) && protocol(&found.protocol) == protocol(&port.protocol)
        })
        .map(|found| found.container_port)
}

/// The host name under which the Service's DNS would know the pod.
pub fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let named =
        spec.subdomain == service.metadata.name && pod.metadata.namespace == service.metadata.namespace;
    spec.hostname.clone().filter(|name| named && !name.is_empty())
}

/// The pods that a selector finds in a namespace.
pub async fn pods(client: &Client, namespace: &str, selector: &Labels) -> Result<Vec<Arc<Pod>>, ClientError> {
    let pairs: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    client.list::<Pod>(Query::namespace(namespace).labels(&pairs.join(","))?).await
}

/// The Services that select a pod, or selected it before its labels changed.
pub fn of_pod(change: &Change<'_>, services: &Lister<Service>) -> Vec<Key> {
    let Some(pod) = change.object() else { return Vec::new() };
    let namespace = pod.namespace().unwrap_or_default();
    let all = services.list_namespace(namespace).unwrap_or_default();
    let mut names = BTreeSet::new();
    for object in change.objects() {
        let selecting = all.iter().filter(|service| selects_object(service, object));
        names.extend(selecting.filter_map(|service| service.metadata.name.clone()));
    }
    names.iter().map(|name| Key::namespaced(namespace, name)).collect()
}

fn selects_object(service: &Service, pod: &Object) -> bool {
    let has = |(key, value): (&String, &String)| pod.labels().get(key) == Some(value.as_str());
    managed_selector(service).is_some_and(|selector| selector.iter().all(has))
}
