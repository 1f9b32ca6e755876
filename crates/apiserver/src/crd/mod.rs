//! The life of CustomResourceDefinitions: how they come and go.

mod cleanup;
mod names;
mod validate;

use std::sync::Arc;

use setpoint_store::Event;

pub(crate) use cleanup::{begin_deletion, cleanup_after};
pub(crate) use names::{begin, note_stored_version};
pub(crate) use validate::validate;

use crate::server::Server;

/// Accepts and serves the definitions that a transaction has written, and goes on with what it has begun to delete. The
/// writer is answered after that.
pub(crate) async fn accept_names_after(server: &Server, events: &[Arc<Event>]) {
    names::accept_names_after(server, events).await;
    server.definitions_changed();
    cleanup_after(server, events).await;
}
