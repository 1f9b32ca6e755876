//! The built-in controllers and the scheduler: one folder a controller, each a pure plan and a thin reconcile.

#![allow(dead_code, unused_imports)]

mod claim;
mod deployment;
mod endpoints;
mod endpointslice;
mod garbage;
mod namespace;
mod percent;
mod pod;
mod quantity;
mod replicaset;
mod scheduler;
mod selector;
mod service;
