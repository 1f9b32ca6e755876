//! Admission policies: expressions that judge what is about to be written, without a webhook.
//!
//! They are compiled when they are written, and judge where webhooks do, before them: with no lock held.

mod authorize;
mod judge;
mod params;

use serde_json::Value;
use setpoint_api::cause::Cause;
use setpoint_kinds::validate::{self, Use};

use setpoint_cel::Compiler;

pub(crate) use authorize::authorize;
pub(crate) use judge::judge;

/// What is wrong with a policy that is about to be written.
pub(crate) fn validate(policy: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &policy["spec"];
    let composed = spec["variables"].as_array().is_some_and(|variables| !variables.is_empty());
    let mut compiler = Compiler::new(!spec["paramKind"].is_null(), composed);
    validate::admission_policy(policy, old, &mut |purpose, text| {
        let compiled = match purpose {
            Use::MatchCondition => compiler.condition(text),
            Use::Variable(name) => compiler.variable(name, text),
            Use::Validation => compiler.validation(text),
            Use::Message => compiler.message(text),
            Use::AuditAnnotation => compiler.annotation(text),
        };
        compiled.fault().map(str::to_owned)
    })
}
