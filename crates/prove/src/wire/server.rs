//! The server of a wire: its age, its restarts, and what other clients leave behind on it.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::{DOWN, Wire};
use crate::bystander::Mark;
use crate::webhooks::Webhooks;

impl Wire {
    /// Lets the server refuse to stream first states.
    pub fn lists_instead(&self) {
        self.state().age.lists_only = true;
    }

    /// Gives the wire the switch of the operator's webhooks, which are up.
    pub fn with_webhooks(self, webhooks: Option<Webhooks>) -> Wire {
        webhooks.iter().for_each(Webhooks::come_up);
        Wire { webhooks, ..self }
    }

    /// Begins an outage of the operator's webhooks.
    pub fn webhooks_go_down(&self, time: Duration) {
        self.webhooks.iter().for_each(|webhooks| webhooks.go_down(time));
    }

    /// Lets lists from the server's cache show an old revision, or the present again.
    pub fn look_back(&self, view: Option<u64>) {
        self.state().age.view = view;
    }

    /// Returns whether the server refuses to stream first states.
    pub fn lists_only(&self) -> bool {
        self.state().age.lists_only
    }

    /// Notes a list from the server's cache. Returns the revision that the list shows instead of the newest.
    pub fn list_from_cache(&self, resource: &str) -> Option<u64> {
        let mut state = self.state();
        state.age.cached.insert(resource.to_owned());
        state.age.view
    }

    /// Returns the resources whose first state the operator took from the server's cache.
    pub fn cached(&self) -> BTreeSet<String> {
        self.state().age.cached.clone()
    }

    /// Restarts the server: all connections break, and only the present state is left.
    pub fn restart_server(&self) {
        self.store.compact(self.store.revision());
        let mut state = self.state();
        state.restarted = Some(Instant::now());
        state.last_work = Instant::now();
        drop(state);
        self.ended.notify_waiters();
    }

    /// Returns whether the server is not up again yet.
    pub fn is_down(&self) -> bool {
        self.state().restarted.is_some_and(|moment| moment.elapsed() < DOWN)
    }

    /// Waits for the end of the server on which a watch began.
    pub async fn server_ends(&self, began: Instant) {
        loop {
            let ended = self.ended.notified();
            if self.state().restarted.is_some_and(|moment| began <= moment) {
                return;
            }
            ended.await;
        }
    }

    /// Notes an object that a finalizer of somebody else keeps.
    pub fn keep(&self, path: String) {
        self.state().kept = Some(path);
    }

    /// Returns the object that is kept, once.
    pub fn kept(&self) -> Option<String> {
        self.state().kept.take()
    }

    /// Notes that a write removed a mark of somebody else that it could not have seen.
    pub fn lose(&self, mark: Mark) {
        self.state().lost = Some(mark);
    }

    /// Returns the mark that was lost, once.
    pub fn lost(&self) -> Option<Mark> {
        self.state().lost.take()
    }
}
