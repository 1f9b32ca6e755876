//! The informers that a manager declared, and which of them answers a read.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kube::core::ApiResource;

use super::Client;
use super::kind::Kind;
use crate::error::ClientError;
use crate::informer::SharedInformer;
use crate::informer::{Namespaces, Target};
use crate::key::Key;

/// A declared informer. The number identifies it within the process.
#[derive(Clone)]
pub(crate) struct Declared {
    pub(crate) number: usize,
    pub(crate) informer: SharedInformer,
}

impl Declared {
    /// How often the server went back, as its cache knows it.
    pub(super) fn epoch(&self, namespace: Option<&str>) -> Option<u64> {
        Some(self.informer.store().progress(namespace)?.epoch)
    }

    /// Whether an object with this key and these labels surely appears in its cache. What a field selector finds by
    /// anything but the key cannot be judged from here: the answer is no.
    pub(super) fn surely_sees(&self, key: &Key, labels: &BTreeMap<String, String>) -> bool {
        covers(&self.informer, ReadScope::of(key.namespace()))
            && self.informer.target().surely_selects(key, labels)
    }
}

/// All informers of a manager. Clones are one registry; it keeps them alive.
#[derive(Clone, Default)]
pub(crate) struct Caches(Arc<Registry>);

#[derive(Default)]
struct Registry {
    known: RwLock<Vec<Entry>>,
    next_number: AtomicUsize,
    ended: AtomicBool,
}

/// A declared informer and why it is kept.
struct Entry {
    declared: Declared,
    /// Whole objects were declared for good, until they are forgotten by name.
    whole: bool,
    /// So was the metadata alone, which this informer has too.
    metadata: bool,
    /// How many [`HeldInformer`]s there are.
    held: usize,
}

impl Entry {
    /// Whether a target was declared for good: the whole objects, or their metadata alone.
    fn kept(&mut self, metadata_only: bool) -> &mut bool {
        if metadata_only { &mut self.metadata } else { &mut self.whole }
    }

    fn is_wanted(&self) -> bool {
        self.whole || self.metadata || self.held > 0
    }
}

/// An informer that a manager keeps while this is held, also for reads: the last holder's drop ends it, unless it was
/// declared for good.
#[must_use = "the informer ends with the last that is held"]
pub struct HeldInformer {
    caches: Caches,
    declared: Declared,
}

impl HeldInformer {
    pub(crate) fn number(&self) -> usize {
        self.declared.number
    }
}

impl Deref for HeldInformer {
    type Target = SharedInformer;

    fn deref(&self) -> &SharedInformer {
        &self.declared.informer
    }
}

impl fmt::Debug for HeldInformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HeldInformer").field(&self.declared.informer.target().resource.kind).finish()
    }
}

impl Drop for HeldInformer {
    fn drop(&mut self) {
        let mut known = self.caches.write();
        if let Some(place) = known.iter().position(|entry| entry.declared.number == self.declared.number) {
            known[place].held -= 1;
            if !known[place].is_wanted() {
                known.remove(place);
            }
        }
    }
}

/// A kind by its names, whichever type of the program stands for it.
#[derive(Clone, Copy)]
pub(crate) struct KindName<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

impl<'a> KindName<'a> {
    pub(crate) fn of(resource: &'a ApiResource) -> Self {
        KindName { group: &resource.group, version: &resource.version, kind: &resource.kind }
    }

    fn is(&self, resource: &ApiResource) -> bool {
        resource.kind == self.kind && resource.group == self.group && resource.version == self.version
    }
}

/// Which objects a read wants.
#[derive(Clone, Copy)]
pub(crate) enum ReadScope<'a> {
    Namespace(&'a str),
    Cluster,
    Everywhere,
}

impl<'a> ReadScope<'a> {
    /// The place of an object that has this namespace, or none.
    pub(super) fn of(namespace: Option<&'a str>) -> Self {
        namespace.map_or(ReadScope::Cluster, ReadScope::Namespace)
    }
}

impl Caches {
    fn write(&self) -> RwLockWriteGuard<'_, Vec<Entry>> {
        self.0.known.write().expect("no holder of this lock panics")
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Entry>> {
        self.0.known.read().expect("no holder of this lock panics")
    }

    /// Keeps an informer, of whole objects or for their `metadata_only`, until that is forgotten.
    pub(crate) fn declare(&self, informer: SharedInformer, metadata_only: bool) -> Declared {
        let mut known = self.write();
        let entry = self.entry(&mut known, informer);
        *entry.kept(metadata_only) = true;
        entry.declared.clone()
    }

    /// Keeps an informer while the answer is held.
    pub(crate) fn hold(&self, informer: SharedInformer) -> HeldInformer {
        let mut known = self.write();
        let entry = self.entry(&mut known, informer);
        entry.held += 1;
        HeldInformer { caches: self.clone(), declared: entry.declared.clone() }
    }

    fn entry<'a>(&self, known: &'a mut Vec<Entry>, informer: SharedInformer) -> &'a mut Entry {
        let same = |entry: &Entry| entry.declared.informer.target() == informer.target();
        let place = known.iter().position(same).unwrap_or_else(|| {
            let declared = Declared { number: self.0.next_number.fetch_add(1, Ordering::Relaxed), informer };
            known.push(Entry { declared, whole: false, metadata: false, held: 0 });
            known.len() - 1
        });
        &mut known[place]
    }

    /// Stops keeping an informer, unless it serves others too: whole objects and their metadata may share one.
    pub(crate) fn forget(&self, target: &Target) {
        self.write().retain_mut(|entry| {
            if entry.declared.informer.target().identity() == target.identity() {
                *entry.kept(target.metadata_only) = false;
            }
            entry.is_wanted()
        });
    }

    /// Stops keeping any, for good.
    pub(crate) fn end(&self) {
        self.0.ended.store(true, Ordering::Relaxed);
        self.write().clear();
    }

    fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Relaxed)
    }

    pub(crate) fn all(&self) -> Vec<Declared> {
        self.read().iter().map(|entry| entry.declared.clone()).collect()
    }

    /// The informers that may see a write to this kind, whatever version they read it in.
    pub(crate) fn of_kind(&self, resource: &ApiResource) -> Vec<Declared> {
        let same = |target: &Target| {
            target.resource.kind == resource.kind && target.resource.group == resource.group
        };
        let known = self.read();
        let declared = known.iter().map(|entry| &entry.declared);
        declared.filter(|declared| same(declared.informer.target())).cloned().collect()
    }

    /// The informer that answers a read; one without selectors is preferred, then one of `own`.
    pub(super) fn find(
        &self,
        kind: KindName<'_>,
        place: ReadScope<'_>,
        metadata_suffices: bool,
        own: &[usize],
    ) -> Result<Declared, ClientError> {
        let known = self.read();
        let fits = |declared: &&Declared| {
            let target = declared.informer.target();
            kind.is(&target.resource)
                && (metadata_suffices || !target.metadata_only)
                && covers(&declared.informer, place)
        };
        let rank = |declared: &&Declared| {
            let target = declared.informer.target();
            let selective = usize::from(target.labels.is_some()) + usize::from(target.fields.is_some());
            let restricted = target.namespaces != Namespaces::All;
            (selective, target.metadata_only, restricted, !own.contains(&declared.number))
        };
        let fitting = || known.iter().map(|entry| &entry.declared).filter(fits);
        let first = fitting().min_by_key(|declared| (rank(declared), declared.number));
        let first = first.ok_or_else(|| match self.has_ended() {
            true => ClientError::Stopped,
            false => no_informer(&known, kind, place),
        })?;
        let namespaces = &first.informer.target().namespaces;
        let elsewhere =
            |other| rank(&other) == rank(&first) && other.informer.target().namespaces != *namespaces;
        if matches!(place, ReadScope::Everywhere) && fitting().any(elsewhere) {
            return Err(ClientError::PartialInformers { kind: kind.kind.to_owned() });
        }
        Ok(first.clone())
    }
}

impl Client {
    /// The informer that answers this client's read. Of several that see a part each, its own controller's: that one
    /// told of the object.
    pub(super) fn informer_for(
        &self,
        resource: &ApiResource,
        place: ReadScope<'_>,
        metadata_suffices: bool,
    ) -> Result<Declared, ClientError> {
        self.core.caches.find(KindName::of(resource), place, metadata_suffices, &self.identity.informers)
    }

    /// As [`Client::informer_for`], for a kind of the program, whole.
    pub(super) fn typed_informer_for<K: Kind>(&self, place: ReadScope<'_>) -> Result<Declared, ClientError> {
        let (group, version, kind) = (K::group(&()), K::version(&()), K::kind(&()));
        let kind = KindName { group: &group, version: &version, kind: &kind };
        self.core.caches.find(kind, place, false, &self.identity.informers)
    }
}

/// Says also what there is of the kind.
fn no_informer(known: &[Entry], kind: KindName<'_>, place: ReadScope<'_>) -> ClientError {
    let targets = known.iter().map(|entry| entry.declared.informer.target());
    let of_kind: Vec<&Target> = targets.filter(|target| kind.is(&target.resource)).collect();
    let elsewhere = of_kind.iter().any(|target| target.namespaces != Namespaces::All);
    let scope = match place {
        ReadScope::Namespace(namespace) if elsewhere => {
            format!(" in namespace {namespace} (only in other namespaces)")
        }
        ReadScope::Namespace(namespace) => format!(" in namespace {namespace}"),
        ReadScope::Cluster | ReadScope::Everywhere => String::new(),
    };
    let metadata =
        if of_kind.iter().any(|target| target.metadata_only) { " (its metadata alone)" } else { "" };
    let scope = format!("{scope}{metadata}");
    ClientError::NoInformer { kind: kind.kind.to_owned(), scope, elsewhere: !of_kind.is_empty() }
}

fn covers(informer: &SharedInformer, place: ReadScope<'_>) -> bool {
    match (&informer.target().namespaces, place) {
        (Namespaces::All, _) | (_, ReadScope::Everywhere) => true,
        (Namespaces::Named(names), ReadScope::Namespace(namespace)) => names.contains(namespace),
        (Namespaces::Labelled(_), ReadScope::Namespace(namespace)) => {
            informer.store().progress(Some(namespace)).is_some()
        }
        (_, ReadScope::Cluster) => false,
    }
}
