//! A cache and its handlers by hand: Reflector → DeltaQueue → `Mirror::handle_deltas` → `Processor::distribute` →
//! handlers. It is the path of client-go's `cache.Controller`, with the names of client-go.

use std::sync::Arc;
use std::time::Duration;

use setpoint::Target;
use setpoint::clock::Random;
use setpoint::informer::{
    ClientListerWatcher, Delta, Event, Pump, Reflector, ReflectorOptions, Scope, Store, wait_for_cache_sync,
};

/// A function that is called with each event, in order.
pub type Handler = Box<dyn Fn(&Event) + Send + Sync>;

/// The handlers of one mirror: client-go's `sharedProcessor`.
#[derive(Default)]
pub struct Processor {
    handlers: Vec<Handler>,
}

impl Processor {
    /// Adds a handler.
    pub fn add(&mut self, handler: impl Fn(&Event) + Send + Sync + 'static) {
        self.handlers.push(Box::new(handler));
    }

    /// Calls each handler with each event. client-go puts the event into a buffer of each handler here
    /// (`processorListener.add`). Without a buffer, a slow handler holds up the queue, and a full queue the watch.
    fn distribute(&self, events: &[Event]) {
        for event in events {
            self.handlers.iter().for_each(|handler| handler(event));
        }
    }
}

/// A copy of one collection of the server, and its handlers.
pub struct Mirror {
    pump: Pump,
    store: Store,
    processor: Processor,
}

impl Mirror {
    /// Joins a reflector of `target`, a queue, a store and handlers. Nothing is sent before [`Mirror::run`].
    pub fn new(client: kube::Client, target: &Target, random: Random, processor: Processor) -> Self {
        let lister_watcher = Arc::new(ClientListerWatcher::new(client, target, None));
        let reflector = Reflector::new(lister_watcher, ReflectorOptions::default(), random.clone());
        Mirror { pump: Pump::new(reflector, random), store: Store::default(), processor }
    }

    /// Tells the handlers of every object again each `period`.
    #[must_use]
    pub fn full_resync(self, period: Duration) -> Self {
        Mirror { pump: self.pump.full_resync(period), ..self }
    }

    /// Lists, watches and handles until [`Mirror::stop`].
    pub async fn run(&self) {
        self.pump.run(|deltas| self.handle_deltas(deltas)).await;
    }

    /// Changes the store first and tells the handlers then, so that a handler finds in the store what it is told.
    fn handle_deltas(&self, deltas: &mut dyn Iterator<Item = Delta>) {
        let mut events = Vec::new();
        self.store.apply_all(&Scope::All, deltas, &mut events);
        self.processor.distribute(&events);
    }

    /// Waits until the first full state has been handled. False if the mirror was stopped before.
    pub async fn wait_synced(&self) -> bool {
        wait_for_cache_sync(&[&self.pump]).await
    }

    /// Returns the resourceVersion that the mirror has reached.
    pub fn last_sync_resource_version(&self) -> Option<String> {
        self.pump.last_sync_resource_version()
    }

    /// Returns the copy.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Ends [`Mirror::run`] once the deltas that wait are handled.
    pub fn stop(&self) {
        self.pump.stop();
    }
}
