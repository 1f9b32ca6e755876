//! Cluster IPs and node ports of Services.

use std::net::Ipv4Addr;

/// A range of IPv4 addresses, network and size.
pub(crate) fn range(cidr: &str) -> Option<(u32, u32)> {
    let (address, bits) = cidr.split_once('/')?;
    let address: Ipv4Addr = address.parse().ok()?;
    let bits: u32 = bits.parse().ok().filter(|bits| (1..=30).contains(bits))?;
    let size = 1u32 << (32 - bits);
    Some((u32::from(address) & !(size - 1), size))
}

/// The first address of a range: the Service `kubernetes` has it.
pub(crate) fn first(cidr: &str) -> Option<String> {
    range(cidr).map(|(network, _)| Ipv4Addr::from(network + 1).to_string())
}
