//! ResourceQuotas: what is used of them, measured anew when something that they count may have let go.
//!
//! The API server charges what is created in the same write; so what is measured here is written only onto the very
//! quota that was read before the objects were listed.

mod reconcile;
mod plan;
mod watches;
mod trigger;

pub(crate) use reconcile::register;
