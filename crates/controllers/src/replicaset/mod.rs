//! ReplicaSets: as many pods of one template as asked for.

mod batch;
mod plan;
mod rank;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use batch::slow_start;
pub(crate) use plan::{Plan, plan, pod_from_template};
pub(crate) use status::{Failure, Outlook, outlook};
