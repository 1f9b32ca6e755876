//! What kube-apiserver refuses, in its words.
//!
//! Each function returns what is wrong; nothing means that the object is good. Causes come in the real
//! server's order; where that is the order of a Go map, which is none, they are sorted by key.

mod meta;

use serde_json::Value;

pub use meta::annotations;

use crate::cause::Cause;
use crate::facts::Facts;

/// A new object, after defaults and [`crate::prepare::create`].
pub fn create(facts: &Facts, object: &Value) -> Vec<Cause> {
    let mut causes = meta::create(facts, object, facts.name);
    causes.extend(meta::standard_finalizers(facts, object));
    if causes.is_empty() {
        causes = meta::create(facts, object, crate::name::NameRule::PathSegment);
    }
    causes
}

/// A changed object, after [`crate::prepare::update`].
pub fn update(facts: &Facts, object: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = meta::create(facts, object, crate::name::NameRule::PathSegment);
    causes.extend(meta::update(object, old));
    once(causes)
}

/// The common and the kind's own checks overlap; each cause is told once.
fn once(causes: Vec<Cause>) -> Vec<Cause> {
    let mut told: Vec<Cause> = Vec::with_capacity(causes.len());
    for cause in causes {
        if !told.contains(&cause) {
            told.push(cause);
        }
    }
    told
}

/// A changed status, after [`crate::prepare::update_status`].
pub fn update_status(facts: &Facts, object: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = meta::create(facts, object, crate::name::NameRule::PathSegment);
    causes.extend(meta::update(object, old));
    once(causes)
}
