//! What the nodes of one process are started with.

use std::path::PathBuf;
use std::time::Duration;

use crate::annotation::Script;
use crate::process::image::ImageTable;

/// What the nodes of one process are started with.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// How many; they are named `setpoint-0`, `setpoint-1`, …
    pub count: u32,
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
    /// Environment of every process container: how it finds the API server.
    pub environment: Vec<(String, String)>,
    /// How often each node renews its lease.
    pub heartbeat: Duration,
    /// What each node says it has.
    pub capacity: Capacity,
    /// Where the kubelet's paths are served, as Node status tells the API server; none inside one process.
    pub kubelet_port: Option<u16>,
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
            script: Script::default(),
            images: ImageTable::default(),
            helper: None,
            folder: None,
            cluster: 0,
            environment: Vec::new(),
            heartbeat: HEARTBEAT,
            capacity: Capacity::default(),
            kubelet_port: None,
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
