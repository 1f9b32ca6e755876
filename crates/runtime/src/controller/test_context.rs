//! A context for unit tests: a reconcile is called as a plain function.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_api::{Clock, Random};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::context::{Context, Inner};
use crate::client::{Identity, Reads};
use crate::clock::tokio_clock;
use crate::manager::{Manager, ManagerOptions};
use crate::queue::{Priority, Reasons};
use crate::recorder::{EventType, Recorded};

/// The name of the controller, and the field owner, of a context for tests.
const NAME: &str = "test";

/// The time at which the clock of a context for tests begins: 2026-01-01.
const BEGIN: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// A [`Context`] for calling a reconcile directly in a test, and the events that the reconcile recorded.
///
/// - Reads go to the server and need no informer. An index of the cache is an error.
/// - Writes go to the server at once: there is no lease to lose.
/// - Events are kept for [`TestContext::events`] and not sent.
/// - The clock begins at 2026-01-01 and follows tokio's time. Random numbers have the seed 0.
///
/// The client is the in-process cluster's (`setpoint-cluster`), or one over a `tower` service that plays the server.
///
/// ```no_run
/// # use setpoint::{Action, Context, Error, Key, Reconciler};
/// # async fn reconcile(ctx: Context, key: Key) -> Result<Action, Error> { Ok(Action::done()) }
/// # async fn test(client: kube::Client) {
/// let mut test = Context::for_test(client).with_seed(7);
/// let action = reconcile(test.context(), Key::namespaced("default", "web")).await.unwrap();
/// assert_eq!(action, Action::done());
/// assert_eq!(test.events()[0].to_string(), "Normal Published the page is up");
/// # }
/// ```
pub struct TestContext {
    client: kube::Client,
    clock: Clock,
    random: Random,
    context: Context,
    recorded: mpsc::Receiver<Recorded>,
}

/// An event that a reconcile recorded in a test. Its text is `TYPE REASON MESSAGE`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordedEvent {
    /// How serious it is.
    pub event_type: EventType,
    /// The reason, one word.
    pub reason: String,
    /// The action of the controller.
    pub action: String,
    /// The message for people.
    pub message: String,
    /// The object that it is about.
    pub regarding: ObjectReference,
    /// Another object, if it names one.
    pub related: Option<ObjectReference>,
    /// The time of the clock.
    pub time: Timestamp,
}

impl fmt::Display for RecordedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.event_type, self.reason, self.message)
    }
}

impl From<Recorded> for RecordedEvent {
    fn from(recorded: Recorded) -> Self {
        let Recorded { kind, reason, action, message, regarding, related, time, .. } = recorded;
        RecordedEvent { event_type: kind, reason, action, message, regarding, related, time }
    }
}

impl Context {
    /// Makes a context for calling a reconcile directly in a test: [`TestContext`] says how it behaves.
    pub fn for_test(client: kube::Client) -> TestContext {
        TestContext::new(client, tokio_clock(BEGIN), Random::from_seed(0))
    }
}

impl TestContext {
    fn new(client: kube::Client, clock: Clock, random: Random) -> Self {
        let options = ManagerOptions::with(|options| {
            options.name = NAME.to_owned();
            options.clock = clock.clone();
            options.random = random.clone();
        });
        let manager = Manager::new(client.clone(), options);
        let identity = Identity {
            field_owner: NAME.to_owned(),
            leader: None,
            applies_skipped: manager.metrics().applies_skipped(NAME),
            consistent: true,
            informers: Vec::new(),
            reads: Reads::Server,
        };
        let recorded = manager.take_recorded().expect("a manager that does not run has its queue of events");
        let context = Context(Arc::new(Inner {
            controller: NAME.into(),
            client: manager.client_for(identity),
            recorder: manager.recorder_for(NAME, None),
            clock: clock.clone(),
            random: random.clone(),
            stopping: CancellationToken::new(),
            reconcile_id: random.uid().into(),
            attempt: 1,
            reasons: Reasons::default(),
            priority: Priority::DEFAULT,
        }));
        TestContext { client, clock, random, context, recorded }
    }

    /// The same with another clock, as [`Context::clock`] and in events.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        TestContext::new(self.client, clock, self.random)
    }

    /// The same with random numbers of another seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        TestContext::new(self.client, self.clock, Random::from_seed(seed))
    }

    /// Returns the context to call a reconcile with. Clones are one context.
    pub fn context(&self) -> Context {
        self.context.clone()
    }

    /// Takes the events that were recorded since the last call, in their order. As in a manager at most
    /// [`QUEUE`](crate::recorder::QUEUE) wait; later ones are dropped.
    pub fn events(&mut self) -> Vec<RecordedEvent> {
        std::iter::from_fn(|| self.recorded.try_recv().ok()).map(RecordedEvent::from).collect()
    }
}

impl fmt::Debug for TestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestContext").field("context", &self.context).finish_non_exhaustive()
    }
}
