//! Process containers: the container's program is a process of this host.

pub(crate) mod reconcile;
pub(crate) mod loader_variables;
pub(crate) mod service_links;
pub(crate) mod start;
pub(crate) mod probing;
pub(crate) mod running;
pub(crate) mod pods;
pub(crate) mod mounts;
pub(crate) mod trust_bundle;
pub(crate) mod environment;
pub(crate) mod lasting;
pub(crate) mod own_folder;
pub(crate) mod plan;
pub(crate) mod attach;
pub(crate) mod exec;
pub(crate) mod container;
pub(crate) mod output;
pub(crate) mod supervised;
pub mod init;
pub(crate) mod root;
pub(crate) mod mount_guard;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod streams;
pub(crate) mod terminal;
pub(crate) mod volume;
