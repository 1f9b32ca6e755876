//! `x-kubernetes-validations`: rules in CEL. They are checked against the schema when a CRD is written, and run when
//! an object is written. The expressions of admission policies run over requests.
//!
//! The costs are those of kube-apiserver, to the unit ([docs/cel.md](../../../docs/cel.md)). A rule that may cost too
//! much is refused when it is written, and an evaluation that does cost too much ends.

mod rules;
mod validate;
mod composition;
mod conditions;
mod program;
mod cost;
mod depth;
mod tokens;
mod plan;
mod value;
mod run;
mod turns;
mod attribute;
mod operate;
mod evaluate;
mod more;
mod charge;
mod outcome;
mod estimate;
mod estimate_call;
mod declaration;
mod size;
mod lower;
mod tree;
mod check_macro;
mod check;
mod macros;
mod functions;
mod source;
mod ty;
mod types;
mod budget;
#[cfg(test)]
mod tests;

pub use composition::{Compiler, Evaluation, Facts};
pub use conditions::{Condition, hold};
pub use rules::Rules;
