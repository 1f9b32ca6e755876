//! The built-in controllers and the scheduler: one folder a controller, each a pure plan and a thin reconcile, on the
//! public API of `setpoint` only.
//!
//! [`register`] adds them to a [`Manager`](setpoint::Manager): in process beside an API server, or alone against any
//! Kubernetes.
//!
//! | name | what it keeps |
//! |---|---|
//! | `deployment` | Deployments' ReplicaSets: rollouts, scaling, history |
//! | `replicaset` | ReplicaSets' pods |
//! | `garbage` | objects whose owners are gone |
//! | `namespace` | the content of namespaces that are being deleted |
//! | `serviceaccount` | the `default` service account of every namespace |
//! | `rootca` | `kube-root-ca.crt` in every namespace |
//! | `endpoints`, `endpointslice` | the addresses of Services' pods |
//! | `nodetaint` | the taint of cordoned nodes |
//! | `scheduler` | the node of every pod |

mod adopt;
mod claim;
mod deployment;
mod discovery;
mod endpoints;
mod endpointslice;
mod field;
mod garbage;
mod namespace;
mod nodetaint;
mod percent;
mod pod;
mod quantity;
mod register;
mod replicaset;
mod rootca;
mod scheduler;
mod selector;
mod service;
mod serviceaccount;
mod triggertime;

pub use register::{NAMES, Options, UnknownName, parse_names, register};

/// Under whose name the controllers own fields: tools know it from every cluster.
const FIELD_OWNER: &str = "kube-controller-manager";
