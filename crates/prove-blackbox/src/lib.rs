//! Finds convergence bugs of an operator that runs as a process, in any language.
//!
//! Each run has a cluster in this process, a TLS port of its own, and the operator as a child process under its own
//! ServiceAccount. Faults happen between the port and the server, as in `setpoint-prove`, whose plans, oracles and
//! traces this crate uses. Time is the machine's.
#![deny(missing_docs)]

mod course;
mod explore;
mod plans;
mod confirm;
mod shrink;
mod reference;
mod proof;
mod runs;
mod workers;
mod replay;
mod program;
mod process;
mod front;
mod log;
mod objects;

pub use objects::{ObjectsError, life, manifests, samples, service_account};
pub use program::Program;
pub use proof::{Found, Proof, ProofError, Proved, Stage};
pub use replay::{Replay, ReplayError};
pub use runs::{Bounds, Patience};
