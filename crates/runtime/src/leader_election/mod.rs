//! Leader election on a Lease, protocol-compatible with client-go's `leaderelection`.
//!
//! One of several processes holds a Lease and renews it every two seconds; the others watch it and take it once
//! it has stood still for its whole duration (15 s). A holder that could not renew for ten seconds stops at once.
//!
//! The promise and its limit: after its renew deadline a process starts no reconcile and its client
//! sends nothing, also when it was stopped (SIGSTOP) and wakes up later, because the [`LeaderClock`] is asked
//! right before every send: of the client's writes, of recorded events, and of the renewal itself. A request that
//! was on the wire before that moment may still take effect: that is the only residue, and only a check by the
//! server (resourceVersion, preconditions) closes it. Nor does an answer to a renewal that comes after the deadline bring
//! the right to act back: the lease is lost, and the process ends. The clock is the system's monotonic one, which stands still
//! while the whole machine is suspended, as client-go's does.

mod elector;
mod record;

pub use crate::leader_clock::LeaderClock;
pub use elector::{LeaderElection, LeaderElectionError};

pub(crate) use elector::Elector;
