//! A registered controller, seen from outside.

use std::sync::Arc;

use kube::core::ApiResource;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::arrivals::{Added, Arrivals};
use super::reconcile::Request;
use super::source::{Map, Origin, Source, map_changes, map_objects, map_owner};
use crate::informer::Object;
use crate::informer::Target;
use crate::manager::{Manager, SetupError};
use crate::predicate::Change;
use crate::queue::Source as Reporter;
use crate::queue::{Priority, Reason, WorkQueue};

/// A registered controller: its queue from outside, and what changes while it runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControllerHandle {
    pub(super) queue: WorkQueue<Request>,
    pub(super) manager: Manager,
    /// The controller's own kind, and whether it lives in namespaces.
    pub(super) primary: Option<(ApiResource, bool)>,
    pub(super) arrivals: Arc<Arrivals>,
    pub(super) stop: CancellationToken,
}

/// A watch that was added to a controller; dropping it ends the watch. Its informer ends with the last holder.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct AddedWatch {
    _ends: DropGuard,
    arrivals: Arc<Arrivals>,
    number: u64,
}

impl Drop for AddedWatch {
    fn drop(&mut self) {
        self.arrivals.forget(self.number);
    }
}

impl ControllerHandle {
    /// Queues a request.
    pub fn enqueue(&self, request: &Request) {
        self.queue.add_with(request, Priority::DEFAULT, Reason::MANUAL);
    }

    /// How many requests are ready.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing is ready, running or delayed.
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Begins to watch more, at any time: as
    /// [`Controller::watches_target`](crate::Controller::watches_target), until the answer is dropped. For kinds and
    /// namespaces that are known only while the program runs.
    ///
    /// # Errors
    /// When the controller has stopped.
    pub fn watch(
        &self,
        target: Target,
        map: impl Fn(&Object) -> Vec<Request> + Send + Sync + 'static,
    ) -> Result<AddedWatch, SetupError> {
        self.add(target, map_objects(map))
    }

    /// As [`ControllerHandle::watch`], with old and new together.
    ///
    /// # Errors
    /// When the controller has stopped.
    pub fn watch_changes(
        &self,
        target: Target,
        map: impl Fn(&Change<'_>) -> Vec<Request> + Send + Sync + 'static,
    ) -> Result<AddedWatch, SetupError> {
        self.add(target, map_changes(map))
    }

    /// Begins to watch more objects of the controller's own kind, such as those of another namespace.
    ///
    /// # Errors
    /// When the controller has stopped.
    pub fn watch_more(&self, target: Target) -> Result<AddedWatch, SetupError> {
        self.add(target, super::source::map_self())
    }

    /// Begins to watch what the controller's objects own, as their controller or (`any_owner`) in any way.
    ///
    /// # Errors
    /// When the controller has stopped, or has no kind of its own.
    pub fn watch_owned(&self, target: Target, any_owner: bool) -> Result<AddedWatch, SetupError> {
        let Some((owner, namespaced)) = &self.primary else {
            return Err(SetupError::NoKind(self.queue.name().to_owned()));
        };
        self.add(target, map_owner(owner.group.clone(), owner.kind.clone(), *namespaced, any_owner))
    }

    fn add(&self, target: Target, map: Map) -> Result<AddedWatch, SetupError> {
        let name = Reporter::named(&target.resource.kind);
        let informer = self.manager.hold(target);
        let source = Source { origin: Origin::Informer { informer, map }, name, predicates: Vec::new() };
        let ends = CancellationToken::new();
        let added = Added { source, ends: ends.clone() };
        let number = self.arrivals.add(added).ok_or(SetupError::Stopped)?;
        Ok(AddedWatch { _ends: ends.drop_guard(), arrivals: Arc::clone(&self.arrivals), number })
    }

    /// Stops this controller alone: running reconciles finish, what it watched and nobody else holds ends, and its
    /// name may be taken again. Also before it runs, while its caches sync or this process is not the leader.
    pub fn stop(&self) {
        self.stop.cancel();
        self.manager.drop_stopped();
    }
}
