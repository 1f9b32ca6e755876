//! ResourceQuotas: measures their use again when a counted object may have released some.
//!
//! The API server charges created objects in the same write. A measurement is therefore written only onto the very
//! version of the quota that was read before the objects were listed.

mod reconcile;
mod plan;
mod watches;
mod trigger;

pub(crate) use reconcile::register;
