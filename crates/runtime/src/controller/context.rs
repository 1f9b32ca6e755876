//! The surroundings of a reconcile: client, recorder, clock, and why it runs.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use setpoint_api::{Clock, Random};
use tokio_util::sync::CancellationToken;

use crate::client::{Author, Authors, Client};
use crate::queue::{Priority, Reason, Reasons};
use crate::recorder::Recorder;

/// The surroundings of one reconcile. Cheap to clone.
#[derive(Clone)]
pub struct Context(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) controller: Arc<str>,
    pub(super) client: Client,
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) stopping: CancellationToken,
    pub(super) reconcile_id: Arc<str>,
    pub(super) attempt: u32,
    pub(super) reasons: Reasons,
    pub(super) priority: Priority,
}

impl Context {
    /// The client: cached, repeatable reads; writes under this controller's field owner.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Records events about objects. Never blocks.
    pub fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    /// The wall-clock time.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The wall clock.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Random numbers that a seed can replay.
    pub fn random(&self) -> &Random {
        &self.0.random
    }

    /// The controller's name.
    pub fn controller(&self) -> &str {
        &self.0.controller
    }

    /// The id of this reconcile; it is in its tracing span and in its requests' `X-Reconcile-Id` header.
    pub fn reconcile_id(&self) -> &str {
        &self.0.reconcile_id
    }

    /// 1 for the first try, one more after each failure or requeue.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Why this reconcile runs.
    pub fn reasons(&self) -> &Reasons {
        &self.0.reasons
    }

    /// The writes that woke this reconcile, with their authors where a reconcile of this process made them: of another
    /// controller, or of this one. Writes of others have their resourceVersion alone; `metadata.managedFields` on the server
    /// tells more.
    ///
    /// ```no_run
    /// # fn example(ctx: &setpoint::Context) {
    /// for cause in ctx.causes() {
    ///     tracing::info!(%cause, "woken"); // ConfigMap updated at 812 by copier in reconcile 549d4f29-…
    /// }
    /// # }
    /// ```
    pub fn causes(&self) -> Vec<Cause> {
        causes(&self.0.reasons, &self.0.client.core.authors)
    }

    /// The priority it was queued with.
    pub fn priority(&self) -> Priority {
        self.0.priority
    }

    /// Becomes cancelled when the manager stops: a long reconcile can then end early. It is not aborted before the
    /// grace period ends, unless the lease is lost or a second signal comes: then it ends at its next `.await`, without
    /// notice.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("controller", &self.0.controller)
            .field("reconcile_id", &self.0.reconcile_id)
            .finish_non_exhaustive()
    }
}

/// A write that woke a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The kind of the object, and the event; its `revision` is the resourceVersion that the write made.
    pub reason: Reason,
    /// The author, if a reconcile of this process made the write lately.
    pub author: Option<Author>,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.reason, self.reason.revision)?;
        self.author.as_ref().map_or(Ok(()), |author| write!(f, " by {author}"))
    }
}

fn causes(reasons: &Reasons, authors: &Authors) -> Vec<Cause> {
    let writes = reasons.iter().map(|(reason, _)| reason).filter(|reason| reason.revision != 0);
    writes.map(|reason| Cause { reason, author: authors.get(reason.revision) }).collect()
}

/// The causes that this process made, as the span of a reconcile names them.
pub(super) fn woken_by(reasons: &Reasons, authors: &Authors) -> Option<String> {
    let own = causes(reasons, authors).into_iter().filter(|cause| cause.author.is_some());
    let own: Vec<String> = own.map(|cause| cause.to_string()).collect();
    (!own.is_empty()).then(|| own.join(", "))
}
