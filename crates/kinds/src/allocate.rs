//! Cluster IPs and node ports of services.
//!
//! The functions are pure: whoever calls them says what is taken, inside the transaction that stores the
//! service, so that no two services get the same.

mod ports;

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use ports::{
    Draw, first_node_ports, health_port, keep_node_ports, more_node_ports, needs_health_port, needs_ports,
};

use crate::access::{at, copy, int, items, items_mut, remove, set, text};
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::kind::GroupKind;
use setpoint_api::random::Random;
use setpoint_api::status::Status;

/// The ranges of addresses and ports for services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// The network of cluster IPs.
    pub network: Ipv4Addr,
    /// The bits of the network that are fixed.
    pub prefix: u8,
    /// The first node port.
    pub first_port: u16,
    /// The last node port.
    pub last_port: u16,
    /// Nothing will be stored: what would be drawn is a placeholder, the same each time.
    pub dry: bool,
}

impl Default for Ranges {
    /// `10.96.0.0/16` and 30000–32767.
    fn default() -> Self {
        Ranges {
            network: Ipv4Addr::new(10, 96, 0, 0),
            prefix: 16,
            first_port: 30000,
            last_port: 32767,
            dry: false,
        }
    }
}

impl Ranges {
    fn base(self) -> u32 {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
        u32::from(self.network) & mask
    }

    /// How many addresses there are to give: neither the network's own nor the broadcast address.
    fn size(self) -> u32 {
        1u32.checked_shl(32 - u32::from(self.prefix)).unwrap_or(u32::MAX).saturating_sub(2)
    }

    fn contains(self, ip: Ipv4Addr) -> bool {
        let offset = u32::from(ip).wrapping_sub(self.base());
        (1..=self.size()).contains(&offset)
    }

    /// The address that the Service `kubernetes` has: the first.
    pub fn first_ip(self) -> Ipv4Addr {
        Ipv4Addr::from(self.base() + 1)
    }
}

/// Something that one service at most may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// A cluster IP.
    Ip(Ipv4Addr),
    /// A node port.
    Port(u16),
}

/// Returns the addresses and ports that a stored service holds.
pub fn claims(service: &Value) -> Vec<Claim> {
    let ips = items(service, "spec.clusterIPs").iter().filter_map(Value::as_str);
    let ips = ips.filter_map(|ip| ip.parse().ok()).map(Claim::Ip);
    let ports = items(service, "spec.ports").iter().filter_map(|port| int(port, "nodePort"));
    let ports = ports.chain(int(service, "spec.healthCheckNodePort"));
    let ports = ports.filter_map(|port| u16::try_from(port).ok()).filter(|port| *port != 0).map(Claim::Port);
    ips.chain(ports).collect()
}

/// Gives a new service what it needs.
pub fn create(
    service: &mut Value,
    ranges: &Ranges,
    taken: &dyn Fn(Claim) -> bool,
    random: &Random,
) -> Result<(), Status> {
    if items(service, "spec.clusterIPs").is_empty() && !text(service, "spec.clusterIP").is_empty() {
        let ip = at(service, "spec.clusterIP").clone();
        set(service, "spec.clusterIPs", json!([ip]));
    }
    families(service, &Value::Null)?;
    cluster_ip(service, ranges, taken, random)?;
    first_node_ports(service, Draw { ranges, taken, random, given: Vec::new() })?;
    health_port(service, &[], ranges, taken, random)
}

/// Gives a changed service what it needs and did not have; what the client left out stays as it was.
pub fn update(
    service: &mut Value,
    old: &Value,
    ranges: &Ranges,
    taken: &dyn Fn(Claim) -> bool,
    random: &Random,
) -> Result<(), Status> {
    keep_allocated(service, old);
    families(service, old)?;
    let external = |service: &Value| text(service, "spec.type") == "ExternalName";
    if external(old) && !external(service) {
        cluster_ip(service, ranges, taken, random)?;
    }
    let mine = claims(old);
    // An address that the Service gives back is free once the change is stored, not before.
    let held = |claim: Claim| mine.contains(&claim) || taken(claim);
    more_node_ports(service, old, Draw { ranges, taken: &held, random, given: Vec::new() })?;
    if needs_health_port(old) {
        // It has one, which does not change.
        return Ok(());
    }
    health_port(service, &mine, ranges, taken, random)
}

fn needs_ip(service: &Value) -> bool {
    text(service, "spec.type") != "ExternalName"
}

fn keep_allocated(service: &mut Value, old: &Value) {
    if needs_ip(old) && needs_ip(service) {
        if text(service, "spec.clusterIP").is_empty() {
            copy(service, old, "spec.clusterIP");
        }
        if items(service, "spec.clusterIPs").is_empty() {
            copy(service, old, "spec.clusterIPs");
        }
    }
    if needs_ports(old) && needs_ports(service) {
        keep_node_ports(service, old);
    }
    if needs_health_port(old)
        && needs_health_port(service)
        && int(service, "spec.healthCheckNodePort").unwrap_or_default() == 0
    {
        copy(service, old, "spec.healthCheckNodePort");
    }
    // The one address and the list of addresses say the same.
    let (new_ip, old_ip) = (text(service, "spec.clusterIP").to_owned(), text(old, "spec.clusterIP"));
    let same_list = at(service, "spec.clusterIPs") == at(old, "spec.clusterIPs");
    if new_ip != old_ip && !new_ip.is_empty() && same_list {
        set(service, "spec.clusterIPs", json!([new_ip]));
    }
}

fn refuse(service: &Value, cause: Cause) -> Status {
    Status::invalid(&GroupKind::new("", "Service"), text(service, "metadata.name"), vec![cause])
}

/// This cluster has one family of addresses.
fn families(service: &mut Value, old: &Value) -> Result<(), Status> {
    if !needs_ip(service) {
        return Ok(());
    }
    let headless_alone =
        text(service, "spec.clusterIP") == "None" && crate::access::is_empty(service, "spec.selector");
    if at(service, "spec.ipFamilyPolicy").is_null() {
        let policy = match text(old, "spec.ipFamilyPolicy") {
            "" if headless_alone => "RequireDualStack",
            "" => "SingleStack",
            policy => policy,
        }
        .to_owned();
        set(service, "spec.ipFamilyPolicy", policy.into());
    }
    let causes = crate::validate::service_addresses(service);
    if !causes.is_empty() {
        let name = text(service, "metadata.name");
        return Err(Status::invalid(&GroupKind::new("", "Service"), name, causes));
    }
    let policy = text(service, "spec.ipFamilyPolicy").to_owned();
    let mut families: Vec<Value> = items(service, "spec.ipFamilies").to_vec();
    if families.is_empty() {
        families.push("IPv4".into());
    }
    if headless_alone {
        if families.len() == 1 && policy != "SingleStack" {
            families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
        }
    } else {
        let path = Path::new("spec");
        if policy == "RequireDualStack" {
            let detail = "this cluster is not configured for dual-stack services";
            return Err(refuse(service, Cause::invalid(&path.child("ipFamilyPolicy"), policy, detail)));
        }
        if let Some(index) = families.iter().position(|family| family != "IPv4") {
            let at = path.child("ipFamilies").index(index);
            let cause = Cause::invalid(&at, &families[index], "not configured on this cluster");
            return Err(refuse(service, cause));
        }
    }
    set(service, "spec.ipFamilies", Value::Array(families));
    Ok(())
}

fn cluster_ip(
    service: &mut Value,
    ranges: &Ranges,
    taken: &dyn Fn(Claim) -> bool,
    random: &Random,
) -> Result<(), Status> {
    if !needs_ip(service) {
        return Ok(());
    }
    let wanted = items(service, "spec.clusterIPs").first().and_then(Value::as_str).unwrap_or_default();
    match wanted {
        "None" => Ok(()),
        "" => {
            let ip = draw_ip(ranges, taken, random).ok_or_else(|| {
                let name = text(service, "metadata.name");
                Status::internal(format!(
                    "failed to allocate a serviceIP for Service \"{name}\": range is full"
                ))
            })?;
            set(service, "spec.clusterIP", ip.to_string().into());
            set(service, "spec.clusterIPs", json!([ip.to_string()]));
            Ok(())
        }
        wanted => {
            // Validation refuses a text that is no address.
            let Ok(ip) = wanted.parse::<Ipv4Addr>() else { return Ok(()) };
            let why = if !ranges.contains(ip) && ranges.dry {
                let range = format!("{}/{}", Ipv4Addr::from(ranges.base()), ranges.prefix);
                format!("the provided IP ({ip}) is not in the valid range. The range of valid IPs is {range}")
            } else if !ranges.contains(ip) {
                "the provided network does not match the current range".to_owned()
            } else if taken(Claim::Ip(ip)) {
                "provided IP is already allocated".to_owned()
            } else {
                let ip = at(service, "spec.clusterIPs.0").clone();
                if !ip.is_null() {
                    set(service, "spec.clusterIP", ip);
                }
                return Ok(());
            };
            let shown = BadValue::raw(at(service, "spec.clusterIPs").to_string());
            let detail = format!("failed to allocate IP {wanted}: {why}");
            Err(refuse(service, Cause::invalid(&Path::new("spec.clusterIPs"), shown, &detail)))
        }
    }
}

/// A free address: first from the upper part of the range, since people pick from the lower.
fn draw_ip(ranges: &Ranges, taken: &dyn Fn(Claim) -> bool, random: &Random) -> Option<Ipv4Addr> {
    if ranges.dry {
        return Some(Ipv4Addr::from(ranges.base()));
    }
    let size = ranges.size();
    let lower = (size / 16).clamp(16, 256).min(size);
    let address = |offset: u32| Ipv4Addr::from(ranges.base() + 1 + offset);
    draw(lower..size, random, |offset| !taken(Claim::Ip(address(offset))))
        .or_else(|| draw(0..lower, random, |offset| !taken(Claim::Ip(address(offset)))))
        .map(address)
}

/// A random member of the range for which `free` holds, looking at each at most once.
fn draw(range: std::ops::Range<u32>, random: &Random, free: impl Fn(u32) -> bool) -> Option<u32> {
    let count = range.len() as u32;
    if count == 0 {
        return None;
    }
    let start = random.below(u64::from(count)) as u32;
    (0..count).map(|step| range.start + (start + step) % count).find(|at| free(*at))
}

/// Forgets what a dry run or a clone must not hold.
pub fn release(service: &mut Value) {
    for path in ["spec.clusterIP", "spec.clusterIPs", "spec.healthCheckNodePort"] {
        remove(service, path);
    }
    for port in items_mut(service, "spec.ports") {
        remove(port, "nodePort");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        json!({"metadata": {"name": "s"}, "spec": spec})
    }

    #[test]
    fn no_address_is_given_twice_and_a_full_range_is_an_error() {
        let ranges = Ranges { prefix: 28, ..Ranges::default() };
        let random = Random::from_seed(3);
        let mut held: Vec<Claim> = Vec::new();
        for _ in 0..14 {
            let mut one = service(json!({"type": "ClusterIP"}));
            create(&mut one, &ranges, &|claim| held.contains(&claim), &random).unwrap();
            let new = claims(&one);
            assert_eq!(new.len(), 1);
            assert!(!held.contains(&new[0]));
            held.extend(new);
        }
        let mut one = service(json!({"type": "ClusterIP"}));
        let status = create(&mut one, &ranges, &|claim| held.contains(&claim), &random).unwrap_err();
        assert_eq!(status.code, 500);
    }

    #[test]
    fn where_no_port_is_left_the_error_says_what_for() {
        let full = |spec: Value| {
            let taken = |claim: Claim| matches!(claim, Claim::Port(_));
            let ranges = Ranges::default();
            create(&mut service(spec), &ranges, &taken, &Random::from_seed(3)).unwrap_err().message
        };
        let ports = json!([{"port": 80}]);
        assert_eq!(
            full(json!({"type": "NodePort", "ports": ports})),
            "Internal error occurred: failed to allocate a nodePort: range is full"
        );
        let policy = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "allocateLoadBalancerNodePorts": false, "ports": ports});
        assert_eq!(
            full(policy),
            "Internal error occurred: failed to allocate a HealthCheck NodePort 0: range is full"
        );
    }

    #[test]
    fn what_is_asked_for_must_be_free_and_in_range() {
        let random = Random::from_seed(3);
        let ask = |spec: Value| {
            let busy = Claim::Ip(Ipv4Addr::new(10, 96, 0, 1));
            let taken = move |claim| claim == busy || claim == Claim::Port(30001);
            create(&mut service(spec), &Ranges::default(), &taken, &random).unwrap_err().message
        };
        assert_eq!(
            ask(json!({"type": "ClusterIP", "clusterIP": "10.96.0.1"})),
            "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.1\"]: failed to allocate IP 10.96.0.1: provided IP is already allocated"
        );
        assert_eq!(
            ask(json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}]})),
            "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated"
        );
        assert!(
            ask(json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]})).ends_with(
                "provided port is not in the valid range. The range of valid ports is 30000-32767"
            )
        );
    }

    #[test]
    fn an_update_keeps_what_was_given() {
        let random = Random::from_seed(3);
        let mut old = service(json!({"type": "NodePort", "ports": [{"name": "a", "port": 1}]}));
        create(&mut old, &Ranges::default(), &|_| false, &random).unwrap();
        let mut new = service(json!({"type": "NodePort", "ports": [{"name": "a", "port": 2}]}));
        update(&mut new, &old, &Ranges::default(), &|_| true, &random).unwrap();
        assert_eq!(claims(&new), claims(&old));
    }

    #[test]
    fn a_changed_service_shares_no_node_ports() {
        let random = Random::from_seed(3);
        let ranges = Ranges { dry: true, ..Ranges::default() };
        let port = |name: &str, number: i64| json!({"name": name, "port": number, "protocol": "TCP"});
        let mut old = service(json!({"type": "NodePort", "ports": [port("web", 80)]}));
        create(&mut old, &Ranges::default(), &|_| false, &random).unwrap();
        let given = int(&items(&old, "spec.ports")[0], "nodePort").unwrap();
        let mut new = service(json!({"type": "NodePort", "ports": [port("tls", 443), port("tls", 443)]}));
        update(&mut new, &old, &ranges, &|_| false, &random).unwrap();
        let ports: Vec<i64> =
            items(&new, "spec.ports").iter().filter_map(|port| int(port, "nodePort")).collect();
        assert_eq!(ports, [32769, 32770]);
        let mut new = service(json!({"type": "NodePort", "ports": [port("web", 80), port("web", 80)]}));
        let status = update(&mut new, &old, &ranges, &|_| false, &random).unwrap_err();
        assert_eq!((status.code, status.message), (500, format!("duplicate nodePort: {{TCP {given}}}")));
    }
}
