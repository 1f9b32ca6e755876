//! The texts that objects of one workload are kept as differences from.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::Body;
use super::dictionary::Packer;
use super::difference::difference;
use crate::hash::FoldState;
use crate::informer::cache::intern::{SEED, SWEEP_FLOOR};

/// A base that fewer are made from is compressed: its size matters more than the time to expand it.
pub(super) const SHARED: usize = 8;

/// A text as long as this is worth a base.
const SHORTEST_TEXT: usize = 512;
/// A difference may be this part of its text.
const LARGEST_PART: usize = 4;
/// A workload whose objects differ this often in a row from its base gets a new one.
const MISSES: u8 = 2;
/// When the bases of a kind have so many bytes, those that nothing is made from any more are let go; then again each time
/// that they have doubled.
const SWEEP_BYTES: u64 = 256 * 1024;

/// A text that objects are kept as differences from: one of them, as it was once.
pub(crate) struct Base {
    text: RwLock<Body>,
    /// The bytes of all bases of a kind.
    counter: Arc<AtomicU64>,
}

impl Base {
    pub(super) fn new(text: Body, counter: &Arc<AtomicU64>) -> Arc<Self> {
        counter.fetch_add(text.stored_bytes() as u64, Ordering::Relaxed);
        Arc::new(Base { text: RwLock::new(text), counter: counter.clone() })
    }

    /// Calls `read` with the text.
    pub fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(&self.text.read().expect("no holder of this lock panics").expand())
    }

    /// How long the text is.
    pub fn length(&self) -> usize {
        self.text.read().expect("no holder of this lock panics").length()
    }

    /// Compresses the text if few objects share it.
    pub fn pack(self: &Arc<Self>, packer: &mut Packer) {
        let mut text = self.text.write().expect("no holder of this lock panics");
        if Arc::strong_count(self) <= SHARED && !packer.has_packed(&text) {
            let packed = packer.pack(&text.expand());
            self.exchange(&mut text, packed);
        }
    }

    /// Appends to `patch` what makes `json` out of this text; false when that takes more than `limit` bytes.
    pub(super) fn difference(self: &Arc<Self>, json: &[u8], limit: usize, patch: &mut Vec<u8>) -> bool {
        if let Body::Raw(text) = &*self.text.read().expect("no holder of this lock panics") {
            return difference(text, json, limit, patch);
        }
        if Arc::strong_count(self) > SHARED {
            let mut text = self.text.write().expect("no holder of this lock panics");
            let raw = Body::Raw(text.expand().into());
            self.exchange(&mut text, raw);
        }
        self.read(|text| difference(text, json, limit, patch))
    }

    fn exchange(&self, text: &mut Body, other: Body) {
        self.counter.fetch_add(other.stored_bytes() as u64, Ordering::Relaxed);
        self.counter.fetch_sub(text.stored_bytes() as u64, Ordering::Relaxed);
        *text = other;
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let text = self.text.get_mut().expect("no holder of this lock panics");
        self.counter.fetch_sub(text.stored_bytes() as u64, Ordering::Relaxed);
    }
}

/// The bases of one kind for one writer.
pub(super) struct Bases {
    // By the hash of what a workload's objects share: two that meet there only share a base badly.
    groups: HashMap<u64, Group, FoldState>,
    sweep_at: usize,
    sweep_at_bytes: u64,
    patch: Vec<u8>,
}

struct Group {
    base: Arc<Base>,
    misses: u8,
}

impl Bases {
    pub fn new() -> Self {
        Bases {
            groups: HashMap::with_hasher(FoldState(SEED)),
            sweep_at: SWEEP_FLOOR,
            sweep_at_bytes: SWEEP_BYTES,
            patch: Vec::new(),
        }
    }

    /// Gives back what one object leaves to the next.
    pub fn rest(&mut self) {
        self.patch = Vec::new();
    }

    /// The object as what differs from others of its workload, which have the same `group`, or `None` when that is too
    /// much.
    pub fn derive(
        &mut self,
        json: &[u8],
        group: u64,
        packer: Option<&mut Packer>,
        counter: &Arc<AtomicU64>,
    ) -> Option<Body> {
        let length = u32::try_from(json.len()).ok()?;
        if json.len() < SHORTEST_TEXT {
            return None;
        }
        if let Some(group) = self.groups.get_mut(&group) {
            self.patch.clear();
            if group.base.difference(json, json.len() / LARGEST_PART, &mut self.patch) {
                group.misses = 0;
                let base = group.base.clone();
                return Some(Body::Derived { base, length, patch: self.patch[..].into() });
            }
            group.misses += 1;
            if group.misses < MISSES {
                return None;
            }
        }
        let text = packer.map_or_else(|| Body::Raw(json.into()), |packer| packer.pack(json));
        let base = Base::new(text, counter);
        self.patch.clear();
        difference(json, json, usize::MAX, &mut self.patch);
        self.keep(group, base.clone(), counter);
        Some(Body::Derived { base, length, patch: self.patch[..].into() })
    }

    fn keep(&mut self, group: u64, base: Arc<Base>, counter: &AtomicU64) {
        // By their bytes too: one large object whose labels change at each update leaves a group each time.
        let bytes = || counter.load(Ordering::Relaxed);
        if self.groups.len() >= self.sweep_at || bytes() >= self.sweep_at_bytes {
            self.groups.retain(|_, group| Arc::strong_count(&group.base) > 1);
            self.sweep_at = (self.groups.len() * 2).max(SWEEP_FLOOR);
            self.sweep_at_bytes = (bytes() * 2).max(SWEEP_BYTES);
        }
        self.groups.insert(group, Group { base, misses: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::cache::body::dictionary::Dictionary;

    /// A pod of a workload: `shape` decides its spec, `number` what is its own.
    fn pod(shape: u64, number: u64) -> Vec<u8> {
        let words: String = (0..200).map(|word| format!("{:x} ", (shape + 7) * 31 * (word + 3))).collect();
        format!(r#"{{"metadata":{{"ownerReferences":[{{"uid":"o"}}],"name":"{number}"}},"spec":"{words}"}}"#)
            .into()
    }

    /// A body in the group of one workload.
    fn derive(
        bases: &mut Bases,
        json: &[u8],
        packer: Option<&mut Packer>,
        counter: &Arc<AtomicU64>,
    ) -> Option<Body> {
        let body = bases.derive(json, 1, packer, counter);
        if let Some(body) = &body {
            assert_eq!(body.expand(), json);
        }
        body
    }

    #[test]
    fn siblings_share_a_base_and_a_workload_that_changed_gets_another() {
        let (mut bases, counter) = (Bases::new(), Arc::default());
        let own = |body: Option<Body>| body.map(|body| body.stored_bytes());
        assert!(own(derive(&mut bases, &pod(1, 1), None, &counter)).unwrap() < 10);
        assert!(own(derive(&mut bases, &pod(1, 2), None, &counter)).unwrap() < 20);
        let one = counter.load(Ordering::Relaxed);
        assert_eq!(one, pod(1, 1).len() as u64);
        assert_eq!(own(derive(&mut bases, &pod(2, 3), None, &counter)), None, "another shape");
        let kept = derive(&mut bases, &pod(2, 4), None, &counter);
        assert!(own(derive(&mut bases, &pod(2, 5), None, &counter)).unwrap() < 20);
        assert_eq!(
            counter.load(Ordering::Relaxed),
            pod(2, 4).len() as u64,
            "the first base is gone with its users"
        );
        drop((kept, bases));
        assert_eq!(counter.load(Ordering::Relaxed), 0);
        assert_eq!(own(derive(&mut Bases::new(), b"{}", None, &counter)), None, "too short");
    }

    #[test]
    fn a_large_object_whose_labels_change_leaves_no_bases() {
        let (mut bases, counter) = (Bases::new(), Arc::default());
        let text = "x".repeat(100_000);
        let mut kept = None;
        for state in 0..100_u64 {
            let json = format!(
                r#"{{"metadata":{{"name":"large","labels":{{"state":"{state}"}}}},"data":"{text}"}}"#
            );
            kept = bases.derive(json.as_bytes(), state, None, &counter);
        }
        assert!(kept.is_some());
        let bytes = counter.load(Ordering::Relaxed);
        assert!(bytes < 400_000, "{bytes}");
    }

    #[test]
    fn a_base_is_compressed_while_few_share_it() {
        let samples: Vec<_> = (0..200).map(|number| pod(number, number)).collect();
        let mut packer = Packer::new(Dictionary::train(&samples).unwrap()).unwrap();
        let (mut bases, counter) = (Bases::new(), Arc::default());
        let mut kept = Vec::new();
        let raw = pod(1, 0).len() as u64;
        for number in 0..20 {
            kept.extend(derive(&mut bases, &pod(1, number), Some(&mut packer), &counter));
            let is_raw = counter.load(Ordering::Relaxed) >= raw;
            assert_eq!(is_raw, number as usize >= SHARED, "{number}");
        }
        for body in &kept {
            let Body::Derived { base, .. } = body else { panic!("it was derived") };
            base.pack(&mut packer);
        }
        assert_eq!(counter.load(Ordering::Relaxed), raw, "many share it");
        kept.truncate(2);
        let Body::Derived { base, .. } = &kept[0] else { panic!("it was derived") };
        base.pack(&mut packer);
        assert!(counter.load(Ordering::Relaxed) < raw / 2);
        assert_eq!(kept[1].expand(), pod(1, 1));
    }
}
