//! Admission policies: expressions that decide on a write without a webhook.
//!
//! The server compiles a policy when the policy is written. Policies run where webhooks run, before them, with no
//! lock held.

mod authorize;
mod evaluate;
mod params;

use serde_json::Value;
use setpoint_api::cause::Cause;
use setpoint_kinds::validate::{self, Use};

use setpoint_cel::Compiler;

pub(crate) use authorize::authorize;
pub(crate) use evaluate::evaluate;

/// The errors of a policy that is about to be written.
pub(crate) fn validate(policy: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut compiler = compiler(policy);
    validate::admission_policy(policy, old, &mut |purpose, text| fault(&mut compiler, purpose, text))
}

/// The errors of a policy for mutations that is about to be written.
pub(crate) fn validate_mutating(policy: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut compiler = compiler(policy);
    validate::mutating_admission_policy(policy, old, &mut |purpose, text| fault(&mut compiler, purpose, text))
}

fn compiler(policy: &Value) -> Compiler {
    let spec = &policy["spec"];
    let composed = spec["variables"].as_array().is_some_and(|variables| !variables.is_empty());
    Compiler::new(!spec["paramKind"].is_null(), composed)
}

fn fault(compiler: &mut Compiler, purpose: Use<'_>, text: &str) -> Option<String> {
    let compiled = match purpose {
        Use::MatchCondition => compiler.condition(text),
        Use::Variable(name) => compiler.variable(name, text),
        Use::Validation => compiler.validation(text),
        Use::Message => compiler.message(text),
        Use::AuditAnnotation => compiler.annotation(text),
    };
    compiled.fault().map(str::to_owned)
}
