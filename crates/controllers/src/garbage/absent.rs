//! Owners known not to exist, so that two thousand dependents of one lost owner do not ask two thousand times.

use std::collections::{BTreeSet, VecDeque};

use super::graph::{Identity, Owner, Uid};

/// Number of absent owners that are remembered. The oldest is forgotten first, which costs one request.
pub const CAPACITY: usize = 500;

/// The place in which an owner was looked for. A uid is unique, but references may name wrong places for it.
type Place = (Uid, String, String, Option<String>);

/// A bounded memory of owners that were looked for and not found.
#[derive(Debug, Default)]
pub struct AbsentOwners {
    known: BTreeSet<Place>,
    order: VecDeque<Place>,
}

impl AbsentOwners {
    pub fn insert(&mut self, owner: &Owner, namespace: Option<&str>) {
        let place = place(&owner.uid, &owner.kind, &owner.name, namespace);
        if self.known.insert(place.clone()) {
            self.order.push_back(place);
        }
        while self.order.len() > CAPACITY {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// An object was seen to go.
    pub fn insert_gone(&mut self, identity: &Identity) {
        let owner = Owner {
            api_version: identity.api_version.to_string(),
            kind: identity.kind.to_string(),
            name: identity.name.to_string(),
            uid: identity.uid.clone(),
            blocks: false,
        };
        self.insert(&owner, identity.namespace.as_deref());
    }

    /// Whether the owner was looked for, in the dependent's namespace or outside all.
    pub fn contains(&self, owner: &Owner, namespace: Option<&str>) -> bool {
        let at = |namespace| self.known.contains(&place(&owner.uid, &owner.kind, &owner.name, namespace));
        at(namespace) || at(None)
    }
}

fn place(uid: &Uid, kind: &str, name: &str, namespace: Option<&str>) -> Place {
    (uid.clone(), kind.to_owned(), name.to_owned(), namespace.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let owner = |n: usize| Owner {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: "x".into(),
            uid: n.to_string().into(),
            blocks: false,
        };
        let mut absent = AbsentOwners::default();
        (0..=CAPACITY).for_each(|n| absent.insert(&owner(n), Some("ns")));
        assert!(!absent.contains(&owner(0), Some("ns")));
        assert!(absent.contains(&owner(1), Some("ns")));
        assert!(absent.contains(&owner(CAPACITY), Some("ns")));
        assert!(!absent.contains(&owner(CAPACITY), Some("other")));
    }
}
