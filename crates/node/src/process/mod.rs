//! Process containers: the container's program is a process of this host.

pub mod reconcile;
pub mod loader_variables;
pub mod service_links;
pub mod pods;
pub mod probing;
pub mod running;
pub mod container;
pub mod mounts;
pub mod environment;
pub mod lasting;
pub mod output;
pub mod own_folder;
pub mod plan;
pub mod supervised;
pub mod init;
pub mod root;
pub mod mount_guard;
pub mod image;
pub mod place;
pub mod program;
pub mod terminal;
pub mod volume;
pub mod plain_file;
