//! Hands out informers, one for each target, for as long as somebody holds them.

use std::sync::{Arc, Mutex};

use crate::cache::{DEFAULT_DECODED_BYTES, FieldOwners, Store, Transform};
use crate::informer::{Core, SharedInformer, WeakInformer};
use crate::watch::{ListerWatcher, Target};

/// Makes the lister-watcher for one target and namespace (`None` for all).
pub type Connect = Arc<dyn Fn(&Target, Option<&str>) -> Arc<dyn ListerWatcher> + Send + Sync>;

/// How a factory's informers behave.
#[derive(Clone)]
pub struct FactoryOptions {
    /// Bytes of decoded objects that each cache keeps.
    pub decoded_bytes: usize,
    /// The field managers whose field sets the caches keep.
    pub field_owners: FieldOwners,
    /// Changes objects before they are cached, for targets without one of their own.
    pub transform: Option<Transform>,
}

impl Default for FactoryOptions {
    fn default() -> Self {
        FactoryOptions {
            decoded_bytes: DEFAULT_DECODED_BYTES,
            field_owners: FieldOwners::default(),
            transform: None,
        }
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
    /// A factory over lister-watchers of one's own making.
    pub fn with_connect(connect: Connect, options: FactoryOptions) -> Self {
        InformerFactory(Arc::new(Shared { connect, options, informers: Mutex::default() }))
    }

    /// The informer for `target`, made now if nobody holds one. It is not started by this. Asking for metadata
    /// alone gives the informer of the whole objects if there is one.
    pub fn informer(&self, target: Target) -> SharedInformer {
        let mut informers = self.0.informers.lock().expect("no holder of this lock panics");
        informers.retain(|informer| informer.upgrade().is_some());
        if let Some(known) = informers.iter().filter_map(WeakInformer::upgrade).find(|informer| {
            let known = informer.target();
            known.identity() == target.identity() && (target.metadata_only || !known.metadata_only)
        }) {
            return known;
        }
        let core = Core::new(target, Store::new(self.0.options.decoded_bytes));
        let informer = SharedInformer::new(core);
        informers.push(informer.downgrade());
        informer
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
    pub async fn wait_for_cache_sync(&self) {
        crate::informer::wait_for_cache_sync(&self.informers()).await;
    }
}
