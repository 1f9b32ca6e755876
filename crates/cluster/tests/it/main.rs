//! Scenarios on a cluster in this process.

#![allow(clippy::unwrap_used)]

mod controllers;
mod front_proxy;
mod kubelet;
mod library;
mod readme;
mod registration;
mod runtime;
mod webhooks;
