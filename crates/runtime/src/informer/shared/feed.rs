//! The watches of one informer: one for all namespaces, or one for each.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use setpoint_api::Random;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::core::Core;
use super::subscription::Subscription;
use crate::informer::cache::Delta;
use crate::informer::cache::Event;
use crate::informer::cache::{IngestOptions, Object, Scope};
use crate::informer::reflector::{Backoff, Reflector, ReflectorOptions, Sink};
use crate::informer::watch::Connect;
use crate::informer::watch::{Namespaces, Target};

/// The parts that are needed to open a watch.
#[derive(Clone)]
pub(crate) struct FeedOptions {
    pub connect: Connect,
    pub reflector: ReflectorOptions,
    pub random: Random,
    pub ingest: IngestOptions,
    /// Starts the informer of the namespaces that `target` chooses by label, and subscribes to it. Holds that informer.
    pub namespaces: Option<Arc<dyn Fn() -> Subscription + Send + Sync>>,
}

/// Keeps one informer fed until it is dropped.
pub(super) fn run(core: Arc<Core>, options: FeedOptions) -> BoxFuture<'static, ()> {
    match core.target().namespaces.clone() {
        Namespaces::All => watch_scope(core, options, Scope::All).boxed(),
        Namespaces::Named(names) => watch_named(core, options, names).boxed(),
        Namespaces::Labelled(_) => watch_labelled(core, options).boxed(),
    }
}

async fn watch_named(core: Arc<Core>, options: FeedOptions, names: BTreeSet<String>) {
    if names.is_empty() {
        core.mark_synced_if_complete();
    }
    let mut watches = JoinSet::new();
    let scopes: Vec<Scope> = names.iter().map(|name| Scope::namespace(name)).collect();
    // All are declared before the first can report that it has synced.
    scopes.iter().for_each(|scope| core.store.add_scope(scope));
    for scope in scopes {
        watches.spawn(watch_scope(core.clone(), options.clone(), scope));
    }
    while watches.join_next().await.is_some() {}
}

/// Follows the namespaces as they come to match the selector and cease to.
async fn watch_labelled(core: Arc<Core>, options: FeedOptions) {
    let Some(namespaces) = options.namespaces.clone() else { return };
    let mut subscription = namespaces();
    let initial = subscription.sync_handle();
    let mut running: BTreeMap<String, JoinSet<()>> = BTreeMap::new();
    core.await_namespaces();
    let mut reported = false;
    loop {
        let event = tokio::select! {
            biased;
            event = subscription.recv() => event,
            _ = initial.wait(), if !reported => {
                reported = true;
                core.namespaces_known();
                continue;
            }
        };
        match event {
            None => return,
            Some(Event::Delete { object, .. }) => {
                if let Some(mut watch) = running.remove(object.name()) {
                    // Ended for certain before its namespace is forgotten, so that it cannot bring anything back.
                    watch.shutdown().await;
                    core.forget(&Scope::namespace(object.name()));
                    core.mark_synced_if_complete();
                }
            }
            Some(event) => {
                let scope = Scope::namespace(event.object().name());
                running.entry(event.object().name().to_owned()).or_insert_with(|| {
                    core.store.add_scope(&scope);
                    let mut watch = JoinSet::new();
                    watch.spawn(watch_scope(core.clone(), options.clone(), scope));
                    watch
                });
            }
        }
    }
}

/// Not an `async fn`: what it takes to open a watch would be held for as long as the watch runs.
fn watch_scope(core: Arc<Core>, options: FeedOptions, scope: Scope) -> impl Future<Output = ()> {
    core.store.add_scope(&scope);
    let options = Box::new(options);
    async move {
        let reflector = connected(&core, &options, &scope).await;
        drop(options);
        let place = core.relists.join();
        reflector.run_into(CacheSink { core, scope, place }).await;
    }
}

/// A reflector of one scope. What it watches may be made by anybody's code: where that panics it is called again after a
/// wait, or a cache would stay as it is for ever.
async fn connected(core: &Core, options: &FeedOptions, scope: &Scope) -> Reflector {
    let mut backoff = Backoff::new(options.random.clone());
    loop {
        let made = std::panic::catch_unwind(AssertUnwindSafe(|| reflector(core, options, scope)));
        if let Ok(reflector) = made {
            return reflector;
        }
        core.metrics.watch_panics.add(1);
        let kind = core.target().resource.kind.as_str();
        tracing::error!(kind, "starting a watch panicked; retrying");
        tokio::time::sleep(backoff.delay(Instant::now())).await;
    }
}

fn reflector(core: &Core, options: &FeedOptions, scope: &Scope) -> Reflector {
    let namespace = match scope {
        Scope::All => None,
        Scope::Namespace(name) => Some(&**name),
    };
    let lister_watcher = (options.connect)(core.target(), namespace);
    let FeedOptions { reflector, random, ingest, .. } = options.clone();
    let kind = core.target().resource.kind.clone();
    Reflector::with(lister_watcher, reflector, random, ingest, core.metrics.clone(), Some(kind))
}

/// Brings what a reflector learns straight into the cache and to the handlers' mailboxes: a queue between them would
/// be emptied by the same task.
struct CacheSink {
    core: Arc<Core>,
    scope: Scope,
    /// Among the watches that relist.
    place: usize,
}

impl Drop for CacheSink {
    fn drop(&mut self) {
        self.core.relists.leave(self.place);
    }
}

impl Sink for CacheSink {
    fn begins_with_relist(&mut self) -> bool {
        self.core.relists.is_listing(self.place)
    }

    fn poll_relist(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.core.relists.poll(self.place, context)
    }

    async fn take(&mut self, deltas: &mut Vec<Delta>) {
        let began = Instant::now();
        let replaced = self.core.process(&self.scope, deltas.drain(..));
        self.core.metrics.processing.observe(began.elapsed());
        if replaced {
            if let Some(number) = self.core.relists.finish(self.place) {
                self.core.store.note_relist(&self.scope, number);
            }
            self.core.mark_synced_if_complete();
        }
    }

    fn exchange(&mut self, raw: Object, packed: Object) {
        self.core.store.swap_packed(vec![(raw, packed)]);
    }
}

/// The beginning of an object of a target, which lists leave out.
pub(crate) fn types(target: &Target) -> Cow<'static, str> {
    if target.metadata_only {
        return Cow::Borrowed(r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#);
    }
    let (kind, api_version) = (&target.resource.kind, &target.resource.api_version);
    Cow::Owned(format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","#))
}
