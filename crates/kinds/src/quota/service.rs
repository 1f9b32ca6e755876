//! Services: their number, node ports and load balancers.

use serde_json::Value;

use super::one;
use crate::access::{at, int, items, text};
use crate::resources::Amounts;
use setpoint_api::quantity::Quantity;

const NAMES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];

pub(super) fn counts(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(super) fn usage(service: &Value) -> Amounts {
    let ports = items(service, "spec.ports");
    let balanced = text(service, "spec.type") == "LoadBalancer";
    let used = match text(service, "spec.type") {
        "NodePort" => ports.len(),
        // Ports are given later: what counts is whether they will be.
        "LoadBalancer" if at(service, "spec.allocateLoadBalancerNodePorts") == false => {
            ports.iter().filter(|port| int(port, "nodePort").unwrap_or_default() != 0).count()
        }
        "LoadBalancer" => ports.len(),
        _ => 0,
    };
    let used = Quantity::whole(i64::try_from(used).unwrap_or(i64::MAX));
    let amounts = [one(), one(), used, Quantity::whole(i64::from(balanced))];
    NAMES.into_iter().map(str::to_owned).zip(amounts).collect()
}

/// The type, where it makes a difference.
pub(super) fn class(service: &Value) -> &str {
    match text(service, "spec.type") {
        class @ ("NodePort" | "LoadBalancer") => class,
        _ => "",
    }
}
