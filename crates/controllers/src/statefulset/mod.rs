//! StatefulSets: pods with a name and a volume of their own, that come, change and go in order.

mod reconcile;
mod status;
mod plan;
mod rolling;
mod view;
mod retention;
mod identity;
mod revision;
#[cfg(test)]
mod tests;

pub(crate) use reconcile::register;
