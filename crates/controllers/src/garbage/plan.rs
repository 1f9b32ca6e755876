//! Decides what happens to one object.

use super::graph::{Graph, Object, Owner, Uid};
use super::{FOREGROUND, ORPHAN};

/// Knowledge about an owner that is not in the graph as the reference names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The owner exists.
    Present,
    /// The owner exists and waits for the deletion of its dependents.
    Waiting,
    /// The owner does not exist.
    Absent,
    /// A namespaced owner of a cluster-scoped object. Such an owner cannot exist, but the reference asks for no
    /// deletion either.
    WrongScope,
    /// The owner was not looked up yet.
    Unknown,
}

/// The effect of a deletion on the dependents of the deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Nothing,
    /// These owners must be looked up first.
    Verify(Vec<Owner>),
    /// The last blocking dependent is gone: let the object go.
    RemoveForegroundFinalizer,
    /// The object waits for these.
    LookAt(Vec<Uid>),
    /// Some owners remain; the references to the others go.
    DropReferences(Vec<Uid>),
    /// Delete; first stop blocking the owners if the object stands in a circle of waiting ones.
    Delete {
        policy: Policy,
        unblock: bool,
    },
}

/// Decides about one object. `presence` answers for owners that the graph does not show as named.
pub fn evaluate(graph: &Graph, uid: &str, presence: impl Fn(&Object, &Owner) -> Presence) -> Verdict {
    let Some(object) = graph.get(uid) else { return Verdict::Nothing };
    if object.deletes_dependents() {
        return wait_for_dependents(graph, uid);
    }
    if object.deleting || object.owners.is_empty() {
        return Verdict::Nothing;
    }
    let owners: Vec<(&Owner, Presence)> = object
        .owners
        .iter()
        .map(|owner| (owner, known(graph, object, owner).unwrap_or_else(|| presence(object, owner))))
        .collect();
    let those = |wanted: &[Presence]| -> Vec<&Owner> {
        owners.iter().filter(|(_, presence)| wanted.contains(presence)).map(|(owner, _)| *owner).collect()
    };
    if !those(&[Presence::WrongScope]).is_empty() {
        return Verdict::Nothing;
    }
    let unknown = those(&[Presence::Unknown]);
    if !unknown.is_empty() {
        return Verdict::Verify(unknown.into_iter().cloned().collect());
    }
    let waiting = those(&[Presence::Waiting]);
    if !those(&[Presence::Present]).is_empty() {
        let lost = those(&[Presence::Waiting, Presence::Absent]);
        return match lost.is_empty() {
            true => Verdict::Nothing,
            false => Verdict::DropReferences(lost.into_iter().map(|owner| owner.uid.clone()).collect()),
        };
    }
    if !waiting.is_empty() && graph.dependents(uid).next().is_some() {
        let unblock = graph.dependents(uid).any(Object::deletes_dependents);
        return Verdict::Delete { policy: Policy::Foreground, unblock };
    }
    let policy = match object {
        object if object.has_finalizer(ORPHAN) => Policy::Orphan,
        object if object.has_finalizer(FOREGROUND) => Policy::Foreground,
        _ => Policy::Background,
    };
    Verdict::Delete { policy, unblock: false }
}

fn wait_for_dependents(graph: &Graph, uid: &str) -> Verdict {
    let mut blocking = graph.blocking(uid).peekable();
    if blocking.peek().is_none() {
        return Verdict::RemoveForegroundFinalizer;
    }
    let idle = blocking.filter(|dependent| !dependent.deletes_dependents());
    Verdict::LookAt(idle.map(|dependent| dependent.identity.uid.clone()).collect())
}

/// Returns the graph's answer: the owner, if the graph has it exactly where the reference says.
fn known(graph: &Graph, object: &Object, owner: &Owner) -> Option<Presence> {
    let found = graph.owner_as_named(&object.identity, owner)?;
    Some(if found.deletes_dependents() { Presence::Waiting } else { Presence::Present })
}
