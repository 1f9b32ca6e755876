//! The part that an author writes: a [`Reconciler`] is given a [`Key`] and returns an [`Action`].

use std::future::Future;
use std::time::Duration;

use futures::future::BoxFuture;

use super::context::Context;
use crate::error::Error;
use crate::key::Key;
use crate::queue::Priority;

/// The action for the key after a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Action {
    pub(crate) requeue: Requeue,
    pub(crate) priority: Option<Priority>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    WhenChanged,
    RateLimited,
    After(Duration),
}

impl Action {
    /// Nothing: the next change queues the key.
    pub const fn done() -> Self {
        Action { requeue: Requeue::WhenChanged, priority: None }
    }

    /// Another run after the key's back-off, which grows as it does after an error.
    pub const fn requeue() -> Self {
        Action { requeue: Requeue::RateLimited, priority: None }
    }

    /// Another run after `delay`. The key's back-off starts over. A delay of zero is [`Action::done`].
    pub const fn requeue_after(delay: Duration) -> Self {
        if delay.is_zero() {
            return Action::done();
        }
        Action { requeue: Requeue::After(delay), priority: None }
    }

    /// Gives the next run another priority than this one had.
    pub const fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }
}

/// Drives one object toward what it asks for. Called with one key at a time per object.
///
/// ```
/// use setpoint::{Action, Context, Error, Key, Reconciler};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Labeller;
///
/// impl Reconciler for Labeller {
///     async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
///         let Some(config) = ctx.client().get::<ConfigMap>(&key).await? else {
///             return Ok(Action::done()); // deleted
///         };
///         tracing::info!(keys = config.data.as_ref().map_or(0, |data| data.len()), "seen");
///         Ok(Action::done())
///     }
/// }
/// ```
///
/// A function or closure `Fn(Context, Key) -> impl Future` is a reconciler too.
///
/// Its future is dropped at an `.await` when its timeout is over, when the grace period of a stop is, and when this process
/// loses its lease: what must not be cut in two there belongs into a task of its own.
pub trait Reconciler: Send + Sync + 'static {
    /// Brings the object named by `key` closer to its spec.
    fn reconcile(&self, ctx: &Context, key: Key) -> impl Future<Output = Result<Action, Error>> + Send;
}

impl<F, R> Reconciler for F
where
    F: Fn(Context, Key) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, Error>> + Send,
{
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        self(ctx.clone(), key).await
    }
}

/// [`Reconciler`] behind a pointer.
pub(crate) trait DynReconciler: Send + Sync + 'static {
    fn reconcile_boxed<'a>(&'a self, ctx: &'a Context, key: Key) -> BoxFuture<'a, Result<Action, Error>>;
}

impl<R: Reconciler> DynReconciler for R {
    fn reconcile_boxed<'a>(&'a self, ctx: &'a Context, key: Key) -> BoxFuture<'a, Result<Action, Error>> {
        Box::pin(self.reconcile(ctx, key))
    }
}
