//! Where a Service leads.

use serde_json::Value;
use setpoint_store::Snapshot;

use crate::registry::{self, key};

/// Where a webhook listens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    /// The pod behind the address.
    pub(super) pod: Option<Pod>,
}

/// A pod by its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What stands behind a port of a Service. No cluster IP carries traffic here, so it is one of the endpoints.
pub(super) fn resolve(
    snapshot: &Snapshot,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Endpoint, String> {
    let found = snapshot.get(&key::object("", "services", namespace, name));
    let service = registry::value(&*found.ok_or_else(|| format!("service \"{name}\" not found"))?);
    if service["spec"]["type"] == "ExternalName" {
        let host = service["spec"]["externalName"].as_str().unwrap_or("");
        return Ok(Endpoint { host: host.to_owned(), port, pod: None });
    }
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let wanted = ports.clone().find(|own| own["port"] == port);
    let wanted = wanted.ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
    let endpoints = snapshot.get(&key::object("", "endpoints", namespace, name));
    let endpoints = endpoints.map(|entry| registry::value(&entry)).unwrap_or_default();
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    let mut ready = subsets.filter_map(|subset| {
        let named = |own: &&Value| text(own, "name") == text(wanted, "name");
        let port = subset["ports"].as_array()?.iter().find(named)?["port"].as_u64()?;
        let address = subset["addresses"].as_array()?.first()?;
        let target = address.get("targetRef").filter(|target| target["kind"] == "Pod");
        let pod = target.map(|target| Pod {
            namespace: text(target, "namespace").to_owned(),
            name: text(target, "name").to_owned(),
        });
        Some(Endpoint { host: address["ip"].as_str()?.to_owned(), port: u16::try_from(port).ok()?, pod })
    });
    ready.next().ok_or_else(|| format!("no endpoints available for service \"{name}\""))
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}
