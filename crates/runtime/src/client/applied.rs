//! Field sets that the server told of in its answers to applies.
//!
//! The cache keeps the field sets of an owner for objects that it was told of after the owner's first apply. An apply
//! that changes nothing brings no event, so without this the objects from before would be applied again and again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use serde::Deserialize;

use crate::cache::{ManagedFields, ManagedFieldsJson, Uid};
use crate::revision::{Revision, parse_revision};

/// How many field sets are remembered. Beyond it the oldest is dropped: its object is applied once more.
const MAX_APPLIED: usize = 4096;

#[derive(Default)]
pub(crate) struct Applied(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    told: BTreeMap<Place, Told>,
    /// The oldest first.
    order: VecDeque<Place>,
}

/// Uid, owner and subresource.
type Place = (Uid, String, String);

struct Told {
    revision: Revision,
    fields: ManagedFields,
}

/// The part of an answer that says who owns what.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    uid: String,
    resource_version: String,
    #[serde(borrow, default)]
    managed_fields: Vec<ManagedFieldsJson<'a>>,
}

impl Applied {
    /// Remembers what an owner applied, by the server's answer.
    pub(super) fn learn(&self, owner: &str, answer: &[u8]) {
        let Ok(Answer { metadata }) = serde_json::from_slice::<Answer<'_>>(answer) else { return };
        let Some(revision) = parse_revision(&metadata.resource_version) else { return };
        let entries = metadata.managed_fields.into_iter().map(ManagedFieldsJson::compact);
        let mut memory = self.0.lock().expect("no holder of this lock panics");
        for fields in entries.filter(|fields| fields.manager == owner && fields.operation == "Apply") {
            let place = (Uid::new(&metadata.uid), owner.to_owned(), fields.subresource.clone());
            if memory.told.insert(place.clone(), Told { revision, fields }).is_none() {
                memory.order.push_back(place);
            }
        }
        while memory.order.len() > MAX_APPLIED {
            if let Some(oldest) = memory.order.pop_front() {
                memory.told.remove(&oldest);
            }
        }
    }

    /// What an owner owns of an object in this very state, if an answer told it.
    pub(super) fn find(
        &self,
        owner: &str,
        uid: &Uid,
        revision: Revision,
        subresource: &str,
    ) -> Option<ManagedFields> {
        let memory = self.0.lock().expect("no holder of this lock panics");
        let place = (uid.clone(), owner.to_owned(), subresource.to_owned());
        memory.told.get(&place).filter(|told| told.revision == revision).map(|told| told.fields.clone())
    }
}
