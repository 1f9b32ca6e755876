//! Names of the nodes of this process.

/// The name of node number `index`.
pub fn name(index: u32) -> String {
    format!("setpoint-{index}")
}

/// Returns the number of the node with that name.
pub fn index(name: &str) -> Option<u32> {
    name.strip_prefix("setpoint-")?.parse().ok()
}
