//! Start options of the nodes of one process.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::Listen;
use crate::annotation::Script;
use crate::image::ImageTable;
use crate::node_name;

/// Start options of the nodes of one process.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Number of nodes. They are named `setpoint-0`, `setpoint-1`, …
    pub count: u32,
    /// The number of the first node, if other processes have nodes in the same cluster.
    pub first: u32,
    /// The address that the nodes report. It is dialled only if the kubelet's paths are served.
    pub address: IpAddr,
    /// Behaviour of simulated pods without annotations.
    pub script: Script,
    /// Images that run as processes of this host. Everything else is simulated.
    pub images: ImageTable,
    /// The program with the hidden helper subcommands. Without it no process container starts.
    pub helper: Option<PathBuf>,
    /// Folder for the volumes and logs of process containers. Give each process its own.
    pub folder: Option<PathBuf>,
    /// Separates the loopback addresses of two clusters on one host.
    pub cluster: u8,
    /// The way in which process pods get their own ports.
    pub listen: Listen,
    /// Environment of every process container, with which it finds the API server.
    pub environment: Vec<(String, String)>,
    /// Interval of each node's lease renewals.
    pub heartbeat: Duration,
    /// Capacity that each node reports.
    pub capacity: Capacity,
}

impl NodeOptions {
    /// The numbers of the nodes.
    pub fn indices(&self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }

    /// Returns the number of the node with that name, if it is one of these.
    pub fn index(&self, name: &str) -> Option<u32> {
        node_name::index(name).filter(|index| self.indices().contains(index))
    }
}

/// Capacity that a node reports.
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
