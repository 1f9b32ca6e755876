//! Events about objects, for people: what `kubectl describe` shows.
//!
//! Recording never blocks and never fails: events go into a bounded queue and a task of the manager sends them.
//! Equal events become one with a count; many similar ones are combined; an object that floods is cut off.

mod sink;
mod correlate;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_api::Clock;
use tokio::sync::{mpsc, watch};

use crate::client::Kind;
use crate::leader_clock::LeaderClock;
use crate::metrics::Metrics;

pub use correlate::{
    AGGREGATE_AFTER, AGGREGATE_WINDOW, CorrelatorOptions, MAX_TRACKED, SERIES_END, SERIES_REFRESH,
    SPAM_BURST, SPAM_REFILL,
};
pub use sink::EventApi;

pub(crate) use sink::Sink;

/// How many events may wait to be sent. Beyond it new ones are dropped and counted.
pub const QUEUE: usize = 1000;

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        })
    }
}

/// One event as it was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) controller: Arc<str>,
    pub(crate) host: Arc<str>,
    pub(crate) api: EventApi,
    pub(crate) kind: EventType,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) message: String,
    pub(crate) regarding: ObjectReference,
    pub(crate) related: Option<ObjectReference>,
    pub(crate) time: jiff::Timestamp,
    /// Asked right before every send, if only the leader may speak.
    pub(crate) leader: Option<LeaderClock>,
}

/// Records events on behalf of one controller. Cheap to clone.
///
/// ```no_run
/// # fn example(ctx: &setpoint::Context, pod: &k8s_openapi::api::core::v1::Pod) {
/// ctx.recorder().normal(pod, "Synced", "Pod synced successfully");
/// ctx.recorder().warning(pod, "Failed", "the image does not exist");
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

/// The state that the clones of a recorder share.
#[derive(Clone)]
struct Shared {
    controller: Arc<str>,
    host: Arc<str>,
    api: EventApi,
    sender: mpsc::Sender<Recorded>,
    unsent: Unsent,
    metrics: Metrics,
    clock: Clock,
    leader: Option<LeaderClock>,
}

/// How many events wait or are on their way.
#[derive(Clone, Debug)]
pub(crate) struct Unsent(watch::Sender<usize>);

impl Unsent {
    pub(crate) fn new() -> Self {
        Unsent(watch::Sender::new(0))
    }

    fn sent(&self) {
        self.0.send_modify(|count| *count -= 1);
    }

    /// Waits until everything was sent or given up.
    pub(crate) async fn none(&self) {
        // The sender is held here, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("controller", &self.0.controller).finish_non_exhaustive()
    }
}

impl Recorder {
    pub(crate) fn new(
        (controller, api): (&str, EventApi),
        sender: mpsc::Sender<Recorded>,
        unsent: Unsent,
        metrics: Metrics,
        clock: Clock,
        leader: Option<LeaderClock>,
    ) -> Self {
        let (controller, host) = (controller.into(), "".into());
        Recorder(Arc::new(Shared { controller, host, api, sender, unsent, metrics, clock, leader }))
    }

    /// The same, writing this API rather than the manager's.
    #[must_use]
    pub fn with_api(&self, api: EventApi) -> Self {
        Recorder(Arc::new(Shared { api, ..(*self.0).clone() }))
    }

    /// The same, speaking from this host: events of `v1` name it beside the controller, as a kubelet's do.
    #[must_use]
    pub fn with_host(&self, host: &str) -> Self {
        Recorder(Arc::new(Shared { host: host.into(), ..(*self.0).clone() }))
    }

    /// Records a normal event about `object`. `reason` is one word in CamelCase, for programs.
    pub fn normal<K: Kind>(&self, object: &K, reason: &str, message: impl Into<String>) {
        self.publish(EventType::Normal, reference(object), None, reason, reason, message.into());
    }

    /// Records a warning about `object`.
    pub fn warning<K: Kind>(&self, object: &K, reason: &str, message: impl Into<String>) {
        self.publish(EventType::Warning, reference(object), None, reason, reason, message.into());
    }

    /// Records an event in full: about `regarding`, perhaps in relation to another object; `action` says what the
    /// controller was doing.
    pub fn publish(
        &self,
        kind: EventType,
        regarding: ObjectReference,
        related: Option<ObjectReference>,
        reason: &str,
        action: &str,
        message: String,
    ) {
        let Recorder(desk) = self;
        let event = Recorded {
            controller: Arc::clone(&desk.controller),
            host: Arc::clone(&desk.host),
            api: desk.api,
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message,
            regarding,
            related,
            time: desk.clock.now(),
            leader: desk.leader.clone(),
        };
        desk.unsent.0.send_modify(|count| *count += 1);
        if desk.sender.try_send(event).is_err() {
            desk.unsent.sent();
            desk.metrics.event_dropped("queue-full");
            tracing::debug!(controller = %desk.controller, reason, "event dropped: too many wait");
        }
    }
}

/// A reference to an object of the program's type, as events carry it.
pub fn reference<K: Kind>(object: &K) -> ObjectReference {
    let metadata = object.meta();
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path: None,
    }
}
