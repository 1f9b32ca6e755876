//! Addresses: pods get theirs from their node's range, and the node knows where the process behind an address really
//! listens.
//!
//! A pod's IP is never dialled: no interface of this host has it. On Linux every address of 127.0.0.0/8 answers on
//! the loopback interface without configuration. Each process pod therefore has its own address there, and its
//! containers listen on their declared ports.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Maximum number of nodes whose ranges fit.
pub const NODES: u32 = 12 * 256;
/// Pods per node: a /24 without the addresses of the network, the gateway and the broadcast.
pub const PODS: u32 = 253;

/// Returns the pod range of a node: `10.244.node.0/24`, and the following ranges for higher numbers.
pub fn pod_cidr(node: u32) -> String {
    format!("{}/24", network(node))
}

fn network(node: u32) -> Ipv4Addr {
    let node = node % NODES;
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 244, 0, 0)) + (node << 8))
}

/// The taken addresses of one node.
#[derive(Clone, Debug)]
pub struct PodAddresses {
    node: u32,
    taken: BTreeSet<u32>,
    next: u32,
}

impl PodAddresses {
    /// An empty range: no address is taken.
    pub fn new(node: u32) -> Self {
        PodAddresses { node, taken: BTreeSet::new(), next: 2 }
    }

    /// Returns the next free address, or `None` when all are taken. It goes round, so that a freed address is not
    /// reused at once.
    pub fn take(&mut self) -> Option<Ipv4Addr> {
        for step in 0..PODS {
            let host = 2 + (self.next - 2 + step) % PODS;
            if self.taken.insert(host) {
                self.next = 2 + (host - 2 + 1) % PODS;
                return Some(Ipv4Addr::from(u32::from(network(self.node)) + host));
            }
        }
        None
    }

    /// Marks an address that a pod already has, after a restart of the node. Returns false if the address is not of
    /// this node or another pod has it.
    pub fn claim(&mut self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(u32::from(network(self.node)));
        (2..2 + PODS).contains(&offset) && self.taken.insert(offset)
    }

    /// Frees an address.
    pub fn free(&mut self, address: Ipv4Addr) {
        self.taken.remove(&u32::from(address).wrapping_sub(u32::from(network(self.node))));
    }
}

/// Returns the loopback address of a pod's processes. `cluster` separates two clusters of one host.
pub fn loopback(pod: Ipv4Addr, cluster: u8) -> Ipv4Addr {
    let [_, second, third, fourth] = pod.octets();
    // The second octet holds one of twelve ranges for the node, and the cluster's number in the rest.
    Ipv4Addr::new(127, 1 + (second.wrapping_sub(244) & 0x0f) + (cluster % 15) * 16, third, fourth)
}

/// The way in which process pods get their own ports on a host that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Each pod has its own loopback address and listens on its declared ports (Linux).
    OwnAddress,
    /// All pods share 127.0.0.1. Each declared port gets a free one there, which the program finds in
    /// `SETPOINT_PORT_<declared>`.
    FreePorts,
}

impl Default for Listen {
    /// Only Linux has all of 127.0.0.0/8 on its loopback interface.
    fn default() -> Self {
        if cfg!(target_os = "linux") { Listen::OwnAddress } else { Listen::FreePorts }
    }
}

/// The real addresses of one pod's ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPorts {
    /// No addresses: the pod is simulated.
    None,
    /// The declared ports at this address.
    Own(Ipv4Addr),
    /// Ports of 127.0.0.1, by declared port.
    Mapped(BTreeMap<u16, u16>),
}

impl PodPorts {
    /// Picks a free port of 127.0.0.1 for each declared port.
    pub fn free(declared: impl IntoIterator<Item = u16>) -> io::Result<PodPorts> {
        // All sockets are held until the last port is picked: otherwise the same port could be picked twice.
        let mut held = Vec::new();
        let mut ports = BTreeMap::new();
        for port in declared {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            ports.insert(port, listener.local_addr()?.port());
            held.push(listener);
        }
        Ok(PodPorts::Mapped(ports))
    }

    /// Returns the real address of a port of the pod.
    pub fn place(&self, port: u16) -> io::Result<SocketAddr> {
        let refused = |text: String| io::Error::new(io::ErrorKind::ConnectionRefused, text);
        match self {
            PodPorts::Own(address) => Ok(SocketAddr::from((*address, port))),
            PodPorts::Mapped(ports) => match ports.get(&port) {
                Some(real) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, *real))),
                None => Err(refused(format!("no container of the pod declares port {port}"))),
            },
            PodPorts::None => Err(refused("the pod is simulated: no program listens behind it".into())),
        }
    }

    /// The environment variables that tell the pod's programs where to listen.
    pub fn environment(&self) -> Vec<(String, String)> {
        match self {
            PodPorts::None => Vec::new(),
            PodPorts::Own(address) => vec![(HOST_VARIABLE.to_owned(), address.to_string())],
            PodPorts::Mapped(ports) => {
                let host = (HOST_VARIABLE.to_owned(), Ipv4Addr::LOCALHOST.to_string());
                let port =
                    |(declared, real): (&u16, &u16)| (format!("{PORT_VARIABLE}{declared}"), real.to_string());
                std::iter::once(host).chain(ports.iter().map(port)).collect()
            }
        }
    }
}

/// Names the address on which a program in a pod listens.
pub const HOST_VARIABLE: &str = "SETPOINT_HOST";
/// Prefix of a variable, before a declared port's number. Its value is the real port.
pub const PORT_VARIABLE: &str = "SETPOINT_PORT_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_once_and_again_only_after_they_were_freed() {
        let mut node = PodAddresses::new(3);
        let first = node.take().unwrap();
        assert_eq!(first, Ipv4Addr::new(10, 244, 3, 2));
        let rest: BTreeSet<_> = std::iter::from_fn(|| node.take()).collect();
        assert_eq!(rest.len(), 252);
        node.free(first);
        assert_eq!(node.take(), Some(first));
        assert_eq!(node.take(), None);
    }

    #[test]
    fn a_restarted_node_claims_what_its_pods_have() {
        let mut node = PodAddresses::new(0);
        assert!(node.claim(Ipv4Addr::new(10, 244, 0, 2)));
        assert!(!node.claim(Ipv4Addr::new(10, 244, 0, 2)));
        assert!(!node.claim(Ipv4Addr::new(10, 244, 1, 2)));
        assert_eq!(node.take(), Some(Ipv4Addr::new(10, 244, 0, 3)));
    }

    #[test]
    fn declared_ports_are_told_and_found_and_others_refused() {
        let ports = PodPorts::free([80, 443]).unwrap();
        let told: BTreeMap<String, String> = ports.environment().into_iter().collect();
        assert_eq!(told["SETPOINT_HOST"], "127.0.0.1");
        assert_eq!(ports.place(80).unwrap().port().to_string(), told["SETPOINT_PORT_80"]);
        assert_ne!(told["SETPOINT_PORT_80"], told["SETPOINT_PORT_443"]);
        let refused = ports.place(81).unwrap_err();
        assert_eq!(refused.to_string(), "no container of the pod declares port 81");
        let own = PodPorts::Own(Ipv4Addr::new(127, 1, 0, 2));
        assert_eq!(own.place(80).unwrap().to_string(), "127.1.0.2:80");
    }

    #[test]
    fn two_clusters_of_one_host_do_not_meet() {
        let pod = Ipv4Addr::new(10, 245, 7, 9);
        assert_eq!(loopback(pod, 0), Ipv4Addr::new(127, 2, 7, 9));
        assert_ne!(loopback(pod, 0), loopback(pod, 1));
        assert!(loopback(Ipv4Addr::new(10, 255, 1, 1), 14).is_loopback());
    }
}
