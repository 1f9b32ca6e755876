//! Admission webhooks, called over TLS.

mod hook;
mod judging;
mod matching;
mod mutating;
mod operations;
