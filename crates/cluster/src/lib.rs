//! A Kubernetes cluster in one process: for tests, and for a laptop.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::Api;
//! use kube::api::ObjectMeta;
//! use setpoint::{Action, Context, Controller, Error, Key, Manager, ManagerOptions};
//! use setpoint_cluster::{Cluster, Options};
//!
//! async fn label(ctx: Context, key: Key) -> Result<Action, Error> {
//!     if ctx.client().get::<ConfigMap>(&key).await?.is_some() {
//!         let labels = Some([("seen".to_owned(), "yes".to_owned())].into());
//!         let metadata = ObjectMeta { labels, ..key.metadata() };
//!         ctx.client().apply(&ConfigMap { metadata, ..ConfigMap::default() }).await?;
//!     }
//!     Ok(Action::done())
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::start(Options::default()).await?;
//! // `cluster.install::<MyKind>().await?` serves a derived type.
//! let manager = Manager::new(cluster.client(), ManagerOptions::default());
//! Controller::for_kind::<ConfigMap>(&manager).register(label)?;
//! tokio::spawn(async move { manager.run(std::future::pending()).await });
//! let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
//! let labelled = || async { maps.get_opt("kube-root-ca.crt").await.ok()??.metadata.labels?.remove("seen") };
//! assert_eq!(cluster.eventually("the label", labelled).await?, "yes");
//! cluster.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! In a test this is the body of a `#[tokio::test(start_paused = true)]`: hours of back-off then pass in no time.

mod install;
mod wait;
mod history;
mod cluster;
mod credentials;
mod kubeconfig;
mod workload;
mod nodes;
mod options;
mod webhooks;
mod transport;

pub use cluster::{Checkpoint, Cluster, ClusterError, bind, reachable};
pub use history::{Change, ChangeKind, change, changes};
pub use install::InstallError;
pub use options::{Backend, Controllers, Options, Serving};
pub use setpoint_apiserver::{Admission, Authorization, FrontProxy, Plugin, RequestLimits};
pub use setpoint_node::NodeOptions;
pub use wait::{NeverCame, PATIENCE};
pub use webhooks::InProcessWebhooks;
