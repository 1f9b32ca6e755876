//! Transcripts of the Kubernetes API: what the real kube-apiserver answered, and how to ask ours the same.
//!
//! A [`scenario`] is a named sequence of requests. A target answers them; [`normal`] replaces what no two servers
//! can have in common (uids, versions, times); [`transcript`] keeps requests beside answers in `testdata/wire`.

pub mod differences;
pub mod families;
pub mod fuzz;
pub mod normal;
pub mod peer;
pub mod play;
pub mod policy;
pub mod scenario;
pub mod target;
pub mod transcript;
