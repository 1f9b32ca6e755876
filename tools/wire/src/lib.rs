//! Transcripts of the Kubernetes API: recorded answers of the real kube-apiserver, and the tools to ask our server
//! the same.
//!
//! A [`scenario`] is a named sequence of requests. A target answers them. [`normal`] replaces values that no two
//! servers have in common (uids, versions, times). [`transcript`] keeps requests beside answers in `testdata/wire`.

pub mod fuzz;
pub mod differences;
pub mod attack;
pub mod play;
pub mod families;
pub mod repeat;
pub mod normal;
pub mod plugins;
pub mod policy;
pub mod target;
pub mod certified;
pub mod message;
pub mod peer;
pub mod setting;
pub mod tls;
pub mod transcript;
pub mod scenario;
