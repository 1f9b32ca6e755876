//! Process containers: the container's program is a process of this host.

pub mod container;
pub mod environment;
pub mod image;
pub mod init;
pub mod lasting;
pub mod mounts;
pub mod output;
pub mod plan;
pub mod pods;
pub mod probing;
pub mod reconcile;
pub mod root;
pub mod running;
pub mod service_links;
pub mod supervised;
pub mod terminal;
pub mod volume;
