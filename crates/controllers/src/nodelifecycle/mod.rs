//! The life of nodes: one that is silent for too long is no longer known to be ready, its taints keep pods away and drive
//! them off, and its pods are not ready.

mod health;
mod reconcile;
mod silence;
mod taints;
#[cfg(test)]
mod tests;
mod zone;

pub(crate) use reconcile::register;
