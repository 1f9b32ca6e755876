//! `x-kubernetes-validations`: rules in CEL. They are checked against the schema when a CRD is written, and run when
//! an object is written. The expressions of admission policies run over requests.
//!
//! The cost of a rule is estimated from the bounds in the schema, and a rule that may cost too much is refused. The
//! estimate is approximate ([docs/cel.md](../../../docs/cel.md)). The cost of an evaluation is counted while it runs,
//! and an evaluation that costs too much ends.

mod rules;
mod composition;
mod conditions;
mod program;
mod cost;
mod depth;
mod variables;
mod tokens;
mod value;
mod evaluate;
mod check;
mod functions;
mod more;
mod source;
mod ty;
mod collect;
mod budget;
mod macros;
#[cfg(test)]
mod tests;

pub use composition::{Compiler, Evaluation, Facts};
pub use conditions::{Condition, hold};
pub use rules::Rules;
