//! The authors of the newest writes of this process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::revision::Revision;

/// How many authors are remembered. Beyond that the oldest are forgotten, and a later reconcile names the version alone.
const MOST: usize = 4096;

/// The author of a write: a reconcile of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The field owner, which is the controller's name unless it chose another.
    pub field_owner: Arc<str>,
    /// The id of the reconcile.
    pub reconcile_id: Arc<str>,
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in reconcile {}", self.field_owner, self.reconcile_id)
    }
}

/// By the revision of the write.
#[derive(Default)]
pub(crate) struct Authors(Mutex<BTreeMap<Revision, Author>>);

impl Authors {
    pub(super) fn note(&self, revision: Revision, author: Author) {
        let mut authors = self.0.lock().expect("no holder of this lock panics");
        authors.insert(revision, author);
        if authors.len() > MOST {
            authors.pop_first();
        }
    }

    pub(crate) fn get(&self, revision: Revision) -> Option<Author> {
        self.0.lock().expect("no holder of this lock panics").get(&revision).cloned()
    }
}
