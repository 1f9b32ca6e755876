//! StatefulSets: pods with a name and a volume of their own, that come, change and go in order.

mod identity;
mod plan;
mod reconcile;
mod retention;
mod revision;
mod rolling;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use reconcile::register;
