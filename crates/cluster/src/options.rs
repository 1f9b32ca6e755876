//! What a cluster is started with.

use std::path::PathBuf;

use setpoint_api::Clock;
use setpoint_node::NodeOptions;

/// What a cluster is started with. The default is what tests want: in memory, every controller, one simulated node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where objects live.
    pub backend: Backend,
    /// Which built-in controllers run.
    pub controllers: Controllers,
    /// The nodes, their number first of all.
    pub nodes: NodeOptions,
    /// The first of all random numbers; drawn from the operating system when absent.
    pub seed: Option<u64>,
    /// The time; the runtime's own, from the present on, when absent.
    pub clock: Option<Clock>,
    /// Cluster IPs come from here.
    pub service_cidr: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            backend: Backend::Memory,
            controllers: Controllers::All,
            nodes: NodeOptions::default(),
            seed: None,
            clock: None,
            service_cidr: "10.96.0.0/16".into(),
        }
    }
}

/// Where objects live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In this process only.
    Memory,
    /// In a folder, which survives the process.
    Folder {
        /// The folder.
        path: PathBuf,
        /// Whether a write is on the disk before it is acknowledged.
        fsync: bool,
    },
}

/// Which built-in controllers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controllers {
    /// All of them.
    All,
    /// None: a bare API server.
    None,
    /// Those named.
    Only(Vec<String>),
}
