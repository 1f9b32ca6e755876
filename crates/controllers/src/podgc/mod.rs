//! Pods that no node will end any more are forced out: pods of nodes that are gone, pods on their way out that never had a
//! node or whose node was declared out of service, and the oldest of too many that have ended.

mod reconcile;
mod state;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use reconcile::register;
