//! The vocabulary of the Kubernetes API that a server and its clients share: kinds, names, selectors, quantities,
//! statuses.
//!
//! Nothing here does I/O, knows HTTP, or reads a clock: time and randomness arrive as handles
//! ([`Clock`], [`Random`]).

pub mod clock;
pub mod quantity;
pub mod selector;
pub mod name;
pub mod random;
pub mod status;
pub mod cause;
pub mod go_format;
pub mod kind;

pub use cause::{Cause, CauseType, Path};
pub use clock::Clock;
pub use kind::{GroupKind, GroupResource, GroupVersion, GroupVersionKind};
pub use random::Random;
pub use status::Status;
