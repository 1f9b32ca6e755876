//! ReplicaSets and ReplicationControllers: as many pods of one template as asked for.

mod reconcile;
mod batch;
mod plan;
mod rank;
mod replicated;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use batch::slow_start;
#[cfg(test)]
use plan::Plan;
use plan::{plan, pod_from_template};
pub(crate) use rank::stage_order;
pub(crate) use reconcile::{register_controllers, register_sets};
use replicated::Replicated;
#[cfg(test)]
use status::NextStatus;
use status::{Failure, next_status};
