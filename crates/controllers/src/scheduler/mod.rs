//! The scheduler: each pod to a node that can take it, the least loaded first.

mod reconcile;
mod filter;
mod ledger;
mod score;
mod affinity;
mod resources;
mod taint;
mod volumes;
#[cfg(test)]
mod tests;

pub(crate) use affinity::{accepts as affinity_accepts, selects as selects_node};
pub(crate) use filter::Unschedulable;
pub(crate) use ledger::{Ledger, Wish};
pub(crate) use reconcile::register;
pub(crate) use taint::{is_tolerated, tolerates, unschedulable as unschedulable_taint};
