//! Hands out informers, one for each target, for as long as somebody holds them.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use setpoint_api::Random;

use crate::clock::system_clock;
use crate::informer::cache::{DEFAULT_DECODED_BYTES, FieldOwners, IngestOptions, Store, Transform};
use crate::informer::guard::guarded;
use crate::informer::reflector::ReflectorOptions;
use crate::informer::shared::{
    Core, FeedOptions, SharedInformer, SubscribeOptions, Subscription, WeakInformer, types,
};
use crate::informer::watch::{ClientListerWatcher, Connect, Namespaces, Target};

/// How a factory's informers behave.
#[derive(Clone)]
#[non_exhaustive]
pub struct FactoryOptions {
    /// Bytes of decoded objects that each cache keeps.
    pub decoded_bytes: usize,
    /// The field managers whose field sets the caches keep.
    pub field_owners: FieldOwners,
    /// Compress kinds that have many large objects, each with a dictionary of its own.
    pub compress: bool,
    /// How the informers list and watch.
    pub reflector: ReflectorOptions,
    /// The source of delays and watch times. Seeded differently in each process by default, so that those of a
    /// fleet do not come back all at once; give one of a known seed for a run that is to be repeatable.
    pub random: Random,
}

impl FactoryOptions {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

impl Default for FactoryOptions {
    fn default() -> Self {
        let seed = system_clock().now().as_nanosecond() as u64 ^ (u64::from(std::process::id()) << 32);
        FactoryOptions {
            decoded_bytes: DEFAULT_DECODED_BYTES,
            field_owners: FieldOwners::default(),
            compress: true,
            reflector: ReflectorOptions::default(),
            random: Random::from_seed(seed),
        }
    }
}

/// How one informer differs from the others of its factory.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct InformerOptions {
    /// Changes objects before they are cached. Of an object that it panics on, or leaves nothing of, the metadata alone
    /// is cached: typed reads of it are an error, all others go on. It is counted
    /// (`setpoint_informer_transform_panics_total`) and logged by its key.
    pub transform: Option<Transform>,
    /// Bytes of decoded objects that its cache keeps.
    pub decoded_bytes: Option<usize>,
}

impl InformerOptions {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

/// Hands out shared informers. Clones are the same factory.
///
/// It holds none of them: an informer lives, watches included, while somebody holds a clone of it.
#[derive(Clone)]
pub struct InformerFactory(Arc<Shared>);

struct Shared {
    connect: Connect,
    options: FactoryOptions,
    informers: Mutex<Vec<WeakInformer>>,
}

impl InformerFactory {
    /// A factory over a client. Give it one whose own retries are off (`Config::default_retry = false`): informers
    /// wait and try again themselves.
    pub fn new(client: Client, options: FactoryOptions) -> Self {
        let connect: Connect = Arc::new(move |target, namespace| {
            Arc::new(ClientListerWatcher::new(client.clone(), target, namespace))
        });
        InformerFactory::with_connect(connect, options)
    }

    /// A factory over lister-watchers of one's own making.
    pub fn with_connect(connect: Connect, options: FactoryOptions) -> Self {
        InformerFactory(Arc::new(Shared { connect, options, informers: Mutex::default() }))
    }

    /// The informer for `target`, made now if nobody holds one. It is not started by this.
    ///
    /// Metadata and whole objects of a target share one informer, whichever was asked for first: asking for metadata
    /// alone gives the informer of the whole objects if there is one, and an informer of metadata becomes that of the
    /// whole objects when these are asked for before it was started. After that it is too late, since its handlers
    /// have been told of objects without a body: then whole objects get an informer, a watch and a cache of their own.
    /// So they do where the informer of metadata has a transform.
    pub fn informer(&self, target: Target) -> SharedInformer {
        self.informer_with(target, &InformerOptions::default())
    }

    /// As [`InformerFactory::informer`], with options of its own. They count if the informer is made by this call, or
    /// comes to have whole objects by it; one that others hold stays as it is.
    pub fn informer_with(&self, target: Target, options: &InformerOptions) -> SharedInformer {
        let mut informers = self.0.informers.lock().expect("no holder of this lock panics");
        informers.retain(|informer| informer.upgrade().is_some());
        self.find_or_make(target, options, &mut informers)
    }

    fn find_or_make(
        &self,
        target: Target,
        own: &InformerOptions,
        informers: &mut Vec<WeakInformer>,
    ) -> SharedInformer {
        let mut same: Vec<SharedInformer> = informers.iter().filter_map(WeakInformer::upgrade).collect();
        same.retain(|known| known.target().identity() == target.identity());
        // If there are two informers, the one with whole objects was declared too late for the other.
        same.sort_by_key(|known| known.target().metadata_only);
        if let Some(known) = same.first() {
            let suffices = target.metadata_only || !known.target().metadata_only;
            if suffices || known.widen(&target, |core| self.feed(core, own, informers)) {
                if !suffices {
                    known
                        .store()
                        .decoded()
                        .limit_to(own.decoded_bytes.unwrap_or(self.0.options.decoded_bytes));
                }
                return known.clone();
            }
        }
        let decoded_bytes = own.decoded_bytes.unwrap_or(self.0.options.decoded_bytes);
        let core = Core::new(target, Store::new(decoded_bytes));
        let feed = self.feed(&core, own, informers);
        let informer = SharedInformer::new(core, feed);
        informers.push(informer.downgrade());
        informer
    }

    fn feed(&self, core: &Core, own: &InformerOptions, informers: &mut Vec<WeakInformer>) -> FeedOptions {
        let options = &self.0.options;
        let namespaces = match &core.target().namespaces {
            Namespaces::Labelled(selector) => {
                let target = namespaces_labelled(selector);
                let informer = self.find_or_make(target, &InformerOptions::default(), informers);
                let subscribe = move || {
                    informer.start();
                    informer.subscribe(&SubscribeOptions::default())
                };
                Some(Arc::new(subscribe) as Arc<dyn Fn() -> Subscription + Send + Sync>)
            }
            Namespaces::All | Namespaces::Named(_) => None,
        };
        FeedOptions {
            connect: self.0.connect.clone(),
            reflector: options.reflector.clone(),
            random: options.random.clone(),
            ingest: IngestOptions {
                types: Some(types(core.target())),
                field_owners: options.field_owners.clone(),
                transform: own.transform.clone().map(|transform| {
                    guarded(transform, core.target().resource.kind.clone(), core.metrics.clone())
                }),
                metadata_only: core.target().metadata_only,
                metrics: Some(core.metrics.clone()),
                training: options.compress.then(|| core.training.clone()),
            },
            namespaces,
        }
    }

    /// The informers that somebody holds.
    pub fn informers(&self) -> Vec<SharedInformer> {
        let informers = self.0.informers.lock().expect("no holder of this lock panics");
        informers.iter().filter_map(WeakInformer::upgrade).collect()
    }

    /// Starts every informer that is not started yet. Must be called within a tokio runtime.
    pub fn start(&self) {
        for informer in self.informers() {
            informer.start();
        }
    }

    /// Waits until every informer has synced that exists now.
    ///
    /// Dropping the future ends the wait and changes nothing.
    pub async fn wait_for_cache_sync(&self) {
        crate::informer::sync::wait_for_cache_sync(&self.informers()).await;
    }
}

fn namespaces_labelled(selector: &str) -> Target {
    Target::of::<Namespace>().labels(selector).metadata_only()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two that start together, as two processes of a fleet do, draw different times.
    #[test]
    fn each_default_draws_numbers_of_its_own() {
        let draw = || {
            let random = FactoryOptions::default().random;
            [random.next_u64(), random.next_u64()]
        };
        assert_ne!(draw(), draw());
    }
}
