//! Process containers: the container's program is a process of this host.

pub mod container;
pub mod environment;
pub mod image;
pub mod init;
pub mod lasting;
pub mod loader_variables;
pub mod mount_guard;
pub mod mounts;
pub mod output;
pub mod own_folder;
pub mod place;
pub mod plain_file;
pub mod plan;
pub mod pods;
pub mod probing;
pub mod program;
pub mod reconcile;
pub mod root;
pub mod running;
pub mod service_links;
pub mod supervised;
pub mod terminal;
pub mod volume;
