//! A Kubernetes cluster in one process: for tests, and for a laptop.
//!
//! ```
//! use k8s_openapi::api::core::v1::Namespace;
//! use kube::Api;
//! use setpoint_cluster::{Cluster, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::start(Options::default()).await?;
//! let namespaces: Api<Namespace> = Api::all(cluster.client());
//! assert!(namespaces.get_opt("default").await?.is_some());
//! cluster.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod cluster;
mod credentials;
mod history;
mod install;
mod kubeconfig;
mod nodes;
mod options;
mod transport;
mod wait;
mod workload;

pub use cluster::{Cluster, ClusterError, bind, reachable};
pub use history::{Change, ChangeKind, changes};
pub use install::InstallError;
pub use options::{Backend, Controllers, Options, Serving};
pub use setpoint_node::NodeOptions;
pub use wait::{NeverCame, PATIENCE};
