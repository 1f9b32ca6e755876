//! The API server through `handle`, in process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admission;
mod auth;
mod authorization;
mod cluster;
mod connections;
mod conversion;
mod definitions;
mod depth;
mod escalation;
mod impersonation;
mod interrupts;
mod named;
mod policy;
mod proxy;
mod quotas;
mod reads;
mod relays;
mod request_limits;
mod sizes;
mod tokens;
mod too_large;
mod watches;
mod webhook;
mod writes;
