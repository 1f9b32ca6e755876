//! The life of nodes: one that is silent for too long is no longer known to be ready, its taints keep pods away and drive
//! them off, and its pods are not ready.

mod reconcile;
mod health;
mod silence;
mod taints;
mod zone;
#[cfg(test)]
mod tests;

pub(crate) use reconcile::register;
