//! Node ports and health check ports of services.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Claim, Ranges, claims, draw, refuse};
use crate::access::{at, int, items, items_mut, set, text};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::random::Random;
use setpoint_api::status::{Reason, Status};

/// The first port that a dry run shows.
const DRY_PORT: u16 = 32769;

pub(super) fn needs_ports(service: &Value) -> bool {
    matches!(text(service, "spec.type"), "NodePort" | "LoadBalancer")
}

pub(super) fn needs_health_port(service: &Value) -> bool {
    text(service, "spec.type") == "LoadBalancer" && text(service, "spec.externalTrafficPolicy") == "Local"
}

pub(super) fn keep_node_ports(service: &mut Value, old: &Value) {
    let given: Vec<i64> =
        items(service, "spec.ports").iter().filter_map(|port| int(port, "nodePort")).collect();
    for port in items_mut(service, "spec.ports") {
        if int(port, "nodePort").unwrap_or_default() != 0 {
            continue;
        }
        let name = text(port, "name").to_owned();
        let before = items(old, "spec.ports").iter().rfind(|one| text(one, "name") == name);
        let before = before.and_then(|one| int(one, "nodePort")).unwrap_or_default();
        if before != 0 && !given.contains(&before) {
            set(port, "nodePort", before.into());
        }
    }
}

fn draw_port(ranges: &Ranges, given: &[u16], taken: &dyn Fn(Claim) -> bool, random: &Random) -> Option<u16> {
    if ranges.dry {
        return Some(given.iter().max().map_or(DRY_PORT, |last| last.saturating_add(1)));
    }
    let (first, last) = (u32::from(ranges.first_port), u32::from(ranges.last_port) + 1);
    let lower = first + ((last - first) / 32).clamp(16, 128).min(last - first);
    let free = |port: u32| !given.contains(&(port as u16)) && !taken(Claim::Port(port as u16));
    draw(lower..last, random, free).or_else(|| draw(first..lower, random, free)).map(|port| port as u16)
}

/// A port that a Service cannot have.
#[derive(Debug, thiserror::Error)]
enum PortError {
    #[error("provided port is already allocated")]
    Taken,
    #[error("provided port is not in the valid range. The range of valid ports is {first}-{last}")]
    OutOfRange { first: u16, last: u16 },
}

fn port_is_free(ranges: &Ranges, port: i64, taken: &dyn Fn(Claim) -> bool) -> Result<u16, PortError> {
    let (first, last) = (ranges.first_port, ranges.last_port);
    match u16::try_from(port) {
        Ok(port) if (first..=last).contains(&port) => {
            if taken(Claim::Port(port)) {
                Err(PortError::Taken)
            } else {
                Ok(port)
            }
        }
        _ => Err(PortError::OutOfRange { first, last }),
    }
}

/// The ports that one write has been given so far.
pub(super) struct Draw<'a> {
    pub(super) ranges: &'a Ranges,
    pub(super) taken: &'a dyn Fn(Claim) -> bool,
    pub(super) random: &'a Random,
    pub(super) given: Vec<u16>,
}

impl Draw<'_> {
    /// Claims the port that the client asks for.
    fn ask(&mut self, service: &Value, index: usize, port: i64) -> Result<(), Status> {
        let taken =
            |claim: Claim| (self.taken)(claim) || self.given.iter().any(|own| claim == Claim::Port(*own));
        let free = port_is_free(self.ranges, port, &taken).map_err(|why| {
            let path = Path::new("spec.ports").index(index).child("nodePort");
            refuse(service, Cause::invalid(&path, port, &why.to_string()))
        })?;
        self.given.push(free);
        Ok(())
    }

    /// Any port.
    fn any(&mut self) -> Result<i64, Status> {
        let port = draw_port(self.ranges, &self.given, self.taken, self.random)
            .ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
        self.given.push(port);
        Ok(port.into())
    }
}

fn draws_ports(service: &Value) -> bool {
    at(service, "spec.allocateLoadBalancerNodePorts").as_bool() != Some(false)
        || text(service, "spec.type") == "NodePort"
}

fn node_port(service: &Value, index: usize) -> i64 {
    int(&items(service, "spec.ports")[index], "nodePort").unwrap_or_default()
}

/// Node ports of a new service: two protocols on one port share theirs.
pub(super) fn first_node_ports(service: &mut Value, mut draw: Draw<'_>) -> Result<(), Status> {
    if !needs_ports(service) {
        return Ok(());
    }
    let mut shared: BTreeMap<i64, i64> = BTreeMap::new();
    for index in 0..items(service, "spec.ports").len() {
        let wanted = node_port(service, index);
        if wanted == 0 && !draws_ports(service) {
            continue;
        }
        let number = int(&items(service, "spec.ports")[index], "port").unwrap_or_default();
        let port = match shared.get(&number) {
            Some(shared) if wanted == 0 || wanted == *shared => *shared,
            Some(_) => {
                draw.ask(service, index, wanted)?;
                wanted
            }
            None => {
                let port = match requested(service, number) {
                    0 => draw.any()?,
                    asked => {
                        draw.ask(service, index, asked)?;
                        asked
                    }
                };
                shared.insert(number, port);
                port
            }
        };
        set(&mut items_mut(service, "spec.ports")[index], "nodePort", port.into());
    }
    Ok(())
}

/// The node port that the client gives any of the ports of that number.
fn requested(service: &Value, number: i64) -> i64 {
    let same = |port: &&Value| int(port, "port").unwrap_or_default() == number;
    let ports = items(service, "spec.ports").iter().filter(same);
    ports.filter_map(|port| int(port, "nodePort")).find(|port| *port != 0).unwrap_or_default()
}

/// Node ports of a changed service. Nothing is shared: two ports of one protocol that end up with one are an error.
pub(super) fn more_node_ports(service: &mut Value, old: &Value, mut draw: Draw<'_>) -> Result<(), Status> {
    if !needs_ports(service) {
        return Ok(());
    }
    let before: Vec<i64> = items(old, "spec.ports")
        .iter()
        .filter_map(|port| int(port, "nodePort"))
        .filter(|port| *port != 0)
        .collect();
    let mut seen: Vec<(String, i64)> = Vec::new();
    for index in 0..items(service, "spec.ports").len() {
        let wanted = node_port(service, index);
        let port = match wanted {
            0 if !draws_ports(service) => continue,
            0 => draw.any()?,
            wanted => {
                if !before.contains(&wanted) && !seen.iter().any(|(_, own)| *own == wanted) {
                    draw.ask(service, index, wanted)?;
                }
                wanted
            }
        };
        set(&mut items_mut(service, "spec.ports")[index], "nodePort", port.into());
        let protocol = text(&items(service, "spec.ports")[index], "protocol").to_owned();
        if seen.contains(&(protocol.clone(), port)) {
            let message = format!("duplicate nodePort: {{{protocol} {port}}}");
            return Err(Status::failure(500, Reason::Unknown, message));
        }
        seen.push((protocol, port));
    }
    Ok(())
}

pub(super) fn health_port(
    service: &mut Value,
    mine: &[Claim],
    ranges: &Ranges,
    taken: &dyn Fn(Claim) -> bool,
    random: &Random,
) -> Result<(), Status> {
    if !needs_health_port(service) {
        return Ok(());
    }
    let taken = |claim: Claim| !mine.contains(&claim) && taken(claim);
    let given: Vec<u16> = claims(service)
        .into_iter()
        .filter_map(|claim| match claim {
            Claim::Port(port) => Some(port),
            Claim::Ip(_) => None,
        })
        .filter(|port| !(ranges.dry && mine.contains(&Claim::Port(*port))))
        .collect();
    let wanted = int(service, "spec.healthCheckNodePort").unwrap_or_default();
    let port = if wanted == 0 {
        draw_port(ranges, &given, &taken, random)
            .ok_or_else(|| Status::internal("failed to allocate a HealthCheck NodePort 0: range is full"))?
    } else {
        port_is_free(ranges, wanted, &taken).map_err(|why| {
            Status::internal(format!("failed to allocate requested HealthCheck NodePort {wanted}: {why}"))
        })?
    };
    set(service, "spec.healthCheckNodePort", port.into());
    Ok(())
}
