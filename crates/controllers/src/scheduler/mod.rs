//! The scheduler: each pod to a node that can take it, the least loaded first.

mod reconcile;
mod ledger;
mod filter;
mod score;
mod node_info;
mod resources;
mod volumes;
#[cfg(test)]
mod tests;

pub(crate) use filter::Unschedulable;
pub(crate) use ledger::Ledger;
pub(crate) use node_info::PodInfo;
pub(crate) use reconcile::register;
