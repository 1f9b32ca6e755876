//! What the nodes of one process are started with.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::Listen;
use crate::annotation::Script;
use crate::node;
use crate::process::image::ImageTable;

/// What the nodes of one process are started with.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// How many; they are named `setpoint-0`, `setpoint-1`, …
    pub count: u32,
    /// The number of the first, where other processes have nodes in the same cluster.
    pub first: u32,
    /// The address that the nodes give as theirs; only where the kubelet's paths are served does anybody dial it.
    pub address: IpAddr,
    /// What simulated pods do unless their annotations say otherwise.
    pub script: Script,
    /// Images that run as processes of this host. Everything else is simulated.
    pub images: ImageTable,
    /// The program with the hidden helper subcommands; without it no process container starts.
    pub helper: Option<PathBuf>,
    /// Where volumes and logs of process containers live; a folder of its own for each process is best.
    pub folder: Option<PathBuf>,
    /// Tells clusters of one host apart in their loopback addresses.
    pub cluster: u8,
    /// How process pods get ports of their own.
    pub listen: Listen,
    /// Environment of every process container: how it finds the API server.
    pub environment: Vec<(String, String)>,
    /// How often each node renews its lease.
    pub heartbeat: Duration,
    /// What each node says it has.
    pub capacity: Capacity,
}

impl NodeOptions {
    /// The numbers of the nodes.
    pub fn indices(&self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }

    /// The number of the node of that name, where it is one of these.
    pub fn index(&self, name: &str) -> Option<u32> {
        node::index(name).filter(|index| self.indices().contains(index))
    }
}

/// What a node says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// CPUs.
    pub cpu: String,
    /// Memory.
    pub memory: String,
    /// Pods.
    pub pods: u32,
}

impl Default for NodeOptions {
    fn default() -> Self {
        NodeOptions {
            count: 1,
            first: 0,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            script: Script::default(),
            images: ImageTable::default(),
            helper: None,
            folder: None,
            cluster: 0,
            listen: Listen::default(),
            environment: Vec::new(),
            heartbeat: HEARTBEAT,
            capacity: Capacity::default(),
        }
    }
}

impl Default for Capacity {
    fn default() -> Self {
        Capacity { cpu: "32".into(), memory: "256Gi".into(), pods: 253 }
    }
}

/// A kubelet's own interval; node lifecycle controllers wait for four missed ones.
const HEARTBEAT: Duration = Duration::from_secs(10);
