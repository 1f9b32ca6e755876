//! The built-in controllers and the scheduler. Each has a folder with a pure plan and a thin reconcile, and uses only
//! the public API of `setpoint`.
//!
//! [`register`] adds them to a [`Manager`](setpoint::Manager): in process beside an API server, or alone against any
//! Kubernetes.
//!
//! | name | subject |
//! |---|---|
//! | `deployment` | Deployments' ReplicaSets: rollouts, scaling, history |
//! | `replicaset`, `replicationcontroller` | pods of ReplicaSets and of ReplicationControllers |
//! | `statefulset` | StatefulSets' pods and claims, in order: rollouts, scaling, history |
//! | `daemonset` | DaemonSets' pods, one on each node that should have one: rollouts, history |
//! | `job` | Jobs' pods: parallel, indexed, counted once |
//! | `cronjob` | CronJobs' Jobs: one at every time of the schedule |
//! | `ttl-after-finished` | deletion of ended Jobs after their time to live |
//! | `garbage` | objects whose owners are gone |
//! | `namespace` | the content of namespaces that are being deleted |
//! | `serviceaccount` | the `default` service account of every namespace |
//! | `serviceaccount-token` | the tokens in Secrets, of accounts that exist |
//! | `rootca` | `kube-root-ca.crt` in every namespace |
//! | `endpoints`, `endpointslice` | the addresses of Services' pods |
//! | `endpointslicemirroring` | the addresses that users write into Endpoints |
//! | `nodelifecycle` | taints of nodes, and conditions of silent nodes |
//! | `podgc` | pods that no node will end |
//! | `tainteviction` | pods of nodes with NoExecute taints |
//! | `disruption` | the number of disruptions that PodDisruptionBudgets allow |
//! | `persistentvolume-binder` | binding of claims and volumes |
//! | `persistentvolume-provisioner` | new volumes, for claims of classes with simulated volumes |
//! | `ephemeral-volume` | the claims that pods describe |
//! | `persistentvolumeclaim-protection` | claims that pods use |
//! | `persistentvolume-protection` | volumes that are bound |
//! | `volumeattributesclass-protection` | classes that volumes or claims name |
//! | `resourcequota` | the use of ResourceQuotas |
//! | `clusterrole-aggregation` | the rules of aggregated ClusterRoles |
//! | `scheduler` | the node of every pod |

mod register;

mod cronjob;
mod daemonset;
mod statefulset;
mod deployment;
mod ttlafterfinished;
mod job;
mod replicaset;
mod garbage;
mod namespace;
mod token;
mod rootca;
mod serviceaccount;
mod endpoints;
mod endpointslicemirroring;
mod endpointslice;
mod nodelifecycle;
mod podgc;
mod tainteviction;
mod disruption;
mod resourcequota;
mod protection;
mod aggregation;
mod scheduler;
mod volume;

mod service;
mod controller_revision;
mod children;
mod placement;
mod discovery;
mod object;

pub use register::{NAMES, Options, UnknownName, parse_names, register};
pub use token::TokenSigner;
pub use volume::PROVISIONER;

/// The field manager of the controllers. Tools know this name from every cluster.
const FIELD_OWNER: &str = "kube-controller-manager";
