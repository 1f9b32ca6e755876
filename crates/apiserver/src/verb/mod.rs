//! One file per verb.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod deletecollection;
pub(crate) mod get;
pub(crate) mod patch;
pub(crate) mod update;
pub(crate) mod watch;
pub(crate) mod list;
