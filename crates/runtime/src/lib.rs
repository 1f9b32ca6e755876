//! Write Kubernetes operators in Rust.
//!
//! An operator is a loop: it watches objects, compares what they ask for (`spec`) with what is there, and writes
//! the difference. This crate is everything around the comparison: informers and caches, a work queue,
//! controllers, a client that sees its own writes, leader election, events, metrics, health checks. It works on a
//! [`kube::Client`] against any Kubernetes from 1.32 on; types are those of `k8s-openapi` and
//! `#[derive(CustomResource)]`.
//!
//! # An operator
//!
//! A `Website` asks for a page. The operator keeps a ConfigMap with the page and says so in the status.
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
//! use kube::CustomResource;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use setpoint::client::controller_reference;
//! use setpoint::{Action, Context, Controller, Error, Key, Manager, ManagerOptions, Reconciler};
//!
//! #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! #[kube(group = "example.org", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
//! struct WebsiteSpec {
//!     page: String,
//! }
//!
//! #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
//! struct WebsiteStatus {
//!     published: bool,
//! }
//!
//! struct Publisher;
//!
//! impl Reconciler for Publisher {
//!     async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
//!         let client = ctx.client();
//!         // From the cache. A deleted object is no error: there is nothing left to do.
//!         let Some(site) = client.get::<Website>(&key).await? else { return Ok(Action::done()) };
//!
//!         // Only the fields that are set are ours. Sent only if the cache shows that it would change something.
//!         let owners = Some(vec![controller_reference(&*site)?]);
//!         let page = BTreeMap::from([("index.html".to_owned(), site.spec.page.clone())]);
//!         let metadata = ObjectMeta { owner_references: owners, ..key.metadata() };
//!         client.apply(&ConfigMap { metadata, data: Some(page), ..ConfigMap::default() }).await?;
//!
//!         let status = WebsiteStatus { published: true };
//!         if site.status.as_ref() != Some(&status) {
//!             client.apply_status(&*site, &status).await?;
//!             ctx.recorder().normal(&*site, "Published", "the page is up");
//!         }
//!         Ok(Action::requeue_after(Duration::from_secs(3600)))
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!     let manager = Manager::new(setpoint::connect().await?, ManagerOptions::default());
//!     Controller::for_kind::<Website>(&manager).owns::<ConfigMap>().register(Publisher)?;
//!     manager.run_until_signal().await?;
//!     Ok(())
//! }
//! ```
//!
//! # What happens
//!
//! 1. [`Manager::run`] starts servers, then caches: one [`SharedInformer`] for each kind that a controller declared,
//!    shared by all. It waits until they have synced, then starts the controllers (those that need the lease once
//!    this process is elected).
//! 2. An event passes the [predicates](predicate), is mapped to [`Key`]s (the object itself, its owner, or what
//!    a function says) and queued with the reason. The [queue] keeps one entry per object, initial and resync work
//!    below live events, and lets namespaces take turns.
//! 3. A worker takes a key, waits until the caches show what the last reconcile of this object wrote, and calls
//!    the [`Reconciler`]. What it answers ([`Action`], or an [`Error`]) decides when the object is queued again.
//! 4. Reads come from the caches and are repeatable within one reconcile; writes go to the server under the
//!    controller's field owner. Reading a kind that was not declared is an error that says what to declare.
//!
//! # Rules of thumb
//!
//! - Reconcile levels, not edges: read the state, compute, write. Any run may be the first, the last or a repetition.
//! - Return errors; the back-off is per object (5 ms doubling to 1000 s). [`Error::terminal`] for what only another
//!   spec mends.
//! - Prefer [`Client::apply`]: it needs no read, knows no conflict, and costs nothing when nothing changes.
//! - Declare what you read: `.owns`, `.watches`, `.reads`. [`Client::live`] is for the rare exception.
//! - Clean up outside the cluster with [`Client::lifecycle`]; inside it owner references do the work.
//!
//! # Tests
//!
//! [`Context::for_test`] makes a context over any [`kube::Client`], so that a test calls a reconcile as a plain function:
//! reads go to the server, events are readable, clock and seed are the test's. The crate `setpoint-cluster` starts a
//! whole cluster in the process of the test.
//!
//! # Webhooks
//!
//! With the feature `webhooks` the module `webhook` has typed admission and conversion handlers, their server in the
//! manager, and certificates that are made and rotated without another program. `docs/webhooks.md` says how.
//!
//! # While the program runs
//!
//! Everything that was declared can also begin and end later. [`ControllerHandle::watch`] adds a watch to a running
//! controller until its answer is dropped, [`ControllerHandle::stop`] ends one controller, [`Manager::hold`] keeps an
//! informer for as long as somebody holds it, and [`Namespaces::Labelled`](informer::Namespaces::Labelled) follows the namespaces that carry a label.
//! Informers are reference-counted: a watch is open while somebody needs it.
//!
//! # The low layer
//!
//! Everything above is made of public parts: [`ListerWatcher`], [`Reflector`], [`Store`], [`SharedInformer`],
//! [`InformerFactory`], [`queue::WorkQueue`]. A controller in the style of client-go's sample-controller can be written
//! on them by hand. An informer's reflector brings what it learns straight into its store; one of your own puts it into
//! a [`DeltaQueue`], from which you process it yourself, and [`Pump`] joins the two. Only informers compress what they
//! cache.
//!
//! # Dependencies that are part of the API
//!
//! Types of these crates stand in signatures, so a new major version of one of them is a new major version of this crate:
//!
//! - `kube`: [`kube::Client`], [`kube::Resource`], `ApiResource`, `Selector`
//! - `k8s-openapi`: objects, metadata, conditions, owner references. The program chooses the Kubernetes version by a feature.
//! - `jiff`: [`jiff::Timestamp`] for every time
//! - `serde` and `serde_json`: [`serde_json::Value`] for objects of kinds that are known only at run time
//! - `tokio` and `tokio-util`: channels, and `CancellationToken` for work that is told to stop
//! - `prometheus-client`: re-exported in [`metrics`], for metrics of one's own
//! - `clap`: with the feature `flags`
//! - `http` and `bytes`: with the feature `webhooks`
//!
//! # Dropping a future
//!
//! Every async function says what happens if its future is dropped. Reads and waits can be dropped at any time. A write
//! whose future is dropped may have reached the server: later reads wait until the cache has listed the kind anew.
//!
//! People who come from client-go, controller-runtime or kube-runtime find every concept in
//! `docs/from-client-go.md`.
//!
//! [`ControllerHandle::stop`]: controller::ControllerHandle::stop
//! [`ControllerHandle::watch`]: controller::ControllerHandle::watch
//! [`DeltaQueue`]: informer::DeltaQueue
//! [`InformerFactory`]: informer::InformerFactory
//! [`ListerWatcher`]: informer::ListerWatcher
//! [`Pump`]: informer::Pump
//! [`Reflector`]: informer::Reflector
//! [`SharedInformer`]: informer::SharedInformer
//! [`Store`]: informer::Store
#![deny(missing_docs)]

#[cfg(feature = "flags")]
pub mod flags;
pub mod program;
pub mod manifests;
#[cfg(feature = "webhooks")]
pub mod webhook;

pub mod conditions;
pub mod finalizer;
pub mod controller;
pub mod manager;
mod shutdown;
pub mod health;
pub mod leader_election;
pub mod recorder;
pub mod predicate;
pub mod client;
mod error;
pub mod metrics;

pub mod informer;
pub mod queue;

mod leader_clock;
mod log_target;
mod repeated;
pub mod clock;
mod latch;
mod redact;
mod user_agent;
mod request_path;
mod hash;
mod revision;
pub mod key;

pub use client::{Client, DeleteOptions, Kind, Patch, Query, connect};
pub use controller::{Action, Context, Controller, Reconciler, Watch};
pub use error::{ClientError, Error, NotFoundExt};
pub use informer::{Object, Target};
pub use key::Key;
pub use manager::{Manager, ManagerOptions, SetupError};
pub use predicate::Predicate;
pub use recorder::Recorder;
