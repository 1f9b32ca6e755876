//! Variables by which containers find Services: one host and port each, and the variables of docker's old links.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};

/// The namespace of the Service that every container finds.
pub const MASTER_NAMESPACE: &str = "default";
/// The Service that every container finds: the API server.
pub const MASTER: &str = "kubernetes";

/// The variables of a pod's containers. `near` are the Services of its namespace, `master` is the API server's.
pub fn variables<'a>(
    pod: &Pod,
    near: impl IntoIterator<Item = &'a Service>,
    master: Option<&'a Service>,
) -> BTreeMap<String, String> {
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let mut variables = BTreeMap::new();
    let near = near.into_iter().filter(|_| links);
    for service in master.into_iter().chain(near) {
        add(service, &mut variables);
    }
    variables
}

fn add(service: &Service, variables: &mut BTreeMap<String, String>) {
    let Some(spec) = &service.spec else { return };
    let address = spec.cluster_ip.as_deref().unwrap_or_default();
    let ports = spec.ports.as_deref().unwrap_or_default();
    let Some(first) = ports.first() else { return };
    if matches!(address, "" | "None") {
        return;
    }
    let prefix = variable_name(service.metadata.name.as_deref().unwrap_or_default());
    let mut set = |name: String, value: String| drop(variables.insert(name, value));
    set(format!("{prefix}_SERVICE_HOST"), address.to_owned());
    set(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    set(format!("{prefix}_PORT"), url(address, first));
    for port in ports {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            set(format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), port.port.to_string());
        }
        let link = format!("{prefix}_PORT_{}_{}", port.port, protocol(port));
        set(format!("{link}_PROTO"), protocol(port).to_lowercase());
        set(format!("{link}_PORT"), port.port.to_string());
        set(format!("{link}_ADDR"), address.to_owned());
        set(link, url(address, port));
    }
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP")
}

fn url(address: &str, port: &ServicePort) -> String {
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    format!("{}://{host}:{}", protocol(port).to_lowercase(), port.port)
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(name: &str, address: &str, ports: Value) -> Service {
        let spec = json!({ "clusterIP": address, "ports": ports });
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
    }

    fn pod(links: Option<bool>) -> Pod {
        serde_json::from_value(json!({ "spec": { "containers": [], "enableServiceLinks": links } })).unwrap()
    }

    #[test]
    fn each_service_is_a_host_its_ports_and_dockers_links() {
        let ports =
            json!([{ "port": 80, "name": "web-ui" }, { "port": 53, "protocol": "UDP", "name": "dns" }]);
        let services = [
            service("my-app", "10.96.0.9", ports),
            service("six", "fd00::1", json!([{ "port": 8080 }])),
            service("headless", "None", json!([{ "port": 1 }])),
            service("outside", "", json!([{ "port": 1 }])),
        ];
        let lines = |variables: BTreeMap<String, String>| -> Vec<String> {
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        let found = lines(variables(&pod(Some(true)), &services, None));
        assert_eq!(
            found,
            [
                "MY_APP_PORT=tcp://10.96.0.9:80",
                "MY_APP_PORT_53_UDP=udp://10.96.0.9:53",
                "MY_APP_PORT_53_UDP_ADDR=10.96.0.9",
                "MY_APP_PORT_53_UDP_PORT=53",
                "MY_APP_PORT_53_UDP_PROTO=udp",
                "MY_APP_PORT_80_TCP=tcp://10.96.0.9:80",
                "MY_APP_PORT_80_TCP_ADDR=10.96.0.9",
                "MY_APP_PORT_80_TCP_PORT=80",
                "MY_APP_PORT_80_TCP_PROTO=tcp",
                "MY_APP_SERVICE_HOST=10.96.0.9",
                "MY_APP_SERVICE_PORT=80",
                "MY_APP_SERVICE_PORT_DNS=53",
                "MY_APP_SERVICE_PORT_WEB_UI=80",
                "SIX_PORT=tcp://[fd00::1]:8080",
                "SIX_PORT_8080_TCP=tcp://[fd00::1]:8080",
                "SIX_PORT_8080_TCP_ADDR=fd00::1",
                "SIX_PORT_8080_TCP_PORT=8080",
                "SIX_PORT_8080_TCP_PROTO=tcp",
                "SIX_SERVICE_HOST=fd00::1",
                "SIX_SERVICE_PORT=8080",
            ]
        );
    }

    #[test]
    fn without_links_only_the_api_server_is_found() {
        let near = [service("app", "10.96.0.9", json!([{ "port": 80 }]))];
        let master = service("kubernetes", "10.96.0.1", json!([{ "port": 443, "name": "https" }]));
        let found = variables(&pod(Some(false)), &near, Some(&master));
        assert_eq!(found["KUBERNETES_SERVICE_PORT_HTTPS"], "443");
        assert!(!found.contains_key("APP_SERVICE_HOST"));
        assert!(variables(&pod(None), &near, Some(&master)).contains_key("APP_SERVICE_HOST"));
    }
}
