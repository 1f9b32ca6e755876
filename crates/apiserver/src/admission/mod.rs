//! Admission: plugins, policies and webhooks fill in fields and refuse writes, in kube-apiserver's order.

pub(crate) mod namespace;
pub(crate) mod quota;
pub(crate) mod service;
pub(crate) mod webhook;
pub(crate) mod policy;
mod scope;
mod selected;
mod webhook_versions;
mod review;
pub(crate) mod plugins;
pub(crate) mod attributes;

pub(crate) use attributes::{Attributes, Operation};
