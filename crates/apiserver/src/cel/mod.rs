//! `x-kubernetes-validations`: rules in CEL, checked against the schema when a CRD is written and run when an object
//! is.
//!
//! Costs are not estimated: a rule is refused for what it says, never for what it might cost. A function that
//! Kubernetes has and the evaluator lacks is a refusal too.

mod check;
mod evaluate;
mod functions;
mod macros;
mod rules;
mod source;
#[cfg(test)]
mod tests;
mod ty;
mod value;

pub use rules::Rules;
