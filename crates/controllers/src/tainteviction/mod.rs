//! NoExecute taints: pods that do not tolerate them leave the node, at once or when their toleration has run out.

mod reconcile;
mod state;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use reconcile::register;
