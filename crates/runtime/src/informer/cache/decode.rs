//! Objects that were decoded lately, shared between readers, bounded by bytes.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;

use super::object::{DecodeError, Object, StateId};

/// Bytes of decoded objects that a store keeps when it is not told otherwise.
pub const DEFAULT_DECODED_BYTES: usize = 32 * 1024 * 1024;
/// A decoded object is this many times its JSON, roughly: k8s-openapi's structs are mostly empty options.
const DECODED_FACTOR: usize = 6;
/// States of objects that are remembered as left out of lists. The newest are: an older one beyond them is left out
/// without a word.
const REPORTED_STATES: usize = 1024;

pub(crate) struct DecodeCache {
    inner: Mutex<Inner>,
    limit: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
    errors: AtomicU64,
}

#[derive(Default)]
struct Inner {
    /// By the state that was decoded; its order never shows.
    objects: HashMap<StateId, Vec<Decoded>, BuildHasherDefault<DefaultHasher>>,
    /// The decoded objects, oldest first. One that was read again since gets a second round.
    order: VecDeque<(StateId, TypeId)>,
    bytes: usize,
    /// The objects that were left out of a list with a warning, and as which type.
    reported: BTreeMap<StateId, Vec<TypeId>>,
}

struct Decoded {
    type_id: TypeId,
    value: Arc<dyn Any + Send + Sync>,
    bytes: usize,
    read_again: bool,
}

impl Default for DecodeCache {
    fn default() -> Self {
        DecodeCache::new(DEFAULT_DECODED_BYTES)
    }
}

impl DecodeCache {
    pub fn new(limit: usize) -> Self {
        DecodeCache {
            inner: Mutex::default(),
            limit: AtomicUsize::new(limit),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }
    }

    /// Keeps at most `bytes` from the next object on.
    pub fn limit_to(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// The decoded object, from the cache or decoded now.
    pub fn decode<K>(&self, object: &Object) -> Result<Arc<K>, DecodeError>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let type_id = TypeId::of::<K>();
        if let Some(value) = self.lookup(object.0.state, type_id) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(value.downcast::<K>().expect("a decoded value is found by its own type"));
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let (value, json_bytes) = object.decode_sized::<K>().inspect_err(|_| {
            self.errors.fetch_add(1, Ordering::Relaxed);
        })?;
        let value = Arc::new(value);
        let bytes = json_bytes * DECODED_FACTOR + size_of::<K>();
        self.keep(object.0.state, Decoded { type_id, value: value.clone(), bytes, read_again: false });
        Ok(value)
    }

    /// As [`DecodeCache::decode`], for one of several objects: `None` if it is to be left out, with a warning the first
    /// time.
    pub fn decode_listed<K>(&self, object: &Object) -> Option<Arc<K>>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let error = match self.decode::<K>(object) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let mut inner = self.inner.lock().expect("no holder of this lock panics");
        let first = inner.tell(object.0.state, TypeId::of::<K>());
        drop(inner);
        if first {
            tracing::warn!(
                kind = object.path("kind"),
                key = error.key.as_str(),
                wanted = error.wanted,
                error = &*error.message,
                "an object does not decode: lists leave it out"
            );
        }
        None
    }

    /// Drops what was decoded from an object that left the store.
    pub fn forget(&self, object: &Object) {
        let mut inner = self.inner.lock().expect("no holder of this lock panics");
        inner.reported.remove(&object.0.state);
        if let Some(decoded) = inner.objects.remove(&object.0.state) {
            inner.bytes -= decoded.iter().map(|decoded| decoded.bytes).sum::<usize>();
        }
    }

    /// Bytes that the kept objects are estimated to take.
    pub fn bytes(&self) -> usize {
        self.inner.lock().expect("no holder of this lock panics").bytes
    }

    /// Reads served from here, reads that decoded, reads that failed to decode.
    pub fn counts(&self) -> (u64, u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.hits), load(&self.misses), load(&self.errors))
    }

    fn lookup(&self, state: StateId, type_id: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        let mut inner = self.inner.lock().expect("no holder of this lock panics");
        let decoded = inner.objects.get_mut(&state)?.iter_mut().find(|decoded| decoded.type_id == type_id)?;
        decoded.read_again = true;
        Some(decoded.value.clone())
    }

    fn keep(&self, state: StateId, decoded: Decoded) {
        let limit = self.limit.load(Ordering::Relaxed);
        if decoded.bytes > limit {
            return;
        }
        let mut inner = self.inner.lock().expect("no holder of this lock panics");
        let kept = inner.objects.entry(state).or_default();
        if kept.iter().any(|known| known.type_id == decoded.type_id) {
            return;
        }
        let (bytes, type_id) = (decoded.bytes, decoded.type_id);
        kept.push(decoded);
        inner.bytes += bytes;
        inner.order.push_back((state, type_id));
        inner.shrink(limit);
    }
}

impl Inner {
    /// Whether it is to be reported now that `state` is left out: not twice, and not of older ones beyond the bound.
    fn tell(&mut self, state: StateId, type_id: TypeId) -> bool {
        let types = self.reported.entry(state).or_default();
        if types.contains(&type_id) {
            return false;
        }
        types.push(type_id);
        if self.reported.len() <= REPORTED_STATES {
            return true;
        }
        self.reported.pop_first().is_some_and(|(oldest, _)| oldest != state)
    }

    fn shrink(&mut self, limit: usize) {
        // Entries whose object left the store are only names by now; they must not pile up either.
        while self.bytes > limit || self.order.len() > 64 + 2 * self.objects.len() {
            let Some((state, type_id)) = self.order.pop_front() else { return };
            let Some(kept) = self.objects.get_mut(&state) else { continue };
            let Some(index) = kept.iter().position(|decoded| decoded.type_id == type_id) else { continue };
            if std::mem::take(&mut kept[index].read_again) {
                self.order.push_back((state, type_id));
                continue;
            }
            self.bytes -= kept.swap_remove(index).bytes;
            if kept.is_empty() {
                self.objects.remove(&state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::cache::body::Body;
    use serde_json::Value;

    fn object(name: &str) -> Object {
        Object::from_json(format!(r#"{{"metadata":{{"name":"{name}"}}}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn readers_share_what_was_decoded() {
        let cache = DecodeCache::new(1 << 20);
        let object = object("a");
        let first = cache.decode::<Value>(&object).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.decode::<Value>(&object).unwrap()));
        assert_eq!(cache.counts(), (1, 1, 0));
        cache.forget(&object);
        assert_eq!(cache.bytes(), 0);
        assert!(!Arc::ptr_eq(&first, &cache.decode::<Value>(&object).unwrap()));
    }

    #[test]
    fn an_object_in_another_form_keeps_what_was_decoded_from_it() {
        let cache = DecodeCache::new(1 << 20);
        let raw = object("a");
        let packed = raw.with_body(Body::Raw(raw.json().into()));
        let first = cache.decode::<Value>(&raw).unwrap();
        let bytes = cache.bytes();
        for form in [&packed, &raw] {
            assert!(Arc::ptr_eq(&first, &cache.decode::<Value>(form).unwrap()));
        }
        assert_eq!(cache.bytes(), bytes);
        assert_eq!(Arc::strong_count(&raw.0), 1, "neither form is held");
        cache.forget(&packed);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn what_is_larger_than_the_limit_leaves_nothing_behind() {
        let cache = DecodeCache::new(10);
        cache.decode::<Value>(&object("a")).unwrap();
        assert!(cache.inner.lock().unwrap().objects.is_empty());
    }

    #[test]
    fn bytes_stay_below_the_limit_and_what_is_read_stays() {
        let cache = DecodeCache::new(2000);
        let hot = object("hot");
        let kept = cache.decode::<Value>(&hot).unwrap();
        for number in 0..100 {
            cache.decode::<Value>(&object(&number.to_string())).unwrap();
            assert!(cache.bytes() <= 2000);
            assert!(Arc::ptr_eq(&kept, &cache.decode::<Value>(&hot).unwrap()), "{number}");
        }
    }

    #[test]
    fn each_state_is_told_of_once_for_each_type_and_within_the_bound() {
        let mut inner = Inner::default();
        let states: Vec<StateId> = (0..REPORTED_STATES + 2).map(|_| StateId::next()).collect();
        let (value, text) = (TypeId::of::<Value>(), TypeId::of::<String>());
        for state in &states[1..=REPORTED_STATES] {
            assert!(inner.tell(*state, value) && inner.tell(*state, text));
        }
        for _ in 0..2 {
            assert!(states[1..=REPORTED_STATES].iter().all(|state| !inner.tell(*state, value)));
            assert!(!inner.tell(states[0], value), "older than all that are remembered");
        }
        assert!(inner.tell(states[REPORTED_STATES + 1], value), "a newer one takes the place of the oldest");
        assert_eq!(inner.reported.len(), REPORTED_STATES);
    }

    #[test]
    fn what_left_the_store_is_no_longer_remembered() {
        let cache = DecodeCache::new(2000);
        let object = object("a");
        for _ in 0..2 {
            assert!(cache.decode_listed::<Vec<String>>(&object).is_none());
        }
        assert_eq!(cache.inner.lock().unwrap().reported.len(), 1);
        assert_eq!(cache.counts().2, 2, "each read is counted");
        cache.forget(&object);
        assert!(cache.inner.lock().unwrap().reported.is_empty());
    }

    #[test]
    fn an_object_of_another_type_is_an_error_on_its_key_alone() {
        let cache = DecodeCache::new(2000);
        let error = cache.decode::<Vec<String>>(&object("a")).unwrap_err();
        assert_eq!(error.key.as_str(), "a");
        assert_eq!(cache.counts().2, 1);
    }
}
