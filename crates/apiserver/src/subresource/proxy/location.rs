//! The target of a proxied request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;
use setpoint_api::Random;
use setpoint_store::Snapshot;

use crate::dial::{Endpoint, Pod};
use crate::error::{ApiError, Result};
use crate::registry::{self, Resource};
use crate::service;

/// The name in the path: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    pub name: &'a str,
    /// A number, the name of a port, or empty.
    pub port: &'a str,
    pub tls: bool,
}

impl<'a> Wanted<'a> {
    /// Reads a name. `kind` is for the error.
    pub fn read(id: &'a str, kind: &str) -> Result<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            return Err(ApiError::bad_request(format!("invalid {kind} request \"{id}\"")));
        }
        Ok(Wanted { name, port, tls: scheme == "https" })
    }

    /// The number of a port that is no port of a Service.
    fn number(&self, named: &str) -> Result<u16> {
        match named {
            "" => Ok(if self.tls { 443 } else { 80 }),
            number => number
                .parse()
                .map_err(|_| unreachable(&format!("dial tcp: lookup tcp/{number}: unknown port"))),
        }
    }
}

/// Nobody answers there.
pub fn unreachable(why: &str) -> ApiError {
    ApiError::unavailable(format!("error trying to reach service: {why}"))
}

/// A port of a pod: the one asked for, or the first that the pod names.
pub fn of_pod(pod: &Value, namespace: &str, wanted: &Wanted<'_>) -> Result<Endpoint> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let first = containers
        .filter_map(|container| container.pointer("/ports/0/containerPort"))
        .find_map(Value::as_u64);
    let port = match (wanted.port, first) {
        ("", Some(first)) => first.to_string(),
        (port, _) => port.to_owned(),
    };
    let host = pod.pointer("/status/podIP").and_then(Value::as_str).unwrap_or("");
    check_address(host)?;
    let pod = Some(Pod { namespace: namespace.to_owned(), name: wanted.name.to_owned() });
    Ok(Endpoint { host: host.to_owned(), port: wanted.number(&port)?, pod })
}

/// One of the pods behind a port of a Service.
pub fn of_service(
    snapshot: &Snapshot,
    resource: &Resource,
    namespace: &str,
    wanted: &Wanted<'_>,
    random: &Random,
) -> Result<Endpoint> {
    let name = wanted.name;
    let mut port = wanted.port.to_owned();
    if let Ok(number) = port.parse::<i64>() {
        let found = snapshot.get(&resource.key(namespace, name));
        let service = registry::value(&*found.ok_or_else(|| ApiError::not_found(resource, name))?);
        let named = service::port_name(&service, number).ok_or_else(|| {
            ApiError::unavailable(format!("no service port {number} found for service \"{name}\""))
        })?;
        port = named.to_owned();
    }
    let mut found = service::ready(snapshot, namespace, name, &port);
    // Others may write endpoints too: only pods are behind a proxy, at addresses of theirs.
    while !found.is_empty() {
        let at = random.below(found.len() as u64);
        let endpoint = found.swap_remove(usize::try_from(at).unwrap_or(0));
        if let Some(pod) = service::pod_behind(snapshot, namespace, &endpoint)
            && check_address(&endpoint.host).is_ok()
        {
            return Ok(Endpoint { pod: Some(pod), ..endpoint });
        }
    }
    Err(ApiError::unavailable(format!("no endpoints available for service \"{name}\"")))
}

/// A port of a node beside its kubelet's.
pub fn of_node(address: &str, wanted: &Wanted<'_>) -> Result<Endpoint> {
    check_address(address)?;
    Ok(Endpoint { host: address.to_owned(), port: wanted.number(wanted.port)?, pod: None })
}

/// Nothing leads back to the host of the server.
fn check_address(address: &str) -> Result<()> {
    match address.parse() {
        Ok(address) if is_global(address) => Ok(()),
        _ => Err(ApiError::bad_request("address not allowed")),
    }
}

/// Whether an address is one of a host other than this, also where it is a form of an IPv4 address.
fn is_global(address: IpAddr) -> bool {
    let address = match address {
        IpAddr::V6(address) => embedded(address).map_or(IpAddr::V6(address), IpAddr::V4),
        address => address,
    };
    let is_special = match address {
        // The whole of 0.0.0.0/8 is this host, whichever address of it a kernel takes for itself.
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast() || address.octets()[0] == 0,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_special)
}

/// The IPv4 address that an IPv6 address stands for: mapped (`::ffff:0:0/96`), translated (`::ffff:0:0:0/96`),
/// compatible (`::/96`), behind a gateway (`64:ff9b::/96`), or in a tunnel (`2002::/16`).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // The unspecified address and the loopback address are their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_have_a_scheme_and_a_port_or_not() {
        for (id, expected) in [
            ("web", Some(("web", "", false))),
            ("web:80", Some(("web", "80", false))),
            ("https:web:", Some(("web", "", true))),
            ("http:web:main", Some(("web", "main", false))),
            ("ftp:web:1", None),
            (":80", None),
            ("a:b:c:d", None),
        ] {
            let read = Wanted::read(id, "pod");
            assert_eq!(read.ok().map(|wanted| (wanted.name, wanted.port, wanted.tls)), expected, "{id}");
        }
    }

    #[test]
    fn no_form_of_an_address_leads_to_the_host_of_the_server() {
        // Go's IsGlobalUnicast, which kube-apiserver asks, and the forms of IPv4 addresses that it does not know.
        for refused in [
            "",
            "localhost",
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "::ffff:0:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::169.254.169.254",
            "2002:7f00:1::",
            "127.1",
            "0x7f000001",
        ] {
            let error = check_address(refused).unwrap_err();
            assert_eq!(error.status().message, "address not allowed", "{refused}");
        }
        for allowed in
            ["10.244.0.9", "192.168.0.1", "203.0.113.9", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1"]
        {
            assert!(check_address(allowed).is_ok(), "{allowed}");
        }
    }

    #[test]
    fn a_pod_is_asked_at_the_port_that_is_named_first() {
        let pod = json!({ "spec": { "containers": [{}, { "ports": [{ "containerPort": 8080 }] }] },
            "status": { "podIP": "10.1.2.3" } });
        let port =
            |id: &str, pod: &Value| of_pod(pod, "ns", &Wanted::read(id, "pod")?).map(|found| found.port);
        assert_eq!(port("web", &pod).unwrap(), 8080);
        assert_eq!(port("web:9", &pod).unwrap(), 9);
        let bare = json!({ "status": { "podIP": "10.1.2.3" } });
        assert_eq!((port("web", &bare).unwrap(), port("https:web:", &bare).unwrap()), (80, 443));
        let said = |result: Result<u16>| result.unwrap_err().status().message.clone();
        assert_eq!(
            said(port("web:x", &pod)),
            "error trying to reach service: dial tcp: lookup tcp/x: unknown port"
        );
        assert_eq!(said(port("web", &json!({}))), "address not allowed");
        assert_eq!(said(port("web", &json!({ "status": { "podIP": "127.0.0.1" } }))), "address not allowed");
    }
}
