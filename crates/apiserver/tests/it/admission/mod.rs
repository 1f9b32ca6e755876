//! Admission webhooks, called over TLS, and policies.

mod bounds;
pub mod hook;
mod judging;
mod matching;
mod mutating;
mod operations;
mod policies;
mod stored;
