//! The applied configurations, and the field sets from the server's answers.
//!
//! The cache keeps the field sets of an owner for objects that it learnt of after the owner's first apply. An apply
//! that changes nothing brings no event, so without this the objects from before would be applied again and again. So
//! would configurations that the server keeps in other words (`1000m` as `1`) or adds defaults to: applied once more to
//! the very state that the server answered with, they change nothing.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};

use serde::Deserialize;
use serde_json::Value;

use crate::informer::{ManagedFields, ManagedFieldsJson, Object, Uid};
use crate::revision::{Revision, parse_revision};

/// How many field sets are remembered. Beyond it the oldest is dropped: its object is applied once more.
const MAX_APPLIED: usize = 4096;

#[derive(Default)]
pub(crate) struct Applied(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    answers: BTreeMap<Place, Known>,
    /// The oldest first.
    order: VecDeque<Place>,
}

/// Uid, owner and subresource.
type Place = (Uid, String, String);

struct Known {
    revision: Revision,
    epoch: u64,
    fields: ManagedFields,
    config: u64,
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
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Remembers what an owner applied, by the server's answer. `epoch` is the cache's: a server that was restored gives the
    /// same revisions anew.
    pub(super) fn learn(
        &self,
        (owner, subresource): (&str, &str),
        config: &Value,
        answer: &[u8],
        epoch: u64,
    ) {
        let Ok(Answer { metadata }) = serde_json::from_slice::<Answer<'_>>(answer) else { return };
        let Some(revision) = parse_revision(&metadata.resource_version) else { return };
        let mut entries = metadata.managed_fields.into_iter().map(ManagedFieldsJson::compact);
        let own = |fields: &ManagedFields| {
            fields.manager == owner && fields.operation == "Apply" && fields.subresource == subresource
        };
        let Some(fields) = entries.find(own) else { return };
        let place = (Uid::new(&metadata.uid), owner.to_owned(), subresource.to_owned());
        let mut memory = self.lock();
        let answer = Known { revision, epoch, fields, config: digest(config) };
        if memory.answers.insert(place.clone(), answer).is_none() {
            memory.order.push_back(place);
        }
        while memory.order.len() > MAX_APPLIED {
            if let Some(oldest) = memory.order.pop_front() {
                memory.answers.remove(&oldest);
            }
        }
    }

    /// The fields that an owner owns of an object in this very state, if an answer had them.
    pub(super) fn find(&self, owner: (&str, &str), object: &Object) -> Option<ManagedFields> {
        self.lock().at(owner, object).map(|answer| answer.fields.clone())
    }

    /// Whether an object in this very state is the server's answer to this configuration.
    pub(super) fn was_answered(
        &self,
        owner: (&str, &str),
        object: &Object,
        config: &Value,
        epoch: u64,
    ) -> bool {
        let memory = self.lock();
        let answer = memory.at(owner, object).filter(|answer| answer.epoch == epoch);
        answer.is_some_and(|answer| answer.config == digest(config))
    }
}

impl Memory {
    fn at(&self, (owner, subresource): (&str, &str), object: &Object) -> Option<&Known> {
        let place = (object.uid().clone(), owner.to_owned(), subresource.to_owned());
        self.answers.get(&place).filter(|answer| answer.revision == object.revision())
    }
}

fn digest(config: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    config.hash(&mut hasher);
    hasher.finish()
}
