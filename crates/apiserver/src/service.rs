//! Resolution of Services to endpoints.

use serde_json::Value;
use setpoint_store::Snapshot;

use crate::dial::{Endpoint, Pod};
use crate::{entry, key};

/// The reason why no endpoint of a Service can be dialled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("service \"{0}\" not found")]
    UnknownService(String),
    #[error("no service port {port} found for service \"{name}\"")]
    UnknownPort { name: String, port: u16 },
    #[error("no endpoints available for service \"{0}\"")]
    Unready(String),
}

/// The endpoint behind a port of a Service. No cluster IP carries traffic here, so the server picks an endpoint
/// itself.
pub(crate) fn resolve(
    snapshot: &Snapshot,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Endpoint, ResolveError> {
    let found = snapshot.get(&key::object("", "services", namespace, name));
    let service = entry::value(&*found.ok_or_else(|| ResolveError::UnknownService(name.to_owned()))?);
    if service["spec"]["type"] == "ExternalName" {
        let host = service["spec"]["externalName"].as_str().unwrap_or("");
        return Ok(Endpoint { host: host.to_owned(), port, pod: None });
    }
    let wanted = port_name(&service, port.into());
    let wanted = wanted.ok_or_else(|| ResolveError::UnknownPort { name: name.to_owned(), port })?;
    let first = ready(snapshot, namespace, name, wanted).into_iter().next();
    let first = first.ok_or_else(|| ResolveError::Unready(name.to_owned()))?;
    let is_known = |pod: &Pod| snapshot.get(&key::object("", "pods", namespace, &pod.name)).is_some();
    let pod = match &first.pod {
        Some(pod) if pod.namespace == namespace && !is_known(pod) => first.pod.clone(),
        _ => pod_behind(snapshot, namespace, &first),
    };
    Ok(Endpoint { pod, ..first })
}

/// The pod that an endpoint names, if the address really is the pod's. A user who may write endpoints also writes
/// `targetRef`, and a connection follows it past the address to the node of the pod.
pub(crate) fn pod_behind(snapshot: &Snapshot, namespace: &str, endpoint: &Endpoint) -> Option<Pod> {
    let named = endpoint.pod.as_ref().filter(|pod| pod.namespace == namespace)?;
    let pod = entry::value(&*snapshot.get(&key::object("", "pods", namespace, &named.name))?);
    let status = pod.get("status")?;
    let mut addresses = status["podIPs"].as_array().into_iter().flatten().map(|address| text(address, "ip"));
    let is_its_own = text(status, "podIP") == endpoint.host || addresses.any(|own| own == endpoint.host);
    is_its_own.then(|| named.clone())
}

/// The name of the port with this number; a lone port may have an empty one.
pub(crate) fn port_name(service: &Value, number: i64) -> Option<&str> {
    let mut ports = service["spec"]["ports"].as_array()?.iter();
    ports.find(|port| port["port"] == number).map(|port| text(port, "name"))
}

/// The ready endpoints of a Service behind the port of this name. Their pods are unchecked: see [`pod_behind`].
pub(crate) fn ready(snapshot: &Snapshot, namespace: &str, name: &str, port: &str) -> Vec<Endpoint> {
    let endpoints = snapshot.get(&key::object("", "endpoints", namespace, name));
    let endpoints = endpoints.map(|entry| entry::value(&entry)).unwrap_or_default();
    let mut found = Vec::new();
    for subset in endpoints["subsets"].as_array().into_iter().flatten() {
        let mut ports = subset["ports"].as_array().into_iter().flatten();
        let number = ports.find(|own| text(own, "name") == port).and_then(|own| own["port"].as_u64());
        let Some(port) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
        for address in subset["addresses"].as_array().into_iter().flatten() {
            let target = address.get("targetRef").filter(|target| target["kind"] == "Pod");
            let pod = target.map(|target| Pod {
                namespace: text(target, "namespace").to_owned(),
                name: text(target, "name").to_owned(),
            });
            found.push(Endpoint { host: text(address, "ip").to_owned(), port, pod });
        }
    }
    found
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}
